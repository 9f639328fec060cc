# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The table of a trace, as plain text and live on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kfabric.errors import counted
from kfabric.trace.summary import Row, Stuck, Summary, by_name

if TYPE_CHECKING:
    from rich.table import Table

HEADS = tuple("waits slept calls wakes w/call spur. timer deep p50 p99 wake→run queue".split())
_NUMBERS = len(HEADS) - 2
ROWS_LIMIT = 40
_LIVE_ROWS = 16
_BARS = " ▁▂▃▄▅▆▇█"
_FIRST, _STEP, _COLUMNS = 10, 2, 8  # 2^10 ns and less, …, 2^24 ns (17 ms) and more


def duration(ns: float) -> str:
    """A time in two or three digits: ``870ns``, ``12µs``, ``3.4ms``, ``12s``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            value = ns / size
            return f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"
    return f"{ns:.0f}ns"


def bars(latency: Sequence[int]) -> str:
    """A histogram in one word; every count above 0 has a visible bar."""
    columns = [0] * _COLUMNS
    for bucket, count in enumerate(latency):
        place = min(max(bucket - _FIRST, 0) // _STEP, _COLUMNS - 1)
        columns[place] += count
    most = max(columns)
    if not most:
        return ""
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in columns)


def cells(row: Row) -> tuple[str, ...]:
    """A row's words, in the order of :data:`HEADS`."""
    return (
        str(row.waits),
        str(row.slept),
        str(row.calls),
        str(row.wakes),
        f"{row.wakes_per_call:.2f}" if row.found else "-",
        f"{row.spurious_share:.0%}" if row.wakes else "-",
        str(row.timeouts),
        str(row.deepest),
        duration(row.percentile(0.5)) if row.latency else "-",
        duration(row.percentile(0.99)) if row.latency else "-",
        bars(row.latency),
        row.name + (f" ({row.queues} queues)" if row.queues > 1 else ""),
    )


def aligned(lines: Sequence[Sequence[str]], numbers: int) -> Iterator[str]:
    """The lines of a table whose first columns are numbers, and the others words."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = list(zip(line, widths, strict=True))
        left = [word.rjust(width) for word, width in padded[:numbers]]
        right = [word.ljust(width) for word, width in padded[numbers:]]
        yield "  ".join([*left, *right]).rstrip()


def drawn(title: str, heads: Sequence[str], numbers: int) -> Table:
    """The same for a terminal, without its lines."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column, head in enumerate(heads):
        table.add_column(head, justify="right" if column < numbers else "left", no_wrap=True)
    return table


def slept_on(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """The rows with waits, by name, and those that were only woken."""
    named = by_name(rows)
    slept = [row for row in named if row.waits or row.deepest]
    return slept, [row for row in named if not row.waits and not row.deepest]


def plain(rows: Iterable[Row]) -> Iterator[str]:
    """The lines of the table."""
    slept, quiet = slept_on(rows)
    yield from aligned([HEADS, *(cells(row) for row in slept[:ROWS_LIMIT])], _NUMBERS)
    if len(slept) > ROWS_LIMIT:
        yield f"and {counted(len(slept) - ROWS_LIMIT, 'more name')}"
    if quiet:
        calls = counted(sum(row.calls for row in quiet), "wake call")
        queues = counted(sum(row.queues for row in quiet), "queue")
        yield f"in addition: {calls} on {queues} without sleepers"


def stuck_lines(stuck: Sequence[Stuck]) -> Iterator[str]:
    """The waits that never ended, the oldest first."""
    if not stuck:
        return
    yield f"never ended: {counted(len(stuck), 'wait')}"
    for wait in sorted(stuck, key=lambda wait: wait.age_ns, reverse=True):
        woken = f", woken {counted(wait.wakes, 'time')} in vain" if wait.wakes else ""
        who = f"{wait.comm} ({wait.tid})" if wait.comm else f"thread {wait.tid}"
        yield f"  {who} waits for {duration(wait.age_ns)} on {wait.name}{woken}"
        for frame in wait.stack:
            yield f"    {frame}"


def verdict_line(summary: Summary) -> str:
    """Whether the numbers are complete."""
    if summary.lost:
        what = ", ".join(f"{count} {name}" for name, count in summary.losses.items() if count)
        return f"not verified: the tracer lost records ({what})"
    return "complete: no record was lost"


def report(summary: Summary) -> Iterator[str]:
    """The whole report at the end, as plain lines."""
    yield from plain(summary.rows)
    yield from stuck_lines(summary.stuck)
    for name in summary.missing:
        yield f"not found: {name} (no such module or function was there)"
    for name, gap in summary.late.items():
        when = duration(gap) if gap else "an unknown time"
        yield f"{name} was marked {when} after its module had come"
    if summary.unstacked:
        stacks = counted(summary.unstacked, "stack")
        yield f"{stacks} could not be kept; the counts are not affected"
    yield verdict_line(summary)


def live(rows: Iterable[Row], seconds: float, lost: int) -> Table:
    """The table while the trace runs."""
    slept, _ = slept_on(rows)
    state = f"not verified: {counted(lost, 'record')} lost" if lost else "nothing lost"
    table = drawn(f"kfabric trace: {seconds:.0f} s, {state}", HEADS, _NUMBERS)
    for row in slept[:_LIVE_ROWS]:
        table.add_row(*cells(row))
    return table
