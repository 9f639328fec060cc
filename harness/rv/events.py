# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Turns a recording into the events of the automata, as the probes of the monitors do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kfabric.recording.records import Recording, SignalRecord, WaitRecord, WakeRecord, Why

FOR_ALL = frozenset((Why.OVERRUN, Why.LOST, Why.ACKED, Why.CLOSED))
"""Reasons that concern every thread."""
NO_NUMBER = 2**64 - 1


class Begin(NamedTuple):
    """A blocking call begins."""

    t: int
    wait: WaitRecord


class Publish(NamedTuple):
    """A publication."""

    t: int
    signal: SignalRecord


class Wake(NamedTuple):
    """A thread is woken."""

    t: int
    queue: int
    tid: int
    seq: int
    why: int
    cpu: int


class End(NamedTuple):
    """A blocking call ends."""

    t: int
    wait: WaitRecord


Moment = Begin | Publish | Wake | End


def moments(recording: Recording) -> list[Moment]:
    """The moments of a recording at which kfabric passes a tracepoint, in order."""
    return sorted(_moments(recording), key=lambda moment: moment.t)


def _moments(recording: Recording) -> Iterator[Moment]:
    for record in recording.records:
        if isinstance(record, SignalRecord):
            yield Publish(record.t, record)
        elif isinstance(record, WaitRecord | WakeRecord):
            if record.t_wake:
                of = (record.queue, record.tid, record.seq, record.why, record.cpu)
                yield Wake(record.t_wake, *of)
            if isinstance(record, WaitRecord):
                yield Begin(record.t_begin, record)
                if record.t_end:
                    yield End(record.t_end, record)


@dataclass
class _Call:
    """A blocking call in progress."""

    wait: WaitRecord
    due: int = 0
    """Number of the last publication that owes it a wake-up."""


def of_threads(recording: Recording) -> dict[int, list[str]]:
    """The events of the automaton kfi_wait, by thread.

    vm/kernels/rv has the same in C, with the reasons.
    """
    found: dict[int, list[str]] = defaultdict(list)
    calls: dict[int, _Call] = {}
    for moment in moments(recording):
        match moment:
            case Begin(_, wait):
                calls[wait.tid] = _Call(wait)
                found[wait.tid].append("begin")
            case Publish(_, signal):
                for call in _owed(list(calls.values()), signal):
                    call.due = max(call.due, signal.seq or NO_NUMBER)
                    found[call.wait.tid].append("publish")
            case Wake(_, queue, tid) if tid in calls and calls[tid].wait.queue == queue:
                calls[tid].due = 0
                found[tid].append("wake")
            case End(_, wait):
                if 0 < calls.pop(wait.tid).due <= wait.seen:
                    found[wait.tid].append("cover")
                found[wait.tid].append("end_woken" if wait.ended else "end")
    return found


def _owed(calls: list[_Call], signal: SignalRecord) -> list[_Call]:
    """The calls that a publication owes a wake-up."""
    here = [call for call in calls if call.wait.queue == signal.queue]
    if not signal.sleepers or len(here) != signal.sleepers:
        return []
    if signal.why in FOR_ALL:
        return here
    alone = sum(call.wait.exclusive for call in here) == 1
    return [
        call
        for call in here
        if call.wait.need <= signal.have and (alone or not call.wait.exclusive)
    ]


def of_cpus(recording: Recording) -> dict[int, list[str]]:
    """The events of the automaton kfi_wake, by CPU, from the first publication there."""
    found: dict[int, list[str]] = {}
    last: dict[int, tuple[int, int, int]] = {}
    for moment in moments(recording):
        match moment:
            case Publish(_, signal):
                last[signal.cpu] = (signal.queue, signal.seq, signal.why)
                event = "publish" if signal.sleepers else "publish_none"
                found.setdefault(signal.cpu, []).append(event)
            case Wake(_, queue, _, seq, why, cpu) if cpu in last:
                leaves = last[cpu] != (queue, seq, why)
                found[cpu] += ["leave", "wake"] if leaves else ["wake"]
    return found
