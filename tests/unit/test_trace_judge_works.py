# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict on work items, and on waits for a thread or a grace period."""

from __future__ import annotations

import pytest
from lock_scenes import MS, STOP

from kfabric.recording.records import (
    Context,
    Ender,
    EnderRecord,
    FClass,
    Record,
    Recording,
    WaitRecord,
    WorkRecord,
    count,
)
from kfabric.verdict.kinds import Kind, Outcome, Verdict
from kfabric.verdict.ledger import build
from kfabric.verdict.queues import QueueRules, judge

ITEM, OTHER, QUEUE = 1, 2, 3
NAMES = {1: "work item answer [m]", 2: "work item question [m]", 3: "RCU grace period"}
WAITER, WORKER, DELETER, TARGET = 11, 12, 13, 14
THREADS = {WAITER: "waiter", WORKER: "kworker/0:1", DELETER: "deleter", TARGET: "target"}
RULES = QueueRules(stuck_ns=200 * MS)


def verdict_on(*records: Record, asleep: dict[int, tuple[str, ...]] | None = None) -> Verdict:
    """Judge a recording of STOP ms."""
    recording = Recording(
        records,
        tallies=count(records),
        t_stop=STOP * MS,
        threads=THREADS,
        queues=NAMES,
        asleep=asleep or {},
    )
    return judge(build(recording), RULES)


def pending(**members: int) -> WorkRecord:
    """An item that the waiter queued after 100 ms."""
    values = {"t": 100 * MS, "t_queued": 100 * MS, "context": Context.PROCESS} | members
    return WorkRecord(ITEM, tid=WAITER, **values)


def wait_for(what: Ender, ender: int) -> tuple[Record, Record]:
    """The waiter sleeps from 100 ms on until something of the kernel has happened."""
    begin = 100 * MS
    return (
        WaitRecord(QUEUE, begin, WAITER, fclass=FClass.EVENT, t_slept=begin + 1, sleeps=1),
        EnderRecord(QUEUE, begin, begin, WAITER, ender, what),
    )


def test_item_that_no_worker_runs_is_stuck() -> None:
    """Its function, and the thread that queued it."""
    (finding,) = verdict_on(pending()).findings
    assert finding.kind is Kind.STUCK
    assert finding.text == (
        "work item answer [m], queued by thread waiter/11 in process context, "
        "has not run for 900.0 ms"
    )


def test_item_that_keeps_it_from_running_is_named() -> None:
    """Its worker, and where that sleeps."""
    work = pending(t_busy=STOP * MS, busy=WORKER, busy_queue=OTHER)
    frames = ("schedule+0x5a", "question+0x20 [m]")
    (finding,) = verdict_on(work, asleep={WORKER: frames}).findings
    assert finding.waker == WORKER
    assert finding.text.endswith(
        "; then thread kworker/0:1/12 ran work item question [m] there, "
        "which slept in schedule < question"
    )


def test_item_that_was_running_when_it_was_queued_is_not_said_to_run_now() -> None:
    """No output says more than was seen."""
    work = pending(t_busy=100 * MS, busy=WORKER, busy_queue=0)
    (finding,) = verdict_on(work).findings
    assert finding.text.endswith(
        "; when it was queued thread kworker/0:1/12 ran another work item there"
    )


@pytest.mark.parametrize(
    "members",
    [
        {"t_end": 950 * MS},
        {"t": 850 * MS, "t_queued": 850 * MS},
        # The kernel removes a timer when it expires.
        {"t_deleted": 790 * MS, "t_queued": 801 * MS},
    ],
    ids=["started", "young", "expired"],
)
def test_item_that_runs_or_is_young_is_not_stuck(members: dict[str, int]) -> None:
    """However late it ran: it did not stay pending."""
    assert verdict_on(pending(**members)).findings == ()


def test_item_without_its_timer_is_stuck() -> None:
    """With the thread that deleted the timer."""
    work = pending(t_queued=0, t_deleted=103 * MS, deleter=DELETER, delete_context=Context.PROCESS)
    (finding,) = verdict_on(work).findings
    assert (finding.kind, finding.tid, finding.waker) == (Kind.STUCK, WAITER, DELETER)
    assert finding.text.endswith(
        "will not run: thread deleter/13 in process context deleted its timer 3.0 ms later, "
        "and did not cancel it"
    )


def test_item_whose_timer_is_set_is_not_stuck() -> None:
    """However long its delay is."""
    assert verdict_on(pending(t_queued=0)).findings == ()


@pytest.mark.parametrize(
    ("what", "words"), [(Ender.STOP, "was asked to stop"), (Ender.PARK, "was asked to park")]
)
def test_thread_that_does_not_end_its_work_is_named(what: Ender, words: str) -> None:
    """And where it sleeps."""
    frames = ("schedule+0x5a", "target+0x20 [m]")
    (finding,) = verdict_on(*wait_for(what, TARGET), asleep={TARGET: frames}).findings
    assert (finding.kind, finding.waker) == (Kind.STUCK, TARGET)
    assert f"thread target/14 {words}, which slept in schedule < target" in finding.text


def test_grace_period_that_does_not_end_is_stuck_without_a_thread() -> None:
    """The recording does not know the reader."""
    (finding,) = verdict_on(*wait_for(Ender.RCU, 0)).findings
    assert (finding.kind, finding.waker) == (Kind.STUCK, 0)
    assert finding.text == (
        "wait 1 of thread waiter/11 on RCU grace period lasted 900.0 ms, until the recording "
        "ended; the grace period had not ended"
    )


def test_thread_that_waits_for_its_stopper_is_in_a_deadlock() -> None:
    """A stop lasts until the thread exits, so the circle is certain."""
    held = 150 * MS
    lock = WaitRecord(4, held, TARGET, fclass=FClass.LOCK, t_slept=held + 1, sleeps=1)
    holder = EnderRecord(4, held, 300 * MS, TARGET, WAITER)
    (finding,) = verdict_on(*wait_for(Ender.STOP, TARGET), lock, holder).findings
    assert finding.kind is Kind.DEADLOCK


def test_finished_wait_for_a_thread_is_verified_without_marks() -> None:
    """The kernel knows what ends it."""
    wait, ender = wait_for(Ender.STOP, TARGET)
    done = WaitRecord(
        QUEUE,
        wait.t_begin,  # type: ignore[union-attr]
        WAITER,
        fclass=FClass.EVENT,
        t_slept=101 * MS,
        sleeps=1,
        t_wake=200 * MS,
        t_waking=200 * MS,
        t_running=201 * MS,
        t_end=201 * MS,
        ended=1,
    )
    assert verdict_on(done, ender).outcome is Outcome.VERIFIED
