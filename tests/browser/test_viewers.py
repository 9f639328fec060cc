# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The traces in Perfetto's own trace processor, asked in SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import shown
from report_support import plain, recording_of, saved
from viewer import Viewer, opened
from webdriver import Browser

from kfabric.recording.records import Recording
from kfabric.report import write_all
from kfabric.verdict.ledger import Ledger, build

BROKEN = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


def both() -> Recording:
    """Waits on wait sets, as recorded, and waits on a plain queue; the last one never ends."""
    played, other = recording_of("recorded-pingpong"), plain(5)
    first = min(queue for queue in played.tallies)
    assert first and 7 not in played.tallies and not {11, 12} & set(played.threads)
    late = max(record.t for record in played.records if hasattr(record, "t"))
    moved = [_later(record, late) for record in other.records]
    return Recording(
        records=(*played.records, *moved),
        tallies={**played.tallies, **other.tallies},
        threads={**played.threads, **other.threads},
        queues=other.queues,
        stacks=other.stacks,
        t_stop=late + other.t_stop,
    )


def _later(record: Any, by: int) -> Any:
    """A record as if it had come later."""
    times = [name for name in record.__slots__ if name == "t" or name.startswith("t_")]
    return type(record)(**{
        name: getattr(record, name) + (by if name in times and getattr(record, name) else 0)
        for name in record.__slots__
    })  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with everything that is made of it."""
    place = saved(both(), tmp_path_factory.mktemp("trace"))
    write_all(place)
    return place


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    """The recording's ledger."""
    return build(both())


@pytest.fixture(scope="module")
def perfetto(chromium: Browser, directory: Path) -> Iterator[Viewer]:
    """The viewer with the .pftrace."""
    with opened(chromium, directory / "trace.pftrace") as viewer:
        yield viewer


def test_trace_is_read_without_a_complaint(perfetto: Viewer) -> None:
    """Nothing is wrong with it and nothing was dropped, says the trace processor."""
    assert perfetto.query(BROKEN) == []


def test_slices_and_flows_are_those_of_the_ledger(perfetto: Viewer, ledger: Ledger) -> None:
    """A slice a wait, a signal, a wake; an arrow for each wake that a signal caused."""
    queues = ledger.queues.values()
    signals = sum(len(queue.every_signal()) for queue in queues)
    wakes = [(queue, wake) for queue in queues for wake in queue.all_wakes()]
    names = Counter(row["kind"] for row in perfetto.query(
        "select substr(name, 1, 6) as kind from slice"
    ))  # fmt: skip
    assert names == {
        "wait o": sum(len(queue.waits) for queue in queues),
        "signal": signals,
        "woken": len(wakes),
    }
    caused = sum(queue.signal_of(wake) is not None for queue, wake in wakes)
    assert perfetto.value("select count(*) from flow") == caused


def test_wait_lasts_as_long_as_recorded(perfetto: Viewer, ledger: Ledger) -> None:
    """Begin and length of every wait, to the nanosecond; one that never ended has length -1."""
    shown = perfetto.query(
        "select s.ts, s.dur, p.name as parent from slice s join track t on s.track_id = t.id "
        "join track p on t.id = p.id where s.name glob 'wait on *' order by s.ts"
    )
    wanted = sorted(
        (rec.t_begin, rec.t_end - rec.t_begin if rec.t_end else -1)
        for queue in ledger.queues.values()
        for rec in (wait.record for wait in queue.waits)
    )
    assert [(row["ts"], row["dur"]) for row in shown] == wanted
    assert [dur for _, dur in wanted].count(-1) == 1


def test_query_of_the_document_finds_the_slowest_wakers(perfetto: Viewer) -> None:
    """As it is printed there, and sorted as it says."""
    rows = perfetto.query(shown("tests/browser/test_viewers.py").text)
    assert 1 <= len(rows) <= 3
    assert set(rows[0]) == {"sleeper", "waker", "wakes", "worst_us"}
    assert [row["worst_us"] for row in rows] == sorted(row["worst_us"] for row in rows)[::-1]


def test_every_woken_thread_has_its_waker(perfetto: Viewer, ledger: Ledger) -> None:
    """Sleeper, waker, the times of waking and running: Perfetto's thread states."""
    shown = perfetto.query(
        "select s.ts, s.dur, t.tid, w.tid as waker from thread_state s join thread t using (utid) "
        "join thread w on w.utid = s.waker_utid where s.state = 'R' order by s.ts"
    )
    wanted = sorted(
        (wake.t_waking, wake.t_running - wake.t_waking, wake.tid, wake.waker)
        for queue in ledger.queues.values()
        for wake in queue.all_wakes()
        if wake.t_waking
    )
    assert [(r["ts"], r["dur"], r["tid"], r["waker"]) for r in shown] == wanted


def test_sleeper_that_nobody_wakes_sleeps_to_the_end(perfetto: Viewer, ledger: Ledger) -> None:
    """Its last state is S, and has no end."""
    (open_wait,) = [
        wait.record for queue in ledger.queues.values() for wait in queue.waits if not wait.finished
    ]
    shown = perfetto.query(
        "select s.ts, s.state, t.tid, t.name from thread_state s join thread t using (utid) "
        "where s.dur = -1 and s.state = 'S'"
    )
    assert shown == [
        {"ts": open_wait.t_slept, "state": "S", "tid": open_wait.tid, "name": "reader-2"}
    ]


def test_threads_and_wakers_have_names(perfetto: Viewer, ledger: Ledger) -> None:
    """By the names that the recording has; wakers belong to no process that we invented."""
    named = {
        row["tid"]: row["name"]
        for row in perfetto.query("select tid, name from thread where name is not null")
    }
    tids = {wake.waker for queue in ledger.queues.values() for wake in queue.all_wakes()}
    tids |= {wait.record.tid for queue in ledger.queues.values() for wait in queue.waits}
    assert {tid: named.get(tid) for tid in tids} == {tid: ledger.threads[tid] for tid in tids}


def test_chrome_timeline_loads_too(directory: Path, ledger: Ledger) -> None:
    """As many waits and signals, one wait without an end, and nothing dropped."""
    with Browser() as own, opened(own, directory / "timeline.json") as viewer:
        assert viewer.query(BROKEN) == []
        queues = ledger.queues.values()
        waits = [wait for queue in queues for wait in queue.waits]
        signals = sum(len(queue.every_signal()) for queue in queues)
        assert viewer.value("select count(*) from slice where name glob 'wait *'") == len(waits)
        assert viewer.value("select count(*) from slice where name glob 'signal *'") == signals
        assert viewer.value("select count(*) from slice where dur = -1") == 1
        returned = sum(
            1
            for queue in queues
            for wait in queue.waits
            if wait.last_wake and queue.signal_of(wait.last_wake) and wait.last_wake.t_running
        )
        assert viewer.value("select count(*) from flow") == returned
