# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Reads the kernel part's ring buffer in bulk.

bcc calls a function for each record, which costs an emulated guest more than the
record is worth. The ring's memory can be mapped, so that a record is cut out with
two look-ups. Layout (``kernel/bpf/ringbuf.c``): a page with the consumer's position,
one with the producer's, then the data, mapped twice in a row, so that a record is
never in two pieces. Before each record stands its length, with two flags.

The kernel looks at the consumer's position at any time, so that is stored as one
word. ``struct`` does not do that: it writes zeros first, and then byte after byte. A
record that comes meanwhile finds a ring that seems to be full, and is lost.
"""

from __future__ import annotations

import mmap
import struct

_LENGTH = struct.Struct("<I")
_BUSY, _DISCARDED = 1 << 31, 1 << 30
_HEADER = 8


class Ring:
    """The consumer's end.

    :param fd: of the map; may be closed afterwards.
    :param size: of the data, in bytes.
    """

    def __init__(self, fd: int, size: int) -> None:
        """Map it. Raises OSError."""
        page = mmap.PAGESIZE
        self._size = size
        self._consumer = mmap.mmap(fd, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self._data = mmap.mmap(fd, page + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        self._consumed = memoryview(self._consumer).cast("Q")
        self._produced = memoryview(self._data).cast("Q")

    @property
    def fill(self) -> float:
        """How full it is, from 0 to 1."""
        return (self._produced[0] - self._consumed[0]) / self._size

    def drain(self) -> list[bytes]:
        """Take all records that are complete, in order."""
        at, end = self._consumed[0], self._produced[0]
        begin, records, data = at, [], self._data
        while at < end:
            place = mmap.PAGESIZE + at % self._size
            (length,) = _LENGTH.unpack_from(data, place)
            if length & _BUSY:
                break  # somebody is still writing it
            size = length & ~_DISCARDED
            if size == length:
                records.append(data[place + _HEADER : place + _HEADER + size])
            at += (_HEADER + size + 7) & ~7
        if at != begin:
            self._consumed[0] = at
        return records

    def close(self) -> None:
        """Unmap it."""
        self._consumed.release()
        self._produced.release()
        self._consumer.close()
        self._data.close()
