# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A plan: what a seed holds in a guest's modules, and where."""

import itertools
import json
import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Self

from kfabric import names
from kfabric.steer.board import Holds

STYLES = ((2, 1_000_000), (16, 8_000_000))
"""Many short holds, or few long ones: at one visit of so many, and for up to so many ns."""
THINNEST = 4
"""A seed chooses one point of two, of four, and so on, to one of 2 ** THINNEST."""
LAST = 4096
"""Bytes of a module's last function, whose end is not known."""
_POINT = re.compile(r"[\w.]+(?:\+0x[0-9a-f]+)?")


@dataclass(frozen=True)
class Function:
    """One function of a module; ``offset`` is from the beginning of the module's code."""

    name: str
    offset: int


@dataclass(frozen=True)
class Aim:
    """A module that was loaded while a plan was in force; a line of the file AIMS.

    Attributes:
        functions: in any order.
        built: the directory of its build; empty if the user has not built it.
    """

    module: str
    functions: tuple[Function, ...]
    built: str

    @classmethod
    def of_line(cls, line: str) -> Self:
        """It, from its JSON."""
        kept = json.loads(line)
        functions = tuple(Function(**one) for one in kept["functions"])
        return cls(kept["module"], functions, kept["built"])


@dataclass(frozen=True)
class Plan:
    """What is held.

    Attributes:
        seed: chooses the points, how often and for how long; the lengths of the holds follow it.
        points: hold at these instead, each ``FUNCTION`` (all of its points) or
            ``FUNCTION+0xOFFSET``.
        modules: those under test; CPUs are held in no others.
    """

    seed: int
    points: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    @classmethod
    def of_environment(cls) -> Self | None:
        """The plan that the environment asks for."""
        text = os.environ.get(names.STEER)
        if not text:
            return None
        asked = json.loads(text)
        return cls(asked["seed"], tuple(asked["points"]), tuple(asked["modules"]))

    def environment(self) -> dict[str, str]:
        """The environment that asks for it."""
        return {names.STEER: json.dumps(asdict(self))}

    def holds(self, module: str, functions: Sequence[Function], length: int) -> Holds:
        """What it does in a module with these functions and so many bytes of code."""
        draw = random.Random(self.seed)
        one_visit_of, longest_ns = draw.choice(STYLES)
        thin = draw.randrange(THINNEST)
        draw.seed(f"{self.seed} {module}")
        chosen = draw.getrandbits(length)
        for _ in range(thin):
            chosen &= draw.getrandbits(length)
        if self.points:
            chosen = 0
            for offsets in (each for point in self.points for each in offsets_of(point, functions)):
                chosen |= (1 << offsets.stop) - (1 << offsets.start)
            chosen &= (1 << length) - 1
        return Holds(self.seed, one_visit_of, longest_ns, chosen)


def is_point(text: str) -> bool:
    """Whether a word may name a point."""
    return bool(_POINT.fullmatch(text))


def offsets_of(point: str, functions: Iterable[Function]) -> Iterator[range]:
    """Where a point is in a module's code: one range for each function of its name."""
    name, _, offset = point.partition("+")
    # A function may have several names.
    starts = sorted({one.offset for one in functions})
    ends = dict(itertools.pairwise(starts))
    for one in functions:
        if one.name == name:
            begin = one.offset + (int(offset, 16) if offset else 0)
            yield range(begin, begin + 1 if offset else ends.get(begin, begin + LAST))
