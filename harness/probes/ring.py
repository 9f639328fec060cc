# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Reads the kernel part's ring buffer in bulk.

bcc calls a function for each record, which is slow in an emulated guest. Here the ring's
memory is mapped, and each record is copied out with two look-ups. The layout
(``kernel/bpf/ringbuf.c``): a page with the consumer's position, one with the producer's,
then the data, mapped twice in a row, so that every record is contiguous. A length with two
flags precedes each record.

The kernel may read the consumer's position at any time, so it is stored as one word.
``struct`` would write zeros first, then byte after byte: to a new record the ring would
seem full, and the record would be lost.
"""

import mmap
import struct

_LENGTH = struct.Struct("<I")
_BUSY, _DISCARDED = 1 << 31, 1 << 30
_HEADER = 8


class Ring:
    """The consumer's end of a ring.

    Args:
        fd: The map's descriptor; may be closed afterwards.
        size: The size of the data, in bytes.

    Raises:
        OSError: The memory cannot be mapped.
    """

    def __init__(self, fd: int, size: int) -> None:
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
                break  # its writer is not done
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
