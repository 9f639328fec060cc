# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A counterexample as a table of docs/wakeups.md: a column for each thread, time downwards.

Where the columns would be too narrow to read, they overlap: see :func:`lanes`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from rich import box
from rich.table import Table

from kfabric.prove import places
from kfabric.prove.output import PLAIN, Step
from kfabric.prove.places import Place

ALONE = ("setup",)
"""What runs before the threads is not shown."""

_VERBS = {
    "lock": "locks",
    "unlock": "unlocks",
    "unlocked": "reaches memory: unlock of",
    "read": "reads",
    "write": "writes",
    "update": "updates",
    "fence": "barrier",
    "sleep": "sleeps",
    "wake": "wakes",
    "alloc": "allocates",
    "free": "frees",
    "choice": "chooses",
    "drain": "reaches memory:",
    "event": "event",
    "hook": "hook",
    "start": "starts",
    "end": "ends",
    "plain-read": "plain read",
    "plain-write": "plain write",
    "race": "data race:",
}
_SILENT = ("start",)
"""Steps that a reader expects."""
_MOST = 1 << 20
_HAS_VALUE = ("read", "write", "update", "drain", *PLAIN)


_NARROW = 36
"""A narrower column is hard to read."""
_MARGIN = 8
"""Between the left edges of two lanes, at most."""
_OFTEN = 4
"""What follows itself so often is shown once, with the number."""
_LONGEST = 64
"""No longer loop is looked for."""

T = TypeVar("T")


@dataclass
class Row:
    """What one thread does in one function before another one runs.

    Args:
        thread: its name.
        function: the function; empty if it is not known.
        file: the name of its file.
        steps: its steps in words, by line; 0: the line is not known.
    """

    thread: str
    function: str = ""
    file: str = ""
    steps: list[tuple[int, list[str]]] = field(default_factory=list)

    def add(self, line: int, words: str) -> None:
        """Add a step; what is done again at once is said once."""
        if not self.steps or self.steps[-1][0] != line:
            self.steps.append((line, []))
        said = self.steps[-1][1]
        if words not in said[-1:]:
            said.append(words)

    @property
    def place(self) -> str:
        """The function and its file; empty if it is not known."""
        return f"{self.function}() {self.file}" if self.function else ""

    @property
    def lines(self) -> list[str]:
        """The steps, those of each line of source together; a loop is shown once."""
        found = [f"{line or ''} {', '.join(words)}".strip() for line, words in self.steps]
        return folded(found, found, lambda _, said: said)

    def __str__(self) -> str:
        return "\n".join([self.place, *self.lines]).strip()


def rows(steps: Sequence[Step], known: Mapping[int, tuple[Place, ...]]) -> list[Row]:
    """The rows: consecutive steps of one thread in one function are one row."""
    joined: list[Row] = []
    for step in steps:
        if step.thread in ALONE or step.op in _SILENT:
            continue
        place = places.under_test((step.place, *step.stack), known)
        own = (step.thread, place.function, Path(place.file).name) if place else (step.thread,)
        row, last = Row(*own), joined[-1] if joined else None
        if last and (last.thread, last.function, last.file) == (row.thread, row.function, row.file):
            row = last
        else:
            joined.append(row)
        row.add(place.line if place else 0, say(step))
    shown = [(row.thread, str(row)) for row in joined]
    return folded(joined, shown, lambda last, said: Row(last.thread, steps=[(0, [said])]))


def folded(things: Sequence[T], keys: Sequence[Hashable], more: Callable[[T, str], T]) -> list[T]:
    """The things, where a loop is there once, followed by how often it repeats.

    Args:
        things: in order.
        keys: what is equal in equal things, for each.
        more: makes the thing that stands for the repetitions, of the loop's last one and words.
    """
    numbers: dict[Hashable, int] = {}
    found = [numbers.setdefault(key, len(numbers)) for key in keys]
    made: list[T] = []
    at = 0
    while at < len(things):
        length, times = _loop(found, at)
        made += things[at : at + length]
        at += length * times
        if times > 1:
            what = "this" if length == 1 else f"these {length}"
            made.append(more(things[at - 1], f"({what} again, {times - 1:,} times)"))
    return made


def _loop(found: Sequence[int], at: int) -> tuple[int, int]:
    """The length of the loop that begins here and how often it is there; 1, 1 if none does."""
    best = (1, 1)
    for length in range(1, min(_LONGEST, (len(found) - at) // _OFTEN) + 1):
        times = _times(found, at, length)
        if times >= _OFTEN and times * length > best[0] * best[1]:
            best = (length, times)
    return best


def _times(found: Sequence[int], at: int, length: int) -> int:
    """How often the things that begin here follow one another."""
    once, times = found[at : at + length], 1
    while found[at + times * length : at + (times + 1) * length] == once:
        times += 1
    return times


def say(step: Step) -> str:
    """A step in words: ``locks queue->lock``, ``writes task->state = 1``."""
    verb = _VERBS.get(step.op, step.op)
    if step.op == "trylock":
        verb = "locks" if step.value == "1" else "finds locked:"
    value = _value(step.value) if step.op in _HAS_VALUE and step.object and step.value else ""
    value = value or (f"({step.size} bytes)" if step.size else "")
    value += f" (older store; now {_value(step.newest)})" if step.newest else ""
    chosen = step.value if step.op == "choice" else ""
    thing = "" if step.op == "sleep" else step.object
    return " ".join(filter(None, (verb, thing, value, chosen)))


def _value(value: str) -> str:
    """``= 1``; an address says no more than that there is one."""
    return "≠ 0" if value.isdigit() and int(value) > _MOST else f"= {value}"


def threads(found: Sequence[Row], order: Sequence[str]) -> list[str]:
    """The columns: those of the scenario that run, then timers and others as they come."""
    running = dict.fromkeys(row.thread for row in found)
    return [*(name for name in order if name in running), *(n for n in running if n not in order)]


def table(found: Sequence[Row], order: Sequence[str], width: int) -> Table | str:
    """The table, for a terminal of a width."""
    columns = threads(found, order)
    if columns and width // len(columns) < _NARROW:
        return lanes(found, columns, width)
    made = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in columns:
        made.add_column(name, ratio=1, overflow="fold")
    for cells in _cells(found, columns):
        made.add_row(*cells)
    return made


def _cells(found: Sequence[Row], columns: Sequence[str]) -> Iterator[list[str]]:
    for row in found:
        yield [str(row) if name == row.thread else "" for name in columns]


def lanes(found: Sequence[Row], columns: Sequence[str], width: int) -> str:
    """The table where each thread has a left edge of its own, and all the width to its right."""
    margin = min(_MARGIN, width // 3 // max(len(columns) - 1, 1))
    lines = ["", *_head(columns, margin), f" {'─' * (width - 2)}"]
    before = ""
    for row in found:
        edge = " " * (1 + margin * columns.index(row.thread))
        name = "" if row.thread == before else f"{row.thread}: "
        first, *rest = [row.place, *row.lines] if row.place else row.lines
        lines += _wrapped(edge, name + first, width)
        lines += [line for text in rest for line in _wrapped(f"{edge}  ", text, width)]
        before = row.thread
    return "\n".join([*lines, ""])


def _head(columns: Sequence[str], margin: int) -> list[str]:
    """The names of the threads at their edges, in one line if they have room."""
    if all(len(name) < margin for name in columns[:-1]):
        return [" " + "".join(f"{name:{margin}}" for name in columns).rstrip()]
    return [" " * (1 + margin * number) + name for number, name in enumerate(columns)]


def _wrapped(edge: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width - 1,
        initial_indent=edge,
        subsequent_indent=f"{edge}  ",
        break_on_hyphens=False,
    )
