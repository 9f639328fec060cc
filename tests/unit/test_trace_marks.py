# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Begin and return of a marked function: both bound the moment of its effect."""

from __future__ import annotations

from queue_scenes import (
    OTHER,
    TIMEOUT,
    US,
    WAITER,
    WAITER_2,
    WAITER_3,
    WAKER,
    WAKER_2,
    Scene,
    backlog_of,
    only,
    silent,
)

from kfabric.verdict.kinds import Finding, Kind
from kfabric.verdict.story import story

EITHER = "either it came before the store, or thread {} overlooked what was stored"


def lost(scene: Scene) -> Finding:
    """The one finding of a scene: the waiter lost what the waker published."""
    return only(scene, Kind.LOST, WAITER, WAKER)


# Publish and wake in one function.


def test_both_orders_are_named_if_the_woken_sleeper_looked_before_the_return() -> None:
    """It was asleep, was woken within the function, found nothing and slept again."""
    scene = Scene()
    scene.publish(90, end=140)
    scene.call(100)
    scene.wait(50, slept=110, wakes=(100,), timeout=TIMEOUT)
    found = lost(scene)
    assert "published between 20 µs before and 30 µs after it fell asleep" in found.text
    assert "came while the marked function ran, 10 µs after its begin and 40 µs" in found.text
    assert EITHER.format("waiter/11") in found.text


def test_both_orders_are_named_if_the_sleeper_came_before_the_return() -> None:
    """It was not on the queue yet when the wake call came."""
    scene = Scene()
    scene.publish(90, end=140)
    scene.call(100, sleepers=0)
    scene.wait(110, slept=120, timeout=TIMEOUT)
    assert EITHER.format("waiter/11") in lost(scene).text


def test_sleeper_that_came_after_the_return_did_not_look() -> None:
    """Whatever the order within the function was, the item was there."""
    scene = Scene()
    scene.publish(90, end=105)
    scene.call(100, sleepers=0)
    scene.wait(110, slept=120, timeout=TIMEOUT)
    found = lost(scene)
    assert "had published 15 µs before it fell asleep" in found.text
    assert "came 10 µs before it was on the queue, and it did not look again" in found.text


def test_both_orders_are_named_if_another_sleeper_was_woken_and_looked() -> None:
    """It slept again, and so did not pass the wake-up on."""
    scene = Scene()
    scene.publish(90, end=140)
    scene.call(100, sleepers=2)
    scene.wait(51, WAITER_2, slept=110, wakes=(100,), timeout=TIMEOUT)
    scene.wait(50, slept=60, timeout=TIMEOUT)
    assert EITHER.format("waiter-2/12") in lost(scene).text


def test_sleeper_woken_after_the_store_of_another_call_is_not_doubted() -> None:
    """The wake call of the function took place after the return."""
    scene = Scene()
    scene.publish(90, end=95)
    scene.call(100, sleepers=2)
    scene.wait(51, WAITER_2, slept=110, wakes=(100,), timeout=TIMEOUT)
    scene.wait(50, slept=60, timeout=TIMEOUT)
    only(scene, Kind.WRONG_WAITER, WAITER, WAKER)


def test_woken_thread_that_took_is_not_said_to_have_overlooked() -> None:
    """The function woke one for two items."""
    scene = Scene()
    scene.publish(80, end=85)
    scene.publish(90, end=140)
    scene.call(100, sleepers=2)
    scene.wait(50, WAITER_2, slept=60, wakes=(100,), end=104)
    scene.take(105, WAITER_2, end=106)
    scene.wait(51, slept=61, timeout=TIMEOUT)
    assert "woke 1 of 2 asleep for 2 publications" in lost(scene).text


def test_sleeper_that_takes_within_the_function_is_right() -> None:
    """Store and wake in order: the woken thread is faster than the return."""
    scene = Scene()
    scene.publish(90, end=140)
    scene.call(100)
    scene.wait(50, slept=60, wakes=(100,), end=104)
    scene.take(105, end=106)
    scene.wait(200, slept=210, timeout=TIMEOUT)
    silent(scene)


def test_look_within_the_function_proves_nothing_without_marked_takes() -> None:
    """The sleeper may have found its item, and wait for the next one."""
    scene = Scene(take_marked=False)
    scene.publish(90, end=140)
    scene.call(100)
    scene.wait(50, slept=110, wakes=(100,), timeout=TIMEOUT)
    silent(scene)


def test_sleeper_of_another_kind_that_is_woken_within_the_function_may_sleep_again() -> None:
    """Those that take sleep on another queue."""
    scene = Scene()
    scene.publish(90, end=140)
    scene.call(100, queue=OTHER)
    scene.call(101)
    scene.wait(50, WAITER_2, queue=OTHER, slept=110, wakes=(100,), timeout=TIMEOUT)
    scene.wait(50, slept=60, wakes=(101,), ran=10, end=TIMEOUT + 20)
    scene.take(TIMEOUT + 30, end=TIMEOUT + 31)
    silent(scene)


# The return.


def test_function_that_has_not_returned_has_not_certainly_stored() -> None:
    """Perhaps it waits for a lock."""
    scene = Scene()
    scene.take(5, WAITER_3, end=6)
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    silent(scene)


def test_slow_function_has_stored_by_its_return() -> None:
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100, end=TIMEOUT - 10)
    silent(scene)
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100, end=TIMEOUT - 100_000)
    assert "no wake call followed the publication" in lost(scene).text


def test_nested_calls_return_each_for_itself() -> None:
    """The outer function calls the inner one, or itself."""
    scene = Scene()
    scene.publish(100, end=130)
    scene.publish(110, end=120)
    marks = scene.ledger().marks
    assert [(mark.t, mark.t_end) for mark in marks] == [
        (100 * US, 130 * US),
        (110 * US, 120 * US),
    ]


def test_return_without_a_begin_is_a_call() -> None:
    """The part of a recording around a finding may begin within it."""
    scene = Scene()
    scene.publish(100, end=130)
    del scene.records[0]
    (mark,) = scene.ledger().marks
    assert (mark.t, mark.t_end) == (100 * US, 130 * US)


# The function that takes.


def test_call_that_waits_for_its_item_takes_it() -> None:
    """The marked function contains the wait. It begins before there is an item."""
    scene = Scene()
    scene.take(40, end=110)
    scene.publish(90, end=95)
    scene.call(100)
    scene.wait(50, slept=60, wakes=(100,), end=104)
    scene.wait(200, slept=210, timeout=TIMEOUT)
    silent(scene)
    (wake,) = scene.ledger().queues[1].waits[0].wakes
    assert backlog_of(scene).took(wake)


def test_call_that_sleeps_beside_its_item_has_not_taken_it() -> None:
    """The marked function contains the wait; only its timeout ends it."""
    scene = Scene()
    scene.take(40, end=TIMEOUT + 5)
    scene.publish(90, end=95)
    scene.wait(50, slept=60, timeout=TIMEOUT)
    assert "no wake call followed" in lost(scene).text


def test_item_that_another_takes_while_a_call_sleeps_is_gone() -> None:
    scene = Scene()
    scene.take(40, end=TIMEOUT + 5)
    scene.publish(90, end=95)
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.take(120, WAITER_2, end=121)
    silent(scene)


def test_call_that_looks_while_the_item_comes_may_take_it() -> None:
    """It begins before the publication and returns after it, without a sleep."""
    scene = Scene()
    scene.take(90, WAITER_2, end=110)
    scene.publish(100, end=101)
    scene.wait(50, slept=60, timeout=TIMEOUT)
    silent(scene)


def test_item_is_perhaps_there_until_the_function_that_takes_returns() -> None:
    scene = Scene()
    scene.publish(100, end=110)
    scene.take(200, end=220)
    backlog = backlog_of(scene)
    assert [backlog.ready(t * US) for t in (90, 105, 210, 230)] == [0, 1, 1, 0]
    assert backlog.left_over_since(105 * US) == 0
    assert backlog.left_over_since(150 * US) == 110 * US
    assert backlog.left_over_since(210 * US) == 0


def test_story_has_begin_and_return_of_the_function() -> None:
    scene = Scene()
    scene.publish(90, WAKER_2, end=140)
    scene.call(100, WAKER_2)
    scene.wait(50, slept=110, wakes=(100,), timeout=TIMEOUT)
    (finding,) = scene.verdict().findings
    text = story(scene.ledger(), finding)
    assert "0.040 ms  thread waker-2/22 in process context, CPU 0, enters" in text
    assert "0.090 ms  thread waker-2/22 in process context returns from the marked" in text


# Marks that come late.


def late_by(begin: int, end: int) -> Scene:
    """The publisher's function was marked at ``end``; its module came at ``begin``."""
    scene = Scene()
    scene.publish(100, end=101)
    scene.call(102)
    scene.wait(50, slept=60, wakes=(102,), end=104)
    scene.take(105, end=106)
    scene.late = {"publish": (begin * US, end * US)}
    return scene


def test_mark_that_came_after_a_wait_is_a_doubt_with_its_length() -> None:
    (doubt,) = late_by(40, 90).verdict().doubts
    assert doubt == (
        "publish was marked only 0.1 ms after its module had come; waits and wake calls that "
        "began in that time: 1"
    )


def test_mark_that_came_before_the_first_wait_is_in_time() -> None:
    silent(late_by(10, 40))


def test_threads_that_start_before_the_mark_are_no_doubt() -> None:
    """A module starts its threads in its init function. That publishes nothing."""
    scene = late_by(40, 90)
    scene.name = "completion on the stack of __kthread_create_on_node"
    assert scene.verdict().doubts == ()


def test_wake_calls_before_the_mark_where_nobody_sleeps_are_no_doubt() -> None:
    """A module makes files in its init function, which wakes a queue of the file system."""
    scene = Scene()
    scene.call(60)
    scene.late = {"publish": (40 * US, 90 * US)}
    assert scene.verdict().doubts == ()


def test_mark_of_a_module_that_came_at_an_unknown_time_is_a_doubt() -> None:
    (doubt,) = late_by(0, 40).verdict().doubts
    assert doubt == "publish was not marked from the beginning of its module"
