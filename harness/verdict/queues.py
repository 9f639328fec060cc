# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict on plain wait queues, of which nobody knows what their sleepers wait for.

Marks help: the user names the functions that publish and that take what the
sleepers wait for. Then there is something ready as long as more was published
than taken, and a sleep beside it was lost. Both are marked where the function
begins, a little before anybody can see what it does.

Without marks only what a thread does can be judged; what looks odd is told as
a note, never as a fault.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.recording.records import FClass, Mark, MarkRecord
from harness.verdict import queue_stories
from harness.verdict.backlog import (
    End,
    Group,
    Sleep,
    Stock,
    Strike,
    caller,
    marker,
    sleeps_of,
    strikes,
)
from harness.verdict.kinds import Finding, Rules, Verdict
from harness.verdict.ledger import Ledger, Queue, Signal, Wait, Wake
from harness.verdict.words import Court


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What the verdict cannot know by itself.

    ``marked``: functions were to be marked, so that silence means that they were not
    called. ``queues`` are those that the marks are about (default: all on which not
    only takers wake). ``late_ns`` bounds publication to wake, ``never_ran_ns`` wake to
    running. ``grace_ns`` is how long a publisher may be between mark and store.
    Waits that began before ``since`` are known in part only.
    """

    marked: bool = False
    queues: frozenset[int] = frozenset()
    names: Mapping[int, str] = field(default_factory=dict)
    late_ns: int = 500_000_000
    never_ran_ns: int = 5_000_000_000
    grace_ns: int = 20_000_000
    since: int = 0


class _Bench:
    """A ledger, made ready for questions about times."""

    def __init__(self, ledger: Ledger, rules: QueueRules) -> None:
        self.ledger = ledger
        self.rules = rules
        self.marks = rules.marked or bool(ledger.marks)
        self.court = Court(ledger, Rules(names=rules.names))
        self.queues = [q for q in ledger.queues.values() if q.fclass in (0, FClass.QUEUE)]
        self.marked = _about(self.queues, ledger.marks, rules.queues)
        self.stock = Stock(ledger.marks, self.marked)
        self.calls = sorted(
            (signal for queue in self.queues for signal in queue.every_signal()),
            key=lambda signal: signal.record.t,
        )
        self._calls_at = [signal.record.t for signal in self.calls]
        self._publications: defaultdict[Group, list[int]] = defaultdict(list)
        for mark in self.stock.published:
            self._publications[marker(mark)].append(mark.t)
        self._before = _previous_calls(self.queues)
        self._strikes = {
            (strike.wake.queue, strike.wake.tid, strike.wake.t_wake): strike
            for queue in self.queues
            for wait in queue.waits
            for strike in strikes(wait)
        }

    def strike(self, wake: Wake) -> Strike | None:
        """What a wake did to the wait that it belongs to."""
        return self._strikes.get((wake.queue, wake.tid, wake.t_wake))

    def in_vain(self, strike: Strike) -> bool:
        """Did a sleeper that it woke look, find nothing, and go back to sleep?"""
        return strike.again and not self.stock.took(strike.wake)

    def calls_from(self, t: int, until: int) -> Iterator[Signal]:
        """All wake calls in a time, in order."""
        at = self._calls_at
        yield from self.calls[bisect_left(at, t) : bisect_left(at, until)]

    def calls_before(self, t: int) -> Iterator[Signal]:
        """All wake calls before a time, the last one first."""
        yield from reversed(self.calls[: bisect_left(self._calls_at, t)])

    def behind(self, signal: Signal) -> int:
        """How many publications stand behind a wake call: since its caller's last one.

        A caller that publishes nothing itself may stand in for anybody.
        """
        previous = self._before[id(signal)]
        own = self._publications.get(caller(signal))
        if own is None:
            return len(self.stock.published_between(previous, signal.record.t))
        return bisect_right(own, signal.record.t) - bisect_right(own, previous)


def _previous_calls(queues: list[Queue]) -> dict[int, int]:
    """When the caller of each wake call had made its last one on the same queue; or 0."""
    before: dict[int, int] = {}
    for queue in queues:
        last: dict[Group, int] = {}
        for signal in sorted(queue.every_signal(), key=lambda signal: signal.record.t):
            who = caller(signal)
            before[id(signal)] = last.get(who, 0)
            last[who] = signal.record.t
    return before


def _about(queues: list[Queue], marks: tuple[MarkRecord, ...], told: frozenset[int]) -> list[Queue]:
    """The queues that the marks are about.

    One that only takers wake is for the other direction, such as "there is room".
    """
    if told:
        return [queue for queue in queues if queue.id in told]
    publishers = {marker(mark) for mark in marks if mark.what == Mark.PUBLISH}
    takers = {marker(mark) for mark in marks if mark.what == Mark.TAKE} - publishers
    return [
        queue
        for queue in queues
        if not (signals := queue.every_signal())
        or not all(caller(signal) in takers for signal in signals)
        or _sleeps_there(queue, takers)
    ]


def _sleeps_there(queue: Queue, takers: set[Group]) -> bool:
    """Does a taker sleep on a queue? Then takers may hand their wake-ups on there."""
    return any((0, wait.record.tid) in takers for wait in queue.waits)


def judge(ledger: Ledger, rules: QueueRules | None = None) -> Verdict:
    """Judge plain wait queues; what is suspicious and no certain fault is in the notes."""
    bench = _Bench(ledger, rules or QueueRules())
    faults = list(_faults(bench))
    accused = {call for _, call in faults}
    notes = _find_overtaken(bench, accused) if bench.marks else _suspicions(bench)
    return Verdict(
        findings=tuple(finding for finding, _ in faults),
        doubts=ledger.doubts,
        matched=sum(wait.finished for queue in bench.queues for wait in queue.waits),
        notes=tuple(notes),
    )


_Call = tuple[int, int] | None
"""Queue and time of a wake call, if there was one."""

_Fault = tuple[Finding, _Call]
"""A finding, and the wake call at fault."""


def _faults(bench: _Bench) -> Iterator[_Fault]:
    """All faults; one wait and one wake call are accused once."""
    waits: set[tuple[int, int, int]] = set()
    calls: set[_Call] = set()
    for finding, call in _all_faults(bench):
        wait = (finding.queue, finding.tid, finding.wait)
        if wait in waits or call in calls:
            continue
        waits.add(wait)
        if call:
            calls.add(call)
        yield finding, call


def _all_faults(bench: _Bench) -> Iterator[_Fault]:
    """The checks, the surest first."""
    if bench.marks:
        yield from _find_missing(bench)
        yield from _find_herd(bench)
        yield from _find_spurious(bench)
    yield from _find_never_ran(bench)


def _key(call: Signal | None) -> _Call:
    return (call.record.queue, call.record.t) if call else None


def _find_missing(bench: _Bench) -> Iterator[_Fault]:
    """Sleeps beside something that was ready: lost, late, not handed on, wrong waiter."""
    owed = sorted(
        (
            found
            for queue in bench.marked
            for wait in queue.waits
            if wait.record.t_begin >= bench.rules.since
            for sleep in sleeps_of(queue, wait, bench.ledger.t_stop)
            if (found := _owed(bench, sleep))
        ),
        key=lambda found: (found[1].t, found[0].begin),
    )
    accused: set[int] = set()
    for sleep, publication in owed:
        if publication.t in accused:
            continue
        accused.add(publication.t)
        yield _blame(bench, sleep, publication)


def _owed(bench: _Bench, sleep: Sleep) -> tuple[Sleep, MarkRecord] | None:
    """What a sleeper should have been woken for, and was not, or much too late."""
    since = bench.stock.left_over_since(sleep.end)
    if not since:
        return None
    publication = bench.stock.oldest(sleep.end, sleep.looked)
    if publication is None:
        return None
    began = max(since, sleep.begin, publication.t)
    lasted = sleep.end - began
    if sleep.how is End.WAKE:
        return (sleep, publication) if lasted > bench.rules.late_ns else None
    if lasted > bench.rules.grace_ns and not _on_its_way(bench, sleep, publication):
        return sleep, publication
    return None


def _on_its_way(bench: _Bench, sleep: Sleep, publication: MarkRecord) -> bool:
    """Did the sleeper give up before the publisher had come to its wake call?"""
    if sleep.how is not End.FOREIGN:
        return False
    who = marker(publication)
    made = [
        call
        for call in bench.calls_from(publication.t, sleep.end + bench.rules.late_ns)
        if caller(call) == who
    ]
    return bool(made) and made[0].record.t >= sleep.end and made[0].record.queue == sleep.queue.id


def _blame(bench: _Bench, sleep: Sleep, publication: MarkRecord) -> _Fault:
    """Say why a sleeper was not woken for a publication."""
    told = queue_stories.Told(bench.court, sleep, publication)
    if sleep.wake:
        call = sleep.queue.signal_of(sleep.wake)
        return told.late(sleep.wake, call), _key(call)
    call = _call_for(bench, sleep, publication)
    if call is None:
        early = _early_call(bench, sleep, publication)
        return (told.early(early) if early else told.no_call()), _key(early)
    if call.record.queue != sleep.queue.id:
        return told.other_queue(call), _key(call)
    return _blame_call(bench, told, call), _key(call)


def _call_for(bench: _Bench, sleep: Sleep, publication: MarkRecord) -> Signal | None:
    """The wake call that was made for a publication: the publisher's next one.

    If it makes none, one on the sleeper's queue by somebody else.
    """
    who = marker(publication)
    calls = list(bench.calls_from(publication.t, sleep.end))
    mine = [call for call in calls if caller(call) == who]
    here = [call for call in calls if call.record.queue == sleep.queue.id]
    own_here = [call for call in mine if call.record.queue == sleep.queue.id]
    for choice in (own_here, mine, here):
        if choice:
            return choice[0]
    return None


def _early_call(bench: _Bench, sleep: Sleep, publication: MarkRecord) -> Signal | None:
    """The publisher's last wake call before it published, if it woke this sleeper."""
    who = marker(publication)
    for call in bench.calls_before(publication.t):
        if call.record.t < sleep.wait.record.t_begin:
            return None
        if caller(call) == who:
            woke = any(wake in sleep.wait.wakes for wake in call.wakes)
            return call if woke and not bench.behind(call) else None
    return None


def _blame_call(bench: _Bench, told: queue_stories.Told, call: Signal) -> Finding:
    """A wake call was made on the right queue, and did not wake this sleeper."""
    rec = told.sleep.wait.record
    if call.record.t < rec.t_begin:
        return told.too_early(call)
    if any(wake.tid == rec.tid for wake in call.wakes):
        return told.wiped_out(call)
    if not call.wakes:
        return told.woke_nobody(call)
    for wake in call.wakes:
        strike = bench.strike(wake)
        if strike is None or bench.stock.took(wake):
            continue
        if strike.again:
            return told.wrong_waiter(call, strike.wait)
        if strike.wait.finished:
            return told.not_handed_on(call, strike.wait)
    return told.too_few(call, bench.behind(call))


def _find_spurious(bench: _Bench) -> Iterator[_Fault]:
    """Wake calls with nothing published, that made a sleeper look in vain."""
    for queue in bench.marked:
        waiters = {wait.record.tid for wait in queue.waits}
        for call in queue.every_signal():
            # A waiter may be handing on what it was woken for itself.
            if call.record.waker in waiters:
                continue
            if bench.behind(call) or bench.stock.ready(call.record.t):
                continue
            for strike in _struck(bench, call):
                if bench.in_vain(strike) and strike.wait.record.t_begin >= bench.rules.since:
                    yield queue_stories.spurious(bench.court, queue, strike.wait, call), _key(call)
                    break


def _struck(bench: _Bench, call: Signal) -> list[Strike]:
    """The sleepers that a wake call woke."""
    found = (bench.strike(wake) for wake in call.wakes)
    return [strike for strike in found if strike and strike.asleep]


def _find_herd(bench: _Bench) -> Iterator[_Fault]:
    """One publication that woke several, of which at most one took it."""
    for queue in bench.marked:
        for call in queue.every_signal():
            if bench.behind(call) != 1:
                continue
            woken = _struck(bench, call)
            losers = [strike for strike in woken if bench.in_vain(strike)]
            if 2 <= len(woken) <= len(losers) + 1:
                waits = [strike.wait for strike in woken]
                yield queue_stories.herd(bench.court, queue, waits, call), _key(call)


def _find_never_ran(bench: _Bench) -> Iterator[_Fault]:
    """A sleeper that was woken, and got no CPU for long."""
    for queue in bench.queues:
        for wait in queue.waits:
            for strike in strikes(wait):
                wake = strike.wake
                ran = wake.t_running or (0 if wait.finished else bench.ledger.t_stop)
                if strike.asleep and ran - wake.t_waking > bench.rules.never_ran_ns:
                    yield queue_stories.never_ran(bench.court, queue, strike, ran), None


def _find_overtaken(bench: _Bench, accused: set[_Call]) -> Iterator[Finding]:
    """Woken rightly, but it had been taken by then."""
    for queue in bench.marked:
        for call in queue.every_signal():
            if _key(call) in accused or not bench.behind(call):
                continue
            for strike in _struck(bench, call):
                if bench.in_vain(strike) and not bench.stock.ready(strike.wake.t_running):
                    yield queue_stories.overtaken(bench.court, queue, strike.wait, call)


def _suspicions(bench: _Bench) -> Iterator[Finding]:
    """What looks odd where nothing tells what the sleepers wait for."""
    for queue in bench.queues:
        for wait in queue.waits:
            if wait.record.t_begin < bench.rules.since:
                continue
            if not wait.finished and (call := _passed_over(queue, wait)):
                yield queue_stories.passed_over(bench.court, queue, wait, call, bench.ledger.t_stop)
            vain = [strike.wake for strike in strikes(wait) if strike.asleep and strike.again]
            if vain:
                call = queue.signal_of(vain[0])
                yield queue_stories.went_back(bench.court, queue, wait, len(vain), call)


def _passed_over(queue: Queue, wait: Wait) -> Signal | None:
    """The last wake call that found a thread asleep and woke nobody at all."""
    calls = [
        call
        for call in queue.every_signal()
        if call.record.sleepers and not call.wakes and wait.asleep_at(call.record.t)
    ]
    return max(calls, key=lambda call: call.record.t, default=None)
