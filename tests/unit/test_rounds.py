# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric test --until-fail N` and `--until-pass N`: rounds, and the host's load in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus, SetupError
from kfabric.runner import junit, load, rounds
from kfabric.runner.load import Load, Sample
from kfabric.runner.rounds import Played, Rounds

CASE = '<testcase classname="tests.test_a" name="test_{name}">{inside}</testcase>'
SUITE = "<testsuites><testsuite>{}</testsuite></testsuites>"


def fails(*names: str) -> str:
    """A JUnit file in which these tests fail, and one passes."""
    cases = [CASE.format(name=name, inside="<failure/>") for name in names]
    return SUITE.format("".join([*cases, CASE.format(name="good", inside="")]))


Play = Callable[..., int]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Play rounds with these statuses; a failed one has a failed test of its own."""

    def run(statuses: Sequence[int], most: int, passes: bool) -> int:
        left = list(statuses)

        def once() -> Played:
            report = tmp_path / "guest.xml"
            status = left.pop(0)
            report.write_text(fails(*([f"bad{len(left)}"] if status == 1 else [])))
            return Played(status, [report])

        status = Rounds(most, passes, tmp_path).play(once)
        assert not left, "rounds that were not played"
        return status

    return run


@pytest.mark.parametrize(
    ("statuses", "most", "passes", "status"),
    [
        ([0, 0, 1], 5, False, 1),
        ([1], 5, False, 1),
        ([0, 0, 0], 3, False, 0),
        ([0], 1, False, 0),
        ([0, 73], 3, False, 73),
        ([1, 1, 0], 5, True, 0),
        ([0], 5, True, 0),
        ([1, 1, 1], 3, True, 1),
        ([1, 78], 2, True, 78),
        ([2], 5, True, 2),
    ],
)
def test_rounds_end_at_the_first_that_fails_or_passes(
    play: Play, statuses: list[int], most: int, passes: bool, status: int
) -> None:
    """Or after N; the status is that of the last round. Wrong usage stays wrong."""
    assert play(statuses, most, passes) == status


def test_table_has_every_round_with_its_load(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the terminal, and as Markdown with the names of the failed tests."""
    monkeypatch.setattr(load, "between", lambda *_: Load(0.5, 2.25, 0.9, 0.3, 0.01, None))
    play([1, 1, 0], 5, True)
    assert (tmp_path / "rounds.md").read_text() == (
        "| round | result | tests | load | busy | others | stolen | waiting | failed tests |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| 1 | status 1 | 1 failed, 1 | 0.5 to 2.2 | 90% | 30% | 1% |  | tests.test_a.test_bad2 |\n"
        "| 2 | status 1 | 1 failed, 1 | 0.5 to 2.2 | 90% | 30% | 1% |  | tests.test_a.test_bad1 |\n"
        "| 3 | passed | 1 | 0.5 to 2.2 | 90% | 30% | 1% |  |  |\n"
    )
    out, err = capsys.readouterr()
    assert [line.split()[:2] for line in out.splitlines()[3:6]] == [
        ["1", "status"],
        ["2", "status"],
        ["3", "passed"],
    ]
    assert "kfabric: round 2 of at most 5\n" in err
    assert "kfabric: 3 rounds: 1 passed, 2 failed\n" in err


def test_junit_file_has_the_number_of_the_round_and_its_load(play: Play, tmp_path: Path) -> None:
    """The file is that of the last round. Those of earlier failed rounds are kept."""
    play([1, 1, 0], 5, True)
    last = tmp_path / "guest.xml"
    assert (junit.marked(last, "round"), junit.failed(last)) == ("3", [])
    assert " to " in junit.marked(last, "host-load")
    kept = [tmp_path / f"rounds/{number}/guest.xml" for number in (1, 2)]
    assert list(map(junit.failed, kept)) == [["tests.test_a.test_bad2"], ["tests.test_a.test_bad1"]]
    assert [junit.marked(report, "round") for report in kept] == ["1", "2"]


def test_files_of_an_earlier_call_are_gone(play: Play, tmp_path: Path) -> None:
    """They would look like rounds of this one."""
    play([1, 0], 2, True)
    play([0], 2, True)
    assert not (tmp_path / "rounds").exists()


def test_rounds_without_any_test_are_not_repeated(tmp_path: Path) -> None:
    """The filter is wrong then, and will be in each round."""
    played = []

    def once() -> Played:
        played.append(1)
        return Played(ExitStatus.TEST_FAILED, [], empty=True)

    assert Rounds(5, True, tmp_path).play(once) == ExitStatus.TEST_FAILED
    assert len(played) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SetupError("no network")])
def test_rounds_so_far_are_shown_when_a_round_breaks_off(
    tmp_path: Path, error: type[BaseException] | BaseException
) -> None:
    """After hours, Ctrl-C still gives the table."""
    played: list[int] = []

    def once() -> Played:
        if played:
            raise error
        played.append(1)
        return Played(0, [])

    with pytest.raises((KeyboardInterrupt, SetupError)):
        Rounds(5, False, tmp_path).play(once)
    assert len((tmp_path / "rounds.md").read_text().splitlines()) == 3


def test_more_failed_tests_than_a_row_names_are_hinted_at(tmp_path: Path) -> None:
    report = tmp_path / "guest.xml"
    report.write_text(fails("a", "b", "c", "d"))
    of = Rounds(1, False, tmp_path)
    of.play(lambda: Played(1, [report]))
    assert of.rows[0]["failed tests"].count("tests.test_a.") == rounds.LISTED
    assert of.rows[0]["failed tests"].endswith(", …")


#                     user nice system idle iowait irq softirq steal
FIRST = Sample(0.5, (1000, 0, 100, 5000, 100, 0, 0, 50), 10.0, 3.0, 100.0)


@pytest.fixture(autouse=True)
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred ticks a second, as everywhere."""
    monkeypatch.setattr(load.os, "sysconf", lambda _: 100)


def test_load_is_that_between_two_moments() -> None:
    """In 10 s, of two CPUs: 8 s used, 3 s of these by our processes, 1 s stolen, 11 s idle."""
    last = Sample(2.0, (1600, 50, 250, 5900, 300, 0, 0, 150), 13.0, 8.0, 110.0)
    found = load.between(FIRST, last)
    assert (found.before, found.after) == (0.5, 2.0)
    assert (found.busy, found.others, found.steal, found.pressure) == (0.4, 0.25, 0.05, 0.5)


def test_load_that_the_kernel_does_not_count_is_left_out() -> None:
    """Some kernels have no /proc/pressure."""
    found = load.between(FIRST, replace(FIRST, stalled=None))
    assert found.pressure is None and found.cells()["waiting"] == ""


def test_sample_of_this_host_is_complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With and without /proc/pressure."""
    first = load.sample()
    assert len(first.ticks) == 8 and sum(first.ticks) > 0
    monkeypatch.setattr(load, "PRESSURE", tmp_path / "nowhere")
    assert load.sample().stalled is None
    (tmp_path / "cpu").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n")
    monkeypatch.setattr(load, "PRESSURE", tmp_path / "cpu")
    assert load.sample().stalled == 2.5
