# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What profiles count is what the probes see from outside, in the same run."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from guest_support import LIMIT, Call, Mock, handler

import kfabric_py as kp
from kfabric.guest.wakeups import Block
from kfabric.recording.records import Why
from kfabric.verdict.findings import overtaken
from kfabric.verdict.kinds import Kind
from kfabric.verdict.ledger import Queue
from kfabric_py.profile import Profiled

InThread = Callable[[Callable[[], Any]], Call[Any]]
Wakeups = Callable[..., Block]
EINTR, ETIMEDOUT = -4, -110

# The first test compiles the probes.
pytestmark = pytest.mark.timeout(180)


def seen(rec: Block, number: int) -> dict[str, int]:
    """What the probes have seen of a queue, by the names of our variables."""
    queue = rec.ledger.queues.get(number, Queue(number))
    signals = [signal.record for signal in queue.every_signal()]
    returns = [wait.record.ret for wait in queue.waits]
    spurious = [f for f in rec.verdict.findings if f.kind is Kind.SPURIOUS and f.queue == number]
    return {
        "signals": sum(record.why != Why.HANDON for record in signals),
        "handed_on": sum(record.why == Why.HANDON for record in signals),
        "overruns": sum(record.why == Why.OVERRUN for record in signals),
        "wakes": len(queue.all_wakes()),
        "timeouts": returns.count(ETIMEDOUT),
        "interrupts": returns.count(EINTR),
        "overtaken": len(overtaken(queue)),
        "spurious": len(spurious),
    }


class Watched:
    """An object that is watched by its profile and by the probes."""

    def __init__(self, target: Profiled, rec: Block) -> None:
        self._target, self._rec = target, rec
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> None:
        self._profile = self._stack.enter_context(self._target.profile())
        self._before = self._profile.snapshot()
        self._stack.enter_context(self._rec)

    def __exit__(self, *_: object) -> None:
        self._rec.stop()
        self.after = self._profile.snapshot()
        self._stack.pop_all()
        self._profile.close()

    def counted(self, name: str) -> int:
        """By how much a variable has grown."""
        before, after = self._before[name], self.after[name]
        if isinstance(before, tuple) and isinstance(after, tuple):
            return sum(map(int, after)) - sum(map(int, before))  # type: ignore[arg-type]
        assert isinstance(before, int) and isinstance(after, int)
        return after - before

    def agree(self, **least: int) -> None:
        """Both have counted the same, and at least this much of these."""
        outside = seen(self._rec, self._target.trace_id)
        inside = {name: self.counted(name) for name in outside}
        # The end of another sleep (a futex) may run a thread for nothing: no wake, and only
        # the module sees it.
        foreign = inside["spurious"] - outside["spurious"]
        assert foreign >= 0 and inside == {**outside, "spurious": inside["spurious"]}
        for name, count in least.items():
            assert inside[name] >= count, (name, inside)
        told = inside["wakes"] - inside["spurious"]
        assert told <= self.counted("latency") <= inside["wakes"]


def test_wait_set_that_wakes(wakeups: Wakeups, mock: Mock, in_thread: InThread) -> None:
    """F7: three sleepers, events from each context; every one is woken by each."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    watched = Watched(wait_set, wakeups())
    with watched:
        for context in ("process", "softirq", "workqueue"):
            calls = [in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep() for _ in range(3)]
            mock.inject(ep, context=context)
            for call in calls:
                call.result()
            cq.read()
    watched.agree(signals=3, wakes=9)


def test_wait_set_overtaken(wakeups: Wakeups, mock: Mock, in_thread: InThread) -> None:
    """F7, W3: woken for what another thread has read: overtaken, and not spurious."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    hook = mock.hook("D3", cq)
    watched = Watched(wait_set, wakeups())
    with watched:
        calls = [in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep() for _ in range(2)]
        publisher = in_thread(lambda: mock.inject(ep))
        hook.stopped()
        assert cq.read()
        hook.go()
        for call in (publisher, *calls):
            call.result()
    watched.agree(signals=1, wakes=2, overtaken=2)


def test_wait_set_that_nothing_ends(wakeups: Wakeups, mock: Mock) -> None:
    """F7: deadlines and signals."""
    wait_set = mock.wait_set()
    mock.cq(wait_set=wait_set)
    main = threading.main_thread().ident
    assert main is not None
    watched = Watched(wait_set, wakeups())
    with watched:
        for _ in range(3):
            with pytest.raises(kp.KfiTimeout):
                wait_set.wait(timeout=0.02)
        with handler(signal.SIGUSR1, lambda: None, restart=False):
            timer = threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGUSR1))
            timer.start()
            # The library goes on after EINTR, to the same deadline.
            with pytest.raises(kp.KfiTimeout):
                wait_set.wait(timeout=1)
            timer.join()
    watched.agree(timeouts=4, interrupts=1)


@pytest.mark.wrong_wakeups("spurious", reason="a fault point makes it")
def test_spurious_wake(wakeups: Wakeups, mock: Mock, in_thread: InThread) -> None:
    """F7: woken with nothing published: both call it by its name."""
    if mock.state()["build"]["test"] != "1":
        pytest.skip("needs the modules' test-option build (KFABRIC_TEST=1)")
    wait_set = mock.wait_set()
    mock.cq(wait_set=wait_set)
    watched = Watched(wait_set, wakeups())
    with watched:
        call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
        mock.command("fault", "spurious", wait_set.trace_id)
        call.result()
    watched.agree(spurious=1, wakes=1)


def test_wake_handed_on(wakeups: Wakeups, mock: Mock, in_thread: InThread) -> None:
    """F7, Q3: one sleeper needs more than is left, and passes its wake-up on."""
    cq = mock.cq(threshold=True)
    ep = mock.endpoint(cq=cq)
    hook = mock.hook("D4", cq)
    watched = Watched(cq, wakeups())
    with watched:
        call = in_thread(lambda: cq.sread(8, threshold=2, timeout=LIMIT)).asleep()
        mock.inject(ep, count=2)
        hook.stopped()
        # One entry goes; the other is too little for it, and perhaps not for another.
        assert len(cq.read(1)) == 1
        hook.go()
        call.asleep()
        mock.inject(ep)
        assert len(call.result()) == 2
    outside = seen(watched._rec, cq.trace_id)
    inside = {name: watched.counted(name) for name in outside}
    # The probes call it overtaken only where a call returns with nothing.
    assert (inside.pop("overtaken"), inside["handed_on"]) == (1, 1)
    outside.pop("overtaken")
    assert inside == outside


def test_exclusive_set_passes_turns(wakeups: Wakeups, mock: Mock, in_thread: InThread) -> None:
    """F7, W3: wake-ups that are passed on are no publications."""
    wait_set = mock.wait_set()
    wait_set.exclusive = True
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)

    def one() -> list[kp.CqEntry]:
        wait_set.wait(timeout=LIMIT)
        return cq.read(1)

    hook = mock.hook("D3", cq)
    watched = Watched(wait_set, wakeups())
    with watched:
        calls = [in_thread(one).asleep() for _ in range(3)]
        publisher = in_thread(lambda: mock.inject(ep, count=3))
        hook.stopped()
        hook.go()
        for call in (publisher, *calls):
            call.result()
    watched.agree(signals=3, wakes=3)


def test_cq_of_its_own(wakeups: Wakeups, mock: Mock, in_thread: InThread) -> None:
    """F7: entries, errors, a signal call, an overrun."""
    cq = mock.cq(4)
    ep = mock.endpoint(cq=cq)
    watched = Watched(cq, wakeups())
    with watched:
        call = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
        mock.inject(ep, context="softirq")
        assert call.result()
        call = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
        cq.signal()
        assert not call.result()
        mock.inject(ep, err=5)
        with pytest.raises(kp.ErrorAvailable):
            cq.sread(1, timeout=LIMIT)
        assert cq.readerr()
        assert not cq.sread(1, timeout=0.02)
        mock.inject(ep, count=7)
    watched.agree(signals=10, wakes=2, overruns=3, timeouts=1)


def test_many_threads_and_many_events(wakeups: Wakeups, mock: Mock, in_thread: InThread) -> None:
    """F7: 997 events, four readers, from each context: not one apart."""
    wait_set = mock.wait_set()
    cq = mock.cq(1024, wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    total, left = 997, threading.Semaphore(997)

    def reader() -> int:
        count = 0
        while left.acquire(blocking=False):
            while not cq.read(1):
                wait_set.wait(timeout=LIMIT)
            count += 1
        return count

    watched = Watched(wait_set, wakeups())
    with watched:
        calls = [in_thread(reader) for _ in range(4)]
        for number in range(total):
            mock.inject(ep, context=("process", "softirq", "workqueue")[number % 3])
        assert sum(call.result() for call in calls) == total
    watched.agree(signals=total)
