# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A publisher that a test holds at a delay hook makes no fault; nothing else is excused."""

from __future__ import annotations

import pytest
from wait_scenes import QUEUE, SECOND, US, Scene

from kfabric.guest.held import without_held
from kfabric.guest.holds import Hold
from kfabric.recording.records import FClass, Recording, count
from kfabric.verdict.kinds import Kind, Verdict
from kfabric.verdict.ledger import build
from kfabric.verdict.verdict import judge

WHILE = 40 * US, 3 * SECOND * US


def judged(scene: Scene, hold: Hold) -> Verdict:
    """The verdict on a scene in which there was a hold."""
    ledger = build(
        Recording(tuple(scene.records), tallies=count(scene.records), t_stop=9 * SECOND * US)
    )
    return without_held(ledger, judge(ledger), [hold])


def at_its_deadline() -> Scene:
    """A reader finds an entry at its deadline; no event was seen."""
    scene = Scene(FClass.CQ, exclusive=True)
    scene.wait(40, slept=45, timer=SECOND, ret=1)
    return scene


@pytest.mark.parametrize("oid", [QUEUE, 0])
@pytest.mark.parametrize("end", [WHILE[1], 0])
def test_deadline_beside_a_held_publisher_is_not_judged(oid: int, end: int) -> None:
    """It becomes a note that says so, be the publisher released by now or not."""
    verdict = judged(at_its_deadline(), Hold("D3", oid, WHILE[0], end))
    assert verdict.findings == ()
    (note,) = verdict.notes
    assert note.kind is Kind.TIMEOUT_READY
    assert note.text.endswith("(not judged: a publisher was held at hook D3)")


@pytest.mark.parametrize(
    "hold",
    [
        Hold("D3", QUEUE + 1, *WHILE),
        Hold("D1", QUEUE, *WHILE),
        Hold("D3", QUEUE, 1, 39 * US),
        Hold("D3", QUEUE, 2 * SECOND * US, 3 * SECOND * US),
    ],
    ids=["other object", "other hook", "over before", "armed after"],
)
def test_other_holds_excuse_nothing(hold: Hold) -> None:
    """Another object, another hook, another time."""
    verdict = judged(at_its_deadline(), hold)
    assert [finding.kind for finding in verdict.findings] == [Kind.TIMEOUT_READY]


def test_lost_wake_up_is_a_fault_beside_a_hold() -> None:
    """Its event was announced, so the publisher was not held."""
    scene = Scene()
    scene.publish(50)
    scene.wait(40, slept=45)
    verdict = judged(scene, Hold("D3", QUEUE, *WHILE))
    assert [finding.kind for finding in verdict.findings] == [Kind.LOST]
