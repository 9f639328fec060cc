# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The Perfetto trace, read back with Perfetto's own schema."""

from __future__ import annotations

import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
from report_support import HOSTILE, TRACES, plain, recording_of, saved

from kfabric.recording.records import Context, Recording, WaitRecord, WakeRecord
from kfabric.report import perfetto
from kfabric.report.protobuf import integer, text, varint
from kfabric.report.source import open_source
from kfabric.verdict.ledger import Ledger, Queue, build
from kfabric.verdict.verdict import Finding, Kind, judge

BEGIN, END, INSTANT = 1, 2, 3


def written(recording: Recording, path: Path, findings: tuple[Finding, ...] = ()) -> Any:
    """The trace of a recording, decoded."""
    perfetto.write(path, recording.records, build(recording), {}, findings)
    trace = schema.Trace()
    trace.ParseFromString(path.read_bytes())
    return trace


def events(trace: Any) -> list[tuple[str, Any]]:
    """The track events with their names."""
    names: dict[int, str] = {}
    found = []
    for packet in trace.packet:
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        if packet.HasField("track_event"):
            found.append((names.get(packet.track_event.name_iid, ""), packet))
    return found


def sched(trace: Any) -> dict[int, list[Any]]:
    """The scheduler's events by lane."""
    lanes: defaultdict[int, list[Any]] = defaultdict(list)
    for packet in trace.packet:
        if packet.HasField("ftrace_events"):
            lanes[packet.ftrace_events.cpu] += packet.ftrace_events.event
    return lanes


def wakes(ledger: Ledger) -> Iterator[tuple[Queue, WakeRecord]]:
    """All wakes."""
    for queue in ledger.queues.values():
        for wake in queue.all_wakes():
            yield queue, wake


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_waits_signals_and_wakes_are_those_of_the_ledger(path: Path, tmp_path: Path) -> None:
    """A slice a wait, an end for each that ended, an instant for each signal and wake."""
    recording = recording_of(path.stem)
    ledger = build(recording)
    found = events(written(recording, tmp_path / "trace.pftrace"))
    kinds = Counter(packet.track_event.type for _, packet in found)
    waits = [wait for queue in ledger.queues.values() for wait in queue.waits]
    signals = sum(len(queue.every_signal()) for queue in ledger.queues.values())
    assert kinds[BEGIN] == len(waits)
    assert kinds[END] == sum(wait.finished for wait in waits)
    assert kinds[INSTANT] == signals + len(list(wakes(ledger)))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_each_wake_with_a_signal_ends_one_arrow(path: Path, tmp_path: Path) -> None:
    """An arrow begins at a signal and ends at one wake; none ends nowhere."""
    recording = recording_of(path.stem)
    ledger = build(recording)
    found = events(written(recording, tmp_path / "trace.pftrace"))
    begun = [flow for _, packet in found for flow in packet.track_event.flow_ids]
    ended = [flow for _, packet in found for flow in packet.track_event.terminating_flow_ids]
    assert len(set(begun)) == len(begun) and len(set(ended)) == len(ended)
    drawn = set(begun) & set(ended)
    known = [wake for queue, wake in wakes(ledger) if queue.signal_of(wake)]
    slept_for = [wake for wake in known if _counted(ledger, wake)]
    assert len(slept_for) <= len(drawn) <= len(known)


def _counted(ledger: Ledger, wake: WakeRecord) -> bool:
    """Did the signal of a wake know of as many sleepers as it woke?"""
    signal = ledger.queues[wake.queue].signal_of(wake)
    return signal is not None and len(signal.wakes) <= max(1, signal.record.sleepers)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_lanes_do_not_contradict_themselves(path: Path, tmp_path: Path) -> None:
    """The thread that is switched out was switched in before, and time does not go back."""
    lanes = sched(written(recording_of(path.stem), tmp_path / "trace.pftrace"))
    for lane in lanes.values():
        switches = [event for event in lane if event.HasField("sched_switch")]
        for earlier, later in pairwise(switches):
            assert earlier.sched_switch.next_pid == later.sched_switch.prev_pid
            assert earlier.timestamp <= later.timestamp


def test_thread_sleeps_is_woken_and_runs_as_recorded(tmp_path: Path) -> None:
    """Sleep, waking with waker and context, running: at the times of the record."""
    lanes = sched(written(plain(1, never=False), tmp_path / "trace.pftrace"))
    (lane,) = [events for events in lanes.values() if len(events) > 1]
    out = [e for e in lane if e.HasField("sched_switch") and e.sched_switch.prev_pid == 11]
    back = [e for e in lane if e.HasField("sched_switch") and e.sched_switch.next_pid == 11]
    (waking,) = [e for e in lane if e.HasField("sched_waking")]
    (wakeup,) = [e for e in lane if e.HasField("sched_wakeup")]
    assert (out[0].timestamp, out[0].sched_switch.prev_state) == (1_005_000, 1)
    assert (waking.timestamp, waking.pid, waking.sched_waking.pid) == (1_045_200, 12, 11)
    assert waking.common_flags == 0x10
    assert wakeup.timestamp == 1_045_300
    assert [event.timestamp for event in back] == [1_000_000, 1_046_000]
    names = {e.task_rename.pid: e.task_rename.newcomm for e in lane if e.HasField("task_rename")}
    assert names == {12: "ksoftirqd/1"}


def test_wait_that_never_ended_has_no_end(tmp_path: Path) -> None:
    """A slice that begins and a thread that is switched out, and nothing after that."""
    trace = written(plain(1), tmp_path / "trace.pftrace")
    kinds = [p.track_event.type for name, p in events(trace) if not name.startswith("signal")]
    assert kinds == [BEGIN, INSTANT, END, BEGIN]
    last = sched(trace)[0][-1]
    assert (last.sched_switch.prev_pid, last.sched_switch.next_pid) == (11, 0)


def test_waits_of_one_thread_on_two_queues_have_two_tracks(tmp_path: Path) -> None:
    """They may overlap, which slices of one track must not."""
    waits = (
        WaitRecord(7, 1000, 11, t_end=5000),
        WaitRecord(8, 2000, 11, t_end=6000),
    )
    trace = written(Recording(waits), tmp_path / "trace.pftrace")
    tracks = {p.track_event.track_uuid for _, p in events(trace)}
    parents = {
        p.track_descriptor.parent_uuid for p in trace.packet if p.track_descriptor.uuid in tracks
    }
    assert len(tracks) == 2 and len(parents) == 1


def test_wait_shows_what_was_found_of_it(tmp_path: Path) -> None:
    """The finding's text is at its wait, and at no other one."""
    recording = recording_of("lost")
    findings = judge(build(recording)).findings
    found = events(written(recording, tmp_path / "trace.pftrace", findings))
    marked = [
        (packet.track_event.debug_annotations, note.string_value)
        for _, packet in found
        for note in packet.track_event.debug_annotations
        if note.name == "finding"
    ]
    assert [said for _, said in marked] == [str(findings[0])]
    assert findings[0].kind is Kind.LOST


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    """A name is carried as it is, even if it is no valid text."""
    recording = plain(1, name=HOSTILE + "\udcff")
    names = {name for name, _ in events(written(recording, tmp_path / "trace.pftrace"))}
    assert f"wait on {HOSTILE}?" in names


def test_more_threads_than_lanes_leave_the_rest_without(tmp_path: Path) -> None:
    """Perfetto knows 128 CPUs; a lane beyond them would be an error there."""
    waits = tuple(
        WaitRecord(7, 1000, tid, t_slept=1100, t_waking=1200, t_running=1300, t_end=1400)
        for tid in range(1, 200)
    )
    trace = written(Recording(waits), tmp_path / "trace.pftrace")
    assert len(sched(trace)) == perfetto.MAX_LANES
    assert sum(p.track_event.type == BEGIN for _, p in events(trace)) == 199


def test_memory_does_not_grow_with_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read and written record by record: 2000 waits more, and less than 250 bytes for each.

    They go to caches, which have a bound; a record that is kept takes three times that.
    """
    monkeypatch.setattr(perfetto, "_REMEMBERED", 100)
    peaks = []
    for waits in (500, 2_500):
        directory = saved(plain(waits), tmp_path / str(waits))
        found = open_source(directory)
        ledger = build(Recording(()))
        tracemalloc.start()
        perfetto.write(tmp_path / "trace.pftrace", found.records(), ledger)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 2_000 * 250


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63, 2**64 - 1, -1, -110])
def test_numbers_are_encoded_as_protobuf_does(value: int) -> None:
    """Ours and theirs agree on every byte, negative numbers included."""
    if value < 2**63:
        note = schema.DebugAnnotation(int_value=value)
        assert integer(4, value) == note.SerializeToString()
    else:
        assert integer(3, value) == schema.DebugAnnotation(uint_value=value).SerializeToString()
    assert varint(value) == integer(4, value)[1:]


def test_text_is_encoded_as_protobuf_does() -> None:
    """Length and UTF-8."""
    long = "ä" * 200
    assert text(6, long) == schema.DebugAnnotation(string_value=long).SerializeToString()


def test_interrupts_are_told_from_threads() -> None:
    """The kernel's flags for where a waker ran."""
    assert perfetto._IRQ_FLAGS == {Context.HARDIRQ: 8, Context.SOFTIRQ: 16}


def test_sleep_in_two_waits_at_once_is_one_sleep(tmp_path: Path) -> None:
    """A thread that polls two queues sleeps once and is woken once."""
    waits = tuple(
        WaitRecord(queue, 1000 + queue, 11, t_slept=1100, t_wake=2000, t_waking=2100,
                   t_running=2200, t_end=5000, seq=1, waker=12, sleeps=1, wakes=1)
        for queue in (7, 8)
    )  # fmt: skip
    (lane,) = sched(written(Recording(waits), tmp_path / "trace.pftrace")).values()
    kinds = [event.WhichOneof("event") for event in lane]
    assert kinds == ["sched_switch", "sched_switch", "sched_waking", "sched_switch"]
