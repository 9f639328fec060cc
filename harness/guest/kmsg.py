# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The kernel log from inside: put a marker in, read what came since."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

KMSG = Path("/dev/kmsg")
DEVKMSG_RATE = Path("/proc/sys/kernel/printk_devkmsg")
RECORD_BYTES = 8192
# "<14>" is facility user, severity info: it says that the text is not the kernel's.
MARKER_PREFIX = "<14>"
_WARNING = 4


@dataclass(frozen=True)
class Record:
    """One record of the kernel log."""

    sequence: int
    microseconds: int
    severity: int
    from_kernel: bool
    text: str

    def __str__(self) -> str:
        """Return the line as the console shows it."""
        seconds, rest = divmod(self.microseconds, 1_000_000)
        return f"[{seconds:5d}.{rest:06d}] {self.text}"

    @property
    def is_warning(self) -> bool:
        """Whether its severity is warning or worse."""
        return self.from_kernel and self.severity <= _WARNING


class LogOverrun(RuntimeError):
    """The log was overwritten before it was read: what it said is not known."""


def mark(text: str) -> None:
    """Write one line into the kernel log, so that the console tells what was running."""
    _lift_rate_limit()
    line = " ".join(text.split())
    with KMSG.open("wb", buffering=0) as log:
        log.write(f"{MARKER_PREFIX}{line}\n".encode())


def _lift_rate_limit() -> None:
    """Let markers through: by default the kernel drops user lines above ten in five seconds.

    When printk.devkmsg= was given at boot the file refuses writes, and rules itself.
    """
    try:
        DEVKMSG_RATE.write_text("on")
    except OSError:
        return


class KernelLog:
    """Reads what the kernel log gets from the moment of its making on; a context manager.

    Each reader has its own place: several may be open at once.
    """

    def __init__(self) -> None:
        """Open the log and stand behind its last record."""
        self._fd = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._fd, 0, os.SEEK_END)

    def __enter__(self) -> KernelLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the reader; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def new(self) -> list[Record]:
        """Return the records since the last call (or since the making), never blocking.

        Raises LogOverrun when the kernel overwrote some of them.
        """
        records = []
        while True:
            try:
                records.append(parse(os.read(self._fd, RECORD_BYTES)))
            except BlockingIOError:
                return records
            except BrokenPipeError:
                raise LogOverrun("the kernel log overran its buffer between two reads") from None


def parse(data: bytes) -> Record:
    """Read one record as /dev/kmsg gives it: `prio,sequence,microseconds,flags;text`."""
    head, _, body = data.decode(errors="replace").partition(";")
    prio, sequence, microseconds = (int(word) for word in head.split(",")[:3])
    # Lines after the first are a dictionary about the device, not the message.
    text = body.split("\n", 1)[0]
    return Record(sequence, microseconds, prio & 7, prio >> 3 == 0, text)
