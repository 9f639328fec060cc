# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The summary of a trace: a row for each queue, the waits that are still open, the losses.

It is made from the kernel part's counts, since there may be millions of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

SUMMARY = "summary.json"
_PROC = Path("/proc")
_SLEEPING = frozenset("SDIP")
_SUMMED = "waits slept wakes calls found spurious timeouts interrupted queues".split()


@dataclass(frozen=True, slots=True)
class Row:
    """One queue, or several of one name.

    ``waits``: while the trace runs those that have ended, in the summary also the open ones;
    ``slept``: those of them that were off their CPU; ``calls``: wake
    calls, of which ``found`` found a sleeper; ``wakes``: threads woken by them;
    ``spurious``: woken, and asleep again in the same wait; ``timeouts`` and
    ``interrupted``: ended by their timer, by a signal; ``deepest``: most at once.
    ``latency``: from wake to running; bucket n counts 2^n up to 2^(n+1) nanoseconds.
    """

    name: str
    number: int = 0
    address: int = 0
    waits: int = 0
    slept: int = 0
    wakes: int = 0
    calls: int = 0
    found: int = 0
    spurious: int = 0
    timeouts: int = 0
    interrupted: int = 0
    deepest: int = 0
    latency: tuple[int, ...] = ()
    queues: int = 1

    @property
    def wakes_per_call(self) -> float:
        """Threads woken by each call that found any."""
        return self.wakes / self.found if self.found else 0.0

    @property
    def spurious_share(self) -> float:
        """The share of spurious wakes."""
        return self.spurious / self.wakes if self.wakes else 0.0

    def percentile(self, share: float) -> int:
        """An upper bound of this share of the latencies, in nanoseconds; 0 without any."""
        return percentile(self.latency, share)

    def with_open(self, waits: Sequence[Any]) -> Row:
        """The row with the waits of its queue that have not ended, which have ``sleeps``."""
        slept = sum(bool(wait.sleeps) for wait in waits)
        return replace(self, waits=self.waits + len(waits), slept=self.slept + slept)

    def plus(self, other: Row) -> Row:
        """The sum of both rows, with the name of this one."""
        return Row(
            name=self.name,
            deepest=max(self.deepest, other.deepest),
            latency=tuple(map(sum, zip_longest(self.latency, other.latency, fillvalue=0))),
            **{field: getattr(self, field) + getattr(other, field) for field in _SUMMED},
        )


def percentile(latency: Sequence[int], share: float) -> int:
    """An upper bound of this share of a histogram's latencies; 0 without any."""
    total, seen = sum(latency), 0
    for bucket, count in enumerate(latency):
        seen += count
        if total and seen >= share * total:
            return int(2 ** (bucket + 1))
    return 0


def spread(counts: Iterable[int]) -> tuple[int, ...]:
    """A histogram without the empty buckets at its end."""
    found = list(counts)
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def by_name(rows: Iterable[Row]) -> list[Row]:
    """One row for each name, the busiest first: a driver may have a queue for each request."""
    merged: dict[str, Row] = {}
    for row in rows:
        known = merged.get(row.name)
        merged[row.name] = known.plus(row) if known else row
    return sorted(merged.values(), key=lambda row: (row.waits, row.calls), reverse=True)


@dataclass(frozen=True, slots=True)
class Stuck:
    """A thread in an open wait. ``stack``: innermost first; ``wakes``: all in vain."""

    queue: int
    name: str
    tid: int
    tgid: int
    comm: str
    age_ns: int
    stack: tuple[str, ...]
    wakes: int = 0


def parse_stack(text: str) -> tuple[str, ...]:
    """The frames in the text of /proc/PID/task/TID/stack, as ``symbol+0x12 [module]``."""
    frames = []
    for line in text.splitlines():
        _, _, frame = line.partition("] ")
        place, _, module = frame.partition(" ")
        name, _, offsets = place.partition("+")
        offset = offsets.partition("/")[0]
        frames.append(f"{name}+{offset}" + (f" {module}" if module else ""))
    return tuple(frame for frame in frames if frame != "+")


def current_stack(tgid: int, tid: int, proc: Path = _PROC) -> tuple[str, ...]:
    """The stack of a thread now; empty if the thread has ended."""
    try:
        return parse_stack((proc / f"{tgid}/task/{tid}/stack").read_text())
    except OSError:
        return ()


def sleeping_stack(tid: int, proc: Path = _PROC) -> tuple[str, ...]:
    """The stack of a thread that sleeps; empty if it does not, or has ended."""
    try:
        # The name, in parentheses, may contain anything.
        state = (proc / f"{tid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ()
    return current_stack(tid, tid, proc) if state in _SLEEPING else ()


def stuck(
    record: Any, name: str, threads: Mapping[int, str], begun: Sequence[str], now: int
) -> Stuck:
    """Describe an open wait.

    Args:
        record: A struct wait_rec or a WaitRecord.
        name: The name of its queue.
        threads: The names of threads.
        begun: The stack at its begin, for a thread that has none any more.
        now: The present time, in nanoseconds.
    """
    return Stuck(
        queue=record.queue,
        name=name,
        tid=record.tid,
        tgid=record.tgid,
        comm=threads.get(record.tid, ""),
        age_ns=now - record.t_begin,
        stack=current_stack(record.tgid, record.tid) or tuple(begun),
        wakes=record.wakes,
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """One trace. ``unstacked``: stacks that were not kept; the counts do not need them.

    ``late``: functions that were marked after their module had come, and how long after, in
    nanoseconds; 0 if that is not known.
    """

    rows: tuple[Row, ...] = ()
    stuck: tuple[Stuck, ...] = ()
    losses: Mapping[str, int] = field(default_factory=dict)
    load_seconds: float = 0.0
    seconds: float = 0.0
    steps: Mapping[str, float] = field(default_factory=dict)
    unstacked: int = 0
    missing: tuple[str, ...] = ()
    late: Mapping[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """The number of missing records. Unless it is 0, the numbers prove nothing."""
        return sum(self.losses.values())


def decode_row(item: Mapping[str, Any]) -> Row:
    """The opposite of ``asdict`` of a row."""
    return Row(**{**item, "latency": tuple(item["latency"])})


def decode(item: Mapping[str, Any]) -> Summary:
    """The opposite of ``asdict`` of a summary.

    Raises:
        KeyError, TypeError: It is damaged.
    """
    stuck = (Stuck(**{**one, "stack": tuple(one["stack"])}) for one in item["stuck"])
    rows, missing = tuple(map(decode_row, item["rows"])), tuple(item["missing"])
    return Summary(**{**item, "rows": rows, "stuck": tuple(stuck), "missing": missing})
