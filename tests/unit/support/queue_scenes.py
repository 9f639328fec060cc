# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Hand-made recordings of plain wait queues. Times are microseconds."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from kfabric.recording.records import (
    Context,
    FClass,
    Mark,
    MarkRecord,
    Record,
    Recording,
    SignalRecord,
    WaitRecord,
    WakeRecord,
)
from kfabric.verdict import ledger
from kfabric.verdict.backlog import Backlog
from kfabric.verdict.kinds import Finding, Kind, Outcome, Verdict
from kfabric.verdict.queues import QueueRules, judge

QUEUE, OTHER = 1, 2
WAITER, WAITER_2, WAITER_3, WAKER, WAKER_2 = 11, 12, 13, 21, 22
NAMES = {
    WAITER: "waiter",
    WAITER_2: "waiter-2",
    WAITER_3: "waiter-3",
    WAKER: "waker",
    WAKER_2: "waker-2",
}
US = 1000
TIMEOUT = 250_000
Woken = TypeVar("Woken", WaitRecord, WakeRecord)


class Scene:
    """A recording in the making."""

    def __init__(self, *, take_marked: bool = True) -> None:
        self.take_marked = take_marked
        self.late: dict[str, tuple[int, int]] = {}
        self.name = "the_queue [mod]"
        self.records: list[Record] = []
        self.calls: dict[int, SignalRecord] = {}
        self.seq = {QUEUE: 0, OTHER: 0}

    def publish(
        self, t: int, tid: int = WAKER, context: Context = Context.PROCESS, *, end: int = 0
    ) -> None:
        """A thread (or an interrupt on top of it) publishes, in a function until ``end``."""
        self._mark(t, tid, Mark.PUBLISH, context, end)

    def take(self, t: int, tid: int = WAITER, *, end: int = 0) -> None:
        """A thread takes, in a function until ``end``."""
        self._mark(t, tid, Mark.TAKE, Context.PROCESS, end)

    def _mark(self, t: int, tid: int, what: Mark, context: Context, end: int) -> None:
        begin = MarkRecord(0, t * US, tid, what, context=context)
        self.records += [begin, replace(begin, t_end=end * US)] if end else [begin]

    def call(
        self,
        t: int,
        tid: int = WAKER,
        queue: int = QUEUE,
        sleepers: int = 1,
        context: Context = Context.PROCESS,
        mode: int = 3,
        count: int = 0,
        most: int = 1,
    ) -> None:
        """A wake call that finds so many sleepers, and asks for at most so many; 0: for all."""
        self.seq[queue] += 1
        call = SignalRecord(
            *(queue, t * US, self.seq[queue]),
            have=most,
            sleepers=sleepers,
            waker=tid,
            context=context,
            mode=mode,
            count=count,
        )
        self.calls[t] = call
        self.records.append(call)

    def wait(
        self,
        begin: int,
        tid: int = WAITER,
        *,
        slept: int = 0,
        wakes: tuple[int, ...] = (),
        ran: int = 1,
        end: int = 0,
        timeout: int = 0,
        queue: int = QUEUE,
        state: int = 0,
        gone: int = 0,
    ) -> None:
        """A wait: when it began, slept last, which calls woke it, and what ended it.

        It runs ``ran`` after each wake, and looks. ``timeout``: a timer woke it then.
        ``gone``: what its completion had forgotten.
        """
        record = WaitRecord(
            queue,
            begin * US,
            tid,
            fclass=FClass.QUEUE,
            t_slept=slept * US,
            t_end=(end or (timeout + 1 if timeout else 0)) * US,
            sleeps=int(bool(slept)),
            ret=-110 if timeout else 0,
            t_foreign=timeout * US,
            foreign=int(bool(timeout)),
            foreign_context=Context.SOFTIRQ if timeout else 0,
            ended=int(bool(wakes) and not timeout),
            state=state,
            gone=gone,
        )
        for t in wakes[:-1]:
            self.records.append(self._wake(WakeRecord(queue, tid, begin * US, 0), t, ran))
        self.records.append(self._wake(record, wakes[-1], ran) if wakes else record)

    def stray(self, t: int, tid: int) -> None:
        """A call wakes a thread of whose wait nothing was recorded."""
        self.records.append(self._wake(WakeRecord(QUEUE, tid, 0, 0), t, ran=1))

    def _wake(self, record: Woken, t: int, ran: int) -> Woken:
        call = self.calls[t]
        return replace(
            record,
            t_wake=t * US + 1,
            t_waking=t * US + 2,
            t_running=(t + ran) * US if ran else 0,
            seq=call.seq,
            waker=call.waker,
            context=call.context,
        )

    def ledger(self, stop: int = 9_000_000) -> ledger.Ledger:
        """The recording up to ``stop``."""
        return ledger.build(
            Recording(
                tuple(self.records),
                tallies=ledger.count(self.records),
                threads=NAMES,
                queues={QUEUE: self.name, OTHER: "other_queue [mod]"},
                t_stop=stop * US,
                take_marked=self.take_marked,
                late=self.late,
            )
        )

    def verdict(self, **rules) -> Verdict:
        """The verdict on it."""
        return judge(self.ledger(), QueueRules(**rules))


def backlog_of(scene: Scene) -> Backlog:
    """The backlog of the scene's marks."""
    built = scene.ledger()
    return Backlog(built.marks, list(built.queues.values()))


def only(scene: Scene, kind: Kind, waiter: int, waker: int, **rules) -> Finding:
    """The one finding of a scene, with the expected kind and thread."""
    verdict = scene.verdict(**rules)
    assert [(f.kind, f.tid, f.waker) for f in verdict.findings] == [(kind, waiter, waker)], (
        verdict.findings
    )
    assert verdict.outcome is Outcome.FAULT
    return verdict.findings[0]


def silent(scene: Scene, **rules) -> None:
    """Nothing is wrong, as far as anything could be judged."""
    verdict = scene.verdict(**rules)
    assert verdict.findings == ()
    assert verdict.outcome in (Outcome.VERIFIED, Outcome.NOT_JUDGED)
