# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Numbers per queue and thread, as the demo's table shows them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.probes.ledger import Ledger, Queue, Wait
from harness.probes.verdict import Finding, Kind, Match, overtaken


@dataclass(frozen=True, slots=True)
class Latency:
    """Signal to running, in nanoseconds; ``count`` 0 means that none was measured."""

    count: int
    p50: int
    p99: int
    max: int


def percentile(ordered: Sequence[int], share: float) -> int:
    """Nearest-rank percentile of an ordered, non-empty sequence; 0 < share <= 1."""
    return ordered[math.ceil(share * len(ordered)) - 1]


def latency(values: Iterable[int]) -> Latency:
    """Percentiles of latencies."""
    ordered = sorted(values)
    if not ordered:
        return Latency(0, 0, 0, 0)
    return Latency(len(ordered), percentile(ordered, 0.5), percentile(ordered, 0.99), ordered[-1])


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: one thread on one queue.

    ``at_once`` are the waits that found something there already. ``latency``
    covers those whose thread was asleep when it was woken; the few others were
    woken before they had slept.
    """

    name: str
    waits: int
    signals: int
    wakes: int
    spurious: int
    lost: int
    timeouts: int
    late: int
    herd: int
    overtaken: int
    at_once: int
    latency: Latency


def running_ns(queue: Queue, wait: Wait) -> int:
    """Signal to running of the wake that ended a wait; 0 if there was none such."""
    wake = wait.last_wake
    signal = queue.signal_of(wake) if wake else None
    if wake is None or signal is None or not wake.t_waking or not wake.t_running:
        return 0
    return wake.t_running - signal.record.t


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time; ``end`` 0 means no end."""

    begin: int = 0
    end: int = 0

    def holds(self, begin: int, end: int) -> bool:
        """Does something that lasted from ``begin`` to ``end`` (0: for ever) touch it?"""
        return (not end or end >= self.begin) and (not self.end or begin <= self.end)


ALWAYS = Span()


def span_of(match: Match) -> Span:
    """From a side's first message to its last, with the waits that they ended.

    A wait that found its message there may be over before the signal for it.
    """
    if not match.signals:
        return ALWAYS
    times = [signal.record.t for signal in (match.signals[0], match.signals[-1])]
    begins = [wait.record.t_begin for wait in match.waits[:1] if wait]
    ends = [wait.record.t_end for wait in match.waits[-1:] if wait]
    return Span(min(times + begins), max(times + ends))


def row(
    ledger: Ledger,
    name: str,
    queue_id: int,
    tid: int,
    findings: Iterable[Finding],
    span: Span = ALWAYS,
    source: int = 0,
) -> Row:
    """Count one thread's waits on one queue, and what was signalled there.

    ``tid`` 0 means all threads of the queue. ``span`` and ``source`` (a member
    of the queue, 0: all) leave out what is not the job's, such as connecting.
    """
    queue = ledger.queues.get(queue_id, Queue(queue_id))
    waits = [
        wait
        for wait in (queue.waits_of(tid) if tid else queue.waits)
        if span.holds(wait.record.t_begin, wait.record.t_end)
        and not (source and wait.record.ended and wait.record.source not in (0, source))
    ]
    signals = [
        signal
        for signal in queue.signals.values()
        if span.holds(signal.record.t, signal.record.t) and source in (0, signal.record.source)
    ]
    kinds = Counter(
        finding.kind
        for finding in findings
        if finding.queue == queue_id and finding.tid in (0, tid or finding.tid)
    )
    return Row(
        name=name,
        waits=len(waits),
        signals=len(signals),
        wakes=sum(len(wait.wakes) for wait in waits),
        spurious=kinds[Kind.SPURIOUS],
        lost=kinds[Kind.LOST] + kinds[Kind.TIMEOUT_READY],
        timeouts=sum(wait.timed_out for wait in waits),
        late=kinds[Kind.LATE],
        herd=kinds[Kind.HERD],
        at_once=sum(wait.succeeded and not wait.record.ended and not wait.slept for wait in waits),
        overtaken=sum(wait in waits for wait in overtaken(queue)),
        latency=latency(ns for ns in (running_ns(queue, wait) for wait in waits) if ns),
    )
