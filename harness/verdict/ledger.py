# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The ledger: each wait with the wake that ended it, each signal with the wakes it caused.

Pure: a function of the recording alone.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from errno import EINTR
from functools import reduce

from kfabric.recording.records import (
    NO_STACK,
    TRACED,
    Change,
    Context,
    EnderRecord,
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
    WorkRecord,
    count,
)

# -EAGAIN and -ETIMEDOUT: the results of a blocking call at its deadline.
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
    FClass.LOCK: "lock",
    FClass.EVENT: "event",
}


def class_name(fclass: int) -> str:
    """The word for an object class; an unknown class keeps its number."""
    return _CLASS_NAMES[FClass(fclass)] if fclass in list(FClass) else f"class {fclass}"


@dataclass(eq=False, slots=True)
class Wait:
    """One blocking call. ``number`` counts the calls of one thread on one queue, from 1."""

    record: WaitRecord
    number: int
    wakes: list[WakeRecord] = field(default_factory=list)
    stacks: StackRecord | None = None
    enders: list[EnderRecord] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Did the call return before the recording stopped?"""
        return self.record.t_end != 0

    @property
    def slept(self) -> bool:
        """Did the thread sleep within the call?"""
        return self.record.sleeps > 0

    @property
    def succeeded(self) -> bool:
        """Did the call return without an error?"""
        return self.finished and self.record.ret >= 0

    @property
    def timed_out(self) -> bool:
        """Did the call return because its deadline had passed?"""
        return self.finished and self.record.ret in TIMED_OUT

    @property
    def signalled(self) -> bool:
        """Did a signal wake the thread, so that the call returned?"""
        return self.record.ret == -EINTR and bool(self.record.t_foreign)

    @property
    def woken_by_timer(self) -> bool:
        """Is it known that the thread's own deadline woke it, and not its queue?

        ``kfabric trace`` sees the timer's function. Of a wait on kfabric's objects only the
        deadline wakes from the timer interrupt, unless a signal ended it.
        """
        rec = self.record
        if not rec.t_foreign:
            return False
        if rec.fclass in TRACED:
            return self.timed_out
        from_timer = rec.foreign_context == Context.HARDIRQ
        return from_timer and self.finished and not self.signalled

    @property
    def unaided(self) -> bool:
        """Did it sleep, and end without a wake-up from its queue?"""
        return self.finished and self.slept and not self.record.ended

    @property
    def last_wake(self) -> WakeRecord | None:
        """The wake that ended the call, if one did."""
        return self.wakes[-1] if self.wakes and self.record.ended else None

    def asleep_at(self, t: int) -> bool:
        """Was the thread asleep on its queue at ``t``? Only its last sleep is known."""
        rec = self.record
        if not 0 < rec.t_slept <= t or (self.finished and rec.t_end <= t):
            return False
        if rec.t_slept < rec.t_foreign <= t:
            return False
        return not any(rec.t_slept < wake.t_wake <= t for wake in self.wakes)


@dataclass(eq=False, slots=True)
class Signal:
    """One signal to a queue, and the wakes that it caused."""

    record: SignalRecord
    wakes: list[WakeRecord] = field(default_factory=list)
    stack: int = NO_STACK


@dataclass(eq=False, slots=True)
class Queue:
    """Everything that happened on one wait queue, in order.

    ``signals`` are its publications by number, ``others`` the signals without a
    number. ``strays`` are wakes that belong to no wait.
    """

    id: int
    fclass: int = 0
    waits: list[Wait] = field(default_factory=list)
    signals: dict[int, Signal] = field(default_factory=dict)
    others: list[Signal] = field(default_factory=list)
    strays: list[WakeRecord] = field(default_factory=list)

    def every_signal(self) -> tuple[Signal, ...]:
        """Publications, then signals without one."""
        return (*self.signals.values(), *self.others)

    def waits_of(self, tid: int) -> list[Wait]:
        """The calls of one thread, in order."""
        return [wait for wait in self.waits if wait.record.tid == tid]

    def all_wakes(self) -> list[WakeRecord]:
        """Every wake on this queue."""
        return [wake for wait in self.waits for wake in wait.wakes] + self.strays

    def signal_of(self, wake: WakeRecord) -> Signal | None:
        """The signal that caused a wake: by its number, else the last one before it."""
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
    """The whole recording, by queue; ``doubts`` are the reasons why it may be incomplete.

    ``late``: those of the doubts that concern only marks.
    """

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
    marked: Mapping[str, int] = field(default_factory=dict)
    asleep: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    works: tuple[WorkRecord, ...] = ()
    take_marked: bool = False
    late: tuple[str, ...] = ()

    def object_name(self, oid: int, names: Mapping[int, str] | None = None) -> str:
        """Class and id of an object, with the name that the run gave it."""
        if oid in self.names:
            return self.names[oid]
        known = self.objects.get(oid)
        fclass = (known or self.queues.get(oid) or Queue(oid)).fclass
        plain = f"{class_name(fclass) if fclass else 'object'} {oid & _LOAD - 1}"
        given = (names or {}).get(oid)
        return f"{plain} ({given})" if given else plain

    def waits(self) -> Iterator[tuple[Queue, Wait]]:
        """Every wait, with its queue."""
        return ((queue, wait) for queue in self.queues.values() for wait in queue.waits)

    def signals(self) -> list[Signal]:
        """The signals of all queues, by time."""
        signals = (signal for queue in self.queues.values() for signal in queue.every_signal())
        return sorted(signals, key=lambda signal: signal.record.t)

    def thread_name(self, tid: int) -> str:
        """Name and id of a thread."""
        comm = self.threads.get(tid)
        return f"thread {comm}/{tid}" if comm else f"thread {tid}"

    def function(self, mark: MarkRecord) -> str:
        """The marked function that was called; empty if its stack was not recorded."""
        return next(iter(self.frames(mark.stack)), "").partition("+")[0]

    def frames(self, *stacks: int) -> tuple[str, ...]:
        """The frames of stacks that call each other, innermost first; none for NO_STACK."""
        return tuple(frame for stack in stacks for frame in self.stacks.get(stack, ()))


def _settled(record: WaitRecord) -> WaitRecord:
    """The record, with the last sleep before the wake that ended it.

    A thread has left its run queue some time before the event of the switch. A wake within
    that time is seen before the sleep that it ends; the scheduler completes it after the
    switch, but completes at once one of a thread that has not left.
    """
    if record.t_waking < record.t_slept < record.t_waking + record.wakeup_ns:
        return replace(record, t_slept=record.t_wake - 1)
    return record


def build(recording: Recording) -> Ledger:
    """Sort a recording into a ledger, and look for gaps in it."""
    queues: dict[int, Queue] = {}
    wakes: list[WakeRecord] = []
    marks: list[MarkRecord] = []
    stacks: list[StackRecord] = []
    enders: list[EnderRecord] = []
    works: list[WorkRecord] = []
    objects: dict[int, ObjectRecord] = {}
    members: defaultdict[int, set[int]] = defaultdict(set)
    doubts = []
    for record in _with_separate_ids(recording.records):
        match record:
            case WaitRecord():
                queue = queues.setdefault(record.queue, Queue(record.queue))
                queue.fclass = record.fclass
                queue.waits.append(Wait(_settled(record), 0))
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
            case EnderRecord():
                enders.append(record)
            case WorkRecord():
                queues.setdefault(record.queue, Queue(record.queue))
                works.append(record)
            case ObjectRecord(change=Change.NEW):
                objects[record.id] = record
            case ObjectRecord(change=Change.ADD):
                members[record.other].add(record.id)
    for queue in queues.values():
        _number(queue)
    _place_wakes(queues, wakes)
    _place_stacks(queues, stacks)
    _place_enders(queues, enders)
    late = tuple(_late_marks(recording, queues))
    return Ledger(
        queues=queues,
        objects=objects,
        members={oid: frozenset(ids) for oid, ids in members.items()},
        threads=dict(recording.threads),
        doubts=(*recording.gaps, *late, *_doubts(recording, queues), *doubts),
        late=late,
        marks=_with_returns(marks),
        names=dict(recording.queues),
        stacks=dict(recording.stacks),
        kernel=recording.kernel,
        t_stop=recording.t_stop,
        marked=dict(recording.marked),
        asleep=dict(recording.asleep),
        works=tuple(works),
        take_marked=recording.take_marked,
    )


# Ids have 32 bits. A module that is loaded again starts with the first id again. Ids of
# earlier loads get higher numbers here, so that the two are never mixed up.
_LOAD = 1 << 32


def _with_separate_ids(records: tuple[Record, ...]) -> Iterable[Record]:
    """The records, with separate ids for objects that had the same id one after the other."""
    births: defaultdict[int, set[int]] = defaultdict(set)
    for record in records:
        match record:
            case ObjectRecord(id=oid, change=Change.NEW, t=t):
                births[oid].add(t)
            case ObjectRecord(id=oid, change=Change.FREE) if not births[oid]:
                # The object was made before the recording.
                births[oid].add(0)
    again = {oid: sorted(times) for oid, times in births.items() if len(times) > 1}
    return (_with_id_of_load(record, again) for record in records) if again else records


def _with_id_of_load(record: Record, again: Mapping[int, list[int]]) -> Record:
    """A record, with other ids if it is about an earlier load of the module."""

    def old(oid: int, t: int) -> int:
        later = len(again[oid]) - max(bisect_right(again[oid], t), 1) if oid in again else 0
        return oid + later * _LOAD

    match record:
        case WaitRecord(t_begin=t) | SignalRecord(t=t) | WakeRecord(t_wake=t):
            queue, source = old(record.queue, t), old(record.source, t)
            return replace(record, queue=queue, source=source)
        case ObjectRecord(id=oid, other=other, t=t):
            return replace(record, id=old(oid, t), other=old(other, t))
        case StackRecord(queue=queue, t_begin=t):
            return replace(record, queue=old(queue, t))
    return record


def _with_returns(marks: Iterable[MarkRecord]) -> tuple[MarkRecord, ...]:
    """The calls of marked functions in order, each with its return if that was recorded."""
    begins: list[MarkRecord] = []
    returns: dict[MarkRecord, MarkRecord] = {}
    for mark in marks:
        if mark.t_end:
            returns[replace(mark, t_end=0)] = mark
        else:
            begins.append(mark)
    whole = [returns.get(begin, begin) for begin in begins]
    # A part of a recording may lack the begin.
    whole += [returns[begin] for begin in returns.keys() - set(begins)]
    return tuple(sorted(whole, key=lambda mark: mark.t))


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
    """Add every wake to its wait, and to the signal that caused it."""
    waits = {
        (wait.record.queue, wait.record.tid, wait.record.t_begin): wait
        for queue in queues.values()
        for wait in queue.waits
    }
    for record in early:
        queue = queues.setdefault(record.queue, Queue(record.queue))
        owner = waits.get((record.queue, record.tid, record.t_begin))
        (owner.wakes if owner else queue.strays).append(record)
    for wait in waits.values():
        wait.wakes.sort(key=lambda wake: wake.t_wake)
        if wait.record.t_wake:
            # The last wake is a part of the wait's own record.
            wait.wakes.append(
                WakeRecord(*(getattr(wait.record, f.name) for f in fields(WakeRecord)))
            )
    for queue in queues.values():
        for wake in queue.all_wakes():
            signal = queue.signal_of(wake)
            if signal:
                signal.wakes.append(wake)


def _place_stacks(queues: Mapping[int, Queue], stacks: list[StackRecord]) -> None:
    """Add the stacks to their waits, and a waker's stack to its signal."""
    of: defaultdict[tuple[int, int, int], list[StackRecord]] = defaultdict(list)
    for stack in stacks:
        of[stack.queue, stack.tid, stack.t_begin].append(stack)
    for queue in queues.values() if of else ():
        for wait in queue.waits:
            mine = of.get((queue.id, wait.record.tid, wait.record.t_begin), [])
            if mine:
                wait.stacks = reduce(StackRecord.updated, mine)
        for signal in queue.every_signal():
            for stack in of.get((queue.id, signal.record.waker, signal.record.t), []):
                signal.stack = stack.waker


def _place_enders(queues: Mapping[int, Queue], enders: list[EnderRecord]) -> None:
    """Add the threads that could end a wait to it, in order."""
    of: defaultdict[tuple[int, int, int], list[EnderRecord]] = defaultdict(list)
    for ender in sorted(enders, key=lambda ender: ender.t):
        of[ender.queue, ender.tid, ender.t_begin].append(ender)
    for queue in queues.values() if of else ():
        for wait in queue.waits:
            wait.enders = of.get((queue.id, wait.record.tid, wait.record.t_begin), [])


_THREAD_START = "completion on the stack of __kthread_create_on_node"
"""The name of the queue of threads that start others. No marked function has to do with it."""


def _late_marks(recording: Recording, queues: Mapping[int, Queue]) -> Iterator[str]:
    """Functions that were marked late, if queues with waits to judge were busy by then."""
    queues = {
        number: queue
        for number, queue in queues.items()
        if queue.waits and recording.queues.get(number) != _THREAD_START
    }
    for name, (coming, attached) in recording.late.items():
        if not coming:
            yield f"{name} was not marked from the beginning of its module"
            continue
        times = [wait.record.t_begin for queue in queues.values() for wait in queue.waits]
        times += [call.record.t for queue in queues.values() for call in queue.every_signal()]
        if busy := sum(coming <= t <= attached for t in times):
            yield (
                f"{name} was marked only {(attached - coming) / 1e6:.1f} ms after its module had "
                f"come; waits and wake calls that began in that time: {busy}"
            )


def _doubts(recording: Recording, queues: Mapping[int, Queue]) -> list[str]:
    doubts = []
    lost = recording.losses
    if lost:
        doubts.append(
            f"the probe lost events: {lost.ring} in the ring, {lost.waits} waits "
            f"and {lost.queues} queues in full maps, {lost.unpaired} unpaired"
        )
    counted = count(recording.records)
    for oid in sorted(set(counted) | set(recording.tallies)):
        tally, delivered = recording.tallies.get(oid, Tally()), counted.get(oid, Tally())
        if tally != delivered:
            doubts.append(f"queue {oid}: the probe counted {tally} but delivered {delivered}")
    for queue in queues.values():
        # Publications are numbered without gaps, so a missing number was not recorded.
        numbers = list(queue.signals) or [0]
        if missing := numbers[-1] - numbers[0] + 1 - len(numbers):
            doubts.append(f"queue {queue.id}: {missing} publications were not seen")
    return doubts
