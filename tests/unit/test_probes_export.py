# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Report and timeline: complete files, and pictures that viewers do not cut."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.probes.export import report, timeline, write_json
from harness.probes.ledger import Ledger, build
from harness.probes.records import load_lines
from harness.probes.stats import Latency, latency, row
from harness.probes.verdict import judge

DATA = Path(__file__).parents[1] / "data" / "traces"
TRACES = sorted(DATA.glob("*.jsonl"))


def ledger_of(name: str) -> Ledger:
    """The ledger of a recorded trace."""
    return build(load_lines((DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()))


def events_of(name: str) -> list[dict[str, Any]]:
    """The timeline's events of a recorded trace."""
    ledger = ledger_of(name)
    events = timeline(ledger, {20: "a set"}, judge(ledger), {})["traceEvents"]
    assert isinstance(events, list)
    return events


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_timeline_is_well_formed(path: Path) -> None:
    """Every event has what its kind needs, and every arrow has two ends."""
    arrows: defaultdict[int, list[str]] = defaultdict(list)
    for event in events_of(path.stem):
        assert {"ph", "name", "pid", "tid"} <= set(event)
        assert event["ph"] == "M" or event["ts"] >= 0
        if event["ph"] in "be":
            assert event["id"].startswith("wait-") and event["cat"] == "wait"
        if event["ph"] in "sf":
            arrows[event["id"]].append(event["ph"])
    assert all(ends == ["s", "f"] for ends in arrows.values())


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_slices_of_one_track_do_not_overlap(path: Path) -> None:
    """Viewers drop the second of two overlapping slices without a word."""
    tracks: defaultdict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in events_of(path.stem):
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"], event["dur"]))
    for slices in tracks.values():
        slices.sort()
        for (ts, dur), (following, _) in pairwise(slices):
            assert ts + dur <= following + 1e-9


def test_every_wait_has_a_begin_and_every_finished_one_an_end() -> None:
    """A wait that never returned is left open, so that it is drawn to the end."""
    good = [event["ph"] for event in events_of("good") if event["ph"] in "be"]
    assert good == ["b", "e", "b", "e"]
    lost = [event for event in events_of("lost-for-ever") if event["ph"] in "be"]
    assert [event["ph"] for event in lost] == ["b"]
    assert "should have been ended" in lost[0]["args"]["findings"][0]


def test_arrow_leads_from_signal_to_running_thread() -> None:
    """Start at the CPU that signalled, end at the thread, at the times of the record."""
    start, end = (
        event for event in events_of("good") if event.get("id") == 1 and event["ph"] in "sf"
    )
    assert (start["ts"], end["ts"], end["tid"]) == (20.0, 30.0, 101)


def test_report_keeps_verdict_findings_and_table() -> None:
    """All that was printed is in the report, and it is plain JSON."""
    ledger = ledger_of("lost")
    verdict = judge(ledger)
    rows = [row(ledger, "ping", 20, 101, verdict.findings)]
    written = json.loads(json.dumps(report(verdict, rows, {"limits": []})))
    assert written["verdict"] == "FAULT"
    assert written["findings"][0]["kind"] == "lost"
    assert written["findings"][0]["wait"] == 2
    assert written["table"][0]["lost"] == 1
    assert written["limits"] == []


def test_file_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    """A value that cannot be written leaves the old file and no rest."""
    path = tmp_path / "out" / "report.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    assert [entry.name for entry in path.parent.iterdir()] == ["report.json"]


def test_row_counts_waits_signals_and_wakes() -> None:
    """The numbers of the table are those of the trace."""
    ledger = ledger_of("good")
    line = row(ledger, "ping", 20, 101, judge(ledger).findings)
    assert (line.waits, line.signals, line.wakes) == (2, 2, 2)
    assert (line.spurious, line.lost, line.timeouts, line.late, line.herd) == (0,) * 5
    assert line.latency == Latency(2, 10_000, 10_000, 10_000)


def test_row_counts_waits_that_did_not_sleep() -> None:
    """A wait without a wake is explained."""
    line = row(ledger_of("good-at-once"), "ping", 20, 101, ())
    assert (line.waits, line.wakes, line.at_once) == (2, 1, 1)


def test_row_counts_overtaken_and_timeouts() -> None:
    """What is no fault is still counted."""
    overtaken = ledger_of("good-overtaken")
    assert row(overtaken, "ping", 20, 101, ()).overtaken == 1
    timeout = ledger_of("timeout-ready-nearly")
    assert row(timeout, "ping", 20, 101, ()).timeouts == 1


@pytest.mark.parametrize(
    "values, expected",
    [
        ([], Latency(0, 0, 0, 0)),
        ([5], Latency(1, 5, 5, 5)),
        (range(1, 101), Latency(100, 50, 99, 100)),
        (range(1, 201), Latency(200, 100, 198, 200)),
    ],
)
def test_percentiles_are_nearest_rank(values: list[int], expected: Latency) -> None:
    """No value is reported that was not measured."""
    assert latency(values) == expected
