# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the kernel part of the probe hands over, and its two encodings.

The guest writes packed structs, laid out as in ``records.h``. Recorded
traces for the unit tests are JSON lines of the same fields. All times are
nanoseconds of CLOCK_MONOTONIC; 0 means that it never happened.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar


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
    # Any wait queue of the kernel, seen by the functions that sleep and wake.
    QUEUE = 64


class Why(IntEnum):
    """Why a queue was signalled (``enum kfi_why``); 0: nothing was published."""

    NONE = 0
    EVENT = 1
    ERROR = 2
    OVERRUN = 3
    SIGNAL = 4
    LOST = 5
    HANDON = 6


class Context(IntEnum):
    """Where the waker ran."""

    UNKNOWN = 0
    PROCESS = 1
    SOFTIRQ = 2
    HARDIRQ = 3


class Change(IntEnum):
    """What happened to an object or a membership."""

    NEW = 1
    FREE = 2
    ADD = 3
    DEL = 4


class Mark(IntEnum):
    """What a marked function of a module means: something came, or was taken."""

    PUBLISH = 1
    TAKE = 2


NO_STACK = -1
# Of WaitRecord.flags; the others are the kernel part's own.
EXCLUSIVE = 2


@dataclass(frozen=True, slots=True)
class WaitRecord:
    """One blocking call, from its begin to its return.

    One that had not returned when the recording stopped has ``t_end == 0``.
    ``seq`` to ``cpu`` describe its last wake; ``ended`` is the reason that the
    call itself gives for its end: 0 if no wake ended it. ``seen`` is the last
    publication that does not concern it. ``foreign`` counts how often the
    scheduler was asked to wake the thread by anything but a kfabric wake,
    ``kernel_wakes`` how often the kernel's wake function ran for it.
    """

    KIND: ClassVar[int] = 1
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II10Q3Ii3I12B")
    MEMBERS: ClassVar[str] = (
        "kind queue t_begin t_slept t_wake t_waking t_running t_end t_foreign seq need "
        "seen tid tgid source ret waker wakeup_ns foreign_tid fclass why ended context cpu "
        "ready sleeps wakes foreign foreign_context flags kernel_wakes"
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

    @property
    def exclusive(self) -> bool:
        """Is one sleeper enough for a publication here?"""
        return bool(self.flags & EXCLUSIVE)


@dataclass(frozen=True, slots=True)
class SignalRecord:
    """A queue was signalled, with the sleepers that were found enqueued.

    ``seq`` numbers the publications on the queue; it is 0 for a wake-up that is
    none, such as one that a thread hands on.
    """

    KIND: ClassVar[int] = 2
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II3Q3I4B")
    MEMBERS: ClassVar[str] = "kind queue t seq have source sleepers waker why context cpu pad"

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


@dataclass(frozen=True, slots=True)
class WakeRecord:
    """A wake that is not the last one of its wait.

    The thread went back to sleep and was woken again before it returned, or
    (``t_begin == 0``) no wait of that thread was open.
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
    """An object came or went, or joined or left a wait set.

    ``other`` is the parent of a new object, the set of a membership.
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
    """A thread entered a function that publishes or takes what sleepers wait for.

    ``queue`` is 0 if the function does not tell whose event it is.
    """

    KIND: ClassVar[int] = 5
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<IIQIIi4B")
    MEMBERS: ClassVar[str] = "kind queue t tid tgid stack what context cpu pad"

    queue: int
    t: int
    tid: int
    what: int
    tgid: int = 0
    stack: int = NO_STACK
    context: int = 0
    cpu: int = 0


@dataclass(frozen=True, slots=True)
class StackRecord:
    """The kernel stacks of a wait: its sleeper's, and that of who woke it last.

    Stacks are numbers of :attr:`Recording.stacks`, or NO_STACK.
    """

    KIND: ClassVar[int] = 6
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<IIQIiiI")
    MEMBERS: ClassVar[str] = "kind queue t_begin tid sleeper waker pad"

    queue: int
    t_begin: int
    tid: int
    sleeper: int = NO_STACK
    waker: int = NO_STACK


@dataclass(frozen=True, slots=True)
class TallyRecord:
    """What was counted on a queue, told when the queue goes."""

    KIND: ClassVar[int] = 7
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II4Q")
    MEMBERS: ClassVar[str] = "kind queue signals wakes begins ends"

    queue: int
    signals: int = 0
    wakes: int = 0
    begins: int = 0
    ends: int = 0


Record = (
    WaitRecord | SignalRecord | WakeRecord | ObjectRecord | MarkRecord | StackRecord | TallyRecord
)

_CLASSES: tuple[type[Record], ...] = (
    WaitRecord,
    SignalRecord,
    WakeRecord,
    ObjectRecord,
    MarkRecord,
    StackRecord,
    TallyRecord,
)
_BY_KIND: Mapping[int, type[Record]] = {cls.KIND: cls for cls in _CLASSES}
_MEMBERS = {cls: tuple(cls.MEMBERS.split()) for cls in _CLASSES}
_WANTED = {cls: frozenset(f.name for f in fields(cls)) for cls in _CLASSES}


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of one queue, kept apart from the records to check them."""

    signals: int = 0
    wakes: int = 0
    begins: int = 0
    ends: int = 0

    @classmethod
    def of(cls, head: Mapping[str, int]) -> Tally:
        """Decode a head's part, which may say more."""
        return cls(head["signals"], head["wakes"], head["begins"], head["ends"])

    def negative(self) -> Tally:
        """To take off by adding."""
        return Tally(-self.signals, -self.wakes, -self.begins, -self.ends)

    def __add__(self, other: Tally | TallyRecord) -> Tally:
        return Tally(
            self.signals + other.signals,
            self.wakes + other.wakes,
            self.begins + other.begins,
            self.ends + other.ends,
        )


@dataclass(frozen=True, slots=True)
class Losses:
    """What the probe could not keep. Anything but zeros voids the verdict."""

    ring: int = 0
    waits: int = 0
    queues: int = 0
    unpaired: int = 0

    def __bool__(self) -> bool:
        return any((self.ring, self.waits, self.queues, self.unpaired))


@dataclass(frozen=True, slots=True)
class KernelView:
    """What the kernel's own functions told of threads that were in no wait.

    ``strays``: by thread, how often the module woke it and it slept in the module.
    """

    strays: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, head: Mapping[str, Any] | None) -> KernelView | None:
        """Decode a head's part; None if there was no such view."""
        if head is None:
            return None
        return cls({int(tid): (int(w), int(s)) for tid, (w, s) in head["strays"].items()})


@dataclass(frozen=True, slots=True)
class Recording:
    """All that one run of the probe saw.

    ``queues`` names the kernel's wait queues by their number in the records;
    ``stacks`` holds the frames of each stack, innermost first, as ``symbol+0x12 [module]``.
    """

    records: tuple[Record, ...]
    tallies: Mapping[int, Tally] = field(default_factory=dict)
    threads: Mapping[int, str] = field(default_factory=dict)
    queues: Mapping[int, str] = field(default_factory=dict)
    stacks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    losses: Losses = Losses()
    t_stop: int = 0
    kernel: KernelView | None = None


class RecordError(ValueError):
    """A recording that cannot be read."""


def unpack(chunks: Iterable[bytes]) -> Iterator[Record]:
    """Decode packed records, one chunk each."""
    for data in chunks:
        kind = int.from_bytes(data[:4], "little")
        cls = _BY_KIND.get(kind)
        if cls is None:
            raise RecordError(f"unknown record kind {kind}")
        try:
            values = zip(_MEMBERS[cls], cls.FORMAT.unpack(data), strict=True)
        except struct.error as exc:
            raise RecordError(f"record of kind {kind}: {exc}") from exc
        wanted = _WANTED[cls]
        yield cls(**{name: value for name, value in values if name in wanted})


def split(blob: bytes) -> Iterator[bytes]:
    """Cut a stream of packed records into single ones."""
    sizes = {cls.KIND: cls.FORMAT.size for cls in _CLASSES}
    offset = 0
    while offset < len(blob):
        kind = int.from_bytes(blob[offset : offset + 4], "little")
        size = sizes.get(kind)
        if size is None or offset + size > len(blob):
            raise RecordError(f"broken record stream at byte {offset} (kind {kind})")
        yield blob[offset : offset + size]
        offset += size


def from_guest(head: Mapping[str, Any], blob: bytes) -> Recording:
    """Build a recording from what the loader left: its JSON head and its records.

    Raises RecordError if either is damaged.
    """
    try:
        records = tuple(unpack(split(blob)))
        tallies = {int(q): Tally.of(t) for q, t in head["tallies"].items()}
        return Recording(
            records=records,
            tallies=_with_gone(tallies, records),
            threads={int(tid): str(comm) for tid, comm in head["threads"].items()},
            queues={int(q): str(name) for q, name in head.get("queues", {}).items()},
            stacks={int(s): tuple(frames) for s, frames in head.get("stacks", {}).items()},
            losses=Losses(**head["losses"]),
            t_stop=int(head["t_stop"]),
            kernel=KernelView.of(head.get("kernel")),
        )
    except (KeyError, TypeError, AttributeError) as exc:
        raise RecordError(f"bad recording head: {exc!r}") from exc


def _with_gone(tallies: dict[int, Tally], records: Iterable[Record]) -> dict[int, Tally]:
    """Add what was counted on queues that went."""
    for record in records:
        if isinstance(record, TallyRecord):
            tallies[record.queue] = tallies.get(record.queue, Tally()) + record
    return tallies


_NAMES: Mapping[str, type[Record]] = {
    "wait": WaitRecord,
    "signal": SignalRecord,
    "wake": WakeRecord,
    "object": ObjectRecord,
    "mark": MarkRecord,
    "stack": StackRecord,
    "tally": TallyRecord,
}
_KINDS = {cls: name for name, cls in _NAMES.items()}


def _sparse(record: Record) -> dict[str, Any]:
    """The record's fields that differ from their defaults, to keep lines short."""
    defaults = {f.name: f.default for f in fields(record)}
    return {k: int(v) for k, v in asdict(record).items() if v != defaults[k]}


def dump_lines(recording: Recording) -> Iterator[str]:
    """Encode a recording as JSON lines: one head, then one line a record."""
    yield json.dumps(
        {
            "kind": "head",
            "t_stop": recording.t_stop,
            "losses": asdict(recording.losses),
            "tallies": {q: asdict(t) for q, t in recording.tallies.items()},
            "threads": dict(recording.threads),
            "queues": dict(recording.queues),
            "stacks": {number: list(frames) for number, frames in recording.stacks.items()},
            "kernel": asdict(recording.kernel) if recording.kernel else None,
        }
    )
    for record in recording.records:
        yield json.dumps({"kind": _KINDS[type(record)]} | _sparse(record))


def load_lines(lines: Iterable[str]) -> Recording:
    """Decode JSON lines, as :func:`dump_lines` writes them.

    A line that is empty or begins with ``#`` is skipped; a missing head means
    no losses, and tallies that are counted from the records themselves.
    """
    head: dict[str, Any] = {}
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            item = json.loads(line)
            kind = item.pop("kind")
            if kind == "head":
                head = item
            else:
                records.append(_NAMES[kind](**item))
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise RecordError(f"line {number}: {exc!r}") from exc
    tallies = {int(q): Tally(**t) for q, t in head.get("tallies", {}).items()}
    return Recording(
        records=tuple(records),
        tallies=tallies or count(records),
        threads={int(tid): comm for tid, comm in head.get("threads", {}).items()},
        queues={int(q): name for q, name in head.get("queues", {}).items()},
        stacks={int(s): tuple(frames) for s, frames in head.get("stacks", {}).items()},
        losses=Losses(**head.get("losses", {})),
        t_stop=head.get("t_stop", 0),
        kernel=KernelView.of(head.get("kernel")),
    )


def count(records: Iterable[Record]) -> dict[int, Tally]:
    """Count records by queue the way the kernel part counts events."""
    sums: dict[int, list[int]] = {}
    for record in records:
        if isinstance(record, ObjectRecord | MarkRecord | StackRecord | TallyRecord):
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
