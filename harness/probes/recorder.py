# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side: one probe for a long session, and cuts of what it sees.

A thread drains the ring, however long nobody asks. Nothing is kept but who is
who, unless a cut is open::

    recorder = Recorder(Probe(stacks=True, quiet=True))
    cut = recorder.cut()
    ...
    recording = cut.end()

A cut begins and ends while others may be at it. What the kernel part has counted
is therefore asked before and after the ring was drained, until both agree; on a
queue that never rests, the count says nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Self

from harness.probes.loader import Counters, Probe
from harness.recording.records import (
    Change,
    KernelView,
    Losses,
    ObjectRecord,
    Record,
    Recording,
    SignalRecord,
    Tally,
    TallyRecord,
    WaitRecord,
    WakeRecord,
    count,
    split,
    unpack,
)

PERIOD_SECONDS = 0.5
# Draining is cheaper in large pieces, and cheapest when the test is over.
_FULL = 0.1
_TRIES = 5


@dataclass(frozen=True)
class _Moment:
    """What was counted at a moment, the waits that went on, and queues that did not rest."""

    counters: Counters
    pending: tuple[WaitRecord, ...]
    moving: frozenset[int]
    position: int
    t: int


class Recorder:
    """Drains a probe. A context manager; leaving it detaches the probe."""

    def __init__(self, probe: Probe) -> None:
        """Take over a probe, and begin to drain it."""
        self.probe = probe
        self._lock = threading.RLock()
        self._open = 0
        self._absences = 0
        self._objects: dict[int, bytes] = {}
        self._members: dict[tuple[int, int], bytes] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe reader", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.probe.__exit__()

    def cut(self) -> Cut:
        """Begin a cut."""
        with self._lock:
            self._open += 1
            return Cut(self)

    def suspend(self) -> None:
        """Let go of the module, so that it can be unloaded."""
        with self._lock:
            self._absences += self.probe.attached
            self.probe.detach()

    @property
    def absences(self) -> int:
        """How often it has let go of the module so far."""
        return self._absences

    def resume(self) -> None:
        """Attach to the module again, if need be. Raises ProbeError if it is not loaded."""
        with self._lock:
            self.probe.attach()

    def _run(self) -> None:
        while not self._ended.wait(PERIOD_SECONDS):
            if self.probe.fill > _FULL:
                self.collect()

    def collect(self) -> None:
        """Take what is in the ring."""
        with self._lock:
            packed = self.probe.take()
            for data in packed:
                if data[0] == ObjectRecord.KIND:
                    self._note(data)
            if self._open:
                self.probe.log.write(b"".join(packed))

    def _note(self, data: bytes) -> None:
        """Remember who is who, for as long as it is."""
        (record,) = unpack([data])
        assert isinstance(record, ObjectRecord)
        match record.change:
            case Change.NEW:
                self._objects[record.id] = data
            case Change.FREE:
                self._objects.pop(record.id, None)
            case Change.ADD:
                self._members[record.other, record.id] = data
            case Change.DEL:
                self._members.pop((record.other, record.id), None)

    def who(self) -> bytes:
        """The objects and memberships of now, as packed records."""
        return b"".join([*self._objects.values(), *self._members.values()])

    def moment(self) -> _Moment:
        """Drain, and count; on a busy machine several times."""
        with self._lock:
            for _ in range(_TRIES):
                before = self.probe.counters()
                self.collect()
                pending = self.probe.pending()
                self.collect()
                after = self.probe.counters()
                if before == after:
                    break
            waits = tuple(wait for wait in unpack(pending) if isinstance(wait, WaitRecord))
            moving = {
                queue
                for queue in {*before.tallies, *after.tallies}
                if before.tallies.get(queue) != after.tallies.get(queue)
            }
            position = self.probe.log.tell()
            return _Moment(after, waits, frozenset(moving), position, time.monotonic_ns())

    def read(self, begin: int, end: int) -> bytes:
        """A part of the log."""
        with self._lock:
            log = self.probe.log
            here = log.tell()
            log.seek(begin)
            data = log.read(end - begin)
            log.seek(here)
            return data

    def release(self) -> None:
        """A cut has ended; with the last one the log does."""
        with self._lock:
            self._open -= 1
            if not self._open:
                self.probe.log.seek(0)
                self.probe.log.truncate()


class Cut:
    """What happens between its begin and :meth:`end`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._begin = self._looked = recorder.moment()
        self._who = recorder.who()
        self._absences = recorder.absences
        self._over = False

    @property
    def t_begin(self) -> int:
        """When it began."""
        return self._begin.t

    @property
    def blind(self) -> bool:
        """Has the probe let go of the module since? What happened then is not told.

        Nor is what became of the waits that went on when it did: counts prove nothing.
        """
        return self._recorder.absences != self._absences

    def news(self) -> bool:
        """Has anybody waited, woken or been lost since the last look?

        Objects that come and go are no news.
        """
        begin, end = self._looked, self._recorder.moment()
        if _without_tallies(begin) != _without_tallies(end):
            return True
        blob = self._recorder.read(begin.position, end.position)
        return any(data[0] in _NEWS for data in split(blob))

    def look(self) -> Recording:
        """What has happened so far; the cut goes on."""
        end = self._looked = self._recorder.moment()
        blob = self._recorder.read(self._begin.position, end.position)
        records = [*unpack(split(self._who)), *unpack(split(blob))]
        finished = {(r.tid, r.t_begin) for r in records if isinstance(r, WaitRecord)}
        records += [wait for wait in end.pending if (wait.tid, wait.t_begin) not in finished]
        return Recording(
            records=tuple(records),
            tallies=count(records) if self.blind else _tallies(self._begin, end, records),
            threads=self._recorder.probe.threads(_tids(records)),
            losses=_losses(self._begin.counters.losses, end.counters.losses),
            t_stop=end.t,
            kernel=self._kernels_view(end),
        )

    def _kernels_view(self, end: _Moment) -> KernelView | None:
        """What the kernel's functions told; nothing to compare with while ours told nothing."""
        if self.blind:
            return None
        return KernelView(_strays(self._begin.counters.strays, end.counters.strays))

    def end(self) -> Recording:
        """Stop, and return all of it."""
        try:
            return self.look()
        finally:
            self.drop()

    def drop(self) -> None:
        """Stop, and forget it; nothing if it has ended."""
        if not self._over:
            self._over = True
            self._recorder.release()


_NEWS = frozenset((WaitRecord.KIND, SignalRecord.KIND, WakeRecord.KIND))


def _without_tallies(moment: _Moment) -> tuple[Losses, Mapping[int, tuple[int, int]], int]:
    """What tells that something went wrong outside the records."""
    return moment.counters.losses, moment.counters.strays, len(moment.pending)


def _tids(records: Iterable[Record]) -> set[int]:
    """The threads that records speak of."""
    tids = set()
    for record in records:
        match record:
            case WaitRecord():
                tids |= {record.tid, record.waker, record.foreign_tid}
            case SignalRecord():
                tids.add(record.waker)
            case WakeRecord():
                tids |= {record.tid, record.waker}
    return tids


def _losses(before: Losses, after: Losses) -> Losses:
    """What was lost between two moments."""
    return Losses(*(getattr(after, f.name) - getattr(before, f.name) for f in fields(Losses)))


def _strays(
    before: Mapping[int, tuple[int, int]], after: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[int, int]]:
    """What strayed between two moments."""
    found = {}
    for tid, (wakes, sleeps) in after.items():
        old_wakes, old_sleeps = before.get(tid, (0, 0))
        if (wakes, sleeps) != (old_wakes, old_sleeps):
            found[tid] = (wakes - old_wakes, sleeps - old_sleeps)
    return found


def _tallies(begin: _Moment, end: _Moment, records: list[Record]) -> dict[int, Tally]:
    """What was counted between two moments, as the records ought to show it.

    The record of a wait that had begun before tells of its begin, too.
    """
    sums = dict(end.counters.tallies)
    for record in records:
        if isinstance(record, TallyRecord):
            sums[record.queue] = sums.get(record.queue, Tally()) + record
    for queue, tally in begin.counters.tallies.items():
        sums[queue] = sums.get(queue, Tally()) + (-tally)
    for wait in begin.pending:
        sums[wait.queue] = sums.get(wait.queue, Tally()) + Tally(0, wait.t_wake != 0, 1, 0)
    counted = count(records)
    for queue in begin.moving | end.moving:
        sums[queue] = counted.get(queue, Tally())
    return {queue: tally for queue, tally in sums.items() if tally != Tally()}
