# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A ledger of plain wait queues and marks, indexed by time; and the rules of its judge."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from kfabric.recording.records import ENDER_KNOWN, FClass, Mark, MarkRecord, WakeRecord
from kfabric.verdict.backlog import (
    Backlog,
    End,
    Group,
    Sleep,
    WakeEffect,
    caller,
    marker,
    sleeps_of,
    wake_effects,
)
from kfabric.verdict.kinds import STILL_OPEN, Rules
from kfabric.verdict.ledger import Ledger, Queue, Signal, Wait
from kfabric.verdict.words import Analysis


@dataclass(frozen=True, slots=True)
class QueueRules(Rules):
    """The promises of a trace, besides the names and times of every run.

    ``marked``: functions were to be marked, so a recording without marks means that
    they were not called. ``queues`` are those that the marks are about (default: all
    queues on which not only takers wake). ``late_ns`` bounds publication to wake.
    ``grace_ns`` is the longest time of a publisher from its publication to its wake call;
    in a recording without returns of marked functions, from the begin of the function.
    """

    marked: bool = False
    queues: frozenset[int] = frozenset()
    grace_ns: int = 20_000_000


class QueueIndex:
    """A ledger with its wake calls and publications by time, and the effects of wakes."""

    def __init__(self, ledger: Ledger, rules: QueueRules) -> None:
        self.ledger = ledger
        self.rules = rules
        self.has_marks = rules.marked or bool(ledger.marks or ledger.marked)
        self.analysis = Analysis(ledger, rules)
        self.queues = [q for q in ledger.queues.values() if q.fclass in (0, FClass.QUEUE)]
        self.known = [q for q in ledger.queues.values() if q.fclass in ENDER_KNOWN]
        self.marked = self._marked_queues()
        self.backlog = Backlog(ledger.marks, self.marked)
        self.calls = sorted(
            (signal for queue in self.queues for signal in queue.every_signal()),
            key=lambda signal: signal.record.t,
        )
        self._calls_at = [signal.record.t for signal in self.calls]
        self._publications: defaultdict[Group, list[int]] = defaultdict(list)
        for mark in self.backlog.published:
            self._publications[marker(mark)].append(mark.t)
        # By the identity of a wake call: its caller's previous one on the same queue; or 0.
        self._previous: dict[int, int] = {}
        last: dict[tuple[int, Group], int] = {}
        for call in self.calls:
            key = call.record.queue, caller(call)
            self._previous[id(call)] = last.get(key, 0)
            last[key] = call.record.t
        self._takers = {mark.tid for mark in ledger.marks if mark.what == Mark.TAKE}
        self._taking = {
            queue.id
            for queue in self.marked
            if any(wait.record.tid in self._takers for wait in queue.waits)
        }
        self._concerned = {queue.id for queue in self.marked if self._is_concerned(queue)}
        self._effects = {
            (effect.wake.queue, effect.wake.tid, effect.wake.t_wake): effect
            for queue in self.queues
            for wait in queue.waits
            for effect in wake_effects(wait)
        }
        self._wakes: defaultdict[int, list[WakeRecord]] = defaultdict(list)
        for queue in self.queues:
            for wake in queue.all_wakes():
                self._wakes[wake.tid].append(wake)
        for wakes in self._wakes.values():
            wakes.sort(key=_t_wake)

    def _marked_queues(self) -> list[Queue]:
        """The queues that the marks are about.

        A queue on which only takers wake is for the other direction, such as "there is
        room"; unless a taker sleeps there, and others hand their wake-ups on to it.
        """
        if self.rules.queues:
            return [queue for queue in self.queues if queue.id in self.rules.queues]
        marks = self.ledger.marks
        takers = {marker(mark) for mark in marks if mark.what == Mark.TAKE}
        takers -= {marker(mark) for mark in marks if mark.what == Mark.PUBLISH}
        return [
            queue
            for queue in self.queues
            if not (signals := queue.every_signal())
            or not all(caller(signal) in takers for signal in signals)
            or any((0, wait.record.tid) in takers for wait in queue.waits)
        ]

    def not_judged(self, queue: Queue, wait: Wait) -> str:
        """Why a wait was not judged; empty if it was."""
        if queue.id not in self._concerned:
            return "on queues that no marked function concerns"
        if taking := self._may_have_taken(wait):
            return taking
        if not wait.finished:
            return STILL_OPEN
        if wait.record.t_begin < self.rules.since:
            return "begun before the trace"
        return ""

    def _may_have_taken(self, wait: Wait) -> str:
        """That nothing ended a sleep, perhaps rightly: its thread may have had its item."""
        unaided = not wait.finished or wait.record.ret < 0
        take = self.backlog.took_before_sleep(wait) if wait.slept and unaided else None
        if take is None:
            return ""
        end = "ended by a limit or a signal" if wait.finished else "open at the end"
        name = self.ledger.function(take) or "a marked function"
        return (
            f"{end} in {name}, which may have taken its item before the sleep (mark the inner "
            "function that takes, and not the one that sleeps)"
        )

    def _is_concerned(self, queue: Queue) -> bool:
        """Is it woken by threads that have just published, or do those sleep there that take?"""
        return queue.id in self._taking or any(
            self._own_publications(call) for call in queue.every_signal()
        )

    def sleeps(self, queue: Queue, wait: Wait) -> Iterator[Sleep]:
        """The sleeps of a wait; a wake through another queue ends its thread's sleep, too."""
        for sleep in sleeps_of(queue, wait, self.ledger.t_stop):
            wake = self._woken_elsewhere(sleep)
            yield replace(sleep, end=wake.t_wake, how=End.WAKE, wake=wake) if wake else sleep

    def _woken_elsewhere(self, sleep: Sleep) -> WakeRecord | None:
        """The first wake of a sleeping thread through another queue."""
        wakes = self._wakes.get(sleep.wait.record.tid, [])
        first = bisect_right(wakes, sleep.begin, key=_t_wake)
        last = bisect_left(wakes, sleep.end, key=_t_wake)
        return next((w for w in wakes[first:last] if w.queue != sleep.queue.id), None)

    def call_of(self, wake: WakeRecord) -> Signal | None:
        """The wake call that caused a wake."""
        return self.ledger.queues[wake.queue].signal_of(wake)

    def sleeps_for_others(self, queue: Queue) -> bool:
        """Is it unlikely that a sleeper there takes what the marks are about?

        That is so if no function that takes is marked, or if those that take sleep elsewhere.
        """
        if not self._taking:
            return not (self._takers or self.ledger.take_marked)
        return queue.id not in self._taking

    def effect(self, wake: WakeRecord) -> WakeEffect | None:
        """The effect of a wake on the wait that it belongs to."""
        return self._effects.get((wake.queue, wake.tid, wake.t_wake))

    def sleepers_woken(self, call: Signal) -> list[WakeEffect]:
        """The effects of a wake call on threads that were asleep."""
        effects = map(self.effect, call.wakes)
        return [effect for effect in effects if effect and effect.asleep]

    def in_vain(self, effect: WakeEffect) -> bool:
        """Did the woken sleeper look, find nothing, and sleep again?"""
        return effect.again and not self.backlog.took(effect.wake)

    def calls_from(self, t: int, until: int) -> Iterator[Signal]:
        """All wake calls in a time, in order."""
        at = self._calls_at
        yield from self.calls[bisect_left(at, t) : bisect_left(at, until)]

    def calls_before(self, t: int) -> Iterator[Signal]:
        """All wake calls before a time, the last one first."""
        yield from reversed(self.calls[: bisect_left(self._calls_at, t)])

    def publications_for(self, call: Signal) -> int:
        """The number of publications since the caller's previous wake call.

        For a caller that publishes nothing itself, the publications of all count.
        """
        if caller(call) in self._publications:
            return self._own_publications(call)
        return len(self.backlog.published_between(self._previous[id(call)], call.record.t))

    def in_one_go(self, publication: MarkRecord, until: int) -> bool:
        """Is what its publisher published from there on one batch, with one wake call behind it?

        A publisher that lets more than ``grace_ns`` pass before the next publication has done
        with the one before, without a wake call.
        """
        own = self._publications[marker(publication)]
        batch = own[bisect_left(own, publication.t) : bisect_left(own, until)]
        return all(after - t <= self.rules.grace_ns for t, after in pairwise(batch))

    def _own_publications(self, call: Signal) -> int:
        own = self._publications.get(caller(call), [])
        return bisect_right(own, call.record.t) - bisect_right(own, self._previous[id(call)])


def _t_wake(wake: WakeRecord) -> int:
    return wake.t_wake
