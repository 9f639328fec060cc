# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Builds LNet of a source tree of Lustre for a guest's kernel, against our headers.

The tree is copied to ``build/lustre`` and built there by its own scripts: it stays as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

from kfabric.errors import SetupError, UsageError
from kfabric.terminal.slow import Running
from kfabric.vm import cache, kbuild, supply, tools, userbuild
from kfabric.vm.cache import Log
from kfabric.vm.source import SOURCE
from kfabric.vm.spec import Image, Variant

#: What a tree of Lustre has, among others; old trees lack kfilnd.
MARKS = ("autogen.sh", "lnet/klnds/kfilnd")
#: What a build in the tree itself has left.
MADE = (".a", ".la", ".lo")
#: For each of its scripts.
SECONDS = 3600.0
SHOWN_LINES = 30
ROOM = SOURCE / "build/lustre"
OPTIONS = (
    "--disable-server",
    "--disable-tests",
    "--disable-iokit",
    "--disable-doc",
    "--disable-manpages",
    "--without-zfs",
)


class NoLustreTree(UsageError, label="no source tree of Lustre"):
    """The directory lacks something, or cannot be read."""


class OtherCompiler(UsageError, label="Lustre cannot be built"):
    """The guest's kernel needs another compiler than this machine's."""


def ensure(tree: Path, image: Image, variant: Variant, log: Log) -> Path:
    """Build a tree for an image unless that is done; our own modules are built already.

    :param tree: of Lustre's sources; absolute.
    :returns: the built copy.
    :raises UsageError: it is none, or the guest has the kernel of another Debian.
    :raises SetupError: one of its scripts has failed.
    """
    headers = supply.of(SOURCE, image.version, log).headers(image.release)
    if not headers.at_home:
        what = f"kernel {image.release} needs another compiler than this machine's"
        raise OtherCompiler(what, "see docs/lustre.md")
    target = ROOM / cache.key([bytes(tree)]) / image.builds
    wanted = partial(_key, image, variant, tree)
    with kbuild.building_if_stale(target, wanted) as stale:
        if stale:
            ours = kbuild.directory(SOURCE, image.builds, variant) / "src" / kbuild.CORE
            log(f"{tree}: building LNet for {image.release}, which takes minutes")
            _copy(tree, target / "src")
            _build(target / "src", headers.build, ours, log)
    return target / "src"


def _key(image: Image, variant: Variant, tree: Path) -> str:
    """A hash of all that is built from, and of how."""
    try:
        ours = userbuild.key(SOURCE, image, variant, tree)
    except OSError as error:
        raise NoLustreTree(f"{error.filename}: {error.strerror}") from None
    return cache.key([ours.encode(), Path(__file__).read_bytes()])


def check(tree: Path) -> None:
    """Raise NoLustreTree unless a directory looks like a tree of Lustre."""
    if missing := [mark for mark in MARKS if not (tree / mark).exists()]:
        raise NoLustreTree(f"{tree} has no {missing[0]}", "see docs/lustre.md")


def _copy(tree: Path, copy: Path) -> None:
    cache.remove(copy)
    try:
        shutil.copytree(tree, copy, symlinks=True, ignore=_unneeded)
    except (OSError, shutil.Error) as error:
        raise NoLustreTree(f"{tree} cannot be copied: {error}") from None


def _unneeded(_: str, names: list[str]) -> list[str]:
    """Of these names, those that no build needs."""
    return [name for name in names if not kbuild.is_source(name) or name.endswith(MADE)]


def _build(copy: Path, kernel: Path, ours: Path, log: Log) -> None:
    configure = ["./configure", *OPTIONS, f"--with-linux={kernel}", f"--with-kfi={ours}"]
    make = ["make", f"-j{os.cpu_count() or 1}"]
    for argv in (["./autogen.sh"], configure, [*make, "modules"], [*make, "lnet/utils"]):
        shown = " ".join(word for word in argv if not word.startswith("-"))
        with Running(f"{shown} in {copy}", log):
            _run(argv, shown, copy)


def _run(argv: list[str], shown: str, copy: Path) -> None:
    try:
        # Lustre's makefiles take the place from PWD, as a shell sets it.
        done = tools.captured(["env", f"PWD={copy}", *argv], SECONDS, cwd=copy)
    except subprocess.TimeoutExpired:
        raise SetupError(f"{shown} in {copy}: not done after {SECONDS:g} s") from None
    output = copy.with_name("log")
    output.write_text(done.stdout)
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-SHOWN_LINES:])
        raise SetupError(f"{shown} failed in {copy}", f"its output is in {output}", console=last)
