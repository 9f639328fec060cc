# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Finds sleeps on plain wait queues although an item was ready, and their causes.

LOST, LATE, NOT_HANDED_ON and WRONG_WAITER are the possible findings.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kfabric.recording.records import Context, MarkRecord
from kfabric.verdict.backlog import End, Sleep, caller, marker
from kfabric.verdict.kinds import Finding, Kind
from kfabric.verdict.ledger import Signal, Wait
from kfabric.verdict.queue_index import QueueIndex
from kfabric.verdict.words import Analysis, passed_over


def span(ns: int) -> str:
    """A length of time, in the unit that suits it."""
    if ns < 1_000_000:
        return f"{ns / 1e3:.0f} µs"
    if ns < 10_000_000_000:
        return f"{ns / 1e6:.1f} ms"
    return f"{ns / 1e9:.0f} s"


def caller_name(analysis: Analysis, call: Signal) -> str:
    """The thread that made a wake call, and its context."""
    return analysis.waker(call.record.waker, call.record.context)


def find_missed_wakes(index: QueueIndex) -> Iterator[tuple[Finding, Signal | None]]:
    """Each finding with the wake call at fault; one finding for each publication."""
    missed = sorted(
        (
            (sleep, publication)
            for queue in index.marked
            for wait in queue.waits
            if wait.record.t_begin >= index.rules.since
            for sleep in index.sleeps(queue, wait)
            if (publication := _missed(index, sleep))
        ),
        key=lambda pair: (pair[1].t, pair[0].begin),
    )
    reported: set[int] = set()
    for sleep, publication in missed:
        if publication.t not in reported:
            reported.add(publication.t)
            cause = _cause(index, sleep, publication)
            yield _finding(index, sleep, publication, cause), cause.call


def _missed(index: QueueIndex, sleep: Sleep) -> MarkRecord | None:
    """The publication that should have woken a sleeper, and did not, or much too late."""
    since = index.backlog.left_over_since(sleep.end)
    if not since:
        return None
    certain = index.sleeps_for_others(sleep.queue)
    publication = index.backlog.oldest(sleep.end, sleep.looked, certain=certain)
    if publication is None:
        return None
    lasted = sleep.end - max(since, sleep.begin, index.backlog.stored(publication))
    if sleep.how is End.WAKE:
        return publication if lasted > index.rules.late_ns else None
    if lasted <= index.rules.grace_ns or _call_followed(index, sleep, publication):
        return None
    return publication


def _call_followed(index: QueueIndex, sleep: Sleep, publication: MarkRecord) -> bool:
    """Did the sleeper give up before the publisher reached its wake call?"""
    if sleep.how is not End.FOREIGN:
        return False
    who = marker(publication)
    calls = index.calls_from(publication.t, sleep.end + index.rules.late_ns)
    first = next((call.record for call in calls if caller(call) == who), None)
    if first is None or first.t < sleep.end or first.queue != sleep.queue.id:
        return False
    return index.in_one_go(publication, first.t)


@dataclass(frozen=True, slots=True)
class _Cause:
    """Why a sleeper was not woken: in words, the wake call, and the wait at fault."""

    kind: Kind
    why: str
    call: Signal | None = None
    wait: Wait | None = None


def _cause(index: QueueIndex, sleep: Sleep, publication: MarkRecord) -> _Cause:
    analysis = index.analysis
    if forgotten := _forgotten(index, sleep, publication):
        return forgotten
    if sleep.wake:
        took = span(sleep.wake.t_wake - index.backlog.stored(publication))
        by = analysis.waker(sleep.wake.waker, sleep.wake.context)
        why = f"the wake call of {by} came {took} after that"
        return _Cause(Kind.LATE, why, index.call_of(sleep.wake))
    call = _call_for(index, sleep, publication)
    if call is None:
        return _no_call(index, sleep, publication)
    if any(wake.tid == sleep.wait.record.tid for wake in call.wakes):
        within = _call_within(index, sleep, publication, call)
        return within or _slept_all_the_same(index, sleep, call)
    if call.record.queue != sleep.queue.id:
        where = analysis.object(call.record.queue)
        why = f"the wake call of {caller_name(analysis, call)} went to {where}"
        if not call.wakes:
            return _Cause(Kind.LOST, f"{why}, where it woke nobody", call)
        woken = analysis.ledger.thread_name(call.wakes[0].tid)
        return _Cause(Kind.WRONG_WAITER, f"{why} and woke {woken}", call)
    return _call_within(index, sleep, publication, call) or _call_without_effect(index, sleep, call)


def _forgotten(index: QueueIndex, sleep: Sleep, publication: MarkRecord) -> _Cause | None:
    """The completion was given before the wait, and its count was gone when that began.

    A wait that its timer or a signal ends may take what comes at that moment, unseen.
    """
    rec = sleep.wait.record
    given = [call for call in sleep.queue.every_signal() if call.record.t < rec.t_begin]
    if not rec.gone or not given:
        return None
    call = max(given, key=lambda call: call.record.t)
    ended = [wait.record for wait in sleep.queue.waits if 0 < wait.record.t_end < call.record.t]
    if call.record.count or call.record.t < publication.t or any(not w.ended for w in ended[-1:]):
        return None
    # As in other wake calls: how many threads it may wake; 0 for all.
    name, count = ("complete()", "1") if call.record.have else ("complete_all()", "no limit")
    why = (
        f"{name} by {caller_name(index.analysis, call)} raised the completion's count from 0 "
        f"to {count} {span(rec.t_begin - call.record.t)} before the wait began; by then its count "
        "was 0 again, and no wait had taken it: it was initialized again"
    )
    if sleep.wake:
        by = index.analysis.waker(sleep.wake.waker, sleep.wake.context)
        why += f"; only the next complete(), by {by}, ended the wait"
    return _Cause(Kind.LOST, why, call)


def _call_for(index: QueueIndex, sleep: Sleep, publication: MarkRecord) -> Signal | None:
    """The wake call for a publication: the publisher's next one.

    If the publisher makes none, the next one by another thread on the sleeper's queue.
    """
    who = marker(publication)
    calls = list(index.calls_from(publication.t, sleep.end))
    mine = [call for call in calls if caller(call) == who]
    here = [call for call in calls if call.record.queue == sleep.queue.id]
    own_here = [call for call in mine if call.record.queue == sleep.queue.id]
    return next(iter(own_here or mine or here), None)


def _no_call(index: QueueIndex, sleep: Sleep, publication: MarkRecord) -> _Cause:
    """No wake call came after the publication; the last one before it may explain that."""
    who = marker(publication)
    for call in index.calls_before(publication.t):
        if call.record.t < sleep.wait.record.t_begin:
            break
        if caller(call) == who:
            if index.publications_for(call) or not any(w in sleep.wait.wakes for w in call.wakes):
                break
            why = (
                f"{caller_name(index.analysis, call)} had woken it "
                f"{span(publication.t - call.record.t)} before the publication, "
                "so it looked, found nothing and slept again"
            )
            return _Cause(Kind.LOST, why, call)
    return _Cause(Kind.LOST, "no wake call followed the publication")


def _slept_all_the_same(index: QueueIndex, sleep: Sleep, call: Signal) -> _Cause:
    """A wake call woke the thread, and then it slept."""
    where = call.record.queue
    through = "" if where == sleep.queue.id else f" through {index.analysis.object(where)}"
    why = (
        f"{caller_name(index.analysis, call)} woke it{through} "
        f"{span(max(sleep.begin - call.record.t, 0))} before it slept, and it slept all the "
        "same: its state was set after its last look"
    )
    return _Cause(Kind.LOST, why, call)


def _call_within(
    index: QueueIndex, sleep: Sleep, publication: MarkRecord, call: Signal
) -> _Cause | None:
    """A wake call between begin and return of the function that stores.

    Both orders of store and wake are possible if the thread that the call concerned looked
    before the return.
    """
    stored = index.backlog.stored(publication)
    if not publication.t <= call.record.t < stored:
        return None
    tid = sleep.wait.record.tid
    looked = [
        wake.tid
        for wake in call.wakes
        if 0 < wake.t_running < stored and not index.backlog.took(wake)
    ]
    if call.record.t < sleep.wait.record.t_begin < stored:
        looked.append(tid)
    if not looked:
        return None
    looker = index.ledger.thread_name(tid if tid in looked else looked[0])
    why = (
        f"the wake call of {caller_name(index.analysis, call)} came while the marked function "
        f"ran, {span(call.record.t - publication.t)} after its begin and "
        f"{span(stored - call.record.t)} before its return: either it came before the store, "
        f"or {looker} overlooked what was stored"
    )
    return _Cause(Kind.LOST, why, call)


def _call_without_effect(index: QueueIndex, sleep: Sleep, call: Signal) -> _Cause:
    """A wake call on the right queue did not wake this sleeper."""
    rec, by = sleep.wait.record, caller_name(index.analysis, call)
    found, woke = call.record.sleepers, len(call.wakes)
    if call.record.t < rec.t_begin:
        why = (
            f"the wake call of {by} came {span(rec.t_begin - call.record.t)} before it was on "
            "the queue, and it did not look again (or cleared what the call had left)"
        )
        return _Cause(Kind.LOST, why, call)
    if past := _passed_over(call, sleep):
        why = f"the wake call of {by} found {found} asleep and woke {woke or 'nobody'}: {past}"
        return _Cause(Kind.LOST, why, call)
    if not call.wakes:
        why = f"the wake call of {by} found {found} asleep and woke nobody"
        if call.record.t < sleep.begin and rec.sleeps == 1:
            why = (
                f"the wake call of {by} came {span(sleep.begin - call.record.t)} before it slept, "
                "found it running and woke nobody: its state was set after its last look"
            )
        return _Cause(Kind.LOST, why, call)
    for wake in call.wakes:
        effect = index.effect(wake)
        if effect is None or index.backlog.took(wake):
            continue
        other = effect.wait
        if effect.again:
            woken = index.ledger.thread_name(other.record.tid)
            why = f"the wake call of {by} woke {woken} instead, which took nothing and slept again"
            return _Cause(Kind.WRONG_WAITER, why, call)
        if other.finished:
            # The wait that left with the wake-up is the one at fault.
            why = (
                f"the wake call of {by} woke {index.analysis.wait(sleep.queue, other)}, which left "
                f"{span(other.record.t_end - call.record.t)} later, took nothing and woke nobody"
            )
            return _Cause(Kind.NOT_HANDED_ON, why, call, other)
    again = next((wake for wake in call.wakes if index.backlog.claimed_before(wake)), None)
    if again:
        woken = index.ledger.thread_name(again.tid)
        why = f"the wake call of {by} woke {woken}, which had been woken already"
        return _Cause(Kind.LOST, why, call)
    why = f"the wake call of {by} woke {woke} of {found} asleep"
    if (publications := index.publications_for(call)) > 1:
        why += f" for {publications} publications"
    return _Cause(Kind.LOST, why, call)


def _passed_over(call: Signal, sleep: Sleep) -> str:
    """Why a call passed over a sleeper by its state. Only the last sleep's state is known."""
    if sleep.end < sleep.wait.record.t_slept or call.record.t < sleep.begin:
        return ""
    return passed_over(call, sleep.wait)


def _finding(index: QueueIndex, sleep: Sleep, publication: MarkRecord, cause: _Cause) -> Finding:
    """The finding: how long the thread slept after which publication, and why."""
    analysis = index.analysis
    publisher = analysis.waker(publication.tid, publication.context)
    text = (
        f"{analysis.wait(sleep.queue, sleep.wait)} {_how_long(analysis, sleep)} although "
        f"{publisher} {_published(index, sleep, publication)} it fell asleep; {cause.why}"
        f"{_reservation(index)}"
    )
    wait = cause.wait or sleep.wait
    rec = cause.call.record if cause.call else None
    # A call on another queue has no number on this one; the text names it.
    seq = rec.seq if rec and rec.queue == sleep.queue.id else 0
    waker = rec.waker if rec else publication.tid
    tid = wait.record.tid
    args = (tid, wait.number, seq, waker, publication.t)
    return Finding(cause.kind, sleep.queue.id, text, *args)


def _reservation(index: QueueIndex) -> str:
    """The condition of a finding if several functions publish: any taker may take any item."""
    functions = sorted({*map(index.ledger.function, index.backlog.published)} - {""})
    if len(functions) < 2:
        return ""
    return f"; this holds if {' and '.join(functions)} publish items of one kind"


def _published(index: QueueIndex, sleep: Sleep, publication: MarkRecord) -> str:
    """When an item was published, as far as that is known: before or after the sleep began."""
    stored = index.backlog.stored(publication)
    if publication.t < sleep.begin < stored:
        before, after = span(sleep.begin - publication.t), span(stored - sleep.begin)
        return f"published between {before} before and {after} after"
    when = "before" if sleep.begin >= stored else "after"
    return f"had published {span(abs(sleep.begin - stored))} {when}"


def _how_long(analysis: Analysis, sleep: Sleep) -> str:
    rec = sleep.wait.record
    slept = span(sleep.end - sleep.begin)
    if sleep.how is End.NONE:
        return f"has been asleep for {slept} and was never woken,"
    if sleep.how is End.WAKE:
        return f"slept {slept}"
    in_process = rec.t_foreign > sleep.begin and rec.foreign_context == Context.PROCESS
    by = analysis.ledger.thread_name(rec.foreign_tid)
    if sleep.wait.signalled:
        return f"slept {slept}, until a signal{f' sent by {by}' if in_process else ''} woke it,"
    if in_process:
        return f"slept {slept}, until {by} woke it past its queue,"
    # Only a timer wakes from an interrupt.
    return f"slept {slept}, until its timeout,"
