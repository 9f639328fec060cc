# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Kinds of values: what a field of a call may be given.

A kind has good values, with which the call gets deep, and bad ones, which it has to
refuse: what is closed, of another class, at the boundary, beyond it, or nowhere in
memory. Values are words of program.py's text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kfabric_py import _uapi as u

INFOS: Final = ("mock", "manual", "msg", "rdm", "cxi", "sep")
"""Offers that every program finds; see player.py."""
INFO_FIELDS: Final = tuple(name for name, *_ in u.kfab_info._fields_ if name != "__reserved")
#: Numbers at which something ends.
BOUNDARIES: Final = (
    *(0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025),
    *(4095, 4096, 4097, 65535, 65536, 65537, 0x400000, 0x400001, 1 << 30),
    *(0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, (1 << 32) + 1, 1 << 48),
    *(0x7FFFFFFFFFFFFFFF, 1 << 63, 0xFFFFFFFFFFFFF000, 0xFFFFFFFFFFFFFFFF),
)
#: Addresses at which nothing may be read or written; see memory.py.
NOWHERE: Final = ("0", "1", "@unmapped", "@kernel", "@hole", "@last", "@odd")
#: Ends of what is pointed to: at the last byte of memory, half beyond it, not writable.
PLACES: Final = ("!end", "!cut", "!ro")


@dataclass
class Draw:
    """Where values are drawn from.

    :param pool: names by class, oldest first; what was closed stays among them.
    :param wild: how often a value is bad, 0 to 1.
    """

    rng: Random
    pool: dict[str, list[str]] = field(default_factory=dict)
    wild: float = 0.0

    def name(self, classes: tuple[str, ...], part: str = "") -> str:
        """A reference to something of one of these classes, rather a young one; or 0."""
        names = [name for one in classes for name in self.pool.get(one, ())]
        if not names:
            return "0"
        if len(names) > 4 and self.rng.random() < 0.5:
            names = names[-4:]
        return f"%{self.rng.choice(names)}{part}"

    def anything(self) -> str:
        """A reference to something of any class; or 0."""
        return self.name(tuple(self.pool))

    def boundary(self) -> str:
        """A number at which something ends."""
        return hex(self.rng.choice(BOUNDARIES))


Pick = Callable[[Draw], str]


@dataclass(frozen=True)
class Kind:
    """What may stand in a field."""

    good: Pick
    bad: Pick

    def draw(self, draw: Draw) -> str:
        """A value; good or bad as the draw is wild."""
        pick = self.bad if draw.rng.random() < draw.wild else self.good
        return pick(draw)


def handle(*classes: str, or_none: float = 0.0) -> Kind:
    """An object of one of these classes; without any so often."""

    def good(draw: Draw) -> str:
        return "0" if draw.rng.random() < or_none else draw.name(classes)

    def bad(draw: Draw) -> str:
        return draw.anything() if draw.rng.random() < 0.7 else draw.boundary()

    return Kind(good, bad)


def one_of(*values: int) -> Kind:
    """One of some numbers; those that are named twice are wanted more often."""
    return Kind(lambda draw: hex(draw.rng.choice(values)), Draw.boundary)


def bits(*values: int, most: int = 3) -> Kind:
    """Some bits of these."""

    def good(draw: Draw) -> str:
        wanted = draw.rng.randrange(min(most, len(values)) + 1)
        return hex(sum(set(draw.rng.sample(values, wanted))))

    def bad(draw: Draw) -> str:
        return hex(1 << draw.rng.randrange(64)) if draw.rng.random() < 0.7 else draw.boundary()

    return Kind(good, bad)


def deadline(*milliseconds: int) -> Kind:
    """Now, or soon; badly: before the clock's start, long ago, or never."""

    def good(draw: Draw) -> str:
        wait = draw.rng.choice(milliseconds)
        return f"+{wait}ms" if wait else "0"

    def bad(draw: Draw) -> str:
        never = hex(u.KFAB_DEADLINE_NONE)
        return draw.rng.choice(["-1", "-0x8000000000000000", "1", "+30ms", "+30ms", never])

    return Kind(good, bad)


def at(good: Pick) -> Kind:
    """The address of something; badly: nowhere, or only in part."""

    def bad(draw: Draw) -> str:
        if draw.rng.random() < 0.5:
            return draw.rng.choice(NOWHERE)
        value = good(draw)
        return value + draw.rng.choice(PLACES) if value.startswith("@") else value

    return Kind(good, bad)


def room(*sizes: int) -> Kind:
    """The address of so many bytes that can be written."""
    return at(lambda draw: f"@out:{draw.rng.choice(sizes)}")


def perhaps(kind: Kind, often: float = 0.5) -> Kind:
    """Another kind, so often, else 0."""
    return Kind(lambda draw: kind.good(draw) if draw.rng.random() < often else "0", kind.bad)


def info(*names: str) -> Kind:
    """The address of an offer as GETINFO gave it; badly: with fields changed."""

    def bad(draw: Draw) -> str:
        if draw.rng.random() < 0.2:
            return draw.rng.choice(NOWHERE)
        fields = (draw.rng.choice(INFO_FIELDS) for _ in range(draw.rng.randrange(1, 4)))
        changes = "".join(f",{name}={draw.boundary()}" for name in fields)
        place = draw.rng.choice(PLACES) if draw.rng.random() < 0.2 else ""
        return f"@info:{draw.rng.choice(INFOS)}{changes}{place}"

    return Kind(lambda draw: f"@info:{draw.rng.choice(names or INFOS)}", bad)


def text(*texts: str) -> Kind:
    """The address of a string; an empty one stands for the link's address."""

    def good(draw: Draw) -> str:
        chosen = draw.rng.choice(texts)
        return f"@str:{chosen}" if chosen else "@host"

    return perhaps(at(good))


def pieces(most: int = 3) -> Kind:
    """The address of pieces of buffers."""

    def piece(draw: Draw) -> str:
        mr = draw.name(("mr",)) if draw.rng.random() < 0.5 else "0"
        offset, length = draw.rng.choice([(0, 8), (0, 64), (8, 8), (1, 4095), (4096, 4096)])
        if draw.rng.random() < draw.wild:
            return f"{draw.anything()}/{mr}/{draw.boundary()}/{draw.boundary()}"
        return f"{draw.name(('buf',))}/{mr}/{offset}/{length}"

    def good(draw: Draw) -> str:
        count = draw.rng.choice([1, 1, 1, 1, most])
        return "@iov:" + ";".join(piece(draw) for _ in range(count))

    return at(good)


def remote() -> Kind:
    """The address of a piece of a peer's region."""

    def good(draw: Draw) -> str:
        base = draw.name(("mr",)) if draw.rng.random() < 0.95 else "0"
        start, key = (f"{base}.iova", f"{base}.key") if base != "0" else ("0", "0")
        if draw.rng.random() < draw.wild:
            return f"@rma:{start}/{draw.boundary()}/{draw.boundary()}"
        return f"@rma:{start}/{draw.rng.choice([8, 8, 64, 4096])}/{key}"

    return at(good)


def handles(*classes: str) -> Kind:
    """The address of an array of handles."""

    def good(draw: Draw) -> str:
        count = draw.rng.choice([1, 1, 2, 4])
        return "@u32:" + ",".join(draw.name(classes) for _ in range(count))

    return at(good)


def address() -> Kind:
    """The address of a network address: of an endpoint that was asked for its name, or made up."""

    def good(draw: Draw) -> str:
        name = draw.name(("name",))
        if name != "0" and draw.rng.random() < 0.9:
            return f"@addr:{name[1:]}"
        return draw.rng.choice(["@sin:4791", "@sin:0", "@hex:0100000000000000"])

    return at(good)


def peer() -> Kind:
    """What an address vector calls a peer."""

    def good(draw: Draw) -> str:
        name = draw.name(("peer",), ".addr")
        return name if draw.rng.random() < 0.95 else hex(u.KFAB_ADDR_UNSPEC)

    return Kind(good, Draw.boundary)
