# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the kernel part of the probe hands over, and its two encodings.

The guest writes packed structs, laid out as in ``records.h``. Recorded
traces for the unit tests are JSON lines of the same fields.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from operator import itemgetter
from typing import Any

from harness.recording.shapes import (
    EXCLUSIVE,
    NO_STACK,
    Change,
    Context,
    FClass,
    Mark,
    MarkRecord,
    ObjectRecord,
    Record,
    SignalRecord,
    StackRecord,
    TallyRecord,
    WaitRecord,
    WakeRecord,
    Why,
)

__all__ = [
    "EXCLUSIVE",
    "NO_STACK",
    "Change",
    "Context",
    "FClass",
    "KernelView",
    "Losses",
    "Mark",
    "MarkRecord",
    "ObjectRecord",
    "Record",
    "RecordError",
    "Recording",
    "SignalRecord",
    "StackRecord",
    "Tally",
    "TallyRecord",
    "WaitRecord",
    "WakeRecord",
    "Why",
    "count",
    "dump_lines",
    "from_guest",
    "load_lines",
    "split",
    "unpack",
]

_CLASSES: tuple[type[Record], ...] = (
    WaitRecord,
    SignalRecord,
    WakeRecord,
    ObjectRecord,
    MarkRecord,
    StackRecord,
    TallyRecord,
)


def _decoder(cls: type[Record]) -> tuple[type[Record], struct.Struct, Any]:
    """What turns bytes into a record: its class, its format, and the order of its fields."""
    members = cls.MEMBERS.split()
    return cls, cls.FORMAT, itemgetter(*(members.index(f.name) for f in fields(cls)))


# By kind, whose upper three bytes are 0.
_DECODERS = {cls.KIND: _decoder(cls) for cls in _CLASSES}
_SIZES = {cls.KIND: cls.FORMAT.size for cls in _CLASSES}


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
        decoder = _DECODERS.get(data[0]) if data else None
        if decoder is None:
            raise RecordError(f"unknown record kind {int.from_bytes(data[:4], 'little')}")
        cls, form, ordered = decoder
        try:
            yield cls(*ordered(form.unpack(data)))
        except struct.error as exc:
            raise RecordError(f"record of kind {cls.KIND}: {exc}") from exc


def split(blob: bytes) -> Iterator[bytes]:
    """Cut a stream of packed records into single ones."""
    offset, end = 0, len(blob)
    while offset < end:
        size = _SIZES.get(blob[offset])
        if size is None or offset + size > end:
            raise RecordError(f"broken record stream at byte {offset} (kind {blob[offset]})")
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
