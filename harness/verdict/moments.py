# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The part of a recording that a finding is about, for a trace that can be looked through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from harness.recording.records import (
    MarkRecord,
    ObjectRecord,
    Record,
    Recording,
    SignalRecord,
    StackRecord,
    TallyRecord,
    WaitRecord,
    WakeRecord,
    count,
)
from harness.verdict.kinds import Finding
from harness.verdict.ledger import Ledger, Queue
from harness.verdict.story import accused, event_of

AROUND_NS = 100_000_000


def moments(recording: Recording, ledger: Ledger, findings: Iterable[Finding]) -> Recording:
    """What happened around the findings, on their queues; of a doubtful recording, all."""
    spans: list[tuple[int, int]] = []
    queues: set[int] = set()
    for finding in findings:
        queues.add(finding.queue)
        spans += _spans(ledger, finding)
    if not spans:
        return recording
    kept = tuple(record for record in recording.records if _wanted(record, queues, spans))
    return replace(recording, records=kept, tallies=count(kept))


def _spans(ledger: Ledger, finding: Finding) -> list[tuple[int, int]]:
    """The times that a finding is about, with what is around them."""
    queue = ledger.queues.get(finding.queue, Queue(finding.queue))
    waits = accused(ledger, finding)
    times = [(wait.record.t_begin, wait.record.t_end or ledger.t_stop) for wait in waits]
    if signal := event_of(queue, finding, waits):
        times.append((signal.record.t, signal.record.t))
    return [(begin - AROUND_NS, end + AROUND_NS) for begin, end in times]


def _wanted(record: Record, queues: set[int], spans: list[tuple[int, int]]) -> bool:
    """Does a record belong to these queues and times?"""
    if isinstance(record, ObjectRecord):
        return True
    if isinstance(record, TallyRecord) or record.queue not in queues:
        return False
    begin, end = _times(record)
    return any(begin <= last and first <= end for first, last in spans)


def _times(
    record: WaitRecord | SignalRecord | WakeRecord | StackRecord | MarkRecord,
) -> tuple[int, int]:
    """When a record's story began and ended."""
    match record:
        case WaitRecord():
            return record.t_begin, record.t_end or 1 << 63
        case WakeRecord():
            return record.t_wake, record.t_wake
        case StackRecord():
            return record.t_begin, record.t_begin
    return record.t, record.t
