# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A model of the wait core, step by step and in chance order, that leaves recordings.

Each thread is a generator; other threads may run between any two of its steps. The
model's faults on purpose are in :class:`Bug`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Any

from kfabric.recording.records import (
    EXCLUSIVE,
    Context,
    FClass,
    KernelView,
    Record,
    Recording,
    SignalRecord,
    WaitRecord,
    WakeRecord,
    Why,
    count,
)

QUEUE, FIRST_READER, PUBLISHER = 20, 101, 7
_TICKS = (300, 1000, 2000, 5000, 20_000, 200_000)
_LIMITS = (10_000, 300_000, 3_000_000, 30_000_000, 1_000_000_000)
_NOTHING: dict[str, int] = {"t_wake": 0, "t_waking": 0, "t_running": 0, "seq": 0, "why": 0}

Steps = Iterator[None]
Sleep = Generator[None, None, int]


class Bug(Enum):
    """The possible faults of a wait core."""

    NONE = auto()
    SWALLOWS = auto()  # a signal wakes no thread
    DROPS_BATON = auto()  # a thread that leaves without an entry wakes no other
    WAKES_FOR_OLD = auto()  # also threads that have looked after the publication
    SLEEPS_OFF_QUEUE = auto()  # does not enqueue


@dataclass
class Waiter:
    """One blocking call."""

    tid: int
    need: int
    limit: int
    since: int
    exclusive: bool
    fields: dict[str, int]
    why: int = 0
    seen: int = 0
    state: str = "running"
    interrupted: bool = False


@dataclass
class Model:
    """One queue, with publishers, sleepers and a reader that never sleeps."""

    random: Random
    fclass: FClass
    bug: Bug = Bug.NONE
    fault_share: float = 0.05
    t: int = 1000
    fill: int = 0
    publications: int = 0
    signalled: int = 0
    queue: list[Waiter] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    @property
    def is_set(self) -> bool:
        """Objects whose sleepers read nothing in their calls, and are woken all at once."""
        return self.fclass is FClass.WAIT

    def run(self, sleepers: int, publishers: int) -> Recording:
        """Let all of them do their work, in an order of chance."""
        going = [self._sleeper(FIRST_READER + n) for n in range(sleepers)]
        going += [self._publisher() for _ in range(publishers)] + [self._reader()]
        while going:
            steps = self.random.choice(going)
            self.t += self.random.choice((100, 300, 1000))
            if self.random.random() < 0.0005:
                self.t += self.random.choice((1_000_000, 100_000_000))
            if next(steps, self) is self:
                going.remove(steps)
        return Recording(
            tuple(self.records),
            tallies=count(self.records),
            t_stop=self.t + 1_000_000_000,
            kernel=KernelView(),
        )

    def _tick(self) -> int:
        self.t += self.random.choice(_TICKS)
        return self.t

    def _idle(self, most: int) -> Steps:
        for _ in range(self.random.randrange(most)):
            yield

    def _publisher(self) -> Steps:
        for _ in range(10):
            yield from self._idle(8)
            call = not self.is_set and self.random.random() < 0.1
            self.fill += not call
            have = self.fill
            yield
            self.publications = seq = self.publications + 1
            if call:
                self.signalled = seq
            yield
            self._signal(seq, have, Why.SIGNAL if call else Why.EVENT, PUBLISHER)

    def _reader(self) -> Steps:
        for _ in range(8):
            yield from self._idle(12)
            self.fill -= self.fill > 0

    def _signal(self, seq: int, have: int, why: Why, waker: int) -> None:
        context = Context.PROCESS if why is Why.HANDON else Context.SOFTIRQ
        values: dict[str, Any] = {"waker": waker, "context": context, "why": why}
        self.records.append(
            SignalRecord(
                QUEUE,
                self._tick(),
                seq,
                have=have,
                sleepers=len(self.queue),
                source=QUEUE,
                **values,
            )
        )
        if self.bug is Bug.SWALLOWS and self.random.random() < 0.05:
            return
        for waiter in list(self.queue):
            if seq and seq <= waiter.seen and self.bug is not Bug.WAKES_FOR_OLD:
                continue
            if have < waiter.need and why is not Why.SIGNAL:
                continue
            self._wake(waiter, {"seq": seq, "source": QUEUE} | values)
            if waiter.exclusive and why is not Why.SIGNAL:
                return

    def _wake(self, waiter: Waiter, values: dict[str, Any]) -> None:
        fields = waiter.fields
        if fields["t_wake"]:
            names = (*_NOTHING, "source", "waker", "context", "t_begin")
            self.records.append(
                WakeRecord(QUEUE, waiter.tid, **{name: fields[name] for name in names})
            )
        self.t += 200
        fields |= _NOTHING | values | {"t_wake": self.t}
        fields["wakes"] += 1
        if waiter.state != "running":
            fields["t_waking"] = self.t + 50
        waiter.state = "running"
        waiter.why = values["why"]
        self.queue.remove(waiter)

    def _sleeper(self, tid: int) -> Steps:
        for _ in range(6):
            yield from self._idle(6)
            waiter = self._begin(tid)
            if self.is_set:
                ret = yield from self._sleep(waiter, lambda: self.fill > 0)
            else:
                ret = yield from self._take(waiter)
                if ret < 0 and waiter.why:
                    self._hand_on(tid)
            yield
            record = waiter.fields | {
                "t_end": self._tick(),
                "ret": ret,
                "ended": waiter.why,
                "seen": waiter.seen,
                "ready": int(self.fill > 0),
                "kernel_wakes": waiter.fields["wakes"],
            }
            self.records.append(WaitRecord(QUEUE, tid=tid, **record))
            yield
            self.fill -= self.is_set and not ret and self.fill > 0

    def _begin(self, tid: int) -> Waiter:
        need = 0 if self.is_set else self.random.choice((1, 1, 1, 2, 3))
        names = "t_slept sleeps wakes t_foreign foreign foreign_context source waker context"
        fields = dict.fromkeys(names.split(), 0) | _NOTHING
        fields |= {"t_begin": self._tick(), "fclass": self.fclass, "need": need}
        fields["flags"] = 0 if self.is_set else EXCLUSIVE
        limit = self.t + self.random.choice(_LIMITS)
        return Waiter(tid, need, limit, self.publications, not self.is_set, fields)

    def _hand_on(self, tid: int) -> None:
        if self.fill and self.bug is not Bug.DROPS_BATON:
            self._signal(0, self.fill, Why.HANDON, tid)

    def _take(self, waiter: Waiter) -> Sleep:
        """A blocking read: sleep, look, take; again, if another was faster."""

        def enough() -> bool:
            return self.fill >= waiter.need or self.signalled > waiter.since

        while True:
            ret = yield from self._sleep(waiter, enough)
            if ret == -4:
                return ret
            yield
            if not ret and not enough():
                if waiter.why:
                    self._hand_on(waiter.tid)
                continue
            yield
            if self.fill:
                if self.random.random() < self.fault_share:
                    return -14
                taken = min(self.fill, self.random.choice((1, 1, 2, 10)))
                self.fill -= taken
                return taken
            if self.signalled > waiter.since:
                return -11
            if ret:
                return ret

    def _sleep(self, waiter: Waiter, enough: Callable[[], bool]) -> Sleep:
        """The one place that sleeps."""
        waiter.why, waiter.seen = 0, self.publications
        yield
        if enough():
            return 0
        yield
        if self.bug is not Bug.SLEEPS_OFF_QUEUE or self.random.random() > 0.05:
            self.queue.append(waiter)
        while True:
            yield
            waiter.state = "going"
            yield
            ret = self._look(waiter, enough)
            if ret <= 0:
                break
            yield
            if waiter.state == "going":
                yield from self._off_cpu(waiter)
        waiter.state = "running"
        yield
        if waiter in self.queue:
            self.queue.remove(waiter)
        yield
        return 0 if waiter.why or enough() else ret

    def _look(self, waiter: Waiter, enough: Callable[[], bool]) -> int:
        if waiter.why or enough():
            return 0
        if waiter.interrupted:
            return -4
        return -110 if self.t >= waiter.limit else 1

    def _off_cpu(self, waiter: Waiter) -> Steps:
        fields = waiter.fields
        fields["t_slept"] = self._tick()
        fields["sleeps"] += 1
        waiter.state = "asleep"
        self.t += 500
        while waiter.state == "asleep":
            timer = self.t >= waiter.limit
            waiter.interrupted = not timer and self.random.random() < 0.004
            if timer or waiter.interrupted:
                context = Context.HARDIRQ if timer else Context.PROCESS
                fields |= {"t_foreign": self.t, "foreign_context": context}
                fields["foreign"] += 1
                waiter.state = "running"
            yield
        if fields["t_wake"] and not fields["t_running"]:
            fields["t_running"] = self._tick()
