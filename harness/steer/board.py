# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The board: the file that the plugin inside QEMU and the guest share.

The guest writes where its modules' code is and which points hold CPUs. The plugin counts, for each
point, how often a CPU has passed it, how often it was held there, and for how long. The layout is
that of ``struct board`` in plugin.c, which makes the file. A point is a byte of code; those of a
module have the same numbers each time that it is loaded.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PLUGIN = Path(__file__).with_name("plugin.c")
MODULES = 16
POINTS = 1 << 22
AREA = range(0xFFFF_FFFF_A000_0000, 0xFFFF_FFFF_FF00_0000)
"""Where the plugin looks for modules."""

_HEAD = struct.Struct("<QQQ")
_MODULE = struct.Struct("<56sQQQQ")
_WORD = struct.Struct("<Q")
_POINT = struct.Struct("<IIQ")
_CHOSEN = _HEAD.size + MODULES * _MODULE.size
_FIRST = _CHOSEN + POINTS // 8
SIZE = _FIRST + POINTS * _POINT.size
# Points are few: most of the file is a hole.
_CHUNK = 4096 * _POINT.size


@dataclass(frozen=True)
class Holds:
    """Where, how often and for how long CPUs are held in a module.

    Attributes:
        seed: of the lengths and of the visits.
        one_visit_of: so many visits of a point holds a CPU, on average.
        longest_ns: the longest hold.
        chosen: a set of the module's points: bit N stands for byte N of its code.
    """

    seed: int
    one_visit_of: int
    longest_ns: int
    chosen: int


@dataclass(frozen=True)
class Use:
    """What the plugin did at a point of a module."""

    module: str
    offset: int
    """From the beginning of the module's code."""
    visits: int
    holds: int
    held_ns: int


def aim(path: Path, module: str, code: range, holds: Holds) -> None:
    """Hold CPUs in a module that was just loaded, from now on.

    Args:
        code: its addresses; the length is the same each time, and a multiple of 8.

    Raises:
        ValueError: they are too many, or not where modules are; or there are too many modules.
    """
    if code.start not in AREA or code.stop - 1 not in AREA:
        raise ValueError(f"{code.start:#x} is no address of a module")
    with path.open("r+b", buffering=0) as board:
        entries = _entries(board.read(_CHOSEN))
        number = next((n for n, one in enumerate(entries) if one.module in ("", module)), None)
        if number is None:
            raise ValueError(f"a board has room for {MODULES} modules, and not for {module}")
        first = entries[number].first
        if first + len(code) > POINTS:
            raise ValueError(f"there is no room for {len(code)} bytes of {module}")

        def write(where: int, what: bytes) -> None:
            board.seek(where)
            board.write(what)

        for other, one in enumerate(entries):
            # A module that was there before, and is no more.
            if one.code.start < code.stop and code.start < one.code.stop:
                write(_end(other), _WORD.pack(0))
        # The end comes last: there is no code of this module until then, and none any more.
        write(_end(number), _WORD.pack(0))
        entry = _MODULE.pack(module.encode(), first, len(code), code.start, 0)
        write(_HEAD.size + number * _MODULE.size, entry)
        write(0, _HEAD.pack(holds.seed, holds.one_visit_of, holds.longest_ns))
        write(_CHOSEN + first // 8, holds.chosen.to_bytes(len(code) // 8, "little"))
        write(_end(number), _WORD.pack(code.stop))


def forget(path: Path, module: str) -> None:
    """Hold no CPU in a module any more; what was counted stays."""
    with path.open("r+b", buffering=0) as board:
        for number, one in enumerate(_entries(board.read(_CHOSEN))):
            if one.module == module:
                board.seek(_end(number))
                board.write(_WORD.pack(0))


def _end(number: int) -> int:
    """Where the end of a module's code is written."""
    return _HEAD.size + (number + 1) * _MODULE.size - _WORD.size


@dataclass(frozen=True)
class _Entry:
    """What the board knows of a module; without a name, it is free."""

    module: str
    first: int
    points: int
    code: range


def _entries(head: bytes) -> list[_Entry]:
    entries: list[_Entry] = []
    first = 0
    for place in range(_HEAD.size, _CHOSEN, _MODULE.size):
        name, _, points, begin, end = _MODULE.unpack_from(head, place)
        entries.append(_Entry(name.rstrip(b"\0").decode(), first, points, range(begin, end)))
        first += points
    return entries


def uses(path: Path) -> Iterator[Use]:
    """The points that were passed, module by module."""
    with path.open("rb") as file:
        for entry in _entries(file.read(_CHOSEN)):
            file.seek(_FIRST + entry.first * _POINT.size)
            left = entry.points * _POINT.size
            offset = 0
            while left and (chunk := file.read(min(left, _CHUNK))):
                left -= len(chunk)
                if any(chunk):
                    for at, point in enumerate(_POINT.iter_unpack(chunk), offset):
                        if point[0]:
                            yield Use(entry.module, at, *point)
                offset += len(chunk) // _POINT.size
