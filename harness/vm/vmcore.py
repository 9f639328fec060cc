# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Dumps the memory of a panicked guest to a file next to its console.

    vmcore        in kdump's format, compressed: pages of zeros take no space
    vmcore.json   what a reader needs; written after vmcore is complete
    vmcore.*      temporary files

Of the dumps in neighbouring directories, the newest KEPT are kept.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kfabric.errors import SetupError, UsageError
from kfabric.vm import kdump

if TYPE_CHECKING:
    from kfabric.vm.qmp import QmpLink

NAME = "vmcore"
ABOUT = f"{NAME}.json"
KEPT = 3
DUMP_SECONDS = 300.0
"""Limit for QEMU's writing, which takes seconds for a gigabyte in use."""
QMP_SECONDS = 10.0
VMCOREINFO = "/sys/kernel/vmcoreinfo"
"""File in a guest: address and size of its kernel's vmcoreinfo note."""
SPARE_MIB = 500
"""Free space to leave on the file system if nothing can be compressed."""


@dataclass(frozen=True)
class About:
    """What a dump's reader needs."""

    release: str
    """The kernel's."""
    modules: Sequence[str]
    """Directories that kernel modules were loaded from."""


@dataclass(frozen=True)
class Region:
    """A piece of a guest's physical memory."""

    address: int
    size: int

    @classmethod
    def parse(cls, text: str) -> Region | None:
        """Parse the contents of VMCOREINFO; None if it is empty."""
        words = text.split()
        return cls(int(words[0], 16), int(words[1], 16)) if len(words) == 2 else None


class Dump:
    """Dumps the memory of one guest, once, in a thread of its own.

    Args:
        directory: has the guest's console.
        end: ends QEMU after the guest has finished its panic; may wait.
    """

    def __init__(
        self, directory: Path, memory_mib: int, about: About, end: Callable[[], object]
    ) -> None:
        self.path = directory / NAME
        self.info: Region | None = None
        """The kernel's vmcoreinfo note, once it is known."""
        self.outcome = ""
        """One line for the user; empty before the dump has ended."""
        self._memory_mib = memory_mib
        self._about = about
        self._end = end
        self._thread: threading.Thread | None = None

    def begin(self, monitor: QmpLink) -> None:
        """Start to dump a guest that is paused in its panic; does not wait."""
        self._thread = threading.Thread(
            target=self._take, args=[monitor], name="vmcore", daemon=True
        )
        self._thread.start()

    def wait(self) -> bool:
        """Wait until it is written and QEMU has ended; whether the guest had panicked.

        Every step of the thread has a deadline.
        """
        if self._thread is None:
            return False
        self._thread.join()
        return True

    def _take(self, monitor: QmpLink) -> None:
        try:
            self._write(monitor)
            mib = self.path.stat().st_size >> 20
            self.outcome = f"kfabric: its memory: {self.path} ({mib} MiB)"
            remove_old(self.path.parent.parent)
        except (OSError, ValueError) as error:
            remove(self.path)
            self.outcome = f"kfabric: its memory is not saved: {error}"
        finally:
            # The guest prints more, and then ends QEMU by itself.
            monitor.execute("cont", deadline=QMP_SECONDS)
            self._end()

    def _write(self, monitor: QmpLink) -> None:
        """Raises OSError (no space, or QEMU fails) or ValueError (QEMU's stream is malformed)."""
        free = shutil.disk_usage(self.path.parent).free >> 20
        if free < self._memory_mib + SPARE_MIB:
            needed = f"{self._memory_mib + SPARE_MIB} MiB are needed"
            raise OSError(f"{self.path.parent} has {free} MiB free, {needed}")
        stream, note = (self.path.with_name(f"{NAME}.{end}") for end in ("stream", "note"))
        how = {"paging": False, "protocol": f"file:{stream}", "format": "kdump-zlib"}
        if monitor.execute("dump-guest-memory", deadline=DUMP_SECONDS, **how) is None:
            raise OSError("QEMU did not write it, or was ended meanwhile")
        kdump.from_stream(stream, self.path, self._vmcoreinfo(monitor, note))
        for path in (stream, note):
            path.unlink(missing_ok=True)
        self.path.with_name(ABOUT).write_text(json.dumps(asdict(self._about)))

    def _vmcoreinfo(self, monitor: QmpLink, note: Path) -> bytes:
        if self.info is None:
            raise OSError(f"the guest's {VMCOREINFO} is not known")
        where = {"val": self.info.address, "size": self.info.size, "filename": str(note)}
        if monitor.execute("pmemsave", deadline=QMP_SECONDS, **where) is None:
            raise OSError("QEMU does not read the guest's memory")
        return kdump.vmcoreinfo(note.read_bytes())


def remove(core: Path) -> None:
    for path in (core.with_name(ABOUT), core, *core.parent.glob(f"{NAME}.*")):
        path.unlink(missing_ok=True)


def remove_old(directory: Path) -> None:
    """Remove all but the newest dumps, and abandoned files, below the guests' directories."""
    now = time.time()
    ages: dict[Path, float] = {}
    for part in directory.glob(f"*/{NAME}*"):
        core = part.with_name(NAME)
        with contextlib.suppress(FileNotFoundError):  # another guest has just finished
            ages[core] = min(now - part.stat().st_mtime, ages.get(core, now))
    written = [core for core in ages if core.with_name(ABOUT).exists()]
    given_up = [core for core in ages if core not in written and ages[core] > DUMP_SECONDS]
    for old in [*sorted(written, key=ages.__getitem__)[KEPT:], *given_up]:
        remove(old)


def about(core: Path) -> About:
    """The description of a dump.

    Raises:
        UsageError: there is no dump.
        SetupError: it is incomplete.
    """
    path = core.with_name(ABOUT)
    if not core.is_file():
        raise UsageError(f"there is no {core}", "did a guest panic, with --vmcore?")
    try:
        known = json.loads(path.read_text())
        return About(str(known["release"]), [str(place) for place in known["modules"]])
    except OSError:
        what, hint = f"{path} is not there", "was the dump abandoned, or made by another tool?"
        raise SetupError(what, hint) from None
    except (ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{path} is not as it was written: {error!r}") from None
