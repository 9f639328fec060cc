# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Somebody else's kernel module (an upper-layer protocol, a ULP) and its tests in our guests.

    kfabric test --ulp ~/my_ulp --ulp-param addr={address} -- ~/my_ulp/tests

Their directory tree is mounted read-only in the guest, at the same path. The module is
built against our headers and loaded when the guest has booted, behind our modules;
:mod:`harness.guest.ulp` is the guest's part of all this.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import GuestError, GuestSplat, ModuleLoadError
from harness.names import ULP, ULP_PARAMETERS
from harness.vm import kbuild, prepare, ulpbuild
from harness.vm.machine import Vm
from harness.vm.spec import Image, Variant, VmSpec
from harness.vm.ulpbuild import UlpError

# A project begins where one of these lies.
_MARKS = (".git", "pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg")
# To mount these in a guest would hide what it needs itself.
_GUESTS_OWN = frozenset(
    Path("/") / name
    for name in "bin boot dev etc lib lib64 opt proc root run sbin sys tmp usr var".split()
) | {Path("/")}


@dataclass(frozen=True)
class Ulp:
    """Modules to test.

    :param directory: has their Kbuild; absolute.
    :param root: what guests see: it holds the directory and the tests.
    :param parameters: words ``[module.]name=value``; ``{address}`` is the RDMA link's.
    :param load: behind our modules, when a guest has booted. Otherwise tests load them.
    """

    directory: Path
    root: Path
    parameters: tuple[str, ...] = ()
    load: bool = True


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a ULP."""
    parser.add_argument(
        "--ulp",
        type=Path,
        metavar="DIR",
        help="build the kernel module in DIR against ours and load it, too (docs/ulp.md)",
    )
    parser.add_argument(
        "--ulp-param",
        action="append",
        default=[],
        metavar="[MODULE.]NAME=VALUE",
        help="parameter of DIR's module; {address} is that of the guest's RDMA link",
    )
    parser.add_argument(
        "--ulp-unloaded", action="store_true", help="build it, but leave the loading to the tests"
    )


def of(args: argparse.Namespace, paths: Iterable[Path] = ()) -> Ulp | None:
    """The ULP that the options describe, if they do.

    :param paths: tests, which the guest must see, too.
    :raises UlpError: it cannot be tested.
    """
    if args.ulp is None:
        return None
    directory = args.ulp.resolve()
    ulpbuild.check(directory)
    found = root(directory, [path.resolve() for path in paths])
    return Ulp(directory, found, tuple(args.ulp_param), not args.ulp_unloaded)


def to_json(ulp: Ulp) -> str:
    """What the pytest plugin's option says of it."""
    return json.dumps([str(ulp.directory), str(ulp.root), ulp.parameters, ulp.load])


def from_json(text: str) -> Ulp:
    """Understand the plugin's option."""
    directory, root, parameters, load = json.loads(text)
    return Ulp(Path(directory), Path(root), tuple(parameters), load)


def root(directory: Path, paths: Sequence[Path]) -> Path:
    """What guests have to see for these tests of this directory's modules.

    That is the project that they lie in, as pytest would find it; without a mark of
    one, what they have in common.

    :raises UlpError: that is nothing that can be shown to a guest.
    """
    wanted = [directory, *(path for path in paths if not path.is_relative_to(prepare.SOURCE))]
    if all(path.is_relative_to(prepare.SOURCE) for path in wanted):
        return prepare.SOURCE
    common = Path(os.path.commonpath([path if path.is_dir() else path.parent for path in wanted]))
    for place in (common, *common.parents):
        if place in _GUESTS_OWN:
            break
        if any((place / mark).exists() for mark in _MARKS):
            return place
    if common in _GUESTS_OWN:
        what = f"{directory} and its tests have only {common} in common, which is the guest's own"
        raise UlpError(what, "put them into one directory")
    return common


def build(image: Image, variant: Variant, ulp: Ulp, log: kbuild.Log) -> Path:
    """Build our modules and the ULP's for an image; the directory with the ULP's.

    :raises KfabricError: something cannot be built.
    """
    kbuild.ensure(prepare.SOURCE, image, variant, log)
    return ulpbuild.ensure(prepare.SOURCE, image, variant, ulp.directory, log)


def dress(spec: VmSpec, image: Image, ulp: Ulp, log: kbuild.Log) -> VmSpec:
    """The same guest with the ULP in sight; builds it, and ours.

    :raises KfabricError: something cannot be built.
    """
    variant = spec.variant or Variant.TEST
    modules = build(image, variant, ulp, log)
    env = {**spec.env, ULP: str(modules), ULP_PARAMETERS: json.dumps(ulp.parameters)}
    shares = () if ulp.root == prepare.SOURCE else (ulp.root,)
    return replace(spec, variant=variant, shares=(*spec.shares, *shares), env=env)


def load(guest: Vm, ulp: Ulp) -> None:
    """Load our modules and the ULP's in a guest that has booted.

    :raises ModuleLoadError: one is refused; with the kernel's words.
    :raises GuestError: the kernel did not survive it, or complained.
    """
    argv = ["python3", "-m", "harness.guest.ulp", *([] if ulp.load else ["--unloaded"])]
    load_by(guest, argv, f"while the modules of {ulp.directory} were loaded")


def load_by(guest: Vm, argv: Sequence[str], what: str) -> str:
    """Run the program that loads them; what it says.

    :param what: says when, behind an error's text.
    :raises ModuleLoadError: one is refused; with the kernel's words.
    :raises GuestError: the kernel did not survive it, or complained.
    """
    try:
        done = guest.run(argv, timeout=guest.spec.deadlines.boot)
    except GuestError as error:
        raise type(error)(f"{error.what}, {what}", error.hint, error.console) from None
    if done.rc:
        first, *rest = done.err.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise ModuleLoadError(first, console="\n".join(rest))
    if splats := guest.splats():
        raise GuestSplat(f"{splats[0].title}, {what}", console=splats[0].text)
    return done.text.strip()
