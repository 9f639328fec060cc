# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compiled probes, kept beside the image whose kernel they are for.

A guest finds those of earlier guests in its own directory, as files to read, and leaves there
what it had to compile. The host takes a file over only if it is complete. The names are
hashes of everything that decides the contents (harness/probes/compiled.py).
"""

import contextlib
import hashlib
import re
import shutil
from pathlib import Path

from kfabric import names

NAME = "programs"
KEPT = 12
"""Files kept in one directory, the newest ones. Each has some hundred KB."""


def environment(out: Path) -> dict[str, str]:
    """Where the guest's processes look for them."""
    return {names.PROGRAMS: str(out / NAME)}


def give(kept: Path, out: Path) -> None:
    """Copy all of them into a guest's directory."""
    place = out / NAME
    place.mkdir(parents=True)
    for path in _files(kept):
        with contextlib.suppress(FileNotFoundError):  # just pruned
            shutil.copy2(path, place / path.name)


def take(out: Path, kept: Path) -> None:
    """Take over those that a guest has compiled, and remove its directory of them."""
    for path in _files(out / NAME):
        if _complete(path) and not _complete(kept / path.name):
            scratch = kept / f"{path.name}.{out.parent.name}.tmp"
            # Another process may remove what it takes for left over, or the whole image.
            with contextlib.suppress(FileNotFoundError):
                kept.mkdir(exist_ok=True)
                shutil.copyfile(path, scratch)
                scratch.replace(kept / path.name)
    shutil.rmtree(out / NAME, ignore_errors=True)
    prune(kept)


def prune(place: Path) -> None:
    """Remove the oldest, and what killed processes have left."""
    with contextlib.suppress(FileNotFoundError):
        for left in [*_files(place)[KEPT:], *place.glob("*.tmp")]:
            left.unlink(missing_ok=True)


def _files(place: Path) -> list[Path]:
    """The newest first."""
    if not place.is_dir():
        return []
    found = [path for path in place.iterdir() if re.fullmatch("[0-9a-f]{32}", path.name)]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def _complete(path: Path) -> bool:
    """Does the hash in its first line match the rest? Its reader checks that again."""
    try:
        digest, _, rest = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return False
    return hashlib.sha256(rest).hexdigest().encode() == digest
