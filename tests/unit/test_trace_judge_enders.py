# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict on waits of which it is known what would end them: locks."""

from __future__ import annotations

from dataclasses import replace
from errno import EDEADLK, ETIMEDOUT

from lock_scenes import ANN, BOB, CARL, LOCK_A, LOCK_B, LOCK_C, STOP, LockScene

from kfabric.recording.records import Ender, FClass
from kfabric.verdict.kinds import Finding, Kind, Outcome
from kfabric.verdict.queues import judge
from kfabric.verdict.story import story


def only(scene: LockScene, kind: Kind, waiter: int, ender: int) -> Finding:
    """The one finding of a scene, with the expected kind and threads."""
    verdict = scene.verdict()
    assert [(f.kind, f.tid, f.waker) for f in verdict.findings] == [(kind, waiter, ender)], (
        verdict.findings
    )
    assert verdict.outcome is Outcome.FAULT
    return verdict.findings[0]


def ab_ba(scene: LockScene, *, fresh: bool = True, **second: int) -> None:
    """Ann waits for Bob's lock, and 10 ms later Bob for Ann's."""
    scene.wait(10, ANN, LOCK_B)
    scene.ender(10, ANN, LOCK_B, BOB)
    scene.wait(20, BOB, LOCK_A, **second)
    scene.ender(20, BOB, LOCK_A, ANN)
    if fresh:
        scene.ender(10, ANN, LOCK_B, BOB, t=20)


# Deadlock.


def test_two_threads_that_wait_for_each_other_are_a_deadlock() -> None:
    scene = LockScene()
    ab_ba(scene)
    found = only(scene, Kind.DEADLOCK, BOB, ANN)
    assert found.text == (
        "wait 1 of thread bob/12 on a_mutex [mod] waits for thread ann/11, which waits on "
        "b_mutex [mod] for thread bob/12; this lasted 980.0 ms, until the recording ended"
    )


def test_holder_that_was_not_seen_again_is_no_deadlock() -> None:
    """Bob may have unlocked before he began to wait."""
    scene = LockScene()
    ab_ba(scene, fresh=False)
    assert not [f for f in scene.verdict().findings if f.kind is Kind.DEADLOCK]


def test_thread_that_waits_for_its_own_lock_is_a_deadlock() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A)
    scene.ender(10, ANN, LOCK_A, ANN)
    assert "waits for its own thread" in only(scene, Kind.DEADLOCK, ANN, ANN).text


def test_deadlock_is_found_though_no_mark_was_called() -> None:
    """It needs no marks, and it may be the reason why no item was published."""
    scene = LockScene()
    ab_ba(scene)
    verdict = judge(replace(scene.ledger(), marked={"publish": 0}))
    assert verdict.outcome is Outcome.FAULT
    deadlock, doubt = verdict.lines()
    assert deadlock.startswith("DEADLOCK: ")
    assert doubt == "NOT VERIFIED: publish, which was marked, was never called"


def test_circle_of_three_is_one_deadlock() -> None:
    scene = LockScene()
    for begin, tid, lock, ender in (
        (10, ANN, LOCK_A, BOB),
        (20, BOB, LOCK_B, CARL),
        (30, CARL, LOCK_C, ANN),
    ):
        scene.wait(begin, tid, lock)
        scene.ender(begin, tid, lock, ender)
        scene.ender(begin, tid, lock, ender, t=30)
    text = only(scene, Kind.DEADLOCK, CARL, ANN).text
    assert "which waits on a_mutex [mod] for thread bob/12, which waits on b_mutex [mod]" in text


def test_circle_that_is_seen_twice_is_one_deadlock() -> None:
    """The recording looks at all open waits when it ends."""
    scene = LockScene()
    ab_ba(scene)
    scene.ender(10, ANN, LOCK_B, BOB, t=STOP)
    scene.ender(20, BOB, LOCK_A, ANN, t=STOP)
    only(scene, Kind.DEADLOCK, BOB, ANN)


def test_circle_that_an_unlock_had_broken_is_no_deadlock() -> None:
    """Bob got the lock before Ann began to wait for his."""
    scene = LockScene()
    scene.wait(5, BOB, LOCK_A, unlocked=15, waker=ANN)
    scene.ender(5, BOB, LOCK_A, ANN)
    scene.wait(20, ANN, LOCK_B, unlocked=60, waker=BOB)
    scene.ender(20, ANN, LOCK_B, BOB)
    assert scene.verdict().findings == ()


def test_circle_that_a_signal_broke_was_a_deadlock() -> None:
    scene = LockScene()
    ab_ba(scene, signal=80)
    text = only(scene, Kind.DEADLOCK, BOB, ANN).text
    assert "this lasted 60.0 ms, until a signal ended the wait" in text


def test_circle_that_its_lock_breaks_is_no_deadlock() -> None:
    """A ww_mutex makes one of the threads give up."""
    scene = LockScene()
    ab_ba(scene, end=80, ret=-EDEADLK)
    assert not [f for f in scene.verdict().findings if f.kind is Kind.DEADLOCK]


def test_circle_of_a_moment_is_no_deadlock() -> None:
    scene = LockScene()
    ab_ba(scene, end=21)
    assert not [f for f in scene.verdict().findings if f.kind is Kind.DEADLOCK]


def test_circle_through_a_last_known_reader_is_no_deadlock() -> None:
    """The reader may have left."""
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A)
    scene.ender(10, ANN, LOCK_A, ANN, what=Ender.READER)
    assert "was its last known reader" in only(scene, Kind.STUCK, ANN, ANN).text


# Stuck.


def test_lock_that_its_holder_keeps_is_stuck() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A)
    scene.ender(10, ANN, LOCK_A, BOB)
    found = only(scene, Kind.STUCK, ANN, BOB)
    assert found.text == (
        "wait 1 of thread ann/11 on a_mutex [mod] lasted 990.0 ms, until the recording ended; "
        "at its begin thread bob/12 held it"
    )


def test_holder_at_the_end_of_the_recording_is_named() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A)
    scene.ender(10, ANN, LOCK_A, BOB)
    scene.ender(10, ANN, LOCK_A, CARL, t=STOP)
    assert only(scene, Kind.STUCK, ANN, CARL).text.endswith("; then thread carl/13 held it")


def test_sleep_of_the_holder_is_named() -> None:
    scene = LockScene()
    scene.wait(5, BOB, LOCK_B, fclass=FClass.QUEUE)
    scene.wait(10, ANN, LOCK_A)
    scene.ender(10, ANN, LOCK_A, BOB, t=STOP)
    text = only(scene, Kind.STUCK, ANN, BOB).text
    assert text.endswith("held it, which slept in wait 1 of thread bob/12 on b_mutex [mod]")


def test_sleep_of_the_holder_outside_of_any_recorded_wait_is_named() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A)
    scene.ender(10, ANN, LOCK_A, BOB, t=STOP)
    scene.asleep[BOB] = ("msleep+0x2d", "keep+0x10 [mod]")
    assert only(scene, Kind.STUCK, ANN, BOB).text.endswith("held it, which slept in msleep < keep")


def test_holder_that_has_exited_is_named() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A)
    scene.ender(10, ANN, LOCK_A, BOB, t=STOP, exited=True)
    assert only(scene, Kind.STUCK, ANN, BOB).text.endswith("bob/12 held it, which had exited")


def test_unknown_holder_is_not_made_up() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A)
    text = only(scene, Kind.STUCK, ANN, 0).text
    assert text.endswith("it is not known which thread can end it")


def test_wait_that_was_given_up_for_a_signal_was_stuck() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A, signal=500)
    scene.ender(10, ANN, LOCK_A, BOB, t=500)
    text = only(scene, Kind.STUCK, ANN, BOB).text
    assert "lasted 490.0 ms, until a signal ended the wait; then thread bob/12 held it" in text


def test_holder_is_described_as_it_was_when_the_signal_came() -> None:
    """The waiter's leaving may let the holder go on, even before the wait's end is seen."""
    scene = LockScene()
    scene.wait(5, BOB, LOCK_B, unlocked=502, fclass=FClass.QUEUE)
    scene.wait(10, ANN, LOCK_A, signal=500)
    scene.ender(10, ANN, LOCK_A, BOB, t=500)
    text = only(scene, Kind.STUCK, ANN, BOB).text
    assert text.endswith("held it, which slept in wait 1 of thread bob/12 on b_mutex [mod]")


def test_short_waits_are_not_stuck() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A, signal=100)
    scene.wait(STOP - 50, BOB, LOCK_B)
    assert scene.verdict().findings == ()


def test_long_wait_that_an_unlock_ended_is_not_stuck() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A, unlocked=900, waker=BOB)
    assert scene.verdict().findings == ()


def test_waits_for_one_holder_are_one_finding() -> None:
    scene = LockScene()
    for tid in (ANN, CARL):
        scene.wait(tid, tid, LOCK_A)
        scene.ender(tid, tid, LOCK_A, BOB)
    assert only(scene, Kind.STUCK, ANN, BOB).text.endswith("(1 more such waits there)")


def test_wait_in_a_deadlock_is_not_stuck_too() -> None:
    """`only` would see a second finding; a third thread that waits is stuck, though."""
    scene = LockScene()
    ab_ba(scene)
    scene.wait(30, CARL, LOCK_A)
    scene.ender(30, CARL, LOCK_A, ANN)
    kinds = [(f.kind, f.tid) for f in scene.verdict().findings]
    assert kinds == [(Kind.DEADLOCK, BOB), (Kind.STUCK, CARL)]


def test_wait_on_a_queue_with_a_known_ender_can_be_stuck() -> None:
    """Another wait, of which the recording knows a thread that can end it."""
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A, fclass=FClass.QUEUE)
    scene.ender(10, ANN, LOCK_A, BOB)
    only(scene, Kind.STUCK, ANN, BOB)


def test_story_of_a_stuck_wait_shows_its_holder() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A)
    scene.ender(10, ANN, LOCK_A, BOB, t=60)
    scene.asleep[BOB] = ("msleep+0x2d",)
    [finding] = scene.verdict().findings
    text = story(scene.ledger(), finding)
    assert "     50.000 ms  thread bob/12 held it\n" in text
    assert "  thread bob/12 slept in, when the recording ended:\n    msleep+0x2d" in text


def test_story_of_a_stuck_wait_leaves_out_the_unlocks_for_others() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A)
    scene.wait(20, CARL, LOCK_A, unlocked=30, waker=BOB)
    [finding] = scene.verdict().findings
    assert "publication" not in story(scene.ledger(), finding)


# What was judged.


def test_lock_waits_are_judged_by_their_unlock() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A, unlocked=20, waker=BOB)
    verdict = scene.verdict()
    assert verdict.line() == (
        "VERIFIED: 1 wait, ended by the publication, unlock or event it waited for"
    )


def test_lock_waits_without_an_unlock_are_not_judged() -> None:
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A, unlocked=20, waker=BOB)
    scene.wait(30, ANN, LOCK_A, end=40)
    scene.wait(30, BOB, LOCK_B, signal=40)
    scene.wait(30, CARL, LOCK_C, end=40, ret=-ETIMEDOUT)
    scene.wait(STOP - 10, ANN, LOCK_C)
    scene.wait(5, CARL, 9, unlocked=6, fclass=FClass.QUEUE)
    verdict = scene.verdict()
    assert verdict.matched == 1
    assert verdict.unjudged == {
        "on queues that no mark explains": 1,
        "with an end that no wake call explains": 1,
        "ended by a signal": 1,
        "ended by a limit or an error": 1,
        "still open at the end": 1,
    }


def test_what_is_odd_is_reported_beside_judged_locks() -> None:
    """A judged lock says nothing about a queue without marks."""
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A, unlocked=20, waker=BOB)
    scene.wait(30, BOB, LOCK_B, fclass=FClass.QUEUE)
    assert scene.verdict().line() == (
        "VERIFIED: 1 of 2 waits judged; not judged: 1 on queues that no mark explains; "
        "1 never ended"
    )
