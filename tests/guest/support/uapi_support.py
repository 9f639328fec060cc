# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Raw calls on /dev/kfabric, for what the library would never do.

The structures and numbers are the generated ones; what is passed is any address
and any size.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import select
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kfabric.fuzz.calls import CALLS
from kfabric.fuzz.calls import HANDLES as HANDLES
from kfabric_py import _uapi

PAGE = mmap.PAGESIZE
MAGIC = _uapi.KFAB_IOC_MAGIC
BOTH = 3  # _IOC_READ | _IOC_WRITE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
_libc.ioctl.restype = ctypes.c_int
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.mmap.restype = ctypes.c_void_p
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
_libc.mremap.restype = ctypes.c_void_p


def number(nr: int, size: int = 8, magic: int = MAGIC, direction: int = BOTH) -> int:
    """Build an ioctl number as the _IOC macro does."""
    return direction << 30 | size << 16 | magic << 8 | nr


def ioctl(fd: int, request: int, address: int) -> int:
    """Call; return the result, or the error number negated."""
    result: int = _libc.ioctl(fd, request, address)
    return result if result >= 0 else -ctypes.get_errno()


def fields(struct: type[ctypes.Structure]) -> dict[str, Any]:
    """The types of a structure's fields by their names."""
    return {field[0]: field[1] for field in struct._fields_}


def call(fd: int, name: str, arg: ctypes.Structure) -> int:
    """Make the named call with a structure, whose size is set first."""
    arg.size = ctypes.sizeof(arg)
    return ioctl(fd, CALLS[name][0], ctypes.addressof(arg))


def sample(name: str, **fields: Any) -> Any:
    """Return the structure of a call with these fields and else zeros."""
    return CALLS[name][1](**fields)


def text(result: int) -> str:
    """Name a result, for failure texts."""
    return errno.errorcode.get(-result, str(result))


@dataclass
class Pages:
    """Anonymous memory whose last page is missing: what crosses its end faults."""

    address: int
    length: int

    @classmethod
    def new(cls, pages: int = 1) -> Pages:
        """Map some pages and unmap the one behind."""
        length = pages * PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        rw = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(None, length + PAGE, rw, flags, -1, 0)
        assert address not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
        assert _libc.munmap(address + length, PAGE) == 0
        return cls(address, length)

    @property
    def end(self) -> int:
        """The first address that is not there."""
        return self.address + self.length

    def put(self, data: bytes, at_end: bool = False) -> int:
        """Copy data to the front, or to the very end; return its address."""
        address = self.end - len(data) if at_end else self.address
        ctypes.memmove(address, data, len(data))
        return address

    def read_only(self, length: int = 0) -> None:
        """Forbid writing, of all or of so many bytes from the front."""
        assert _libc.mprotect(self.address, length or self.length, mmap.PROT_READ) == 0

    def writable(self) -> None:
        """Allow writing."""
        assert _libc.mprotect(self.address, self.length, mmap.PROT_READ | mmap.PROT_WRITE) == 0

    def free(self) -> None:
        """Unmap all."""
        _libc.munmap(self.address, self.length)


class Userfault:
    """A page that is missing; who touches it waits until it is given (userfaultfd(2))."""

    SYSCALL = 323  # x86-64
    MAGIC, API, REGISTER, ZEROPAGE = 0xAA, 0x3F, 0x00, 0x04
    MISSING = 1

    def __init__(self, address: int) -> None:
        self.address = address
        self.fd = _libc.syscall(self.SYSCALL, os.O_CLOEXEC)
        assert self.fd >= 0, os.strerror(ctypes.get_errno())
        self._call(self.API, self.MAGIC, 0, 0)
        self._call(self.REGISTER, address, PAGE, self.MISSING, 0)

    def _call(self, nr: int, *words: int) -> None:
        arg = (ctypes.c_uint64 * len(words))(*words)
        request = number(nr, ctypes.sizeof(arg), self.MAGIC)
        assert ioctl(self.fd, request, ctypes.addressof(arg)) == 0

    def touched(self, seconds: float) -> None:
        """Wait until a thread needs the page."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        assert ready, "nothing touched the missing page"

    def give(self) -> None:
        """Let the thread go on, with a page of zeros."""
        self._call(self.ZEROPAGE, self.address, PAGE, 0, 0)

    def close(self) -> None:
        """Let go of the page."""
        os.close(self.fd)


def map_shared(fd: int, length: int, offset: int, at: int | None = None) -> int:
    """Map a buffer without Python's own copy of the descriptor; return the address.

    It is ``at``, if that address is free.
    """
    rw = mmap.PROT_READ | mmap.PROT_WRITE
    address = _libc.mmap(at, length, rw, mmap.MAP_SHARED, fd, offset)
    assert address not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    result: int = address
    return result


def enlarge(address: int, length: int, to: int) -> int:
    """Try to make a mapping longer; return the error number, or 0."""
    moved = _libc.mremap(address, length, to, 1)  # MREMAP_MAYMOVE
    return ctypes.get_errno() if moved == ctypes.c_void_p(-1).value else 0


def unmap(address: int, length: int) -> None:
    """Undo map_shared()."""
    assert _libc.munmap(address, length) == 0


def pages() -> Iterator[Pages]:
    """Give memory for one test (the body of a fixture)."""
    memory = Pages.new()
    yield memory
    memory.free()


def with_read_only(fd: int, memory: Pages, name: str, arg: Any) -> int:
    """Make a call whose structure can be read but not written."""
    arg.size = ctypes.sizeof(arg)
    address = memory.put(bytes(arg))
    memory.read_only()
    try:
        return ioctl(fd, CALLS[name][0], address)
    finally:
        memory.writable()
