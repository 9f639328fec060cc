# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict on plain wait queues: threads that were woken in vain, or never ran.

Also the notes without marks, the choice of queues, and recordings with gaps.
"""

from __future__ import annotations

from queue_scenes import (
    OTHER,
    QUEUE,
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

from kfabric.verdict.kinds import Kind, Outcome
from kfabric.verdict.queues import judge

# Spurious.


def test_wake_with_nothing_published_is_spurious() -> None:
    scene = Scene()
    scene.call(100)
    scene.wait(50, slept=110, wakes=(100,), timeout=TIMEOUT)
    found = only(scene, Kind.SPURIOUS, WAITER, WAKER, marked=True)
    assert "which had published nothing" in found.text


def test_spurious_wake_of_a_wait_from_before_the_recording_is_not_judged() -> None:
    """Its publication may not have been recorded."""
    scene = Scene()
    scene.call(100)
    scene.wait(50, slept=110, wakes=(100,), timeout=TIMEOUT)
    silent(scene, marked=True, since=55_000)
    only(scene, Kind.SPURIOUS, WAITER, WAKER, marked=True, since=50_000)


def test_wake_that_finds_its_waiter_awake_is_not_spurious() -> None:
    """It cost no thread any sleep."""
    scene = Scene()
    scene.call(100)
    scene.wait(90, slept=130, wakes=(100,), ran=0, timeout=TIMEOUT)
    silent(scene, marked=True)


def test_wake_of_somebody_unknown_is_not_spurious() -> None:
    """Whether it slept again is not known."""
    scene = Scene()
    scene.call(100)
    scene.stray(100, WAITER)
    silent(scene, marked=True)


def test_wake_call_of_a_waiter_is_not_spurious() -> None:
    """It may hand on what it was woken for, though not what it published."""
    scene = Scene()
    scene.wait(10, slept=20, timeout=50)
    scene.call(100, WAITER)
    scene.wait(60, WAITER_2, slept=110, wakes=(100,), timeout=TIMEOUT)
    silent(scene, marked=True)


def test_second_call_for_what_is_still_there_is_neither_spurious_nor_overtaken() -> None:
    """There was something to be had, though nothing new."""
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.call(102)
    scene.wait(50, slept=60, wakes=(101,), ran=15, end=119)
    scene.take(120)
    scene.wait(51, WAITER_2, slept=140, wakes=(102,), ran=30, timeout=TIMEOUT)
    silent(scene)
    assert scene.verdict().notes == ()


def test_waiter_that_leaves_for_another_reason_was_not_overtaken() -> None:
    """It did not look in vain: it got what it wanted."""
    scene = Scene()
    scene.publish(100)
    scene.take(101, WAITER_2)
    scene.call(102)
    scene.wait(50, slept=60, wakes=(102,), end=105)
    silent(scene)
    assert scene.verdict().notes == ()


def test_wake_with_nothing_published_that_finds_something_is_not_spurious() -> None:
    """Published between call and look: no harm was done."""
    scene = Scene()
    scene.call(100)
    scene.publish(101, WAKER_2)
    scene.take(105)
    scene.wait(50, slept=110, wakes=(100,), timeout=TIMEOUT)
    silent(scene)


def test_wake_for_what_another_thread_took_meanwhile_is_overtaken() -> None:
    scene = Scene()
    scene.publish(100)
    scene.take(101, WAITER_2)
    scene.call(102)
    scene.wait(50, slept=110, wakes=(102,), timeout=TIMEOUT)
    silent(scene)
    assert [note.kind for note in scene.verdict().notes] == [Kind.OVERTAKEN]
    assert scene.verdict().overtaken == 1


def test_slow_wake_call_after_that_of_another_publisher_is_not_spurious() -> None:
    """Each publisher has a publication before its call, though the first call woke for both."""
    scene = Scene()
    scene.publish(100)
    scene.publish(101, WAKER_2)
    scene.call(102)
    scene.take(105)
    scene.take(106)
    scene.call(120, WAKER_2)
    scene.wait(50, slept=115, wakes=(102, 120), timeout=TIMEOUT)
    silent(scene)


def test_wake_call_of_a_stand_in_is_not_spurious() -> None:
    """A work item wakes for what a thread published."""
    scene = Scene()
    scene.publish(100)
    scene.take(101, WAITER_2)
    scene.call(130, WAKER_2)
    scene.wait(50, slept=140, wakes=(130,), timeout=TIMEOUT)
    silent(scene)


def test_wake_that_ends_the_wait_for_another_reason_is_not_spurious() -> None:
    """A waiter that leaves got what it wanted, whatever that was."""
    scene = Scene()
    scene.call(100)
    scene.wait(50, slept=60, wakes=(100,), end=103)
    silent(scene, marked=True)


# Herd.


def test_wake_of_one_who_has_no_use_for_what_is_there_is_not_overtaken() -> None:
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


def test_one_publication_that_wakes_three_is_a_herd() -> None:
    found = only(herd(takers=1), Kind.HERD, WAITER, WAKER)
    assert "woke 3 on the_queue [mod] for one publication" in found.text
    assert "waiter-3" in found.text


def test_loser_of_a_herd_is_not_told_as_overtaken_besides() -> None:
    """The call has a finding already: nothing was left because of the herd."""
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, slept=60, wakes=(101,), end=104)
    scene.take(105)
    scene.wait(51, WAITER_2, slept=120, wakes=(101,), ran=9, timeout=TIMEOUT)
    only(scene, Kind.HERD, WAITER, WAKER)
    assert scene.verdict().notes == ()


def test_wake_of_three_for_two_publications_of_which_another_takes_one_is_no_herd() -> None:
    scene = herd(takers=1, publications=2)
    scene.take(103, WAKER_2)
    silent(scene)


def test_wake_of_three_of_which_two_find_something_is_no_herd() -> None:
    """The second is for what another has published, which did not wake yet."""
    scene = herd(takers=2)
    scene.publish(100, WAKER_2)
    silent(scene)


def test_three_publications_that_wake_three_are_no_herd() -> None:
    silent(herd(takers=3, publications=3))


def test_one_call_for_two_publications_that_wakes_three_is_no_herd() -> None:
    silent(herd(takers=2, publications=2))


def test_news_that_all_take_home_are_no_herd() -> None:
    """A state that no thread takes: each woken thread leaves with it."""
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=2)
    scene.wait(50, slept=60, wakes=(101,), end=104)
    scene.wait(51, WAITER_2, slept=61, wakes=(101,), end=105)
    silent(scene)


# Woken but never ran.


def test_woken_thread_that_gets_no_cpu_never_ran() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101)
    scene.wait(50, slept=60, wakes=(101,), ran=6_000_000, end=6_000_200)
    scene.take(6_000_300)
    found = only(scene, Kind.NEVER_RAN, WAITER, WAKER)
    assert "ran only 6000.0 ms later" in found.text


def test_woken_thread_that_gets_its_cpu_late_but_in_time_did_run() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101)
    scene.wait(50, slept=60, wakes=(101,), ran=4_000_000, end=4_000_200)
    scene.take(4_000_300)
    silent(scene)


def test_woken_thread_that_still_has_no_cpu_never_ran() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101)
    scene.wait(50, slept=60, wakes=(101,), ran=0)
    scene.take(120, WAITER_2)
    found = only(scene, Kind.NEVER_RAN, WAITER, WAKER)
    assert "has been on no CPU for 8999.9 ms" in found.text


def test_woken_thread_that_was_not_seen_to_run_but_has_left_did_run() -> None:
    scene = Scene()
    scene.publish(100)
    scene.call(101)
    scene.wait(50, slept=60, wakes=(101,), ran=0, end=105)
    scene.take(106)
    silent(scene)


def test_thread_that_was_awake_when_it_was_woken_did_run() -> None:
    """It got its CPU late because it slept in between."""
    scene = Scene()
    scene.call(101)
    scene.wait(90, slept=130, wakes=(101,), ran=6_000_000, timeout=6_000_100)
    silent(scene)


# Without marks, and doubts.


def test_without_marks_a_sleeper_that_was_passed_over_is_only_suspicious() -> None:
    scene = Scene()
    scene.wait(50, slept=60)
    scene.call(100)
    verdict = scene.verdict()
    assert verdict.findings == ()
    assert [(note.kind, note.tid, note.waker) for note in verdict.notes] == [
        (Kind.LOST, WAITER, WAKER)
    ]


def test_without_marks_a_call_that_woke_another_is_not_suspicious() -> None:
    scene = Scene()
    scene.call(100, sleepers=2)
    scene.wait(50, WAITER_2, slept=60, wakes=(100,), end=103)
    scene.wait(51, slept=61)
    assert scene.verdict().notes == ()


def test_without_marks_only_a_call_beside_a_sleeper_is_suspicious() -> None:
    """No call from before its sleep, and none that found no sleeper."""
    scene = Scene()
    scene.call(40)
    scene.wait(50, slept=60)
    scene.call(100, sleepers=0)
    assert scene.verdict().notes == ()


def test_without_marks_a_sleeper_that_was_passed_over_and_has_left_is_not_suspicious() -> None:
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.call(100)
    assert scene.verdict().notes == ()


def test_without_marks_a_wake_that_finds_its_waiter_awake_is_not_suspicious() -> None:
    scene = Scene()
    scene.call(100)
    scene.wait(90, slept=130, wakes=(100,), ran=0, timeout=TIMEOUT)
    assert scene.verdict().notes == ()


def test_without_marks_waits_from_before_the_recording_are_not_suspicious() -> None:
    scene = Scene()
    scene.wait(50, slept=60)
    scene.call(100)
    assert scene.verdict(since=55_000).notes == ()
    assert scene.verdict(since=50_000).notes != ()


def test_without_marks_a_wake_in_vain_is_only_suspicious() -> None:
    scene = Scene()
    scene.call(100)
    scene.call(120)
    scene.wait(50, slept=110, wakes=(100, 120), end=124)
    verdict = scene.verdict()
    assert verdict.findings == ()
    assert [note.kind for note in verdict.notes] == [Kind.SPURIOUS]
    assert "slept again, once" in verdict.notes[0].text


def test_queue_on_which_takers_wake_producers_is_left_out() -> None:
    """Those wait for room, and do so although there is something to take."""
    scene = Scene()
    scene.publish(100)
    scene.wait(110, WAKER, slept=120, wakes=(), timeout=TIMEOUT, queue=OTHER)
    scene.take(TIMEOUT + 100)
    scene.call(TIMEOUT + 101, WAITER, queue=OTHER, sleepers=0)
    silent(scene)
    only(scene, Kind.LOST, WAKER, WAKER, queues=frozenset((OTHER,)))


def test_queue_on_which_takers_hand_on_to_others_is_judged() -> None:
    """Only takers wake on it, but one of them waits there itself."""
    scene = Scene()
    scene.publish(10)
    scene.take(20)
    scene.call(21, WAITER, sleepers=0)
    scene.wait(30, slept=40, timeout=TIMEOUT)
    scene.wait(31, WAITER_2, slept=41, timeout=TIMEOUT)
    scene.publish(100)
    only(scene, Kind.LOST, WAITER, WAKER)


def test_queue_on_which_takers_and_others_wake_is_judged() -> None:
    scene = Scene()
    scene.publish(10)
    scene.take(20)
    scene.call(21, WAITER, sleepers=0)
    scene.wait(50, WAITER_2, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    scene.call(101)
    only(scene, Kind.LOST, WAITER_2, WAKER)


def test_marks_in_the_recording_are_enough_to_judge_it() -> None:
    """A recording that is only opened has no rules."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    assert [finding.kind for finding in judge(scene.ledger()).findings] == [Kind.LOST]


def test_incomplete_recording_is_not_verified() -> None:
    scene = Scene()
    scene.call(100, sleepers=0)
    scene.seq[QUEUE] += 1
    scene.call(110, sleepers=0)
    assert scene.verdict().outcome is Outcome.NOT_VERIFIED
