# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A recording on disk: read record by record, or as much of it as fits a page.

What is small is read whole. Of a big one a part is chosen, so that memory has a
bound: its beginning, and what stands around the waits that look suspicious.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from harness.recording import HEAD, RECORDS
from harness.recording.records import (
    SIZES,
    Change,
    ObjectRecord,
    Record,
    RecordError,
    Recording,
    TallyRecord,
    WaitRecord,
    count,
    from_guest,
    head_of,
    pack,
    unpack,
)
from harness.verdict.ledger import TIMED_OUT

WHOLE = 200_000
"""Records: a recording with more of them is not read whole."""

_BEGINNING = 20_000
_SUSPECTS = 200
_AROUND_NS = 2_000_000
_CHOSEN = 60_000
_CHUNK = 1 << 20
_LASTING = (Change.NEW, Change.ADD)
_KIND_BYTES = 4


def _cut(buffer: bytes, last: bool) -> tuple[list[bytes], bytes]:
    """Whole records of a buffer, and its rest."""
    found = []
    offset = 0
    while offset + _KIND_BYTES <= len(buffer):
        kind = int.from_bytes(buffer[offset : offset + _KIND_BYTES], "little")
        size = SIZES.get(kind)
        if size is None:
            raise RecordError(f"unknown record kind {kind}")
        if offset + size > len(buffer):
            break
        found.append(buffer[offset : offset + size])
        offset += size
    rest = buffer[offset:]
    if last and rest:
        raise RecordError(f"{len(rest)} bytes too many at the end of the records")
    return found, rest


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """The packed records of a file, one at a time."""
    rest = b""
    while data := file.read(_CHUNK):
        found, rest = _cut(rest + data, last=False)
        yield from found
    yield from _cut(rest, last=True)[0]


def _count(path: Path) -> int:
    """How many records a file holds, without decoding them. Raises RecordError."""
    with path.open("rb") as file:
        return sum(1 for _ in _chunks(file))


@dataclass(frozen=True, slots=True)
class Source:
    """A recording's directory. ``head`` is the recording without its records."""

    directory: Path
    head: Recording
    count: int

    def records(self) -> Iterator[Record]:
        """All records in the order of the file, with bounded memory."""
        return unpack(self._packed())

    def _packed(self) -> Iterator[bytes]:
        with (self.directory / RECORDS).open("rb") as file:
            yield from _chunks(file)

    @property
    def whole(self) -> bool:
        """Is it small enough to be read whole?"""
        return self.count <= WHOLE

    def recording(self) -> Recording:
        """The recording, or the part of it that is shown if it is too big."""
        if self.whole:
            head = json.loads((self.directory / HEAD).read_text(encoding="utf-8"))
            return from_guest(head, (self.directory / RECORDS).read_bytes())
        waits = (data for data in self._packed() if data[0] == WaitRecord.KIND)
        records = _choose(self._packed(), _suspects(unpack(waits)))
        return replace(self.head, records=records, tallies=count(records))


def open_source(directory: Path) -> Source:
    """Look at a directory with a recording.

    Raises OSError if there is none, RecordError or ValueError if it is damaged.
    """
    head = json.loads((directory / HEAD).read_text(encoding="utf-8"))
    return Source(directory, from_guest(head, b""), _count(directory / RECORDS))


def _looks_wrong(wait: WaitRecord) -> bool:
    """Does a wait, by itself, deserve a look?"""
    if not wait.t_end or wait.wakes > 1:
        return True
    if wait.ret in TIMED_OUT:
        return bool(wait.wakes or wait.ready)
    return bool(wait.sleeps and not wait.ended)


def _suspects(records: Iterable[Record]) -> list[int]:
    """When the first waits that look wrong were asleep, and when they ended."""
    times: list[int] = []
    for record in records:
        if len(times) >= 2 * _SUSPECTS:
            break
        if isinstance(record, WaitRecord) and _looks_wrong(record):
            times += [record.t_begin, record.t_end or record.t_wake or record.t_slept]
    return sorted(times)


def _offset(cls: type[Record], member: str) -> int:
    """Where a packed record keeps a time: its times are 64 bits, behind two of 32."""
    return 8 * cls.MEMBERS.split().index(member) - 8


# Of all kinds but a tally, which has none, the first time.
_BEGIN = slice(_offset(WaitRecord, "t_begin"), _offset(WaitRecord, "t_slept"))
_END = slice(_offset(WaitRecord, "t_end"), _offset(WaitRecord, "t_foreign"))


def _choose(packed: Iterable[bytes], suspects: list[int]) -> tuple[Record, ...]:
    """The beginning of a recording, what is near its suspects, and who is who.

    Looks at the bytes: to decode what is then left out would take most of the time.
    """
    chosen: list[bytes] = []
    for number, data in enumerate(packed):
        open_wait = data[0] == WaitRecord.KIND and not any(data[_END])
        room = len(chosen) < _CHOSEN
        if number < _BEGINNING or open_wait or (room and _wanted(data, suspects)):
            chosen.append(data)
    return tuple(unpack(chosen))


def _wanted(data: bytes, suspects: list[int]) -> bool:
    """Is a packed record near a suspect, or does it tell what an object is?"""
    kind = data[0]
    if kind == ObjectRecord.KIND:
        return any(isinstance(r, ObjectRecord) and r.change in _LASTING for r in unpack([data]))
    if kind == TallyRecord.KIND:
        return False
    if kind == WaitRecord.KIND and _near(data[_END], suspects):
        return True
    return _near(data[_BEGIN], suspects)


def _near(time: bytes, suspects: list[int]) -> bool:
    """Is a moment near one of these?"""
    t = int.from_bytes(time, "little")
    at = bisect_right(suspects, t - _AROUND_NS)
    return at < len(suspects) and suspects[at] <= t + _AROUND_NS


def save(recording: Recording, directory: Path) -> None:
    """Write a recording the way the guest leaves one."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / RECORDS).open("wb") as file:
        for record in recording.records:
            file.write(pack(record))
    (directory / HEAD).write_text(json.dumps(head_of(recording)), encoding="utf-8")
