# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Cuts the records of one run out of a recording of many, as a recording of its own."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from kfabric.recording import HEAD, RECORDS
from kfabric.recording.records import (
    Record,
    Recording,
    WaitRecord,
    WakeRecord,
    WorkRecord,
    count,
    from_guest,
    pack,
    split,
    unpack,
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an entry or of a healthy kind, as the guest reports it.

    Attributes:
        variant: `buggy`, `fixed` or `healthy`.
        first: how many records of the whole recording precede it.
        records: how many are from its time.
        begin: when the entry began; its last record is not later than `end`.
        judged: the moment that the verdict is about, or 0 for the end.
        threads: the entry's threads by name.
        stuck: the stepping did not work, so that the run proves nothing.
    """

    variant: str
    name: str
    first: int
    records: int
    seconds: float
    losses: dict[str, int] = field(default_factory=dict)
    begin: int = 0
    end: int = 0
    judged: int = 0
    threads: dict[str, int] = field(default_factory=dict)
    stuck: bool = False

    @classmethod
    def of(cls, line: dict[str, Any]) -> Run:
        """Decode a line of the guest's. Raises ValueError."""
        words = [text.split() for text in line["output"].splitlines()]
        facts = {word[0]: word[1:] for word in words if word[0] != "thread"}
        threads = {word[1]: word[2:] for word in words if word[0] == "thread"}
        if "begin" not in facts or "end" not in facts:
            raise ValueError(f"{line['name']}: {line['output']!r}")
        return cls(
            **{key: line[key] for key in ("variant", "name", "first", "records", "seconds")},
            losses=line["losses"],
            begin=int(facts["begin"][0]),
            end=int(facts["end"][0]),
            judged=int(facts.get("judged", ["0"])[0]),
            threads={name: int(tid) for name, (tid, _) in threads.items()},
            stuck="stuck" in facts,
        )


class FullRecording:
    """The recording of all runs."""

    def __init__(self, directory: Path) -> None:
        """Read it. Raises OSError or ValueError."""
        self.head: dict[str, Any] = json.loads((directory / HEAD).read_text(encoding="utf-8"))
        self._chunks = split((directory / RECORDS).read_bytes())
        self._at = 0

    def cut(self, run: Run) -> Cut:
        """The records of a run; runs have to be cut in their order."""
        if run.first < self._at:
            raise ValueError(f"{run.name} was run before a run that has been cut already")
        for _ in islice(self._chunks, run.first - self._at):
            pass
        chunks = list(islice(self._chunks, run.records))
        self._at = run.first + run.records
        if len(chunks) != run.records:
            raise ValueError(f"{run.name}: {len(chunks)} of {run.records} records")
        end = run.judged or run.end
        kept = [
            (chunk if seen is record else pack(seen), seen)
            for chunk, record in zip(chunks, unpack(chunks), strict=True)
            if run.begin <= _time(record) <= end and (seen := _as_of(record, run.judged))
        ]
        tallies = count(record for _, record in kept)
        works = [record for _, record in kept if isinstance(record, WorkRecord)]
        numbers = {*tallies, *(n for work in works for n in (work.queue, work.busy_queue))}
        queues = self.head["queues"].items()
        head = self.head | {
            "t_stop": end,
            # They are of all runs.
            "marks": {},
            "losses": run.losses or self.head["losses"],
            "tallies": {queue: asdict(tally) for queue, tally in tallies.items()},
            "threads": self.head["threads"] | {tid: name for name, tid in run.threads.items()},
            "queues": {number: name for number, name in queues if int(number) in numbers},
        }
        return Cut(head, [chunk for chunk, _ in kept])


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a recording, still encoded."""

    head: dict[str, Any]
    chunks: list[bytes]

    def recording(self) -> Recording:
        """Decode it."""
        return from_guest(self.head, b"".join(self.chunks))

    def write(self, directory: Path) -> None:
        """Write it as a recording that `kfabric report` reads."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RECORDS).write_bytes(b"".join(self.chunks))
        (directory / HEAD).write_text(json.dumps(self.head), encoding="utf-8")


def _as_of(record: Record, t: int) -> Record | None:
    """A record as if the recording had ended at ``t``, if that is not 0; None: it came later."""
    if not t:
        return record
    match record:
        case WaitRecord(t_end=end) if end > t:
            return _open_at(record, t)
        case WakeRecord(t_wake=wake) if wake > t:
            return None
        case WorkRecord(t_end=end) if end > t:
            queued = record.t_queued if record.t_queued <= t else 0
            return replace(record, t_end=0, t_queued=queued)
    return record


def _open_at(wait: WaitRecord, t: int) -> WaitRecord:
    """A wait that had not ended at ``t``."""
    wait = replace(wait, t_end=0, ret=0, ended=0)
    if wait.t_wake > t:
        wakes = max(wait.wakes - 1, 0)
        none = dict.fromkeys(("t_wake", "t_waking", "t_running", "seq", "waker", "why"), 0)
        wait = replace(wait, wakes=wakes, **none)
    if wait.t_foreign > t:
        wait = replace(wait, t_foreign=0, foreign=0)
    return replace(wait, t_slept=0, sleeps=0) if wait.t_slept > t else wait


def _time(record: Record) -> int:
    """When it began, or happened; 0 for the sums of a queue."""
    times = (getattr(record, name, 0) for name in ("t", "t_begin", "t_wake"))
    return next(filter(None, times), 0)
