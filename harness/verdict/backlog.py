# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The backlog: the published items that were not taken yet, over time.

Marks are calls of the functions that publish and take. An item is stored at some moment
between the begin and the return of its function, so it is certainly there once that has
returned; it may be gone as soon as a function that takes has begun. An item that a woken
thread is about to take is claimed from the wake-up on. While an unclaimed item is left over
and a thread sleeps for it, a wake-up is missing.

In a recording without any return a mark is a moment. In any other, an item whose function
was not seen to return is never certainly there.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from kfabric.recording.records import Context, Mark, MarkRecord, WakeRecord
from kfabric.verdict.ledger import Queue, Signal, Wait

_NEVER = 1 << 63

Group = tuple[int, int]
"""A sequential piece of execution: a thread, or the interrupts of one kind on a CPU."""


def group_of(context: int, cpu: int, tid: int) -> Group:
    """The group of a publisher or waker. In interrupt context its thread is unrelated."""
    if context in (Context.SOFTIRQ, Context.HARDIRQ):
        return -context, cpu
    return 0, tid


def marker(mark: MarkRecord) -> Group:
    """The group that published or took."""
    return group_of(mark.context, mark.cpu, mark.tid)


def caller(signal: Signal) -> Group:
    """The group that made a wake call."""
    rec = signal.record
    return group_of(rec.context, rec.cpu, rec.waker)


class End(Enum):
    """The event that ended a sleep."""

    WAKE = auto()
    FOREIGN = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True)
class Sleep:
    """One sleep of a wait, and the ``wake`` that ended it.

    The thread has certainly seen everything published before ``looked``: it had been
    woken, ran from then on, and looked. A wake before it slept does not count, since going to
    sleep may have cancelled it.
    """

    queue: Queue
    wait: Wait
    begin: int
    end: int
    how: End
    looked: int = 0
    wake: WakeRecord | None = None


@dataclass(frozen=True, slots=True)
class WakeEffect:
    """A wake of a wait: was the thread ``asleep``, and did it sleep ``again``?

    A wake of a thread that is on its way to sleep may be cancelled by that sleep.
    """

    wait: Wait
    wake: WakeRecord
    asleep: bool
    again: bool


def wake_effects(wait: Wait) -> list[WakeEffect]:
    """The wakes of a wait, in order."""
    found: list[WakeEffect] = []
    slept = wait.record.t_slept
    next_wake = 0
    for wake in reversed(wait.wakes):
        if not next_wake and wait.record.t_begin <= slept < wake.t_wake:
            asleep = bool(wake.t_waking) and not _ran_between(wait, slept, wake.t_wake)
        else:
            # A sleeper runs after the wake, and before it can sleep again.
            until = next_wake or slept
            asleep = bool(wake.t_waking) and 0 < wake.t_running <= until
        found.append(WakeEffect(wait, wake, asleep, again=slept > wake.t_wake))
        next_wake = wake.t_wake
    return found[::-1]


def _ran_between(wait: Wait, slept: int, t: int) -> bool:
    """Was the thread woken after its last sleep, and on a CPU before ``t``?"""
    return any(slept < wake.t_wake and 0 < wake.t_running <= t for wake in wait.wakes)


def sleeps_of(queue: Queue, wait: Wait, t_stop: int) -> Iterator[Sleep]:
    """The sleeps of a wait, as far as its records can separate them."""
    last = wait.record.t_slept
    begin, looked, t_wake = wait.record.t_begin, 0, 0
    for effect in wake_effects(wait):
        wake, t_wake = effect.wake, effect.wake.t_wake
        if effect.asleep:
            start = last if begin <= last < t_wake else begin
            yield Sleep(queue, wait, start, t_wake, End.WAKE, looked, wake)
            begin = looked = wake.t_running
    if last > t_wake:
        foreign = wait.record.t_foreign
        end = foreign if foreign > last else wait.record.t_end
        how = End.FOREIGN if end else End.NONE
        yield Sleep(queue, wait, last, end or max(t_stop, last), how, looked)


@dataclass(frozen=True, slots=True)
class _Look:
    """A time from ``begin`` to ``end`` in which a call that takes may find an item."""

    begin: int
    end: int
    take: MarkRecord


class Backlog:
    """The items that were published and not taken, over time.

    Attributes:
        published: The calls that publish, by their begin.
        taken: The earliest time at which each item may have been taken.
    """

    def __init__(self, marks: Iterable[MarkRecord], queues: Sequence[Queue]) -> None:
        """Count the marks, and find the woken threads that took an item."""
        ordered = sorted(marks, key=lambda mark: mark.t)
        self.published = [mark for mark in ordered if mark.what == Mark.PUBLISH]
        self.taken: list[int] = []
        self._taken_by: list[int] = []
        self._takes: defaultdict[int, list[int]] = defaultdict(list)
        self._took_at: defaultdict[int, list[tuple[int, MarkRecord]]] = defaultdict(list)
        self._has_returns = any(mark.t_end for mark in ordered)
        waits = _waits_of(queues)
        takes = (mark for mark in ordered if mark.what == Mark.TAKE)
        self._match(look for take in takes for look in self._looks(take, waits))
        self._published_at = [mark.t for mark in self.published]
        known = filter(self.stored, self.published)
        self._stored = sorted(known, key=self.stored)
        self._stored_at = [self.stored(mark) for mark in self._stored]
        self._wait_sleeps = _sleep_times(queues)
        self._taken_at: dict[tuple[int, int, int], int] = {}
        for queue in queues:
            for wake in queue.all_wakes():
                if taken := self._take_after(wake):
                    self._taken_at[queue.id, wake.tid, wake.t_wake] = taken
        # A thread that is woken twice for one item claims it from the first wake on.
        self._claims: dict[tuple[int, int], int] = {}
        for (_, tid, t_wake), taken in self._taken_at.items():
            self._claims[tid, taken] = min(t_wake, self._claims.get((tid, taken), t_wake))
        self._begin_claims = sorted(self._claims.values())
        self._end_claims = sorted(taken for _, taken in self._claims)
        self._sweep()

    def stored(self, publication: MarkRecord) -> int:
        """From when its item was certainly there; 0 if that is not known."""
        return publication.t_end if self._has_returns else publication.t

    def _looks(self, take: MarkRecord, waits: Mapping[int, Sequence[Wait]]) -> Iterator[_Look]:
        """The times in which a call may take: from begin to return, but not asleep."""
        begin, end = take.t, take.t
        if self._has_returns:
            end = take.t_end or _NEVER
        mine = waits.get(take.tid, ()) if take.context == Context.PROCESS else ()
        first = bisect_left(mine, begin, key=lambda wait: wait.record.t_begin)
        for wait in mine[first:]:
            if wait.record.t_begin > end:
                break
            for sleep in sleeps_of(Queue(0), wait, _NEVER):
                yield _Look(begin, sleep.begin, take)
                begin = max(sleep.end + 1, sleep.wake.t_running if sleep.wake else 0)
        if begin <= end:
            yield _Look(begin, end, take)

    def _match(self, looks: Iterable[_Look]) -> None:
        """Find the calls that took. A call that looks while nothing may be there took nothing."""
        steps: list[tuple[int, _Look | None]] = [(mark.t, None) for mark in self.published]
        steps += [(look.begin, look) for look in looks]
        steps.sort(key=lambda step: step[0])
        ready = 0
        done: set[int] = set()
        looking: list[_Look] = []
        for t, look in steps:
            if look is None:
                looking = [one for one in looking if one.end > t and id(one.take) not in done]
                ready += not looking
                found = looking.pop(0) if looking else None
            elif id(look.take) in done:
                continue
            else:
                found = look if ready else None
                ready -= bool(ready)
                looking += [] if found else [look]
            if found:
                done.add(id(found.take))
                self._note_take(found.take, t)
        self._taken_by.sort()

    def _note_take(self, take: MarkRecord, t: int) -> None:
        """A call took an item at ``t`` at the earliest."""
        self.taken.append(t)
        if by := take.t_end if self._has_returns else t:
            self._taken_by.append(by)
        if take.context in (Context.PROCESS, Context.UNKNOWN):
            self._takes[take.tid].append(t)
            self._took_at[take.tid].append((t, take))

    def _take_after(self, wake: WakeRecord) -> int:
        """When a woken thread took something before it slept again; 0 if it did not."""
        takes, sleeps = self._takes.get(wake.tid, []), self._wait_sleeps.get(wake.tid, [])
        at = bisect_right(takes, wake.t_wake)
        if at == len(takes):
            return 0
        next_sleep = bisect_right(sleeps, wake.t_wake)
        if next_sleep < len(sleeps) and sleeps[next_sleep] < takes[at]:
            return 0
        return takes[at]

    def _sweep(self) -> None:
        """At each change: since when there has been an unclaimed item."""
        steps = [(t, 1) for t in self._stored_at]
        steps += [(t, -1) for t in self.taken]
        steps += [(t, -1) for t in self._begin_claims]
        steps += [(t, 1) for t in self._end_claims]
        # A take ends its claim at the same time, which is no interruption.
        steps.sort(key=lambda step: (step[0], -step[1]))
        self._changes: list[int] = []
        self._since: list[int] = []
        level, since = 0, 0
        for t, step in steps:
            level += step
            since = 0 if level <= 0 else since or t
            self._changes.append(t)
            self._since.append(since)

    def ready(self, t: int) -> int:
        """The number of items that may be there at ``t``."""
        return bisect_right(self._published_at, t) - bisect_right(self._taken_by, t)

    def left_over_since(self, t: int) -> int:
        """Since when, without interruption until ``t``, an item was unclaimed; or 0."""
        at = bisect_left(self._changes, t) - 1
        return self._since[at] if at >= 0 else 0

    def oldest(self, t: int, looked: int, *, certain: bool = False) -> MarkRecord | None:
        """The oldest item unclaimed just before ``t`` that was not there yet at ``looked``.

        Args:
            t: The time.
            looked: Items that were certainly there at this time do not count.
            certain: Nor do items that were perhaps there.
        """
        claimed = bisect_left(self._begin_claims, t) - bisect_left(self._end_claims, t)
        first = bisect_left(self.taken, t) + claimed
        first = max(first, bisect_right(self._stored_at, looked))
        for publication in self._stored[first : bisect_left(self._stored_at, t)]:
            if not certain or publication.t > looked:
                return publication
        return None

    def took_before_sleep(self, wait: Wait) -> MarkRecord | None:
        """The call around a wait that may have taken its item before the wait's last sleep.

        It does not show whether it took: it has not returned by the end of the sleep.
        """
        if not self._has_returns:
            return None
        rec = wait.record
        for t, take in self._took_at[rec.tid]:
            around = take.t <= rec.t_begin and (take.t_end or _NEVER) >= (rec.t_end or _NEVER)
            if around and t <= rec.t_slept:
                return take
        return None

    def published_between(self, begin: int, end: int) -> Sequence[MarkRecord]:
        """Publications after ``begin`` and up to ``end``."""
        at = self._published_at
        return self.published[bisect_right(at, begin) : bisect_right(at, end)]

    def took(self, wake: WakeRecord) -> bool:
        """Did a woken thread take something before it slept again?"""
        return (wake.queue, wake.tid, wake.t_wake) in self._taken_at

    def claimed_before(self, wake: WakeRecord) -> bool:
        """Had an earlier wake of the thread claimed the item that it took after this one?"""
        taken = self._taken_at.get((wake.queue, wake.tid, wake.t_wake), 0)
        return self._claims.get((wake.tid, taken), wake.t_wake) < wake.t_wake


def _waits_of(queues: Sequence[Queue]) -> dict[int, list[Wait]]:
    """The waits of each thread, by their begin."""
    found: defaultdict[int, list[Wait]] = defaultdict(list)
    for queue in queues:
        for wait in queue.waits:
            found[wait.record.tid].append(wait)
    for mine in found.values():
        mine.sort(key=lambda wait: wait.record.t_begin)
    return found


def _sleep_times(queues: Sequence[Queue]) -> dict[int, list[int]]:
    """For each thread the times at which it was asleep, or asleep again."""
    times: defaultdict[int, list[int]] = defaultdict(list)
    for queue in queues:
        for wait in queue.waits:
            mine = times[wait.record.tid]
            mine += [effect.wake.t_wake - 1 for effect in wake_effects(wait) if effect.asleep]
            if wait.record.t_slept:
                mine.append(wait.record.t_slept)
    for mine in times.values():
        mine.sort()
    return times
