# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A user's kernel module and its tests, run in our guests.

    kfabric test --module ~/my_mod --module-param count=3 -- ~/my_mod/tests
    kfabric test --modprobe ifb --module-param numifbs=3 -- ~/tests/test_ifb.py

The guest mounts the user's directory tree read-only, at the same path. The module is built for
the guest's kernel, and loaded once the guest has booted. If it uses kfabric, our modules are
built and loaded first. The guest's part is :mod:`kfabric.guest.usermodule`.
"""

import argparse
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kfabric import names
from kfabric.errors import GuestError, GuestSplat, ModuleLoadError
from kfabric.vm import kbuild, prepare, userbuild
from kfabric.vm.cache import Log
from kfabric.vm.machine import Vm
from kfabric.vm.spec import Image, Variant, VmSpec
from kfabric.vm.userbuild import UserModuleError

# A directory with one of these is the root of a project.
_MARKS = (".git", "pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg")
GUESTS_OWN = frozenset(
    Path("/") / name
    for name in "bin boot dev etc lib lib64 opt proc root run sbin sys tmp usr var".split()
) | {Path("/")}
"""A mount here would hide files that the guest itself needs."""


@dataclass(frozen=True)
class UserModule:
    """Modules to test."""

    directory: Path | None
    """Has their Kbuild; absolute. None: only modules of the image are tested."""
    root: Path
    """Mounted in guests; contains the directory and the tests."""
    parameters: tuple[str, ...] = ()
    """Words ``[module.]name=value``; ``{address}`` is that of the RDMA link."""
    load: bool = True
    """Load them after boot; otherwise the tests do."""
    modprobe: tuple[str, ...] = ()
    """Names of the image's modules that are tested, too; loaded first."""
    kfabric: bool = False
    """Whether the guest needs our modules, for them or for their tests."""

    def __str__(self) -> str:
        named = [f"the modules of {self.directory}"] if self.directory else []
        return " and ".join([*self.modprobe, *named])


def add_options(parser: argparse.ArgumentParser, module: bool = True) -> None:
    """Add the options.

    Args:
        parser: gets them.
        module: whether it gets ``--module``; otherwise the caller sets ``args.module``.
    """
    if module:
        parser.add_argument(
            "--module",
            action=_Once,
            type=Path,
            metavar="DIR",
            help="build the kernel module in DIR and load it (docs/own-module.md)",
        )
    parser.add_argument(
        "--modprobe",
        action="append",
        default=[],
        metavar="NAME",
        help="load this module of the guest's kernel; may be repeated",
    )
    parser.add_argument(
        "--module-param",
        action="append",
        default=[],
        metavar="[MODULE.]NAME=VALUE",
        help="parameter of these modules; {address} is that of an RDMA link in the guest",
    )
    parser.add_argument(
        "--module-unloaded",
        action="store_true",
        help="build them, but do not load them: the tests or CMD do",
    )


class _Once(argparse.Action):
    """Stores a value; a second one would replace it unnoticed."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if (first := getattr(namespace, self.dest)) is not None:
            parser.error(f"{option_string} takes one directory, not {first} and {values}")
        setattr(namespace, self.dest, values)


def of(args: argparse.Namespace, paths: Iterable[Path] = ()) -> UserModule | None:
    """The modules that the options describe, if any; ``paths`` are their tests.

    Raises UserModuleError.
    """
    directory = args.module.resolve() if args.module else None
    if not (directory or args.modprobe):
        if args.module_param or args.module_unloaded:
            option = "--module-param" if args.module_param else "--module-unloaded"
            raise UserModuleError(f"{option} needs a module", "give --module or --modprobe")
        return None
    for name in args.modprobe:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            what = f"--modprobe takes a name such as null_blk, not {name!r}"
            raise UserModuleError(what, "--module takes a directory")
    if directory:
        userbuild.check(directory)
    return UserModule(
        directory,
        root(directory, [path.resolve() for path in paths]),
        tuple(args.module_param),
        not args.module_unloaded,
        tuple(args.modprobe),
        any(names.ADDRESS in word for word in args.module_param)
        or (directory is not None and userbuild.calls_kfabric(prepare.SOURCE, directory)),
    )


def to_json(module: UserModule) -> str:
    """The value of the pytest plugin's option --kfabric-module."""
    directory = str(module.directory) if module.directory else None
    rest = (str(module.root), module.parameters, module.load, module.modprobe, module.kfabric)
    return json.dumps([directory, *rest])


def from_json(text: str | None) -> UserModule | None:
    """Parse the plugin's option; None if it is empty."""
    if not text:
        return None
    directory, root, parameters, load, modprobe, kfabric = json.loads(text)
    place = Path(directory) if directory else None
    return UserModule(place, Path(root), tuple(parameters), load, tuple(modprobe), kfabric)


def home(module: UserModule | None) -> Path:
    """Where the guest's commands run if it does not have the user's current directory."""
    return module.directory if module and module.directory else prepare.SOURCE


def root(directory: Path | None, paths: Sequence[Path]) -> Path:
    """The directory that guests must mount for these tests of this directory's modules.

    It is the root of their project, as pytest would find it, or else their common parent.
    Raises UserModuleError if that would hide the guest's own files.
    """
    wanted = [path for path in paths if not path.is_relative_to(prepare.SOURCE)]
    wanted += [directory] if directory else []
    if all(path.is_relative_to(prepare.SOURCE) for path in wanted):
        return prepare.SOURCE
    common = Path(os.path.commonpath([path if path.is_dir() else path.parent for path in wanted]))
    for place in (common, *common.parents):
        if place in GUESTS_OWN:
            break
        if any((place / mark).exists() for mark in _MARKS):
            return place
    if common in GUESTS_OWN:
        places = ", ".join(map(str, wanted))
        what = f"{places} have only {common} in common, which is the guest's own"
        raise UserModuleError(what, "put them into one directory")
    return common


def build(image: Image, variant: Variant, module: UserModule, log: Log) -> Path | None:
    """Build the user's modules for an image, after ours if need be; the directory, if any.

    A kernel that cannot have ours still has the user's. Raises UserModuleError if none of them
    has one of the parameters.
    """
    if module.kfabric and not kbuild.lacking(image.version):
        kbuild.ensure(prepare.SOURCE, image, variant, log, others=False)
    if module.directory is None:
        return None
    place = userbuild.ensure(prepare.SOURCE, image, variant, module.directory, log)
    _aimed(module, place)
    return place


def _aimed(module: UserModule, place: Path | None) -> list[str]:
    """The parameters with the names of the modules that have them. Raises UserModuleError.

    The guest checks those of the image's modules, whose files the host does not have.
    """
    known = userbuild.parameters(place) if place else {}
    others = [userbuild.kernel_name(name) for name in module.modprobe]
    return [aimed for word in module.parameters for aimed in _aim(word, known, others)]


def _aim(word: str, known: Mapping[str, set[str]], others: Sequence[str]) -> list[str]:
    chosen, _, name = word.partition("=")[0].rpartition(".")
    owner = userbuild.kernel_name(chosen)
    if owner in others:
        return [word]
    if owner and owner not in known:
        what = f"--module-param {word}: {chosen} is no tested module"
        raise UserModuleError(what, f"there is {', '.join([*others, *known])}")
    asked = [owner] if owner else list(known)
    having = [one for one in asked if name in known[one]]
    if not having and (owner or not others):
        has = ", ".join(sorted({name for one in asked for name in known[one]})) or "none"
        what = f"--module-param {word}: {', '.join(asked)} has no parameter {name}"
        raise UserModuleError(what, f"it has {has}")
    text = word.removeprefix(f"{chosen}.")
    return [f"{one}.{text}" for one in having] or [word]


def with_module(spec: VmSpec, image: Image, module: UserModule, log: Log) -> VmSpec:
    """The same guest with the user's modules, which are built, and their tests.

    It gets our modules if it needs them, and its kernel can have them.
    """
    variant = spec.variant or Variant.TEST
    place = build(image, variant, module, log)
    env = {**spec.env, names.MODULE_PARAMETERS: json.dumps(_aimed(module, place))}
    env |= {names.MODULE_DIR: str(place)} if place else {}
    env |= {names.MODPROBE: " ".join(module.modprobe)} if module.modprobe else {}
    shares = () if module.root == prepare.SOURCE else (module.root,)
    if spec.variant is None and module.kfabric and not kbuild.lacking(image.version):
        spec = replace(spec, variant=variant, core=True)
    return replace(spec, shares=(*spec.shares, *shares), env=env)


def load(guest: Vm, module: UserModule) -> None:
    """Load the user's modules in a running guest; errors as of :func:`run_loader`."""
    argv = ["python3", "-m", "kfabric.guest.usermodule"]
    argv += [] if module.load else ["--unloaded"]
    verb = "were" if module.directory or len(module.modprobe) > 1 else "was"
    run_loader(guest, argv, f"while {module} {verb} loaded")


def run_loader(guest: Vm, argv: Sequence[str], during: str) -> str:
    """Run a program that loads modules in a guest; its output.

    An error's text ends in ``during``.

    Raises:
        ModuleLoadError: the kernel refused a module; with its reason.
        GuestError: the kernel crashed or reported a problem.
    """
    try:
        done = guest.run(argv, timeout=guest.spec.deadlines.boot)
    except GuestError as error:
        raise type(error)(f"{error.what}, {during}", error.hint, error.console) from None
    if done.rc:
        first, *rest = done.err.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise ModuleLoadError(first, console="\n".join(rest))
    if splats := guest.splats():
        raise GuestSplat(f"{splats[0].title}, {during}", console=splats[0].text)
    return done.text.strip()
