# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: system calls without a library that corrects an argument or a result."""

import ctypes
import mmap
import os
import platform
from typing import Final

PAGE: Final = mmap.PAGESIZE
_MAP_FIXED: Final = 0x10
RW: Final = mmap.PROT_READ | mmap.PROT_WRITE
_ANONYMOUS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_IOCTL, _TGKILL = {"x86_64": (16, 234), "aarch64": (29, 131)}[platform.machine()]

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.argtypes = [
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
    ctypes.c_long,
]
libc.mmap.restype = ctypes.c_void_p
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.syscall.restype = ctypes.c_long


def ioctl(fd: int, number: int, address: int) -> int:
    """Make the system call; return its result, or the negative error number."""
    words = (fd, number, address)
    result: int = libc.syscall(ctypes.c_long(_IOCTL), *map(ctypes.c_ulong, words))
    return result if result != -1 else -ctypes.get_errno()


def send_signal(tid: int, number: int) -> None:
    """Send a signal to a thread of this process, which may have ended already."""
    libc.syscall(ctypes.c_long(_TGKILL), *map(ctypes.c_long, (os.getpid(), tid, number)))


def map_memory(length: int, fd: int = -1, offset: int = 0, prot: int = RW, flags: int = 0) -> int:
    """Map memory, anonymous without a descriptor; return the address. Raises OSError."""
    address = libc.mmap(None, length, prot, flags or _ANONYMOUS, fd, offset)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(address)


def reserve(address: int, length: int) -> None:
    """Replace a mapping by one without any access."""
    libc.mmap(address, length, 0, _ANONYMOUS | _MAP_FIXED, -1, 0)
