# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Where built things are kept: named by the hash of what they are made from.

Also what every builder needs: locks, room, and paths that work.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.errors import SetupError

LOCK_SECONDS = 900.0
"""How long another process may build before we give up waiting for it."""


def root() -> Path:
    """The cache directory of kfabric."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kfabric"


def list_lines(path: Path) -> list[str]:
    """The entries of a list file, without comments and blank lines."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def key(inputs: Iterable[bytes]) -> str:
    """Name for what is made from ``inputs``; order and lengths matter."""
    digest = hashlib.sha256()
    for part in inputs:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def locked(path: Path, deadline: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold an exclusive lock on a file, which is made if missing.

    :raises SetupError: another process held it for ``deadline`` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        _acquire(file.fileno(), path, time.monotonic() + deadline)
        yield


def _acquire(fd: int, path: Path, end: float) -> None:
    """flock has no time-out of its own; a build takes minutes, so ask every second."""
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                hint = "wait for it or end it"
                raise SetupError(f"another process holds {path}", hint) from None
            time.sleep(1.0)


@contextlib.contextmanager
def building(target: Path) -> Iterator[Path]:
    """Make a directory whole or not at all.

    Yields a new directory next to ``target``, which takes its place at the end;
    an exception removes it. What is there already goes. Call with the lock of the
    directory around held.
    """
    scratch = target.with_name(f"{target.name}.tmp")
    for left in target.parent.glob("*.tmp"):  # by processes that were killed
        shutil.rmtree(left, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        yield scratch
        remove(target)
        scratch.rename(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def remove(target: Path) -> None:
    """Remove a directory, if there is one; nobody finds half of it under its name."""
    gone = target.with_name(f"{target.name}.gone.tmp")
    shutil.rmtree(gone, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        target.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def require_space(path: Path, mib: int) -> None:
    """Check that a file system has room.

    :raises SetupError: it has not.
    """
    path.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(path).free >> 20
    if free < mib:
        what = f"{path} has {free} MiB free, {mib} MiB are needed"
        raise SetupError(what, "make room or set XDG_CACHE_HOME")


def require_plain(path: Path) -> None:
    """Check that kbuild and the kernel command line can carry a path.

    :raises SetupError: it has a character that one of them cannot.
    """
    if not re.fullmatch(r"[A-Za-z0-9_./+@~-]+", str(path)):
        what = f"a character in {path} is one that kbuild cannot handle"
        raise SetupError(what, "use a path of letters, digits and ./+@~_-")
