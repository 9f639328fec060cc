# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A trace for Perfetto (``.pftrace``): waits, wakes, and the threads' states.

The trace is written record by record, in bounded memory; Perfetto sorts it. A wait is a
slice below its thread, on a track of its queue: slices of one track must not overlap, but
calls on several queues may. A wait that never ended has no end. Arrows lead from a signal
to the wakes that it caused.

The CPU on which a thread ran is not recorded. So each thread gets a scheduling lane of its
own, which Perfetto calls a CPU: states and wakers are as recorded, the CPU's number means
nothing.
"""

import struct
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from kfabric.recording.records import Context, Record, SignalRecord, WaitRecord, WakeRecord
from kfabric.report.files import whole
from kfabric.report.protobuf import fixed64, integer, message, text
from kfabric.report.words import context_name, why_name
from kfabric.verdict.ledger import Ledger
from kfabric.verdict.verdict import Finding

MAX_LANES = 120
"""Threads with a scheduling lane: Perfetto supports 128 CPUs."""

# Trace.packet, and the fields of TracePacket.
_PACKET = 1
_FTRACE, _TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _TRACK = 1, 8, 10, 11, 12, 13, 60
# Flags: the first packet of a sequence, and later ones that refer to earlier packets.
_FIRST, _LATER = 3, 2
_BEGIN, _END, _INSTANT = 1, 2, 3
# The kernel's TRACE_FLAG_HARDIRQ and TRACE_FLAG_SOFTIRQ.
_IRQ_FLAGS = {Context.HARDIRQ: 0x08, Context.SOFTIRQ: 0x10}
_PRIO = 120
_ASLEEP = 1
_SIGNALS_PID = 0x7FFFFFFF
_REMEMBERED = 1 << 16
_SMALL = 64


@dataclass(slots=True)
class _Lane:
    """A thread's scheduling lane: its number, and the time since which the thread runs."""

    number: int
    since: int = 0


class _Flows:
    """Numbers for the arrows: one for each wake that a signal may have caused.

    A wait's record is written at its end, before or after the record of its signal. So
    a number is computed from the signal and from the count of its earlier wakes.
    """

    def __init__(self) -> None:
        self._used: OrderedDict[tuple[int, int, int], int] = OrderedDict()
        self._others: defaultdict[int, deque[SignalRecord]] = defaultdict(lambda: deque(maxlen=256))

    @staticmethod
    def _number(queue: int, seq: int, t: int, nth: int) -> int:
        data = struct.pack("<IQQI", queue, seq, t, nth)
        return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")

    def of_signal(self, record: SignalRecord) -> list[int]:
        """The arrows that may begin at a signal."""
        t = 0
        if not record.seq:
            self._others[record.queue].append(record)
            t = record.t
        wakes = max(1, record.sleepers)
        return [self._number(record.queue, record.seq, t, nth) for nth in range(wakes)]

    def of_wake(self, record: WaitRecord | WakeRecord) -> int:
        """The arrow that ends at a wake; 0 without a known signal."""
        t = 0
        if not record.seq:
            before = [
                other.t
                for other in self._others[record.queue]
                if other.t <= record.t_wake and other.why == record.why
            ]
            if not before:
                return 0
            t = max(before)
        key = (record.queue, record.seq, t)
        nth = self._used.pop(key, 0)
        self._used[key] = nth + 1
        if len(self._used) > _REMEMBERED:
            self._used.popitem(last=False)
        return self._number(*key, nth)


class Writer:
    """Encodes records as packets."""

    def __init__(self, ledger: Ledger, names: Mapping[int, str], findings: Iterable[Finding] = ()):
        """Take names from ``ledger`` and ``names``; findings are shown at their waits."""
        self._ledger = ledger
        self._given = names
        self._findings: defaultdict[tuple[int, int, int], list[str]] = defaultdict(list)
        for finding in findings:
            key = (finding.queue, finding.tid, finding.wait)
            self._findings[key].append(str(finding))
        self._flags = _FIRST
        self._names: dict[str, int] = {}
        self._tracks: dict[tuple[str, int, int], int] = {}
        self._lanes: dict[int, _Lane] = {}
        self._renamed: set[int] = set()
        self._numbers: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._flows = _Flows()

    def packets(self, records: Iterable[Record]) -> Iterator[bytes]:
        """The packets of the trace."""
        for record in records:
            if isinstance(record, WaitRecord):
                yield from self._wait(record)
            elif isinstance(record, WakeRecord):
                yield from self._wake(record)
            elif isinstance(record, SignalRecord):
                yield from self._signal(record)

    def _signal(self, record: SignalRecord) -> Iterator[bytes]:
        yield from self._cpu_track(record.cpu)
        args: dict[str, int | str] = {
            "seq": record.seq,
            "source": self._object(record.source),
            "why": why_name(record.why),
            "sleepers": record.sleepers,
            "context": context_name(record.context),
            "waker": self._ledger.thread_name(record.waker),
        }
        flows = [fixed64(47, flow) for flow in self._flows.of_signal(record)]
        yield self._event(
            record.t,
            _INSTANT,
            self._tracks["cpu", record.cpu, 0],
            f"signal {self._object(record.queue)}",
            *_annotations(args),
            *flows,
        )

    def _wait(self, record: WaitRecord) -> Iterator[bytes]:
        """A slice, the wake that ended it, and the sleeps of its thread."""
        yield from self._wait_track(record.tgid, record.tid, record.queue)
        track = self._tracks["wait", record.tid, record.queue]
        self._numbers[record.queue, record.tid] += 1
        number = self._numbers[record.queue, record.tid]
        args: dict[str, int | str] = {"number": number}
        if record.t_end:
            args |= {"ret": record.ret, "ready": record.ready, "ended": why_name(record.ended)}
        for found in self._findings.get((record.queue, record.tid, number), ()):
            args["finding"] = found
        name = f"wait on {self._object(record.queue)}"
        yield self._event(record.t_begin, _BEGIN, track, name, *_annotations(args))
        if record.t_wake:
            yield self._woken(record, track)
        yield from self._slept(record)
        if record.t_end:
            yield self._event(record.t_end, _END, track, "")

    def _wake(self, record: WakeRecord) -> Iterator[bytes]:
        yield from self._wait_track(0, record.tid, record.queue)
        yield self._woken(record, self._tracks["wait", record.tid, record.queue])
        if record.t_begin and record.t_waking and record.t_running:
            yield from self._sleep(record.tid, record.t_begin, record, 0)

    def _woken(self, record: WaitRecord | WakeRecord, track: int) -> bytes:
        """An instant at which a thread was woken, with the end of its arrow."""
        flow = self._flows.of_wake(record)
        args: dict[str, int | str] = {
            "seq": record.seq,
            "by": self._ledger.thread_name(record.waker),
            "why": why_name(record.why),
            "context": context_name(record.context),
            "running_ns": max(0, record.t_running - record.t_wake) if record.t_running else 0,
        }
        at = record.t_running or record.t_waking or record.t_wake
        ends = [fixed64(48, flow)] if flow else []
        return self._event(at, _INSTANT, track, "woken", *_annotations(args), *ends)

    def _slept(self, record: WaitRecord) -> Iterator[bytes]:
        """A wait's last sleep, unless a wait on another queue has shown it already."""
        lane = self._lanes.get(record.tid)
        if not record.t_slept or (lane and record.t_slept < lane.since):
            return
        end = WakeRecord(record.queue, record.tid, record.t_begin, 0, t_running=record.t_end)
        if record.t_slept < record.t_waking:
            yield from self._sleep(record.tid, record.t_slept, record, record.wakeup_ns)
        elif record.t_foreign > record.t_slept:
            # The time to run after its own timer is not recorded; its end is.
            waking, waker, context = record.t_foreign, record.foreign_tid, record.foreign_context
            other = replace(end, t_waking=waking, waker=waker, context=context)
            yield from self._sleep(record.tid, record.t_slept, other, 0)
        else:
            yield from self._sleep(record.tid, record.t_slept, end, 0)

    def _sleep(
        self, tid: int, slept: int, wake: WaitRecord | WakeRecord, wakeup_ns: int
    ) -> Iterator[bytes]:
        """The scheduler's events of one sleep, unless they contradict an earlier sleep."""
        lane = self._lanes.get(tid)
        if lane is None:
            if len(self._lanes) >= MAX_LANES:
                return
            lane = self._lanes[tid] = _Lane(len(self._lanes))
            yield self._ftrace(lane.number, self._switch(wake.t_begin, 0, tid))
        begin = max(slept, lane.since, wake.t_begin)
        if (wake.t_running or begin) < begin:
            return
        events = [self._switch(begin, tid, 0)]
        if wake.t_waking >= begin:
            yield from self._rename(wake.waker, wake.t_waking)
            events.append(self._waking(20, wake.t_waking, tid, lane.number, wake))
            if wakeup_ns:
                at = wake.t_waking + wakeup_ns
                events.append(self._waking(17, at, tid, lane.number, wake))
        if wake.t_running:
            events.append(self._switch(wake.t_running, 0, tid))
        lane.since = wake.t_running or 1 << 63
        yield self._ftrace(lane.number, *events)

    def _ftrace(self, lane: int, *events: bytes) -> bytes:
        return message(_PACKET, integer(_SEQUENCE, 2), message(_FTRACE, integer(1, lane), *events))

    def _switch(self, t: int, prev: int, following: int) -> bytes:
        state = integer(4, _ASLEEP if prev else 0)
        fields = (
            *(text(1, self._comm(prev)), integer(2, prev), integer(3, _PRIO), state),
            *(text(5, self._comm(following)), integer(6, following), integer(7, _PRIO)),
        )
        return message(2, integer(1, t), integer(2, prev), message(4, *fields))

    def _waking(
        self, kind: int, t: int, tid: int, lane: int, wake: WaitRecord | WakeRecord
    ) -> bytes:
        fields = (integer(2, tid), integer(3, _PRIO), integer(4, 1), integer(5, lane))
        event = message(kind, text(1, self._comm(tid)), *fields)
        flags = integer(5, _IRQ_FLAGS.get(Context(wake.context), 0))
        return message(2, integer(1, t), integer(2, wake.waker), flags, event)

    def _rename(self, tid: int, t: int) -> Iterator[bytes]:
        """Name a waker without its process, which is not recorded."""
        comm = self._ledger.threads.get(tid)
        if tid in self._renamed or not comm:
            return
        self._renamed.add(tid)
        event = message(236, integer(1, tid), text(2, comm), text(3, comm))
        yield self._ftrace(0, message(2, integer(1, t), integer(2, tid), event))

    def _cpu_track(self, cpu: int) -> Iterator[bytes]:
        if ("cpu", cpu, 0) in self._tracks:
            return
        process = self._new_track("signals", 0, 0)
        if process:
            named = message(3, integer(1, _SIGNALS_PID), text(6, "signals"))
            yield self._descriptor(process, named)
        track = self._new_track("cpu", cpu, 0)
        parent = self._tracks["signals", 0, 0]
        yield self._descriptor(track, text(2, f"signals on CPU {cpu}"), integer(5, parent))

    def _wait_track(self, tgid: int, tid: int, queue: int) -> Iterator[bytes]:
        """The track of a thread's waits on one queue, below the thread's own."""
        if ("wait", tid, queue) in self._tracks:
            return
        if thread := self._new_track("thread", tid, 0):
            fields = [integer(1, tgid or tid), integer(2, tid), text(5, self._comm(tid))]
            yield self._descriptor(thread, message(4, *fields))
        if (tgid or tid) == tid and (process := self._new_track("process", tid, 0)):
            named = message(3, integer(1, tid), text(6, self._comm(tid)))
            yield self._descriptor(process, named)
        track = self._new_track("wait", tid, queue)
        parent = self._tracks["thread", tid, 0]
        name = f"waits on {self._object(queue)}"
        yield self._descriptor(track, text(2, name), integer(5, parent))

    def _new_track(self, kind: str, one: int, two: int) -> int:
        """A number for a new track; 0 if the track exists."""
        if (kind, one, two) in self._tracks:
            return 0
        return self._tracks.setdefault((kind, one, two), len(self._tracks) + 1)

    def _descriptor(self, track: int, *fields: bytes) -> bytes:
        return message(_PACKET, integer(_SEQUENCE, 1), message(_TRACK, integer(1, track), *fields))

    def _event(self, t: int, kind: int, track: int, name: str, *fields: bytes) -> bytes:
        """An event of a track. A name is written once, and referred to afterwards."""
        parts = [integer(_TIMESTAMP, t), integer(_SEQUENCE, 1), integer(_FLAGS, self._flags)]
        self._flags = _LATER
        named = b""
        if name:
            if name not in self._names:
                self._names[name] = len(self._names) + 1
                entry = message(2, integer(1, self._names[name]), text(2, name))
                parts.append(message(_INTERNED, entry))
            named = integer(10, self._names[name])
        event = message(_EVENT, integer(9, kind), integer(11, track), named, *fields)
        return message(_PACKET, *parts, event)

    def _object(self, oid: int) -> str:
        return self._ledger.object_name(oid, self._given)

    def _comm(self, tid: int) -> str:
        return self._ledger.threads.get(tid, f"thread {tid}") if tid else "swapper"


def _annotations(args: Mapping[str, int | str]) -> Iterator[bytes]:
    for name, value in args.items():
        if isinstance(value, str) or 0 <= value < _SMALL:
            yield _annotation(name, value)
        else:
            yield message(4, text(10, name), integer(4, value))


@lru_cache(maxsize=8192)
def _annotation(name: str, value: int | str) -> bytes:
    """A frequent detail, encoded once."""
    encoded = text(6, value) if isinstance(value, str) else integer(4, value)
    return message(4, text(10, name), encoded)


def write(
    path: Path,
    records: Iterable[Record],
    ledger: Ledger,
    names: Mapping[int, str] | None = None,
    findings: Iterable[Finding] = (),
) -> None:
    """Write the trace of these records, with names from ``ledger``.

    Raises:
        OSError: The file cannot be written.
    """
    with whole(path) as file:
        file.writelines(Writer(ledger, names or {}, findings).packets(records))
