# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""BPF maps that bcc cannot make: a ring for an array of rings, a mapped array."""

import ctypes
import mmap
import struct
from typing import Any

_BPF = 321  # x86-64
_MAP_CREATE = 0
_RINGBUF = 27
_ATTR = struct.Struct("<IIII")  # type, size of a key, size of a value, number of entries
_ATTR_BYTES = 128


def ring_bytes(mib: float, cpus: int) -> int:
    """The size of each CPU's ring if all together have ``mib``: a power of two of pages."""
    pages = max(1, int(mib * (1 << 20)) // cpus // mmap.PAGESIZE)
    return int(1 << (pages.bit_length() - 1)) * mmap.PAGESIZE


def create_ring(size: int) -> int:
    """Make a ring buffer and return its descriptor. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    attr = ctypes.create_string_buffer(_ATTR.pack(_RINGBUF, 0, 0, size), _ATTR_BYTES)
    fd = int(libc.syscall(_BPF, _MAP_CREATE, attr, _ATTR_BYTES))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "cannot make a ring buffer")
    return fd


def mapped(table: Any, entries: int) -> Any:
    """The values of an array map (made with BPF_F_MMAPABLE), mapped into memory.

    A look-up is a system call, which disturbs the probes. Reading these values does not.

    Args:
        table: The map, as an object of bcc.
        entries: Its number of entries.

    Returns:
        A ctypes array, which keeps the memory mapped.
    """
    values = table.Leaf * entries
    size = -(-ctypes.sizeof(values) // mmap.PAGESIZE) * mmap.PAGESIZE
    return values.from_buffer(mmap.mmap(table.map_fd, size))
