# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Counts and latencies of each thread on each queue, for the demo's table."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kfabric.verdict.ledger import Ledger, Queue, Signal, Wait
from kfabric.verdict.verdict import Finding, Kind, Match, overtaken


@dataclass(frozen=True, slots=True)
class Latency:
    """From signal to running, in nanoseconds; ``count`` is 0 if nothing was measured."""

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

    ``at_once`` counts the waits that returned without sleeping. ``latency`` covers
    the waits whose thread was asleep when it was woken; a few threads are woken
    before they sleep.
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
    """Nanoseconds from signal to running of the wake that ended a wait; 0 without one."""
    wake = wait.last_wake
    signal = queue.signal_of(wake) if wake else None
    if wake is None or signal is None or not wake.t_waking or not wake.t_running:
        return 0
    return wake.t_running - signal.record.t


def _job(queue: Queue, tid: int, match: Match) -> tuple[list[Wait], list[Signal]]:
    """A side's waits and signals from its first message to its last.

    Connecting and closing are no part of the job. A wait that finds its message
    without sleeping may end before the signal for that message.
    """
    if not match.signals:
        return [], []
    own = {id(wait) for wait in match.waits}
    times = [signal.record.t for signal in (match.signals[0], match.signals[-1])]
    begin = min(times + [wait.record.t_begin for wait in match.waits[:1] if wait])
    end = max(times + [wait.record.t_end for wait in match.waits[-1:] if wait])
    sources = (0, match.signals[0].record.source)
    waits = [
        wait
        for wait in queue.waits_of(tid)
        if id(wait) in own
        or (
            wait.record.t_begin <= end
            and (not wait.finished or wait.record.t_end >= begin)
            and (not wait.record.ended or wait.record.source in sources)
        )
    ]
    return waits, list(match.signals)


def row(
    ledger: Ledger,
    name: str,
    queue_id: int,
    tid: int,
    findings: Iterable[Finding],
    match: Match | None = None,
) -> Row:
    """Count one thread's waits and signals on one queue.

    ``tid`` 0 means all threads of the queue. With ``match``, only the waits and
    signals of its messages count.
    """
    queue = ledger.queues.get(queue_id, Queue(queue_id))
    if match:
        waits, signals = _job(queue, tid, match)
    else:
        waits = queue.waits_of(tid) if tid else queue.waits
        signals = list(queue.signals.values())
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
