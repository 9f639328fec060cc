# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Reads recordings from disk, record by record or as much as fits a page.

A small recording is read whole. Of a big one a part is chosen, to bound the memory: its
beginning, and the records around the waits that look suspicious.
"""

import json
import mmap
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kfabric.recording import HEAD, RECORDS
from kfabric.recording.records import (
    Change,
    ObjectRecord,
    Record,
    Recording,
    TallyRecord,
    WaitRecord,
    WorkRecord,
    count,
    from_guest,
    head_of,
    pack,
    split,
    unpack,
)
from kfabric.verdict.ledger import TIMED_OUT

WHOLE = 200_000
"""Records: a recording with more of them is not read whole."""

_BEGINNING = 20_000
_SUSPECTS = 200
_AROUND_NS = 2_000_000
_CHOSEN = 60_000
_LASTING = (Change.NEW, Change.ADD)


def _packed(directory: Path) -> Iterator[bytes]:
    with (directory / RECORDS).open("rb") as file:
        if os.fstat(file.fileno()).st_size:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield from split(data)


@dataclass(frozen=True, slots=True)
class Source:
    """A directory with a recording. ``head`` is the recording without its records."""

    directory: Path
    head: Recording
    count: int

    def records(self) -> Iterator[Record]:
        """All records in the order of the file, with bounded memory."""
        return unpack(_packed(self.directory))

    @property
    def whole(self) -> bool:
        """Is it small enough to be read whole?"""
        return self.count <= WHOLE

    def recording(self) -> Recording:
        """The recording, or the part of it that is shown if it is too big."""
        if self.whole:
            head = json.loads((self.directory / HEAD).read_text(encoding="utf-8"))
            return from_guest(head, (self.directory / RECORDS).read_bytes())
        waits = (data for data in _packed(self.directory) if data[0] == WaitRecord.KIND)
        records = _choose(_packed(self.directory), _suspects(unpack(waits)))
        return replace(self.head, records=records, tallies=count(records))


def open_source(directory: Path) -> Source:
    """Read the head of a recording, and count its records without decoding them.

    Raises:
        OSError: There is no recording.
        ValueError: The recording is damaged.
    """
    head = json.loads((directory / HEAD).read_text(encoding="utf-8"))
    return Source(directory, from_guest(head, b""), sum(1 for _ in _packed(directory)))


def _looks_wrong(wait: WaitRecord) -> bool:
    """Does a wait look suspicious by itself?"""
    if not wait.t_end or wait.wakes > 1:
        return True
    if wait.ret in TIMED_OUT:
        return bool(wait.wakes or wait.ready)
    return bool(wait.sleeps and not wait.ended)


def _suspects(records: Iterable[Record]) -> list[int]:
    times: list[int] = []
    for record in records:
        if len(times) >= 2 * _SUSPECTS:
            break
        if isinstance(record, WaitRecord) and _looks_wrong(record):
            times += [record.t_begin, record.t_end or record.t_wake or record.t_slept]
    return sorted(times)


def _offset(cls: type[Record], member: str) -> int:
    """The offset of a time in a packed record: two members of 32 bits, then times of 64."""
    return 8 * cls.MEMBERS.split().index(member) - 8


# The first time of every kind but a tally, which has none.
_BEGIN = slice(_offset(WaitRecord, "t_begin"), _offset(WaitRecord, "t_slept"))
_END = slice(_offset(WaitRecord, "t_end"), _offset(WaitRecord, "t_foreign"))


def _choose(packed: Iterable[bytes], suspects: list[int]) -> tuple[Record, ...]:
    """The beginning of a recording, records near suspects, all objects and late work items.

    Works on packed records: decoding the records that are left out would take most of
    the time.
    """
    chosen: list[bytes] = []
    for number, data in enumerate(packed):
        is_open = data[0] == WaitRecord.KIND and not any(data[_END])
        is_open |= data[0] == WorkRecord.KIND
        room = len(chosen) < _CHOSEN
        if number < _BEGINNING or is_open or (room and _wanted(data, suspects)):
            chosen.append(data)
    return tuple(unpack(chosen))


def _wanted(data: bytes, suspects: list[int]) -> bool:
    """Is a packed record near a suspect, or about an object that stays?"""
    kind = data[0]
    if kind == ObjectRecord.KIND:
        return any(isinstance(r, ObjectRecord) and r.change in _LASTING for r in unpack([data]))
    if kind == TallyRecord.KIND:
        return False
    if kind == WaitRecord.KIND and _near(data[_END], suspects):
        return True
    return _near(data[_BEGIN], suspects)


def _near(time: bytes, suspects: list[int]) -> bool:
    t = int.from_bytes(time, "little")
    at = bisect_right(suspects, t - _AROUND_NS)
    return at < len(suspects) and suspects[at] <= t + _AROUND_NS


def save(recording: Recording, directory: Path) -> None:
    """Write a recording in the format of the guest."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / RECORDS).write_bytes(b"".join(map(pack, recording.records)))
    (directory / HEAD).write_text(json.dumps(head_of(recording)), encoding="utf-8")
