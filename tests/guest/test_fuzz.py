# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Random programs of calls, with fixed seeds, and those of the corpus; see docs/tools.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kfabric.fuzz.failure import RunResult
from kfabric.fuzz.program import Program
from kfabric.fuzz.server import offers
from kfabric.fuzz.workers import Environment, WorkerPool, generated
from kfabric.guest import topology
from kfabric.guest.checks import KernelWatch
from kfabric.guest.memleak import MemoryWatch
from kfabric.guest.modules import Modules

CORPUS = {
    path.stem: Program.parse(path.read_text())
    for path in sorted((Path(__file__).parents[1] / "fuzz/corpus").glob("*.fuzz"))
}
#: A program whose threads race is played more often.
TIMES, RACES = 1, 5

#: The others show that a call can succeed, or what a client may do besides.
FAILED_ONCE = ("eq_error",)
PROCESSES, STEPS = 2, 2500


@pytest.fixture
def pool(modules: Modules, mock: object, verbs: topology.RdmaLink) -> Iterator[WorkerPool]:
    """Processes that play. Depends on: modules, mock (whose commands it uses), verbs."""
    watch = KernelWatch()
    yield WorkerPool(Environment(verbs.address, offers(verbs)), watch, MemoryWatch())
    watch.close()


def well(found: RunResult) -> None:
    """Nothing must have failed."""
    assert not found.failures, "\n\n".join(
        f"{failure.kind}: {failure.text}\nsuspects: {failure.suspects[:6]}"
        for failure in found.failures
    )


def played(pool: WorkerPool, programs: Mapping[str, Program]) -> RunResult:
    """Play these in one process, one after the other."""
    return pool.run(
        [
            [
                (name, program)
                for name, program in programs.items()
                for _ in range(RACES if program.threads else TIMES)
            ]
        ]
    )


def test_what_failed_once_fails_no_more(pool: WorkerPool) -> None:
    """X1, O1, V4: the programs of the corpus that a fault was found with.

    An error that leaves a read of an EQ as a positive number is one: the answer is written
    as if the read had succeeded.
    """
    well(played(pool, {name: CORPUS[name] for name in FAILED_ONCE}))


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(1, 5))
def test_random_calls_break_nothing(pool: WorkerPool, seed: int) -> None:
    """O1, O3, O4, X1, X2: whatever calls are given, their answers are among the documented.

    Two processes with three threads each. Nothing hangs, nothing is left behind; of
    the calls most come as far as doing something.
    """
    lists = [generated(seed, process, STEPS // PROCESSES) for process in range(PROCESSES)]
    found = pool.run(lists)
    well(found)
    succeeded = sum(n for (_, code), n in found.totals.results.items() if code == 0)
    assert found.totals.calls > STEPS / 2 and succeeded > found.totals.calls / 4


@pytest.mark.stress
def test_programs_of_the_corpus_break_nothing(pool: WorkerPool) -> None:
    """X1, O1: whatever they do is done well, and they reach every call."""
    found = played(pool, CORPUS)
    well(found)
    # What no program reaches is not tested by it.
    assert not found.totals.unreached()
