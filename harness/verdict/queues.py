# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The judge of plain wait queues, whose sleepers' conditions are unknown.

Marks replace the conditions: the user names the functions that publish and that take the
things that sleepers wait for. Something is ready as long as more was published than
taken; a sleep during that time was lost. The effect of a function becomes visible at some
moment between its begin and its return. If a wake call comes within that time, and a thread
looks in vain, the order of store and wake call is not known, and the finding names both.

Without marks only the behaviour of the threads can be judged. Suspicious behaviour is
then reported as a note, never as a fault.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from errno import EINTR, ETIMEDOUT

from kfabric.errors import counted
from kfabric.recording.records import Mark
from kfabric.verdict.backlog import wake_effects
from kfabric.verdict.enders import find_unending, not_judged
from kfabric.verdict.kinds import Finding, Kind, Verdict, pronoun
from kfabric.verdict.ledger import Ledger, Queue, Signal, Wait
from kfabric.verdict.missed_wakes import caller_name, find_missed_wakes, span
from kfabric.verdict.queue_index import QueueIndex, QueueRules
from kfabric.verdict.words import passed_over
from kfabric.verdict.works import find_stuck_works

__all__ = ["QueueRules", "judge"]

_Fault = tuple[Finding, Signal | None]
"""A finding, and the wake call at fault, if there was one."""

# It is known what ends such a wait.
_NEED_NO_MARKS = (Kind.DEADLOCK, Kind.STUCK)


def judge(ledger: Ledger, rules: QueueRules | None = None) -> Verdict:
    """Judge plain wait queues. Suspicions that are no certain faults are notes."""
    index = QueueIndex(ledger, rules or QueueRules())
    doubts, missing = _marks_not_called(ledger) if index.has_marks else ((), ())
    despite = bool(ledger.late or doubts) and {*ledger.doubts} == {*ledger.late}
    faults = [
        (finding, call)
        for finding, call in _faults(index)
        if not despite or finding.kind in _NEED_NO_MARKS
    ]
    reported = {id(call) for _, call in faults if call}
    notes = _find_overtaken(index, reported) if index.has_marks else _suspicions(index)
    verdict = Verdict(
        findings=tuple(finding for finding, _ in faults),
        doubts=ledger.doubts,
        matched=0,
        notes=tuple(notes),
        ended_by="the publication, unlock or event" if index.known else "the publication",
        published=_published(index),
    )
    reasons = Counter(not_judged(queue, wait) for queue in index.known for wait in queue.waits)
    if not index.has_marks:
        matched = reasons.pop("", 0)
        unjudged = _nothing_known(index) | dict(reasons.most_common())
        return replace(verdict, matched=matched, unjudged=unjudged, odd=_oddities(index))
    reasons += Counter(
        index.not_judged(queue, wait) for queue in index.queues for wait in queue.waits
    )
    judged = [
        wait for queue in index.queues for wait in queue.waits if not index.not_judged(queue, wait)
    ]
    return replace(
        verdict,
        doubts=(*ledger.doubts, *doubts),
        matched=reasons.pop("", 0),
        unaided=sum(wait.record.ret < 0 for wait in judged),
        past=sum(wait.unaided and wait.record.ret >= 0 for wait in judged),
        awake=sum(not wait.slept and wait.record.ret >= 0 for wait in judged),
        unjudged=dict(reasons.most_common()),
        missing=missing,
        despite=despite,
    )


def _published(index: QueueIndex) -> str:
    calls = index.backlog.published
    if not calls:
        return ""
    names = sorted({index.ledger.function(call) or "a marked function" for call in calls})
    verb = "was" if len(names) == 1 else "were"
    return f"{', '.join(names)} {verb} called {counted(len(calls), 'time')}"


def _nothing_known(index: QueueIndex) -> dict[str, int]:
    waits = sum(len(queue.waits) for queue in index.queues)
    if any(queue.waits for queue in index.known):
        words = "on queues that no mark explains"
    else:
        words = f"nothing says what {pronoun(waits)} waited for"
    return {words: waits} if waits else {}


def _oddities(index: QueueIndex) -> dict[str, int]:
    """What may be a fault, or not: the numbers of waits."""
    waits = [wait for queue in index.queues for wait in queue.waits]
    numbers = {
        "ended by a timer": sum(wait.record.ret == -ETIMEDOUT for wait in waits),
        "ended by a signal": sum(wait.record.ret == -EINTR for wait in waits),
        "never ended": sum(not wait.finished for wait in waits),
        "woken to sleep again": sum(
            any(effect.asleep and effect.again for effect in wake_effects(wait)) for wait in waits
        ),
    }
    return {words: number for words, number in numbers.items() if number}


def _marks_not_called(ledger: Ledger) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Doubts, and the marks without a call, if the recording knows its marks.

    Without any publication each wake-up looks unfounded, so that proves no fault.
    """
    uncalled = [name for name, calls in ledger.marked.items() if not calls]
    missing = tuple(f"{name}, which was marked, was never called" for name in uncalled)
    if ledger.marked and not any(mark.what == Mark.PUBLISH for mark in ledger.marks):
        return missing or ("no function that publishes was marked",), ()
    return (), missing


def _faults(index: QueueIndex) -> Iterator[_Fault]:
    waits: set[tuple[int, int, int]] = set()
    calls: set[int] = set()
    for finding, call in _all_faults(index):
        wait = (finding.queue, finding.tid, finding.wait)
        if wait in waits or id(call) in calls:
            continue
        waits.add(wait)
        if call:
            calls.add(id(call))
        yield finding, call


def _all_faults(index: QueueIndex) -> Iterator[_Fault]:
    """The checks, the most certain ones first."""
    yield from ((finding, None) for finding in find_unending(index))
    yield from ((finding, None) for finding in find_stuck_works(index))
    if index.has_marks:
        yield from find_missed_wakes(index)
        yield from _find_herd(index)
        yield from _find_spurious(index)
    yield from _find_never_ran(index)


def _finding(
    index: QueueIndex, kind: Kind, queue: Queue, wait: Wait, text: str, call: Signal | None
) -> Finding:
    seq, waker = (call.record.seq, call.record.waker) if call else (0, 0)
    return index.analysis.of_wait(kind, queue, wait, text, seq, waker)


def _find_spurious(index: QueueIndex) -> Iterator[_Fault]:
    """Wake calls without a publication that made a sleeper look in vain."""
    for queue in index.marked:
        waiters = {wait.record.tid for wait in queue.waits}
        for call in queue.every_signal():
            # A waiter may hand on its own wake-up.
            if call.record.waker in waiters:
                continue
            if index.publications_for(call) or index.backlog.ready(call.record.t):
                continue
            for effect in index.sleepers_woken(call):
                if index.in_vain(effect) and effect.wait.record.t_begin >= index.rules.since:
                    text = (
                        f"was woken by {caller_name(index.analysis, call)}, which had published "
                        "nothing; it looked in vain and slept again"
                    )
                    yield _finding(index, Kind.SPURIOUS, queue, effect.wait, text, call), call
                    break


def _find_herd(index: QueueIndex) -> Iterator[_Fault]:
    """One publication that woke several sleepers, of which at most one took it."""
    for queue in index.marked:
        for call in queue.every_signal():
            if index.publications_for(call) != 1:
                continue
            woken = index.sleepers_woken(call)
            losers = [effect for effect in woken if index.in_vain(effect)]
            if 2 <= len(woken) <= len(losers) + 1:
                tids = [effect.wait.record.tid for effect in woken]
                text = (
                    f"the wake call of {caller_name(index.analysis, call)} woke {len(woken)} on "
                    f"{index.analysis.object(queue.id)} for one publication: "
                    f"{', '.join(map(index.ledger.thread_name, tids))}"
                )
                first, rec = woken[0].wait.number, call.record
                args = (tids[0], first, rec.seq, rec.waker)
                yield Finding(Kind.HERD, queue.id, text, *args), call


def _find_never_ran(index: QueueIndex) -> Iterator[_Fault]:
    """A sleeper that was woken, and got no CPU for long."""
    for queue in (*index.queues, *index.known):
        for wait in queue.waits:
            for effect in wake_effects(wait):
                wake = effect.wake
                ran = wake.t_running or (0 if wait.finished else index.ledger.t_stop)
                length = ran - wake.t_waking
                if not effect.asleep or length <= index.rules.never_ran_ns:
                    continue
                when = "ran only {} later" if wake.t_running else "has been on no CPU for {}"
                by = index.analysis.waker(wake.waker, wake.context)
                text = (
                    f"was woken by {by}; the scheduler was asked at once, but the thread "
                    f"{when.format(span(length))}"
                )
                call = queue.signal_of(wake)
                seq, waker = (call.record.seq, call.record.waker) if call else (0, wake.waker)
                find = index.analysis.of_wait
                yield find(Kind.NEVER_RAN, queue, wait, text, seq, waker), None


def _find_overtaken(index: QueueIndex, reported: set[int]) -> Iterator[Finding]:
    """Sleepers that were woken rightly, but found nothing any more."""
    for queue in index.marked:
        for call in queue.every_signal():
            if id(call) in reported or not index.publications_for(call):
                continue
            for effect in index.sleepers_woken(call):
                if index.in_vain(effect) and not index.backlog.ready(effect.wake.t_running):
                    text = (
                        f"was woken rightly by {caller_name(index.analysis, call)}, and found "
                        "nothing: it had been taken by then"
                    )
                    yield _finding(index, Kind.OVERTAKEN, queue, effect.wait, text, call)


def _suspicions(index: QueueIndex) -> Iterator[Finding]:
    """Suspicious behaviour where the sleepers' conditions are unknown."""
    for queue in index.queues:
        for wait in queue.waits:
            if wait.record.t_begin < index.rules.since:
                continue
            if not wait.finished and (call := _passed_over(queue, wait)):
                t_stop = index.ledger.t_stop
                text = (
                    f"has been asleep for {span(t_stop - wait.record.t_slept)}; the wake call of "
                    f"{caller_name(index.analysis, call)} found {call.record.sleepers} asleep "
                    f"{span(t_stop - call.record.t)} ago and woke nobody"
                )
                if past := passed_over(call, wait):
                    text += f": {past}"
                yield _finding(index, Kind.LOST, queue, wait, text, call)
            vain = [effect for effect in wake_effects(wait) if effect.asleep and effect.again]
            if vain:
                call = queue.signal_of(vain[0].wake)
                by = f" by {caller_name(index.analysis, call)}" if call else ""
                often = "once" if len(vain) == 1 else f"{len(vain)} times"
                text = f"was woken{by} and slept again, {often}"
                yield _finding(index, Kind.SPURIOUS, queue, wait, text, call)


def _passed_over(queue: Queue, wait: Wait) -> Signal | None:
    """The last wake call that found a thread asleep and woke nobody."""
    calls = [
        call
        for call in queue.every_signal()
        if call.record.sleepers and not call.wakes and wait.asleep_at(call.record.t)
    ]
    return max(calls, key=lambda call: call.record.t, default=None)
