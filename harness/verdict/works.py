# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Finds work items that are pending and do not run. STUCK is the possible finding."""

from collections.abc import Iterator

from kfabric.recording.records import EnderRecord, WorkRecord
from kfabric.verdict.enders import state_of
from kfabric.verdict.kinds import Finding, Kind
from kfabric.verdict.missed_wakes import span
from kfabric.verdict.queue_index import QueueIndex


def find_stuck_works(index: QueueIndex) -> Iterator[Finding]:
    """One finding for each item that a worker has not begun to run when the recording ended."""
    for work in index.ledger.works:
        if work.t_end:
            continue
        if work.t_queued and index.ledger.t_stop - work.t_queued > index.rules.stuck_ns:
            text = f"has not run for {span(index.ledger.t_stop - work.t_queued)}"
            yield _finding(index, work, text + _busy(index, work), work.busy)
        elif _is_lost(index, work):
            text = (
                f"will not run: {index.analysis.waker(work.deleter, work.delete_context)} deleted "
                f"its timer {span(work.t_deleted - work.t)} later, and did not cancel it"
            )
            yield _finding(index, work, text, work.deleter)


def _is_lost(index: QueueIndex, work: WorkRecord) -> bool:
    """Was its timer deleted for so long that nothing will queue it?"""
    gone = index.ledger.t_stop - work.t_deleted if work.t_deleted else 0
    return not work.t_queued and gone > index.rules.stuck_ns


def _finding(index: QueueIndex, work: WorkRecord, text: str, waker: int) -> Finding:
    queuer = index.analysis.waker(work.tid, work.context)
    what = index.analysis.object(work.queue)
    text = f"{what}, queued by {queuer}, {text}"
    return Finding(Kind.STUCK, work.queue, text, work.tid, waker=waker)


def _busy(index: QueueIndex, work: WorkRecord) -> str:
    """The worker that ran another item of the same workqueue, and where it was."""
    if not work.t_busy:
        return ""
    when = "then" if work.t_busy >= index.ledger.t_stop else "when it was queued"
    name = index.ledger.names.get(work.busy_queue, "another work item")
    ender = EnderRecord(work.queue, work.t, work.t_busy, work.tid, work.busy)
    state = state_of(index, ender, index.ledger.t_stop)
    return f"; {when} {index.ledger.thread_name(work.busy)} ran {name} there{state}"
