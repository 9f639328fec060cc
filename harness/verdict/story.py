# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A finding told as a story: who slept where since when, what came, whom it woke.

    LOST: wait 1 of thread reader/812 on CQ 7 should have been ended by ...
      0.000 ms  thread reader/812 begins wait 1 on CQ 7
      0.052 ms  thread reader/812 sleeps there
     12.700 ms  publication 3 (event on CQ 7) by thread python3/801 in process context,
                CPU 1: finds 1 asleep, wakes nobody; should have woken thread reader/812
   2012.900 ms  thread reader/812 still sleeps; the recording ends

Then the kernel stacks of sleeper and waker, if they were taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.recording.records import NO_STACK
from harness.verdict.kinds import Finding, Kind, Rules
from harness.verdict.ledger import Ledger, Queue, Signal, Wait, Wake
from harness.verdict.words import Court

_WAITS, _INDENT = 4, 15
# Kinds whose publication ought to have woken the accused wait.
_OWED = frozenset((Kind.LOST, Kind.LATE, Kind.TIMEOUT_READY))

Event = tuple[int, str]


def accused(ledger: Ledger, finding: Finding) -> list[Wait]:
    """The waits that a finding is about: the one it names, or those it woke."""
    queue = ledger.queues.get(finding.queue, Queue(finding.queue))
    named = [
        wait for wait in queue.waits_of(finding.tid) if finding.wait and wait.number == finding.wait
    ]
    signal = event_of(queue, finding, named)
    if signal is None:
        return named
    woken = [
        wait
        for wait in queue.waits
        if wait not in named and any(wake in signal.wakes for wake in wait.wakes)
    ]
    return named + woken


def event_of(queue: Queue, finding: Finding, waits: list[Wait]) -> Signal | None:
    """The publication at fault, or the one that ought to have ended the wait."""
    if finding.seq:
        return queue.signals.get(finding.seq)
    for wait in waits:
        wake = wait.last_wake
        if wake and (signal := queue.signal_of(wake)):
            return signal
        rec = wait.record
        later = [
            signal
            for signal in queue.every_signal()
            if rec.t_begin < signal.record.t and (not rec.t_end or signal.record.t < rec.t_end)
        ]
        if later:
            return later[0]
    return None


def story(ledger: Ledger, finding: Finding, rules: Rules | None = None) -> str:
    """The finding, what happened in order, and the stacks; several lines."""
    court = Court(ledger, rules or Rules())
    queue = ledger.queues.get(finding.queue, Queue(finding.queue))
    waits = accused(ledger, finding)
    named = waits[:1] if finding.wait else []
    signal = event_of(queue, finding, named)
    events: list[Event] = []
    for wait in waits[:_WAITS]:
        events += _wait_events(court, queue, wait)
    if signal:
        owed = named[0] if named and finding.kind in _OWED else None
        events.append((signal.record.t, _signal_text(court, signal, owed)))
    lines = [str(finding), *_lines(sorted(events))]
    if len(waits) > _WAITS:
        lines.append(f"{'':{_INDENT}}... and {len(waits) - _WAITS} more waits that it woke")
    return "\n".join([*lines, *_stacks(court, waits[:_WAITS], signal)])


def _lines(events: list[Event]) -> Iterator[str]:
    """Events with their times since the first of them."""
    for t, text in events:
        yield f"{(t - events[0][0]) / 1e6:11.3f} ms  {text}"


def _wait_events(court: Court, queue: Queue, wait: Wait) -> Iterator[Event]:
    """What happened to one wait."""
    rec, who = wait.record, court.ledger.thread_name(wait.record.tid)
    need = f", needs {rec.need}" if rec.need > 1 else ""
    yield rec.t_begin, f"{who} begins wait {wait.number} on {court.object(queue.id)}{need}"
    if rec.t_slept:
        yield rec.t_slept, f"{who} sleeps there{_again(rec.sleeps)}"
    for wake in wait.wakes:
        yield wake.t_wake, _wake_text(court, queue, who, wake)
        if wake.t_running:
            yield wake.t_running, f"{who} is on a CPU"
    if rec.foreign:
        by = court.waker(rec.foreign_tid, rec.foreign_context)
        yield rec.t_foreign, f"{who} is woken past its queue by {by}"
    if wait.finished:
        ready = "something is ready" if rec.ready else "nothing is ready"
        yield rec.t_end, f"{who} returns {rec.ret}; {ready}"
    else:
        yield court.ledger.t_stop, f"{who} is still in its wait; the recording ends"


def _again(sleeps: int) -> str:
    return f", for the {sleeps}. time" if sleeps > 1 else ""


def _wake_text(court: Court, queue: Queue, who: str, wake: Wake) -> str:
    """Who woke a thread, and what for."""
    signal = queue.signal_of(wake)
    what = f"for {court.event(signal)}" if signal else "for nothing that was published"
    return f"{who} is woken by {court.waker(wake.waker, wake.context)}, {what}"


def _signal_text(court: Court, signal: Signal, owed: Wait | None) -> str:
    """What came, where it came from and whom it woke."""
    rec = signal.record
    woken = ", ".join(court.ledger.thread_name(wake.tid) for wake in signal.wakes) or "nobody"
    text = (
        f"{court.event(signal)} by {court.waker(rec.waker, rec.context)}, CPU {rec.cpu}: "
        f"finds {rec.sleepers} asleep, wakes {woken}"
    )
    if owed and all(wake.tid != owed.record.tid for wake in signal.wakes):
        text += f"; should have woken {court.ledger.thread_name(owed.record.tid)}"
    return text


def _stacks(court: Court, waits: list[Wait], signal: Signal | None) -> Iterator[str]:
    """The stacks that were taken, each once."""
    told: set[tuple[str, int]] = set()
    for wait in waits:
        who = court.ledger.thread_name(wait.record.tid)
        if wait.stacks:
            yield from _stack(court, told, f"{who} slept in", wait.stacks.sleeper)
            yield from _stack(court, told, f"{who} was woken from", wait.stacks.waker)
    if signal:
        who = court.ledger.thread_name(signal.record.waker)
        yield from _stack(court, told, f"{who} published from", signal.stack)


def _stack(court: Court, told: set[tuple[str, int]], title: str, stack: int) -> Iterator[str]:
    frames = court.ledger.frames(stack)
    if stack == NO_STACK or not frames or (title, stack) in told:
        return
    told.add((title, stack))
    yield f"  {title}:"
    yield from (f"    {frame}" for frame in frames)
