# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict on a model of the wait core: no findings without a bug, and the bug's with it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from wait_model import Bug, Model

from kfabric.recording.records import FClass
from kfabric.verdict.ledger import build
from kfabric.verdict.verdict import Kind, judge

RUNS = 120


def judged(fclass: FClass, bug: Bug, fault_share: float = 0.05) -> tuple[Counter[Kind], int]:
    """The findings of many runs, each with its own seed, and the number of waits."""
    found: Counter[Kind] = Counter()
    waits = 0
    for seed in range(RUNS):
        random = Random(seed)
        model = Model(random, fclass, bug, fault_share)
        verdict = judge(build(model.run(random.choice((1, 2, 3)), random.choice((1, 2)))))
        assert verdict.doubts == (), seed
        found.update(finding.kind for finding in verdict.findings)
        waits += verdict.matched
    return found, waits


@pytest.mark.parametrize("fclass", [FClass.CQ, FClass.WAIT])
@pytest.mark.parametrize("fault_share", [0.05, 0.4])
def test_a_right_core_has_no_findings(fclass: FClass, fault_share: float) -> None:
    """W2-W6, Q1-Q5: readers race, deadlines, signals, thresholds, calls that fault."""
    found, waits = judged(fclass, Bug.NONE, fault_share)
    assert not found
    assert waits > RUNS * 6


@pytest.mark.parametrize(
    ("bug", "fclass", "kind"),
    [
        (Bug.SWALLOWS, FClass.CQ, Kind.LOST),
        (Bug.SWALLOWS, FClass.WAIT, Kind.LOST),
        (Bug.SLEEPS_OFF_QUEUE, FClass.CQ, Kind.LOST),
        (Bug.SLEEPS_OFF_QUEUE, FClass.WAIT, Kind.LOST),
        (Bug.WAKES_FOR_OLD, FClass.CQ, Kind.SPURIOUS),
        (Bug.WAKES_FOR_OLD, FClass.WAIT, Kind.SPURIOUS),
        (Bug.DROPS_BATON, FClass.CQ, Kind.NOT_HANDED_ON),
    ],
)
def test_a_core_with_a_bug_has_its_finding(bug: Bug, fclass: FClass, kind: Kind) -> None:
    """V2, V4, W2, W3: the bug's finding is among the findings."""
    found, _ = judged(fclass, bug, fault_share=0.4)
    assert found[kind]
