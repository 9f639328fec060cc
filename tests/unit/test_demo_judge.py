# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""From what the guest left to verdict, tables and exit status."""

from __future__ import annotations

import dataclasses
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from kfabric.demo import host, show
from kfabric.demo.job import REPORT, Fault, GuestReport, Peer, Scenario
from kfabric.demo.judge import Judged, judge_run
from kfabric.errors import ExitStatus
from kfabric.recording import HEAD, RECORDS
from kfabric.recording.records import (
    EXCLUSIVE,
    FClass,
    ObjectRecord,
    Record,
    Recording,
    SignalRecord,
    WaitRecord,
    count,
)
from kfabric.report import load
from kfabric.report.source import save
from kfabric.terminal.arguments import MARK
from kfabric.verdict.verdict import Kind, Outcome

PING, PONG = 101, 102


def opening(tid: int, base: int) -> list[Record]:
    """A thread opens a wait set with an EQ, a CQ and a counter in it."""
    records: list[Record] = [ObjectRecord(base, base, 1, FClass.WAIT, tid=tid)]
    for offset, fclass in enumerate((FClass.EQ, FClass.CQ, FClass.CNTR), 1):
        records.append(ObjectRecord(base + offset, base, 1, fclass, tid=tid))
        records.append(ObjectRecord(base + offset, base, 3, fclass, other=base, tid=tid))
    return records


def woken(tid: int, base: int, seq: int, source: int, t: int) -> list[Record]:
    """A wait that publication ``seq`` on a member ends at ``t``."""
    return [
        SignalRecord(base, t, seq, source=source, have=1, sleepers=1),
        WaitRecord(
            base,
            t - 500,
            tid,
            tid,
            t_slept=t - 400,
            t_wake=t + 10,
            t_waking=t + 20,
            t_running=t + 100,
            t_end=t + 120,
            seq=seq,
            seen=seq - 1,
            source=source,
            why=1,
            ended=1,
            ready=1,
            sleeps=1,
            wakes=1,
        ),
    ]


def game(messages: int, tids: tuple[int, int] = (PING, PONG)) -> list[Record]:
    """Both sides connect by one event each, then play."""
    records = opening(tids[0], 20) + opening(tids[1], 30)
    for tid, base in zip(tids, (20, 30), strict=True):
        records += woken(tid, base, 1, base + 1, 10_000)
    for number in range(messages):
        t = 100_000 + 10_000 * number
        records += woken(tids[1], 30, number + 2, 32, t)
        records += woken(tids[0], 20, number + 2, 22, t + 5_000)
    return records


def recorded(records: list[Record]) -> Recording:
    """A recording without losses."""
    return Recording(tuple(records), count(records), {PING: "ping", PONG: "pong"})


def report(messages: int, *errors: str) -> GuestReport:
    """Two peers, with their errors."""
    complaints = [*errors, "", ""]
    return GuestReport(
        (
            Scenario(
                "from Python",
                (
                    Peer("ping", PING, messages, complaints[0]),
                    Peer("pong", PONG, messages, complaints[1]),
                ),
            ),
        )
    )


def shown(judged: Judged, width: int = 120) -> str:
    """What the user sees."""
    console = Console(file=io.StringIO(), width=width)
    show.tables(console, judged)
    show.verdict(console, judged)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_good_game_is_verified_with_its_numbers() -> None:
    """F7: waits, signals and wakes are those of the messages; connecting is left out."""
    judged = judge_run(report(7), recorded(game(7)))
    assert judged.verdict.line() == (
        "VERIFIED: 14 waits, each ended by the completion it waited for"
    )
    ((title, rows),) = judged.tables
    assert title == "from Python"
    assert [(row.name, row.waits, row.signals, row.wakes) for row in rows] == [
        ("ping", 7, 7, 7),
        ("pong", 7, 7, 7),
    ]
    assert shown(judged).splitlines()[-1] == judged.verdict.line()


def test_objects_get_the_names_of_their_players() -> None:
    """A finding says whose wait set it is, found by who waited on it."""
    records = game(3)
    lost = records[-1]
    assert isinstance(lost, WaitRecord)
    records[-1] = WaitRecord(
        lost.queue,
        lost.t_begin,
        lost.tid,
        lost.tgid,
        t_slept=lost.t_slept,
        t_end=lost.t_end + 2_000_000_000,
        seen=lost.seen,
        ready=1,
        sleeps=1,
        foreign=1,
        foreign_context=3,
        t_foreign=lost.t_end + 1_999_999_000,
    )
    judged = judge_run(report(3), recorded(records))
    assert [finding.kind for finding in judged.verdict.findings] == [Kind.LOST]
    assert "on wait set 20 (ping's wait set)" in judged.verdict.line()
    assert "event on CQ 22 (ping's CQ)" in judged.verdict.line()
    assert judged.tables[0][1][0].lost == 1
    assert shown(judged).splitlines()[-1] == judged.verdict.line()


def test_player_that_was_not_seen_leaves_the_run_unverified() -> None:
    """The probe saw nothing of a player: that is no good game."""
    judged = judge_run(report(3), recorded(game(3, (PING, 999))))
    assert judged.verdict.outcome is Outcome.NOT_VERIFIED
    assert "pong: the probe saw no wait at all" in judged.verdict.doubts


def test_message_too_few_is_a_fault() -> None:
    """What was promised must be seen, not only what was seen be right."""
    judged = judge_run(report(8), recorded(game(7)))
    assert judged.verdict.outcome is Outcome.FAULT
    assert "7 publications on CQ 22 (ping's CQ), 8 were to come" in judged.verdict.line()


def test_scenario_without_peers_shows_its_queues() -> None:
    """The readers of one CQ get one line, with the herd that ran there."""
    records = game(2)
    records.append(ObjectRecord(40, 1, 1, FClass.CQ, tid=7))
    records.append(SignalRecord(40, 500_000, 1, source=40, have=1, sleepers=2))
    for tid in (201, 202):
        records.append(
            WaitRecord(
                40,
                400_000 + tid,
                tid,
                tid,
                fclass=FClass.CQ,
                need=1,
                t_slept=450_000,
                t_wake=500_000 + tid,
                t_waking=500_300 + tid,
                t_running=501_000,
                t_end=502_000 + tid,
                seq=1,
                source=40,
                why=1,
                ended=1,
                ret=1,
                sleeps=1,
                wakes=1,
                flags=EXCLUSIVE,
            )
        )
    told = report(2)
    told = GuestReport(
        (*told.scenarios, Scenario("readers of one CQ", ())), {40: "the readers' CQ"}
    )
    judged = judge_run(told, recorded(records))
    assert [finding.kind for finding in judged.verdict.findings] == [Kind.HERD]
    title, rows = judged.tables[1]
    assert title == "readers of one CQ"
    assert [(row.waits, row.wakes, row.herd) for row in rows] == [(2, 2, 1)]
    assert "herd" in shown(judged)


def test_tables_fit_into_eighty_columns() -> None:
    """Six digits of microseconds are not cut off on a plain terminal."""
    records = game(2)
    late = records[-1]
    assert isinstance(late, WaitRecord)
    records[-1] = dataclasses.replace(
        late, t_running=late.t_wake + 999_999_000, t_end=late.t_wake + 999_999_500
    )
    judged = judge_run(report(2), recorded(records))
    text = shown(judged, 80)
    assert "…" not in text and "999999" in text


def test_complaints_of_players_are_shown() -> None:
    """A player's own words come before the verdict."""
    judged = judge_run(report(2, "PlayError: message 2 did not come"), recorded(game(2)))
    assert judged.complaints == ["ping: PlayError: message 2 did not come"]
    assert "message 2 did not come" in shown(judged)


@pytest.mark.parametrize(
    ("fault", "errors", "status"),
    [
        (None, (), ExitStatus.OK),
        (None, ("PlayError: no",), ExitStatus.TEST_FAILED),
        (Fault.LOST, (), ExitStatus.TEST_FAILED),
    ],
)
def test_status_of_a_verified_run(
    fault: Fault | None, errors: tuple[str, ...], status: ExitStatus, tmp_path: Path
) -> None:
    """A fault that was injected and not found is a failure; so is a player's complaint."""
    told = host.Run(fault, 2, tmp_path)
    judged = judge_run(report(2, *errors), recorded(game(2)))
    assert host._finish(told, judged, []) == status


@pytest.mark.parametrize("damage", ["no report", "no head", "cut records"])
def test_damaged_files_are_no_verdict(damage: str, tmp_path: Path) -> None:
    """What the guest left is either whole or NOT VERIFIED, status 4."""
    told = host.Run(None, 2, tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    head = {"tallies": {}, "threads": {}, "losses": {}, "t_stop": 1}
    (out / HEAD).write_text(json.dumps(head))
    (out / RECORDS).write_bytes(b"")
    report(2).write(out)
    if damage == "cut records":
        (out / RECORDS).write_bytes(b"\x02\x00\x00\x00\x01")
    else:
        (out / {"no report": REPORT, "no head": HEAD}[damage]).unlink()
    with pytest.raises(host.NotVerified) as caught:
        host._judge(told)
    assert caught.value.status is ExitStatus.NOT_VERIFIED


def test_files_are_left_and_old_ones_removed(tmp_path: Path) -> None:
    """Page, report, traces and versions are there after a run; before it nothing old is."""
    told = host.Run(None, 2, tmp_path)
    save(recorded(game(2)), tmp_path / "out")
    judged = judge_run(report(2), recorded(game(2)))
    host._leave(told, judged, told.limits(100), {"guest kernel": "6.1"}, {"bash": "5"})
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["verdict"] == "VERIFIED" and written["versions"] == {"guest kernel": "6.1"}
    timeline = json.loads((tmp_path / "timeline.json").read_text())
    assert timeline["traceEvents"] and timeline["otherData"]["guest kernel"] == "6.1"
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*host._LEFT, MARK, "out"} - {"console.log"}
    assert load(tmp_path).verdict == replace(judged.verdict, matches={})
    assert load(tmp_path).names == judged.rules.names
    told.clean()
    assert list(tmp_path.iterdir()) == [tmp_path / MARK]


def test_limit_that_is_exceeded_is_marked_in_words() -> None:
    """A pipe shows no colour."""
    console = Console(file=io.StringIO(), width=80)
    limits = [show.Limit("first", 10.0, 10.0, "s"), show.Limit("second", 10.1, 10.0, "s")]
    show.limits(console, limits)
    assert isinstance(console.file, io.StringIO)
    first, second = (line for line in console.file.getvalue().splitlines() if " s " in line)
    assert "10.0 s" in first and "exceeded" not in first
    assert second.endswith("10 s, exceeded")
