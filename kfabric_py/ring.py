# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Completion queues that are read without a call."""

from __future__ import annotations

import ctypes
import errno
import mmap
import platform
import struct
from typing import TYPE_CHECKING

from kfabric_py import _uapi
from kfabric_py.errors import error_for

if TYPE_CHECKING:
    from kfabric_py._call import Client

#: struct kfab_cq_entry, unpacked with one call.
ENTRY = struct.Struct("=7Q2I")
_ENTRIES, _SIZE = ctypes.sizeof(_uapi.kfab_ring), ENTRY.size
_ERR = 8
_WRAP = 1 << 32


def _word(field: str) -> int:
    """Index of a field among the words of a ring. A word is loaded and stored at once."""
    offset: int = getattr(_uapi.kfab_ring, field).offset
    return offset // 4


_TAIL, _OVERRUN, _HEAD = _word("tail"), _word("overrun"), _word("head")


def check_machine() -> None:
    """Raise NotSupported unless memory is written and read in the order of the program."""
    if platform.machine() not in ("x86_64", "i386", "i686"):
        raise error_for(errno.EOPNOTSUPP, "CQ_RING", "a ring is read on x86 only")


class Ring:
    """The ring of a queue. One thread at a time may read it.

    Attributes:
        entries: how many it has room for.
        untold: entries that were removed since this was set to 0.
        reading: whether a thread reads. The interpreter runs no other thread and no
            signal handler between a look at it and a change.
    """

    def __init__(self, client: Client, cq: int) -> None:
        """Show the entries of a queue that has had none."""
        arg = _uapi.kfab_cq_ring(cq=cq)
        client(_uapi.KFAB_IOC_CQ_RING, arg)
        length = _ENTRIES + arg.out_entries * _SIZE
        try:
            self._map = mmap.mmap(client.fd, length, offset=arg.out_offset)
        finally:
            client(_uapi.KFAB_IOC_CLOSE, _uapi.kfab_close(handle=arg.out_handle))
        self._words = memoryview(self._map)[:_ENTRIES].cast("I")
        self.entries, self._mask = arg.out_entries, arg.out_entries - 1
        self.untold = 0
        self.reading = False
        self._head = 0

    def begin(self) -> None:
        """Begin to read, until ``reading`` is reset. Raises Busy: a thread reads already."""
        if self.reading:
            raise error_for(errno.EBUSY, "CQ_READ", "one thread at a time reads a ring")
        self.reading = True

    def close(self) -> None:
        """Unmap it; it is not used any more."""
        self._words.release()
        self._map.close()

    def _stored(self) -> int:
        stored = (self._words[_TAIL] - self._head) % _WRAP
        if stored > self.entries:
            # Calls that were left early have removed errors, which were overwritten since.
            self.passed(stored - self.entries)
            stored = self.entries
        return stored

    def empty(self) -> bool:
        """Whether nothing is there, not even an error."""
        return not self._stored()

    def at_error(self) -> bool:
        """Whether an error comes first."""
        return self._stored() > 0 and self._entry(self._head)[_ERR] != 0

    def _entry(self, number: int) -> tuple[int, ...]:
        return ENTRY.unpack_from(self._map, _ENTRIES + (number & self._mask) * _SIZE)

    def read(self, count: int) -> list[tuple[int, ...]]:
        """Return the next entries as numbers, in the order of their fields, and remove them.

        Raises:
            ErrorAvailable: an error comes first.
            Overrun: the queue has overflowed, and everything before that was read.
        """
        words, head = self._words, self._head
        number = (words[_TAIL] - head) % _WRAP
        if number > count:
            number = count
        if not number:
            # What was stored before the overrun may have come after the first look.
            if count and words[_OVERRUN] and self.empty():
                raise error_for(_uapi.KFAB_EOVERRUN, "read")
            return []
        found = []
        for at in range(head, head + number):
            entry = self._entry(at)
            if entry[_ERR]:
                break
            found.append(entry)
        if (words[_TAIL] - head) % _WRAP > self.entries:
            # The first ones may have been overwritten meanwhile.
            self._stored()
            return self.read(count)
        if not found:
            raise error_for(_uapi.KFAB_EAVAIL, "read")
        self.passed(len(found))
        return found

    def passed(self, count: int) -> None:
        """Remove entries."""
        self._head = (self._head + count) % _WRAP
        self.untold += count
        self._words[_HEAD] = self._head
