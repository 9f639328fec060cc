# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The checks: each looks for one kind of fault on one queue of the ledger."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from errno import EAGAIN

from kfabric.recording.records import Context, FClass, WakeRecord, Why
from kfabric.verdict.kinds import Finding, Kind
from kfabric.verdict.ledger import Queue, Signal, Wait
from kfabric.verdict.words import Analysis, context_name, how_it_ended, ms

_FORCED = frozenset((Why.ERROR, Why.OVERRUN, Why.SIGNAL, Why.LOST, Why.ACKED, Why.CLOSED))


def _forced(queue: Queue, signal: Signal) -> bool:
    """Does this publication concern a sleeper, however much it needs?

    A signal call on a counter only adds to it or sets it, so it does not.
    """
    counts = queue.fclass == FClass.CNTR and signal.record.why == Why.SIGNAL
    return signal.record.why in _FORCED and not counts


def _one_is_enough(queue: Queue, signal: Signal) -> bool:
    """Does this publication wake only one of the exclusive sleepers?"""
    if queue.fclass != FClass.WAIT:
        return signal.record.why not in _FORCED
    # On an exclusive set a failed operation is an entry like any other.
    return signal.record.why not in (Why.SIGNAL, Why.OVERRUN, Why.LOST)


def _exclusive(queue: Queue) -> dict[int, Wait]:
    """The exclusive sleepers that were woken, by the identity of their wake."""
    return {id(wake): wait for wait in queue.waits if wait.record.exclusive for wake in wait.wakes}


def _owed(queue: Queue, signal: Signal, wait: Wait) -> bool:
    """Must this publication wake a waiter that it finds on the queue?"""
    rec = signal.record
    if 0 < rec.seq <= wait.record.seen:
        return False
    return _forced(queue, signal) or rec.have >= wait.record.need


def _going(queue: Queue) -> Iterator[tuple[Signal, list[Wait]]]:
    """Each signal with the open waits that it did not wake, in order of time.

    Publications may overtake each other between number and wake.
    """
    waits, at = queue.waits, 0
    going: list[Wait] = []
    for signal in sorted(queue.every_signal(), key=lambda signal: signal.record.t):
        t = signal.record.t
        while at < len(waits) and waits[at].record.t_begin <= t:
            going.append(waits[at])
            at += 1
        going = [wait for wait in going if not wait.finished or wait.record.t_end > t]
        woken = {id(wake) for wake in signal.wakes}
        yield signal, [w for w in going if not any(id(wake) in woken for wake in w.wakes)]


def _on_queue(analysis: Analysis, signal: Signal, passed: list[Wait]) -> list[Wait]:
    """The waits among ``passed`` that were on the queue, or should have been."""
    rec = signal.record
    asleep = [wait for wait in passed if wait.asleep_at(rec.t)]
    missing = rec.sleepers - len(signal.wakes)
    if missing <= 0:
        return [wait for wait in asleep if _off_queue(analysis, wait, rec.t)]
    if len(passed) > missing:
        return asleep
    # The signal found at least as many as there are, so all of them were on the queue;
    # also those that were on their way to sleep, and were not woken since.
    return [
        wait
        for wait in passed
        if wait in asleep
        or (wait.record.t_slept > rec.t and not any(wake.t_wake > rec.t for wake in wait.wakes))
    ]


def _off_queue(analysis: Analysis, wait: Wait, t: int) -> bool:
    """Did it sleep to its end without being on its queue?

    Only the first sleep is certainly on the queue, unless another thread ended it: a
    reader may also sleep until another reader has left its queue.
    """
    rec = wait.record
    if rec.t_foreign > t and rec.foreign_context in (Context.PROCESS, Context.SOFTIRQ):
        return False
    if rec.sleeps != 1 or any(wake.t_wake <= t for wake in wait.wakes):
        return False
    if not wait.finished:
        return analysis.ledger.t_stop - t > analysis.rules.late_ns
    return wait.timed_out or (rec.fclass == FClass.WAIT and wait.unaided)


def find_lost(analysis: Analysis, queue: Queue) -> Iterator[Finding]:
    """A publication, or a wake handed on, that did not wake a sleeper that it concerned."""
    woken = _exclusive(queue)
    for signal, passed in _going(queue):
        if not passed:
            continue
        on_queue = _on_queue(analysis, signal, passed)
        owed = [wait for wait in on_queue if _owed(queue, signal, wait)]
        owed.sort(key=lambda wait: wait.record.t_slept)
        if _one_is_enough(queue, signal):
            first = [wait for wait in owed if wait.record.exclusive][:1]
            if any(id(wake) in woken for wake in signal.wakes):
                first = []
            owed = [wait for wait in owed if not wait.record.exclusive or wait in first]
        for wait in owed:
            rec = signal.record
            text = (
                f"should have been ended by {analysis.event(signal)}, which found "
                f"{rec.sleepers} asleep and woke {len(signal.wakes)}; {how_it_ended(wait, rec.t)}"
            )
            yield analysis.of_wait(Kind.LOST, queue, wait, text, rec.seq)


def find_not_asked(analysis: Analysis, queue: Queue) -> Iterator[Finding]:
    """A sleeper that was marked as woken, without a request to the scheduler to wake it."""
    for wait in queue.waits:
        rec, wake = wait.record, wait.wakes[-1] if wait.wakes else None
        if not wake or not 0 < rec.t_slept < wake.t_wake:
            continue
        # If something else woke it before, or at the same moment, it was awake.
        until = rec.t_end or analysis.ledger.t_stop
        if rec.t_foreign > rec.t_slept:
            until = rec.t_foreign
        asked = any(rec.t_slept < other.t_waking for other in wait.wakes)
        if asked or rec.foreign > 1 or until - wake.t_wake <= analysis.rules.late_ns:
            continue
        # A thread that ran unwoken was woken unseen: that is a doubt, no fault.
        if wake.t_running and not rec.foreign:
            continue
        text = (
            f"was marked as woken{_by(analysis, queue, wake)}, but the scheduler was not "
            f"asked to wake it in the {ms(until - wake.t_wake)} that followed"
        )
        yield analysis.of_wait(Kind.LOST, queue, wait, text, wake.seq)


def find_late(analysis: Analysis, queue: Queue) -> Iterator[Finding]:
    """A wake that came long after its publication; the time to run does not count."""
    for wait in queue.waits:
        for wake in wait.wakes:
            signal = queue.signal_of(wake)
            if signal and wake.t_wake - signal.record.t > analysis.rules.late_ns:
                text = (
                    f"was woken {ms(wake.t_wake - signal.record.t)} after "
                    f"{analysis.event(signal)}, which should have ended it"
                )
                yield analysis.of_wait(Kind.LATE, queue, wait, text, wake.seq)


def _times(queue: Queue) -> list[int]:
    return sorted(signal.record.t for signal in queue.signals.values())


def _is_spurious(queue: Queue, wake: WakeRecord) -> bool:
    # Wakes without a number have a signal, too: handed on, or the end of a set.
    return queue.signal_of(wake) is None


def find_spurious(analysis: Analysis, queue: Queue) -> Iterator[Finding]:
    """A sleeper that was woken, or returned, with nothing published."""
    times = _times(queue)
    for wait in queue.waits:
        text = _spurious_text(analysis, queue, wait, times)
        if text:
            expected = _next_event(analysis, queue, wait)
            yield analysis.of_wait(Kind.SPURIOUS, queue, wait, text + expected)
    for wake in queue.strays:
        thread, on = analysis.ledger.thread_name(wake.tid), analysis.object(queue.id)
        text = f"{thread} was woken on {on} outside any wait"
        yield Finding(Kind.SPURIOUS, queue.id, text, seq=wake.seq)


def _spurious_text(analysis: Analysis, queue: Queue, wait: Wait, times: Sequence[int]) -> str:
    """Why a wait is spurious; empty if it is not."""
    rec = wait.record
    if rec.t_begin < analysis.rules.since:
        return ""
    if any(_is_spurious(queue, wake) for wake in wait.wakes):
        return "was woken although nothing was published"
    # The number is noted before the look, so the look finds everything that it counts.
    if wait.last_wake and 0 < rec.seq <= rec.seen:
        return f"was woken for publication {rec.seq}, after which it had looked already"
    if queue.fclass != FClass.WAIT or not wait.succeeded:
        return ""
    # Only the call's own deadline wakes from the timer interrupt. A signal to the
    # thread wakes from elsewhere; then anything that is ready by now is a good result.
    past = rec.foreign_context in (Context.PROCESS, Context.SOFTIRQ)
    # The thread may also be woken when it is about to sleep.
    if not rec.ended:
        found = bool(rec.ready) or not _ready_before(times, wait)
    else:
        # A thread that its queue has woken may be woken again before it sees the mark.
        found = rec.t_slept < rec.t_foreign <= rec.t_wake or 0 < rec.t_waking < rec.t_foreign
    if past and not found:
        return f"was woken past its queue by {analysis.ledger.thread_name(rec.foreign_tid)}"
    # Another thread may have read since the entry that this one found.
    if wait.unaided and not rec.ready and _ready_before(times, wait):
        return "returned although it was not woken and nothing was ready"
    return ""


def _next_event(analysis: Analysis, queue: Queue, wait: Wait) -> str:
    """The publication that should have ended a wait: the first one after its begin."""
    for signal in queue.signals.values():
        rec = signal.record
        if rec.t > wait.record.t_begin and rec.seq > wait.record.seen:
            return f"; {analysis.event(signal)} should have ended it"
    return "; no publication followed"


def find_herd(analysis: Analysis, queue: Queue) -> Iterator[Finding]:
    """One entry that woke several exclusive sleepers."""
    woken = _exclusive(queue)
    for signal in queue.every_signal():
        if not _one_is_enough(queue, signal):
            continue
        owners = [woken[id(wake)] for wake in signal.wakes if id(wake) in woken]
        if len(owners) <= 1:
            continue
        names = ", ".join(
            f"{analysis.ledger.thread_name(wait.record.tid)} (wait {wait.number})"
            for wait in owners
        )
        text = (
            f"{analysis.event(signal)} should have ended one wait on "
            f"{analysis.object(queue.id)} but woke {len(owners)}: {names}"
        )
        first = owners[0]
        tid, seq = first.record.tid, signal.record.seq
        yield Finding(Kind.HERD, queue.id, text, tid, first.number, seq)


def find_wrong_waiter(analysis: Analysis, queue: Queue) -> Iterator[Finding]:
    """A wake for fewer entries than the waiter needs, or from an object outside its set."""
    members = analysis.ledger.members.get(queue.id)
    for wait in queue.waits:
        for wake in wait.wakes:
            signal = queue.signal_of(wake)
            if not signal:
                continue
            rec = signal.record
            if rec.have < wait.record.need and not _forced(queue, signal):
                text = (
                    f"needs {wait.record.need} but {analysis.event(signal)} woke it at {rec.have}"
                )
            elif members and wake.source and wake.source not in (queue.id, *members):
                text = f"was woken by {analysis.event(signal)}, which is no member"
            else:
                continue
            yield analysis.of_wait(Kind.WRONG_WAITER, queue, wait, text, wake.seq)


def find_timeout_ready(analysis: Analysis, queue: Queue) -> Iterator[Finding]:
    """A wait that only its deadline ended, while something was ready."""
    times = _times(queue)
    for wait in queue.waits:
        if not _by_deadline(wait) or not _ready_before(times, wait):
            continue
        if not (_left_ready(queue, wait) or _found_ready(queue, wait, times)):
            continue
        text = "was ended by its deadline, not by a wake-up, although something was ready"
        signals = queue.signals.values()
        if before := [signal for signal in signals if signal.record.t < wait.record.t_end]:
            text += f"; {analysis.event(before[-1])} should have ended it"
        yield analysis.of_wait(Kind.TIMEOUT_READY, queue, wait, text)


def _by_deadline(wait: Wait) -> bool:
    """Did only its deadline end it, and no signal to the thread?"""
    by_signal = wait.record.foreign_context in (Context.PROCESS, Context.SOFTIRQ)
    return wait.unaided and not by_signal and (wait.succeeded or wait.timed_out)


def _left_ready(queue: Queue, wait: Wait) -> bool:
    """Was something ready when it returned with nothing?"""
    if queue.fclass == FClass.WAIT:
        # The entry in an exclusive set may be for another sleeper.
        return bool(wait.record.ready) and not (wait.record.exclusive and wait.succeeded)
    # A counter is ready once it has changed, even below the threshold.
    return queue.fclass != FClass.CNTR and bool(wait.record.ready) and wait.timed_out


def _found_ready(queue: Queue, wait: Wait, times: Sequence[int]) -> bool:
    """Did a reader find, at its deadline, an entry that no woken thread was about to read?

    A reader that waits for several entries takes those that it finds at its deadline.
    """
    rec = wait.record
    if queue.fclass not in (FClass.CQ, FClass.EQ, FClass.CNTR) or not wait.succeeded:
        return False
    if queue.fclass != FClass.CNTR and (rec.need > 1 or not rec.ret):
        return False
    # If its last wake was not the timer, it may have looked when the entry came.
    timer = rec.t_slept < rec.t_foreign and rec.foreign_context == Context.HARDIRQ
    if not timer or any(wake.t_wake > rec.t_slept for wake in wait.wakes):
        return False
    # It may have found an earlier entry, and slept while its buffer was paged in.
    came = bisect_right(times, rec.t_foreign)
    if came and times[came - 1] <= rec.t_slept:
        return False
    return queue.fclass == FClass.CNTR or not any(
        _on_its_way(other, rec.t_begin, rec.t_foreign) for other in queue.waits if other is not wait
    )


def _on_its_way(wait: Wait, since: int, t: int) -> bool:
    """Was a thread woken that by ``t`` had neither returned nor slept again?"""
    rec = wait.record
    if wait.finished and rec.t_end <= t:
        return False
    return any(
        since < wake.t_wake <= t and not wake.t_wake < rec.t_slept <= t for wake in wait.wakes
    )


# The longest time from storing to signalling; it only ever excuses a wait.
_STORE_NS = 1_000_000_000


def _ready_before(times: Sequence[int], wait: Wait) -> bool:
    """Was something ready before its last look? A signal after that look excuses the wait."""
    end = wait.record.t_end
    looked = wait.record.t_foreign or end
    after = bisect_right(times, looked)
    return after == len(times) or times[after] >= end + _STORE_NS


def find_not_handed_on(analysis: Analysis, queue: Queue) -> Iterator[Finding]:
    """A woken thread that left without the entry, and did not wake another one for it."""
    times = _times(queue)
    for wait in queue.waits:
        wake, rec = wait.last_wake, wait.record
        if not rec.exclusive or not wake or not rec.ready:
            continue
        signal = queue.signal_of(wake)
        if not signal or not _one_is_enough(queue, signal):
            continue
        if not (_left_without(times, wait) or _left_it_there(queue, times, wait, signal)):
            continue
        handed = any(
            wake.t_wake < other.record.t <= rec.t_end
            and other.record.why == Why.HANDON
            and other.record.waker == rec.tid
            for other in queue.others
        )
        left = [other for other in queue.waits if other.asleep_at(rec.t_end)]
        if left and not handed:
            text = (
                f"was woken by {analysis.event(signal)}, left with {rec.ret} and woke nobody; "
                f"{analysis.wait(queue, left[0])} should have been woken instead"
            )
            yield analysis.of_wait(Kind.NOT_HANDED_ON, queue, wait, text, wake.seq)


def _published(times: Sequence[int], begin: int, end: int) -> bool:
    return bisect_left(times, begin) < bisect_left(times, end)


def _left_without(times: Sequence[int], wait: Wait) -> bool:
    rec = wait.record
    if rec.ret >= 0:
        return False
    # Its queue was freed while it was empty: an entry may have come since.
    return rec.ret != -EAGAIN or not _published(times, rec.t_end, rec.t_end + _STORE_NS)


def _left_it_there(queue: Queue, times: Sequence[int], wait: Wait, signal: Signal) -> bool:
    """Is the only entry of the queue, for which the reader was woken, still there?"""
    rec = wait.record
    if queue.fclass not in (FClass.CQ, FClass.EQ) or signal.record.have != 1:
        return False
    # A later publication that woke before this one has stored an entry, too.
    later = queue.signals.values()
    if any(s.record.seq > signal.record.seq and s.record.t < signal.record.t for s in later):
        return False
    return not _published(times, signal.record.t + 1, rec.t_end + _STORE_NS)


def find_never_ran(analysis: Analysis, queue: Queue) -> Iterator[Finding]:
    """A sleeper that did not run for long after the scheduler was asked to wake it."""
    for wait in queue.waits:
        for wake in wait.wakes:
            ran = _ran_at(analysis, wait, wake)
            if ran - wake.t_waking <= analysis.rules.never_ran_ns:
                continue
            when = f"ran only {ms(ran - wake.t_waking)} later"
            if not wake.t_running:
                when = f"was on no CPU in the {ms(ran - wake.t_waking)} that were recorded"
            by = _by(analysis, queue, wake)
            text = f"was woken{by}; the scheduler was asked at once, but the thread {when}"
            yield analysis.of_wait(Kind.NEVER_RAN, queue, wait, text, wake.seq)


def _ran_at(analysis: Analysis, wait: Wait, wake: WakeRecord) -> int:
    """When a sleeper ran after a wake, or the recording's end; 0 if it had not slept."""
    if not wake.t_waking:
        return 0
    if wake.t_waking < wait.record.t_slept < wake.t_running:
        # It went to sleep after the wake, so it was on its CPU when it was woken.
        return 0
    if wake.t_running:
        return wake.t_running
    # A thread that is awake need not be put on a CPU.
    asleep = 0 < wait.record.t_slept < wake.t_waking
    awake = any(other.t_running > wait.record.t_slept for other in wait.wakes)
    if wait.finished or awake or not asleep:
        return 0
    return analysis.ledger.t_stop


def _by(analysis: Analysis, queue: Queue, wake: WakeRecord) -> str:
    signal = queue.signal_of(wake)
    return f" by {analysis.event(signal)}" if signal else ""


def find_wrong_context(analysis: Analysis, queue: Queue) -> Iterator[Finding]:
    """A publication from a context that the rules do not allow for its object."""
    allowed = analysis.rules.contexts
    for signal in queue.every_signal():
        rec = signal.record
        if rec.why == Why.HANDON:
            continue
        wanted = allowed.get(rec.source, allowed.get(queue.id))
        if wanted is None or rec.context == Context.UNKNOWN or Context(rec.context) in wanted:
            continue
        text = (
            f"{analysis.event(signal)} came from {analysis.waker(rec.waker, rec.context)} and "
            f"woke {len(signal.wakes)} of {rec.sleepers} asleep on {analysis.object(queue.id)}; "
            f"allowed: {', '.join(sorted(map(context_name, wanted)))}"
        )
        yield Finding(Kind.WRONG_CONTEXT, queue.id, text, seq=rec.seq)


def overtaken(queue: Queue) -> list[Wait]:
    """Waits that were woken for an entry that another reader had taken by then."""
    return [
        wait
        for wait in queue.waits
        if wait.succeeded
        and not wait.record.ready
        and wait.record.ended not in (Why.NONE, Why.SIGNAL)
        and queue.fclass == FClass.WAIT
        and not any(_is_spurious(queue, wake) for wake in wait.wakes)
    ]


def find_overtaken(analysis: Analysis, queue: Queue) -> Iterator[Finding]:
    """Waits that found nothing because another reader was faster; notes, no faults."""
    for wait in overtaken(queue):
        wake = wait.last_wake
        by = _by(analysis, queue, wake) if wake else ""
        text = f"was woken rightly{by}, and found nothing: another thread had read it by then"
        yield analysis.of_wait(Kind.OVERTAKEN, queue, wait, text, wait.record.seq)


CHECKS: tuple[Callable[[Analysis, Queue], Iterator[Finding]], ...] = (
    find_lost,
    find_not_asked,
    find_spurious,
    find_late,
    find_herd,
    find_wrong_waiter,
    find_timeout_ready,
    find_not_handed_on,
    find_never_ran,
    find_wrong_context,
)
