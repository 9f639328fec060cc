# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Recordings for the tests of the reports: recorded ones, and ones made to measure."""

from __future__ import annotations

from pathlib import Path

from record_lines import load_lines

from kfabric.recording import RECORDS
from kfabric.recording.records import (
    Context,
    FClass,
    Recording,
    SignalRecord,
    StackRecord,
    WaitRecord,
    count,
    pack,
)
from kfabric.report import source
from kfabric.verdict.ledger import Ledger, build

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


def save_many(waits: int, directory: Path, queues: int = 600, threads: int = 300) -> Path:
    """A directory with so many waits, each woken by its neighbour; they are 1 us apart.

    The queues of a name are ten. The wait in the middle is never woken. Packs the
    records itself: a million objects would take a minute.
    """
    name, form = "queue slept on in function_{} [mod]", WaitRecord.FORMAT
    names = WaitRecord.MEMBERS.split()
    whole = WaitRecord(
        1, 1, 1, fclass=FClass.QUEUE, t_slept=1, t_wake=1, t_waking=1, t_running=1, t_end=1, why=1,
        ended=1, context=Context.PROCESS, sleeps=1, wakes=1,
    )  # fmt: skip
    rest = [getattr(whole, member, 0) for member in names[8:]]
    waker = names.index("waker") - 8
    packed = bytearray()
    for n in range(waits):
        t, tid = 10**9 + n * 1000, 1000 + n % threads
        times = [t + 100, t + 40_000, t + 40_100, t + 41_000 + n % 5000, t + 50_000]
        rest[waker] = 1000 + (n + 1) % threads
        rest[names.index("tid") - 8] = tid
        packed += form.pack(WaitRecord.KIND, 1 + n % queues, t, *times, *rest)
    middle = 10**9 + waits // 2 * 1000
    stuck = WaitRecord(1, middle, 999, fclass=FClass.QUEUE, t_slept=middle + 9, sleeps=1)
    head = Recording(
        (),
        threads={1000 + n: f"thread-{n % 40}" for n in range(threads)},
        queues={1 + n: name.format(n // 10) for n in range(queues)},
        t_stop=10**9 + waits * 1000 + 10**6,
    )
    saved(head, directory)
    (directory / RECORDS).write_bytes(packed + pack(stuck))
    return directory


def saved(recording: Recording, directory: Path) -> Path:
    """A directory with a recording, as the probe leaves one."""
    source.save(recording, directory)
    return directory
