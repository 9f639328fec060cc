# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The tracer and its verdict on classic wait bugs, and on healthy wake-ups."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from guest_support import NEEDS_TRACER

from kfabric.gallery import guest
from kfabric.gallery.check import Judged, examine
from kfabric.gallery.cut import Cut, FullRecording, Run
from kfabric.gallery.entries import BY_NAME, HEALTHY
from kfabric.verdict.ledger import build

# The first test waits for all plays, and for the tracer's compiler before them.
pytestmark = [pytest.mark.timeout(300), *NEEDS_TRACER]

ROUNDS = 997
"""More of them: make gallery."""


class Plays(dict[tuple[str, str], Judged]):
    """Plays by variant and name, each judged for its first test: for one test it is too much."""

    def __init__(self, cuts: dict[tuple[str, str], tuple[Run, Cut]]) -> None:
        super().__init__()
        self._cuts = cuts

    def __missing__(self, play: tuple[str, str]) -> Judged:
        run, cut = self._cuts.pop(play)
        self[play] = examine(run, cut, BY_NAME.get(run.name))
        return self[play]


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Plays:
    """All plays.

    Scope: module, since the tracer needs long to load, and sees all plays at once.
    """
    directory: Path = tmp_path_factory.mktemp("gallery")
    lines: list = []
    guest.run(directory, list(BY_NAME), HEALTHY, ROUNDS, lines.append)
    whole = FullRecording(directory)
    found = [Run.of(line) for line in lines if "variant" in line]
    return Plays({(run.variant, run.name): (run, whole.cut(run)) for run in found})


@pytest.mark.parametrize("name", BY_NAME)
def test_bug_is_named_with_its_waiter_and_its_waker(plays, name) -> None:
    """Its kind, both threads, and how it came about."""
    if not guest.is_bug(name):
        pytest.skip("this is no bug with PREEMPT_RT")
    assert plays["buggy", name].complaints == ()


@pytest.mark.parametrize("name", BY_NAME)
def test_repaired_bug_raises_no_alarm(plays, name) -> None:
    """The same interleaving, with the bug repaired."""
    if not guest.is_bug(name):
        pytest.skip("this is no bug with PREEMPT_RT")
    assert plays["fixed", name].complaints == ()


def test_signal_is_not_taken_for_an_unlock(plays) -> None:
    """It wakes the waiter past its lock, and no wake call is recorded."""
    sums = plays["buggy", "mutex-kept"].sums
    assert (sums["calls"], sums["wakes"]) == (0, 0)
    assert sums["foreign"] >= 1


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_wake_ups_raise_no_alarm(plays, name) -> None:
    """Unstepped, so with all the interleavings that come up."""
    judged = plays["healthy", name]
    assert judged.complaints == ()
    # Of the completions that were done before the sleep only the calls are told. How often
    # threads meet at a lock is left to chance.
    least = 1 if name == "locks" else ROUNDS // 2
    assert judged.sums["waits"] + judged.sums["calls"] >= least


def test_wake_that_is_interrupted_is_told_as_its_wakers(plays) -> None:
    """With PREEMPT_RT it may be, by one who wakes somebody else: they are told apart."""
    cut = plays["healthy", "interrupted"].cut
    assert cut is not None
    recording = cut.recording()
    foreign = [
        f"{recording.queues[queue.id]}: {json.dumps(asdict(wait.record), indent=1)}"
        for queue in build(recording).queues.values()
        for wait in queue.waits
        if wait.record.foreign
    ]
    assert not foreign, foreign[0]
