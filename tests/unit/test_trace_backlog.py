# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Items that are left over, their takers, and the sleeps of a wait in its records."""

from __future__ import annotations

from queue_scenes import QUEUE, TIMEOUT, US, WAITER_2, Scene, backlog_of
from wait_scenes import change_wait

from kfabric.verdict.backlog import End, Sleep, sleeps_of, wake_effects
from kfabric.verdict.ledger import Queue, Wait


def queue_of(scene: Scene) -> Queue:
    """The scene's queue."""
    return scene.ledger().queues[QUEUE]


def wait_of(scene: Scene) -> Wait:
    """The scene's one wait."""
    (wait,) = queue_of(scene).waits
    return wait


def asleep(scene: Scene) -> list[bool]:
    """Which of the wakes of the one wait found its thread asleep."""
    return [effect.asleep for effect in wake_effects(wait_of(scene))]


def sleeps(scene: Scene) -> list[Sleep]:
    """The sleeps of the one wait."""
    return list(sleeps_of(queue_of(scene), wait_of(scene), 9_000_000 * US))


def calls(*times: int) -> Scene:
    """A scene with so many wake calls."""
    scene = Scene()
    for t in times:
        scene.call(t)
    return scene


def test_take_with_nothing_there_takes_nothing() -> None:
    scene = Scene()
    scene.take(10)
    scene.publish(100)
    assert backlog_of(scene).ready(200 * US) == 1
    scene.take(300)
    assert backlog_of(scene).ready(400 * US) == 0


def test_something_is_left_over_since_the_first_of_several() -> None:
    scene = Scene()
    scene.publish(100)
    scene.publish(200)
    assert backlog_of(scene).left_over_since(300 * US) == 100 * US
    scene.take(150)
    assert backlog_of(scene).left_over_since(300 * US) == 200 * US


def test_woken_thread_that_takes_had_it_in_its_hands() -> None:
    scene = calls(100)
    scene.publish(99)
    scene.take(105)
    scene.wait(50, slept=60, wakes=(100,), end=104)
    backlog = backlog_of(scene)
    assert [backlog.took(wake) for wake in wait_of(scene).wakes] == [True]
    assert backlog.left_over_since(103 * US) == 0


def test_thread_that_slept_before_it_took_had_nothing_in_its_hands() -> None:
    """That sleep is the last one, of which the time is known."""
    scene = calls(100)
    scene.publish(99)
    scene.wait(50, slept=110, wakes=(100,), timeout=TIMEOUT)
    scene.take(TIMEOUT + 10)
    assert not any(backlog_of(scene).took(wake) for wake in wait_of(scene).wakes)


def test_thread_that_slept_twice_before_it_took_had_it_since_the_last_time() -> None:
    """Of the sleep between only the wake that ended it is known."""
    scene = calls(100, 150)
    scene.publish(99)
    scene.wait(50, slept=160, wakes=(100, 150), timeout=TIMEOUT)
    scene.take(155)
    backlog = backlog_of(scene)
    assert [backlog.took(wake) for wake in wait_of(scene).wakes] == [False, True]


def test_take_of_another_thread_is_not_its_own() -> None:
    scene = calls(100)
    scene.publish(99)
    scene.wait(50, slept=60, wakes=(100,), end=104)
    scene.take(105, WAITER_2)
    assert not any(backlog_of(scene).took(wake) for wake in wait_of(scene).wakes)


def test_wake_behind_the_last_sleep_found_it_asleep() -> None:
    """Whenever it ran then."""
    scene = calls(100)
    scene.wait(50, slept=60, wakes=(100,), ran=0, end=104)
    assert asleep(scene) == [True]


def test_of_two_wakes_behind_one_sleep_one_found_it_asleep() -> None:
    scene = calls(100, 101)
    scene.wait(50, slept=60, wakes=(100, 101), ran=5, end=120)
    assert asleep(scene) == [False, True]
    assert [effect.again for effect in wake_effects(wait_of(scene))] == [False, False]


def test_of_two_wakes_between_which_the_thread_ran_the_first_found_it_asleep() -> None:
    """Its state was set again, but it had not slept again."""
    scene = calls(100, 110)
    scene.wait(50, slept=60, wakes=(100, 110), ran=5, end=120)
    assert asleep(scene) == [True, False]


def test_thread_that_ran_before_it_slept_again_had_been_asleep() -> None:
    scene = calls(100)
    scene.wait(50, slept=110, wakes=(100,), ran=5, timeout=TIMEOUT)
    assert asleep(scene) == [True]
    assert wake_effects(wait_of(scene))[0].again


def test_thread_that_did_not_run_between_two_wakes_was_not_asleep_at_the_first() -> None:
    """It ran only after the second, and has slept since."""
    scene = calls(100, 150)
    scene.wait(50, slept=220, wakes=(100, 150), ran=60, timeout=TIMEOUT)
    assert asleep(scene) == [False, True]


def test_thread_that_nobody_asked_to_be_woken_was_awake() -> None:
    scene = calls(100)
    scene.wait(90, slept=110, wakes=(100,), ran=5, timeout=TIMEOUT)
    change_wait(scene.records, -1, t_waking=0)
    assert asleep(scene) == [False]


def test_sleeps_begin_where_their_begin_is_known() -> None:
    """The last one's is; of one before, that the thread ran; of the first, that it came."""
    scene = calls(100, 150, 200)
    scene.wait(50, slept=160, wakes=(100, 150, 200), ran=3, end=210)
    assert [sleep.begin for sleep in sleeps(scene)] == [50 * US, 103 * US, 160 * US]
    assert {sleep.how for sleep in sleeps(scene)} == {End.WAKE}


def test_sleep_that_no_wake_ended_ends_with_its_stranger() -> None:
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    (sleep,) = sleeps(scene)
    assert (sleep.begin, sleep.end, sleep.how) == (60 * US, TIMEOUT * US, End.FOREIGN)


def test_stranger_from_before_a_sleep_did_not_end_it() -> None:
    """The cause is unknown, but the wait has ended."""
    scene = Scene()
    scene.wait(50, slept=60, end=200)
    change_wait(scene.records, -1, t_foreign=55 * US)
    (sleep,) = sleeps(scene)
    assert (sleep.end, sleep.how) == (200 * US, End.FOREIGN)


def test_sleep_without_an_end_goes_on() -> None:
    scene = Scene()
    scene.wait(50, slept=60)
    (sleep,) = sleeps(scene)
    assert (sleep.end, sleep.how) == (9_000_000 * US, End.NONE)
