# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The recorder under load: nothing is lost, and what is lost is never passed over.

The load is tests/kmod/kbench: two kthreads on one CPU wake each other in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from guest_support import Mock

from kfabric.bench import figures
from kfabric.guest.wakeups import Block
from kfabric.probes.loader import Probe
from kfabric.recording.records import FClass, Losses
from kfabric.verdict.verdict import Outcome

Wakeups = Callable[..., Block]


def play(kbench: Path, rounds: int) -> float:
    """Play some rounds, of two waits each; waits a second."""
    began = time.monotonic()
    with kbench.open("r+b", buffering=0) as file:
        file.write(f"pingpong kfi batch {rounds} 0 0 -1".encode())
        told = figures.parse(file.read(4096).decode())
    assert not told["error"]
    return 2 * rounds / (time.monotonic() - began)


def waits_on_sets(rec: Block) -> int:
    """How many waits of the block have ended."""
    return sum(
        wait.finished
        for queue in rec.ledger.queues.values()
        if queue.fclass == FClass.WAIT
        for wait in queue.waits
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "rounds",
    [pytest.param(5_000, id="10^4"), pytest.param(50_000, id="10^5", marks=pytest.mark.stress)],
)
def test_burst_of_waits_is_recorded_whole(wakeups: Wakeups, kbench: Path, rounds: int) -> None:
    """F7: of a burst of waits, as fast as they can be, each one is recorded and judged."""
    with wakeups() as rec:
        play(kbench, rounds)
    assert rec.verdict.outcome is Outcome.VERIFIED, rec.verdict.line()
    assert waits_on_sets(rec) >= 2 * rounds


@pytest.mark.timeout(120)
def test_events_without_waits_are_no_load(wakeups: Wakeups, mock: Mock) -> None:
    """W9: on a counter on which nobody has ever waited, 10^5 events leave no record."""
    cntr = mock.counter()
    ep = mock.endpoint(cntr=cntr)
    with wakeups() as rec:
        mock.inject(ep, count=100_000, entry=0)
        cntr.wait(100_000, timeout=1)
        mock.inject(ep, entry=0)
    rec.verified()
    assert len(rec.ledger.queues[cntr.trace_id].signals) == 1


@pytest.mark.unwatched(reason="it makes a ring overflow")
@pytest.mark.timeout(120)
def test_ring_that_overflows_is_told(
    kbench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F7: a ring that is too small loses records, and counts them."""
    monkeypatch.setattr("kfabric.probes.loader._RING_PAGES", 16)
    with Probe() as probe:
        play(kbench, 2_000)
        losses = probe.counters().losses
    assert losses.ring > 1000
    assert losses == Losses(ring=losses.ring)
