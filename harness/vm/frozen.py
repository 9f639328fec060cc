# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Frozen guests: saved once after boot, so that later guests of the same kind resume from there.

Under TCG a boot takes seconds, longer with debug checks; thawing takes about one. Each kind,
named by the hash of everything that affects the boot, keeps:

    state           memory and devices, as QEMU's migration writes them
    disk.qcow2      the boot's writes to the image
    console.log     the kernel's output

A frozen guest has no host directory mounted (QEMU does not migrate 9p), no name, a stopped
wall clock, and the same random numbers as all others of its kind. The agent sets all four
after the thaw (Kind.BEGIN).
"""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from kfabric.errors import KfabricError
from kfabric.vm import argv as qemu
from kfabric.vm import cache

KEPT = 6
"""Kinds kept for one image; memory, CPUs and parameters may differ."""
PREPARATION = Path(__file__).with_name("warmup.py").read_text()
"""The imports of a test process, run before the guest is frozen."""
SPACE_MIB = 2000
TOOL_SECONDS = 60.0


class FreezeError(KfabricError, label="not saved"):
    """A booted guest cannot be frozen."""


class Frozen:
    """The files of a frozen guest."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.disk = directory / "disk.qcow2"
        self.console = directory / "console.log"

    def discard(self) -> None:
        """Remove it, because no guest can resume from it."""
        cache.remove(self.directory)


def key(argv: Sequence[str]) -> str:
    """The kind of a guest.

    Args:
        argv: QEMU's, without the differences between guests. Paths in it are those of the
            cache, whose names have the hash of their contents.
    """
    # Another QEMU version may not read the state.
    words = (*argv, PREPARATION, qemu.version())
    return cache.key(word.encode() for word in words)


def ensure(root: Path, name: str, freeze: Callable[[Frozen], None]) -> Frozen:
    """The frozen guest of a kind, made if there is none.

    Args:
        root: directory of all kinds of the same image.
        freeze: boots a guest and freezes it into an empty directory; its exceptions pass.
    """
    target = root / name
    with cache.locked(root / "lock"):
        if not target.exists():
            cache.require_space(root, SPACE_MIB)
            with cache.building(target) as scratch:
                freeze(Frozen(scratch))
            kinds = [path for path in root.iterdir() if path.is_dir()]
            kinds.sort(key=lambda path: path.stat().st_mtime, reverse=True)
            for unused in kinds[KEPT:]:
                cache.remove(unused)
        os.utime(target)
    return Frozen(target)


def make_disk(image: Path, disk: Path) -> None:
    """Make an empty overlay, which gets all writes to the image."""
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image), str(disk)]
    subprocess.run(argv, check=True, timeout=TOOL_SECONDS)
