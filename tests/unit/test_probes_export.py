# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The report: complete files, and numbers that are those of the trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_support import ledger_of

from kfabric.report.export import report, write_json
from kfabric.verdict.stats import Latency, latency, row
from kfabric.verdict.verdict import judge


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
    """Notes are counted, too."""
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
