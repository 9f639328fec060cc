# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The memory that the addresses in a program point to.

    @out:N            N writable bytes, poisoned
    @info:NAME,F=V    an offer, with fields changed
    @iov:B/M/O/L;...  struct kfab_iov: buffer, region, offset, length
    @rma:A/L/K;...    struct kfab_rma_iov: address, length, key
    @u32:V,V  @u64:V  numbers
    @calls:OP,F=V;... struct kfab_batch_call: calls with fields; a value may be an address
    @str:TEXT         a string, quoted as in an URL
    @host             the link's address as a string
    @addr:NAME        the bytes that the step NAME wrote to its memory
    @sin:PORT         the IPv4 address of the link
    @hex:BYTES

Each may end in a place. "!end": its last byte is the last mapped one; "!cut": its second half
is not mapped; "!ro": it is not writable. Addresses without memory:

    @unmapped  @kernel  @hole (not canonical)  @last (the last byte)  @odd (memory, but odd)

All of it lies in an arena, so that a kernel that writes too much hits only the arena or its end.
"""

import ctypes
import mmap
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from kfabric.fuzz.calls import CALLS
from kfabric.fuzz.syscalls import PAGE, RW, libc, map_memory

_PAGES: Final = 16
_POISON: Final = 0xA5
_RESULT: Final = 0xA5A5A5A5

#: Addresses without memory.
NOWHERE: Final = {
    "unmapped": 0x1000,
    "null": 0,
    "kernel": 0xFFFF888000000000,
    "hole": 0x8000000000000000,
    "last": 0xFFFFFFFFFFFFFFFF,
}


class Arena:
    """Memory for the arguments of one thread's calls; the page after it is not mapped."""

    def __init__(self) -> None:
        self._start = map_memory((_PAGES + 1) * PAGE)
        self._edge = self._start + _PAGES * PAGE
        libc.munmap(self._edge, PAGE)
        self._next = self._start
        self._locked = False

    def reset(self) -> None:
        """Free the memory of the last call."""
        self._next = self._start
        if self._locked:
            libc.mprotect(self._start, _PAGES * PAGE, RW)
            self._locked = False

    def place(self, data: bytes, where: str = "") -> int:
        """Copy bytes to a place, "end", "cut", "ro" or anywhere; return their address."""
        if where in ("end", "cut"):
            kept = data if where == "end" else data[: len(data) // 2]
            address = self._edge - len(kept)
            ctypes.memmove(address, kept, len(kept))
            return address
        if where == "ro":
            return self._read_only(data)
        if self._next + len(data) > self._edge:
            self._next = self._start
        address = self._next
        ctypes.memmove(address, data, min(len(data), self._edge - address))
        self._next += -(-len(data) // 64) * 64
        return address

    def _read_only(self, data: bytes) -> int:
        """Copy bytes to pages of their own, which become read-only."""
        page = self._edge - 4 * PAGE
        libc.mprotect(page, 2 * PAGE, RW)
        ctypes.memmove(page, data, min(len(data), 2 * PAGE))
        libc.mprotect(page, 2 * PAGE, mmap.PROT_READ)
        self._locked = True
        return page


@dataclass(frozen=True)
class Pointers:
    """Makes the memory that `@` words name.

    Attributes:
        infos: the offers, by name.
        address: IPv4 address of the link.
        number: returns the value of other words.
        written: returns the bytes that a step wrote to its memory.
    """

    infos: Mapping[str, ctypes.Structure]
    address: str
    number: Callable[[str], int]
    written: Callable[[str], bytes]

    def resolve(self, word: str, arena: Arena) -> tuple[int, int]:
        """Return address and length of the memory that a word names; length 0 if it has none."""
        body, _, where = word[1:].partition("!")
        kind, _, rest = body.partition(":")
        if kind in NOWHERE:
            return NOWHERE[kind], 0
        if kind == "odd":
            return arena.place(bytes(512)) + 1, 0
        data = self._calls(rest, arena) if kind == "calls" else self._make(kind, rest)
        return arena.place(data, where), len(data) if where in ("", "end") else 0

    def _make(self, kind: str, rest: str) -> bytes:
        makers: dict[str, Callable[[str], bytes]] = {
            "out": lambda text: bytes([_POISON]) * int(text),
            "info": self._info,
            "iov": lambda text: self._rows(text, "IIQQ"),
            "rma": lambda text: self._rows(text, "QQQ"),
            "u32": lambda text: self._rows(text, "I", ","),
            "u64": lambda text: self._rows(text, "Q", ","),
            "str": lambda text: unquote(text).encode() + b"\0",
            "host": lambda _: self.address.encode() + b"\0",
            "addr": self.written,
            "sin": self._socket_address,
            "hex": bytes.fromhex,
        }
        return makers[kind](rest)

    def _rows(self, text: str, layout: str, separator: str = ";") -> bytes:
        """Pack rows of numbers; too big ones lose their upper bits."""
        masks = [0xFFFFFFFF if code == "I" else 0xFFFFFFFFFFFFFFFF for code in layout]
        rows = (map(self.number, row.split("/")) for row in text.split(separator))
        return b"".join(
            struct.pack(f"={layout}", *(v & m for v, m in zip(row, masks, strict=True)))
            for row in rows
        )

    def _calls(self, text: str, arena: Arena) -> bytes:
        """Place the structure of each call; return the array that points to them."""
        elements = []
        for one in text.split(";"):
            name, *fields = one.split(",")
            number, struct_type = CALLS[name]
            arg = struct_type()
            arg.size = ctypes.sizeof(struct_type)
            for key, _, word in (field.partition("=") for field in fields):
                at = word.startswith("@")
                setattr(arg, key, self.resolve(word, arena)[0] if at else self.number(word))
            elements.append(struct.pack("=IIQ", number, _RESULT, arena.place(bytes(arg))))
        return b"".join(elements)

    def _info(self, text: str) -> bytes:
        name, *changes = text.split(",")
        found = self.infos.get(name)
        if found is None:
            return bytes(64)
        info = type(found).from_buffer_copy(found)
        for change in changes:
            key, _, value = change.partition("=")
            old = getattr(info, key)
            if isinstance(old, ctypes.Array):
                old[:] = [self.number(value) & 0xFF] * len(old)
            else:
                setattr(info, key, self.number(value))
        return bytes(info)

    def _socket_address(self, port: str) -> bytes:
        head = struct.pack("=H", socket.AF_INET) + struct.pack("!H", int(port))
        return head + socket.inet_aton(self.address) + bytes(8)
