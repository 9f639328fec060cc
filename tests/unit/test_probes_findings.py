# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Faults of a wait core that the verdict must find, and behaviour that only resembles them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from wait_scenes import (
    MEMBER,
    PAST,
    QUEUE,
    SECOND,
    SOFTIRQ,
    T1,
    T2,
    T3,
    US,
    Fields,
    Scene,
    change_wait,
)

from kfabric.recording.records import (
    Change,
    Context,
    FClass,
    KernelView,
    ObjectRecord,
    Recording,
    WaitRecord,
    Why,
    count,
)
from kfabric.verdict.kinds import Kind, Outcome, Side
from kfabric.verdict.ledger import build
from kfabric.verdict.verdict import judge

# Lost.


def test_sleeper_passed_over_on_its_way_to_sleep_is_lost() -> None:
    """W2, V2: it was on the queue, and slept only after the signal that skipped it."""
    scene = Scene()
    scene.publish(50)
    scene.wait(40, slept=60, timer=2 * SECOND)
    assert scene.found() == [(Kind.LOST, T1)]


def test_sleeper_passed_over_on_its_way_to_sleep_for_ever_is_lost() -> None:
    """W2, V2: it never returns, and was the only one there."""
    scene = Scene()
    scene.publish(50)
    scene.wait(40, slept=60)
    assert scene.found() == [(Kind.LOST, T1)]


def test_one_of_two_on_their_way_to_sleep_is_not_named() -> None:
    """It is unknown which of them was on the queue: the other may have looked later."""
    scene = Scene()
    scene.publish(50)
    scene.wait(40, slept=60)
    scene.wait(41, slept=61, tid=T2)
    assert scene.found() == []


def test_sleeper_that_had_looked_behind_the_publication_is_not_lost() -> None:
    """W2: it had noted the number, looked, and found that another had read."""
    scene = Scene()
    first = scene.publish(50)
    scene.wait(40, slept=60, by=scene.publish(90), seen=first.seq)
    assert scene.found() == []


def test_sleeper_that_is_not_on_its_queue_is_lost() -> None:
    """W2, V2: it sleeps again without having enqueued, so no sleeper is found."""
    scene = Scene()
    scene.publish(50, sleepers=0)
    scene.wait(40, slept=45, timer=2 * SECOND)
    assert scene.found() == [(Kind.LOST, T1)]


def test_sleeper_for_ever_that_is_not_on_its_queue_is_lost() -> None:
    """W2, V2: as above, with no deadline."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.publish(50, sleepers=0)
    scene.wait(40, slept=45)
    assert scene.found() == [(Kind.LOST, T1)]


def test_reader_that_sleeps_for_its_buffer_is_not_lost() -> None:
    """It has left the queue, and waits for a page of memory."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.publish(30, sleepers=0)
    scene.publish(50, sleepers=0)
    scene.wait(40, slept=45, t_foreign=70, foreign=1, t_end=80, ret=1)
    assert scene.found() == []


def test_reader_that_sleeps_for_its_buffer_is_not_rescued_by_a_deadline() -> None:
    """Its wake-up looks like a timer, but it had found the entry before it slept."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.publish(30, sleepers=0)
    scene.wait(40, slept=45, timer=70, ret=1)
    assert scene.found() == []


@pytest.mark.parametrize(("fclass", "ret"), [(FClass.CQ, -110), (FClass.WAIT, 0)])
def test_deadline_of_a_sleeper_off_its_queue_heals_no_loss(fclass: FClass, ret: int) -> None:
    """W2, W4: it returned in the end, with what it had found or without."""
    scene = Scene(fclass)
    scene.publish(50, sleepers=0)
    scene.wait(40, slept=45, timer=SECOND, ret=ret, ready=int(not ret))
    assert scene.found() == [(Kind.LOST, T1)]


def test_later_sleep_of_a_wait_may_be_off_its_queue() -> None:
    """Only the first one is certainly there."""
    scene = Scene()
    scene.publish(50, sleepers=0)
    scene.wait(40, slept=45, timer=SECOND, sleeps=2)
    assert scene.found() == []
    scene = Scene(FClass.CQ, exclusive=True)
    scene.early(scene.publish(42), begin=40)
    scene.publish(50, sleepers=0)
    scene.wait(40, slept=46)
    assert scene.found() == []


def test_reader_that_another_one_held_up_is_not_lost() -> None:
    """It slept for the other reader's lock, not on the queue, and then was past its deadline."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.publish(50, sleepers=0)
    lock: Fields = {"t_foreign": 700, "foreign": 1, "foreign_context": Context.PROCESS}
    scene.wait(40, slept=45, t_end=720, ret=-110, **lock)
    assert scene.found() == []


def test_wait_that_needs_no_sleep_is_not_lost() -> None:
    """It has looked once more, and found it."""
    scene = Scene()
    scene.publish(50)
    scene.wait(40, t_end=60, ready=1)
    assert scene.found() == []


def test_wait_that_was_woken_since_may_have_noted_the_number() -> None:
    """Its record no longer has the number that it had noted at that time."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.publish(50)
    scene.early(scene.publish(70), begin=40)
    scene.wait(40, slept=100)
    assert scene.found() == []


def test_signal_call_frees_who_needs_more() -> None:
    """Q4, Q5: with any number of entries."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.publish(50, why=Why.SIGNAL, have=0)
    scene.wait(40, slept=45, need=3)
    assert scene.found() == [(Kind.LOST, T1)]


def test_counter_that_is_set_below_its_threshold_wakes_nobody() -> None:
    """Q6: to add or to set is no signal call."""
    scene = Scene(FClass.CNTR)
    scene.publish(50, why=Why.SIGNAL, have=2)
    scene.wait(40, slept=45, need=3)
    assert scene.found() == []


def test_error_frees_who_needs_more() -> None:
    """Q4: it ends a wait for many at once."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.publish(50, why=Why.ERROR)
    scene.wait(40, slept=45, need=3)
    assert scene.found() == [(Kind.LOST, T1)]


def test_wake_handed_on_that_wakes_nobody_is_lost() -> None:
    """V4, Q3: the leaving thread did its part; the walk passed the sleeper by."""
    scene = Scene(FClass.CQ, exclusive=True)
    first = scene.publish(50, sleepers=2)
    scene.wait(40, slept=45, by=first, ret=-14, ready=1)
    scene.wait(41, slept=46, tid=T2)
    scene.hand_on(65, T1)
    assert scene.found() == [(Kind.LOST, T2)]
    change_wait(scene.records, 2, t_end=SECOND * US, ret=-110, seen=0)
    assert scene.found() == [(Kind.LOST, T2)]


def test_wake_handed_on_that_is_too_little_for_the_sleeper_is_not_lost() -> None:
    """Q4: the other needs more than there is."""
    scene = Scene(FClass.CQ, exclusive=True)
    first = scene.publish(50, sleepers=2)
    scene.wait(40, slept=45, by=first, ret=-14, ready=1)
    scene.wait(41, slept=46, tid=T2, need=2)
    scene.hand_on(65, T1)
    assert scene.found() == []


def test_dead_set_that_wakes_nobody_is_lost() -> None:
    """O5: the last living member leaves, and its sleeper would sleep for ever."""
    scene = Scene()
    scene.publish(50, seq=0, why=Why.LOST, source=QUEUE)
    scene.wait(40, slept=45)
    assert scene.found() == [(Kind.LOST, T1)]


def test_publications_that_overtake_each_other_hide_no_loss() -> None:
    """W2: the second is signalled first, and loses; the first comes after the deadline."""
    scene = Scene()
    scene.publish(2 * SECOND, seq=1, sleepers=1)
    scene.publish(50, seq=2)
    scene.wait(40, slept=45, timer=SECOND)
    scene.wait(SECOND + 10, slept=SECOND + 11, tid=T2)
    assert (Kind.LOST, T1) in scene.found()


@pytest.mark.parametrize("end", [{}, {"t_foreign": 2 * SECOND, "foreign": 1, "t_end": 3 * SECOND}])
def test_sleeper_that_is_only_marked_is_lost(end: dict[str, int]) -> None:
    """W2, V4: taken off the queue, but the thread is never made runnable."""
    scene = Scene()
    first = scene.publish(50)
    fields = {"t_waking": 0, "t_running": 0, "t_end": 0}
    scene.wait(40, slept=45, by=first, **(fields | end))
    assert scene.found() == [(Kind.LOST, T1)]


def test_sleeper_that_its_deadline_wakes_with_its_mark_is_not_lost() -> None:
    """W4: the timer was faster by a moment, so there was no sleeper to wake."""
    scene = Scene()
    first = scene.publish(50)
    scene.wait(
        40,
        slept=45,
        by=first,
        t_waking=0,
        t_running=60,
        t_foreign=52,
        foreign=1,
        foreign_context=Context.HARDIRQ,
    )
    assert scene.found() == []


# Spurious.


def test_wake_for_what_its_waiter_had_looked_behind_is_spurious() -> None:
    """W3: this is no overtaking: the publication was read before the wait enqueued."""
    scene = Scene()
    first = scene.publish(50)
    scene.wait(40, slept=45, by=first, seen=first.seq)
    assert scene.found() == [(Kind.SPURIOUS, T1)]


def test_wake_for_what_came_behind_the_look_is_overtaken() -> None:
    """W3: read by another before the thread ran."""
    scene = Scene()
    scene.publish(30, sleepers=0)
    scene.wait(40, slept=45, by=scene.publish(50), seen=1)
    assert scene.found() == []
    assert scene.verdict().overtaken == 1


def test_wake_handed_on_by_nobody_is_spurious() -> None:
    """W3: a wake-up that is handed on is announced."""
    scene = Scene(FClass.CQ, exclusive=True)
    handed = scene.hand_on(50, T2)
    scene.wait(40, slept=45, by=handed, ret=1)
    assert scene.found() == []
    scene.records.remove(handed)
    assert scene.found() == [(Kind.SPURIOUS, T1)]


def test_signal_together_with_a_publication_is_not_spurious() -> None:
    """W6: the thread has its result, and gives it."""
    scene = Scene()
    first = scene.publish(50)
    scene.wait(40, slept=45, by=first, t_waking=0, ready=1, **PAST)
    assert scene.found() == []


def test_interrupted_wait_is_not_spurious() -> None:
    """W6: a signal wakes past the queue, and -EINTR says so."""
    scene = Scene()
    scene.wait(40, slept=45, t_end=60, ret=-4, **PAST)
    assert scene.found() == []
    scene = Scene()
    scene.wait(40, slept=45, t_end=60, ret=0, **PAST)
    assert scene.found() == [(Kind.SPURIOUS, T1)]


def test_deadline_together_with_a_publication_that_another_reads_is_not_spurious() -> None:
    """W4: it looked and found; the publisher comes to its signal only now."""
    scene = Scene()
    scene.wait(40, slept=45, timer=60, t_end=70, ret=0)
    scene.publish(75, sleepers=0)
    assert scene.found() == []


# Ended by its deadline.


@pytest.mark.parametrize("fclass", [FClass.CQ, FClass.EQ, FClass.CNTR])
def test_reader_that_its_deadline_rescues_is_told(fclass: FClass) -> None:
    """W2, Q1, Q6: stored, and never signalled; only the deadline made it look."""
    scene = Scene(fclass, exclusive=fclass is not FClass.CNTR)
    ret = 0 if fclass is FClass.CNTR else 1
    scene.wait(40, slept=45, timer=SECOND, ret=ret)
    assert scene.found() == [(Kind.TIMEOUT_READY, T1)]


def test_reader_that_takes_what_came_with_its_deadline_is_not_told() -> None:
    """Q1: the publisher is between store and signal."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(40, slept=45, timer=SECOND, ret=1)
    scene.publish(SECOND + 2, sleepers=0)
    assert scene.found() == []


def test_reader_that_takes_at_its_deadline_what_another_was_woken_for_is_not_told() -> None:
    """Q3: that one was woken in time, and is only slow."""
    scene = Scene(FClass.CQ, exclusive=True)
    first = scene.publish(50, sleepers=2)
    scene.wait(40, slept=41, tid=T2, by=first, t_end=0)
    scene.wait(30, slept=31, timer=SECOND, ret=1)
    assert scene.found() == []


def test_reader_for_many_takes_at_its_deadline_what_there_is() -> None:
    """Q4: fewer entries than it waits for wake no thread."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.publish(50)
    scene.wait(40, slept=45, timer=SECOND, ret=1, need=3)
    assert scene.found() == []


def test_counter_below_its_threshold_times_out() -> None:
    """Q6: changed, and therefore ready for a wait set, but not reached."""
    scene = Scene(FClass.CNTR)
    scene.publish(50)
    scene.wait(40, slept=45, timer=SECOND, ready=1, need=3)
    assert scene.found() == []


def test_baton_that_is_dropped_by_who_sleeps_on_is_told() -> None:
    """V4, Q3, Q4: one waiter needs two, finds one and sleeps; another finds it at its deadline."""
    scene = Scene(FClass.CQ, exclusive=True)
    first = scene.publish(50, sleepers=2, have=2)
    scene.wait(30, slept=80, tid=T2, need=2, by=first, ended=0, t_end=0, sleeps=2)
    scene.wait(40, slept=45, timer=SECOND, ret=1)
    assert scene.found() == [(Kind.TIMEOUT_READY, T1)]


def test_reader_that_looks_again_before_it_sleeps_is_not_told() -> None:
    """Q3: overtaken, and on its next look it finds the next entry: no deadline in that."""
    scene = Scene(FClass.CQ, exclusive=True)
    first = scene.publish(50)
    scene.wait(40, slept=45, by=first, ended=0, ret=1, seen=2)
    scene.publish(65, sleepers=0)
    assert scene.found() == []


def test_reader_beside_one_that_has_returned_is_told() -> None:
    """Q3: the woken thread has left, and the entry is still there."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(41, slept=46, tid=T2, by=scene.publish(50, sleepers=2), ret=1)
    scene.wait(40, slept=45, timer=SECOND, ret=1)
    assert scene.found() == [(Kind.TIMEOUT_READY, T1)]


@pytest.mark.parametrize(
    "fields", [{"ready": 0}, {"ready": 1, "ret": 3, "need": 3}, {"ready": 1, "ret": -4}]
)
def test_deadline_beside_nothing_that_it_missed_is_not_told(fields: Fields) -> None:
    """Q1, Q4, W6: nothing there; it took what it could; or it was interrupted then."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(40, slept=45, timer=SECOND, **fields)
    assert scene.found() == []


def test_reader_that_times_out_beside_an_entry_is_told() -> None:
    """Q1: at the deadline what is there is returned."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(40, slept=45, timer=SECOND, ready=1)
    assert scene.found() == [(Kind.TIMEOUT_READY, T1)]


def test_signalled_thread_that_finds_something_is_not_told() -> None:
    """W6: no deadline made it look."""
    scene = Scene()
    past: Fields = {"t_foreign": 49, "foreign": 1, "foreign_context": Context.PROCESS}
    scene.wait(40, slept=45, t_end=60, ready=1, **past)
    assert scene.found() == []


def test_sleeper_of_an_exclusive_set_that_times_out_beside_something_is_told() -> None:
    """W4: -ETIMEDOUT only if nothing is ready, no matter which thread has the turn."""
    scene = Scene(exclusive=True)
    scene.publish(30, sleepers=0)
    scene.wait(40, slept=45, timer=SECOND, ready=1, seen=1)
    assert scene.found() == [(Kind.TIMEOUT_READY, T1)]
    scene = Scene(exclusive=True)
    scene.publish(30, sleepers=0)
    scene.wait(40, slept=45, timer=SECOND, ready=1, seen=1, ret=0)
    assert scene.found() == []


# Handed on.


def left_with_fault() -> Scene:
    """A woken reader leaves with an error, another one sleeps on."""
    scene = Scene(FClass.CQ, exclusive=True)
    first = scene.publish(50, sleepers=2)
    scene.wait(40, slept=45, by=first, ret=-14, ready=1)
    scene.wait(41, slept=46, tid=T2, by=scene.publish(5 * SECOND), ret=1)
    return scene


def test_wake_that_another_thread_hands_on_later_is_no_excuse() -> None:
    """V4, Q3: each has its own wake to hand on, before it leaves."""
    scene = left_with_fault()
    scene.hand_on(66, T3, have=0)
    assert scene.found() == [(Kind.NOT_HANDED_ON, T1)]
    scene = left_with_fault()
    scene.hand_on(71, T1, have=0)
    assert scene.found() == [(Kind.NOT_HANDED_ON, T1)]


def test_wake_that_is_handed_on_before_it_leaves_is_well() -> None:
    """V4, Q3: the thread itself, within its call (though no waiter needs so little)."""
    scene = left_with_fault()
    scene.hand_on(66, T1, have=0)
    assert scene.found() == []


def peeked(ready: int, have: int = 1) -> Scene:
    """A woken reader succeeds; another one sleeps on."""
    scene = Scene(FClass.EQ, exclusive=True)
    first = scene.publish(50, sleepers=2, have=have)
    scene.wait(40, slept=45, by=first, ret=8, ready=ready)
    scene.wait(41, slept=46, tid=T2)
    return scene


def test_reader_that_leaves_its_event_there_has_to_hand_on() -> None:
    """Q3, Q7: KFI_PEEK takes nothing, and the next waiter would get it too."""
    assert peeked(ready=1).found() == [(Kind.NOT_HANDED_ON, T1)]


def test_reader_that_takes_its_event_has_nothing_to_hand_on() -> None:
    """Q3: nothing is there, or an entry for another thread, woken before or after it."""
    assert peeked(ready=0).found() == []
    assert peeked(ready=1, have=2).found() == []
    scene = peeked(ready=1)
    second = scene.publish(72)
    scene.wait(42, slept=47, tid=T3, by=second, ret=8)
    assert scene.found() == []


def test_freed_reader_beside_an_entry_that_comes_just_then_has_nothing_to_hand_on() -> None:
    """Q5: it found nothing; the entry comes as it leaves, and wakes the other."""
    scene = Scene(FClass.CQ, exclusive=True)
    first = scene.publish(50, sleepers=2)
    scene.wait(40, slept=45, by=first, ret=-11, ready=1)
    scene.wait(41, slept=46, tid=T2, by=scene.publish(75), ret=1)
    assert scene.found() == []


# Never ran, and the waker's context.


def test_thread_that_slept_elsewhere_since_its_wake_had_run() -> None:
    """It was woken before it slept, and then waited for six seconds for its buffer's page."""
    scene = Scene(FClass.CQ, exclusive=True)
    first = scene.publish(50)
    running = 6 * SECOND
    scene.wait(40, slept=60, by=first, t_running=running, t_end=running + 5, ret=1)
    assert scene.found() == []


def test_hand_on_may_come_from_where_no_publication_may() -> None:
    """The rule is about publications: a thread hands on where it runs."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(40, slept=45, by=scene.hand_on(50, T2), ret=1)
    rules = {QUEUE: frozenset({Context.SOFTIRQ})}
    assert scene.found(contexts=rules) == []
    scene.publish(80, sleepers=0, context=Context.PROCESS)
    assert scene.found(contexts=rules) == [(Kind.WRONG_CONTEXT, 0)]


def test_each_publication_from_a_wrong_context_is_told() -> None:
    """One finding for each wait; without a wait, one for each event."""
    scene = Scene(FClass.CQ)
    scene.publish(50, sleepers=0)
    scene.publish(60, sleepers=0)
    rules = {QUEUE: frozenset({Context.PROCESS})}
    assert scene.found(contexts=rules) == [(Kind.WRONG_CONTEXT, 0)] * 2
    assert scene.verdict(contexts=rules).line().endswith(" (and 1 more)")
    del scene.records[1]
    assert "more)" not in scene.verdict(contexts=rules).line()


# Messages of a job.

SIDE = Side("ping", T1, QUEUE, MEMBER, 1)


def test_message_before_any_wait_ended_none() -> None:
    """The thread had not come yet, and never came."""
    scene = Scene()
    scene.publish(30, sleepers=0)
    scene.wait(40, slept=45)
    assert scene.found(sides=(SIDE,)) == [(Kind.ORDER, 0)]


def test_message_beside_a_wait_that_goes_on_ended_none() -> None:
    """It has not returned for another event, after which it would look."""
    scene = Scene()
    scene.wait(40)
    scene.publish(70, sleepers=0)
    assert scene.found(sides=(SIDE,)) == [(Kind.ORDER, 0)]


def test_message_that_finds_a_sleeper_is_not_read_by_who_is_awake() -> None:
    """After a deadline a thread reads only entries that came while no thread slept."""
    for sleepers, kinds in ((0, []), (1, [(Kind.ORDER, 0)])):
        scene = Scene()
        scene.wait(40, slept=45, timer=60)
        scene.publish(70, sleepers=sleepers)
        assert scene.found(sides=(SIDE,)) == kinds


def test_signal_call_is_no_message() -> None:
    """It brings nothing, and is not counted."""
    scene = Scene()
    scene.wait(40, slept=45, by=scene.publish(50), ready=1)
    scene.publish(90, sleepers=0, why=Why.SIGNAL)
    assert scene.found(sides=(SIDE,)) == []
    scene.publish(95, sleepers=0)
    assert scene.found(sides=(SIDE,)) != []


def test_message_belongs_to_the_wait_that_names_it() -> None:
    """Not to a later one that found something else there."""
    scene = Scene()
    scene.wait(40, slept=45, by=scene.publish(50), ready=1)
    scene.wait(80, t_end=85, ready=1)
    assert scene.found(sides=(SIDE,)) == []
    (ended,) = scene.verdict(sides=(SIDE,)).matches["ping"].waits
    assert ended is not None and ended.number == 1


def test_message_beside_a_fault_is_not_told_as_well() -> None:
    """The lost wake-up is; unmatched messages are only its consequence."""
    scene = Scene()
    scene.publish(30, sleepers=0)
    scene.publish(50)
    scene.wait(40, slept=45)
    two = Side("ping", T1, QUEUE, MEMBER, 2)
    assert scene.found(sides=(two,)) == [(Kind.LOST, T1)]


def test_fault_on_another_queue_silences_no_message() -> None:
    """Only unmatched messages next to a fault prove nothing more."""
    scene = Scene()
    scene.publish(30, sleepers=0)
    scene.wait(40, slept=45)
    other = Scene(queue=QUEUE + 9)
    other.publish(50)
    other.wait(40, slept=45, tid=T2)
    scene.records += other.records
    assert set(scene.found(sides=(SIDE,))) == {(Kind.LOST, T2), (Kind.ORDER, 0)}


# Doubts.


def test_wake_of_a_thread_that_is_awake_is_no_doubt() -> None:
    """The scheduler is not asked: before its sleep, or when another wake was first."""
    scene = Scene()
    scene.wait(40, by=scene.publish(50), t_waking=0)
    assert scene.found() == []
    scene = Scene(FClass.CQ)
    scene.early(scene.publish(50), begin=40)
    late: Fields = {"t_waking": 0, "t_running": 2 * SECOND, "t_end": 2 * SECOND + 1}
    scene.wait(40, slept=45, by=scene.publish(70, sleepers=0), wakes=2, **late)
    assert scene.found() == []


def test_open_wait_that_the_kernel_alone_saw_woken_is_a_doubt() -> None:
    """F7: the tracepoint comes first, so that this is no wake on its way."""
    scene = Scene()
    scene.wait(40, slept=45)
    change_wait(scene.records, 0, kernel_wakes=1)
    assert "the two views differ" in scene.verdict().doubts[0]


def test_open_wait_that_the_kernel_never_saw_woken_is_a_doubt() -> None:
    """F7: a moment is excused, seconds are not."""
    scene = Scene()
    scene.wait(40, slept=45, by=scene.publish(50), t_end=0)
    change_wait(scene.records, -1, kernel_wakes=0)
    assert scene.verdict(stop=51).doubts == ()
    change_wait(scene.records, -1, kernel_wakes=2)
    assert "the two views differ" in scene.verdict(stop=51).doubts[0]
    change_wait(scene.records, -1, kernel_wakes=0)
    assert "the two views differ" in scene.verdict().doubts[0]


def test_publication_that_is_told_twice_is_a_doubt() -> None:
    """One of them would hide the other."""
    scene = Scene()
    scene.publish(50)
    scene.publish(60, seq=1)
    assert scene.verdict().outcome is Outcome.NOT_VERIFIED
    assert "publication 1 was seen twice" in scene.verdict().doubts[0]


def life(begin: int) -> Scene:
    """A set and its member are made, one wait is ended by the first publication, they go."""
    scene = Scene(exclusive=True)
    for oid, fclass in ((QUEUE, FClass.WAIT), (MEMBER, FClass.CQ)):
        scene.records.append(ObjectRecord(oid, (begin + 1) * US, Change.NEW, fclass))
    scene.records.append(ObjectRecord(MEMBER, (begin + 2) * US, Change.ADD, FClass.CQ, QUEUE))
    scene.wait(begin + 40, slept=begin + 45, by=scene.publish(begin + 50))
    return scene


def test_ids_of_a_module_that_is_loaded_anew_are_no_old_ones() -> None:
    """O6: numbers of objects and publications begin again, and nothing is confused."""
    scene = life(0)
    scene.records += life(SECOND).records
    verdict = scene.verdict()
    assert (verdict.outcome, verdict.matched) == (Outcome.VERIFIED, 2)


def test_id_of_an_object_from_before_the_recording_may_be_made_again() -> None:
    """O6: its end is recorded, and its begin is not."""
    scene = life(0)
    scene.records = [record for record in scene.records if not isinstance(record, ObjectRecord)]
    scene.records.append(ObjectRecord(QUEUE, 90 * US, Change.FREE, FClass.WAIT))
    scene.records += life(SECOND).records
    verdict = scene.verdict()
    assert (verdict.outcome, verdict.matched) == (Outcome.VERIFIED, 2)


def test_loss_of_an_earlier_life_is_found_by_its_name() -> None:
    """O6, W2: the second life's wake is not counted for the first one's signal."""
    scene = life(0)
    wait = scene.records.pop(-1)
    assert isinstance(wait, WaitRecord)
    scene.wait(40, slept=45)
    scene.records += life(SECOND).records
    (finding,) = scene.verdict().findings
    assert finding.kind is Kind.LOST
    assert f"on wait set {QUEUE} should" in finding.text and f"CQ {MEMBER})" in finding.text
    assert scene.verdict(stop=SECOND).findings == (finding,)


def test_second_view_is_compared_only_if_there_is_one() -> None:
    """A recording without the kernel's view is judged by its records alone."""
    scene = Scene()
    scene.wait(40, slept=45, by=scene.publish(50))
    change_wait(scene.records, -1, kernel_wakes=0)
    recording = Recording(tuple(scene.records), tallies=count(scene.records))
    assert judge(build(recording)).doubts == ()
    assert judge(build(replace(recording, kernel=KernelView()))).doubts
    assert SOFTIRQ not in recording.threads
