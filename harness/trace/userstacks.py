# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Names the frames of user stacks: ``main+0x12 [cat]``.

A stack is a list of addresses in one process. They mean something only together with the
process's mappings, which are read as soon as a stack of the process arrives. If the process
has ended by then, its frames stay addresses. Symbols come from the files' own symbol tables;
a file without them gives ``[libc.so.6]+0x1234``, for addr2line.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kfabric.recording.records import NO_STACK

_PROC = Path("/proc")
# ELF, 64 bits, little endian: parts of the header, of a segment, of a section, of a symbol.
_MAGIC = b"\x7fELF\x02\x01"
_PLACES = struct.Struct("<32xQQ6xHHHH")
_SEGMENT = struct.Struct("<I4xQQ8xQ")
_SECTION = struct.Struct("<4xI16xQQI12xQ")
_SYMBOL = struct.Struct("<IBxHQQ")
_LOAD, _SYMTAB, _DYNSYM, _FUNCTION = 1, 2, 11, 2


class Mapping(NamedTuple):
    """A part of a file in the memory of a process."""

    start: int
    end: int
    offset: int
    path: str

    @classmethod
    def parse(cls, line: str) -> Mapping:
        """Read a line of /proc/PID/maps."""
        words = line.split(maxsplit=5)
        start, _, end = words[0].partition("-")
        path = words[5] if len(words) > 5 else ""
        return cls(int(start, 16), int(end, 16), int(words[2], 16), path)


@dataclass(frozen=True, slots=True)
class Symbols:
    """The functions of an ELF file: their addresses in order, ends and names."""

    segments: tuple[tuple[int, int, int], ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    names: tuple[str, ...]

    def name(self, offset: int) -> str:
        """The function at an offset of the file, with the distance from its begin, or empty."""
        for at, address, size in self.segments:
            if at <= offset < at + size:
                place = offset - at + address
                number = bisect_right(self.starts, place) - 1
                if number >= 0 and place < self.ends[number]:
                    return f"{self.names[number]}+{place - self.starts[number]:#x}"
        return ""


def read_symbols(path: Path) -> Symbols:
    """Read the symbol tables of an ELF file; none if it has none or is no such file."""
    with suppress(OSError, struct.error, IndexError):
        data = path.read_bytes()
        if data.startswith(_MAGIC):
            return _parse(data)
    return Symbols((), (), (), ())


def _parse(data: bytes) -> Symbols:
    segments_at, sections_at, segment_size, segments, section_size, sections = _PLACES.unpack_from(
        data
    )
    loaded = []
    for number in range(segments):
        kind, *place = _SEGMENT.unpack_from(data, segments_at + number * segment_size)
        if kind == _LOAD:
            loaded.append(tuple(place))
    places = [sections_at + number * section_size for number in range(sections)]
    functions = sorted(set(_functions(data, places)))
    return Symbols(
        tuple(loaded),
        tuple(start for start, _, _ in functions),
        tuple(end for _, end, _ in functions),
        tuple(name for _, _, name in functions),
    )


def _functions(data: bytes, places: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    for place in places:
        kind, at, size, link, entry = _SECTION.unpack_from(data, place)
        if kind not in (_SYMTAB, _DYNSYM):
            continue
        _, strings, _, _, _ = _SECTION.unpack_from(data, places[link])
        for number in range(size // entry):
            name, info, section, start, length = _SYMBOL.unpack_from(data, at + number * entry)
            if info & 0xF == _FUNCTION and section and length:
                text = data[strings + name : data.index(b"\0", strings + name)]
                yield start, start + length, text.decode(errors="replace")


class UserStacks:
    """The user stacks of a trace, and the mappings of their processes."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._maps: dict[int, list[Mapping]] = {}
        self._owners: dict[int, int] = {}
        self._symbols = cache(read_symbols)

    def meet(self, stack: int, tid: int) -> None:
        """Note a thread's stack, or NO_STACK, and read the mappings of a thread that is new."""
        if stack == NO_STACK:
            return
        if tid not in self._maps:
            with suppress(OSError):
                text = (self._proc / str(tid) / "maps").read_text()
                self._maps[tid] = sorted(map(Mapping.parse, text.splitlines()))
        # After a fork several processes have the same stack, and some have ended.
        if self._owners.get(stack) not in self._maps:
            self._owners[stack] = tid

    def knows(self, stack: int) -> bool:
        """Is it a user stack?"""
        return stack in self._owners

    def frames(self, stack: int, addresses: Iterable[int]) -> tuple[str, ...]:
        """The frames of a user stack, innermost first."""
        maps = self._maps.get(self._owners[stack], [])
        return tuple(self._name(maps, address) for address in addresses)

    def _name(self, maps: Sequence[Mapping], address: int) -> str:
        number = bisect_right(maps, address, key=lambda mapping: mapping.start) - 1
        if number < 0 or address >= maps[number].end or not maps[number].path:
            return f"{address:#x}"
        mapping = maps[number]
        path = Path(mapping.path)
        offset = address - mapping.start + mapping.offset
        name = self._symbols(path).name(offset) if path.is_absolute() else ""
        return f"{name} [{path.name}]" if name else f"[{path.name}]+{offset:#x}"
