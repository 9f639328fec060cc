# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The second disk of a recorded guest: the host's directories that it needs, and its order."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from kfabric.errors import SetupError
from kfabric.replay.qemu import FROZEN
from kfabric.vm import disk, tools
from kfabric.vm.errand import ORDER, STATUS, Order

MIB = 1024
"""The size that the frozen guest knows. The file is as large as its contents."""
_LEFT_OUT = (".git", ".venv", "node_modules", ".*_cache", ".hypothesis", "*.tmp")


def make(target: Path, order: Order, directories: Iterable[Path], left_out: Iterable[Path]) -> None:
    """Make the disk.

    Args:
        target: a new file, qcow2, with a snapshot of the name that a frozen guest has.
        directories: of the host; one may be in another.
        left_out: directories in them whose contents the guest does not need.

    Raises SetupError: it cannot be made.
    """
    raw, tree = target.with_suffix(".raw"), target.with_suffix(".d")
    shutil.rmtree(tree, ignore_errors=True)
    left = {str(path) for path in left_out}

    def ignored(place: str, names: list[str]) -> set[str]:
        own = {name for name in names if f"{place}/{name}" in left}
        return own | set(shutil.ignore_patterns(*_LEFT_OUT)(place, names))

    try:
        for path in directories:
            copied = tree / path.relative_to("/")
            shutil.copytree(path, copied, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        (tree / ORDER).write_text(json.dumps(order))
        raw.unlink(missing_ok=True)
        making = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", str(tree)]
        tools.run([*making, str(raw), f"{MIB}m"], "mke2fs fails", "is the disk full?")
        convert(raw, target, "qcow2")
        snapshot(target, "-c")
    finally:
        shutil.rmtree(tree, ignore_errors=True)
        raw.unlink(missing_ok=True)


def empty(target: Path) -> None:
    """Make a disk without contents, for the guest that will be frozen."""
    tools.run(["qemu-img", "create", "-q", "-f", "qcow2", str(target), f"{MIB}m"], "qemu-img fails")


def convert(source: Path, target: Path, kind: str) -> None:
    """Write a disk in another of QEMU's formats."""
    tools.run(["qemu-img", "convert", "-O", kind, str(source), str(target)], "qemu-img fails")


def snapshot(path: Path, what: str) -> None:
    """Create (``-c``) or delete (``-d``) the snapshot of a disk that a frozen guest has."""
    tools.run(["qemu-img", "snapshot", what, FROZEN, str(path)], "qemu-img fails")


def results(path: Path, out: Path) -> int | None:
    """Copy what a guest has left in a directory to the same place of the host.

    Returns:
        The status of its last command; None if it did not come to its end.
    """
    raw = path.with_suffix(".raw")
    try:
        convert(path, raw, "raw")
        disk.copy(raw, str(out), out.parent)
        text = disk.read(raw, f"/{STATUS}")
    except SetupError:
        return None
    finally:
        raw.unlink(missing_ok=True)
    return int(text)
