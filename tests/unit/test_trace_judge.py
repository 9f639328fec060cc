# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict on plain wait queues: what gives each kind, and what nearly does."""

from __future__ import annotations

from queue_scenes import (
    OTHER,
    QUEUE,
    WAITER,
    WAITER_2,
    WAITER_3,
    WAKER,
    WAKER_2,
    Scene,
)

from harness.probes.kinds import Finding, Kind, Outcome
from harness.probes.records import Context

TIMEOUT = 250_000


def only(scene: Scene, kind: Kind, waiter: int, waker: int, **rules) -> Finding:
    """The one finding of a scene, which must be as told."""
    verdict = scene.verdict(**rules)
    assert [(f.kind, f.tid, f.waker) for f in verdict.findings] == [(kind, waiter, waker)], (
        verdict.findings
    )
    assert verdict.outcome is Outcome.FAULT
    return verdict.findings[0]


def silent(scene: Scene, **rules) -> None:
    """Nothing is wrong."""
    verdict = scene.verdict(**rules)
    assert verdict.findings == ()
    assert verdict.outcome is Outcome.VERIFIED


# Lost.


def test_wake_call_before_the_waiter_is_on_the_queue_is_lost():
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=0)
    scene.wait(140, slept=150, timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "came 39 µs before it was on the queue" in found.text
    assert "until its timeout" in found.text
    assert "thread waker/21 in process context" in found.text
    assert "the_queue [mod]" in found.text


def test_wake_call_before_a_waiter_that_looks_again_is_not_lost():
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=0)
    scene.wait(140, end=142)
    scene.take(143)
    silent(scene)


def test_wait_that_never_ends_beside_something_ready_is_lost():
    scene = Scene()
    scene.wait(50, slept=60)
    scene.publish(100)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "was never woken" in found.text
    assert "no wake call followed the publication" in found.text


def test_wait_that_never_ends_with_nothing_ready_is_not_lost():
    scene = Scene()
    scene.publish(10)
    scene.take(20, WAITER_2)
    scene.wait(50, slept=60)
    silent(scene)


def test_publication_without_a_wake_call_is_lost():
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "no wake call followed" in found.text


def test_publication_without_a_wake_call_that_another_takes_is_not_lost():
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.take(5000, WAITER_2)
    silent(scene)


def test_wake_call_that_goes_to_another_queue_is_lost():
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.call(101, queue=OTHER, sleepers=0)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "went to other_queue [mod], where it woke nobody" in found.text


def test_wake_call_on_both_queues_is_not_lost():
    scene = Scene()
    scene.publish(100)
    scene.call(101, queue=OTHER, sleepers=0)
    scene.call(102)
    scene.wait(50, slept=60, wakes=(102,), end=104)
    scene.take(105)
    silent(scene)


def test_wake_before_the_publication_is_lost():
    scene = Scene()
    scene.call(100)
    scene.publish(140)
    scene.wait(50, slept=110, wakes=(100,), timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "had woken it 40 µs before the publication" in found.text


def test_wake_before_the_publication_that_is_found_all_the_same_is_not_lost():
    scene = Scene()
    scene.call(100)
    scene.publish(101)
    scene.wait(50, slept=60, wakes=(100,), ran=3, end=105)
    scene.take(106)
    silent(scene)


def test_wake_that_its_sleeper_wipes_out_is_lost():
    scene = Scene()
    scene.publish(100)
    scene.call(101)
    scene.wait(90, slept=130, wakes=(101,), ran=0, timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "slept all the same" in found.text


def test_one_wake_call_for_two_publications_is_lost():
    scene = Scene()
    scene.publish(100)
    scene.publish(101)
    scene.call(102, sleepers=2)
    scene.wait(50, slept=60, wakes=(102,), end=104)
    scene.take(105)
    scene.wait(51, WAITER_2, slept=61, timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER_2, WAKER)
    assert "woke 1 of 2 asleep for 2 publications" in found.text


def test_one_wake_call_for_two_publications_that_one_thread_takes_is_not_lost():
    scene = Scene()
    scene.publish(100)
    scene.publish(101)
    scene.call(102, sleepers=2)
    scene.wait(50, slept=60, wakes=(102,), end=104)
    scene.take(105)
    scene.take(300)
    scene.wait(51, WAITER_2, slept=61, timeout=TIMEOUT)
    silent(scene)


def test_wake_call_without_effect_is_lost():
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.call(101)
    found = only(scene, Kind.LOST, WAITER, WAKER)
    assert "found 1 asleep and woke nobody" in found.text


def test_publication_of_a_softirq_names_its_context():
    scene = Scene()
    scene.publish(100, WAITER, Context.SOFTIRQ)
    scene.call(101, WAITER, sleepers=0, context=Context.SOFTIRQ)
    scene.wait(140, slept=150, timeout=TIMEOUT)
    found = only(scene, Kind.LOST, WAITER, WAITER)
    assert "in softirq context" in found.text


def test_timeout_while_the_publisher_is_on_its_way_is_not_lost():
    """Published is what is marked; the store and the wake call come later."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(TIMEOUT - 100_000)
    scene.call(TIMEOUT + 2000, sleepers=0)
    silent(scene)


def test_timeout_just_behind_the_mark_of_a_silent_publisher_is_not_lost():
    """waitqueue_active() is right in finding nobody any more."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(TIMEOUT - 100)
    silent(scene)


def test_one_publication_accuses_one_sleeper():
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.wait(51, WAITER_2, slept=61, timeout=TIMEOUT)
    scene.publish(100)
    only(scene, Kind.LOST, WAITER, WAKER)


def test_waits_from_before_the_recording_are_not_judged():
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    silent(scene, since=55_000)


# Late.


def test_wake_call_long_after_the_publication_is_late():
    scene = Scene()
    scene.publish(100)
    scene.call(600_100, WAKER_2)
    scene.wait(50, slept=60, wakes=(600_100,), end=600_103)
    scene.take(600_104)
    found = only(scene, Kind.LATE, WAITER, WAKER_2)
    assert "came 600.0 ms after that" in found.text
    assert "thread waker-2/22" in found.text


def test_wake_call_within_the_limit_is_not_late():
    scene = Scene()
    scene.publish(100)
    scene.call(400_100, WAKER_2)
    scene.wait(50, slept=60, wakes=(400_100,), end=400_103)
    scene.take(400_104)
    silent(scene)


def test_second_worker_that_has_nothing_to_do_is_not_late():
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


# Wrong waiter.


def test_wake_of_somebody_on_another_queue_is_a_wrong_waiter():
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.call(101, queue=OTHER)
    scene.wait(51, WAITER_2, slept=110, wakes=(101,), timeout=2 * TIMEOUT, queue=OTHER)
    found = only(scene, Kind.WRONG_WAITER, WAITER, WAKER)
    assert "went to other_queue [mod] and woke thread waiter-2/12" in found.text


def test_wake_of_somebody_who_sleeps_again_is_a_wrong_waiter():
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, WAITER_2, slept=110, wakes=(101,), timeout=2 * TIMEOUT)
    scene.wait(51, slept=61, timeout=TIMEOUT)
    found = only(scene, Kind.WRONG_WAITER, WAITER, WAKER)
    assert "woke thread waiter-2/12 instead" in found.text


def test_wake_of_somebody_who_takes_and_sleeps_again_is_no_wrong_waiter():
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, WAITER_2, slept=110, wakes=(101,), timeout=2 * TIMEOUT)
    scene.take(105, WAITER_2)
    scene.wait(51, slept=61, timeout=TIMEOUT)
    silent(scene)


# Not handed on.


def test_woken_waiter_that_leaves_without_taking_hands_nothing_on():
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, slept=60, wakes=(101,), end=140)
    scene.wait(51, WAITER_2, slept=61, timeout=TIMEOUT)
    found = only(scene, Kind.NOT_HANDED_ON, WAITER, WAKER)
    assert "wait 1 of thread waiter-2/12" in found.text
    assert "which left 39 µs later, took nothing and woke nobody" in found.text


def test_woken_waiter_that_wakes_the_next_hands_it_on():
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, slept=60, wakes=(101,), end=140)
    scene.call(141, WAITER)
    scene.wait(51, WAITER_2, slept=61, wakes=(141,), end=144)
    scene.take(145, WAITER_2)
    silent(scene)


# Spurious.


def test_wake_with_nothing_published_is_spurious():
    scene = Scene()
    scene.call(100)
    scene.wait(50, slept=110, wakes=(100,), timeout=TIMEOUT)
    found = only(scene, Kind.SPURIOUS, WAITER, WAKER, marked=True)
    assert "which had published nothing" in found.text


def test_wake_for_what_another_thread_took_meanwhile_is_overtaken():
    scene = Scene()
    scene.publish(100)
    scene.take(101, WAITER_2)
    scene.call(102)
    scene.wait(50, slept=110, wakes=(102,), timeout=TIMEOUT)
    silent(scene)
    assert [note.kind for note in scene.verdict().notes] == [Kind.OVERTAKEN]
    assert scene.verdict().overtaken == 1


def test_slow_wake_call_after_that_of_another_publisher_is_not_spurious():
    """Each publisher has something behind its call, though the first one's woke for both."""
    scene = Scene()
    scene.publish(100)
    scene.publish(101, WAKER_2)
    scene.call(102)
    scene.take(105)
    scene.take(106)
    scene.call(120, WAKER_2)
    scene.wait(50, slept=115, wakes=(102, 120), timeout=TIMEOUT)
    silent(scene)


def test_wake_call_of_a_stand_in_is_not_spurious():
    """A work item wakes for what a thread published."""
    scene = Scene()
    scene.publish(100)
    scene.take(101, WAITER_2)
    scene.call(130, WAKER_2)
    scene.wait(50, slept=140, wakes=(130,), timeout=TIMEOUT)
    silent(scene)


def test_wake_that_ends_the_wait_for_another_reason_is_not_spurious():
    """A waiter that leaves got what it wanted, whatever that was."""
    scene = Scene()
    scene.call(100)
    scene.wait(50, slept=60, wakes=(100,), end=103)
    silent(scene, marked=True)


# Herd.


def test_wake_of_one_who_has_no_use_for_what_is_there_is_not_overtaken():
    scene = Scene()
    scene.publish(100)
    scene.call(101)
    scene.wait(50, WAITER_2, slept=110, wakes=(101,), timeout=TIMEOUT)
    scene.take(200)
    assert scene.verdict().notes == ()


def herd(takers: int, publications: int = 1) -> Scene:
    """Three are woken, and some of them take; the others sleep again."""
    scene = Scene()
    for n in range(publications):
        scene.publish(90 + n)
    scene.call(101, sleepers=3)
    for n, tid in enumerate((WAITER, WAITER_2, WAITER_3)):
        if n < takers:
            scene.wait(50 + n, tid, slept=60 + n, wakes=(101,), end=104 + n)
            scene.take(105 + n, tid)
        else:
            scene.wait(50 + n, tid, slept=120 + n, wakes=(101,), timeout=TIMEOUT)
    return scene


def test_one_publication_that_wakes_three_is_a_herd():
    found = only(herd(takers=1), Kind.HERD, WAITER, WAKER)
    assert "woke 3 on the_queue [mod] for one publication" in found.text
    assert "waiter-3" in found.text


def test_three_publications_that_wake_three_are_no_herd():
    silent(herd(takers=3, publications=3))


def test_one_call_for_two_publications_that_wakes_three_is_no_herd():
    silent(herd(takers=2, publications=2))


def test_news_that_all_take_home_are_no_herd():
    """A state that nobody takes: each of the woken leaves with it."""
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, slept=60, wakes=(101,), end=104)
    scene.wait(51, WAITER_2, slept=61, wakes=(101,), end=105)
    silent(scene)


# Woken but never ran.


def test_woken_thread_that_gets_no_cpu_never_ran():
    scene = Scene()
    scene.publish(100)
    scene.call(101)
    scene.wait(50, slept=60, wakes=(101,), ran=6_000_000, end=6_000_200)
    scene.take(6_000_300)
    found = only(scene, Kind.NEVER_RAN, WAITER, WAKER)
    assert "ran only 6000.0 ms later" in found.text


def test_woken_thread_that_gets_its_cpu_late_but_in_time_did_run():
    scene = Scene()
    scene.publish(100)
    scene.call(101)
    scene.wait(50, slept=60, wakes=(101,), ran=4_000_000, end=4_000_200)
    scene.take(4_000_300)
    silent(scene)


# Without marks, and doubts.


def test_without_marks_a_sleeper_that_was_passed_over_is_only_suspicious():
    scene = Scene()
    scene.wait(50, slept=60)
    scene.call(100)
    verdict = scene.verdict()
    assert verdict.findings == ()
    assert [(note.kind, note.tid, note.waker) for note in verdict.notes] == [
        (Kind.LOST, WAITER, WAKER)
    ]


def test_without_marks_a_call_that_woke_another_is_not_suspicious():
    scene = Scene()
    scene.call(100, sleepers=2)
    scene.wait(50, WAITER_2, slept=60, wakes=(100,), end=103)
    scene.wait(51, slept=61)
    assert scene.verdict().notes == ()


def test_without_marks_a_wake_in_vain_is_only_suspicious():
    scene = Scene()
    scene.call(100)
    scene.call(120)
    scene.wait(50, slept=110, wakes=(100, 120), end=124)
    verdict = scene.verdict()
    assert verdict.findings == ()
    assert [note.kind for note in verdict.notes] == [Kind.SPURIOUS]
    assert "slept again, once" in verdict.notes[0].text


def test_queue_on_which_takers_wake_producers_is_left_out():
    """Those wait for room, and do so although there is something to take."""
    scene = Scene()
    scene.publish(100)
    scene.wait(110, WAKER, slept=120, wakes=(), timeout=TIMEOUT, queue=OTHER)
    scene.take(TIMEOUT + 100)
    scene.call(TIMEOUT + 101, WAITER, queue=OTHER, sleepers=0)
    silent(scene)
    only(scene, Kind.LOST, WAKER, WAKER, queues=frozenset((OTHER,)))


def test_incomplete_recording_is_not_verified():
    scene = Scene()
    scene.call(100, sleepers=0)
    scene.seq[QUEUE] += 1
    scene.call(110, sleepers=0)
    assert scene.verdict().outcome is Outcome.NOT_VERIFIED
