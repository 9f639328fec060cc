# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Kernels with checks that no distribution's kernel has, built from Debian's source.

A kernel is configured from fragments of vm/kernels/, built once, and kept in the
cache under the hash of its options, source and compiler. Its release ends in the
first digits of that hash, so that no kernel takes another one's modules. What is
kept:

    bzImage           to boot
    vmlinux.debug     the same, unpacked, with debug information, for stacks and dumps
    lib/modules/      its modules, without debug information
    headers/          what other modules are built with
    config            what it was configured with

A build that is interrupted goes on where it was. Such a kernel is booted packed: the
unpacked one, which QEMU could enter directly (PVH), looks at memory there before there is
shadow memory for KASAN to look at, and ends without a word.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BuildError, SetupError
from harness.vm import cache, kconfig, tools
from harness.vm.kernel import Kernel
from harness.vm.steps import Steps

CONFIGS = "vm/kernels"
HEADERS = "headers"
"""In a kernel's directory: what modules are built with."""
FORMAT = "3"
"""Counted up when a kernel from the same inputs would come out differently."""

SPACE_MIB = 6000
BUILD_SECONDS = 4 * 3600.0
TOOL_SECONDS = 900.0
KEY_DIGITS = 8

_STEPS = 1900
"""Files to compile and link, unless an earlier build has counted them."""

_SOURCE_FILES = ("Makefile", "arch/x86/Makefile*", "include", "arch/x86/include", "scripts")
_MADE_FILES = (".config", "Module.symvers", *_SOURCE_FILES[2:], "tools/objtool/objtool")

Log = Callable[[str], None]


def root() -> Path:
    """Where built kernels are kept."""
    return cache.root() / "kernels"


@dataclass(frozen=True)
class Recipe:
    """What a kernel is built from.

    :param name: as users say it; part of the release.
    :param package: Debian's package with the source.
    :param configs: names of the fragments, without their suffix.
    """

    name: str
    package: str
    configs: tuple[str, ...]


def directory(source: Path, recipe: Recipe) -> Path:
    """Where the kernel is, or will be.

    :param source: the checkout.
    :raises SetupError: something to build it with cannot be installed.
    """
    options = kconfig.read(fragments(source, recipe))
    _require_tools(source, recipe)
    return root() / f"{recipe.name}-{key(options, _version(recipe.package), _tools())}"


def ensure(source: Path, recipe: Recipe, log: Log) -> Path:
    """The directory with the kernel, built if it is not in the cache.

    :param source: the checkout.
    :param log: called with one line for each step.
    :raises SetupError: it lacks an option, or something to build it with.
    :raises BuildError: the compiler refused.
    """
    target = directory(source, recipe)
    if not target.exists():
        with cache.locked(root() / "lock", BUILD_SECONDS):
            if not target.exists():
                options = kconfig.read(fragments(source, recipe))
                _Build(recipe, options, target, log).run()
    return target


def load(target: Path) -> Kernel:
    """The kernel in a directory of the cache."""
    return Kernel((target / "release").read_text().strip(), target, target / "bzImage")


def fragments(source: Path, recipe: Recipe) -> list[Path]:
    """The files that say how it is configured, in order."""
    return [source / CONFIGS / f"{name}.config" for name in recipe.configs]


def key(options: kconfig.Options, version: str, tools: str) -> str:
    """Name for what comes out; comments and order of the fragments do not matter.

    :param version: of the package with the source.
    :param tools: versions of compiler and the like.
    """
    ordered = kconfig.text(dict(sorted(options.items())))
    return cache.key(part.encode() for part in (FORMAT, ordered, version, tools))


class _Build:
    """One build, from the packed source to the directory in the cache."""

    def __init__(self, recipe: Recipe, options: kconfig.Options, target: Path, log: Log) -> None:
        self._recipe = recipe
        self._target = target
        self._log = log
        self._work = target.with_name(f"{target.name}.work")
        self._tree = self._work / "source"
        self._out = self._work / "out"
        local = f"-{recipe.name}-{target.name.rpartition('-')[2][:KEY_DIGITS]}"
        self._options = {**options, "CONFIG_LOCALVERSION": f'"{local}"'}

    def run(self) -> None:
        """Build it; what is left of an interrupted build is used."""
        began = time.monotonic()
        cache.require_plain(self._work)
        cache.require_space(self._work, SPACE_MIB)
        self._unpack()
        self._configure()
        self._log(f"kernel {self._recipe.name}: compiling; this takes long, but only once")
        self._compile()
        self._keep()
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
        half.rename(self._tree)

    def _configure(self) -> None:
        """From nothing, so that only what is asked for (and what that selects) is set."""
        self._out.mkdir(exist_ok=True)
        asked = self._out / "asked.config"
        config = self._out / ".config"
        wanted = kconfig.text(self._options)
        if not (config.exists() and asked.exists() and asked.read_text() == wanted):
            asked.write_text(wanted)
            _run([*self._make(), "-s", f"KCONFIG_ALLCONFIG={asked}", "allnoconfig"])
        try:
            kconfig.check(self._options, config.read_text())
        except SetupError:
            asked.unlink()
            raise

    def _make(self) -> list[str]:
        return ["make", f"-j{os.cpu_count() or 1}", "-C", str(self._tree), f"O={self._out}"]

    def _compile(self) -> None:
        memory = self._target.with_name(f"{self._recipe.name}.steps")
        known = int(memory.read_text()) if memory.exists() else _STEPS
        with Steps(f"kernel {self._recipe.name}", known, self._log) as steps:
            for line in _lines([*self._make(), "bzImage", "modules"], BUILD_SECONDS):
                if is_step(line):
                    steps.advance()
        # The rest of an interrupted build counts less.
        memory.write_text(str(max(known, steps.done)))

    def _keep(self) -> None:
        """Put what is needed later into its place, whole or not at all."""
        with cache.building(self._target) as scratch:
            install = [f"INSTALL_MOD_PATH={scratch}", "INSTALL_MOD_STRIP=1"]
            _run([*self._make(), "-s", *install, "modules_install"])
            release = (self._out / "include/config/kernel.release").read_text().strip()
            for link in ("build", "source"):
                (scratch / "lib/modules" / release / link).unlink(missing_ok=True)
            shutil.copyfile(self._out / "vmlinux", scratch / "vmlinux.debug")
            shutil.copyfile(self._out / "arch/x86/boot/bzImage", scratch / "bzImage")
            collect_headers(self._tree, self._out, scratch / HEADERS)
            shutil.copyfile(self._out / ".config", scratch / "config")
            (scratch / "release").write_text(release)


def collect_headers(tree: Path, out: Path, target: Path) -> None:
    """Copy what modules are built with into one directory.

    :param tree: the kernel's source.
    :param out: where it was built.
    """
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
    """Whether make says that a file has been made."""
    word = line.split(maxsplit=1)
    return bool(word) and word[0] in ("CC", "AS", "AR", "LD", "HOSTCC")


def first_error(lines: Sequence[str]) -> str:
    """The line of make's that says what is wrong."""
    for mark in (" error: ", "ERROR: ", "undefined reference", "No rule to make", "Error "):
        for line in lines:
            if mark in line:
                return line.strip()
    return lines[-1].strip() if lines else "make fails without a word"


def _lines(argv: Sequence[str], seconds: float) -> Iterator[str]:
    """What a command writes, line by line.

    :raises BuildError: it failed, or was not done in time.
    """
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
        raise BuildError(first_error(seen), "see the log above", console="".join(seen[-40:]))


def _run(argv: Sequence[str]) -> str:
    """Run a tool that says little; its output.

    :raises BuildError: it failed, or was not done in time.
    """
    return "\n".join(_lines(argv, TOOL_SECONDS))


def _require_tools(source: Path, recipe: Recipe) -> None:
    """Install what kernels are built with, if something is missing.

    :raises SetupError: it cannot be installed.
    """
    packages = {*cache.list_lines(source / "vm/packages-kernel.txt"), recipe.package}
    argv = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\n", *packages]
    states = subprocess.run(argv, check=False, capture_output=True, text=True).stdout.split("\n")
    if sum(state.startswith("ii") for state in states) == len(packages):
        return
    tools.install(source, "kernel", "kernels cannot be built")


def _version(package: str) -> str:
    return _run(["dpkg-query", "-W", "-f", "${Version}", package])


def _tools() -> str:
    """Versions of what decides how the code comes out."""
    return "\n".join(_run([tool, "--version"]).split("\n")[0] for tool in ("gcc", "ld", "pahole"))
