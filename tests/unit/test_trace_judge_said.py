# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the line of a verdict on plain wait queues says was judged, and what was not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from queue_scenes import OTHER, TIMEOUT, WAITER, WAITER_2, Scene

from kfabric.recording.records import MarkRecord
from kfabric.verdict.kinds import Finding, Kind, Outcome, Verdict
from kfabric.verdict.queues import judge


def marked(scene: Scene, **calls: int) -> Verdict:
    """The verdict on a scene whose recording knows how often each mark was called."""
    return judge(replace(scene.ledger(), marked=calls))


def test_without_marks_nothing_is_verified() -> None:
    """No one said what the sleepers wait for; what is odd is counted."""
    scene = Scene()
    scene.call(100)
    scene.wait(50, slept=60, wakes=(100,), end=105)
    scene.wait(200, slept=210, timeout=TIMEOUT)
    scene.wait(300, WAITER_2, slept=310)
    verdict = scene.verdict()
    assert verdict.outcome is Outcome.NOT_JUDGED
    assert verdict.line() == (
        "NOT JUDGED: 3 waits traced, nothing says what they waited for; "
        "1 ended by a timer, 1 never ended"
    )


def test_single_wait_is_no_plural() -> None:
    """In each line about the number of waits."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    assert scene.verdict().line() == (
        "NOT JUDGED: 1 wait traced, nothing says what it waited for; 1 ended by a timer"
    )
    lines = [Verdict((), (), matched=number).line() for number in (1, 2)]
    assert lines == [
        "VERIFIED: 1 wait, ended by the completion it waited for",
        "VERIFIED: 2 waits, each ended by the completion it waited for",
    ]


def test_nothing_recorded_is_not_verified() -> None:
    """A module that sleeps where the tracer does not look has no wait to judge."""
    verdict = Scene().verdict()
    assert verdict.outcome is Outcome.NOT_JUDGED
    assert verdict.line() == "NOT JUDGED: no wait was recorded"


def test_publications_that_nothing_waited_for_are_counted() -> None:
    """The thread that should have got them may have slept before the trace began."""
    unseen = "a thread that slept before the trace began is not seen"
    scene = Scene()
    for count, times in ((1, "1 time"), (2, "2 times")):
        scene.publish(100 * count, end=100 * count + 5)
        assert scene.verdict().line() == (
            f"NOT JUDGED: no wait was recorded, though a marked function was called {times}; "
            f"{unseen}"
        )


def test_publications_that_nothing_waited_for_have_their_functions() -> None:
    """If their stacks were recorded."""
    scene = Scene()
    scene.publish(100)
    scene.publish(200)
    scene.records = [
        replace(record, stack=number)
        for number, record in enumerate(scene.records, 1)
        if isinstance(record, MarkRecord)
    ]
    stacks = {1: ("belt_push+0x5 [belt]",), 2: ("belt_fill+0x5 [belt]",)}
    line = judge(replace(scene.ledger(), stacks=stacks)).line()
    assert "though belt_fill, belt_push were called 2 times; " in line


def test_waits_that_were_not_judged_have_their_reasons() -> None:
    """Judged are those on the queues of the marks, if they ended.

    The publisher woke a thread on the other queue, too, but had published nothing by then.
    """
    scene = Scene()
    scene.call(101)
    scene.wait(50, slept=60, wakes=(101,), end=105)
    scene.publish(100)
    scene.take(103)
    scene.wait(200, slept=210)
    scene.call(20, queue=OTHER)
    scene.wait(10, WAITER_2, slept=15, wakes=(20,), end=25, queue=OTHER)
    verdict = scene.verdict()
    assert verdict.outcome is Outcome.VERIFIED
    assert verdict.line() == (
        "VERIFIED: 1 of 3 waits judged; not judged: "
        "1 still open at the end, 1 on queues that no marked function concerns"
    )


def test_judged_wait_that_no_publication_ended_is_counted_apart() -> None:
    """Nothing was there when its time was over, or before it slept; that is right."""
    scene = Scene()
    scene.call(101)
    scene.wait(50, slept=60, wakes=(101,), end=105)
    scene.publish(100)
    scene.take(103)
    scene.wait(200, slept=210, timeout=TIMEOUT)
    scene.wait(20, end=30)
    alone = "1 ended by a limit or a signal, with nothing ready"
    assert scene.verdict().line() == (
        f"VERIFIED: 3 waits: 1 ended by the publication it waited for, {alone}, 1 without a sleep"
    )
    scene.wait(300, slept=310)
    assert scene.verdict().line() == (
        f"VERIFIED: 3 of 4 waits judged, {alone}; not judged: 1 still open at the end"
    )


OUTER = "in read_box, which may have taken its item before the sleep (mark the inner function "
OUTER += "that takes, and not the one that sleeps)"


@pytest.mark.parametrize(
    ("timeout", "end"), [(0, "open at the end"), (TIMEOUT, "ended by a limit or a signal")]
)
def test_sleep_within_a_function_that_takes_is_not_judged_after_a_publication(
    timeout: int, end: str
) -> None:
    """The function may have taken the item before, and the line says what to mark instead."""
    scene = Scene()
    scene.take(40, end=timeout + 9 if timeout else 0)
    scene.publish(50, end=52)
    scene.call(51, sleepers=0)
    scene.wait(45, slept=60, timeout=timeout)
    scene.records = [
        replace(record, stack=1)
        if isinstance(record, MarkRecord) and record.tid == WAITER
        else record
        for record in scene.records
    ]
    verdict = judge(replace(scene.ledger(), stacks={1: ("read_box+0x5 [box]",)}))
    assert verdict.line() == f"NOT JUDGED: 1 wait traced, {end} {OUTER}"


def test_sleep_within_a_function_that_takes_is_lost_if_its_item_comes_later() -> None:
    """While its thread sleeps, it takes nothing."""
    scene = Scene()
    scene.take(40)
    scene.wait(45, slept=60)
    scene.publish(100, end=105)
    assert [finding.kind for finding in scene.verdict().findings] == [Kind.LOST]


def test_sleep_within_a_function_that_takes_is_open_if_nothing_was_published() -> None:
    """Or if another call has taken all of it."""
    scene = Scene()
    scene.publish(20, end=21)
    scene.take(22, end=23)
    scene.take(40)
    scene.wait(45, slept=60)
    assert scene.verdict().line() == "NOT JUDGED: 1 wait traced, still open at the end"


def test_marks_without_a_publication_prove_nothing() -> None:
    """Each wake-up looks unfounded then, and each sleep."""
    scene = Scene()
    scene.call(100)
    scene.call(120)
    scene.wait(50, slept=110, wakes=(100, 120), end=124)
    verdict = marked(scene, publish=0, take=0)
    assert verdict.outcome is Outcome.NOT_VERIFIED
    assert verdict.line() == "NOT VERIFIED: publish, which was marked, was never called"


def test_marked_function_that_was_never_called_is_told() -> None:
    """Everything else was right."""
    scene = Scene()
    scene.call(101)
    scene.wait(50, slept=60, wakes=(101,), end=105)
    scene.publish(100)
    scene.take(103)
    assert marked(scene, publish=1, take=1).outcome is Outcome.VERIFIED
    verdict = marked(scene, publish=1, take=1, flush=0)
    assert verdict.outcome is Outcome.NOT_VERIFIED
    assert verdict.lines() == ["NOT VERIFIED: flush, which was marked, was never called"]


def test_fault_is_told_though_a_mark_was_never_called() -> None:
    """A lost wake-up may be the reason why nothing was taken."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=TIMEOUT)
    scene.publish(100)
    verdict = marked(scene, publish=1, take=0)
    assert [(finding.kind, finding.tid) for finding in verdict.findings] == [(Kind.LOST, WAITER)]
    assert verdict.outcome is Outcome.FAULT


@pytest.mark.parametrize(("most", "said"), [(1, "... and 1 more finding"), (2, "LOST")])
def test_long_lists_of_faults_end_with_their_number(most: int, said: str) -> None:
    """Each fault has a line of its own."""
    faults = (Finding(Kind.LOST, 1, "one"), Finding(Kind.LOST, 1, "two"))
    lines = Verdict(faults, (), matched=0).lines(most)
    assert len(lines) == 2 and lines[-1].startswith(said)


@pytest.mark.parametrize("functions", [("push", "push"), ("push", "credit")])
def test_finding_with_two_publishing_functions_has_a_condition(functions: tuple[str, str]) -> None:
    """Nothing says whether the items of two functions are of one kind."""
    scene = Scene()
    scene.publish(100)
    scene.publish(200)
    scene.wait(50, slept=60, timeout=TIMEOUT)
    marks = [record for record in scene.records if isinstance(record, MarkRecord)]
    scene.records[:2] = [replace(mark, stack=number) for number, mark in enumerate(marks)]
    stacks = {number: (f"{name}+0x6 [mod]",) for number, name in enumerate(functions)}
    line = judge(replace(scene.ledger(), stacks=stacks)).line()
    condition = "; this holds if credit and push publish items of one kind"
    assert line.startswith("LOST")
    assert line.endswith(condition) is (len({*functions}) == 2)
