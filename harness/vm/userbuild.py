# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Builds a user's kernel modules for a guest's kernel; they may call ours.

Their directory is copied to ``build/user/<name>/<release>/<variant>/src`` and built there: it
stays clean, and kernels stay apart. The file ``order`` next to the modules lists them in
loading order.
"""

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from kfabric.errors import ExitStatus, KfabricError
from kfabric.names import MODULE_ORDER
from kfabric.terminal.slow import Running
from kfabric.vm import cache, kbuild, supply
from kfabric.vm.cache import Log
from kfabric.vm.headers import Headers
from kfabric.vm.spec import Image, Variant

FILES = ("Kbuild", "Makefile")
"""What kbuild reads: the first that exists."""

# A call of ours needs a header of ours, or at least the function's name.
_CALLS = re.compile(rb"\bkfid?_\w|\bkfabric\w*\.h\b|\bKFABRIC_")
_OBJ_M = re.compile(r"\bobj-m\b")
_BUILT_FROM = (".c", ".h", ".S", ".mk")
# In the section .modinfo, and a symbol: module_param_cb() puts nothing into that section.
_PARAMETER = re.compile(rb"\0parm(?:type)?=(\w+):|\b__param_str_(\w+)\0")


class UserModuleError(KfabricError, status=ExitStatus.USAGE, label="wrong usage"):
    """There is no such module to test, or not with these options."""


def can_build(directory: Path) -> bool:
    """Whether kbuild finds something to read in a directory."""
    return any((directory / name).is_file() for name in FILES)


def module_file(directory: Path) -> str:
    """The name of the file that makes a directory that of a module; empty if it is none."""
    for name in FILES:
        if (directory / name).is_file():
            text = (directory / name).read_text(errors="replace")
            return name if _OBJ_M.search(text) else ""
    return ""


def check(directory: Path) -> None:
    """Raise UserModuleError if nothing can be built in a directory."""
    if not directory.is_dir():
        raise UserModuleError(
            f"{directory} is no directory",
            "--module takes that of a module's Kbuild, --modprobe the name of a module",
        )
    if not can_build(directory):
        raise UserModuleError(
            f"{directory} has no Kbuild and no Makefile", "see docs/own-module.md"
        )


def calls_kfabric(source: Path, tree: Path) -> bool:
    """Whether the files from which a directory's modules are built mention ours."""
    return any(
        _CALLS.search((tree / path).read_bytes())
        for path in files(source, tree)
        if path.suffix in _BUILT_FROM or path.name in FILES
    )


def ensure(source: Path, image: Image, variant: Variant, tree: Path, log: Log) -> Path:
    """The directory with the up-to-date modules of ``tree``.

    If they call ours, and the kernel can have ours, those must be built already.

    Raises:
        UserModuleError: its Kbuild or Makefile names no module.
        BuildError: the compiler or modpost failed.
    """
    check(tree)
    name = f"{tree.name}-{cache.key([bytes(tree)])}"
    target = source / "build/user" / name / image.builds / variant.value
    wanted = partial(key, source, image, variant, tree)
    with kbuild.building_if_stale(target, wanted) as stale:
        if stale:
            log(f"modules of {tree}: building for {image.release}")
            headers = supply.of(source, image.version, log).headers(image.release)
            with Running(f"make in {tree}", log):
                output = _build(source, target, headers, variant, tree)
            for warning in kbuild.warnings(output, target / "src", f"{tree}/"):
                log(warning)
    return target


def key(source: Path, image: Image, variant: Variant, tree: Path) -> str:
    """A hash of everything that the modules of a user's directory are made from."""
    parts = [*kbuild.kind(kbuild.kernel_key(image), variant), Path(__file__).read_bytes()]
    parts += kbuild.exports(source, image, variant) if calls_kfabric(source, tree) else []
    for path in files(source, tree):
        parts += [str(path).encode(), (tree / path).read_bytes()]
    return cache.key(parts)


def files(source: Path, tree: Path) -> Iterator[Path]:
    """The files that a build may need, relative to ``tree``: none that is hidden or made."""
    for place, directories, names in os.walk(tree, followlinks=True):
        here = Path(place)
        # The user's tree may contain our checkout.
        directories[:] = sorted(
            name
            for name in directories
            if kbuild.is_source(name) and (here / name).resolve() != source
        )
        chosen = sorted(filter(kbuild.is_source, names))
        yield from ((here / name).relative_to(tree) for name in chosen)


def make_argv(headers: Headers, copy: Path, variant: Variant, core: Path | None) -> list[str]:
    """The make command; ``core`` is our built tree, with include/ and Module.symvers."""
    if core is None:
        return kbuild.make_argv(headers.build, copy, variant, None)
    argv = kbuild.make_argv(headers.build, copy, variant, core / "Module.symvers")
    # Our headers are found even by a Kbuild that does not use KFABRIC_DIR.
    return [*argv, f"KFABRIC_DIR={core}", f"KCFLAGS=-I{core}/include"]


def _build(source: Path, target: Path, headers: Headers, variant: Variant, tree: Path) -> str:
    """Build the modules in a copy; the output of make."""
    cache.require_plain(target)
    copy = target / "src"
    wanted = set(files(source, tree))
    kbuild.copy_changed(tree, copy, wanted)
    for stale in set(files(source, copy)) - wanted:
        (copy / stale).unlink()
    kbuild.forget_linked(copy)
    core = kbuild.directory(source, target.parent.name, variant) / "src" / kbuild.CORE
    # It does not exist if the kernel cannot have our modules.
    found = core.exists() and calls_kfabric(source, tree)
    made = make_argv(headers, copy, variant, core if found else None)
    argv = headers.command(made, source / "build")
    # Errors in the copy are shown as errors in the user's files.
    output = kbuild.make(argv, copy, f"{tree}/")
    kbuild.collect(copy, target)
    names = order(copy)
    if not names:
        raise UserModuleError(f"{tree} builds no module", "its Kbuild or Makefile has no obj-m")
    (target / MODULE_ORDER).write_text("".join(f"{name}\n" for name in names))
    return output


def order(copy: Path) -> list[str]:
    """Names of the built modules, without .ko, in the order of obj-m."""
    built = {path.stem for path in copy.rglob("*.ko")}
    listed = copy / "modules.order"
    names = [Path(line).stem for line in listed.read_text().split()] if listed.exists() else []
    return [name for name in names if name in built]


def built(directory: Path) -> dict[str, Path]:
    """The modules that :func:`ensure` built into a directory, by the kernel's names of them."""
    files = (directory / MODULE_ORDER).read_text().split()
    return {kernel_name(file): directory / f"{file}.ko" for file in files}


def parameters(directory: Path) -> dict[str, set[str]]:
    """The parameters of each of them."""
    return {name: _parameters(file) for name, file in built(directory).items()}


def _parameters(module: Path) -> set[str]:
    found = _PARAMETER.findall(module.read_bytes())
    return {(described or symbol).decode() for described, symbol in found}


def kernel_name(file: str) -> str:
    """The kernel's name for the module in a file."""
    return file.replace("-", "_")
