# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Recordings for the tests of the reports: recorded ones, and ones made to measure."""

from __future__ import annotations

from pathlib import Path

from record_lines import load_lines

from harness.recording.records import (
    Context,
    FClass,
    Recording,
    SignalRecord,
    StackRecord,
    WaitRecord,
    count,
)
from harness.report import source
from harness.verdict.ledger import Ledger, build

DATA = Path(__file__).parents[2] / "data" / "traces"
TRACES = sorted(DATA.glob("*.jsonl"))

HOSTILE = '</script><img src=x onerror="document.title=1">'
"""A name that a thread may give itself, but for its length."""


def recording_of(name: str) -> Recording:
    """A recorded trace."""
    return load_lines((DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())


def ledger_of(name: str) -> Ledger:
    """The ledger of a recorded trace."""
    return build(recording_of(name))


def plain(waits: int = 3, never: bool = True, name: str = "pipe_read") -> Recording:
    """Waits of one thread on a plain wait queue, each woken by a second one from a softirq.

    They begin 100 us apart; the n-th sleeps 40 us and runs 2^n us after its wake.
    The last one, if ``never`` says so, is never woken.
    """
    records: list[WaitRecord | SignalRecord | StackRecord] = []
    for n in range(waits):
        begin = 1_000_000 + n * 100_000
        wake = begin + 45_000
        running = wake + 1000 * (1 << n % 5)
        records += [
            SignalRecord(
                7, wake - 500, n + 1, sleepers=1, waker=12, context=Context.SOFTIRQ, cpu=1
            ),
            StackRecord(7, begin, 11, sleeper=1, waker=2),
            WaitRecord(
                7, begin, 11, tgid=10, fclass=FClass.QUEUE, t_slept=begin + 5000, t_wake=wake,
                t_waking=wake + 200, t_running=running, t_end=running + 3000, seq=n + 1,
                waker=12, wakeup_ns=100, why=1, ended=1, context=Context.SOFTIRQ, cpu=1,
                ready=1, sleeps=1, wakes=1,
            ),
        ]  # fmt: skip
    last = 1_000_000 + waits * 100_000
    if never:
        records += [
            StackRecord(7, last, 11, sleeper=1),
            WaitRecord(7, last, 11, tgid=10, fclass=FClass.QUEUE, t_slept=last + 5000, sleeps=1),
        ]
    return Recording(
        records=tuple(records),
        tallies=count(records),
        threads={10: "reader", 11: "reader-2", 12: "ksoftirqd/1"},
        queues={7: name},
        stacks={
            1: ("schedule+0x5a", "pipe_read+0x12", "ksys_read+0x6f"),
            2: ("__wake_up+0x40", "pipe_write+0x99 [fs]"),
        },
        t_stop=last + 900_000,
    )


def saved(recording: Recording, directory: Path) -> Path:
    """A directory with a recording, as the probe leaves one."""
    source.save(recording, directory)
    return directory
