# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The ledger: each wait with what ended it, each signal with whom it woke.

Pure: a recording goes in, nothing is measured or looked up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from harness.recording.records import (
    NO_STACK,
    Change,
    FClass,
    KernelView,
    MarkRecord,
    ObjectRecord,
    Record,
    Recording,
    SignalRecord,
    StackRecord,
    Tally,
    WaitRecord,
    WakeRecord,
    count,
)

# -EAGAIN and -ETIMEDOUT: what a blocking call returns at its deadline.
TIMED_OUT = frozenset((-11, -110))

_CLASS_NAMES = {
    FClass.FABRIC: "fabric",
    FClass.DOMAIN: "domain",
    FClass.EP: "endpoint",
    FClass.PEP: "passive endpoint",
    FClass.AV: "address vector",
    FClass.MR: "memory region",
    FClass.EQ: "EQ",
    FClass.CQ: "CQ",
    FClass.CNTR: "counter",
    FClass.WAIT: "wait set",
    FClass.POLL: "poll set",
    FClass.PROFILE: "profile",
    FClass.CHANNEL: "completion channel",
    FClass.QUEUE: "wait queue",
}


def class_name(fclass: int) -> str:
    """The word for an object class; unknown ones keep their number."""
    return (
        _CLASS_NAMES.get(FClass(fclass), str(fclass))
        if fclass in list(FClass)
        else f"class {fclass}"
    )


@dataclass(frozen=True, slots=True)
class Wake:
    """One sleeper taken off a queue and woken.

    ``t_waking`` is when the scheduler was asked, ``t_running`` when the thread
    was on a CPU again; 0 if that did not happen (it had not slept yet).
    """

    queue: int
    tid: int
    seq: int
    source: int
    why: int
    t_wake: int
    t_waking: int
    t_running: int
    waker: int
    context: int
    cpu: int

    @classmethod
    def of(cls, record: WaitRecord | WakeRecord) -> Wake:
        """The wake that a record describes."""
        return cls(
            queue=record.queue,
            tid=record.tid,
            seq=record.seq,
            source=record.source,
            why=record.why,
            t_wake=record.t_wake,
            t_waking=record.t_waking,
            t_running=record.t_running,
            waker=record.waker,
            context=record.context,
            cpu=record.cpu,
        )


@dataclass(eq=False, slots=True)
class Wait:
    """One blocking call. ``number`` counts the calls of one thread on one queue, from 1."""

    record: WaitRecord
    number: int
    wakes: list[Wake] = field(default_factory=list)
    stacks: StackRecord | None = None

    @property
    def finished(self) -> bool:
        """Did the call return before the recording stopped?"""
        return self.record.t_end != 0

    @property
    def slept(self) -> bool:
        """Was the thread ever off its CPU, asleep, within the call?"""
        return self.record.sleeps > 0

    @property
    def succeeded(self) -> bool:
        """Did the call return what it was for?"""
        return self.finished and self.record.ret >= 0

    @property
    def timed_out(self) -> bool:
        """Did the call return because its deadline had passed?"""
        return self.finished and self.record.ret in TIMED_OUT

    @property
    def unaided(self) -> bool:
        """Did it sleep and then end with no wake-up of ours?"""
        return self.finished and self.slept and not self.record.ended

    @property
    def last_wake(self) -> Wake | None:
        """The wake that ended the call, if one did."""
        return self.wakes[-1] if self.wakes and self.record.ended else None

    def asleep_at(self, t: int) -> bool:
        """Was the thread asleep on its queue at ``t``, as far as its last sleep tells?"""
        rec = self.record
        if not 0 < rec.t_slept <= t or (self.finished and rec.t_end <= t):
            return False
        if rec.t_slept < rec.t_foreign <= t:
            return False
        return not any(rec.t_slept < wake.t_wake <= t for wake in self.wakes)


@dataclass(eq=False, slots=True)
class Signal:
    """One signalling of a queue and the wakes that came of it."""

    record: SignalRecord
    wakes: list[Wake] = field(default_factory=list)
    stack: int = NO_STACK


@dataclass(eq=False, slots=True)
class Queue:
    """All that happened on one wait queue, in order.

    ``signals`` are its publications by number, ``others`` what was signalled
    without one. ``strays`` are wakes that belong to no wait.
    """

    id: int
    fclass: int = 0
    waits: list[Wait] = field(default_factory=list)
    signals: dict[int, Signal] = field(default_factory=dict)
    others: list[Signal] = field(default_factory=list)
    strays: list[Wake] = field(default_factory=list)

    def every_signal(self) -> tuple[Signal, ...]:
        """Publications, and wake-ups that are none."""
        return (*self.signals.values(), *self.others)

    def waits_of(self, tid: int) -> list[Wait]:
        """The calls of one thread, in order."""
        return [wait for wait in self.waits if wait.record.tid == tid]

    def all_wakes(self) -> list[Wake]:
        """Every wake on this queue."""
        return [wake for wait in self.waits for wake in wait.wakes] + self.strays

    def signal_of(self, wake: Wake) -> Signal | None:
        """What a wake was for: by its number, else the last one before it."""
        if wake.seq:
            return self.signals.get(wake.seq)
        at = bisect_right(self.others, wake.t_wake, key=lambda signal: signal.record.t)
        while at:
            at -= 1
            if self.others[at].record.why == wake.why:
                return self.others[at]
        return None


@dataclass(frozen=True, slots=True)
class Ledger:
    """The whole recording, by queue; ``doubts`` says why it may be incomplete."""

    queues: Mapping[int, Queue]
    objects: Mapping[int, ObjectRecord]
    members: Mapping[int, frozenset[int]]
    threads: Mapping[int, str]
    doubts: tuple[str, ...]
    marks: tuple[MarkRecord, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    stacks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    kernel: KernelView | None = None
    t_stop: int = 0

    def object_name(self, oid: int, names: Mapping[int, str] | None = None) -> str:
        """Class and id of an object, with the name that the run gave it."""
        if oid in self.names:
            return self.names[oid]
        known = self.objects.get(oid)
        fclass = known.fclass if known else self._queue_class(oid)
        plain = f"{class_name(fclass) if fclass else 'object'} {oid & _LIFE - 1}"
        given = (names or {}).get(oid)
        return f"{plain} ({given})" if given else plain

    def thread_name(self, tid: int) -> str:
        """Name and id of a thread."""
        comm = self.threads.get(tid)
        return f"thread {comm}/{tid}" if comm else f"thread {tid}"

    def frames(self, stack: int) -> tuple[str, ...]:
        """The frames of a stack, innermost first; none for NO_STACK."""
        return self.stacks.get(stack, ())

    def _queue_class(self, oid: int) -> int:
        queue = self.queues.get(oid)
        return queue.fclass if queue else 0


def build(recording: Recording) -> Ledger:
    """Sort a recording into a ledger and look for gaps in it."""
    queues: dict[int, Queue] = {}
    wakes: list[WakeRecord] = []
    marks: list[MarkRecord] = []
    stacks: list[StackRecord] = []
    objects: dict[int, ObjectRecord] = {}
    members: defaultdict[int, set[int]] = defaultdict(set)
    doubts = []
    for record in _lives_apart(recording.records):
        match record:
            case WaitRecord():
                queue = queues.setdefault(record.queue, Queue(record.queue))
                queue.fclass = record.fclass
                queue.waits.append(Wait(record, 0))
            case SignalRecord():
                queue = queues.setdefault(record.queue, Queue(record.queue))
                if not record.seq:
                    queue.others.append(Signal(record))
                    continue
                if record.seq in queue.signals:
                    doubts.append(f"queue {queue.id}: publication {record.seq} was seen twice")
                queue.signals[record.seq] = Signal(record)
            case WakeRecord():
                wakes.append(record)
            case MarkRecord():
                marks.append(record)
            case StackRecord():
                stacks.append(record)
            case ObjectRecord(change=Change.NEW):
                objects[record.id] = record
            case ObjectRecord(change=Change.ADD):
                members[record.other].add(record.id)
    for queue in queues.values():
        _number(queue)
    _place_wakes(queues, wakes)
    _place_stacks(queues, stacks)
    return Ledger(
        queues=queues,
        objects=objects,
        members={oid: frozenset(ids) for oid, ids in members.items()},
        threads=dict(recording.threads),
        doubts=(*_doubts(recording, queues), *doubts),
        marks=tuple(sorted(marks, key=lambda mark: mark.t)),
        names=dict(recording.queues),
        stacks=dict(recording.stacks),
        kernel=recording.kernel,
        t_stop=recording.t_stop,
    )


# Ids have 32 bits. A module that is loaded anew begins with the first again; those of an
# earlier life get numbers above, so that nothing of it meets what came later.
_LIFE = 1 << 32


def _lives_apart(records: tuple[Record, ...]) -> Iterable[Record]:
    """The records, with ids that were made again told apart."""
    births: defaultdict[int, set[int]] = defaultdict(set)
    for record in records:
        match record:
            case ObjectRecord(id=oid, change=Change.NEW, t=t):
                births[oid].add(t)
            case ObjectRecord(id=oid, change=Change.FREE) if not births[oid]:
                # Its own birth was not recorded.
                births[oid].add(0)
    again = {oid: sorted(times) for oid, times in births.items() if len(times) > 1}
    return (_of_its_life(record, again) for record in records) if again else records


def _of_its_life(record: Record, again: Mapping[int, list[int]]) -> Record:
    """A record, with other ids if it is about an earlier life."""

    def old(oid: int, t: int) -> int:
        later = len(again[oid]) - max(bisect_right(again[oid], t), 1) if oid in again else 0
        return oid + later * _LIFE

    match record:
        case WaitRecord(queue=queue, source=source, t_begin=t):
            return replace(record, queue=old(queue, t), source=old(source, t))
        case SignalRecord(queue=queue, source=source, t=t):
            return replace(record, queue=old(queue, t), source=old(source, t))
        case WakeRecord(queue=queue, source=source, t_wake=t):
            return replace(record, queue=old(queue, t), source=old(source, t))
        case ObjectRecord(id=oid, other=other, t=t):
            return replace(record, id=old(oid, t), other=old(other, t))
        case StackRecord(queue=queue, t_begin=t):
            return replace(record, queue=old(queue, t))
    return record


def _number(queue: Queue) -> None:
    """Put a queue's waits and signals in order; number the waits by thread."""
    queue.waits.sort(key=lambda wait: (wait.record.t_begin, wait.record.tid))
    queue.signals = dict(sorted(queue.signals.items()))
    queue.others.sort(key=lambda signal: signal.record.t)
    seen: defaultdict[int, int] = defaultdict(int)
    for wait in queue.waits:
        seen[wait.record.tid] += 1
        wait.number = seen[wait.record.tid]


def _place_wakes(queues: dict[int, Queue], early: list[WakeRecord]) -> None:
    """Give every wake to its wait and to the signal whose number it carries."""
    waits = {
        (wait.record.queue, wait.record.tid, wait.record.t_begin): wait
        for queue in queues.values()
        for wait in queue.waits
    }
    for record in early:
        queue = queues.setdefault(record.queue, Queue(record.queue))
        owner = waits.get((record.queue, record.tid, record.t_begin))
        (owner.wakes if owner else queue.strays).append(Wake.of(record))
    for wait in waits.values():
        wait.wakes.sort(key=lambda wake: wake.t_wake)
        if wait.record.t_wake:
            wait.wakes.append(Wake.of(wait.record))
    for queue in queues.values():
        for wake in queue.all_wakes():
            signal = queue.signal_of(wake)
            if signal:
                signal.wakes.append(wake)


def _place_stacks(queues: Mapping[int, Queue], stacks: list[StackRecord]) -> None:
    """Give every wait its stacks, and a signal that of its waker."""
    of: defaultdict[tuple[int, int, int], list[StackRecord]] = defaultdict(list)
    for stack in stacks:
        of[stack.queue, stack.tid, stack.t_begin].append(stack)
    for queue in queues.values() if of else ():
        for wait in queue.waits:
            mine = of.get((queue.id, wait.record.tid, wait.record.t_begin), [])
            wait.stacks = _merged(mine) if mine else None
        for signal in queue.every_signal():
            for stack in of.get((queue.id, signal.record.waker, signal.record.t), []):
                signal.stack = stack.waker


def _merged(stacks: list[StackRecord]) -> StackRecord:
    """One record of what several tell: the last word on each thread."""
    sleepers = [stack.sleeper for stack in stacks if stack.sleeper != NO_STACK]
    wakers = [stack.waker for stack in stacks if stack.waker != NO_STACK]
    return replace(stacks[0], sleeper=[NO_STACK, *sleepers][-1], waker=[NO_STACK, *wakers][-1])


def _doubts(recording: Recording, queues: Mapping[int, Queue]) -> list[str]:
    """Everything that says: this recording is not complete."""
    doubts = []
    lost = recording.losses
    if lost:
        doubts.append(
            f"the probe lost events: {lost.ring} in the ring, {lost.waits} waits "
            f"and {lost.queues} queues in full maps, {lost.unpaired} unpaired"
        )
    counted = count(recording.records)
    for oid in sorted(set(counted) | set(recording.tallies)):
        told, seen = recording.tallies.get(oid, Tally()), counted.get(oid, Tally())
        if told != seen:
            doubts.append(f"queue {oid}: the probe counted {told} but delivered {seen}")
    for queue in queues.values():
        doubts += _gaps(queue)
    return doubts


def _gaps(queue: Queue) -> list[str]:
    """Publications are numbered without gaps, so a missing number was not seen."""
    numbers = list(queue.signals)
    if not numbers:
        return []
    missing = numbers[-1] - numbers[0] + 1 - len(numbers)
    return [f"queue {queue.id}: {missing} publications were not seen"] if missing else []
