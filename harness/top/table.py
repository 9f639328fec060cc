# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The table of `kfabric top`: for a terminal while it runs, and as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kfabric.errors import counted
from kfabric.top.objects import ObjectCounts, order
from kfabric.trace.summary import percentile
from kfabric.trace.table import aligned, bars, drawn, duration

if TYPE_CHECKING:
    from rich.table import Table

#: Columns that are one count each, with its name in the module's list.
_COUNTS = {
    "wakes": "wakes",
    "overt.": "overtaken",
    "spur.": "spurious",
    "t/o": "timeouts",
    "intr": "interrupts",
    "passed": "handed_on",
    "overrun": "overruns",
    "deep": "deepest_fill",
}
HEADS = (
    *("asleep", "longest", "slept", "sleeps", "signals", "per s"),
    *_COUNTS,
    *("p50", "p99", "signal→return", "object", "opened by"),
)
COLUMNS = (
    "Columns: longest: the oldest sleep that still lasts; slept: all sleeps added up; overt.: "
    "woken for an entry that another thread had read; spur.: woken for nothing; passed: wake-ups "
    "handed on; deep: most entries at once, of a set members; p50, p99: from signal to return; "
    "signal→return: the histogram, a column for each factor of 4 from 1 µs."
)
_NUMBERS = len(HEADS) - 3
_WITHOUT_WAITERS = frozenset(("ep", "domain"))


def cells(one: ObjectCounts, rate: float) -> tuple[str, ...]:
    """A row's words, in the order of HEADS."""
    latency = one.latency
    return (
        str(one.number("asleep")),
        *(
            duration(ns) if (ns := one.number(name)) else "-"
            for name in ("longest_ns", "asleep_ns")
        ),
        *(str(one.number(name)) for name in ("sleeps", "signals")),
        f"{rate:.0f}" if rate >= 0.5 else "-",
        *(str(one.number(name)) for name in _COUNTS.values()),
        *(duration(percentile(latency, p)) if sum(latency) else "-" for p in (0.5, 0.99)),
        bars(latency) if latency else "",
        one.name,
        f"{one.comm} ({one.pid})",
    )


class History:
    """The last counts of each object, and its rate."""

    def __init__(self) -> None:
        self._last: dict[int, ObjectCounts] = {}
        self._rates: dict[int, float] = {}
        self._at = 0.0
        self.now: list[ObjectCounts] = []

    def add(self, objects: Iterable[ObjectCounts], seconds: float) -> None:
        """Add a sample, taken so many seconds after the start."""
        self.now = order(objects)
        passed = seconds - self._at
        for one in self.now:
            before = self._last.get(one.id)
            grown = one.number("signals") - (before.number("signals") if before else 0)
            self._rates[one.id] = max(grown, 0) / passed if passed > 0 else 0.0
            self._last[one.id] = one
        self._at = seconds

    @property
    def all(self) -> list[ObjectCounts]:
        """Every object of any sample, with its last counts."""
        return order(self._last.values())

    def rate(self, one: ObjectCounts) -> float:
        """Signals per second, between the last two samples."""
        return self._rates.get(one.id, 0.0)


def waited_on(objects: Iterable[ObjectCounts]) -> list[ObjectCounts]:
    """The objects that threads can sleep on or poll, and that have counted anything."""
    return [
        one
        for one in objects
        if one.kind not in _WITHOUT_WAITERS
        and any(one.number(name) for name in ("signals", "sleeps", "asleep"))
    ]


def plain(history: History) -> Iterator[str]:
    """The lines of the final table: every object with its last counts."""
    shown = waited_on(history.all)
    yield from aligned([HEADS, *(cells(one, 0.0) for one in shown)], _NUMBERS)
    if quiet := len(history.all) - len(shown):
        yield f"besides: {counted(quiet, 'object')} without waiters"


def live(history: History, seconds: float, rows: int) -> Table:
    """The table while the command runs."""
    shown = waited_on(history.now)
    asleep = counted(sum(one.number("asleep") for one in shown), "thread")
    objects = counted(len(history.now), "object")
    title = f"kfabric top: {seconds:.0f} s, {objects}, {asleep} asleep"
    table = drawn(title, HEADS, _NUMBERS)
    for one in shown[:rows]:
        table.add_row(*cells(one, history.rate(one)))
    return table
