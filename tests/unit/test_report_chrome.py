# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The Chrome timeline: pictures that viewers do not cut."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from report_support import TRACES, ledger_of

from kfabric.recording.records import Recording, SignalRecord, WaitRecord
from kfabric.report import chrome
from kfabric.verdict.ledger import build
from kfabric.verdict.verdict import judge


def events_of(name: str) -> list[dict[str, Any]]:
    """The timeline's events of a recorded trace."""
    ledger = ledger_of(name)
    return list(chrome.events(ledger, {20: "a set"}, judge(ledger)))


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


def test_file_is_plain_json_with_the_same_events(tmp_path: Path) -> None:
    """The file, written event by event, is one JSON value with all events."""
    ledger = ledger_of("lost")
    path = tmp_path / "out" / "timeline.json"
    chrome.write(path, ledger, {20: "a set"}, judge(ledger), {"python": "3.11"})
    read = json.loads(path.read_text(encoding="utf-8"))
    assert read["traceEvents"] == json.loads(json.dumps(events_of("lost")))
    assert read["otherData"]["verdict"].startswith("LOST: ")
    assert read["otherData"]["python"] == "3.11"
    assert [entry.name for entry in path.parent.iterdir()] == ["timeline.json"]


def test_thread_that_returns_from_two_queues_at_once_is_drawn_without_overlap() -> None:
    """As poll() does: one wake-up of the thread, an end for each of its waits."""
    waits = [
        WaitRecord(queue, 1000, 11, tgid=11, t_slept=1100, t_wake=2000, t_waking=2100,
                   t_running=2200 + late, t_end=5000, seq=1, why=1, ended=1, sleeps=1, wakes=1)
        for queue, late in ((7, 0), (8, 0), (9, 50))
    ]  # fmt: skip
    signals = [SignalRecord(queue, 1900, 1, sleepers=1, cpu=queue) for queue in (7, 8, 9)]
    ledger = build(Recording((*waits, *signals)))
    found = chrome.events(ledger, {}, judge(ledger))
    slices = sorted((e["ts"], e["dur"]) for e in found if e["ph"] == "X" and e["tid"] == 11)
    assert slices == [(2.2, 0.0), (2.2, 0.05), (2.25, 2.75)]
