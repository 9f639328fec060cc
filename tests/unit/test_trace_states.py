# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Wake calls for sleepers of another state, and completions that were forgotten."""

from __future__ import annotations

from queue_scenes import TIMEOUT, WAITER, WAITER_2, WAKER, WAKER_2, Scene, only

from kfabric.verdict.kinds import Finding, Kind

INTERRUPTIBLE, UNINTERRUPTIBLE, NORMAL, KILLABLE = 1, 2, 3, 0x102


def state_lost(mode: int, state: int) -> Finding:
    """The waiter slept in a state, and the wake call asked for others."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT, state=state)
    scene.publish(100, end=101)
    scene.call(102, mode=mode)
    return only(scene, Kind.LOST, WAITER, WAKER)


def test_call_for_interruptible_sleepers_passes_over_an_uninterruptible_one() -> None:
    text = state_lost(INTERRUPTIBLE, UNINTERRUPTIBLE).text
    assert text.endswith(
        "found 1 asleep and woke nobody: it asked for interruptible sleepers, and this thread "
        "slept uninterruptibly"
    )


def test_flags_of_a_state_do_not_change_its_name() -> None:
    assert "this thread slept killably" in state_lost(INTERRUPTIBLE, KILLABLE).text
    assert "this thread slept uninterruptibly" in state_lost(INTERRUPTIBLE, 0x402).text
    assert "asked for uninterruptible sleepers" in state_lost(UNINTERRUPTIBLE, INTERRUPTIBLE).text
    assert "asked for killable sleepers" in state_lost(KILLABLE, INTERRUPTIBLE).text
    assert "asked for state 0x40 sleepers" in state_lost(0x40, 0x80).text
    assert "slept in state 0x80" in state_lost(0x40, 0x80).text


def test_state_is_no_reason_if_the_call_asked_for_it() -> None:
    assert state_lost(NORMAL, UNINTERRUPTIBLE).text.endswith("asleep and woke nobody")
    assert state_lost(INTERRUPTIBLE, 0).text.endswith("asleep and woke nobody")


def test_call_that_wakes_another_passes_over_an_uninterruptible_sleeper() -> None:
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT, state=UNINTERRUPTIBLE)
    scene.publish(100, end=101)
    scene.call(102, sleepers=2, mode=INTERRUPTIBLE)
    scene.wait(50, WAITER_2, slept=60, wakes=(102,), end=105)
    text = only(scene, Kind.LOST, WAITER, WAKER).text
    assert "found 2 asleep and woke 1: it asked for interruptible sleepers" in text


def test_suspicion_without_marks_has_the_state() -> None:
    scene = Scene()
    scene.wait(50, slept=60, state=UNINTERRUPTIBLE)
    scene.call(102, mode=INTERRUPTIBLE)
    (note,) = scene.verdict().notes
    assert "it asked for interruptible sleepers" in note.text


def forgotten(**how: int) -> Scene:
    """A completion is given and initialized again; the next one ends the wait."""
    scene = Scene()
    scene.publish(100, end=101)
    scene.call(102, sleepers=0, count=how.get("count", 0), most=how.get("most", 1))
    scene.publish(1_000_000, WAKER_2, end=1_000_001)
    scene.call(1_000_002, WAKER_2)
    scene.wait(120, slept=130, wakes=(1_000_002,), end=1_000_004, gone=how.get("gone", 1))
    scene.take(1_000_006, end=1_000_007)
    return scene


def test_completion_that_was_forgotten_is_named_with_its_giver_and_its_count() -> None:
    text = only(forgotten(), Kind.LOST, WAITER, WAKER).text
    assert (
        "complete() by thread waker/21 in process context raised the completion's count from 0 "
        "to 1 18 µs before the wait began; by then its count was 0 again, and no wait had taken "
        "it: it was initialized again; only the next complete(), by thread waker-2/22 in process "
        "context, ended the wait"
    ) in text


def test_forgotten_complete_all_was_for_all_waits() -> None:
    text = only(forgotten(most=0), Kind.LOST, WAITER, WAKER).text
    assert "complete_all() by thread waker/21 in process context raised" in text
    assert "count from 0 to no limit 18 µs before" in text


def test_wait_that_no_completion_ends_names_the_forgotten_one() -> None:
    scene = Scene()
    scene.publish(100, end=101)
    scene.call(102, sleepers=0)
    scene.wait(120, slept=130, timeout=TIMEOUT, gone=1)
    text = only(scene, Kind.LOST, WAITER, WAKER).text
    assert text.endswith("no wait had taken it: it was initialized again")


def test_completion_that_was_not_forgotten_was_late() -> None:
    only(forgotten(gone=0), Kind.LATE, WAITER, WAKER_2)


def test_completion_that_had_a_count_before_may_have_been_taken() -> None:
    only(forgotten(count=1), Kind.LATE, WAITER, WAKER_2)


def test_completion_may_have_been_taken_by_a_wait_that_timed_out() -> None:
    """It took what came at that moment, which is not recorded."""
    scene = forgotten()
    scene.wait(80, slept=85, timeout=99)
    only(scene, Kind.LATE, WAITER, WAKER_2)
