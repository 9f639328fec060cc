# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests that have booted once and were frozen; later ones of the same kind go on from there.

A boot takes seconds under TCG, and more on a kernel with checks; to thaw one takes about
one. What is kept, by the hash of all that decides how the boot goes:

    state           memory and devices, as QEMU's migration writes them
    disk.qcow2      what the boot has written to the image
    console.log     what the kernel said

Nothing of the host is mounted in it yet (QEMU does not migrate 9p), it has no name, and
its wall clock stands; the agent is told when it is thawed (Kind.BEGIN).
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import KfabricError
from harness.vm import cache

KEPT = 6
"""Kinds of guests that are kept for one image: memory, CPUs and parameters may differ."""
PREPARATION = Path(__file__).with_name("warmup.py").read_text()
"""What a test process would begin with, and is done before the guest is frozen."""
SPACE_MIB = 2000
TOOL_SECONDS = 60.0


class FreezeError(KfabricError):
    """A guest that has booted cannot be frozen."""

    label = "not frozen"


@dataclass(frozen=True)
class Frozen:
    """A frozen guest.

    :param directory: with what is kept of it.
    """

    directory: Path

    @property
    def state(self) -> Path:
        """Memory and devices."""
        return self.directory / "state"

    @property
    def disk(self) -> Path:
        """What was written to the image; read-only from now on."""
        return self.directory / "disk.qcow2"

    @property
    def console(self) -> Path:
        """What the kernel said up to here."""
        return self.directory / "console.log"

    def discard(self) -> None:
        """Remove it: no guest can begin with it."""
        cache.remove(self.directory)


def key(argv: Sequence[str]) -> str:
    """The kind of a guest.

    :param argv: QEMU's, without what differs from guest to guest; paths in it are those of
        the cache, which have the hash of their contents in their names.
    """
    words = (*argv, PREPARATION, _qemu())
    return cache.key(word.encode() for word in words)


def ensure(root: Path, name: str, freeze: Callable[[Frozen], None]) -> Frozen:
    """The frozen guest of a kind, made if there is none.

    :param root: directory of all those with the same image.
    :param name: from :func:`key`.
    :param freeze: boots one and freezes it into an empty directory; its exceptions pass.
    """
    target = root / name
    with cache.locked(root / "lock"):
        if not target.exists():
            cache.require_space(root, SPACE_MIB)
            with cache.building(target) as scratch:
                freeze(Frozen(scratch))
            _forget(root)
        os.utime(target)
    return Frozen(target)


def make_disk(image: Path, disk: Path) -> None:
    """An empty overlay: what is written goes there, what is read comes from the image."""
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image), str(disk)]
    subprocess.run(argv, check=True, timeout=TOOL_SECONDS)


def _forget(root: Path) -> None:
    """Remove those that nobody has used for longest."""
    kinds = [path for path in root.iterdir() if path.is_dir()]
    kinds.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for old in kinds[KEPT:]:
        cache.remove(old)


@functools.cache
def _qemu() -> str:
    """Its version: another one may not read the state."""
    argv = ["qemu-system-x86_64", "--version"]
    return subprocess.check_output(argv, text=True, timeout=TOOL_SECONDS).splitlines()[0]
