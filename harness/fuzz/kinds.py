# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Kinds of values for the fields of a call.

A kind has good values, with which the call gets far, and bad ones, which the call has to refuse:
a closed object or one of another class, a number at a boundary or beyond it, an address without
memory. Values are words of program.py's text.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kfabric_py import _uapi as u

INFOS: Final = ("mock", "manual", "msg", "rdm", "cxi", "sep")
"""Names of the offers that every program can use; see server.py."""
INFO_FIELDS: Final = tuple(name for name, *_ in u.kfab_info._fields_ if name != "__reserved")
#: Limits of types and sizes, and numbers next to them.
BOUNDARIES: Final = (
    *(0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025),
    *(4095, 4096, 4097, 65535, 65536, 65537, 0x400000, 0x400001, 1 << 30),
    *(0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, (1 << 32) + 1, 1 << 48),
    *(0x7FFFFFFFFFFFFFFF, 1 << 63, 0xFFFFFFFFFFFFF000, 0xFFFFFFFFFFFFFFFF),
)
#: Addresses that cannot be read or written; see memory.py.
NOWHERE: Final = ("0", "1", "@unmapped", "@kernel", "@hole", "@last", "@odd")
#: Ends of the memory: at the last byte of the arena, half beyond it, not writable.
PLACES: Final = ("!end", "!cut", "!ro")


@dataclass
class Draw:
    """The source of values.

    Attributes:
        rng: random numbers.
        pool: names of objects by class, oldest first, closed ones included.
        wild: probability of a bad value.
    """

    rng: Random
    pool: dict[str, list[str]] = field(default_factory=dict)
    wild: float = 0.0

    def name(self, classes: tuple[str, ...], part: str = "") -> str:
        """A reference to an object of one of these classes, preferably a young one; or 0."""
        names = [name for one in classes for name in self.pool.get(one, ())]
        if not names:
            return "0"
        if len(names) > 4 and self.rng.random() < 0.5:
            names = names[-4:]
        return f"%{self.rng.choice(names)}{part}"

    def anything(self) -> str:
        """A reference to an object of any class; or 0."""
        return self.name(tuple(self.pool))

    def boundary(self) -> str:
        """A number at a boundary."""
        return hex(self.rng.choice(BOUNDARIES))


Pick = Callable[[Draw], str]


@dataclass(frozen=True)
class Kind:
    """The values of a field."""

    good: Pick
    bad: Pick

    def draw(self, draw: Draw) -> str:
        """A value, bad with the probability of the draw."""
        return (self.bad if draw.rng.random() < draw.wild else self.good)(draw)


def handle(*classes: str, or_none: float = 0.0) -> Kind:
    """An object of one of these classes; 0 with the probability `or_none`."""

    def good(draw: Draw) -> str:
        return "0" if draw.rng.random() < or_none else draw.name(classes)

    def bad(draw: Draw) -> str:
        return draw.anything() if draw.rng.random() < 0.7 else draw.boundary()

    return Kind(good, bad)


def one_of(*values: int) -> Kind:
    """One of these numbers; one that is named twice is drawn twice as often."""
    return Kind(lambda draw: hex(draw.rng.choice(values)), Draw.boundary)


def bits(*values: int, most: int = 3) -> Kind:
    """Up to `most` of these bits; bad: any bit, or a boundary."""

    def good(draw: Draw) -> str:
        wanted = draw.rng.randrange(min(most, len(values)) + 1)
        return hex(sum(set(draw.rng.sample(values, wanted))))

    def bad(draw: Draw) -> str:
        return hex(1 << draw.rng.randrange(64)) if draw.rng.random() < 0.7 else draw.boundary()

    return Kind(good, bad)


def deadline(*milliseconds: int) -> Kind:
    """Now, or soon; bad: before the start of the clock, long ago, or never."""

    def good(draw: Draw) -> str:
        wait = draw.rng.choice(milliseconds)
        return f"+{wait}ms" if wait else "0"

    def bad(draw: Draw) -> str:
        never = hex(u.KFAB_DEADLINE_NONE)
        return draw.rng.choice(["-1", "-0x8000000000000000", "1", "+30ms", "+30ms", never])

    return Kind(good, bad)


def at(good: Pick) -> Kind:
    """The address of a good value; bad: no memory, or memory for a part of it only."""

    def bad(draw: Draw) -> str:
        if draw.rng.random() < 0.5:
            return draw.rng.choice(NOWHERE)
        value = good(draw)
        return value + draw.rng.choice(PLACES) if value.startswith("@") else value

    return Kind(good, bad)


def room(*sizes: int) -> Kind:
    """The address of writable memory of one of these sizes."""
    return at(lambda draw: f"@out:{draw.rng.choice(sizes)}")


def perhaps(kind: Kind, often: float = 0.5) -> Kind:
    """A value of another kind with a probability, otherwise 0."""
    return Kind(lambda draw: kind.good(draw) if draw.rng.random() < often else "0", kind.bad)


def info(*names: str) -> Kind:
    """The address of an offer as GETINFO returned it; bad: with fields changed."""

    def bad(draw: Draw) -> str:
        if draw.rng.random() < 0.2:
            return draw.rng.choice(NOWHERE)
        fields = (draw.rng.choice(INFO_FIELDS) for _ in range(draw.rng.randrange(1, 4)))
        changes = "".join(f",{name}={draw.boundary()}" for name in fields)
        place = draw.rng.choice(PLACES) if draw.rng.random() < 0.2 else ""
        return f"@info:{draw.rng.choice(INFOS)}{changes}{place}"

    return Kind(lambda draw: f"@info:{draw.rng.choice(names or INFOS)}", bad)


def text(*texts: str) -> Kind:
    """The address of one of these strings; an empty one stands for the link's address."""

    def good(draw: Draw) -> str:
        chosen = draw.rng.choice(texts)
        return f"@str:{chosen}" if chosen else "@host"

    return perhaps(at(good))


def pieces(most: int = 3) -> Kind:
    """The address of an array of struct kfab_iov."""

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
    """The address of a struct kfab_rma_iov: a part of a peer's memory region."""

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


def calls(*makers: Pick) -> Kind:
    """The address of an array of calls, each made by one of the makers, in a batch."""

    def good(draw: Draw) -> str:
        count = draw.rng.choice([1, 1, 2, 4])
        return "@calls:" + ";".join(draw.rng.choice(makers)(draw) for _ in range(count))

    return at(good)


def address() -> Kind:
    """The address of a network address: one that GETNAME wrote, or an invented one."""

    def good(draw: Draw) -> str:
        name = draw.name(("name",))
        if name != "0" and draw.rng.random() < 0.9:
            return f"@addr:{name[1:]}"
        return draw.rng.choice(["@sin:4791", "@sin:0", "@hex:0100000000000000"])

    return at(good)


def peer() -> Kind:
    """A peer's address as an address vector returned it."""

    def good(draw: Draw) -> str:
        name = draw.name(("peer",), ".addr")
        return name if draw.rng.random() < 0.95 else hex(u.KFAB_ADDR_UNSPEC)

    return Kind(good, Draw.boundary)
