# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The events around a finding in order: sleeps, the publication, wakes.

    LOST: wait 1 of thread reader/812 on CQ 7 should have been ended by ...
      0.000 ms  thread reader/812 begins wait 1 on CQ 7
      0.052 ms  thread reader/812 sleeps there
     12.700 ms  publication 3 (event on CQ 7) by thread python3/801 in process context,
                CPU 1: finds 1 asleep, wakes nobody; should have woken thread reader/812
   2012.900 ms  thread reader/812 still sleeps; the recording ends

The kernel stacks of sleeper and waker follow, if they were recorded.
"""

from collections.abc import Iterator

from kfabric.recording.records import FClass, Mark, MarkRecord
from kfabric.verdict.kinds import Finding, Kind, Rules
from kfabric.verdict.ledger import Ledger, Queue, Signal, Wait
from kfabric.verdict.words import Analysis

_WAITS, _INDENT = 4, 15
# Kinds whose publication should have woken the named wait.
_OWED = frozenset((Kind.LOST, Kind.LATE, Kind.TIMEOUT_READY))
# Kinds of which no event is a part; those that came meanwhile concerned other waits.
_WITHOUT_EVENT = frozenset((Kind.DEADLOCK, Kind.STUCK))


def waits_of_finding(ledger: Ledger, finding: Finding) -> list[Wait]:
    """The wait that a finding names, then those that its event woke."""
    queue = ledger.queues.get(finding.queue, Queue(finding.queue))
    named = [
        wait for wait in queue.waits_of(finding.tid) if finding.wait and wait.number == finding.wait
    ]
    signal = event_of(queue, finding, named)
    if signal is None:
        return named
    return named + [
        wait
        for wait in queue.waits
        if wait not in named and any(wake in signal.wakes for wake in wait.wakes)
    ]


def event_of(queue: Queue, finding: Finding, waits: list[Wait]) -> Signal | None:
    """The publication at fault, or the one that should have ended the wait."""
    if finding.seq:
        return queue.signals.get(finding.seq)
    if finding.kind in _WITHOUT_EVENT:
        return None
    if finding.published:
        return None  # No wake call followed; one that came for something else is no event of it.
    for wait in waits:
        wake = wait.last_wake
        if wake and (signal := queue.signal_of(wake)):
            return signal
        rec = wait.record
        for signal in queue.every_signal():
            if rec.t_begin < signal.record.t and (not rec.t_end or signal.record.t < rec.t_end):
                return signal
    return None


def publication_of(ledger: Ledger, finding: Finding) -> MarkRecord | None:
    """The marked publication that the wait of a finding missed."""
    for mark in ledger.marks if finding.published else ():
        if mark.t == finding.published and mark.what == Mark.PUBLISH:
            return mark
    return None


def story(ledger: Ledger, finding: Finding, rules: Rules | None = None) -> str:
    """The finding, the events in order, and the stacks; several lines."""
    queue = ledger.queues.get(finding.queue, Queue(finding.queue))
    waits = waits_of_finding(ledger, finding)
    lines = [f"{after}  {text}" for _, after, text in events_of(ledger, finding, rules)]
    if len(waits) > _WAITS:
        lines.append(f"{'':{_INDENT}}... and {len(waits) - _WAITS} more waits that it woke")
    signal = event_of(queue, finding, waits[:1] if finding.wait else [])
    mark = publication_of(ledger, finding)
    return "\n".join([str(finding), *lines, *_stacks(ledger, waits[:_WAITS], signal, mark)])


def events_of(
    ledger: Ledger, finding: Finding, rules: Rules | None = None
) -> list[tuple[int, str, str]]:
    """The events of a story in order: when (ns), how long after the first one, and what."""
    analysis = Analysis(ledger, rules or Rules())
    queue = ledger.queues.get(finding.queue, Queue(finding.queue))
    waits = waits_of_finding(ledger, finding)
    named = waits[:1] if finding.wait else []
    signal = event_of(queue, finding, named)
    events: list[tuple[int, str]] = []
    for wait in waits[:_WAITS]:
        events += _wait_events(analysis, queue, wait)
    if signal:
        owed = named[0] if named and finding.kind in _OWED else None
        events.append((signal.record.t, _signal_text(analysis, signal, owed)))
    mark = publication_of(ledger, finding)
    if mark:
        by = analysis.waker(mark.tid, mark.context)
        name = ledger.function(mark)
        function = f"{name}, the marked function" if name else "the marked function"
        events.append((mark.t, f"{by}, CPU {mark.cpu}, enters {function} that publishes"))
        if mark.t_end:
            events.append((mark.t_end, f"{by} returns from {name or 'the marked function'}"))
    events.sort()
    return [(t, f"{(t - events[0][0]) / 1e6:11.3f} ms", text) for t, text in events]


def _wait_events(analysis: Analysis, queue: Queue, wait: Wait) -> Iterator[tuple[int, str]]:
    rec, who = wait.record, analysis.ledger.thread_name(wait.record.tid)
    need = f", needs {rec.need}" if rec.need > 1 else ""
    yield rec.t_begin, f"{who} begins wait {wait.number} on {analysis.object(queue.id)}{need}"
    if rec.t_slept:
        again = f", for the {rec.sleeps}. time" if rec.sleeps > 1 else ""
        yield rec.t_slept, f"{who} sleeps there{again}"
    for ender in wait.enders:
        state = " and had exited" if ender.exited else ""
        yield min(ender.t, analysis.ledger.t_stop), f"{analysis.ender(ender)}{state}"
    for wake in wait.wakes:
        signal = queue.signal_of(wake)
        what = f"for {analysis.event(signal)}" if signal else "for nothing that was published"
        what = "which unlocks it" if queue.fclass == FClass.LOCK else what
        yield wake.t_wake, f"{who} is woken by {analysis.waker(wake.waker, wake.context)}, {what}"
        if wake.t_running:
            yield wake.t_running, f"{who} is on a CPU"
    if rec.foreign:
        yield rec.t_foreign, f"{who} is woken {_foreign(analysis, wait)}"
    if wait.finished:
        ready = "something is ready" if rec.ready else "nothing is ready"
        yield rec.t_end, f"{who} returns {rec.ret}; {ready}"
    else:
        yield analysis.ledger.t_stop, f"{who} is still in its wait; the recording ends"


def _foreign(analysis: Analysis, wait: Wait) -> str:
    """By what a thread was woken that its queue did not wake."""
    if wait.woken_by_timer:
        return "by its own timer, at its deadline"
    by = analysis.waker(wait.record.foreign_tid, wait.record.foreign_context)
    return f"by a signal, sent by {by}" if wait.signalled else f"past its queue by {by}"


def _signal_text(analysis: Analysis, signal: Signal, owed: Wait | None) -> str:
    rec, name = signal.record, analysis.ledger.thread_name
    woken = ", ".join(name(wake.tid) for wake in signal.wakes) or "nobody"
    text = (
        f"{analysis.event(signal)} by {analysis.waker(rec.waker, rec.context)}, CPU {rec.cpu}: "
        f"finds {rec.sleepers} asleep, wakes {woken}"
    )
    if owed and all(wake.tid != owed.record.tid for wake in signal.wakes):
        text += f"; should have woken {name(owed.record.tid)}"
    return text


def _stacks(
    ledger: Ledger, waits: list[Wait], signal: Signal | None, mark: MarkRecord | None
) -> Iterator[str]:
    found: list[tuple[str, tuple[int, ...]]] = []
    for wait in waits:
        who = ledger.thread_name(wait.record.tid)
        if wait.stacks:
            found.append((f"{who} slept in", wait.stacks.sleeps))
            found.append((f"{who} was woken from", wait.stacks.wakes))
    if signal:
        found.append((f"{ledger.thread_name(signal.record.waker)} published from", (signal.stack,)))
    if mark and not (signal and ledger.frames(signal.stack)):
        # A wake call that finds no sleeper has no stack, and the publication may have no call.
        found.append((f"{ledger.thread_name(mark.tid)} published from", (mark.stack,)))
    for tid in dict.fromkeys(ender.ender for wait in waits for ender in wait.enders):
        if frames := ledger.asleep.get(tid, ()):
            yield f"  {ledger.thread_name(tid)} slept in, when the recording ended:"
            yield from (f"    {frame}" for frame in frames)
    for title, stacks in dict.fromkeys(found):
        frames = ledger.frames(*stacks)
        if frames:
            yield f"  {title}:"
            yield from (f"    {frame}" for frame in frames)
