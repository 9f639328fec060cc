# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict: a pure function of the ledger, and of what the run promised.

Every fault names the wait, the object and the event that should have ended it.
A recording with gaps has no verdict at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from harness.probes.ledger import Ledger, Queue, Signal, Wait, Wake
from harness.probes.records import Context, FClass, Why


class Kind(StrEnum):
    """What can be wrong with a wake-up."""

    LOST = "lost"
    SPURIOUS = "spurious"
    LATE = "late"
    HERD = "herd"
    WRONG_WAITER = "wrong waiter"
    TIMEOUT_READY = "ended by timeout though ready"
    BATON = "baton dropped"
    ORDER = "not ended by its own completion"


class Outcome(StrEnum):
    """The verdict in one word."""

    VERIFIED = "VERIFIED"
    FAULT = "FAULT"
    NOT_VERIFIED = "NOT VERIFIED"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. ``wait`` is the number of the wait, 0 if none can be named."""

    kind: Kind
    queue: int
    text: str
    tid: int = 0
    wait: int = 0
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.kind.upper()}: {self.text}"


@dataclass(frozen=True, slots=True)
class Side:
    """One thread of a job that is woken once for each message.

    ``queue`` is its wait set, ``source`` the CQ in it; ``messages`` is how many
    publications on that CQ must each end one wait, in order.
    """

    name: str
    tid: int
    queue: int
    source: int
    messages: int


@dataclass(frozen=True, slots=True)
class Rules:
    """What the verdict cannot know by itself.

    ``late_ns`` bounds signal to wake, all of which is the waker's own doing.
    """

    sides: tuple[Side, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    late_ns: int = 500_000_000


@dataclass(frozen=True, slots=True)
class Match:
    """One side's messages: for each the wait that it ended, None if it ended none.

    A message that came while its thread was awake for another event shares the
    wait that this event ended: the look behind it finds both.
    """

    signals: tuple[Signal, ...]
    waits: tuple[Wait | None, ...]

    @property
    def matched(self) -> int:
        """Messages with a wait."""
        return sum(wait is not None for wait in self.waits)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Findings, doubts and how many waits were matched with what ended them."""

    findings: tuple[Finding, ...]
    doubts: tuple[str, ...]
    matched: int
    overtaken: int
    matches: Mapping[str, Match] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        """Doubts come first: a recording with gaps proves no fault either."""
        if self.doubts:
            return Outcome.NOT_VERIFIED
        return Outcome.FAULT if self.findings else Outcome.VERIFIED

    def line(self) -> str:
        """The verdict as one line."""
        if self.outcome is Outcome.NOT_VERIFIED:
            return f"NOT VERIFIED: {self.doubts[0]}"
        if self.outcome is Outcome.FAULT:
            more = len(self.findings) - 1
            tail = f" (and {more} more)" if more else ""
            return f"{self.findings[0]}{tail}"
        return f"VERIFIED: {self.matched} waits, each ended by the completion it waited for"


@dataclass(frozen=True, slots=True)
class _Court:
    """Ledger and rules, with the words for what is found."""

    ledger: Ledger
    rules: Rules

    def object(self, oid: int) -> str:
        return self.ledger.object_name(oid, self.rules.names)

    def wait(self, queue: Queue, wait: Wait) -> str:
        return (
            f"wait {wait.number} of {self.ledger.thread_name(wait.record.tid)} "
            f"on {self.object(queue.id)}"
        )

    def event(self, signal: Signal) -> str:
        rec = signal.record
        what = _WHY_NAMES.get(rec.why, f"reason {rec.why}")
        number = f"publication {rec.seq}" if rec.seq else "wake-up"
        return f"{number} ({what} on {self.object(rec.source)})"

    def find(
        self, kind: Kind, queue: Queue, text: str, wait: Wait | None = None, seq: int = 0
    ) -> Finding:
        return Finding(
            kind=kind,
            queue=queue.id,
            text=text,
            seq=seq,
            tid=wait.record.tid if wait else 0,
            wait=wait.number if wait else 0,
        )


_WHY_NAMES: Mapping[int, str] = {
    Why.NONE: "nothing published",
    Why.EVENT: "event",
    Why.ERROR: "error",
    Why.OVERRUN: "overrun",
    Why.SIGNAL: "signal call",
    Why.LOST: "device loss",
    Why.HANDON: "handed on",
}

# Queues of these wake one sleeper for an entry.
_EXCLUSIVE = frozenset((FClass.CQ, FClass.EQ))
_FORCED = frozenset((Why.ERROR, Why.OVERRUN, Why.SIGNAL, Why.LOST))


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.1f} ms"


def _owed(queue: Queue, signal: Signal, wait: Wait) -> bool:
    """Did this publication concern a wait that was asleep, and not wake it?"""
    rec = signal.record
    if not wait.asleep_at(rec.t) or any(wake.seq == rec.seq for wake in wait.wakes):
        return False
    if wait.finished and rec.seq <= wait.record.seen:
        return False
    if rec.why not in _FORCED and rec.have < wait.record.need:
        return False
    one_was_enough = queue.fclass in _EXCLUSIVE and rec.why not in _FORCED
    return not (one_was_enough and signal.wakes)


def _how_it_went(wait: Wait, since: int) -> str:
    """How a wait went on that was not woken at ``since``."""
    rec = wait.record
    if not wait.finished:
        return "it never returned"
    after = _ms(rec.t_end - since)
    if wait.timed_out:
        return f"it timed out {after} later"
    if wait.unaided:
        return f"only its deadline ended it, {after} later"
    return f"another publication ({rec.seq}) ended it {after} later"


def find_lost(court: _Court, queue: Queue) -> Iterator[Finding]:
    """A publication that found a sleeper whom it concerned, and did not wake it."""
    for seq, signal in queue.signals.items():
        if signal.record.sleepers <= len(signal.wakes):
            continue
        owed = [wait for wait in queue.waits if _owed(queue, signal, wait)]
        owed.sort(key=lambda wait: wait.record.t_slept)
        one = queue.fclass in _EXCLUSIVE and signal.record.why not in _FORCED
        for wait in owed[:1] if one else owed:
            yield court.find(
                Kind.LOST,
                queue,
                f"{court.wait(queue, wait)} should have been ended by "
                f"{court.event(signal)}, which found {signal.record.sleepers} asleep and "
                f"woke {len(signal.wakes)}; {_how_it_went(wait, signal.record.t)}",
                wait,
                seq,
            )


def find_late(court: _Court, queue: Queue) -> Iterator[Finding]:
    """A wake that came long after its publication; scheduling plays no part."""
    for wait in queue.waits:
        for wake in wait.wakes:
            signal = queue.signal_of(wake)
            if signal and wake.t_wake - signal.record.t > court.rules.late_ns:
                yield court.find(
                    Kind.LATE,
                    queue,
                    f"{court.wait(queue, wait)} was woken "
                    f"{_ms(wake.t_wake - signal.record.t)} after {court.event(signal)}, "
                    "which should have ended it",
                    wait,
                    wake.seq,
                )


def _is_spurious(queue: Queue, wake: Wake) -> bool:
    """Is this a wake for which nothing was published?"""
    if wake.seq:
        return wake.seq not in queue.signals
    return wake.why != Why.HANDON


def find_spurious(court: _Court, queue: Queue) -> Iterator[Finding]:
    """A sleeper that was woken, or returned, with nothing published."""
    for wait in queue.waits:
        text = _spurious_text(court, queue, wait)
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


def _spurious_text(court: _Court, queue: Queue, wait: Wait) -> str:
    """What is spurious about a wait, or nothing."""
    rec = wait.record
    if any(_is_spurious(queue, wake) for wake in wait.wakes):
        return "was woken although nothing was published"
    if queue.fclass != FClass.WAIT or not wait.succeeded:
        return ""
    # A call's own deadline wakes from the timer interrupt; nothing else does.
    if rec.foreign and rec.foreign_context in (Context.PROCESS, Context.SOFTIRQ):
        return f"was woken past its queue by {court.ledger.thread_name(rec.foreign_tid)}"
    if wait.unaided and not rec.ready:
        return "returned although it was not woken and nothing was ready"
    return ""


def _next_event(court: _Court, queue: Queue, wait: Wait) -> str:
    """The publication that should have ended a wait: the first after its begin."""
    for signal in queue.signals.values():
        rec = signal.record
        if rec.t > wait.record.t_begin and rec.seq > wait.record.seen:
            return f"; {court.event(signal)} should have ended it"
    return "; no publication followed"


def find_herd(court: _Court, queue: Queue) -> Iterator[Finding]:
    """One entry on an object whose sleepers are served one by one woke several."""
    if queue.fclass not in _EXCLUSIVE:
        return
    for signal in (*queue.signals.values(), *queue.others):
        if signal.record.why in _FORCED or len(signal.wakes) <= 1:
            continue
        owners = [wait for wait in queue.waits if any(wake in signal.wakes for wake in wait.wakes)]
        names = ", ".join(
            f"{court.ledger.thread_name(wait.record.tid)} (wait {wait.number})" for wait in owners
        )
        yield court.find(
            Kind.HERD,
            queue,
            f"{court.event(signal)} should have ended one wait on "
            f"{court.object(queue.id)} but woke {len(signal.wakes)}: {names}",
            owners[0] if owners else None,
            signal.record.seq,
        )


def find_wrong_waiter(court: _Court, queue: Queue) -> Iterator[Finding]:
    """A wake for less than its waiter asked for, or from an object it is not on."""
    members = court.ledger.members.get(queue.id)
    for wait in queue.waits:
        for wake in wait.wakes:
            signal = queue.signal_of(wake)
            if not signal:
                continue
            rec = signal.record
            if rec.why not in _FORCED and rec.have < wait.record.need:
                yield court.find(
                    Kind.WRONG_WAITER,
                    queue,
                    f"{court.wait(queue, wait)} needs {wait.record.need} but "
                    f"{court.event(signal)} woke it at {rec.have}",
                    wait,
                    wake.seq,
                )
            elif members and wake.source and wake.source not in members:
                yield court.find(
                    Kind.WRONG_WAITER,
                    queue,
                    f"{court.wait(queue, wait)} was woken by {court.event(signal)}, "
                    "which is no member",
                    wait,
                    wake.seq,
                )


def find_timeout_ready(court: _Court, queue: Queue) -> Iterator[Finding]:
    """A wait that nothing but its deadline ended, with something there to read."""
    if queue.fclass != FClass.WAIT:
        return
    for wait in queue.waits:
        rec = wait.record
        if not (rec.ready and wait.unaided and (wait.succeeded or wait.timed_out)):
            continue
        if not _ready_before(queue, wait):
            continue
        yield court.find(
            Kind.TIMEOUT_READY,
            queue,
            f"{court.wait(queue, wait)} was ended by its deadline, not by a "
            f"wake-up, although something was ready{_last_event(court, queue, wait)}",
            wait,
        )


# How long a publisher may take from storing to signalling; only an excuse.
_STORE_NS = 1_000_000_000


def _ready_before(queue: Queue, wait: Wait) -> bool:
    """Was it ready before its last look? What is signalled only now excuses it."""
    end = wait.record.t_end
    looked = wait.record.t_foreign or end
    return not any(looked < signal.record.t < end + _STORE_NS for signal in queue.signals.values())


def _last_event(court: _Court, queue: Queue, wait: Wait) -> str:
    """The last publication before a wait's end."""
    before = [signal for signal in queue.signals.values() if signal.record.t < wait.record.t_end]
    return f"; {court.event(before[-1])} should have ended it" if before else ""


def find_baton(court: _Court, queue: Queue) -> Iterator[Finding]:
    """A woken thread left without the entry and woke nobody else for it."""
    if queue.fclass not in _EXCLUSIVE:
        return
    for wait in queue.waits:
        wake, rec = wait.last_wake, wait.record
        if not wake or not wait.finished or rec.ret >= 0 or not rec.ready:
            continue
        signal = queue.signal_of(wake)
        if not signal or signal.record.why in _FORCED:
            continue
        handed = any(
            wake.t_wake < other.record.t and other.record.why == Why.HANDON
            for other in queue.others
        )
        left = [other for other in queue.waits if other is not wait and other.asleep_at(rec.t_end)]
        if left and not handed:
            yield court.find(
                Kind.BATON,
                queue,
                f"{court.wait(queue, wait)} was woken by {court.event(signal)}, left with "
                f"{rec.ret} and woke nobody; {court.wait(queue, left[0])} should have "
                "been woken instead",
                wait,
                wake.seq,
            )


_CHECKS: tuple[Callable[[_Court, Queue], Iterator[Finding]], ...] = (
    find_lost,
    find_spurious,
    find_late,
    find_herd,
    find_wrong_waiter,
    find_timeout_ready,
    find_baton,
)


def _faults(court: _Court) -> list[Finding]:
    """All checks on all queues; one wait is accused once."""
    findings: list[Finding] = []
    accused: set[tuple[int, int, int]] = set()
    for check in _CHECKS:
        for queue in court.ledger.queues.values():
            for finding in check(court, queue):
                who = (finding.queue, finding.tid, finding.wait)
                if finding.wait and who in accused:
                    continue
                accused.add(who)
                findings.append(finding)
    return findings


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


def match_side(court: _Court, queue: Queue, side: Side, quiet: bool) -> tuple[Match, list[Finding]]:
    """Match each message's publication with the one wait that it ended, in order.

    ``quiet``: waits of this queue have faults of their own, so that what stands
    next to them proves nothing more.
    """
    messages = [
        signal
        for signal in queue.signals.values()
        if signal.record.source == side.source and signal.record.why == Why.EVENT
    ]
    waits = queue.waits_of(side.tid)
    pairs = _pair(messages, [wait for wait in waits if wait.succeeded])
    findings = []
    for number, signal in enumerate(messages, 1):
        if pairs[number - 1] is not None:
            continue
        other = _awake_for(signal, waits, side)
        if other and other.record.ended:
            pairs[number - 1] = other
        elif not other and not quiet:
            findings.append(
                court.find(
                    Kind.ORDER,
                    queue,
                    f"{court.event(signal)}, message {number} of {side.name}, ended no wait "
                    f"on {court.object(queue.id)}",
                    None,
                    signal.record.seq,
                )
            )
    if len(messages) != side.messages:
        findings.append(
            court.find(
                Kind.ORDER,
                queue,
                f"{side.name}: {len(messages)} publications on "
                f"{court.object(side.source)}, {side.messages} were to come",
            )
        )
    return Match(tuple(messages), tuple(pairs)), findings


def _awake_for(signal: Signal, waits: Sequence[Wait], side: Side) -> Wait | None:
    """The wait behind which a thread was awake when a message came that ended no wait.

    The thread had left the queue for an event of another member, or at its
    deadline. It may look at all members then, and need not wait for this one.
    """
    begun = [wait for wait in waits if wait.record.t_begin < signal.record.t]
    if signal.record.sleepers or not begun:
        return None
    last = begun[-1]
    other = last.timed_out or (last.last_wake and last.record.source != side.source)
    return last if other else None


def _pair(messages: Sequence[Signal], waits: Sequence[Wait]) -> list[Wait | None]:
    """For each publication the wait that it ended, moving forward only.

    A wait names the publication that woke it. One that found its message there
    without sleeping names none, and takes the next that no other wait names.
    """
    named = {wait.record.seq for wait in waits if wait.record.ended}
    pairs: list[Wait | None] = []
    at = 0
    for signal in messages:
        seq, found = signal.record.seq, None
        for index in range(at, len(waits)):
            rec = waits[index].record
            mine = rec.seq == seq if rec.ended else seq not in named
            if mine:
                found, at = waits[index], index + 1
                break
            if rec.ended and rec.seq > seq:
                break
        pairs.append(found)
    return pairs


def _scheduler_doubts(court: _Court) -> list[str]:
    """The independent witness: who was asleep runs again only if the scheduler woke it."""
    return [
        f"{court.wait(queue, wait)} was woken by us, but the scheduler saw no wake-up of it"
        for queue in court.ledger.queues.values()
        for wait in queue.waits
        if wait.record.wakes == 1
        and not wait.record.foreign
        and 0 < wait.record.t_slept < wait.record.t_wake
        and wait.record.t_running
        and not wait.record.t_waking
    ]


def judge(ledger: Ledger, rules: Rules | None = None) -> Verdict:
    """Judge a ledger. Without ``rules.sides`` every finished wait counts as matched."""
    court = _Court(ledger, rules or Rules())
    findings = _faults(court)
    doubts = [*ledger.doubts, *_scheduler_doubts(court)]
    matches = {}
    for side in court.rules.sides:
        queue = ledger.queues.get(side.queue)
        if queue is None:
            doubts.append(f"{side.name}: the probe saw no wait at all")
            continue
        quiet = any(f.wait for f in findings if f.queue == side.queue)
        matches[side.name], more = match_side(court, queue, side, quiet)
        findings += more
    if court.rules.sides:
        matched = sum(match.matched for match in matches.values())
    else:
        matched = sum(wait.finished for queue in ledger.queues.values() for wait in queue.waits)
    return Verdict(
        findings=tuple(findings),
        doubts=tuple(doubts),
        matched=matched,
        overtaken=sum(len(overtaken(queue)) for queue in ledger.queues.values()),
        matches=matches,
    )
