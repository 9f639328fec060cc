# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The memory of a guest that has panicked, which QEMU writes beside its console.

    vmcore        kdump's format, compressed: pages of zeros take no room
    vmcore.json   what belongs to it; is there when all of vmcore is
    vmcore.*      on the way

The oldest go when there are more than KEPT in directories next to each other.
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
from typing import Protocol

from harness.errors import SetupError
from harness.vm import kdump

NAME = "vmcore"
ABOUT = f"{NAME}.json"
KEPT = 3
DUMP_SECONDS = 300.0
"""How long QEMU may write. It takes seconds for a gigabyte that is in use."""
QMP_SECONDS = 10.0
PLACE = "/sys/kernel/vmcoreinfo"
"""In a guest: where its kernel keeps the description of itself."""
SPARE_MIB = 500
"""What must be left of the file system at the worst, in which nothing can be compressed."""


@dataclass(frozen=True)
class About:
    """What one needs to read a dump.

    :param release: of the kernel.
    :param modules: directories that kernel modules were loaded from.
    """

    release: str
    modules: Sequence[str]


@dataclass(frozen=True)
class Place:
    """A piece of a guest's memory.

    :param address: as the machine counts.
    """

    address: int
    size: int

    @classmethod
    def read(cls, text: str) -> Place | None:
        """What PLACE says; None: nothing."""
        words = text.split()
        return cls(int(words[0], 16), int(words[1], 16)) if len(words) == 2 else None


class Monitor(Protocol):
    """What is needed of :class:`harness.vm.qmp.QmpLink`."""

    def execute(self, command: str, deadline: float, **arguments: object) -> object:
        """Run a QMP command; None if it fails or does not answer within so many seconds."""


class Dump:
    """Takes the memory of one guest, once, in a thread of its own.

    :param directory: where the guest leaves its console.
    :param memory_mib: what the guest has.
    :param end: ends QEMU once the guest may go on with its panic; may wait.
    """

    def __init__(
        self, directory: Path, memory_mib: int, about: About, end: Callable[[], None]
    ) -> None:
        self.path = directory / NAME
        self.info: Place | None = None
        """Where the kernel's description of itself is, once that is known."""
        self.outcome = ""
        """One line for people; empty as long as there is nothing to say."""
        self._memory_mib = memory_mib
        self._about = about
        self._end = end
        self._thread: threading.Thread | None = None

    def begin(self, monitor: Monitor) -> None:
        """The guest stands still in its panic; does not wait."""
        self._thread = threading.Thread(
            target=self._take, args=[monitor], name="vmcore", daemon=True
        )
        self._thread.start()

    def wait(self) -> bool:
        """Wait until it is written and QEMU ends; whether the guest had panicked.

        All that its thread does has deadlines.
        """
        if self._thread is None:
            return False
        self._thread.join()
        return True

    def _take(self, monitor: Monitor) -> None:
        try:
            self._write(monitor)
            mib = self.path.stat().st_size >> 20
            self.outcome = f"kfabric: its memory: {self.path} ({mib} MiB)"
            forget(self.path.parent.parent)
        except (OSError, ValueError) as error:
            remove(self.path)
            self.outcome = f"kfabric: its memory is not kept: {error}"
        finally:
            # It has more to say, and then ends QEMU by itself.
            monitor.execute("cont", deadline=QMP_SECONDS)
            self._end()

    def _write(self, monitor: Monitor) -> None:
        """Raises OSError: there is no room, or QEMU does not do it; ValueError: it is broken."""
        free = shutil.disk_usage(self.path.parent).free >> 20
        if free < self._memory_mib + SPARE_MIB:
            needed = f"{self._memory_mib + SPARE_MIB} MiB are needed"
            raise OSError(f"{self.path.parent} has {free} MiB free, {needed}")
        stream, note = (self.path.with_name(f"{NAME}.{end}") for end in ("stream", "note"))
        how = {"paging": False, "protocol": f"file:{stream}", "format": "kdump-zlib"}
        if monitor.execute("dump-guest-memory", deadline=DUMP_SECONDS, **how) is None:
            raise OSError("QEMU did not write it, or was ended meanwhile")
        kdump.settle(stream, self.path, self._vmcoreinfo(monitor, note))
        for path in (stream, note):
            path.unlink(missing_ok=True)
        self.path.with_name(ABOUT).write_text(json.dumps(asdict(self._about)))

    def _vmcoreinfo(self, monitor: Monitor, note: Path) -> bytes:
        """Raises OSError or ValueError: the kernel does not describe itself."""
        if self.info is None:
            raise OSError(f"the guest did not tell what is in {PLACE}")
        where = {"val": self.info.address, "size": self.info.size, "filename": str(note)}
        if monitor.execute("pmemsave", deadline=QMP_SECONDS, **where) is None:
            raise OSError("QEMU does not read the guest's memory")
        return kdump.vmcoreinfo(note.read_bytes())


def remove(core: Path) -> None:
    """Remove a dump, whatever there is of it."""
    for path in (core.with_name(ABOUT), core, *core.parent.glob(f"{NAME}.*")):
        path.unlink(missing_ok=True)


def forget(directory: Path) -> None:
    """Remove all dumps but the newest, and what is left of those that were given up.

    :param directory: with a directory for each guest.
    """
    now = time.time()
    ages: dict[Path, float] = {}
    for part in directory.glob(f"*/{NAME}*"):
        core = part.with_name(NAME)
        with contextlib.suppress(FileNotFoundError):  # another guest is done with it
            ages[core] = min(now - part.stat().st_mtime, ages.get(core, now))
    written = [core for core in ages if core.with_name(ABOUT).exists()]
    given_up = [core for core in ages if core not in written and ages[core] > DUMP_SECONDS]
    for old in [*sorted(written, key=ages.__getitem__)[KEPT:], *given_up]:
        remove(old)


def about(core: Path) -> About:
    """What belongs to a dump.

    :raises SetupError: there is no dump, or not all of one.
    """
    path = core.with_name(ABOUT)
    if not core.is_file():
        raise SetupError(f"there is no {core}", "did a guest panic, with --vmcore?")
    try:
        known = json.loads(path.read_text())
        return About(str(known["release"]), [str(place) for place in known["modules"]])
    except OSError:
        what, hint = f"{path} is not there", "was the dump given up, or made by somebody else?"
        raise SetupError(what, hint) from None
    except (ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{path} is not as it was written: {error!r}") from None
