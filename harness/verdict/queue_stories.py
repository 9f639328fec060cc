# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The short stories that the verdict on plain wait queues tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.recording.records import Context, MarkRecord
from harness.verdict.backlog import End, Sleep, Strike
from harness.verdict.kinds import Finding, Kind
from harness.verdict.ledger import Queue, Signal, Wait, Wake
from harness.verdict.words import Court


def span(ns: int) -> str:
    """A length of time, in the unit that suits it."""
    if ns < 1_000_000:
        return f"{ns / 1e3:.0f} µs"
    if ns < 10_000_000_000:
        return f"{ns / 1e6:.1f} ms"
    return f"{ns / 1e9:.0f} s"


def _caller(court: Court, call: Signal) -> str:
    return court.waker(call.record.waker, call.record.context)


def _find(
    kind: Kind, queue: Queue, text: str, wait: Wait, call: Signal | None, waker: int = 0
) -> Finding:
    return Finding(
        kind=kind,
        queue=queue.id,
        text=text,
        tid=wait.record.tid,
        wait=wait.number,
        seq=call.record.seq if call else 0,
        waker=call.record.waker if call else waker,
    )


@dataclass(frozen=True, slots=True)
class Told:
    """A sleep, and the publication for which nobody ended it (in time)."""

    court: Court
    sleep: Sleep
    publication: MarkRecord

    def _find(
        self, kind: Kind, why: str, call: Signal | None, other: Wait | None = None
    ) -> Finding:
        """The one story in its variants: who slept beside what, and why."""
        text = f"{self._slept()}; {why}"
        wait = other or self.sleep.wait
        return _find(kind, self.sleep.queue, text, wait, call, self.publication.tid)

    def _slept(self) -> str:
        court, sleep, mark = self.court, self.sleep, self.publication
        publisher = court.waker(mark.tid, mark.context)
        return (
            f"{court.wait(sleep.queue, sleep.wait)} {self._how_long()} although "
            f"{publisher} had published {self._when()}"
        )

    def _how_long(self) -> str:
        sleep, rec = self.sleep, self.sleep.wait.record
        slept = span(sleep.end - sleep.begin)
        if sleep.how is End.NONE:
            return f"has been asleep for {slept} and was never woken,"
        if sleep.how is End.WAKE:
            return f"slept {slept}"
        if rec.t_foreign <= sleep.begin or rec.foreign_context != Context.PROCESS:
            # Nothing but a timer wakes from an interrupt.
            return f"slept {slept}, until its timeout,"
        by = self.court.ledger.thread_name(rec.foreign_tid)
        return f"slept {slept}, until {by} woke it past its queue,"

    def _when(self) -> str:
        before = self.sleep.begin - self.publication.t
        if before >= 0:
            return f"{span(before)} before it fell asleep"
        return f"{span(-before)} after it fell asleep"

    def late(self, wake: Wake, call: Signal | None) -> Finding:
        """Woken at last."""
        took = span(wake.t_wake - self.publication.t)
        by = self.court.waker(wake.waker, wake.context)
        return self._find(Kind.LATE, f"the wake call of {by} came {took} after that", call)

    def no_call(self) -> Finding:
        """Published in silence."""
        return self._find(Kind.LOST, "no wake call followed the publication", None)

    def early(self, call: Signal) -> Finding:
        """Woken first."""
        ahead = span(self.publication.t - call.record.t)
        why = (
            f"{_caller(self.court, call)} had woken it {ahead} before the publication, "
            "so it looked, found nothing and slept again"
        )
        return self._find(Kind.LOST, why, call)

    def other_queue(self, call: Signal) -> Finding:
        """Woken elsewhere."""
        where = self.court.object(call.record.queue)
        why = f"the wake call of {_caller(self.court, call)} went to {where}"
        if not call.wakes:
            return self._find(Kind.LOST, f"{why}, where it woke nobody", call)
        woken = self.court.ledger.thread_name(call.wakes[0].tid)
        return self._find(Kind.WRONG_WAITER, f"{why} and woke {woken}", call)

    def too_early(self, call: Signal) -> Finding:
        """Nobody there yet."""
        ahead = span(self.sleep.wait.record.t_begin - call.record.t)
        why = (
            f"the wake call of {_caller(self.court, call)} came {ahead} before it was on the "
            "queue, and it did not look again (or cleared what the call had left)"
        )
        return self._find(Kind.LOST, why, call)

    def wiped_out(self, call: Signal) -> Finding:
        """Woken between its look and its sleep."""
        ahead = span(max(self.sleep.begin - call.record.t, 0))
        why = (
            f"{_caller(self.court, call)} woke it {ahead} before it slept, and it slept all "
            "the same: its state was set after its last look"
        )
        return self._find(Kind.LOST, why, call)

    def woke_nobody(self, call: Signal) -> Finding:
        """A call that found it, without effect."""
        found = call.record.sleepers
        why = f"the wake call of {_caller(self.court, call)} found {found} asleep and woke nobody"
        return self._find(Kind.LOST, why, call)

    def too_few(self, call: Signal, publications: int) -> Finding:
        """Fewer wakes than things."""
        found, woke = call.record.sleepers, len(call.wakes)
        why = f"the wake call of {_caller(self.court, call)} woke {woke} of {found} asleep"
        if publications > 1:
            why += f" for {publications} publications"
        return self._find(Kind.LOST, why, call)

    def wrong_waiter(self, call: Signal, other: Wait) -> Finding:
        """Somebody else was woken, who had no use for it."""
        woken = self.court.ledger.thread_name(other.record.tid)
        why = (
            f"the wake call of {_caller(self.court, call)} woke {woken} instead, which took "
            "nothing and slept again"
        )
        return self._find(Kind.WRONG_WAITER, why, call)

    def not_handed_on(self, call: Signal, other: Wait) -> Finding:
        """Somebody else was woken, and left with the wake-up. That one is accused."""
        why = (
            f"the wake call of {_caller(self.court, call)} woke "
            f"{self.court.wait(self.sleep.queue, other)}, which left "
            f"{span(other.record.t_end - call.record.t)} later, took nothing and woke nobody"
        )
        return self._find(Kind.NOT_HANDED_ON, why, call, other)


def spurious(court: Court, queue: Queue, wait: Wait, call: Signal) -> Finding:
    """Woken with nothing published."""
    text = (
        f"{court.wait(queue, wait)} was woken by {_caller(court, call)}, which had published "
        "nothing; it looked in vain and slept again"
    )
    return _find(Kind.SPURIOUS, queue, text, wait, call)


def herd(court: Court, queue: Queue, waits: Sequence[Wait], call: Signal) -> Finding:
    """Several woken for one."""
    names = ", ".join(court.ledger.thread_name(wait.record.tid) for wait in waits)
    text = (
        f"the wake call of {_caller(court, call)} woke {len(waits)} on "
        f"{court.object(queue.id)} for one publication: {names}"
    )
    return _find(Kind.HERD, queue, text, waits[0], call)


def never_ran(court: Court, queue: Queue, strike: Strike, ran: int) -> Finding:
    """Woken, and left waiting for a CPU."""
    wake = strike.wake
    length = span(ran - wake.t_waking)
    when = f"ran only {length} later" if wake.t_running else f"has been on no CPU for {length}"
    text = (
        f"{court.wait(queue, strike.wait)} was woken by {court.waker(wake.waker, wake.context)}; "
        f"the scheduler was asked at once, but the thread {when}"
    )
    return _find(Kind.NEVER_RAN, queue, text, strike.wait, queue.signal_of(wake), wake.waker)


def overtaken(court: Court, queue: Queue, wait: Wait, call: Signal) -> Finding:
    """Told, and no fault."""
    text = (
        f"{court.wait(queue, wait)} was woken rightly by {_caller(court, call)}, and found "
        "nothing: it had been taken by then"
    )
    return _find(Kind.OVERTAKEN, queue, text, wait, call)


def passed_over(court: Court, queue: Queue, wait: Wait, call: Signal, t_stop: int) -> Finding:
    """Asleep for ever, and a wake call has been there."""
    text = (
        f"{court.wait(queue, wait)} has been asleep for {span(t_stop - wait.record.t_slept)}; "
        f"the wake call of {_caller(court, call)} found {call.record.sleepers} asleep "
        f"{span(t_stop - call.record.t)} ago and woke nobody"
    )
    return _find(Kind.LOST, queue, text, wait, call)


def went_back(court: Court, queue: Queue, wait: Wait, times: int, call: Signal | None) -> Finding:
    """Woken, and asleep again."""
    by = f" by {_caller(court, call)}" if call else ""
    often = "once" if times == 1 else f"{times} times"
    text = f"{court.wait(queue, wait)} was woken{by} and slept again, {often}"
    return _find(Kind.SPURIOUS, queue, text, wait, call)
