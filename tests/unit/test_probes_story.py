# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The stories of findings, and the part of a recording around them."""

from __future__ import annotations

from dataclasses import replace
from errno import EINTR

import pytest
from queue_scenes import QUEUE, TIMEOUT, WAITER, WAKER_2, Scene
from report_support import TRACES, ledger_of, recording_of
from wait_scenes import change_wait

from kfabric.recording.records import (
    Context,
    FClass,
    MarkRecord,
    ObjectRecord,
    Recording,
    SignalRecord,
    StackRecord,
)
from kfabric.verdict import queues
from kfabric.verdict.kinds import Finding, Kind
from kfabric.verdict.ledger import Ledger, build
from kfabric.verdict.moments import moments
from kfabric.verdict.story import story, waits_of_finding
from kfabric.verdict.verdict import judge

SLEEPER, WAKER = 1, 2
FRAMES = {
    SLEEPER: ("kfi_waitq_sleep+0x7c [kfabric]", "kfi_wait+0x10 [kfabric]"),
    WAKER: ("kfi_publish+0x10d [kfabric]",),
}


def first(recording: Recording) -> tuple[Ledger, Finding]:
    """The ledger, and the first finding."""
    ledger = build(recording)
    return ledger, judge(ledger).findings[0]


def with_stacks(recording: Recording, *stacks: StackRecord) -> Recording:
    """The recording with stacks in it."""
    return replace(recording, records=(*recording.records, *stacks), stacks=FRAMES)


def test_story_of_a_lost_wake_up() -> None:
    """The sleeper and its place, the event and its context, the thread that it should wake."""
    stacks = (
        StackRecord(20, 40000, 101, sleeper=SLEEPER),
        StackRecord(20, 50000, 7, waker=WAKER),
    )
    assert story(*first(with_stacks(recording_of("lost"), *stacks))).splitlines()[1:] == [
        "      0.000 ms  thread ping/101 begins wait 2 on wait set 20",
        "      0.001 ms  thread ping/101 sleeps there",
        "      0.010 ms  publication 2 (event on CQ 21) by thread ksoftirqd/0/7 in softirq "
        "context, CPU 0: finds 1 asleep, wakes nobody; should have woken thread ping/101",
        "   2000.000 ms  thread ping/101 is woken by its own timer, at its deadline",
        "   2000.010 ms  thread ping/101 returns 0; something is ready",
        "  thread ping/101 slept in:",
        "    kfi_waitq_sleep+0x7c [kfabric]",
        "    kfi_wait+0x10 [kfabric]",
        "  thread ksoftirqd/0/7 published from:",
        "    kfi_publish+0x10d [kfabric]",
    ]


def test_story_of_a_wait_without_end() -> None:
    """It is still there when the recording ends."""
    text = story(*first(recording_of("lost-for-ever")))
    assert text.splitlines()[-1].endswith(
        "thread ping/101 is still in its wait; the recording ends"
    )


def test_story_of_a_herd_tells_of_each_who_was_woken() -> None:
    """The finding names one wait; the story has all that the event woke."""
    ledger, finding = first(recording_of("herd"))
    text = story(ledger, finding)
    for wait in waits_of_finding(ledger, finding):
        assert f"{ledger.thread_name(wait.record.tid)} is woken by" in text
    assert len(waits_of_finding(ledger, finding)) > 1


def test_two_stacks_of_one_wait_are_one() -> None:
    """The sleeper's and the waker's are recorded at different times."""
    stacks = (
        StackRecord(20, 40000, 101, waker=WAKER),
        StackRecord(20, 40000, 101, sleeper=SLEEPER),
    )
    text = story(*first(with_stacks(recording_of("lost"), *stacks)))
    assert "thread ping/101 slept in:" in text and "thread ping/101 was woken from:" in text


@pytest.mark.parametrize(
    "name", [path.stem for path in TRACES if judge(ledger_of(path.stem)).findings]
)
def test_every_finding_has_a_story(name: str) -> None:
    """It begins with the finding, has more lines, and is in order of time."""
    ledger, finding = first(recording_of(name))
    lines = story(ledger, finding).splitlines()
    assert lines[0] == str(finding)
    times = [float(line.split(" ms ")[0]) for line in lines[1:] if " ms  " in line]
    assert times == sorted(times)
    assert times or finding.kind in (Kind.ORDER, Kind.SPURIOUS)


def test_moments_keep_what_a_finding_is_about() -> None:
    """Its queue at its time; objects stay, and the part has the same finding."""
    recording = recording_of("lost")
    far = [replace(r, queue=99) for r in recording.records if isinstance(r, SignalRecord)]
    late = SignalRecord(20, 60_000_000_000, 3, source=21)
    whole = replace(recording, records=(*recording.records, *far, late), tallies={})
    ledger = build(whole)
    finding = judge(ledger).findings[0]
    part = moments(whole, ledger, [finding])
    assert late not in part.records and not set(far) & set(part.records)
    assert [r for r in part.records if isinstance(r, ObjectRecord)] == [
        r for r in recording.records if isinstance(r, ObjectRecord)
    ]
    again = build(part)
    assert again.doubts == ()
    assert [found.kind for found in judge(again).findings] == [finding.kind]


def test_doubtful_recording_is_kept_whole() -> None:
    """It is unknown which part of it is wrong."""
    recording = recording_of("unsure-gap")
    assert moments(recording, build(recording), []) is recording


def published_from(scene: Scene) -> tuple[Finding, list[str]]:
    """The finding of a scene whose marks have stacks, and its story."""
    marks = [replace(r, stack=WAKER) if isinstance(r, MarkRecord) else r for r in scene.records]
    scene.records = marks
    ledger = replace(scene.ledger(), stacks=FRAMES)
    (finding,) = queues.judge(ledger).findings
    return finding, story(ledger, finding).splitlines()


def test_story_of_a_publication_without_a_wake_call_has_its_stack() -> None:
    """The marked function's stack stands for the wake call's, and no other call is blamed."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.call(70, tid=WAKER_2, sleepers=1)
    scene.publish(100)
    finding, lines = published_from(scene)
    assert finding.published == 100_000
    assert lines[3] == (
        "      0.050 ms  thread waker/21 in process context, CPU 0, enters kfi_publish, the marked "
        "function that publishes"
    )
    assert lines[-2:] == ["  thread waker/21 published from:", "    kfi_publish+0x10d [kfabric]"]
    assert not any("waker-2" in line for line in lines)


def test_story_of_a_wake_call_that_came_too_early_has_the_publication_and_its_stack() -> None:
    """A call that finds no sleeper is recorded without a stack."""
    scene = Scene()
    scene.publish(100)
    scene.call(101, sleepers=0)
    scene.wait(140, slept=150, timeout=TIMEOUT)
    _, lines = published_from(scene)
    assert "enters kfi_publish, the marked" in lines[1] and "publication 1" in lines[2]
    assert lines[-2:] == ["  thread waker/21 published from:", "    kfi_publish+0x10d [kfabric]"]


def test_story_names_no_function_without_its_stack() -> None:
    """Stacks can be left out of a trace."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100, end=102)
    text = story(scene.ledger(), scene.verdict().findings[0])
    assert "enters the marked function that publishes" in text
    assert "returns from the marked function" in text


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ({}, "is woken by its own timer, at its deadline"),
        ({"ret": 0}, "is woken past its queue by thread 0 in softirq context"),
        ({"ret": -EINTR}, "is woken by a signal, sent by thread 0 in softirq context"),
        ({"fclass": FClass.CQ}, "is woken past its queue by thread 0 in softirq context"),
        (
            {"fclass": FClass.CQ, "foreign_context": Context.HARDIRQ, "ret": 1},
            "is woken by its own timer, at its deadline",
        ),
        (
            {"fclass": FClass.CQ, "foreign_context": Context.HARDIRQ, "ret": -EINTR},
            "is woken by a signal, sent by thread 0 in hard interrupt context",
        ),
    ],
)
def test_story_names_the_own_timer_only_where_it_is_known(change: dict[str, int], how: str) -> None:
    """Another thing may wake a thread in an interrupt, too."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    change_wait(scene.records, 0, **change)
    finding = Finding(Kind.LOST, QUEUE, "", WAITER, 1)
    assert f"thread waiter/11 {how}" in story(scene.ledger(), finding)
