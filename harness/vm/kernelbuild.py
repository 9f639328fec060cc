# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Builds kernels with checks that no distribution enables, from Debian's source.

A kernel is configured from fragments of vm/kernels/, built once, and cached under the hash
of its options, source and compiler. An addition is a folder of vm/kernels/ with patches and
with files for the source; it is part of the hash. The kernel's release ends in the first
digits of the hash, so that no kernel loads another one's modules. Its directory has:

    bzImage           to boot
    vmlinux.debug     the same, uncompressed, with debug information, for stacks and dumps
    lib/modules/      its modules, without debug information
    headers/          to build other modules with
    config            its configuration

An interrupted build is continued. Such a kernel is booted compressed: QEMU could enter the
uncompressed one directly (PVH), but it would access memory before KASAN's shadow memory
exists, and end silently.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kfabric.errors import BuildError, SetupError
from kfabric.vm import cache, kconfig, tools
from kfabric.vm.cache import Log
from kfabric.vm.kernel import Kernel
from kfabric.vm.steps import Steps

CONFIGS = "vm/kernels"
ADDED = "tree"
"""The folder of an addition that mirrors the kernel's source."""
HEADERS = "headers"
FORMAT = "3"
"""Incremented when the same inputs would build a different kernel."""

SPACE_MIB = 6000
BUILD_SECONDS = 4 * 3600.0
TOOL_SECONDS = 900.0
KEY_DIGITS = 8

_STEPS = 1900
"""Files to compile and link, unless an earlier build has counted them."""

_SOURCE_FILES = ("Makefile", "arch/x86/Makefile*", "include", "arch/x86/include", "scripts")
_MADE_FILES = (".config", "Module.symvers", *_SOURCE_FILES[2:], "tools/objtool/objtool")


@dataclass(frozen=True)
class Recipe:
    """The inputs of a kernel."""

    name: str
    """From vm/versions.toml; part of the release."""
    package: str
    """Debian's package with the source."""
    configs: tuple[str, ...]
    """Names of the fragments, without their suffix."""
    additions: tuple[str, ...] = ()
    """Names of its additions."""


def directory(source: Path, recipe: Recipe) -> Path:
    """The kernel's directory, built or not; installs the build tools, or raises SetupError."""
    options = kconfig.read(fragments(source, recipe))
    packages = {*cache.list_lines(source / "vm/packages-kernel.txt"), recipe.package}
    argv = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\n", *packages]
    states = subprocess.run(argv, check=False, capture_output=True, text=True).stdout.split("\n")
    if sum(state.startswith("ii") for state in states) < len(packages):
        tools.install(source, "kernel", "kernels cannot be built")
    version = _run(["dpkg-query", "-W", "-f", "${Version}", recipe.package])
    # Other versions of these build a different kernel.
    compiler = "\n".join(
        _run([tool, "--version"]).split("\n")[0] for tool in ("gcc", "ld", "pahole")
    )
    digest = key(options, version, compiler, added(additions(source, recipe)))
    return cache.root() / "kernels" / f"{recipe.name}-{digest}"


def ensure(source: Path, recipe: Recipe, log: Log) -> Path:
    """The kernel's directory, built if it is not in the cache.

    Raises:
        SetupError: an option is not set as asked, or a build tool is missing.
        BuildError: the compiler failed.
    """
    target = directory(source, recipe)
    if not target.exists():
        with cache.locked(target.parent / "lock", BUILD_SECONDS):
            if not target.exists():
                options = kconfig.read(fragments(source, recipe))
                _Build(recipe, options, additions(source, recipe), target, log).run()
    return target


def load(target: Path) -> Kernel:
    return Kernel((target / "release").read_text().strip(), target, target / "bzImage")


def fragments(source: Path, recipe: Recipe) -> list[Path]:
    return [source / CONFIGS / f"{name}.config" for name in recipe.configs]


def additions(source: Path, recipe: Recipe) -> list[Path]:
    """The folders of a kernel's additions."""
    return [source / CONFIGS / name for name in recipe.additions]


def added(folders: Iterable[Path]) -> str:
    """The files of additions as one text."""
    files = [
        (path.relative_to(folder), path.read_text())
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    return "".join(f"{name}\n{text}\n" for name, text in files)


def add(folder: Path, tree: Path) -> None:
    """Add an addition to the source of a kernel; raises BuildError if a patch does not fit."""
    for path in sorted(folder.glob("*.patch")):
        _run(["patch", "-d", str(tree), "-p1", "-F0", "-N", "-s", "-i", str(path)])
    if (folder / ADDED).exists():
        shutil.copytree(folder / ADDED, tree, dirs_exist_ok=True)


def key(options: kconfig.Options, version: str, tools: str, additions: str) -> str:
    """A hash of the inputs; comments and the order of the fragments do not matter.

    The versions are those of the source package, and of the compiler and other tools.
    """
    ordered = kconfig.text(dict(sorted(options.items())))
    parts = (FORMAT, ordered, version, tools, *([additions] if additions else []))
    return cache.key(part.encode() for part in parts)


class _Build:
    """One build, from the packed source to the directory in the cache."""

    def __init__(
        self,
        recipe: Recipe,
        options: kconfig.Options,
        additions: Iterable[Path],
        target: Path,
        log: Log,
    ) -> None:
        self._recipe = recipe
        self._additions = additions
        self._target = target
        self._log = log
        self._work = target.with_name(f"{target.name}.work")
        self._tree = self._work / "source"
        self._out = self._work / "out"
        self._make = ["make", f"-j{os.cpu_count() or 1}", "-C", f"{self._tree}", f"O={self._out}"]
        local = f"-{recipe.name}-{target.name.rpartition('-')[2][:KEY_DIGITS]}"
        self._options = {**options, "CONFIG_LOCALVERSION": f'"{local}"'}

    def run(self) -> None:
        """Build it, continuing an interrupted build."""
        began = time.monotonic()
        cache.require_plain(self._work)
        cache.require_space(self._work, SPACE_MIB)
        self._unpack()
        self._configure()
        self._log(f"kernel {self._recipe.name}: compiling; this takes long, but only once")
        self._compile()
        self._install()
        shutil.rmtree(self._work)
        minutes = (time.monotonic() - began) / 60
        self._log(f"kernel {self._recipe.name}: done in {minutes:.0f} min, {self._target}")

    def _unpack(self) -> None:
        if self._tree.exists():
            return
        package = self._recipe.package
        self._log(f"kernel {self._recipe.name}: unpacking {package}")
        half = self._tree.with_suffix(".tmp")
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir()
        archive = f"/usr/src/{package}.tar.xz"
        _run(["tar", "-C", str(half), "--strip-components=1", "-xf", archive])
        for folder in self._additions:
            add(folder, half)
        half.rename(self._tree)

    def _configure(self) -> None:
        """Start from nothing: only the asked options and those they select are set."""
        self._out.mkdir(exist_ok=True)
        asked = self._out / "asked.config"
        config = self._out / ".config"
        wanted = kconfig.text(self._options)
        if not (config.exists() and asked.exists() and asked.read_text() == wanted):
            asked.write_text(wanted)
            _run([*self._make, "-s", f"KCONFIG_ALLCONFIG={asked}", "allnoconfig"])
        try:
            kconfig.check(self._options, config.read_text())
        except SetupError:
            asked.unlink()
            raise

    def _compile(self) -> None:
        memory = self._target.with_name(f"{self._recipe.name}.steps")
        known = int(memory.read_text()) if memory.exists() else _STEPS
        with Steps(f"kernel {self._recipe.name}", known, self._log) as steps:
            for line in _lines([*self._make, "bzImage", "modules"], BUILD_SECONDS):
                if is_step(line):
                    steps.advance()
        # Continuing an interrupted build takes fewer steps.
        memory.write_text(str(max(known, steps.done)))

    def _install(self) -> None:
        with cache.building(self._target) as scratch:
            install = [f"INSTALL_MOD_PATH={scratch}", "INSTALL_MOD_STRIP=1"]
            _run([*self._make, "-s", *install, "modules_install"])
            release = (self._out / "include/config/kernel.release").read_text().strip()
            for link in ("build", "source"):
                (scratch / "lib/modules" / release / link).unlink(missing_ok=True)
            shutil.copyfile(self._out / "vmlinux", scratch / "vmlinux.debug")
            shutil.copyfile(self._out / "arch/x86/boot/bzImage", scratch / "bzImage")
            collect_headers(self._tree, self._out, scratch / HEADERS)
            shutil.copyfile(self._out / ".config", scratch / "config")
            (scratch / "release").write_text(release)


def collect_headers(tree: Path, out: Path, target: Path) -> None:
    """Copy what module builds need, from the source and from the build, into a directory."""
    for base, patterns in ((tree, _SOURCE_FILES), (out, _MADE_FILES)):
        for path in (found for pattern in patterns for found in sorted(base.glob(pattern))):
            place = target / path.relative_to(base)
            if path.is_dir():
                unused = shutil.ignore_patterns("*.o", "*.cmd", "dt-bindings", ".tmp*")
                shutil.copytree(path, place, symlinks=True, dirs_exist_ok=True, ignore=unused)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, place)


def is_step(line: str) -> bool:
    """Whether a line of make's output reports a new file."""
    word = line.split(maxsplit=1)
    return bool(word) and word[0] in ("CC", "AS", "AR", "LD", "HOSTCC")


def _lines(argv: Sequence[str], seconds: float) -> Iterator[str]:
    """A command's output, line by line; BuildError if it fails or is not done in time."""
    seen: list[str] = []
    with subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", "--", *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        limit = threading.Timer(seconds, process.terminate)
        limit.start()
        try:
            for line in process.stdout:
                seen.append(line)
                yield line.rstrip("\n")
            process.wait()
        finally:
            limit.cancel()
            process.terminate()
    if process.returncode == -signal.SIGTERM:
        raise BuildError(f"not done after {seconds:g} s: {' '.join(argv)}")
    if process.returncode:
        raise BuildError(
            tools.first_error("".join(seen)), "see the log above", console="".join(seen[-40:])
        )


def _run(argv: Sequence[str]) -> str:
    """Run a tool that prints little; its output. Raises BuildError."""
    return "\n".join(_lines(argv, TOOL_SECONDS))
