# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The checks: each looks for one kind of fault on one queue of the ledger."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from errno import EAGAIN

from harness.recording.records import Context, FClass, Why
from harness.verdict.kinds import Finding, Kind
from harness.verdict.ledger import Queue, Signal, Wait, Wake
from harness.verdict.words import Court, context_name, how_it_went, ms

_FORCED = frozenset((Why.ERROR, Why.OVERRUN, Why.SIGNAL, Why.LOST, Why.ACKED, Why.CLOSED))


def _forced(queue: Queue, signal: Signal) -> bool:
    """Does this publication concern a sleeper whatever it needs?

    To add to a counter, or to set it, is a signal call that only counts.
    """
    counts = queue.fclass == FClass.CNTR and signal.record.why == Why.SIGNAL
    return signal.record.why in _FORCED and not counts


def _one_is_enough(queue: Queue, signal: Signal) -> bool:
    """Does this publication wake one of the exclusive sleepers? Some concern all."""
    if queue.fclass != FClass.WAIT:
        return signal.record.why not in _FORCED
    # An exclusive set's: a failed operation is an entry as any other.
    return signal.record.why not in (Why.SIGNAL, Why.OVERRUN, Why.LOST)


def _exclusive(queue: Queue) -> dict[int, Wait]:
    """By its wake's identity, each exclusive sleeper that was woken."""
    return {id(wake): wait for wait in queue.waits if wait.record.exclusive for wake in wait.wakes}


def _owed(queue: Queue, signal: Signal, wait: Wait) -> bool:
    """Would this publication have to wake a waiter that it finds on the queue?"""
    rec = signal.record
    if 0 < rec.seq <= wait.record.seen:
        return False
    return _forced(queue, signal) or rec.have >= wait.record.need


def _going(queue: Queue) -> Iterator[tuple[Signal, list[Wait]]]:
    """Each signal, with the waits of its time that it did not wake.

    In the order of time: publications may overtake each other between number and wake.
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


def _on_queue(court: Court, signal: Signal, passed: list[Wait]) -> list[Wait]:
    """Those of the waits passed over that were on the queue, or should have been."""
    rec = signal.record
    asleep = [wait for wait in passed if wait.asleep_at(rec.t)]
    missing = rec.sleepers - len(signal.wakes)
    if missing <= 0:
        return [wait for wait in asleep if _off_queue(court, wait, rec.t)]
    if len(passed) > missing:
        return asleep
    # All of them, then; also those that fell asleep only afterwards.
    return [wait for wait in passed if wait in asleep or _asleep_after(wait, rec.t)]


def _asleep_after(wait: Wait, t: int) -> bool:
    """Was it awake at ``t``, on its way to sleep, and not woken since?"""
    return wait.record.t_slept > t and not any(wake.t_wake > t for wake in wait.wakes)


def _off_queue(court: Court, wait: Wait, t: int) -> bool:
    """Did it sleep for good without being on its queue?

    Only its first sleep is surely that; a reader may also sleep for its buffer's page.
    """
    rec = wait.record
    if rec.sleeps != 1 or any(wake.t_wake <= t for wake in wait.wakes):
        return False
    if not wait.finished:
        return court.ledger.t_stop - t > court.rules.late_ns
    return wait.timed_out or (rec.fclass == FClass.WAIT and wait.unaided)


def find_lost(court: Court, queue: Queue) -> Iterator[Finding]:
    """A publication, or a wake handed on, that did not wake a sleeper whom it concerned."""
    woken = _exclusive(queue)
    for signal, passed in _going(queue):
        if not passed:
            continue
        on_queue = _on_queue(court, signal, passed)
        owed = [wait for wait in on_queue if _owed(queue, signal, wait)]
        owed.sort(key=lambda wait: wait.record.t_slept)
        if _one_is_enough(queue, signal):
            first = [wait for wait in owed if wait.record.exclusive][:1]
            if any(id(wake) in woken for wake in signal.wakes):
                first = []
            owed = [wait for wait in owed if not wait.record.exclusive or wait in first]
        for wait in owed:
            yield court.find(
                Kind.LOST,
                queue,
                f"{court.wait(queue, wait)} should have been ended by "
                f"{court.event(signal)}, which found {signal.record.sleepers} asleep and "
                f"woke {len(signal.wakes)}; {how_it_went(wait, signal.record.t)}",
                wait,
                signal.record.seq,
            )


def find_not_asked(court: Court, queue: Queue) -> Iterator[Finding]:
    """A sleeper that was marked as woken, while nobody asked the scheduler to wake it."""
    for wait in queue.waits:
        rec, wake = wait.record, wait.wakes[-1] if wait.wakes else None
        if not wake or not 0 < rec.t_slept < wake.t_wake:
            continue
        # Something else woke it before, or at the same moment: it was awake.
        until = rec.t_end or court.ledger.t_stop
        if rec.t_foreign > rec.t_slept:
            until = rec.t_foreign
        asked = any(rec.t_slept < other.t_waking for other in wait.wakes)
        if asked or rec.foreign > 1 or until - wake.t_wake <= court.rules.late_ns:
            continue
        # Who ran without being woken was not seen to be woken: that is a doubt.
        if wake.t_running and not rec.foreign:
            continue
        yield court.find(
            Kind.LOST,
            queue,
            f"{court.wait(queue, wait)} was marked as woken{_by(court, queue, wake)}, but "
            f"the scheduler was not asked to wake it in the {ms(until - wake.t_wake)} that "
            "followed",
            wait,
            wake.seq,
        )


def find_late(court: Court, queue: Queue) -> Iterator[Finding]:
    """A wake that came long after its publication; scheduling plays no part."""
    for wait in queue.waits:
        for wake in wait.wakes:
            signal = queue.signal_of(wake)
            if signal and wake.t_wake - signal.record.t > court.rules.late_ns:
                yield court.find(
                    Kind.LATE,
                    queue,
                    f"{court.wait(queue, wait)} was woken "
                    f"{ms(wake.t_wake - signal.record.t)} after {court.event(signal)}, "
                    "which should have ended it",
                    wait,
                    wake.seq,
                )


def _times(queue: Queue) -> list[int]:
    """When something was published, in order; publications may overtake each other."""
    return sorted(signal.record.t for signal in queue.signals.values())


def _is_spurious(queue: Queue, wake: Wake) -> bool:
    """Is this a wake for which nothing was published?"""
    # What has no number is announced all the same: handed on, or a set that dies.
    return queue.signal_of(wake) is None


def find_spurious(court: Court, queue: Queue) -> Iterator[Finding]:
    """A sleeper that was woken, or returned, with nothing published."""
    times = _times(queue)
    for wait in queue.waits:
        text = _spurious_text(court, queue, wait, times)
        if text:
            expected = _next_event(court, queue, wait)
            yield court.find(
                Kind.SPURIOUS, queue, f"{court.wait(queue, wait)} {text}{expected}", wait
            )
    for wake in queue.strays:
        yield court.find(
            Kind.SPURIOUS,
            queue,
            f"{court.ledger.thread_name(wake.tid)} was woken on "
            f"{court.object(queue.id)} outside any wait",
            None,
            wake.seq,
        )


def _spurious_text(court: Court, queue: Queue, wait: Wait, times: Sequence[int]) -> str:
    """What is spurious about a wait, or nothing."""
    rec = wait.record
    if rec.t_begin < court.rules.since:
        return ""
    if any(_is_spurious(queue, wake) for wake in wait.wakes):
        return "was woken although nothing was published"
    # The number is noted before the look, which has therefore found what it counts.
    if wait.last_wake and 0 < rec.seq <= rec.seen:
        return f"was woken for publication {rec.seq}, behind which it had looked already"
    if queue.fclass != FClass.WAIT or not wait.succeeded:
        return ""
    # A call's own deadline wakes from the timer interrupt; nothing else does. A
    # signal to the thread may, and then what is ready by now is a good result.
    past = rec.foreign_context in (Context.PROCESS, Context.SOFTIRQ)
    if past and not _met_on_its_way(wait, times):
        return f"was woken past its queue by {court.ledger.thread_name(rec.foreign_tid)}"
    # Another thread may have read since what it has found.
    if wait.unaided and not rec.ready and _ready_before(times, wait):
        return "returned although it was not woken and nothing was ready"
    return ""


def _met_on_its_way(wait: Wait, times: Sequence[int]) -> bool:
    """Did a thread that a signal woke find something before it slept again?"""
    rec = wait.record
    if wait.unaided:
        return bool(rec.ready) or not _ready_before(times, wait)
    return rec.t_slept < rec.t_foreign <= rec.t_wake


def _next_event(court: Court, queue: Queue, wait: Wait) -> str:
    """The publication that should have ended a wait: the first after its begin."""
    for signal in queue.signals.values():
        rec = signal.record
        if rec.t > wait.record.t_begin and rec.seq > wait.record.seen:
            return f"; {court.event(signal)} should have ended it"
    return "; no publication followed"


def find_herd(court: Court, queue: Queue) -> Iterator[Finding]:
    """One entry woke several of those who are served one by one."""
    woken = _exclusive(queue)
    for signal in queue.every_signal():
        if not _one_is_enough(queue, signal):
            continue
        owners = [woken[id(wake)] for wake in signal.wakes if id(wake) in woken]
        if len(owners) <= 1:
            continue
        names = ", ".join(
            f"{court.ledger.thread_name(wait.record.tid)} (wait {wait.number})" for wait in owners
        )
        yield court.find(
            Kind.HERD,
            queue,
            f"{court.event(signal)} should have ended one wait on "
            f"{court.object(queue.id)} but woke {len(owners)}: {names}",
            owners[0],
            signal.record.seq,
        )


def find_wrong_waiter(court: Court, queue: Queue) -> Iterator[Finding]:
    """A wake for less than its waiter asked for, or from an object it is not on."""
    members = court.ledger.members.get(queue.id)
    for wait in queue.waits:
        for wake in wait.wakes:
            signal = queue.signal_of(wake)
            if not signal:
                continue
            rec = signal.record
            if rec.have < wait.record.need and not _forced(queue, signal):
                yield court.find(
                    Kind.WRONG_WAITER,
                    queue,
                    f"{court.wait(queue, wait)} needs {wait.record.need} but "
                    f"{court.event(signal)} woke it at {rec.have}",
                    wait,
                    wake.seq,
                )
            elif members and wake.source and wake.source not in (queue.id, *members):
                yield court.find(
                    Kind.WRONG_WAITER,
                    queue,
                    f"{court.wait(queue, wait)} was woken by {court.event(signal)}, "
                    "which is no member",
                    wait,
                    wake.seq,
                )


def find_timeout_ready(court: Court, queue: Queue) -> Iterator[Finding]:
    """A wait that nothing but its deadline ended, with something there to read."""
    times = _times(queue)
    for wait in queue.waits:
        if not _by_deadline(wait) or not _ready_before(times, wait):
            continue
        if not (_left_ready(queue, wait) or _found_ready(queue, wait, times)):
            continue
        yield court.find(
            Kind.TIMEOUT_READY,
            queue,
            f"{court.wait(queue, wait)} was ended by its deadline, not by a "
            f"wake-up, although something was ready{_last_event(court, queue, wait)}",
            wait,
        )


def _by_deadline(wait: Wait) -> bool:
    """Did nothing but its deadline wake it? A signal to the thread is another matter."""
    by_signal = wait.record.foreign_context in (Context.PROCESS, Context.SOFTIRQ)
    return wait.unaided and not by_signal and (wait.succeeded or wait.timed_out)


def _left_ready(queue: Queue, wait: Wait) -> bool:
    """Was something there when it returned with nothing?"""
    if queue.fclass == FClass.WAIT:
        # What a sleeper of an exclusive set finds is perhaps for one of the others.
        return bool(wait.record.ready) and not (wait.record.exclusive and wait.succeeded)
    # A counter is ready when it has changed, reached or not.
    return queue.fclass != FClass.CNTR and bool(wait.record.ready) and wait.timed_out


def _found_ready(queue: Queue, wait: Wait, times: Sequence[int]) -> bool:
    """Did a reader find, at its deadline, what nobody was on the way to?

    One that waits for more takes at its deadline what there is.
    """
    rec = wait.record
    if queue.fclass not in (FClass.CQ, FClass.EQ, FClass.CNTR) or not wait.succeeded:
        return False
    if queue.fclass != FClass.CNTR and (rec.need > 1 or not rec.ret):
        return False
    # Awake for another reason at last, it has perhaps seen it come.
    timer = rec.t_slept < rec.t_foreign and rec.foreign_context == Context.HARDIRQ
    if not timer or any(wake.t_wake > rec.t_slept for wake in wait.wakes):
        return False
    # What came before it slept it has perhaps found, and slept for its buffer's page.
    came = bisect_right(times, rec.t_foreign)
    if came and times[came - 1] <= rec.t_slept:
        return False
    return queue.fclass == FClass.CNTR or not any(
        _on_its_way(other, rec.t_begin, rec.t_foreign) for other in queue.waits if other is not wait
    )


def _on_its_way(wait: Wait, since: int, t: int) -> bool:
    """Had a thread been woken, that at ``t`` had not returned or slept again?"""
    rec = wait.record
    if wait.finished and rec.t_end <= t:
        return False
    return any(
        since < wake.t_wake <= t and not wake.t_wake < rec.t_slept <= t for wake in wait.wakes
    )


# How long a publisher may take from storing to signalling; only an excuse.
_STORE_NS = 1_000_000_000


def _ready_before(times: Sequence[int], wait: Wait) -> bool:
    """Was it ready before its last look? What is signalled only now excuses it."""
    end = wait.record.t_end
    looked = wait.record.t_foreign or end
    after = bisect_right(times, looked)
    return after == len(times) or times[after] >= end + _STORE_NS


def _last_event(court: Court, queue: Queue, wait: Wait) -> str:
    """The last publication before a wait's end."""
    before = [signal for signal in queue.signals.values() if signal.record.t < wait.record.t_end]
    return f"; {court.event(before[-1])} should have ended it" if before else ""


def find_not_handed_on(court: Court, queue: Queue) -> Iterator[Finding]:
    """A woken thread left without the entry and woke nobody else for it."""
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
            yield court.find(
                Kind.NOT_HANDED_ON,
                queue,
                f"{court.wait(queue, wait)} was woken by {court.event(signal)}, left with "
                f"{rec.ret} and woke nobody; {court.wait(queue, left[0])} should have "
                "been woken instead",
                wait,
                wake.seq,
            )


def _published(times: Sequence[int], begin: int, end: int) -> bool:
    """Was anything published in this time?"""
    return bisect_left(times, begin) < bisect_left(times, end)


def _left_without(times: Sequence[int], wait: Wait) -> bool:
    """Did a woken thread leave with an error?"""
    rec = wait.record
    if rec.ret >= 0:
        return False
    # It was freed, and had found nothing: what is there may have come since.
    return rec.ret != -EAGAIN or not _published(times, rec.t_end, rec.t_end + _STORE_NS)


def _left_it_there(queue: Queue, times: Sequence[int], wait: Wait, signal: Signal) -> bool:
    """Is what a reader was woken for, alone in its queue, still there?"""
    rec = wait.record
    if queue.fclass not in (FClass.CQ, FClass.EQ) or signal.record.have != 1:
        return False
    return not _published(times, signal.record.t + 1, rec.t_end + _STORE_NS)


def find_never_ran(court: Court, queue: Queue) -> Iterator[Finding]:
    """A sleeper that the scheduler was asked to wake, and that did not run for long."""
    for wait in queue.waits:
        for wake in wait.wakes:
            ran = _ran_at(court, wait, wake)
            if ran - wake.t_waking <= court.rules.never_ran_ns:
                continue
            when = f"ran only {ms(ran - wake.t_waking)} later"
            if not wake.t_running:
                when = f"was on no CPU in the {ms(ran - wake.t_waking)} that were recorded"
            yield court.find(
                Kind.NEVER_RAN,
                queue,
                f"{court.wait(queue, wait)} was woken{_by(court, queue, wake)}; the scheduler "
                f"was asked at once, but the thread {when}",
                wait,
                wake.seq,
            )


def _ran_at(court: Court, wait: Wait, wake: Wake) -> int:
    """When a thread that slept ran after a wake: at the latest now; 0 if it had not slept."""
    if not wake.t_waking:
        return 0
    if wake.t_waking < wait.record.t_slept < wake.t_running:
        # It had not slept yet, and has slept since: it was on its CPU all the time.
        return 0
    if wake.t_running:
        return wake.t_running
    # A thread that is awake, and spins somewhere, does not have to be put on a CPU.
    asleep = 0 < wait.record.t_slept < wake.t_waking
    awake = any(other.t_running > wait.record.t_slept for other in wait.wakes)
    if wait.finished or awake or not asleep:
        return 0
    return court.ledger.t_stop


def _by(court: Court, queue: Queue, wake: Wake) -> str:
    """What a wake was for."""
    signal = queue.signal_of(wake)
    return f" by {court.event(signal)}" if signal else ""


def find_wrong_context(court: Court, queue: Queue) -> Iterator[Finding]:
    """A publication from a context that the rules do not allow for its object."""
    allowed = court.rules.contexts
    for signal in queue.every_signal():
        rec = signal.record
        if rec.why == Why.HANDON:
            continue
        wanted = allowed.get(rec.source, allowed.get(queue.id))
        if wanted is None or rec.context == Context.UNKNOWN or Context(rec.context) in wanted:
            continue
        yield court.find(
            Kind.WRONG_CONTEXT,
            queue,
            f"{court.event(signal)} came from {court.waker(rec.waker, rec.context)} and woke "
            f"{len(signal.wakes)} of {rec.sleepers} asleep on {court.object(queue.id)}; allowed: "
            f"{', '.join(sorted(map(context_name, wanted)))}",
            None,
            rec.seq,
        )


def overtaken(queue: Queue) -> list[Wait]:
    """Waits that were woken for something that another reader had taken by then."""
    return [
        wait
        for wait in queue.waits
        if wait.succeeded
        and not wait.record.ready
        and wait.record.ended not in (Why.NONE, Why.SIGNAL)
        and queue.fclass == FClass.WAIT
        and not any(_is_spurious(queue, wake) for wake in wait.wakes)
    ]


def find_overtaken(court: Court, queue: Queue) -> Iterator[Finding]:
    """Told, and no fault: somebody else was faster."""
    for wait in overtaken(queue):
        wake = wait.last_wake
        by = _by(court, queue, wake) if wake else ""
        yield court.find(
            Kind.OVERTAKEN,
            queue,
            f"{court.wait(queue, wait)} was woken rightly{by}, and found nothing: another "
            "thread had read it by then",
            wait,
            wait.record.seq,
        )


CHECKS: tuple[Callable[[Court, Queue], Iterator[Finding]], ...] = (
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
