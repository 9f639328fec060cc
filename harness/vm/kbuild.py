# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Builds the kernel modules for a guest's kernel, with that kernel's headers and compiler.

The sources are copied to ``build/kmod/<release>/<variant>/src`` and built there: the source
tree stays clean, and variants stay apart. The directory above ``src`` gets the modules,
without debug information. The place of a user's kernel has a longer name (``Image.builds``).
Guests for a user's module need only the modules of CORE, which are built before the others.
Each of the others is built again only if it changed, or what CORE exports to it.
"""

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from kfabric.errors import BuildError
from kfabric.terminal.slow import Running
from kfabric.vm import cache, kerneltree, supply, versions
from kfabric.vm.cache import Log
from kfabric.vm.headers import Headers
from kfabric.vm.spec import Image, Variant
from kfabric.vm.tools import captured, first_error
from kfabric.vm.versions import Tree, Version

BUILD_SECONDS = 600.0
CORE = "kmod"
OTHERS = ("examples/*/Kbuild", "tests/kmod/*/Kbuild", "tests/gallery/*/Kbuild")
"""Modules that may use the exports of CORE."""
STRICT = "W=1"
"""Enables more warnings of the compiler, modpost and kernel-doc."""

# Made by a build in a source directory, or by tools. A copy would mislead make: an object may
# be of another kernel.
_MADE = (".o", ".ko", ".mod", ".mod.c", ".cmd", ".pyc")
_MADE_NAMES = ("Module.symvers", "modules.order", "__pycache__")
# Begins the name of a file with the key of whatever was built.
_STAMP = "stamp"
_WARNING = re.compile(r"\b(warning|error):|^WARNING:|^ERROR:")
_NO_SOURCE = re.compile(r"No rule to make target '(.+)\.o', needed by '(.*?)'")
# Warnings about the host, not the sources: make's clock, another compiler than the kernel's.
_HOST = re.compile(r"^make(\[\d+\])?: |^warning: the compiler differs")


def directory(source: Path, builds: str, variant: Variant) -> Path:
    return source / "build/kmod" / builds / variant.value


def lacking(version: Version) -> list[str]:
    """The options without which our modules cannot be built for a kernel."""
    return versions.lacks(version, kerneltree.KFABRIC)


def require(version: Version) -> None:
    """Raise NoKernelTree if our modules cannot be built for a kernel."""
    versions.require(version, kerneltree.KFABRIC, "kfabric's modules cannot be built")


def ensure(source: Path, image: Image, variant: Variant, log: Log, *, others: bool = True) -> Path:
    """The directory with up-to-date modules, built if the sources have changed.

    Args:
        others: also build those of OTHERS.

    Raises:
        BuildError: the compiler or modpost failed, or warned.
        SetupError: there are no headers for that kernel.
        NoKernelTree: a user's kernel lacks what the modules need.
    """
    require(image.version)
    target = directory(source, image.builds, variant)
    core, *rest = trees(source)
    wanted = partial(key, source, kernel_key(image), variant)
    hooks = "with" if variant is Variant.TEST else "without"
    built = f"for {image.release}, {hooks} test hooks"
    with building_if_stale(target, partial(wanted, core), _stamp(core)) as stale:
        if stale:
            log(f"modules: building kfabric's {built}")
            _build(source, target, image, variant, core, log)
    if not others:
        return target
    _remove_gone(target, rest)
    exported = exports(source, image, variant)
    for tree in rest:
        with building_if_stale(target, partial(wanted, tree, exported), _stamp(tree)) as stale:
            if stale:
                log(f"modules of {tree}: building {built}")
                _build(source, target, image, variant, tree, log)
    return target


def _remove_gone(target: Path, rest: Iterable[Path]) -> None:
    """Remove the modules of directories that are gone; ``rest`` are those that are there."""
    copy = target / "src"
    with cache.locked(target / "lock"):
        for gone in {*_others(copy)} - {*rest}:
            (target / _stamp(gone)).unlink(missing_ok=True)
            for module in (copy / gone).glob("*.ko"):
                (target / module.name).unlink(missing_ok=True)
            shutil.rmtree(copy / gone)


def _stamp(tree: Path) -> str:
    return "-".join((_STAMP, *tree.parts))


def exports(source: Path, image: Image, variant: Variant) -> list[bytes]:
    """All that modules of others can see of CORE: its headers, and its symbols if it was built."""
    headers = [path for path in _files(source, Path(CORE)) if path.suffix == ".h"]
    symbols = directory(source, image.builds, variant) / "src" / CORE / "Module.symvers"
    found = [symbols.read_bytes()] if symbols.exists() else []
    return [path.read_bytes() for path in headers] + found


@contextlib.contextmanager
def building_if_stale(target: Path, key: Callable[[], str], name: str = _STAMP) -> Iterator[bool]:
    """Lock a directory of modules; yields whether its stamp differs from the sources' key."""
    with cache.locked(target / "lock"):
        wanted = key()
        stamp = target / name
        stale = not stamp.exists() or stamp.read_text() != wanted
        if stale:
            stamp.unlink(missing_ok=True)
        yield stale
        stamp.write_text(wanted)


def make_argv(build: Path, tree: Path, variant: Variant, symvers: Path | None) -> list[str]:
    argv = ["make", "-s", f"-j{os.cpu_count() or 1}", "-C", str(build), f"M={tree}"]
    argv += ["KFABRIC_TEST=1"] if variant is Variant.TEST else []
    argv += [f"KBUILD_EXTRA_SYMBOLS={symvers}"] if symvers else []
    return [*argv, "modules"]


def tree_command(
    headers: Headers, copy: Path, tree: Path, variant: Variant, *more: str
) -> list[str]:
    """The command that builds one of our trees in a copy; all but CORE use its exports."""
    symvers = copy / CORE / "Module.symvers" if tree != Path(CORE) else None
    argv = make_argv(headers.build, copy / tree, variant, symvers)
    return headers.command([*argv, *more], copy)


def trees(source: Path) -> list[Path]:
    """Module directories, relative to the checkout, in build order."""
    return [Path(CORE), *_others(source)]


def _others(source: Path) -> list[Path]:
    found = [kbuild.parent for glob in OTHERS for kbuild in sorted(source.glob(glob))]
    return [tree.relative_to(source) for tree in found]


def sync(source: Path, copy: Path) -> None:
    """Update ``copy`` with the sources; unchanged files keep their time stamps."""
    wanted = {path.relative_to(source) for tree in trees(source) for path in _files(source, tree)}
    copy_changed(source, copy, wanted)
    for stale in [p for p in copy.rglob("*.[chS]") if p.relative_to(copy) not in wanted]:
        if not stale.name.endswith(".mod.c"):
            stale.unlink()


def copy_changed(source: Path, copy: Path, paths: Iterable[Path]) -> None:
    """Copy the files whose contents differ; paths are relative to both directories."""
    for path in paths:
        target = copy / path
        if not target.exists() or target.read_bytes() != (source / path).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, target)


def forget_linked(tree: Path) -> None:
    """Remove all modules below a directory, so that make links them again.

    A module whose source is gone would stay otherwise. kbuild also compares a module only
    with its own objects, not with changed exports of other modules.
    """
    for made in [*tree.rglob("*.ko"), *tree.rglob("Module.symvers")]:
        made.unlink()


def _build(
    source: Path, target: Path, image: Image, variant: Variant, tree: Path, log: Log
) -> None:
    """Build one of the trees in a copy; CORE comes before all others."""
    cache.require_plain(source)
    headers = supply.of(source, image.version, log).headers(image.release)
    # Warnings are errors, but not every kernel's headers are clean.
    strict = [] if isinstance(image.version.origin, Tree) else [STRICT]
    copy = target / "src"
    sync(source, copy)
    if (copy / tree).exists():
        forget_linked(copy / tree)
    with Running(f"make in {tree}", log, partial(_compiled, copy / tree, time.time_ns())):
        output = make(tree_command(headers, copy, tree, variant, *strict), copy)
    if strict and (found := warnings(output, copy)):
        # The next build starts from nothing: compiled objects do not warn again.
        shutil.rmtree(copy / tree)
        console = output.replace(f"{copy}/", "")
        raise BuildError(found[0], "see the log above", console=console)
    collect(copy, target)


def _compiled(tree: Path, since: int) -> str:
    """How many files below a directory were compiled since a time, in ns, of how many."""
    sources = [path for path in tree.rglob("*.c") if not path.name.endswith(".mod.c")]
    made = 0
    for path in sources:
        # make replaces them meanwhile.
        with contextlib.suppress(FileNotFoundError):
            made += path.with_suffix(".o").stat().st_mtime_ns >= since
    return f"{made} of {len(sources)} files"


def warnings(log: str, copy: Path, shown: str = "") -> list[str]:
    """The warnings in a build log, each once; ``shown`` replaces ``copy`` in paths."""
    lines = (line.replace(f"{copy}/", shown) for line in log.splitlines() if not _HOST.match(line))
    return list(dict.fromkeys(line for line in lines if _WARNING.search(line)))


def collect(copy: Path, target: Path) -> None:
    """Replace the modules in ``target`` by those built below ``copy``, stripped."""
    for old in target.glob("*.ko"):
        old.unlink()
    strip(copy.rglob("*.ko"), target)


def strip(modules: Iterable[Path], target: Path) -> None:
    """Copy modules into a directory, without debug information."""
    for module in modules:
        subprocess.run(["strip", "-g", "-o", target / module.name, module], check=True)


def make(argv: list[str], copy: Path, shown: str = "") -> str:
    """Run make; its output, or a BuildError in which ``shown`` replaces ``copy`` in paths."""
    try:
        done = captured(argv, BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise BuildError(f"not done after {BUILD_SECONDS:g} s: {' '.join(argv)}") from None
    if done.returncode:
        log = done.stdout.replace(f"{copy}/", shown)
        raise BuildError(_reason(log, shown), "see the log above", console=log)
    return done.stdout


def _reason(log: str, top: str) -> str:
    """What explains a failure of make best; ``top``: paths in the log may begin with it."""
    if missing := _NO_SOURCE.search(log):
        name, wanted = (path.removeprefix(top) for path in missing.groups())
        naming = f"{wanted} needs" if wanted.endswith(".o") else "obj-m names"
        return f"{naming} {name}.o, and there is no {name}.c"
    return first_error(log)


def is_source(name: str) -> bool:
    """Whether a build may need a file or a directory of this name: it is not hidden or made."""
    return not name.startswith(".") and not name.endswith(_MADE) and name not in _MADE_NAMES


def _files(source: Path, tree: Path) -> Iterator[Path]:
    paths = (path for path in sorted((source / tree).rglob("*")) if path.is_file())
    return (path for path in paths if all(map(is_source, path.relative_to(source).parts)))


def kernel_key(image: Image) -> str:
    """The kernel's part of the key of modules."""
    origin = image.version.origin
    if isinstance(origin, Tree):
        return f"{image.release} {kerneltree.identity(origin.directory)}"
    return image.release


def kind(kernel: str, variant: Variant) -> list[bytes]:
    """What all builds of a variant for a kernel depend on."""
    return [kernel.encode(), variant.value.encode(), Path(__file__).read_bytes()]


def key(
    source: Path, kernel: str, variant: Variant, tree: Path, exported: Iterable[bytes] = ()
) -> str:
    """A hash of everything that the modules of a tree are made from.

    Args:
        kernel: :func:`kernel_key`.
        tree: relative to the checkout.
        exported: :func:`exports`, for another tree than CORE.
    """
    parts = [*kind(kernel, variant), *exported]
    for path in _files(source, tree):
        parts += [str(path.relative_to(source)).encode(), path.read_bytes()]
    return cache.key(parts)
