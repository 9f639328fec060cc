# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A user's kernel module (an upper-layer protocol, ULP) and its tests, run in our guests.

    kfabric test --ulp ~/my_ulp --ulp-param addr={address} -- ~/my_ulp/tests

The guest mounts the user's directory tree read-only, at the same path. The module is built
against our headers, and loaded after ours once the guest has booted; the guest's part is
:mod:`harness.guest.ulp`.
"""

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import GuestError, GuestSplat, ModuleLoadError
from harness.names import ULP, ULP_PARAMETERS
from harness.vm import kbuild, prepare, ulpbuild
from harness.vm.cache import Log
from harness.vm.machine import Vm
from harness.vm.spec import Image, Variant, VmSpec
from harness.vm.ulpbuild import UlpError

# A directory with one of these is the root of a project.
_MARKS = (".git", "pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg")
# A mount here would hide files that the guest itself needs.
_GUESTS_OWN = frozenset(
    Path("/") / name
    for name in "bin boot dev etc lib lib64 opt proc root run sbin sys tmp usr var".split()
) | {Path("/")}


@dataclass(frozen=True)
class Ulp:
    """Modules to test."""

    directory: Path
    """Has their Kbuild; absolute."""
    root: Path
    """Mounted in guests; contains the directory and the tests."""
    parameters: tuple[str, ...] = ()
    """Words ``[module.]name=value``; ``{address}`` is that of the RDMA link."""
    load: bool = True
    """Load them after boot; otherwise the tests do."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ulp",
        type=Path,
        metavar="DIR",
        help="also build the kernel module in DIR against ours and load it (docs/ulp.md)",
    )
    parser.add_argument(
        "--ulp-param",
        action="append",
        default=[],
        metavar="[MODULE.]NAME=VALUE",
        help="parameter of DIR's module; {address} is that of the guest's RDMA link",
    )
    parser.add_argument(
        "--ulp-unloaded", action="store_true", help="build the module, but let the tests load it"
    )


def of(args: argparse.Namespace, paths: Iterable[Path] = ()) -> Ulp | None:
    """The ULP that the options describe, if any; ``paths`` are its tests. Raises UlpError."""
    if args.ulp is None:
        return None
    directory = args.ulp.resolve()
    ulpbuild.check(directory)
    found = root(directory, [path.resolve() for path in paths])
    return Ulp(directory, found, tuple(args.ulp_param), not args.ulp_unloaded)


def to_json(ulp: Ulp) -> str:
    """The value of the pytest plugin's option --kfabric-ulp."""
    return json.dumps([str(ulp.directory), str(ulp.root), ulp.parameters, ulp.load])


def from_json(text: str | None) -> Ulp | None:
    """Parse the plugin's option; None if it is empty."""
    if not text:
        return None
    directory, root, parameters, load = json.loads(text)
    return Ulp(Path(directory), Path(root), tuple(parameters), load)


def root(directory: Path, paths: Sequence[Path]) -> Path:
    """The directory that guests must mount for these tests of this directory's modules.

    It is the root of their project, as pytest would find it, or else their common parent.
    Raises UlpError if that would hide the guest's own files.
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


def build(image: Image, variant: Variant, ulp: Ulp, log: Log) -> Path:
    """Build our modules and the ULP's for an image; the directory with the ULP's."""
    kbuild.ensure(prepare.SOURCE, image, variant, log)
    return ulpbuild.ensure(prepare.SOURCE, image, variant, ulp.directory, log)


def with_ulp(spec: VmSpec, image: Image, ulp: Ulp, log: Log) -> VmSpec:
    """The same guest with the ULP's modules, which are built, and its tests."""
    variant = spec.variant or Variant.TEST
    modules = build(image, variant, ulp, log)
    env = {**spec.env, ULP: str(modules), ULP_PARAMETERS: json.dumps(ulp.parameters)}
    shares = () if ulp.root == prepare.SOURCE else (ulp.root,)
    return replace(spec, variant=variant, shares=(*spec.shares, *shares), env=env)


def load(guest: Vm, ulp: Ulp) -> None:
    """Load our modules and the ULP's in a running guest; errors as of :func:`run_loader`."""
    argv = ["python3", "-m", "harness.guest.ulp", *([] if ulp.load else ["--unloaded"])]
    run_loader(guest, argv, f"while the modules of {ulp.directory} were loaded")


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
