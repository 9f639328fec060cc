# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Recordings on disk: whole ones, broken ones, and those too big to be read whole."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from report_support import TRACES, plain, recording_of, saved

from kfabric.errors import ExitStatus
from kfabric.recording import HEAD, RECORDS
from kfabric.recording.records import RecordError, WaitRecord, pack
from kfabric.report import NoRecordingError, load, source, write_all
from kfabric.report.export import report
from kfabric.report.source import open_source
from kfabric.verdict.kinds import Finding, Kind, Outcome, Verdict
from kfabric.verdict.ledger import build
from kfabric.verdict.verdict import judge


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_recording_comes_back_as_it_was_saved(path: Path, tmp_path: Path) -> None:
    """Every record and every name, by way of the guest's own format."""
    recording = recording_of(path.stem)
    found = open_source(saved(recording, tmp_path))
    assert found.recording() == recording
    assert tuple(found.records()) == recording.records
    assert found.count == len(recording.records)


def test_recording_without_records_is_read(tmp_path: Path) -> None:
    """An empty file is a recording in which nothing happened."""
    found = open_source(saved(replace(plain(1), records=()), tmp_path))
    assert found.count == 0 and tuple(found.records()) == found.recording().records == ()


@pytest.mark.parametrize("damage", ["cut", "unknown kind", "no head"])
def test_broken_recording_is_named_as_such(tmp_path: Path, damage: str) -> None:
    """Wrong usage, with the directory's name; no traceback, and no page."""
    directory = saved(plain(), tmp_path)
    blob = (directory / RECORDS).read_bytes()
    if damage == "no head":
        (directory / HEAD).unlink()
    else:
        broken = blob[:-1] if damage == "cut" else blob + bytes(8)
        (directory / RECORDS).write_bytes(broken)
        with pytest.raises(RecordError):
            open_source(directory)
    with pytest.raises(NoRecordingError) as caught:
        load(directory)
    assert str(directory) in caught.value.line() and caught.value.status is ExitStatus.USAGE


def big(monkeypatch: pytest.MonkeyPatch, directory: Path, waits: int = 300) -> Path:
    """A recording that counts as too big, with one wait in its middle that never ended."""
    monkeypatch.setattr(source, "WHOLE", 100)
    monkeypatch.setattr(source, "_BEGINNING", 30)
    monkeypatch.setattr(source, "_AROUND_NS", 250_000)
    recording = plain(waits, never=False)
    records = list(recording.records)
    middle = len(records) // 2
    at, wait = next(
        (n, record)
        for n, record in enumerate(records[middle:], middle)
        if isinstance(record, WaitRecord)
    )
    records[at] = replace(wait, tid=99, t_wake=0, t_running=0, t_end=0, ended=0, wakes=0)
    return saved(replace(recording, records=tuple(records)), directory)


def test_of_a_big_recording_the_suspicious_part_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its beginning, the wait that never ended, and the records around it."""
    found = open_source(big(monkeypatch, tmp_path))
    chosen = found.recording().records
    waits = [record for record in chosen if isinstance(record, WaitRecord)]
    (never,) = (wait for wait in waits if not wait.t_end)
    assert chosen[:30] == tuple(found.records())[:30]
    near = [wait for wait in waits if abs(wait.t_begin - never.t_begin) < 250_000]
    assert len(near) == 5
    assert len(chosen) < 60


def test_of_a_big_recording_everything_is_counted_and_the_rest_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says what it leaves out, and a verdict on a part is none."""
    directory = big(monkeypatch, tmp_path)
    material = load(directory)
    assert material.verdict.outcome is Outcome.NOT_VERIFIED
    (doubt,) = material.verdict.doubts
    assert "of 900 records were judged" in doubt
    assert material.verdict.findings == ()
    write_all(directory)
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert "This is a big recording" in page
    assert 'data-name="waits" data-value="300"' in page
    assert json.loads((directory / "timeline.json").read_text())["otherData"]["notes"]


def test_reading_a_big_recording_needs_no_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times the waits, the same memory: nothing of it is kept."""
    monkeypatch.setattr(source, "_CHOSEN", 100)
    peaks = []
    for waits in (500, 2000):
        directory = big(monkeypatch, tmp_path / str(waits), waits)
        tracemalloc.start()
        found = open_source(directory)
        found.recording()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 1500 * 100


def test_verdict_of_who_made_the_recording_is_taken(tmp_path: Path) -> None:
    """They know what had to happen; the ledger alone does not."""
    recording = recording_of("good")
    directory = saved(recording, tmp_path)
    finding = Finding(Kind.ORDER, 20, "message 7 of ping ended no wait", tid=101, wait=1, seq=1)
    verdict = Verdict((finding,), (), 1, notes=(replace(finding, kind=Kind.OVERTAKEN),))
    extra = {"names": {"20": "ping's set"}, "t_stop": recording.t_stop}
    (directory / "report.json").write_text(json.dumps(report(verdict, (), extra)))
    material = load(directory)
    assert material.verdict == verdict and material.names == {20: "ping's set"}


@pytest.mark.parametrize("other", ["{", "[]", '{"t_stop": 1, "findings": []}'])
def test_verdict_of_another_recording_is_not_taken(tmp_path: Path, other: str) -> None:
    """A report of an earlier run, or an invalid one, does not count."""
    recording = recording_of("lost")
    directory = saved(recording, tmp_path)
    (directory / "report.json").write_text(other)
    assert load(directory).verdict == judge(build(recording))


def test_packed_record_is_as_long_as_its_format() -> None:
    """The tests write the format of the probe."""
    for record in plain().records:
        assert len(pack(record)) == record.FORMAT.size
