# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict on plain wait queues: sleepers that should have been woken."""

from __future__ import annotations

from errno import EINTR

from queue_scenes import (
    OTHER,
    TIMEOUT,
    WAITER,
    WAITER_2,
    WAITER_3,
    WAKER,
    WAKER_2,
    Scene,
    only,
    silent,
)
from wait_scenes import change_wait

from kfabric.recording.records import Context
from kfabric.verdict.kinds import Kind
from kfabric.verdict.story import story

# Lost.


def test_wake_call_before_the_waiter_is_on_the_queue_is_lost() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=0)
    scene.wait(140, slept=150, timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "came 39 µs before it was on the queue" in found.text
    assert "until its timeout" in found.text
    assert "thread waker/21 in process context" in found.text
    assert "the_queue [mod]" in found.text


def test_wake_call_before_a_waiter_that_looks_again_is_not_lost() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=0)
    scene.wait(140, end=142)
    scene.take(143)
    silent(scene)


def test_wait_that_never_ends_beside_something_ready_is_lost() -> None:
    scene = Scene()
    scene.wait(50, slept=60)
    scene.publish(100)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "was never woken" in found.text
    assert "no wake call followed the publication" in found.text


def test_wait_that_never_ends_with_nothing_ready_is_not_lost() -> None:
    scene = Scene()
    scene.publish(10)
    scene.take(20, WAITER_2)
    scene.wait(50, slept=60)
    silent(scene)


def test_publication_without_a_wake_call_is_lost() -> None:
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "no wake call followed" in found.text


def test_publication_without_a_wake_call_that_another_takes_is_not_lost() -> None:
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.take(5000, WAITER_2)
    silent(scene)


def test_wake_call_that_goes_to_another_queue_is_lost() -> None:
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.call(101, queue=OTHER, sleepers=0)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "went to other_queue [mod], where it woke nobody" in found.text


def test_story_of_a_call_on_another_queue_shows_no_call_on_this_one() -> None:
    """Both are the first calls on their queues; that on this queue came before the wait."""
    scene = Scene()
    scene.call(40, sleepers=0)
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.call(101, queue=OTHER, sleepers=0)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "finds 0 asleep" not in story(scene.ledger(), found)


def test_wake_call_on_both_queues_is_not_lost() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101, queue=OTHER, sleepers=0)
    scene.call(102)
    scene.wait(50, slept=60, wakes=(102,), end=104)
    scene.take(105)
    silent(scene)


def test_wake_before_the_publication_is_lost() -> None:
    scene = Scene()
    scene.call(100)
    scene.publish(140)
    scene.wait(50, slept=110, wakes=(100,), timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "had woken it 40 µs before the publication" in found.text


def test_wake_before_the_publication_that_is_found_all_the_same_is_not_lost() -> None:
    scene = Scene()
    scene.call(100)
    scene.publish(101)
    scene.wait(50, slept=60, wakes=(100,), ran=3, end=105)
    scene.take(106)
    silent(scene)


def test_wake_of_several_before_the_publication_is_lost() -> None:
    scene = Scene()
    scene.call(100, sleepers=2)
    scene.wait(50, WAITER_2, slept=60, wakes=(100,), end=103)
    scene.publish(140)
    scene.wait(51, slept=110, wakes=(100,), timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "had woken it 40 µs before the publication" in found.text


def test_earlier_call_that_woke_others_is_not_the_one_that_is_told() -> None:
    """It was no wake-up of this sleeper that came too early."""
    scene = Scene()
    scene.call(80)
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "no wake call followed" in found.text


def test_earlier_call_for_an_earlier_publication_is_not_the_one_that_is_told() -> None:
    """It was in time for that one."""
    scene = Scene()
    scene.publish(90)
    scene.call(91)
    scene.take(95)
    scene.wait(50, slept=110, wakes=(91,), timeout=TIMEOUT)
    scene.publish(140)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "no wake call followed" in found.text


def test_woken_thread_that_runs_after_the_store_has_looked() -> None:
    """It slept again since it waits for something else; the wake came within the function."""
    scene = Scene()
    scene.publish(100, end=105)
    scene.call(101)
    scene.wait(50, slept=130, wakes=(101,), ran=10, timeout=TIMEOUT)
    assert not [f for f in scene.verdict().findings if f.tid == WAITER]


def test_wake_that_its_sleeper_wipes_out_is_lost() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101)
    scene.wait(90, slept=130, wakes=(101,), ran=0, timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "slept all the same" in found.text


def test_wake_that_the_scheduler_completes_after_the_switch_ends_the_sleep() -> None:
    """The sleeper had left its run queue, and the event of that came after the wake."""
    scene = Scene()
    scene.publish(100)
    scene.call(101)
    scene.wait(90, slept=130, wakes=(101,), ran=50_000, end=51_000)
    scene.take(52_000)
    change_wait(scene.records, -2, wakeup_ns=35_000)
    silent(scene)


def test_wake_call_that_finds_the_waiter_running_is_lost() -> None:
    """It is on the queue, and sets its state after the call."""
    scene = Scene()
    scene.publish(100)
    scene.call(101)
    scene.wait(90, slept=130, timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "came 29 µs before it slept, found it running and woke nobody" in found.text
    assert "asleep and woke" not in found.text


def test_wake_through_another_queue_that_its_sleeper_wipes_out_is_lost() -> None:
    """The thread enqueues on a second queue, which sets its state again."""
    scene = Scene()
    scene.wait(10, end=20)
    scene.publish(100)
    scene.call(101, queue=OTHER)
    scene.wait(110, slept=130, timeout=TIMEOUT)
    scene.wait(90, slept=130, wakes=(101,), ran=0, end=TIMEOUT + 1, queue=OTHER)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "wait 2 of thread waiter/11 on the_queue [mod]" in found.text
    assert "woke it through other_queue [mod] 29 µs before it slept" in found.text
    assert "its state was set after its last look" in found.text


def test_thread_that_was_woken_through_its_other_queue_does_not_sleep_on() -> None:
    """It runs late, and leaves both queues at once: what came meanwhile is not lost."""
    scene = Scene()
    scene.publish(100)
    scene.call(101, queue=OTHER)
    scene.publish(110)
    scene.call(111)
    scene.wait(51, slept=60, end=50_000)
    scene.wait(50, slept=60, wakes=(101,), ran=49_000, end=50_000, queue=OTHER)
    scene.take(50_001)
    scene.take(50_002)
    silent(scene)


def test_wake_through_the_other_queue_long_after_the_publication_is_late() -> None:
    scene = Scene()
    scene.wait(10, end=20)
    scene.publish(100)
    scene.call(700_101, queue=OTHER)
    scene.wait(51, slept=60, end=700_104)
    scene.wait(50, slept=60, wakes=(700_101,), end=700_104, queue=OTHER)
    scene.take(700_105)
    found = only(scene, Kind.LATE, WAITER, WAKER)
    assert "on the_queue [mod] slept 700.0 ms although" in found.text
    assert "the wake call of thread waker/21 in process context came 700.0 ms after" in found.text


def test_one_wake_call_for_two_publications_is_lost() -> None:
    scene = Scene()
    scene.publish(100)
    scene.publish(101)
    scene.call(102, sleepers=2)
    scene.wait(50, slept=60, wakes=(102,), end=104)
    scene.take(105)
    scene.wait(51, WAITER_2, slept=61, timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER_2, WAKER)
    assert "woke 1 of 2 asleep for 2 publications" in found.text


def test_one_wake_call_for_two_publications_that_one_thread_takes_is_not_lost() -> None:
    scene = Scene()
    scene.publish(100)
    scene.publish(101)
    scene.call(102, sleepers=2)
    scene.wait(50, slept=60, wakes=(102,), end=104)
    scene.take(105)
    scene.take(300)
    scene.wait(51, WAITER_2, slept=61, timeout=TIMEOUT)
    silent(scene)


def test_second_wake_of_a_thread_that_takes_one_item_is_lost() -> None:
    """The thread was on its way to sleep again, and still on the queue."""
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.publish(110)
    scene.call(111, sleepers=2)
    scene.wait(50, slept=60, wakes=(101, 111), end=114)
    scene.take(115)
    scene.wait(51, WAITER_2, slept=61, timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER_2, WAKER)
    assert "woke thread waiter/11, which had been woken already" in found.text


def test_second_wake_of_a_thread_that_takes_both_items_is_not_lost() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.publish(110)
    scene.call(111, sleepers=2)
    scene.wait(50, slept=60, wakes=(101, 111), end=114)
    scene.take(115)
    scene.take(116)
    scene.wait(51, WAITER_2, slept=61, timeout=TIMEOUT)
    silent(scene)


def test_wake_call_without_effect_is_lost() -> None:
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.call(101)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "found 1 asleep and woke nobody" in found.text


def test_publication_of_a_softirq_names_its_context() -> None:
    scene = Scene()
    scene.publish(100, WAITER, Context.SOFTIRQ)
    scene.call(101, WAITER, sleepers=0, context=Context.SOFTIRQ)
    scene.wait(140, slept=150, timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER, WAITER)
    assert "in softirq context" in found.text


def test_timeout_while_the_publisher_is_on_its_way_is_not_lost() -> None:
    """Published is what is marked; the store and the wake call come later."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(TIMEOUT - 100_000)
    scene.call(TIMEOUT + 2000, sleepers=0)
    silent(scene)


def test_wake_call_for_the_next_publication_is_not_for_the_one_before() -> None:
    """The publisher came back later, and found nobody on the queue any more."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(TIMEOUT - 100_000)
    scene.take(TIMEOUT + 10)
    scene.publish(TIMEOUT + 1000)
    scene.call(TIMEOUT + 2000, sleepers=0)
    only(scene, Kind.LOST, WAITER, WAKER)


def test_timeout_in_the_middle_of_a_batch_is_not_lost() -> None:
    """One wake call is for all that were published before it."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    for t in (TIMEOUT - 30_000, TIMEOUT - 15_000, TIMEOUT + 1000):
        scene.publish(t)
    scene.call(TIMEOUT + 2000, sleepers=0)
    silent(scene)


def test_timeout_just_behind_the_mark_of_a_silent_publisher_is_not_lost() -> None:
    """waitqueue_active() rightly finds no sleeper any more."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(TIMEOUT - 100)
    silent(scene)


def test_one_publication_accuses_one_sleeper() -> None:
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.wait(51, WAITER_2, slept=61, timeout=TIMEOUT)
    scene.publish(100)
    only(scene, Kind.LOST, WAITER, WAKER)


def test_waits_from_before_the_recording_are_not_judged() -> None:
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    silent(scene, since=55_000)
    only(scene, Kind.LOST, WAITER, WAKER, since=50_000)


def test_timeout_while_the_publisher_is_on_its_way_to_another_queue_is_lost() -> None:
    """It would have come too late, and to the wrong queue, too."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(TIMEOUT - 100_000)
    scene.call(TIMEOUT + 2000, queue=OTHER, sleepers=0)
    only(scene, Kind.LOST, WAITER, WAKER)


def test_publishers_call_on_the_sleepers_queue_is_the_one_that_is_told() -> None:
    """One on another queue before it was meant for others."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.call(101, queue=OTHER, sleepers=0)
    scene.call(102)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "found 1 asleep and woke nobody" in found.text


def test_call_of_a_stand_in_that_wakes_nobody_is_the_one_that_is_told() -> None:
    """The publisher leaves waking to others; on another queue they do so for others."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.call(101, WAKER_2, queue=OTHER, sleepers=0)
    scene.call(102, WAKER_2)
    found = only(scene, Kind.LOST, WAITER, WAKER_2)
    assert "found 1 asleep and woke nobody" in found.text


def test_call_that_woke_somebody_unknown_instead_of_the_sleeper_is_lost() -> None:
    """Without its wait, the effect of a thread's wake-up is unknown."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.stray(101, WAITER_2)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "woke 1 of 2 asleep" in found.text


# Late.


def test_wake_call_long_after_the_publication_is_late() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(600_100, WAKER_2)
    scene.wait(50, slept=60, wakes=(600_100,), end=600_103)
    scene.take(600_104)
    found = only(scene, Kind.LATE, WAITER, WAKER_2)
    assert "came 600.0 ms after that" in found.text
    assert "thread waker-2/22" in found.text


def test_wake_call_within_the_limit_is_not_late() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(400_100, WAKER_2)
    scene.wait(50, slept=60, wakes=(400_100,), end=400_103)
    scene.take(400_104)
    silent(scene)


def test_second_worker_that_has_nothing_to_do_is_not_late() -> None:
    """The first one was woken for it, and is only slow."""
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, slept=60, wakes=(101,), end=103)
    scene.take(800_000)
    scene.publish(900_000)
    scene.call(900_001)
    scene.wait(51, WAITER_2, slept=61, wakes=(900_001,), end=900_004)
    scene.take(900_005, WAITER_2)
    silent(scene)


def test_one_wait_has_one_finding() -> None:
    """It was late before it got no CPU."""
    scene = Scene()
    scene.publish(100)
    scene.call(600_100, WAKER_2)
    scene.wait(50, slept=60, wakes=(600_100,), ran=6_000_000, end=6_600_200)
    scene.take(6_600_300)
    only(scene, Kind.LATE, WAITER, WAKER_2)


# Wrong waiter.


def test_wake_of_somebody_on_another_queue_is_a_wrong_waiter() -> None:
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.call(101, queue=OTHER)
    scene.wait(51, WAITER_2, slept=110, wakes=(101,), timeout=2 * TIMEOUT, queue=OTHER)
    found = only(scene, Kind.WRONG_WAITER, WAITER, WAKER)
    assert "went to other_queue [mod] and woke thread waiter-2/12" in found.text


def test_wake_of_somebody_who_sleeps_again_is_a_wrong_waiter() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, WAITER_2, slept=110, wakes=(101,), timeout=2 * TIMEOUT)
    scene.wait(51, slept=61, timeout=TIMEOUT)
    found = only(scene, Kind.WRONG_WAITER, WAITER, WAKER)
    assert "woke thread waiter-2/12 instead" in found.text


def test_one_wake_call_has_one_finding() -> None:
    """The two that it woke had no use for it; that it woke two does not matter then."""
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=3)
    scene.wait(50, slept=110, wakes=(101,), timeout=2 * TIMEOUT)
    scene.wait(51, WAITER_2, slept=111, wakes=(101,), timeout=2 * TIMEOUT)
    scene.wait(52, WAITER_3, slept=62, timeout=TIMEOUT)
    only(scene, Kind.WRONG_WAITER, WAITER_3, WAKER)


def test_wake_of_somebody_who_takes_and_sleeps_again_is_no_wrong_waiter() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, WAITER_2, slept=110, wakes=(101,), timeout=2 * TIMEOUT)
    scene.take(105, WAITER_2)
    scene.wait(51, slept=61, timeout=TIMEOUT)
    silent(scene)


# Not handed on.


def test_woken_waiter_that_leaves_without_taking_hands_nothing_on() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, slept=60, wakes=(101,), end=140)
    scene.wait(51, WAITER_2, slept=61, timeout=TIMEOUT)
    found = only(scene, Kind.NOT_HANDED_ON, WAITER, WAKER)
    assert "wait 1 of thread waiter-2/12" in found.text
    assert "which left 39 µs later, took nothing and woke nobody" in found.text


def test_woken_waiter_that_wakes_the_next_hands_it_on() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, slept=60, wakes=(101,), end=140)
    scene.call(141, WAITER)
    scene.wait(51, WAITER_2, slept=61, wakes=(141,), end=144)
    scene.take(145, WAITER_2)
    silent(scene)


def signalled(context: Context) -> Scene:
    """A waiter sleeps beside an item until a signal ends its wait."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    fields: dict[str, int] = {"ret": -EINTR, "foreign_tid": WAKER_2, "foreign_context": context}
    change_wait(scene.records, -1, **fields)
    scene.publish(100)
    return scene


def test_signal_that_ends_a_lost_wait_is_named_as_one() -> None:
    """Its sender is no waker: it knows nothing of the queue."""
    scene = signalled(Context.PROCESS)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert ", until a signal sent by thread waker-2/22 woke it, although" in found.text
    told = story(scene.ledger(), found)
    assert "is woken by a signal, sent by thread waker-2/22 in process context" in told
    assert "past its queue" not in found.text + told


def test_signal_of_a_timer_has_no_sender() -> None:
    """As that of setitimer(); the interrupted thread is unrelated. It is no timeout either."""
    found = only(signalled(Context.HARDIRQ), Kind.LOST, WAITER, WAKER)
    assert ", until a signal woke it, although" in found.text


def test_thread_that_wakes_a_sleeper_directly_is_named() -> None:
    """As kthread_stop() does, past the queue and without a signal."""
    scene = signalled(Context.PROCESS)
    change_wait(scene.records, 0, ret=0)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert ", until thread waker-2/22 woke it past its queue, although" in found.text
