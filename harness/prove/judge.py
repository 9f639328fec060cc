# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Has the verdict judge a sample of executions, as it judges a recording of a guest.

The tracepoints of an execution become the records that the probes write in the kernel
(harness/probes/wakeups.bpf.c): waits are paired here in the same way. Time is the number of the
event, so the verdict finds nothing late; the checker itself finds a thread that sleeps for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from kfabric.prove.output import Finding, Record
from kfabric.recording.records import (
    EXCLUSIVE,
    Change,
    Context,
    Losses,
    ObjectRecord,
    Recording,
    SignalRecord,
    WaitRecord,
    WakeRecord,
    count,
)
from kfabric.recording.records import Record as Recorded
from kfabric.verdict.kinds import Outcome
from kfabric.verdict.ledger import build
from kfabric.verdict.verdict import judge

KIND = "verdict"
"""Of a finding of the verdict."""
TICK_NS = 1000
"""Between two events. So every execution takes less than any limit of the verdict."""
SPAWNED = 1000
"""Ids from here on are of threads that the scenario does not declare: timers, work items."""

_OBJECTS = {"object_new": Change.NEW, "object_free": Change.FREE}
_MEMBERS = {"member_add": Change.ADD, "member_del": Change.DEL}


def executions(records: Iterable[Record], threads: Sequence[str]) -> tuple[int, Finding | None]:
    """Judge each execution of a sample.

    Args:
        records: the events, in order.
        threads: the scenario's threads, in order.

    Returns:
        how many were judged, and the first fault.
    """
    judged = 0
    for number, each in groupby(records, key=lambda record: record.execution):
        judged += 1
        verdict = judge(build(recording(each, threads)))
        if verdict.outcome in (Outcome.FAULT, Outcome.NOT_VERIFIED):
            return judged, Finding(KIND, f"execution {number}: {verdict.line()}")
    return judged, None


def recording(records: Iterable[Record], threads: Sequence[str]) -> Recording:
    """The recording of one execution."""
    pairing = _Pairing({name: number for number, name in enumerate(threads, 1)})
    for record in records:
        pairing.add(record)
    return pairing.recording()


@dataclass
class _Pairing:
    """Pairs the events of waits, as the probes do in the kernel."""

    tids: dict[str, int]
    t: int = TICK_NS
    open: dict[int, WaitRecord] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    """Threads that a wake call has marked, and that the scheduler is yet to be asked to wake."""
    done: list[Recorded] = field(default_factory=list)
    unpaired: int = 0
    """Waits that ended and had not begun, or began twice."""

    def add(self, record: Record) -> None:
        """Take the next event."""
        self.t += TICK_NS
        tid, values = self._tid(record.thread), record.fields
        match record.name:
            case "wait_begin":
                self._begin(tid, record)
            case "wait_end":
                self._end(tid, record)
            case "signal":
                names = ("queue", "seq", "source", "why", "have", "sleepers")
                numbers = {name: values[name] for name in names}
                self.done.append(SignalRecord(t=self.t, waker=tid, **numbers))
            case "wake":
                self._wake(tid, record)
            case "sched_switch":
                self._sleep(tid)
            case "sched_waking":
                self._waking(tid, record)
            case name if name in _OBJECTS:
                change, fclass = _OBJECTS[name], values["fclass"]
                made = ObjectRecord(values["id"], self.t, change, fclass, values["parent"], tid)
                self.done.append(made)
            case name if name in _MEMBERS:
                change, fclass = _MEMBERS[name], values["fclass"]
                made = ObjectRecord(values["member"], self.t, change, fclass, values["set"], tid)
                self.done.append(made)

    def recording(self) -> Recording:
        """What was recorded; waits that are still open have no end."""
        records = (*self.done, *self.open.values())
        threads = {tid: name for name, tid in self.tids.items()}
        return Recording(
            records,
            count(records),
            threads,
            losses=Losses(unpaired=self.unpaired),
            t_stop=self.t + TICK_NS,
        )

    def _tid(self, thread: str) -> int:
        return self.tids.setdefault(thread, SPAWNED + len(self.tids))

    def _begin(self, tid: int, record: Record) -> None:
        values = record.fields
        self.unpaired += tid in self.open
        self.open[tid] = WaitRecord(
            queue=values["queue"],
            t_begin=self.t,
            tid=tid,
            fclass=values["fclass"],
            need=values["need"],
            flags=EXCLUSIVE if values["exclusive"] else 0,
        )

    def _end(self, tid: int, record: Record) -> None:
        values = record.fields
        numbers = {name: values[name] for name in ("ret", "ready", "seen")}
        wait = self.open.pop(tid, None)
        if not wait or wait.queue != values["queue"]:
            self.unpaired += 1
            return
        self.done.append(replace(wait, t_end=self.t, ended=values["why"], **numbers))
        self.asked.discard(tid)

    def _wake(self, waker: int, record: Record) -> None:
        values = record.fields
        tid, queue, numbers = values["pid"], values["queue"], ("seq", "source", "why")
        wake = WakeRecord(
            queue, tid, 0, self.t, waker=waker, **{name: values[name] for name in numbers}
        )
        wait = self.open.get(tid)
        if not wait or wait.queue != queue:
            self.done.append(wake)
            return
        if wait.t_wake:
            self.done.append(_wake_of(wait))
        wakes = {name: getattr(wake, name) for name in ("t_wake", "waker", *numbers)}
        cleared = {"t_waking": 0, "t_running": 0, "wakes": wait.wakes + 1}
        self.open[tid] = replace(wait, **wakes, **cleared)
        self.asked.add(tid)

    def _sleep(self, tid: int) -> None:
        if wait := self.open.get(tid):
            self.open[tid] = replace(wait, t_slept=self.t, sleeps=wait.sleeps + 1)

    def _waking(self, waker: int, record: Record) -> None:
        tid = record.fields["pid"]
        wait = self.open.get(tid)
        if not wait:
            return
        # A signal or a timer may wake the thread between the mark of a wake call and the call's
        # own request. The mark ends the wait all the same.
        if tid in self.asked:
            if wait.waker == waker:
                self.asked.discard(tid)
            self.open[tid] = replace(wait, t_waking=self.t, t_running=self.t)
            return
        # Only a deadline wakes from a timer; the checker's timers are interrupts.
        context = Context.HARDIRQ if record.fields.get("irq") else Context.PROCESS
        foreign = {"foreign": wait.foreign + 1, "foreign_tid": waker, "t_foreign": self.t}
        self.open[tid] = replace(wait, **foreign, foreign_context=context)


def _wake_of(wait: WaitRecord) -> WakeRecord:
    """The last wake of a wait, as a record of its own."""
    names = ("queue", "tid", "t_begin", "t_wake", "seq", "t_waking", "t_running", "source")
    every = (*names, "waker", "why", "context", "cpu")
    return WakeRecord(**{name: getattr(wait, name) for name in every})
