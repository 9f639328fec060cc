# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Hand-made recordings of kfabric's waits. Times are microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

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
from kfabric.verdict.ledger import build
from kfabric.verdict.verdict import Kind, Rules, Verdict, judge

QUEUE, MEMBER = 20, 21
T1, T2, T3, SOFTIRQ = 101, 102, 103, 7
US, SECOND = 1000, 1_000_000


class Fields(TypedDict, total=False):
    """Further fields for :meth:`Scene.wait`; times are microseconds."""

    t_end: int
    t_foreign: int
    t_running: int
    t_waking: int
    foreign: int
    foreign_tid: int
    foreign_context: Context
    ready: int
    ret: int
    need: int


# Another thread wakes the sleeper without a signal on its queue.
PAST: Fields = {
    "t_foreign": 49,
    "foreign": 1,
    "foreign_tid": T2,
    "foreign_context": Context.PROCESS,
}


@dataclass
class Scene:
    """A recording in the making, of one queue of one class."""

    fclass: FClass = FClass.WAIT
    exclusive: bool = False
    records: list[Record] = field(default_factory=list)
    seq: int = 0
    queue: int = QUEUE

    def publish(self, t: int, sleepers: int = 1, **more: Any) -> SignalRecord:
        """A publication that finds so many sleepers; ``seq`` 0 is a wake-up that is none."""
        self.seq += more.get("why") != Why.HANDON
        values = {
            "seq": self.seq,
            "have": 1,
            "why": Why.EVENT,
            "waker": SOFTIRQ,
            "context": Context.SOFTIRQ,
            "source": MEMBER if self.fclass is FClass.WAIT else self.queue,
        }
        record = SignalRecord(self.queue, t * US, sleepers=sleepers, **(values | more))
        self.records.append(record)
        return record

    def hand_on(self, t: int, tid: int, sleepers: int = 1, have: int = 1) -> SignalRecord:
        """A thread hands its wake-up on."""
        return self.publish(
            t, sleepers, seq=0, why=Why.HANDON, waker=tid, context=Context.PROCESS, have=have
        )

    def wait(
        self,
        begin: int,
        slept: int = 0,
        by: SignalRecord | None = None,
        tid: int = T1,
        **more: Any,
    ) -> WaitRecord:
        """A wait: when it slept last, what woke it last; other fields in microseconds, too."""
        times = {name: t * US for name, t in more.items() if name.startswith("t_")}
        values: dict[str, Any] = {
            "t_slept": slept * US,
            "sleeps": int(bool(slept)),
            "flags": EXCLUSIVE if self.exclusive else 0,
            "need": 0 if self.fclass is FClass.WAIT else 1,
        }
        if by:
            values |= _woken(by) | {"ended": by.why, "wakes": 1, "t_end": by.t + 20 * US}
        if "timer" in more:
            values |= self._timer(more.pop("timer"))
        values |= more | times
        record = WaitRecord(self.queue, begin * US, tid, fclass=self.fclass, **values)
        self.records.append(replace(record, kernel_wakes=record.wakes))
        return record

    @staticmethod
    def _timer(t: int) -> dict[str, Any]:
        """The effect of its deadline on a wait."""
        return {
            "t_foreign": t * US,
            "foreign": 1,
            "foreign_context": Context.HARDIRQ,
            "t_end": (t + 1) * US,
            "ret": -110,
        }

    def early(self, by: SignalRecord, begin: int, tid: int = T1) -> None:
        """A wake that did not end its wait."""
        self.records.append(WakeRecord(self.queue, tid, begin * US, **_woken(by)))

    def verdict(self, stop: int = 9 * SECOND, **rules: Any) -> Verdict:
        """The verdict on it."""
        recording = Recording(
            tuple(self.records),
            tallies=count(self.records),
            t_stop=stop * US,
            kernel=KernelView(),
        )
        return judge(build(recording), Rules(**rules))

    def found(self, **rules: Any) -> list[tuple[Kind, int]]:
        """The findings of the verdict: kinds and threads."""
        verdict = self.verdict(**rules)
        assert verdict.doubts == ()
        return [(finding.kind, finding.tid) for finding in verdict.findings]


def change_wait(records: list[Record], index: int, **fields: int) -> None:
    """Change fields of the wait at this index; times are nanoseconds, as in the record."""
    record = records[index]
    assert isinstance(record, WaitRecord)
    records[index] = replace(record, **fields)


def _woken(by: SignalRecord) -> dict[str, Any]:
    """A sleeper that a signal wakes at once, and that runs soon."""
    return {
        "t_wake": by.t + 1 * US,
        "t_waking": by.t + 2 * US,
        "t_running": by.t + 10 * US,
        "seq": by.seq,
        "why": by.why,
        "source": by.source,
        "waker": by.waker,
        "context": by.context,
    }
