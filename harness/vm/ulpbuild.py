# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Builds somebody else's kernel modules against ours, for a guest's kernel.

Their directory is copied to ``build/ulp/<name>/<release>/<variant>/src`` and built
there: it stays clean, and kernels do not mix. Beside the modules lies ``order``, with
their names in the order in which they are to be loaded.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from harness.errors import ExitStatus, KfabricError
from harness.names import ULP_ORDER
from harness.vm import cache, kbuild, supply
from harness.vm.headers import Headers
from harness.vm.spec import Image, Variant

FILES = ("Kbuild", "Makefile")
"""What kbuild reads, the first one that there is."""

# Made by a build in their directory, or by tools; a copy would mislead make.
_MADE = (".o", ".ko", ".mod", ".mod.c", ".cmd", ".pyc")
_MADE_NAMES = ("Module.symvers", "modules.order", "__pycache__")


class UlpError(KfabricError):
    """A directory has no kernel module to test, or guests cannot be shown it."""

    status = ExitStatus.USAGE
    label = "no module to test"


def check(directory: Path) -> None:
    """Refuse a directory in which nothing can be built.

    :raises UlpError: with the one reason.
    """
    if not directory.is_dir():
        raise UlpError(f"{directory} is no directory", "--ulp takes that of a module's Kbuild")
    if not any((directory / name).is_file() for name in FILES):
        raise UlpError(f"{directory} has no Kbuild and no Makefile", "see docs/ulp.md")


def directory(source: Path, release: str, variant: Variant, tree: Path) -> Path:
    """Where the modules of ``tree`` are, once they are built."""
    name = f"{tree.name}-{cache.key([bytes(tree)])}"
    return source / "build/ulp" / name / release / variant.value


def ensure(source: Path, image: Image, variant: Variant, tree: Path, log: kbuild.Log) -> Path:
    """The directory with the up-to-date modules of ``tree``; ours have to be built.

    :param tree: has their Kbuild, or a Makefile that is one.
    :raises UlpError: it names no module.
    :raises BuildError: the compiler or modpost refused; with their words.
    """
    check(tree)
    release = image.release
    target = directory(source, release, variant, tree)
    with cache.locked(target / "lock"):
        wanted = key(source, release, variant, tree)
        stamp = target / "stamp"
        if not stamp.exists() or stamp.read_text() != wanted:
            log(f"modules of {tree}: building for {release} ({variant.value})")
            stamp.unlink(missing_ok=True)
            headers = supply.of(source, image.version, log).headers(release)
            _build(source, target, headers, variant, tree)
            stamp.write_text(wanted)
    return target


def key(source: Path, release: str, variant: Variant, tree: Path) -> str:
    """What the modules are made from, as one word."""
    parts = [kbuild.key(source, release, variant).encode(), Path(__file__).read_bytes()]
    for path in files(source, tree):
        parts += [str(path).encode(), (tree / path).read_bytes()]
    return cache.key(parts)


def files(source: Path, tree: Path) -> Iterator[Path]:
    """What a build may need, relative to ``tree``; what is hidden or made is not."""
    for place, directories, names in os.walk(tree, followlinks=True):
        here = Path(place)
        # Our own checkout may lie in theirs.
        directories[:] = sorted(
            name for name in directories if _wanted(name) and (here / name).resolve() != source
        )
        yield from ((here / name).relative_to(tree) for name in sorted(filter(_wanted, names)))


def _wanted(name: str) -> bool:
    return not name.startswith(".") and not name.endswith(_MADE) and name not in _MADE_NAMES


def make_argv(headers: Headers, copy: Path, variant: Variant, core: Path) -> list[str]:
    """The make command.

    :param core: where our own modules were built: include/ and Module.symvers.
    """
    argv = kbuild.make_argv(headers.build, copy, variant, core / "Module.symvers")
    # A Kbuild that knows nothing of us finds the headers, too.
    return [*argv, f"KFABRIC_DIR={core}", f"KCFLAGS=-I{core}/include"]


def _build(source: Path, target: Path, headers: Headers, variant: Variant, tree: Path) -> None:
    cache.require_plain(target)
    copy = target / "src"
    _sync(source, tree, copy)
    core = kbuild.directory(source, target.parent.name, variant) / "src" / kbuild.CORE
    argv = headers.command(make_argv(headers, copy, variant, core), source / "build")
    # What is said of the copy is meant of their files.
    kbuild.make(argv, copy, f"{tree}/")
    kbuild.collect(copy, target)
    names = order(copy)
    if not names:
        raise UlpError(f"{tree} builds no module", "its Kbuild or Makefile has no obj-m")
    (target / ULP_ORDER).write_text("".join(f"{name}\n" for name in names))


def order(copy: Path) -> list[str]:
    """File names of the modules that were built, without .ko, in the order of obj-m."""
    built = {path.stem for path in copy.rglob("*.ko")}
    listed = copy / "modules.order"
    names = [Path(line).stem for line in listed.read_text().split()] if listed.exists() else []
    return [name for name in names if name in built]


def _sync(source: Path, tree: Path, copy: Path) -> None:
    """Make ``copy`` hold the sources; unchanged files keep their time stamps."""
    wanted = set(files(source, tree))
    for path in wanted:
        target = copy / path
        if not target.exists() or target.read_bytes() != (tree / path).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / path, target)
    for stale in set(files(source, copy)) - wanted:
        (copy / stale).unlink()
    kbuild.forget_linked(copy)
