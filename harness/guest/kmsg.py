# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The kernel log, from inside a guest: writes markers, and reads new records."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

KMSG = Path("/dev/kmsg")
DEVKMSG_RATE = Path("/proc/sys/kernel/printk_devkmsg")
RECORD_BYTES = 8192
# Facility user, severity info: not a message of the kernel.
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
    """Records of the log were overwritten before they were read."""


def mark(text: str) -> None:
    """Write one line into the kernel log, and so on the console."""
    # By default the kernel drops user lines above ten in five seconds. With
    # printk.devkmsg= at boot the file refuses writes.
    with contextlib.suppress(OSError):
        DEVKMSG_RATE.write_text("on")
    line = " ".join(text.split())
    with KMSG.open("wb", buffering=0) as log:
        log.write(f"{MARKER_PREFIX}{line}\n".encode())


class KernelLog(contextlib.AbstractContextManager["KernelLog"]):
    """Reads the records that the kernel log gets from now on; a context manager.

    Each reader has its own position, so several may be open at once.
    """

    def __init__(self) -> None:
        self._fd = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.skip()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the reader. May be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def skip(self) -> None:
        """Leave out all records up to now."""
        os.lseek(self._fd, 0, os.SEEK_END)

    def new(self) -> list[Record]:
        """Return the records since the last call, without blocking.

        Raises:
            LogOverrun: The kernel has overwritten some of them.
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
    """Decode one record of /dev/kmsg: `prio,sequence,microseconds,flags;text`."""
    head, _, body = data.decode(errors="replace").partition(";")
    prio, sequence, microseconds = (int(word) for word in head.split(",")[:3])
    # Lines after the first one are a dictionary about the device.
    text = body.split("\n", 1)[0]
    return Record(sequence, microseconds, prio & 7, prio >> 3 == 0, text)
