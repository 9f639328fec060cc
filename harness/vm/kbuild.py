# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Builds the kernel modules for a guest's kernel, with what goes with that kernel.

The sources are copied to ``build/kmod/<release>/<variant>/src`` and built there,
so that the source tree stays clean and variants do not mix. The modules end up,
without debug information, in the directory above ``src``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness.errors import BuildError
from harness.vm import cache, supply
from harness.vm.headers import Headers
from harness.vm.spec import Image, Variant

BUILD_SECONDS = 600.0
CORE = "kmod"
OTHERS = ("examples/*/Kbuild", "tests/kmod/*/Kbuild", "tests/gallery/*/Kbuild")
"""Modules that may use the exports of CORE."""
STRICT = "W=1"
"""Has the compiler, modpost and kernel-doc warn of more."""

_WARNING = re.compile(r"\b(warning|error):|^WARNING:|^ERROR:")
# What the host is like, not what the sources are: make's clock, another compiler than
# the kernel's.
_HOST = re.compile(r"^make(\[\d+\])?: |^warning: the compiler differs")

Log = Callable[[str], None]


def directory(source: Path, release: str, variant: Variant) -> Path:
    """Where the built modules are."""
    return source / "build/kmod" / release / variant.value


def ensure(source: Path, image: Image, variant: Variant, log: Log) -> Path:
    """The directory with up-to-date modules; builds what has changed.

    :raises BuildError: the compiler or modpost refused, or warned.
    :raises SetupError: there are no headers for that kernel.
    """
    release = image.release
    target = directory(source, release, variant)
    with cache.locked(target / "lock"):
        wanted = key(source, release, variant)
        stamp = target / "stamp"
        if not stamp.exists() or stamp.read_text() != wanted:
            log(f"modules: building for {release} ({variant.value})")
            stamp.unlink(missing_ok=True)
            headers = supply.of(source, image.version, log).headers(release)
            _build(source, target, headers, variant)
            stamp.write_text(wanted)
    return target


def make_argv(build: Path, tree: Path, variant: Variant, symvers: Path | None) -> list[str]:
    """The make command for one module directory."""
    argv = ["make", "-s", f"-j{os.cpu_count() or 1}", "-C", str(build), f"M={tree}"]
    argv += ["KFABRIC_TEST=1"] if variant is Variant.TEST else []
    argv += [f"KBUILD_EXTRA_SYMBOLS={symvers}"] if symvers else []
    return [*argv, "modules"]


def trees(source: Path) -> list[Path]:
    """Module directories, relative to the checkout, in build order."""
    found = [kbuild.parent for glob in OTHERS for kbuild in sorted(source.glob(glob))]
    return [Path(CORE), *(tree.relative_to(source) for tree in found)]


def sync(source: Path, copy: Path) -> None:
    """Make ``copy`` hold the sources; unchanged files keep their time stamps."""
    wanted = {path.relative_to(source) for tree in trees(source) for path in _files(source, tree)}
    for path in wanted:
        target = copy / path
        if not target.exists() or target.read_bytes() != (source / path).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, target)
    for stale in [p for p in copy.rglob("*.[chS]") if p.relative_to(copy) not in wanted]:
        if not stale.name.endswith(".mod.c"):
            stale.unlink()


def forget_linked(tree: Path) -> None:
    """Have make link all modules below a directory anew.

    Those that no source makes any more would stay; and kbuild looks at a module's own
    objects alone, not at what the exports of others have become since.
    """
    for made in [*tree.rglob("*.ko"), *tree.rglob("Module.symvers")]:
        made.unlink()


def _build(source: Path, target: Path, headers: Headers, variant: Variant) -> None:
    cache.require_plain(source)
    copy = target / "src"
    sync(source, copy)
    forget_linked(copy)
    symvers = copy / CORE / "Module.symvers"
    for tree in trees(source):
        extra = symvers if tree != Path(CORE) else None
        argv = [*make_argv(headers.build, copy / tree, variant, extra), STRICT]
        refuse_warnings(make(headers.command(argv, copy), copy), copy)
    collect(copy, target)


def refuse_warnings(log: str, copy: Path) -> None:
    """Take a build that warned for one that failed; the next one begins anew.

    :param log: what make said of the sources in ``copy``.
    :raises BuildError: with the warnings.
    """
    if found := warnings(log, copy):
        # What is compiled already would warn no more.
        shutil.rmtree(copy)
        raise BuildError(found[0], "see the log above", console=log.replace(f"{copy}/", ""))


def warnings(log: str, copy: Path) -> list[str]:
    """The lines of a build log that warn, each once, with the checkout's paths."""
    lines = (line.replace(f"{copy}/", "") for line in log.splitlines() if not _HOST.match(line))
    return list(dict.fromkeys(line for line in lines if _WARNING.search(line)))


def collect(copy: Path, target: Path) -> None:
    """Put the modules that were built below ``copy`` into a directory, stripped."""
    for old in target.glob("*.ko"):
        old.unlink()
    strip(copy.rglob("*.ko"), target)


def strip(modules: Iterable[Path], target: Path) -> None:
    """Copy modules into a directory, without debug information."""
    for module in modules:
        subprocess.run(["strip", "-g", "-o", target / module.name, module], check=True)


def make(argv: list[str], copy: Path, shown: str = "") -> str:
    """Run make, with errors that name files relative to ``copy``.

    :param shown: comes before these names.
    :returns: all that it said.
    :raises BuildError: it failed, or took too long.
    """
    try:
        done = subprocess.run(
            argv,
            check=False,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BUILD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"not done after {BUILD_SECONDS:g} s: {' '.join(argv)}") from None
    if done.returncode:
        log = done.stdout.replace(f"{copy}/", shown)
        raise BuildError(first_error(log), "see the log above", console=log)
    return done.stdout


def first_error(log: str) -> str:
    """The first line of a build log that says what is wrong."""
    for line in log.splitlines():
        if re.search(r"\b(error|ERROR|undefined!|No rule to make)", line):
            return line.strip()
    return (log.strip().splitlines() or ["make fails without a word"])[-1]


def _files(source: Path, tree: Path) -> Iterator[Path]:
    return (path for path in sorted((source / tree).rglob("*")) if path.is_file())


def key(source: Path, release: str, variant: Variant) -> str:
    """What the modules are made from, as one word."""
    parts = [release.encode(), variant.value.encode(), Path(__file__).read_bytes()]
    for tree in trees(source):
        for path in _files(source, tree):
            parts += [str(path.relative_to(source)).encode(), path.read_bytes()]
    return cache.key(parts)
