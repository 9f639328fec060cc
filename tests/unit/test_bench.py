# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The rows that the bench computes from measurements; nothing is measured here."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kfabric.bench import crowd, figures, games, host, pictures, plans
from kfabric.bench.figures import Row, Sample
from kfabric.errors import ExitStatus

ABOUT = {"guest kernel": "6.1.0-1-amd64"}
COSTS = {"flag": 1120, "bare": 1150, "kfi": 1200}


def measured(line: str) -> Sample:
    """A guest in which everything goes well, and costs the same every time."""
    words = line.split()
    if words[0] == "pingpong":
        cost = COSTS[words[1]] * int(words[3])
        told = {"stalled": 0, "error": 0, "slept": 2 * int(words[3])}
        return Sample(line, {"cycles": cost, "ns": cost, **told})
    if words[0] == "trip":
        cost = 1040 if words[1] == "msg" else 1000
        return Sample(line, {"ns": cost * int(words[3]), "stalled": 0, "error": 0})
    if words[0] in ("herd", "epoll"):
        events = int(words[2])
        return Sample(line, {"events": events, "read": events, "wakes": events})
    if words[0] == "memory":
        return Sample(line, {"pages": 2, "page": 4096})
    if words[0] == "flood":
        events = int(words[1])
        told = {"read": events, "counted": events, "ready": 0, "drained": -110}
        return Sample(line, {**told, "before": 500, "after": 490, "page": 4096})
    if words[0] == "rxe":
        rounds, kind = int(words[1]), words[2]
        told = {"errors": 0, "lost": 0, "records": 4 * rounds if kind == plans.WATCHED else 0}
        cost = {plans.PLAIN: 1000, plans.WATCHED: 1100, plans.PROFILED: 1010}.get(kind, 1125)
        return Sample(line, {"ns": cost * (rounds - (kind == plans.RDM)), **told})
    if words[0] in ("rdmread", "rawread"):
        cost = 1020 if words[0] == "rdmread" else 1000
        return Sample(line, {"ns": cost * int(words[2]), "cycles": cost, "wrong": 0})
    if words[0] in ("events", "talk", "flow"):
        cost = {plans.KFABRIC: 600, plans.LIBFABRIC: 1500}.get(words[1], 1000)
        told = {"wrong": 0, "calls": 10 * int(words[2])}
        return Sample(line, {"ns": cost * int(words[2]), **told})
    if words[0] == "exit":
        return Sample(line, {"ns": 40_000_000, "wrong": 0})
    cost = 100_000 if words[0] == "fi_poll" else 1000
    return Sample(line, {"cycles": cost * int(words[-1]), "wrong": 0})


def whole() -> tuple[list[Sample], list[Sample]]:
    """Both plans, measured."""
    return [measured(line) for line in plans.INSTRUCTIONS], [measured(line) for line in plans.TIMES]


def changed(samples: list[Sample], start: str, **values: int) -> list[Sample]:
    """The samples whose line begins so have other figures."""
    assert any(sample.line.startswith(start) for sample in samples)
    return [
        Sample(sample.line, {**sample.figures, **values})
        if sample.line.startswith(start)
        else sample
        for sample in samples
    ]


def row(rows: list[Row], *parts: str) -> Row:
    """The row whose title has all these parts."""
    (found,) = [row for row in rows if all(part in row.what for part in parts)]
    return found


def test_figures_are_words_with_numbers() -> None:
    assert figures.parse("cycles=12 ns=34 error=-110\n") == {"cycles": 12, "ns": 34, "error": -110}
    with pytest.raises(ValueError, match="invalid literal"):
        figures.parse("cycles=many")


def test_the_plans_measure_what_every_row_needs() -> None:
    rows = figures.rows(*whole())
    assert len(rows) == len({row.what for row in rows}) >= 13
    assert all(row.met in (True, None) for row in rows), rows


def test_a_ratio_is_ours_by_theirs() -> None:
    rows = figures.rows(*whole())
    assert row(rows, "kfi_wait: instructions, nothing").measured == pytest.approx(120 / 112)
    assert row(rows, "kfi_wait: time, two").measured == pytest.approx(120 / 115)


def test_a_goal_is_missed_above_it_or_below_it() -> None:
    counted, timed = whole()
    slow = changed(counted, "pingpong kfi batch", cycles=10**9)
    assert row(figures.rows(slow, timed), "instructions, nothing").met is False
    fast = changed(counted, "fi_poll udp", cycles=plans.MEMBERS)
    assert row(figures.rows(fast, timed), "from user space").met is False


def test_one_slow_game_is_not_the_figure() -> None:
    """Something else ran on the host meanwhile; that says nothing about us."""
    counted, timed = whole()
    late = next(i for i, sample in enumerate(timed) if sample.line.startswith("pingpong kfi"))
    timed[late] = Sample(timed[late].line, {**timed[late].figures, "ns": 10**12})
    assert row(figures.rows(counted, timed), "time, two").met


def test_the_fastest_provider_counts() -> None:
    counted, timed = whole()
    cheap = changed(counted, "fi_poll shm", cycles=50_000 * 20)
    found = row(figures.rows(cheap, timed), "from user space")
    assert found.measured == pytest.approx(50)
    assert "(shm)" in found.raw


def test_each_event_of_epoll_is_read_once() -> None:
    """By one of the threads, whose descriptors all show it; and all of them end."""
    told = crowd.measure(threads=8, events=50)
    assert (told["events"], told["read"]) == (50, 50)
    assert told["wakes"] >= 50


def test_a_row_without_its_figures_is_missing() -> None:
    counted, timed = whole()
    with pytest.raises(figures.Missing, match="flood"):
        figures.rows(counted, [sample for sample in timed if sample.words[0] != "flood"])


@pytest.mark.parametrize(
    ("start", "values"),
    [
        ("pingpong kfi", {"stalled": 1}),
        ("pingpong kfi", {"error": -4}),
        ("herd", {"read": 1}),
        ("epoll", {"read": 1}),
        ("flood", {"read": 1}),
        ("flood", {"ready": -110}),
        ("flood", {"drained": 0}),
        ("rxe", {"errors": 1}),
        ("rxe", {"lost": 1}),
        ("rxe 1000 watched", {"records": 10}),
        ("rxe 1000 plain", {"records": 4000}),
        ("rxe 1000 rdm", {"errors": 1}),
        ("rdmread", {"wrong": 1}),
        ("exit", {"wrong": 1}),
    ],
)
def test_what_is_lost_is_a_fault(start: str, values: dict[str, int]) -> None:
    counted, timed = whole()
    assert not figures.faults([*counted, *timed])
    assert figures.faults(changed(timed, start, **values))


def test_what_the_probes_cost_is_a_ratio_with_a_goal() -> None:
    counted, timed = whole()
    assert row(figures.rows(counted, timed), "probes on rxe: instr").measured == pytest.approx(1.1)
    dear = changed(timed, "rxe 1000 watched", ns=1200 * 1000)
    assert row(figures.rows(counted, dear), "probes on rxe: time").met is False


def test_what_profiles_cost_is_a_ratio_with_a_goal() -> None:
    counted, timed = whole()
    found = row(figures.rows(counted, timed), "profile on rxe: instr")
    assert found.measured == pytest.approx(1.01)
    assert found.met is True
    dear = changed(counted, "rxe 2000 profiled", ns=1030 * 2000)
    assert row(figures.rows(dear, timed), "profile on rxe: instr").met is False


def test_rdm_endpoints_are_compared_with_what_is_below_them() -> None:
    counted, timed = whole()
    rows = figures.rows(counted, timed)
    assert row(rows, "RDM / MSG on rxe: time").measured == pytest.approx(1.125)
    assert row(rows, "RDM read", "time").measured == pytest.approx(1 / 1.02)
    assert row(rows, "tagged message", "receives").measured == pytest.approx(1)
    slow = changed(timed, "rdmread", ns=16 * 1200)
    assert row(figures.rows(counted, slow), "RDM read", "time").met is False
    searched = changed(counted, f"tags {plans.MANY_TAGS}", cycles=2000 * 1300)
    assert row(figures.rows(searched, timed), "tagged message", "receives").met is False


def test_messages_are_compared_with_bare_verbs() -> None:
    counted, timed = whole()
    for title in ("instructions", "time"):
        found = row(figures.rows(counted, timed), f"bare verbs on rxe: {title}")
        assert found.measured == pytest.approx(1.04)
        assert found.met is True
    dear = changed(counted, "trip msg", ns=1060 * 2000)
    assert row(figures.rows(dear, timed), "bare verbs on rxe: instr").met is False
    assert figures.faults(changed(timed, "trip raw", error=-5))


def test_idle_endpoints_make_no_message_more_expensive() -> None:
    """D7: the cost of a message on a node with a thousand endpoints has a goal."""
    counted, timed = whole()
    assert row(figures.rows(counted, timed), "endpoints on the node").measured == pytest.approx(1)
    crowd = f"tags {plans.FEW_TAGS} {plans.MANY_ENDPOINTS - 2}"
    searched = changed(counted, crowd, cycles=2000 * 1200)
    assert row(figures.rows(searched, timed), "endpoints on the node").met is False


@pytest.mark.parametrize(
    ("title", "line", "ratio"),
    [
        ("event loop", "events kfabric", 0.6),
        ("ibv_rc_pingpong", "talk verbs", 0.6),
        ("fi_cq_sread", "talk libfabric", 0.4),
    ],
)
def test_programs_are_compared_with_those_of_others(title: str, line: str, ratio: float) -> None:
    counted, timed = whole()
    found = row(figures.rows(counted, timed), title)
    assert found.measured == pytest.approx(ratio)
    assert found.met is True
    assert figures.faults(changed(counted, line, wrong=1))


def test_growth_of_one_small_object_per_event_misses_the_goal() -> None:
    counted, timed = whole()
    grown = changed(timed, "flood", after=500 + plans.FLOOD * 8 // 4096)
    assert row(figures.rows(counted, grown), "slab").met is False


def test_memory_of_an_object_has_a_goal() -> None:
    counted, timed = whole()
    rows = figures.rows(counted, timed)
    assert row(rows, "member of a poll set").measured == pytest.approx(2 * 4096 / 16384)
    assert row(rows, "in kfi_wait").met is True
    grown = changed(timed, "memory sleeper", pages=1024 * 208 // 4096)
    assert row(figures.rows(counted, grown), "in kfi_wait").met is False


@pytest.mark.parametrize(
    ("start", "values", "status"),
    [
        ("pingpong kfi", {"ns": 10**9}, ExitStatus.OK),
        ("herd", {"read": 0}, ExitStatus.TEST_FAILED),
    ],
    ids=["missed", "lost"],
)
def test_exit_status_is_about_losses_only(
    tmp_path: Path, start: str, values: dict[str, int], status: ExitStatus
) -> None:
    counted, timed = whole()
    assert host.conclude(tmp_path, counted, changed(timed, start, **values), ABOUT) == status
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert len(report["samples"]) == len(counted) + len(timed)
    assert bool(report["faults"]) == (status is not ExitStatus.OK)


def test_the_table_says_which_goals_were_missed() -> None:
    out = io.StringIO()
    rows = [
        Row("good", 1.0, 1.1, "raw"),
        Row("bad", 1.2, 1.1, "raw"),
        Row("fast", 60, 50, "raw", at_least=True),
        Row("free", 7, None, "raw"),
        Row("moody", 1.0, 1.1, "raw", again=1.2, modes="[█ ] / [ █]"),
    ]
    Console(file=out, width=120).print(host.table(rows))
    lines = {line.split()[0]: line for line in out.getvalue().splitlines() if line.strip()}
    assert "yes" in lines["good"] and "≤ 1.1" in lines["good"]
    assert "MISSED" in lines["bad"]
    assert "yes" in lines["fast"] and "≥ 50" in lines["fast"]
    assert "MISSED" not in lines["free"] and "yes" not in lines["free"]
    assert "not repeatable" in lines["moody"] and "yes" not in lines["moody"]
    assert "1.000" not in lines["moody"] and "raw; A/A 1.200 [█ ] / [ █]" in lines["moody"]


def test_a_ratio_of_times_that_do_not_repeat_is_no_result() -> None:
    """Every second game takes longer: the games have modes, and which one was met is luck."""
    counted, timed = whole()
    reads = [i for i, sample in enumerate(timed) if sample.line.startswith("rdmread")]
    for i in reads[1::2]:
        timed[i] = Sample(timed[i].line, {**timed[i].figures, "ns": timed[i].figures["ns"] * 2})
    found = row(figures.rows(counted, timed), "RDM read", "time")
    assert found.again == pytest.approx(2)
    assert found.met is None and not found.repeats
    assert found.modes == "[█       ] / [█      █]"


def test_what_is_counted_needs_no_repetition() -> None:
    counted, timed = whole()
    found = row(figures.rows(counted, timed), "RDM read", "instructions")
    assert found.again is None and found.repeats


@pytest.mark.parametrize(
    ("values", "again", "modes"),
    [
        ([10.0, 10.0], 1.0, "█       "),
        ([10.0, 10.2, 10.0, 10.2], 1.02, "█       "),
        ([10.0, 12.0, 10.0, 12.0], 1.2, "██      "),
        ([10.0, 10.0, 10.0, 15.0], 1.0, "█   ▃   "),
        ([10.0, 10.0, 10.0, 99.0], 1.0, "█      ▃"),
    ],
)
def test_games_are_compared_with_equal_games(values: list[float], again: float, modes: str) -> None:
    assert games.again(values) == pytest.approx(again)
    assert games.modes(values) == [modes]


def test_the_picture_shows_which_goals_are_met() -> None:
    """A bar for each figure with a goal, and none for one whose times do not repeat."""
    rows = [
        Row("cheap", 0.5, 1.0, ""),
        Row("dear", 9.0, 1.0, ""),
        Row("slow rate", 0.5, 0.9, "", at_least=True),
        Row("no goal", 1.0, None, ""),
        Row("by chance", 1.0, 1.0, "", again=1.5),
    ]
    picture = pictures.costs(rows)
    assert picture.count("<title>") == 3
    assert [picture.count(fill) for fill in (pictures._MET, pictures._MISSED)] == [1, 2]
    assert "no goal" not in picture and "by chance" not in picture
