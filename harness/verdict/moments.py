# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Cuts out the part of a recording around findings, small enough for a trace viewer."""

from collections.abc import Iterable
from dataclasses import replace

from kfabric.recording.records import (
    ObjectRecord,
    Record,
    Recording,
    StackRecord,
    TallyRecord,
    WaitRecord,
    WakeRecord,
    count,
)
from kfabric.verdict.kinds import Finding
from kfabric.verdict.ledger import Ledger, Queue
from kfabric.verdict.story import event_of, waits_of_finding

AROUND_NS = 100_000_000


def moments(recording: Recording, ledger: Ledger, findings: Iterable[Finding]) -> Recording:
    """The records around the findings, on their queues; without findings all records."""
    spans: list[tuple[int, int]] = []
    queues: set[int] = set()
    for finding in findings:
        queue = ledger.queues.get(finding.queue, Queue(finding.queue))
        queues.add(queue.id)
        waits = waits_of_finding(ledger, finding)
        times = [(wait.record.t_begin, wait.record.t_end or ledger.t_stop) for wait in waits]
        if signal := event_of(queue, finding, waits):
            times.append((signal.record.t, signal.record.t))
        spans += [(begin - AROUND_NS, end + AROUND_NS) for begin, end in times]
    if not spans:
        return recording
    kept = tuple(record for record in recording.records if _wanted(record, queues, spans))
    return replace(recording, records=kept, tallies=count(kept))


def _wanted(record: Record, queues: set[int], spans: list[tuple[int, int]]) -> bool:
    if isinstance(record, ObjectRecord):
        return True
    if isinstance(record, TallyRecord) or record.queue not in queues:
        return False
    match record:
        case WaitRecord(t_begin=first, t_end=end):
            last = end or 1 << 63
        case WakeRecord(t_wake=first) | StackRecord(t_begin=first):
            last = first
        case _:
            first = last = record.t
    return any(begin <= last and first <= end for begin, end in spans)
