# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Shows where the CPUs of steered guests were held."""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kfabric import names
from kfabric.docs.markdown import row
from kfabric.steer.board import uses
from kfabric.steer.plan import Aim, Function
from kfabric.vm import sourcelines

HEADS = ("point", "module", "passed", "held", "ms", "", "line of source")
LINED = 40
"""Points whose lines are looked up, at a tenth of a second each; some modules have thousands."""
LONGEST = 20
"""Characters of the bar of the point that was held longest."""


@dataclass
class Held:
    """What was done at one point, in all guests.

    Attributes:
        point: as ``--points`` takes it.
        built: as that of :class:`kfabric.steer.plan.Aim`.
    """

    module: str
    point: str
    built: str = ""
    visits: int = 0
    holds: int = 0
    held_ns: int = 0

    def cells(self, longest_ns: int) -> list[str]:
        """Its cells; the last one is a bar, as long as it was held."""
        counts = (str(self.visits), str(self.holds), f"{self.held_ns / 1e6:.1f}")
        bar = "█" * -(-LONGEST * self.held_ns // max(longest_ns, 1))
        return [self.point, self.module, *counts, bar]

    def line(self) -> str:
        """Its line of source, and those that it is inlined at; empty if they are not known."""
        function, _, offset = self.point.partition("+")
        if not self.built:
            return ""
        return sourcelines.of(self.module, function, int(offset, 16), Path(self.built))

    def place(self) -> str:
        """The point with its module, and its line of source if that is known."""
        line = self.line()
        return f"{self.point} [{self.module}]{f' ({line})' if line else ''}"


def boards(directory: Path) -> list[Path]:
    """The boards of a run's guests that have loaded a module under test."""
    return sorted(path.with_name(names.BOARD) for path in directory.rglob(names.AIMS))


def read(paths: Iterable[Path]) -> list[Held]:
    """The points that were passed; first those where CPUs were held longest."""
    found: dict[tuple[str, str], Held] = {}
    for path in paths:
        # The guest may have ended in the middle of a line.
        lines = path.with_name(names.AIMS).read_text().rpartition("\n")[0].splitlines()
        aims = {aim.module: aim for aim in map(Aim.of_line, lines)}
        for use in uses(path):
            aim = aims[use.module]
            functions = sorted(aim.functions, key=_offset)
            if use.offset < functions[0].offset:
                continue  # of no function
            point = _name(functions, use.offset)
            held = found.setdefault((use.module, point), Held(use.module, point, aim.built))
            held.visits += use.visits
            held.holds += use.holds
            held.held_ns += use.held_ns
    return sorted(found.values(), key=lambda one: -one.held_ns)


def _offset(function: Function) -> int:
    return function.offset


def _name(functions: Sequence[Function], offset: int) -> str:
    """The name of a point, among functions sorted by place."""
    at = bisect.bisect_right(functions, offset, key=_offset) - 1
    return f"{functions[at].name}+{offset - functions[at].offset:#x}"


def markdown(held: Sequence[Held]) -> str:
    """The table of all of them."""
    longest = max((one.held_ns for one in held), default=0)
    heads = [row(HEADS), row(["---"] * len(HEADS))]
    lines = [*(one.line() for one in held[:LINED]), *("" for _ in held[LINED:])]
    rows = (row([*one.cells(longest), line]) for one, line in zip(held, lines, strict=True))
    return "".join([*heads, *rows])
