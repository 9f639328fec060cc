# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a trace comes to: a row for each queue, the waits that never ended, the losses.

Made from what the kernel part counted, never from the records, of which there may
be millions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.trace.pending import Stuck

SUMMARY = "summary.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One queue, or several of one name.

    ``waits``: finished ones; ``slept``: those that were off their CPU; ``calls``: wake
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
        """Of the wakes, how many were for nothing."""
        return self.spurious / self.wakes if self.wakes else 0.0

    def percentile(self, share: float) -> int:
        """Upper bound, in nanoseconds, of what so many of the latencies kept; 0: none known."""
        total, seen = sum(self.latency), 0
        for bucket, count in enumerate(self.latency):
            seen += count
            if total and seen >= share * total:
                return int(2 ** (bucket + 1))
        return 0

    def plus(self, other: Row) -> Row:
        """Both as one row; the name is ours."""
        return Row(
            name=self.name,
            waits=self.waits + other.waits,
            slept=self.slept + other.slept,
            wakes=self.wakes + other.wakes,
            calls=self.calls + other.calls,
            found=self.found + other.found,
            spurious=self.spurious + other.spurious,
            timeouts=self.timeouts + other.timeouts,
            interrupted=self.interrupted + other.interrupted,
            deepest=max(self.deepest, other.deepest),
            latency=_sum(self.latency, other.latency),
            queues=self.queues + other.queues,
        )


def _sum(one: Sequence[int], two: Sequence[int]) -> tuple[int, ...]:
    length = max(len(one), len(two))
    return tuple(
        (one[i] if i < len(one) else 0) + (two[i] if i < len(two) else 0) for i in range(length)
    )


def spread(counts: Iterable[int]) -> tuple[int, ...]:
    """A histogram without the empty buckets at its end."""
    found = list(counts)
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def by_name(rows: Iterable[Row]) -> list[Row]:
    """One row for each name, busiest first: a driver may have a queue for each request."""
    merged: dict[str, Row] = {}
    for row in rows:
        known = merged.get(row.name)
        merged[row.name] = known.plus(row) if known else row
    return sorted(merged.values(), key=lambda row: (row.waits, row.calls), reverse=True)


@dataclass(frozen=True, slots=True)
class Summary:
    """One trace. ``unstacked``: stacks that could not be kept, which voids nothing else."""

    rows: tuple[Row, ...] = ()
    stuck: tuple[Stuck, ...] = ()
    losses: Mapping[str, int] = field(default_factory=dict)
    load_seconds: float = 0.0
    seconds: float = 0.0
    steps: Mapping[str, float] = field(default_factory=dict)
    unstacked: int = 0
    missing: tuple[str, ...] = ()

    @property
    def lost(self) -> int:
        """Records that are missing; anything but 0 means that the numbers prove nothing."""
        return sum(self.losses.values())

    def encode(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def decode_row(item: Mapping[str, Any]) -> Row:
    """The opposite of ``asdict`` of a row."""
    return Row(**{**item, "latency": tuple(item["latency"])})


def decode(item: Mapping[str, Any]) -> Summary:
    """The opposite of :meth:`Summary.encode`. Raises KeyError and TypeError if it is damaged."""
    return Summary(
        rows=tuple(map(decode_row, item["rows"])),
        stuck=tuple(Stuck(**{**one, "stack": tuple(one["stack"])}) for one in item["stuck"]),
        losses=dict(item["losses"]),
        load_seconds=item["load_seconds"],
        seconds=item["seconds"],
        steps=dict(item["steps"]),
        unstacked=item["unstacked"],
        missing=tuple(item["missing"]),
    )
