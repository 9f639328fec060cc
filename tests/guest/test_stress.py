# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Two pinned threads wake each other in turn, very often: no wake-up is lost.

A thread that is not woken for what the other one sent brings the game to a standstill
until its wait reaches its limit, and that is what is looked for: such a wait looks once
more at its end, and returns as if it had been woken. In the kernel tests/kmod/kbench
plays; it is also what "make bench" measures. Long games are played in parts: a guest
from which nothing is heard for minutes is taken for a dead one.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from guest_support import LIMIT, Call, Mock

from kfabric.bench import figures

pytestmark = pytest.mark.guest

CPUS = (0, 1)


SPIN = "while :; do :; done"


@pytest.fixture(scope="module", autouse=True)
def busy_cpus() -> Iterator[None]:
    """Keep the CPUs from sleeping, with programs that give way to everything else.

    A wake-up of a CPU that sleeps takes the host up to 4 ms.
    """
    spinners = [
        subprocess.Popen(["chrt", "--idle", "0", "taskset", "-c", str(cpu), "sh", "-c", SPIN])
        for cpu in CPUS
    ]
    yield
    for spinner in spinners:
        spinner.kill()
        spinner.wait(LIMIT)


def play_in_kernel(kbench: Path, rounds: int) -> None:
    """Let two kthreads play; the module watches that they go on."""
    line = f"pingpong kfi normal {rounds} {CPUS[0]} {CPUS[1]} -1"
    with kbench.open("r+b", buffering=0) as file:
        file.write(line.encode())
        told = figures.parse(file.read(4096).decode())
    assert not figures.faults([figures.Sample(line, told)])
    # Else nobody had to be woken, and nothing was tried.
    assert told["slept"] > rounds / 2


def test_kthreads_wake_each_other(kbench: Path) -> None:
    """W2, B07: of some thousand wake-ups between two kthreads none is lost."""
    play_in_kernel(kbench, 5000)


@pytest.mark.stress
@pytest.mark.parametrize("part", range(100))
def test_kthreads_wake_each_other_a_million_times(kbench: Path, part: int) -> None:
    """W2, B07: of 10^6 round trips between two kthreads no wake-up is lost."""
    play_in_kernel(kbench, 10_000)


class Side:
    """One of two threads of a program: a counter in a wait set of its own."""

    def __init__(self, mock: Mock) -> None:
        """Open them; they are closed with the provider's domain."""
        self.inbox = mock.wait_set()
        self.counter = mock.counter(wait_set=self.inbox)

    def receive(self, number: int, limit: float = LIMIT) -> None:
        """Wait until the other side has sent that many, and be woken for it.

        A wake-up may be for the number before: this side may have read it when it was stored
        and not announced yet (V5).
        """
        end, got = time.monotonic() + limit, number - 1
        while got < number:
            self.inbox.wait(max(0.0, end - time.monotonic()))
            assert time.monotonic() < end, "it reached its limit, and there was something to read"
            got = self.counter.readerr()
        assert got == number


def play(me: Side, other: Side, rounds: int, cpu: int, start: threading.Barrier) -> None:
    """Take turns: the side on the first CPU begins."""
    os.sched_setaffinity(0, [cpu])
    start.wait(LIMIT)
    for number in range(1, rounds + 1):
        if cpu == CPUS[0]:
            other.counter.adderr(1)
            me.receive(number)
        else:
            me.receive(number)
            other.counter.adderr(1)


def play_in_program(mock: Mock, rounds: int) -> None:
    """Let two threads of this program play."""
    sides = Side(mock), Side(mock)
    start = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        games = [
            pool.submit(play, sides[i], sides[1 - i], rounds, CPUS[i], start) for i in range(2)
        ]
    # The side that was woken too late ends first, and the other one then waits in vain.
    assert [game.exception() for game in games] == [None, None]


def test_threads_wake_each_other(mock: Mock) -> None:
    """W2, B07: the same through /dev/kfabric, a thousand times."""
    play_in_program(mock, 1000)


@pytest.mark.wrong_wakeups("lost", reason="a fault point makes it")
def test_a_missed_wakeup_is_noticed(mock: Mock) -> None:
    """W2: the game of the other tests fails if one wake-up is left out."""
    side = Side(mock)
    game = Call(lambda: side.receive(1, limit=1.0)).asleep()
    mock.command("fault", "lost", side.inbox.trace_id)
    side.counter.adderr(1)
    with pytest.raises(AssertionError, match="reached its limit"):
        game.result()


@pytest.mark.stress
@pytest.mark.parametrize("part", range(100))
def test_threads_wake_each_other_for_long(mock: Mock, part: int) -> None:
    """W2, B07: the same through /dev/kfabric, 10^5 times."""
    play_in_program(mock, 1000)
