# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Hand-made recordings of waits for locks. Times are milliseconds."""

from __future__ import annotations

from errno import EINTR

from kfabric.recording.records import (
    Ender,
    EnderRecord,
    FClass,
    Record,
    Recording,
    SignalRecord,
    WaitRecord,
)
from kfabric.verdict import ledger
from kfabric.verdict.kinds import Verdict
from kfabric.verdict.queues import QueueRules, judge

LOCK_A, LOCK_B, LOCK_C = 1, 2, 3
ANN, BOB, CARL = 11, 12, 13
MS = 1_000_000
STOP = 1000


class LockScene:
    """A recording in the making."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.asleep: dict[int, tuple[str, ...]] = {}

    def wait(
        self,
        begin: int,
        tid: int,
        lock: int,
        *,
        unlocked: int = 0,
        waker: int = 0,
        signal: int = 0,
        end: int = 0,
        ret: int = 0,
        fclass: int = FClass.LOCK,
    ) -> None:
        """A wait that an unlock ended, or a signal that came 5 ms before, or nothing seen."""
        t_end = unlocked or (signal + 5 if signal else end)
        if unlocked:
            self.records.append(SignalRecord(lock, unlocked * MS, unlocked, waker=waker))
        self.records.append(
            WaitRecord(
                lock,
                begin * MS,
                tid,
                fclass=fclass,
                t_slept=begin * MS + 1,
                sleeps=1,
                t_wake=unlocked * MS,
                t_waking=unlocked * MS,
                t_running=unlocked * MS,
                seq=unlocked,
                waker=waker,
                ended=int(bool(unlocked)),
                t_end=t_end * MS,
                t_foreign=signal * MS,
                ret=-EINTR if signal else ret,
            )
        )

    def ender(
        self,
        begin: int,
        tid: int,
        lock: int,
        ender: int,
        *,
        t: int = 0,
        what: Ender = Ender.HOLDER,
        exited: bool = False,
    ) -> None:
        """At ``t`` (default: its begin) thread ``ender`` can end the wait."""
        at = (t or begin) * MS
        self.records.append(EnderRecord(lock, begin * MS, at, tid, ender, what, int(exited)))

    def ledger(self) -> ledger.Ledger:
        """The recording up to STOP."""
        recording = Recording(
            tuple(self.records),
            tallies=ledger.count(self.records),
            threads={ANN: "ann", BOB: "bob", CARL: "carl"},
            queues={LOCK_A: "a_mutex [mod]", LOCK_B: "b_mutex [mod]", LOCK_C: "c_mutex [mod]"},
            t_stop=STOP * MS,
            asleep=self.asleep,
        )
        return ledger.build(recording)

    def verdict(self, stuck: int = 100) -> Verdict:
        """The verdict on it."""
        return judge(self.ledger(), QueueRules(stuck_ns=stuck * MS))
