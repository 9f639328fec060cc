# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The table of ``kfabric top``: for a terminal while it runs, and as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from harness.top.objects import Seen, order, percentile
from harness.trace.table import bars, duration

if TYPE_CHECKING:
    from rich.table import Table

HEADS = (
    "asleep",
    "longest",
    "slept",
    "sleeps",
    "signals",
    "per s",
    "wakes",
    "overt.",
    "spur.",
    "t/o",
    "intr",
    "passed",
    "overrun",
    "deep",
    "p50",
    "p99",
    "signal→return",
    "object",
    "opened by",
)
LEGEND = (
    "longest: the oldest sleep that goes on; slept: all of them added up; overt.: woken for what "
    "another had read; spur.: for nothing; passed: wake-ups handed on; deep: most entries at once, "
    "of a set members; p50, p99: from signal to return; the last histogram: a column for each "
    "factor of 4 from 1 µs"
)
_LEFT = len(HEADS) - 3
_QUIET = frozenset(("ep", "domain"))


def cells(one: Seen, rate: float) -> tuple[str, ...]:
    """A row's words, in the order of :data:`HEADS`."""
    latency = one.latency
    return (
        str(one.number("asleep")),
        duration(one.number("longest_ns")) if one.number("longest_ns") else "-",
        duration(one.number("asleep_ns")) if one.number("asleep_ns") else "-",
        str(one.number("sleeps")),
        str(one.number("signals")),
        f"{rate:.0f}" if rate >= 0.5 else "-",
        str(one.number("wakes")),
        str(one.number("overtaken")),
        str(one.number("spurious")),
        str(one.number("timeouts")),
        str(one.number("interrupts")),
        str(one.number("handed_on")),
        str(one.number("overruns")),
        str(one.number("deepest_fill")),
        duration(percentile(latency, 0.5)) if sum(latency) else "-",
        duration(percentile(latency, 0.99)) if sum(latency) else "-",
        bars(latency) if latency else "",
        one.name,
        f"{one.comm} ({one.pid})",
    )


class History:
    """What was seen of each object, look by look."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._last: dict[int, Seen] = {}
        self._rates: dict[int, float] = {}
        self._at = 0.0
        self.now: list[Seen] = []

    def look(self, objects: Iterable[Seen], seconds: float) -> None:
        """Add a look, made so many seconds after the start."""
        self.now = order(objects)
        passed = seconds - self._at
        for one in self.now:
            before = self._last.get(one.id)
            grown = one.number("signals") - (before.number("signals") if before else 0)
            self._rates[one.id] = max(grown, 0) / passed if passed > 0 else 0.0
            self._last[one.id] = one
        self._at = seconds

    @property
    def all(self) -> list[Seen]:
        """Every object that was ever seen, as of its last look."""
        return order(self._last.values())

    def rate(self, one: Seen) -> float:
        """Signals a second, between the last two looks."""
        return self._rates.get(one.id, 0.0)


def waited_on(objects: Iterable[Seen]) -> list[Seen]:
    """Those that threads can sleep on or poll, and that anything has happened to."""
    return [
        one
        for one in objects
        if one.kind not in _QUIET
        and (one.number("signals") or one.number("sleeps") or one.number("asleep"))
    ]


def plain(history: History) -> Iterator[str]:
    """The lines of the table at the end: every object, as it was last seen."""
    told = waited_on(history.all)
    lines = [HEADS, *(cells(one, 0.0) for one in told)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    for line in lines:
        left = [word.rjust(width) for word, width in zip(line, widths, strict=True)][:_LEFT]
        right = [word.ljust(width) for word, width in zip(line, widths, strict=True)][_LEFT:]
        yield "  ".join([*left, *right]).rstrip()
    quiet = len(history.all) - len(told)
    if quiet:
        yield f"besides: {quiet} objects that nobody waited on"


def live(history: History, seconds: float, rows: int) -> Table:
    """The table while it runs."""
    from rich import box
    from rich.table import Table

    told = waited_on(history.now)
    asleep = sum(one.number("asleep") for one in told)
    table = Table(
        title=f"kfabric top: {seconds:.0f} s, {len(history.now)} objects, {asleep} threads asleep",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for head in HEADS[:_LEFT]:
        table.add_column(head, justify="right", no_wrap=True)
    for head in HEADS[_LEFT:]:
        table.add_column(head, overflow="ellipsis", no_wrap=True)
    for one in told[:rows]:
        table.add_row(*cells(one, history.rate(one)))
    return table


def as_json(history: History, seconds: float) -> Mapping[str, object]:
    """One look, for programs."""
    return {"seconds": seconds, "objects": [one.encode() for one in history.now]}
