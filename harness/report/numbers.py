# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Counts and latencies of each queue, summed record by record in bounded memory."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kfabric.recording.records import Context, Record, SignalRecord, WaitRecord, WakeRecord
from kfabric.verdict.ledger import TIMED_OUT
from kfabric.verdict.stats import Latency, latency

_SUMMED = "waits never timeouts at_once signals wakes".split()


@dataclass(slots=True)
class Numbers:
    """The counts of one queue.

    ``never`` counts the waits that never ended; ``deepest`` is the highest number of
    sleepers at a signal. ``latencies`` are nanoseconds from the wake of a sleeping
    thread until it runs.
    """

    queue: int
    fclass: int = 0
    waits: int = 0
    never: int = 0
    timeouts: int = 0
    at_once: int = 0
    signals: int = 0
    wakes: int = 0
    deepest: int = 0
    latencies: array[int] = field(default_factory=lambda: array("Q"))

    @property
    def wakes_per_signal(self) -> float:
        """Threads woken by each signal, on average; 0 without signals."""
        return self.wakes / self.signals if self.signals else 0.0

    def latency(self) -> Latency:
        """Percentiles of wake to running."""
        return latency(self.latencies)

    def histogram(self) -> dict[int, int]:
        """Latencies by the power of two (nanoseconds) that they reach, without gaps."""
        counts = Counter(max(0, ns.bit_length() - 1) for ns in self.latencies)
        if not counts:
            return {}
        return {power: counts[power] for power in range(min(counts), max(counts) + 1)}

    def _wake(self, record: WaitRecord | WakeRecord) -> None:
        self.wakes += 1
        if record.t_waking and record.t_running >= record.t_wake:
            self.latencies.append(record.t_running - record.t_wake)

    def add(self, record: WaitRecord | WakeRecord | SignalRecord) -> None:
        """Count one record of this queue."""
        if isinstance(record, SignalRecord):
            self.signals += 1
            self.deepest = max(self.deepest, record.sleepers)
            return
        if isinstance(record, WakeRecord):
            self._wake(record)
            return
        self.fclass = record.fclass
        self.waits += 1
        self.never += not record.t_end
        self.timeouts += record.t_end != 0 and record.ret in TIMED_OUT
        self.at_once += record.t_end != 0 and not record.sleeps
        if record.t_wake:
            self._wake(record)


def merged(rows: Iterable[Numbers]) -> Numbers:
    """The sums of several queues, with the number of the first one."""
    first, *others = rows
    total = replace(first, latencies=first.latencies[:])
    for row in others:
        for name in _SUMMED:
            setattr(total, name, getattr(total, name) + getattr(row, name))
        total.deepest = max(total.deepest, row.deepest)
        total.latencies.extend(row.latencies)
    return total


INTERRUPTS: Mapping[int, str] = {Context.SOFTIRQ: "softirq", Context.HARDIRQ: "hard interrupt"}

Waker = tuple[int, int]
"""A context and a thread: 0 and the thread, or an interrupt's context and 0.

In an interrupt the current thread is unrelated to the wake.
"""


def waker_of(record: WaitRecord | WakeRecord) -> Waker:
    """The waker of a wake."""
    return (record.context, 0) if record.context in INTERRUPTS else (0, record.waker)


@dataclass(slots=True)
class Pair:
    """The wakes of one sleeper by one waker, and the slowest one from wake to running (ns)."""

    wakes: int = 0
    slowest: int = 0

    def add(self, other: Pair) -> None:
        """Add the wakes of another pair."""
        self.wakes += other.wakes
        self.slowest = max(self.slowest, other.slowest)


class Sums:
    """The counts of every queue, and those of every pair of sleeper and waker."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        """Start with these records."""
        self.rows: dict[int, Numbers] = {}
        self.pairs: dict[tuple[int, Waker], Pair] = {}
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Add a record; kinds without a count are ignored."""
        if isinstance(record, WaitRecord | WakeRecord | SignalRecord):
            row = self.rows.get(record.queue)
            if row is None:
                row = self.rows[record.queue] = Numbers(record.queue)
            row.add(record)
            if not isinstance(record, SignalRecord) and record.t_wake:
                self._wake(record)

    def _wake(self, record: WaitRecord | WakeRecord) -> None:
        key = record.tid, waker_of(record)
        pair = self.pairs.get(key)
        if pair is None:
            pair = self.pairs[key] = Pair()
        pair.wakes += 1
        if record.t_waking and record.t_running > record.t_wake:
            pair.slowest = max(pair.slowest, record.t_running - record.t_wake)
