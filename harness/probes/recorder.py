# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side: one probe for a long session, and cuts of its recording.

A thread drains the ring all the time. Only objects and memberships are kept, unless a cut
is open::

    recorder = Recorder(Probe(stacks=True, quiet=True))
    cut = recorder.cut()
    ...
    recording = cut.look()
    cut.drop()

Threads may wait and wake while a cut begins and ends. Therefore the kernel part's counts
are read before and after the ring is drained, until both are equal. On a queue whose
counts never rest they prove nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from kfabric.probes.loader import Counters, Probe
from kfabric.recording.records import (
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
# Draining is cheaper in large pieces, and cheapest after the test.
_FULL = 0.1
_TRIES = 5


@dataclass(frozen=True)
class _Moment:
    """The counts at a moment, the open waits, and the queues whose counts did not rest."""

    counters: Counters
    pending: tuple[WaitRecord, ...]
    moving: frozenset[int]
    position: int
    t: int


class Recorder(AbstractContextManager["Recorder"]):
    """Owns and drains a probe. A context manager; leaving it detaches the probe."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._lock = threading.RLock()
        self._open = 0
        self.absences = 0
        """How often the probe has been detached from the module."""
        self._excused = Losses()
        self._objects: dict[int, bytes] = {}
        self._members: dict[tuple[int, int], bytes] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe reader", daemon=True)
        self._thread.start()

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
        """Detach from the module, so that it can be unloaded.

        The tracepoints are left one after the other, and a wait meanwhile is seen in
        parts. What comes in meanwhile is dropped, but for objects, and it is no loss.
        """
        with self._lock:
            if not self.probe.attached:
                return
            self.absences += 1
            self.collect()
            before = self.probe.counters().losses
            self.probe.detach()
            self._note_objects(self.probe.take())
            self._excused += self.probe.counters().losses - before

    def resume(self) -> None:
        """Attach to the module again, if need be. Raises ProbeError if it is not loaded."""
        with self._lock:
            self.probe.attach()

    def _run(self) -> None:
        while not self._ended.wait(PERIOD_SECONDS):
            if self.probe.fill > _FULL:
                self.collect()

    def collect(self) -> None:
        """Take the records in the ring."""
        with self._lock:
            packed = self.probe.take()
            self._note_objects(packed)
            if self._open:
                self.probe.log.write(b"".join(packed))

    def _note_objects(self, packed: Iterable[bytes]) -> None:
        for data in packed:
            if data[0] == ObjectRecord.KIND:
                self._note(data)

    def _note(self, data: bytes) -> None:
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

    def objects(self) -> bytes:
        """The present objects and memberships, as packed records."""
        return b"".join([*self._objects.values(), *self._members.values()])

    def moment(self) -> _Moment:
        """Drain and read the counts, several times if they change meanwhile."""
        with self._lock:
            for _ in range(_TRIES):
                before = self.probe.counters()
                self.collect()
                # Of the waits that are open while it is detached, parts were seen.
                pending = self.probe.pending() if self.probe.attached else []
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
            counters = replace(after, losses=after.losses - self._excused)
            return _Moment(counters, waits, frozenset(moving), position, time.monotonic_ns())

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
        """End a cut. The log is emptied after the last one."""
        with self._lock:
            self._open -= 1
            if not self._open:
                self.probe.log.seek(0)
                self.probe.log.truncate()


class Cut:
    """The recording from the cut's begin to its last :meth:`look`."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._begin = self._looked = recorder.moment()
        self._known = recorder.objects()
        self._absences = recorder.absences
        self._over = False

    @property
    def t_begin(self) -> int:
        """Its begin, in nanoseconds."""
        return self._begin.t

    @property
    def blind(self) -> bool:
        """Was the probe detached from the module since the begin?

        The events of that time are missing, and so are the ends of the waits that were
        open: counts prove nothing.
        """
        return self.recorder.absences != self._absences

    def news(self) -> bool:
        """Have there been waits, wakes or losses since the last look? Objects do not count."""
        begin, end = self._looked, self.recorder.moment()
        if _without_tallies(begin) != _without_tallies(end):
            return True
        blob = self.recorder.read(begin.position, end.position)
        return any(data[0] in _NEWS for data in split(blob))

    def look(self) -> Recording:
        """The recording so far; the cut continues."""
        end = self._looked = self.recorder.moment()
        blob = self.recorder.read(self._begin.position, end.position)
        records = [*unpack(split(self._known)), *unpack(split(blob))]
        old, new = self._begin.counters.losses, end.counters.losses
        finished = {(r.tid, r.t_begin) for r in records if isinstance(r, WaitRecord)}
        records += [wait for wait in end.pending if (wait.tid, wait.t_begin) not in finished]
        return Recording(
            records=tuple(records),
            tallies=count(records) if self.blind else _tallies(self._begin, end, records),
            threads=self.recorder.probe.threads(_tids(records)),
            losses=new - old,
            t_stop=end.t,
            # While the probe was detached, there is nothing to compare the kernel's view with.
            kernel=None if self.blind else KernelView(_strays(self._begin.counters, end.counters)),
        )

    def drop(self) -> None:
        """End the cut. May be called again."""
        if not self._over:
            self._over = True
            self.recorder.release()


_NEWS = frozenset((WaitRecord.KIND, SignalRecord.KIND, WakeRecord.KIND))


def _without_tallies(moment: _Moment) -> tuple[Losses, Mapping[int, tuple[int, int]], int]:
    """The signs of faults outside the records."""
    return moment.counters.losses, moment.counters.strays, len(moment.pending)


def _tids(records: Iterable[Record]) -> set[int]:
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


def _strays(before: Counters, after: Counters) -> dict[int, tuple[int, int]]:
    """By thread, the wakes and sleeps outside any wait between two moments."""
    found = {}
    for tid, (wakes, sleeps) in after.strays.items():
        old_wakes, old_sleeps = before.strays.get(tid, (0, 0))
        if (wakes, sleeps) != (old_wakes, old_sleeps):
            found[tid] = (wakes - old_wakes, sleeps - old_sleeps)
    return found


def _tallies(begin: _Moment, end: _Moment, records: list[Record]) -> dict[int, Tally]:
    """The counts between two moments, as the records should show them.

    A wait that was open at the first moment has one record, which includes its begin.
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
