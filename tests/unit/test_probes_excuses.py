# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The excuses of the verdict on kfabric's waits: each holds in its case, and in no other."""

from __future__ import annotations

from typing import Any

import pytest
from wait_scenes import MEMBER, PAST, QUEUE, SECOND, T1, T2, T3, US, Fields, Scene

from kfabric.recording.records import Change, Context, FClass, ObjectRecord, Why
from kfabric.verdict.kinds import Kind

UNASKED: Fields = {"t_waking": 0, "t_running": 0}


def reader(begin: int = 40, slept: int = 45, **more: Any) -> Scene:
    """A CQ, and a reader that only its deadline made look."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(begin, slept=slept, **({"timer": SECOND, "ret": 1} | more))
    return scene


# Lost.


def test_sleeper_that_came_behind_the_publication_is_not_lost() -> None:
    """W2: the threads that were asleep then are not in the recording."""
    scene = Scene()
    scene.publish(50)
    scene.wait(60, slept=65)
    assert scene.found() == []


def test_sleeper_that_is_woken_by_the_next_publication_was_on_its_queue() -> None:
    """W2: a deadline would not have shown that."""
    scene = Scene()
    scene.publish(50, sleepers=0)
    scene.wait(40, slept=45, by=scene.publish(90), seen=1)
    assert scene.found() == []
    scene = Scene()
    scene.publish(50, sleepers=0)
    scene.wait(40, slept=45, by=scene.publish(90))
    assert scene.found() == []


def test_sleeper_that_was_asked_for_once_may_be_marked_again() -> None:
    """W2, V4: it was runnable already, so the scheduler need not be asked."""
    scene = Scene(FClass.CQ)
    scene.early(scene.publish(50), begin=40)
    scene.wait(
        40, slept=45, by=scene.publish(70, sleepers=0), wakes=2, t_end=2 * SECOND, ret=1, **UNASKED
    )
    assert scene.found() == []


def test_thread_that_did_not_sleep_needs_not_be_asked_for() -> None:
    """W2: it was awake when it was marked, and is slow."""
    scene = Scene()
    scene.wait(40, by=scene.publish(50), t_end=2 * SECOND, ready=1, **UNASKED)
    assert scene.found() == []


def test_sleeper_that_is_marked_and_returns_at_once_is_not_lost() -> None:
    """W2: something has woken it."""
    scene = Scene()
    scene.wait(40, slept=45, by=scene.publish(50), ready=1, **UNASKED)
    assert scene.found() == []


@pytest.mark.parametrize(("foreign", "kinds"), [(1, [(Kind.LOST, T1)]), (2, [])])
def test_sleeper_that_several_strangers_woke_is_not_lost(foreign: int, kinds: list) -> None:
    """W2: of those only the last one's time is known; the first may have come at once."""
    scene = Scene()
    ends: Fields = {"t_foreign": 2 * SECOND, "t_end": 3 * SECOND, **UNASKED}
    scene.wait(40, slept=45, by=scene.publish(50), foreign=foreign, **ends)
    assert scene.found() == kinds


def test_sleeper_that_runs_once_a_stranger_wakes_it_is_lost() -> None:
    """W2, V4: the late run was not caused by the thread that only marked it."""
    scene = Scene()
    ends: Fields = {"t_foreign": 2 * SECOND, "t_running": 2 * SECOND + 1, "t_end": 3 * SECOND}
    scene.wait(40, slept=45, by=scene.publish(50), foreign=1, t_waking=0, **ends)
    assert scene.found() == [(Kind.LOST, T1)]


# Spurious, overtaken.


def test_stranger_beside_an_entry_that_comes_just_then_is_not_spurious() -> None:
    """W6: it found what was stored, and is signalled only now."""
    scene = Scene()
    scene.wait(40, slept=45, t_end=60, ret=0, **PAST)
    scene.publish(75, sleepers=0)
    assert scene.found() == []


def test_sleeper_that_nobody_woke_is_spurious_although_something_had_been_there() -> None:
    """W3: it had seen that before it slept."""
    scene = Scene()
    scene.publish(30, sleepers=0)
    scene.wait(40, slept=45, t_end=60, ret=0, seen=1)
    assert scene.found() == [(Kind.SPURIOUS, T1)]


def test_spurious_wait_names_the_publication_that_should_have_ended_it() -> None:
    """Not one from before, and none that it had seen."""
    scene = Scene()
    scene.publish(30, sleepers=0)
    scene.wait(40, slept=45, t_end=60, ret=0)
    scene.publish(2 * SECOND, sleepers=0)
    (finding,) = scene.verdict().findings
    assert "publication 2 (event on" in finding.text
    scene = Scene()
    scene.publish(42, sleepers=0)
    scene.wait(40, slept=45, t_end=60, ret=0, seen=1, sleeps=2)
    scene.publish(2 * SECOND, sleepers=0)
    (finding,) = scene.verdict().findings
    assert "publication 2 (event on" in finding.text


def test_wait_with_a_spurious_wake_was_not_overtaken() -> None:
    """W3: it is reported once, and as a fault."""
    scene = Scene()
    ghost = scene.publish(50)
    scene.early(ghost, begin=40)
    scene.records.remove(ghost)
    scene.wait(40, slept=60, by=scene.publish(70), wakes=2)
    assert scene.found() == [(Kind.SPURIOUS, T1)]
    assert scene.verdict().overtaken == 0


def test_overtaken_wait_names_what_had_woken_it() -> None:
    """W3: so that the reader of the entry can be looked up."""
    scene = Scene()
    scene.wait(40, slept=45, by=scene.publish(50))
    (note,) = scene.verdict().notes
    assert "was woken rightly by publication 1 (event on" in note.text


def test_wake_from_a_source_that_is_not_known_is_for_no_wrong_waiter() -> None:
    """W5: it is perhaps a member."""
    scene = Scene()
    scene.records.append(ObjectRecord(MEMBER, 2 * US, Change.ADD, FClass.CQ, QUEUE))
    scene.wait(40, slept=45, by=scene.publish(50, source=0), ready=1)
    assert scene.found() == []
    scene = Scene()
    scene.records.append(ObjectRecord(MEMBER, 2 * US, Change.ADD, FClass.CQ, QUEUE))
    scene.wait(40, slept=45, by=scene.publish(50, source=MEMBER + 1), ready=1)
    assert scene.found() == [(Kind.WRONG_WAITER, T1)]


# Ended by its deadline.


def test_wait_that_fails_at_its_deadline_is_not_told() -> None:
    """W4: not the deadline ended it."""
    scene = Scene()
    scene.wait(40, slept=45, timer=SECOND, ready=1, ret=-14)
    assert scene.found() == []


def test_reader_that_took_nothing_at_its_deadline_is_not_told() -> None:
    """Q1: it wanted nothing."""
    assert reader(ret=0).found() == []


def test_reader_that_slept_behind_its_deadline_is_not_told() -> None:
    """Q1: it slept for its buffer's page; its earlier results are unknown."""
    assert reader(slept=60, timer=50, t_end=80).found() == []


def test_reader_that_was_woken_with_its_deadline_is_not_told() -> None:
    """Q1, W4: the timer was second."""
    scene = Scene(FClass.CQ, exclusive=True)
    timer = {"t_foreign": 60, "foreign": 1, "foreign_context": Context.HARDIRQ}
    scene.wait(40, slept=45, by=scene.publish(50), ended=0, ret=1, **timer)
    assert scene.found() == []


def test_publication_long_after_its_end_does_not_excuse_a_deadline() -> None:
    """Q1: no publisher takes that long from store to signal."""
    scene = reader()
    scene.publish(3 * SECOND, sleepers=0)
    assert scene.found() == [(Kind.TIMEOUT_READY, T1)]


def test_waiter_of_a_counter_is_told_whoever_is_on_the_way() -> None:
    """Q6: no thread can take a counter's value from another one."""
    scene = Scene(FClass.CNTR)
    first = scene.publish(50, sleepers=2)
    scene.wait(30, slept=35, tid=T2, by=first, ended=0, t_end=0)
    scene.wait(40, slept=45, timer=SECOND, ret=0, need=2)
    assert scene.found() == [(Kind.TIMEOUT_READY, T1)]


def test_reader_beside_one_that_returns_only_later_is_not_told() -> None:
    """Q3: it took the entry for which the other thread was woken."""
    scene = reader()
    scene.wait(41, slept=46, tid=T2, by=scene.publish(50, sleepers=2), ret=1, t_end=2 * SECOND)
    assert scene.found() == []


def test_reader_beside_one_that_was_woken_again_is_not_told() -> None:
    """Q3: one of its wakes is enough."""
    scene = reader()
    scene.early(scene.publish(35), begin=30, tid=T2)
    second = scene.publish(50, sleepers=2)
    scene.wait(30, slept=45, tid=T2, by=second, wakes=2, ret=1, t_end=2 * SECOND)
    assert scene.found() == []


def test_reader_beside_one_that_was_woken_before_it_came_is_told() -> None:
    """Q3: the entry for the other thread was there when this one looked."""
    scene = reader()
    scene.wait(30, slept=32, tid=T2, by=scene.hand_on(35, T3), ended=0, t_end=0)
    assert scene.found() == [(Kind.TIMEOUT_READY, T1)]


# Handed on.


@pytest.mark.parametrize(("ret", "kinds"), [(-14, [(Kind.NOT_HANDED_ON, T1)]), (-11, [])])
def test_only_who_found_nothing_is_excused_by_what_comes_just_then(ret: int, kinds: list) -> None:
    """Q5, V4: a thread that leaves with another error still has its wake-up."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(40, slept=45, by=scene.publish(50, sleepers=2), ret=ret, ready=1)
    scene.wait(41, slept=46, tid=T2, by=scene.publish(75), ret=1)
    assert scene.found() == kinds


@pytest.mark.parametrize("have", [1, 2])
def test_who_found_nothing_is_not_excused_if_nothing_comes(have: int) -> None:
    """Q5, V4: the entry was there before."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(40, slept=45, by=scene.publish(50, sleepers=2, have=have), ret=-11, ready=1)
    scene.wait(41, slept=46, tid=T2)
    assert scene.found() == [(Kind.NOT_HANDED_ON, T1)]


def test_who_is_woken_beside_others_has_nothing_to_hand_on() -> None:
    """Q6: each waiter of a counter is woken by itself."""
    scene = Scene(FClass.CNTR)
    scene.wait(40, slept=45, by=scene.publish(50, sleepers=2), ret=-14, ready=1)
    scene.wait(41, slept=46, tid=T2, need=2)
    assert scene.found() == []


def test_spurious_wake_is_not_handed_on() -> None:
    """V4: there was nothing that could be."""
    scene = Scene(FClass.CQ, exclusive=True)
    handed = scene.hand_on(50, T2)
    scene.wait(40, slept=45, by=handed, ret=-14, ready=1)
    scene.wait(60, slept=65, tid=T2)
    scene.records.remove(handed)
    assert scene.found() == [(Kind.SPURIOUS, T1)]


def test_signal_call_is_not_handed_on() -> None:
    """Q5: it freed all sleepers."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(40, slept=45, by=scene.publish(50, why=Why.SIGNAL, have=0), ret=-14, ready=1)
    scene.wait(60, slept=65, tid=T2)
    assert scene.found() == []


def test_another_wake_up_of_its_own_is_no_handing_on() -> None:
    """V4, Q3: it wakes no other thread for the entry."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(40, slept=45, by=scene.publish(50, sleepers=2), ret=-14, ready=1)
    scene.wait(41, slept=46, tid=T2)
    scene.publish(66, seq=0, why=Why.NONE, waker=T1, have=0)
    assert scene.found() == [(Kind.NOT_HANDED_ON, T1)]


# Never ran, and the waker's context.


def test_thread_that_was_not_seen_to_run_and_has_returned_did_run() -> None:
    """It is long gone."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(40, slept=45, by=scene.publish(50), t_running=0, ret=1)
    assert scene.found() == []


def test_thread_that_runs_and_is_woken_again_did_run() -> None:
    """A thread that is awake need not be put on a CPU."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.early(scene.publish(50), begin=40)
    again = scene.publish(70, sleepers=0)
    scene.wait(40, slept=45, by=again, wakes=2, ended=0, t_running=0, t_end=0)
    assert scene.found() == []


def test_publication_from_an_unknown_context_is_not_told() -> None:
    """A value that could not be read is no fault."""
    scene = Scene(FClass.CQ)
    scene.publish(50, sleepers=0, context=Context.UNKNOWN)
    assert scene.found(contexts={QUEUE: frozenset({Context.PROCESS})}) == []
