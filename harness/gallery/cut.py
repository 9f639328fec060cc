# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Cuts one play out of a recording of many, as a recording of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from harness.recording import HEAD, RECORDS
from harness.recording.records import (
    MarkRecord,
    ObjectRecord,
    Record,
    Recording,
    SignalRecord,
    TallyRecord,
    WakeRecord,
    count,
    from_guest,
    split,
    unpack,
)


@dataclass(frozen=True, slots=True)
class Play:
    """What the guest tells of one play.

    ``threads`` are the entry's threads by name; ``begin`` and ``end`` enclose all
    that they did. ``stuck``: its stepping did not work out, so it shows nothing.
    """

    what: str
    name: str
    first: int
    records: int
    seconds: float
    losses: dict[str, int] = field(default_factory=dict)
    begin: int = 0
    end: int = 0
    threads: dict[str, int] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    stuck: bool = False

    @classmethod
    def of(cls, line: dict[str, Any]) -> Play:
        """Decode a line of the guest's. Raises ValueError."""
        words = [text.split() for text in line["told"].splitlines()]
        facts = {word[0]: word[1:] for word in words if word[0] != "thread"}
        threads = {word[1]: word[2:] for word in words if word[0] == "thread"}
        if "begin" not in facts or "end" not in facts:
            raise ValueError(f"{line['name']}: {line['told']!r}")
        return cls(
            what=line["play"],
            name=line["name"],
            first=line["first"],
            records=line["records"],
            seconds=line["seconds"],
            losses=line["losses"],
            begin=int(facts["begin"][0]),
            end=int(facts["end"][0]),
            threads={name: int(tid) for name, (tid, _) in threads.items()},
            results={name: int(result) for name, (_, result) in threads.items()},
            stuck="stuck" in facts,
        )


class Whole:
    """The recording of all plays."""

    def __init__(self, directory: Path) -> None:
        """Read it. Raises OSError or ValueError."""
        self.head: dict[str, Any] = json.loads((directory / HEAD).read_text(encoding="utf-8"))
        self._chunks = split((directory / RECORDS).read_bytes())
        self._at = 0

    def cut(self, play: Play) -> Cut:
        """The records of a play; plays are to be cut in the order in which they were made."""
        if play.first < self._at:
            raise ValueError(f"{play.name} was played before what has been cut already")
        for _ in islice(self._chunks, play.first - self._at):
            pass
        chunks = list(islice(self._chunks, play.records))
        self._at = play.first + play.records
        if len(chunks) != play.records:
            raise ValueError(f"{play.name}: {len(chunks)} of {play.records} records")
        kept = list(_within(chunks, play.begin, play.end))
        return Cut(self._head(kept, play), [chunk for chunk, _ in kept])

    def _head(self, kept: list[tuple[bytes, Record]], play: Play) -> dict[str, Any]:
        """What holds for a part."""
        tallies = count(record for _, record in kept)
        return self.head | {
            "t_stop": play.end,
            "losses": play.losses or self.head["losses"],
            "tallies": {queue: asdict(tally) for queue, tally in tallies.items()},
            "threads": self.head["threads"] | {tid: name for name, tid in play.threads.items()},
            "queues": {
                number: name
                for number, name in self.head["queues"].items()
                if int(number) in tallies
            },
        }


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a recording, still encoded."""

    head: dict[str, Any]
    chunks: list[bytes]

    def recording(self) -> Recording:
        """Decode it."""
        return from_guest(self.head, b"".join(self.chunks))

    def write(self, directory: Path) -> None:
        """Leave it as a recording that ``kfabric report`` reads."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RECORDS).write_bytes(b"".join(self.chunks))
        (directory / HEAD).write_text(json.dumps(self.head), encoding="utf-8")


def _within(chunks: list[bytes], begin: int, end: int) -> Iterator[tuple[bytes, Record]]:
    """The records that begin within a time."""
    for chunk, record in zip(chunks, unpack(chunks), strict=True):
        if begin <= _time(record) <= end:
            yield chunk, record


def _time(record: Record) -> int:
    """When it began, or happened; a queue's sums have no time."""
    match record:
        case SignalRecord() | MarkRecord() | ObjectRecord():
            return record.t
        case WakeRecord():
            return record.t_begin or record.t_wake
        case TallyRecord():
            return 0
        case _:
            return record.t_begin
