# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The records of a recording: packed structs, laid out as in ``records.h``.

All times are nanoseconds of
CLOCK_MONOTONIC; 0 means that the event never happened.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import IntEnum
from mmap import mmap
from operator import itemgetter
from typing import Any, ClassVar, get_args


class FClass(IntEnum):
    """Object classes, as the tracepoints number them."""

    FABRIC = 1
    DOMAIN = 2
    EP = 3
    PEP = 9
    AV = 11
    MR = 12
    EQ = 13
    CQ = 14
    CNTR = 15
    WAIT = 16
    POLL = 17
    PROFILE = 19
    CHANNEL = 24
    # Any wait queue of the kernel, traced at the functions that sleep and wake.
    QUEUE = 64
    # A sleeping lock of the kernel: its unlock ends a wait.
    LOCK = 65
    # A completion of the kernel's own, of which it is known what ends the wait.
    EVENT = 66


TRACED = frozenset((FClass.QUEUE, FClass.LOCK, FClass.EVENT))
"""Classes of the kernel's own objects, which `kfabric trace` records."""
ENDER_KNOWN = frozenset((FClass.LOCK, FClass.EVENT))
"""Those of which the kernel itself knows what ends a wait, so that no marks are needed."""


class Why(IntEnum):
    """Why a queue was signalled (``enum kfi_why``); NONE if nothing was published."""

    NONE = 0
    EVENT = 1
    ERROR = 2
    OVERRUN = 3
    SIGNAL = 4
    LOST = 5
    HANDON = 6
    ACKED = 7
    CLOSED = 8


class Context(IntEnum):
    """Where the waker ran."""

    UNKNOWN = 0
    PROCESS = 1
    SOFTIRQ = 2
    HARDIRQ = 3


class Change(IntEnum):
    """The change of an object or of a membership."""

    NEW = 1
    FREE = 2
    ADD = 3
    DEL = 4


class Mark(IntEnum):
    """The effect of a marked function: it publishes an item, or takes one."""

    PUBLISH = 1
    TAKE = 2


class Ender(IntEnum):
    """Why a thread can end a wait."""

    HOLDER = 1
    # It was the last one to get a lock for reading, and may have unlocked it since.
    READER = 2
    # It was asked to stop, or to park.
    STOP = 16
    PARK = 17
    # It ran the work item; 0: no thread did.
    WORK = 18
    # No thread: an RCU grace period has to end.
    RCU = 19


NO_STACK = -1
# A bit of WaitRecord.flags. The other bits are private to the kernel part.
EXCLUSIVE = 2


@dataclass(frozen=True, slots=True)
class WaitRecord:
    """One blocking call, from its begin to its return.

    ``t_end`` is 0 if the call had not returned when the recording stopped.
    ``seq`` to ``cpu`` describe the last wake. ``ended`` is the reason that the
    call itself gives for its end: 0 if no wake ended it. Publications up to ``seen``
    do not concern the wait. ``foreign`` counts requests to the scheduler to wake the
    thread that did not come from a kfabric wake. ``kernel_wakes`` counts calls of the
    kernel's wake function for it. ``state`` is the kernel's number for the state in which
    the thread slept last; 0 if it is not known. ``gone``: a completion had counted so many
    calls of complete(), and its count was 0 again when the wait began, although no wait
    had taken them.
    """

    KIND: ClassVar[int] = 1
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II10Q3Ii3I12B2I")
    MEMBERS: ClassVar[str] = (
        "kind queue t_begin t_slept t_wake t_waking t_running t_end t_foreign seq need "
        "seen tid tgid source ret waker wakeup_ns foreign_tid fclass why ended context cpu "
        "ready sleeps wakes foreign foreign_context flags kernel_wakes state gone"
    )

    queue: int
    t_begin: int
    tid: int
    tgid: int = 0
    fclass: int = FClass.WAIT
    t_slept: int = 0
    t_wake: int = 0
    t_waking: int = 0
    t_running: int = 0
    t_end: int = 0
    t_foreign: int = 0
    seq: int = 0
    need: int = 0
    seen: int = 0
    source: int = 0
    ret: int = 0
    waker: int = 0
    wakeup_ns: int = 0
    foreign_tid: int = 0
    why: int = 0
    ended: int = 0
    context: int = 0
    cpu: int = 0
    ready: int = 0
    sleeps: int = 0
    wakes: int = 0
    foreign: int = 0
    foreign_context: int = 0
    flags: int = 0
    kernel_wakes: int = 0
    state: int = 0
    gone: int = 0

    @property
    def exclusive(self) -> bool:
        """Is one sleeper enough for a publication here?"""
        return bool(self.flags & EXCLUSIVE)


@dataclass(frozen=True, slots=True)
class SignalRecord:
    """A queue was signalled; ``sleepers`` is how many were enqueued.

    ``seq`` numbers the publications on the queue. It is 0 for a wake-up without a
    publication, such as one that a thread hands on. ``mode`` has the states of the sleepers
    that a wake call asked for; 0 if it is not known. ``count`` is what a completion counted
    before the call.
    """

    KIND: ClassVar[int] = 2
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II3Q3I4B2I")
    MEMBERS: ClassVar[str] = (
        "kind queue t seq have source sleepers waker why context cpu pad mode count"
    )

    queue: int
    t: int
    seq: int
    source: int = 0
    why: int = Why.EVENT
    have: int = 0
    sleepers: int = 0
    waker: int = 0
    context: int = 0
    cpu: int = 0
    mode: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class WakeRecord:
    """A wake that is not the last one of its wait.

    The thread slept again and was woken again before it returned, or (``t_begin``
    is 0) the thread had no open wait.
    """

    KIND: ClassVar[int] = 3
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II5Q3I4B")
    MEMBERS: ClassVar[str] = (
        "kind queue t_begin t_wake t_waking t_running seq tid source waker why context cpu pad"
    )

    queue: int
    tid: int
    t_begin: int
    t_wake: int
    seq: int = 0
    t_waking: int = 0
    t_running: int = 0
    source: int = 0
    waker: int = 0
    why: int = 0
    context: int = 0
    cpu: int = 0


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """An object was made or freed, or joined or left a wait set.

    ``other`` is the parent of a new object, or the set of a membership.
    """

    KIND: ClassVar[int] = 4
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<IIQIIII")
    MEMBERS: ClassVar[str] = "kind id t change fclass other tid"

    id: int
    t: int
    change: int
    fclass: int
    other: int = 0
    tid: int = 0


@dataclass(frozen=True, slots=True)
class MarkRecord:
    """A call of a marked function; ``queue`` is 0 if the function names none.

    It is recorded when the function begins, and again when it returns at ``t_end``. The
    item is stored, or taken, at some moment between. ``t_end`` is 0 if no return was seen.
    """

    KIND: ClassVar[int] = 5
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<IIQQIIi4B")
    MEMBERS: ClassVar[str] = "kind queue t t_end tid tgid stack what context cpu pad"

    queue: int
    t: int
    tid: int
    what: int
    tgid: int = 0
    stack: int = NO_STACK
    context: int = 0
    cpu: int = 0
    t_end: int = 0


@dataclass(frozen=True, slots=True)
class StackRecord:
    """The stacks of a wait: those of the sleeper and of its last waker.

    Stacks are keys of :attr:`Recording.stacks`, or NO_STACK. ``sleeper`` and ``waker`` are in
    the kernel, ``user_sleeper`` and ``user_waker`` in the programs that called it.
    """

    KIND: ClassVar[int] = 6
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<IIQI4iI")
    MEMBERS: ClassVar[str] = "kind queue t_begin tid sleeper waker user_sleeper user_waker pad"
    STACKS: ClassVar[tuple[str, ...]] = ("sleeper", "waker", "user_sleeper", "user_waker")

    queue: int
    t_begin: int
    tid: int
    sleeper: int = NO_STACK
    waker: int = NO_STACK
    user_sleeper: int = NO_STACK
    user_waker: int = NO_STACK

    @property
    def sleeps(self) -> tuple[int, int]:
        """The sleeper's stacks, the innermost one first."""
        return self.sleeper, self.user_sleeper

    @property
    def wakes(self) -> tuple[int, int]:
        """The waker's stacks, the innermost one first."""
        return self.waker, self.user_waker

    def updated(self, later: StackRecord) -> StackRecord:
        """The stacks of two records of one wait: the later one counts if it has a stack."""
        stacks = {name: getattr(later, name) for name in self.STACKS}
        return replace(self, **{name: s for name, s in stacks.items() if s != NO_STACK})


@dataclass(frozen=True, slots=True)
class TallyRecord:
    """The counts of a queue, written when the queue is freed."""

    KIND: ClassVar[int] = 7
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II4Q")
    MEMBERS: ClassVar[str] = "kind queue signals wakes begins ends"

    queue: int
    signals: int = 0
    wakes: int = 0
    begins: int = 0
    ends: int = 0


@dataclass(frozen=True, slots=True)
class EnderRecord:
    """At ``t``, thread ``ender`` was the one that can end the wait of ``tid``.

    A wait may have several of these records, since a lock changes hands. ``exited``: the
    thread had exited by then.
    """

    KIND: ClassVar[int] = 8
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II2Q4I")
    MEMBERS: ClassVar[str] = "kind queue t_begin t tid ender what exited"

    queue: int
    t_begin: int
    t: int
    tid: int
    ender: int
    what: int = Ender.HOLDER
    exited: int = 0


@dataclass(frozen=True, slots=True)
class WorkRecord:
    """A work item that was pending for long.

    Args:
        queue: The number of its function in the names of queues.
        t: Since when it was pending: queued, or its timer set, by thread ``tid``.
        t_queued: When it was queued; 0: its timer has not done that.
        t_deleted: When thread ``deleter`` deleted its timer, and set it no more; or 0.
        t_end: When a worker began to run it, or its timer was set again; or 0.
        t_busy: When thread ``busy`` ran an item (``busy_queue``) of the same workqueue; or 0.
    """

    KIND: ClassVar[int] = 9
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II5Q4I2B6x")
    MEMBERS: ClassVar[str] = (
        "kind queue t t_queued t_deleted t_end t_busy tid deleter busy busy_queue context "
        "delete_context"
    )

    queue: int
    t: int
    tid: int
    t_queued: int = 0
    t_deleted: int = 0
    t_end: int = 0
    t_busy: int = 0
    deleter: int = 0
    busy: int = 0
    busy_queue: int = 0
    context: int = 0
    delete_context: int = 0


Record = (
    WaitRecord
    | SignalRecord
    | WakeRecord
    | ObjectRecord
    | MarkRecord
    | StackRecord
    | TallyRecord
    | EnderRecord
    | WorkRecord
)
_UNCOUNTED = ObjectRecord | MarkRecord | StackRecord | TallyRecord | EnderRecord | WorkRecord


def _decoder(cls: type[Record]) -> tuple[type[Record], struct.Struct, Any]:
    """A record's class, its format, and the getter that puts members into field order."""
    members = cls.MEMBERS.split()
    return cls, cls.FORMAT, itemgetter(*(members.index(f.name) for f in fields(cls)))


CLASSES: tuple[type[Record], ...] = get_args(Record)
# By the first byte of a packed record. The other three bytes of its kind are 0.
_DECODERS = {cls.KIND: _decoder(cls) for cls in CLASSES}
SIZES: Mapping[int, int] = {cls.KIND: cls.FORMAT.size for cls in CLASSES}
"""Bytes of a packed record, by kind."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of one queue, kept apart from the records to check them."""

    signals: int = 0
    wakes: int = 0
    begins: int = 0
    ends: int = 0

    def __add__(self, other: Tally | TallyRecord) -> Tally:
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __neg__(self) -> Tally:
        return Tally(-self.signals, -self.wakes, -self.begins, -self.ends)


@dataclass(frozen=True, slots=True)
class Losses:
    """Events that the probe could not keep. Any count but 0 voids the verdict."""

    ring: int = 0
    waits: int = 0
    queues: int = 0
    unpaired: int = 0

    def __bool__(self) -> bool:
        return any((self.ring, self.waits, self.queues, self.unpaired))

    def __add__(self, other: Losses) -> Losses:
        return Losses(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: Losses) -> Losses:
        return Losses(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class KernelView:
    """The second view, from the kernel's own functions, of threads outside any wait.

    ``strays``: by thread, how often the module woke it and how often it slept in the module.
    """

    strays: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything that one run of the probe recorded.

    ``queues`` names the kernel's wait queues by their number in the records;
    ``stacks`` holds the frames of each stack, innermost first, as ``symbol+0x12 [module]``.
    ``marked`` counts the calls of each function that was to be marked. ``take_marked``: one
    of them takes, so what it did not take is still there. ``late``: functions that were
    marked only after their module had come, with both times; 0 for an unknown one. ``gaps``
    are other functions and modules that were not traced from their beginning, in words.
    ``asleep`` has the frames, innermost first, in which threads slept at ``t_stop`` that
    could have ended a wait.
    """

    records: tuple[Record, ...]
    tallies: Mapping[int, Tally] = field(default_factory=dict)
    threads: Mapping[int, str] = field(default_factory=dict)
    queues: Mapping[int, str] = field(default_factory=dict)
    stacks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    losses: Losses = Losses()
    t_stop: int = 0
    kernel: KernelView | None = None
    marked: Mapping[str, int] = field(default_factory=dict)
    take_marked: bool = False
    late: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    asleep: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


class RecordError(ValueError):
    """A recording that cannot be read."""


def unpack(chunks: Iterable[bytes]) -> Iterator[Record]:
    """Decode packed records, one chunk each.

    Raises:
        RecordError: A chunk is not one record.
    """
    for data in chunks:
        decoder = _DECODERS.get(data[0]) if data else None
        if decoder is None:
            raise RecordError(f"unknown record kind {int.from_bytes(data[:4], 'little')}")
        cls, form, ordered = decoder
        try:
            yield cls(*ordered(form.unpack(data)))
        except struct.error as exc:
            raise RecordError(f"record of kind {cls.KIND}: {exc}") from exc


def pack(record: Record) -> bytes:
    """Encode a record as the kernel part writes it."""
    names = record.MEMBERS.split()
    values = [record.KIND if name == "kind" else getattr(record, name, 0) for name in names]
    return record.FORMAT.pack(*values)


def split(blob: bytes | mmap) -> Iterator[bytes]:
    """Cut a stream of packed records into single ones.

    Raises:
        RecordError: The stream is damaged.
    """
    offset, end = 0, len(blob)
    while offset < end:
        size = SIZES.get(blob[offset])
        if size is None or offset + size > end:
            raise RecordError(f"broken record stream at byte {offset} (kind {blob[offset]})")
        yield blob[offset : offset + size]
        offset += size


def from_guest(head: Mapping[str, Any], blob: bytes) -> Recording:
    """Build a recording from the loader's JSON head and packed records.

    Raises:
        RecordError: Either is damaged.
    """
    try:
        records = tuple(unpack(split(blob)))
        tallies = {
            int(queue): Tally(*(counts[f.name] for f in fields(Tally)))
            for queue, counts in head["tallies"].items()
        }
        # The counts of freed queues are in the records.
        for record in records:
            if isinstance(record, TallyRecord):
                tallies[record.queue] = tallies.get(record.queue, Tally()) + record
        return recording_of(head, records, tallies)
    except KeyError as exc:
        raise RecordError(f"bad recording head: it has no {exc}") from exc
    except (TypeError, AttributeError) as exc:
        raise RecordError(f"bad recording head: {exc}") from exc


def recording_of(
    head: Mapping[str, Any], records: tuple[Record, ...], tallies: Mapping[int, Tally]
) -> Recording:
    """A recording from the parts of its encoding; the opposite of :func:`head_of`."""
    kernel = head.get("kernel")
    strays = kernel["strays"].items() if kernel is not None else ()
    return Recording(
        records=records,
        tallies=tallies,
        threads={int(tid): str(comm) for tid, comm in head["threads"].items()},
        queues={int(q): str(name) for q, name in head.get("queues", {}).items()},
        stacks={int(s): tuple(frames) for s, frames in head.get("stacks", {}).items()},
        losses=Losses(**head["losses"]),
        t_stop=int(head["t_stop"]),
        kernel=KernelView({int(tid): (int(w), int(s)) for tid, (w, s) in strays})
        if kernel is not None
        else None,
        marked={str(name): int(calls) for name, calls in head.get("marks", {}).items()},
        take_marked=bool(head.get("take_marked", False)),
        late={
            str(name): (int(late["coming"]), int(late["attached"]))
            for name, late in head.get("late", {}).items()
        },
        gaps=tuple(_gaps(head)),
        asleep={int(tid): tuple(frames) for tid, frames in head.get("asleep", {}).items()},
    )


def _gaps(head: Mapping[str, Any]) -> Iterator[str]:
    """What a tracer did not find."""
    for name in head.get("missing", ()):
        yield f"{name} was not found, so it was not traced"
    yield from head.get("gaps", ())


def head_of(recording: Recording) -> dict[str, Any]:
    """Everything but the records, for JSON."""
    return {
        "t_stop": recording.t_stop,
        "losses": asdict(recording.losses),
        "tallies": {queue: asdict(tally) for queue, tally in recording.tallies.items()},
        "threads": dict(recording.threads),
        "queues": dict(recording.queues),
        "stacks": {number: list(frames) for number, frames in recording.stacks.items()},
        "kernel": asdict(recording.kernel) if recording.kernel else None,
        "marks": dict(recording.marked),
        "take_marked": recording.take_marked,
        "late": {
            name: {"coming": coming, "attached": attached}
            for name, (coming, attached) in recording.late.items()
        },
        "gaps": list(recording.gaps),
        "asleep": {tid: list(frames) for tid, frames in recording.asleep.items()},
    }


def count(records: Iterable[Record]) -> dict[int, Tally]:
    """Count records by queue, in the way in which the kernel part counts events."""
    sums: dict[int, list[int]] = {}
    for record in records:
        if isinstance(record, _UNCOUNTED):
            continue
        row = sums.setdefault(record.queue, [0, 0, 0, 0])
        if isinstance(record, SignalRecord):
            row[0] += 1
        elif isinstance(record, WakeRecord):
            row[1] += 1
        else:
            row[1] += record.t_wake != 0
            row[2] += 1
            row[3] += record.t_end != 0
    return {queue: Tally(*row) for queue, row in sums.items()}
