# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Random programs of calls, with fixed seeds, and those of the corpus; see docs/testing.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.fuzz.crew import Crew, Round, Stage, generated
from harness.fuzz.offers import offers
from harness.fuzz.program import Program
from harness.guest import topology
from harness.guest.checks import KernelWatch
from harness.guest.memleak import MemoryWatch
from harness.guest.modules import Modules

#: Not yet among the tests of every day: it has not been seen to pass on all kernels.
pytestmark = pytest.mark.stress

CORPUS = sorted((Path(__file__).parents[1] / "fuzz/corpus").glob("*.fuzz"))

PROCESSES, STEPS = 2, 2500


@pytest.fixture
def crew(modules: Modules, mock: object, verbs: topology.RdmaLink) -> Iterator[Crew]:
    """Processes that play. Depends on: modules, mock (whose commands it uses), verbs."""
    watch = KernelWatch()
    yield Crew(Stage(verbs.address, offers(verbs)), watch, MemoryWatch())
    watch.close()


def well(played: Round) -> None:
    """Nothing must have failed."""
    assert not played.failures, "\n\n".join(
        f"{failure.kind}: {failure.text}\nsuspects: {failure.suspects[:6]}"
        for failure in played.failures
    )


@pytest.mark.parametrize("seed", range(1, 5))
def test_random_calls_break_nothing(crew: Crew, seed: int) -> None:
    """O1, O3, O4, X1, X2: whatever calls are given, their answers are among the documented.

    Two processes with three threads each. Nothing hangs, nothing is left behind; of
    the calls most come as far as doing something.
    """
    lists = [generated(seed, process, STEPS // PROCESSES) for process in range(PROCESSES)]
    played = crew.play(lists)
    well(played)
    succeeded = sum(n for (_, code), n in played.totals.results.items() if code == 0)
    assert played.totals.calls > STEPS / 2 and succeeded > played.totals.calls / 4


def test_programs_of_the_corpus_break_nothing(crew: Crew) -> None:
    """X1, O1: what once failed does no more, and the programs reach every call."""
    programs = [(path.stem, Program.parse(path.read_text())) for path in CORPUS]
    played = crew.play([[pair for pair in programs for _ in range(1 + 4 * bool(pair[1].threads))]])
    well(played)
    # What no program reaches is not tested by it. These two no program does yet.
    assert set(played.totals.unreached()) <= {"PROFILE_READ", "PROFILE_EVENTS"}
