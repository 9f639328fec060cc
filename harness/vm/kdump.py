# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Converts QEMU's kdump stream into a kdump file that readers accept.

QEMU writes the file as a stream of pieces, which must be put in their places. It also does
not know the guest's kernel, so the kernel's vmcoreinfo (the addresses of page tables and
symbols) is added.
"""

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

STREAM = b"makedumpfile"
STREAM_HEADER = 4096
CORE = b"KDUMP   "
# Fields of uname. QEMU leaves them empty and 10.0 has no machine: readers reject both.
UTSNAME = struct.Struct("65s65s65s65s65s")
MACHINE = b"x86_64"
UTSNAME_AT = 12
BLOCK = 4096
# In the second block: base address; offset and size of vmcoreinfo and of all notes.
PHYS_BASE = struct.Struct("<q")
PLACES = struct.Struct("<4Q")
PLACES_AT = 32
NAME = b"VMCOREINFO"
_PIECE = struct.Struct(">qq")
_NOTE = struct.Struct("<3I")
_CHUNK = 1 << 20


def vmcoreinfo(memory: bytes) -> bytes:
    """The text of the kernel's ELF note at the start of ``memory``; ValueError without one."""
    if len(memory) < _NOTE.size:
        raise ValueError("the kernel's vmcoreinfo is cut off")
    name_size, size, _ = _NOTE.unpack_from(memory)
    name = memory[_NOTE.size :][:name_size].rstrip(b"\0")
    if name != NAME:
        raise ValueError(f"the kernel's vmcoreinfo is called {name[:16]!r}")
    begin = _NOTE.size + _aligned(name_size)
    return memory[begin : begin + size].rstrip(b"\0")


def _aligned(size: int) -> int:
    return size + 3 & ~3


def from_stream(stream: Path, core: Path, info: bytes) -> None:
    """Write a kdump file from QEMU's stream.

    Args:
        core: the new file, readable by its owner only; stays after an error.
        info: vmcoreinfo, appended at the end.

    Raises:
        OSError: it cannot be written.
        ValueError: ``stream`` is not in QEMU's format.
    """
    core.touch(mode=0o600)
    with stream.open("rb") as source, core.open("r+b") as target:
        for offset, size in _pieces(source):
            target.seek(offset)
            _copy(source, target, size)
        target.seek(0)
        if target.read(len(CORE)) != CORE:
            raise ValueError("QEMU's stream has no kdump file")
        _add_vmcoreinfo(target, info)


def _pieces(source: BinaryIO) -> Iterator[tuple[int, int]]:
    """Offset and size of each piece; the caller reads its data before the next one."""
    if not source.read(STREAM_HEADER).startswith(STREAM):
        raise ValueError("QEMU wrote no kdump stream")
    while True:
        head = source.read(_PIECE.size)
        if len(head) < _PIECE.size:
            raise ValueError("QEMU's stream has no end")
        offset, size = _PIECE.unpack(head)
        if offset < 0:
            return
        yield offset, size


def _copy(source: BinaryIO, target: BinaryIO, size: int) -> None:
    while size:
        data = source.read(min(size, _CHUNK))
        if not data:
            raise ValueError("QEMU's stream ends in the middle of a piece")
        target.write(data)
        size -= len(data)


def _add_vmcoreinfo(target: BinaryIO, info: bytes) -> None:
    """Append vmcoreinfo to the notes, which readers expect in one place, and fill the headers."""
    target.seek(BLOCK + PLACES_AT)
    _, _, old, size = PLACES.unpack(target.read(PLACES.size))
    target.seek(old)
    notes = target.read(size)
    notes += _NOTE.pack(len(NAME) + 1, len(info), 0) + NAME.ljust(_aligned(len(NAME) + 1), b"\0")
    begin = target.seek(0, os.SEEK_END)
    target.write(notes + info.ljust(_aligned(len(info)), b"\0"))
    target.seek(BLOCK + PLACES_AT)
    size = len(notes) + _aligned(len(info))
    target.write(PLACES.pack(begin + len(notes), len(info), begin, size))
    target.seek(BLOCK)
    target.write(PHYS_BASE.pack(int(_value(info, b"NUMBER(phys_base)") or b"0")))
    target.seek(UTSNAME_AT)
    release = _value(info, b"OSRELEASE") or b"?"
    target.write(UTSNAME.pack(b"Linux", b"guest", release, b"?", MACHINE))


def _value(info: bytes, key: bytes) -> bytes:
    found = re.search(rb"^%b=(.*)$" % re.escape(key), info, re.MULTILINE)
    return found[1] if found else b""
