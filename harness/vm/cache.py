# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The cache of built things, named by the hash of their inputs; locks, space, valid paths."""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kfabric.errors import SetupError

Log = Callable[[str], None]
"""Shows one line for each step of a build."""
LOCK_SECONDS = 900.0
"""How long to wait for another process that builds."""


def root() -> Path:
    """The cache directory of kfabric."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The standard has relative paths ignored.
    return (base if base.is_absolute() else Path.home() / ".cache") / "kfabric"


def list_lines(path: Path) -> list[str]:
    """The entries of a list file, without comments and blank lines."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def key(inputs: Iterable[bytes]) -> str:
    """Name for the product of ``inputs``; order and lengths matter."""
    digest = hashlib.sha256()
    for part in inputs:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


def make(path: Path) -> None:
    """Make a directory. Raises SetupError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "XDG_CACHE_HOME sets the directory of the cache"
        raise SetupError(f"cannot make {path}: {error.strerror}", hint) from None


@contextlib.contextmanager
def locked(path: Path, deadline: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold an exclusive lock on a file, which is made if missing.

    Raises SetupError if another process holds it for ``deadline`` seconds, or if it cannot be
    made.
    """
    make(path.parent)
    end = time.monotonic() + deadline
    with path.open("a") as file:
        # flock() has no timeout of its own. A build takes minutes, so try once a second.
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    hint = "wait for it or end it"
                    raise SetupError(f"another process holds {path}", hint) from None
                time.sleep(1.0)
        yield


@contextlib.contextmanager
def building(target: Path) -> Iterator[Path]:
    """Make a directory completely or not at all.

    Yields a new directory next to ``target`` that replaces it at the end; an exception
    removes the new one. The caller holds the lock of the parent directory.
    """
    scratch = target.with_name(f"{target.name}.tmp")
    for left in target.parent.glob("*.tmp"):  # of processes that were killed
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
    """Remove a directory, if it exists; it is never visible half-removed under its name."""
    gone = target.with_name(f"{target.name}.gone.tmp")
    shutil.rmtree(gone, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        target.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def require_space(path: Path, mib: int) -> None:
    """Make a directory; raise SetupError if its file system has less than ``mib`` MiB free."""
    make(path)
    free = shutil.disk_usage(path).free >> 20
    if free < mib:
        what = f"{path} has {free} MiB free, {mib} MiB are needed"
        raise SetupError(what, "make room or set XDG_CACHE_HOME")


def is_plain(path: Path) -> bool:
    """Whether kbuild and the kernel command line can carry a path."""
    return re.fullmatch(r"[A-Za-z0-9_./+@~-]+", str(path)) is not None


def require_plain(path: Path) -> None:
    """Raise SetupError if kbuild or the kernel command line cannot carry a path."""
    if not is_plain(path):
        what = f"kbuild cannot handle a character in {path}"
        raise SetupError(what, "use a path of letters, digits and ./+@~_-")
