# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`--schedule`: the search through seeds, and through the points of a finding."""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus, SetupError, UsageError
from kfabric.runner import testoptions, testrun
from kfabric.runner.rounds import Played
from kfabric.steer import search as seeds
from kfabric.steer import show
from kfabric.steer.plan import Plan
from kfabric.steer.search import Ended, Search
from kfabric.steer.show import Held

MAIL = "test_mail"
CASE = '<testcase classname="tests.test_a" name="test_mail">{}</testcase>'
GUESTS = '<testcase classname="guests" name="guest1 did not boot"><error/></testcase>'
POINTS = [f"wait+{offset:#x}" for offset in range(0, 80, 8)]
LOST = "wait+0x18"
"""The point at which a hold loses a wake-up."""


def report_of(inside: str) -> str:
    return f"<testsuites><testsuite>{inside}</testsuite></testsuites>"


Fails = Callable[[Plan], str]
"""The test that fails under a plan; empty: none does."""


class Toy:
    """Tests that fail under some plans; remembers all of them."""

    def __init__(self, directory: Path, fails: Fails) -> None:
        self.plans: list[Plan] = []
        self.status = ExitStatus.TEST_FAILED
        self.broken = ""
        self.never = False
        self.always = False
        self.lost = False
        self.without = 0
        self.named: tuple[str, ...] = ()
        self.asked: tuple[str, ...] = ()
        self.known = False
        self.search: Search
        self._report = directory / "guest.xml"
        self._fails = fails

    def __call__(self) -> Ended:
        return testrun._ended(self._play())

    def _play(self) -> Played:
        plan = Plan.of_environment()
        if plan is None:
            self.without += 1
        else:
            self.plans.append(plan)
            subprocess.run(["echo", f"what pytest prints under seed {plan.seed}"], check=True)
        if plan is None and self.lost:
            return Played(ExitStatus.BOOT, [])
        failed = self._fails(plan) if plan else self.always * MAIL
        broken = self.broken or CASE.format("<failure/>").replace("test_mail", str(failed))
        self._report.write_text(report_of(broken if failed else CASE.format("")))
        return Played(self.status if failed else ExitStatus.OK, [self._report])

    def held(self) -> list[Held]:
        """Where the last plan held: half of the points, or those that it names."""
        points = self.named or self.plans[-1].points or (*POINTS[::2], LOST)
        return [Held("mod", point, "", 10, 0 if self.never else 4, 1_000_000) for point in points]


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, Toy]]:
    """Search seeds 1 to 9 among tests that fail under some plans: the status, and the tests."""

    def run(fails: Callable[[Plan], object], **fields: object) -> tuple[int, Toy]:
        def name_of(plan: Plan) -> str:
            found = fails(plan)
            return MAIL if found is True else str(found or "")

        toy = Toy(tmp_path, name_of)
        for name, value in fields.items():
            setattr(toy, name, value)
        monkeypatch.setattr(Search, "_held", lambda _: toy.held())
        argv = ["--module", "my mod", "--schedule", "seeds=1..9", "--", "-k", "mail"]
        chosen = range(4, 5) if toy.known else range(1, 10)
        asked = (chosen, toy.asked, tmp_path, argv, toy, toy.known)
        toy.search = Search(testrun._SEARCHED, *asked)
        return toy.search.play(), toy

    return run


Find = Callable[..., tuple[int, Toy]]


def test_all_seeds_are_played_if_none_fails(
    search: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their order; what was held under the last one is shown."""
    status, toy = search(lambda plan: False)
    assert status == ExitStatus.OK
    assert [plan.seed for plan in toy.plans] == list(range(1, 10))
    assert "kfabric: no failure under 9 seeds\n" in capsys.readouterr().err


def test_search_that_has_held_no_cpu_is_none(search: Find) -> None:
    """Such as one with a point that is not there: that nothing failed says nothing."""
    with pytest.raises(UsageError, match="--schedule has held no CPU"):
        search(lambda plan: False, never=True)


@pytest.mark.parametrize("point", ["wait+0x999", "peek"])
def test_point_that_no_cpu_passes_ends_the_search_at_once(search: Find, point: str) -> None:
    """A slip in its name, say; another one that is right does not hide it."""
    played: list[int] = []
    with pytest.raises(UsageError, match=f"no CPU has passed {re.escape(point)}"):
        search(
            lambda plan: played.append(plan.seed),
            asked=("wait", point),
            named=("wait+0x8",),
        )
    assert played == [1]


def test_test_that_fails_without_holds_is_not_explained_by_points(
    search: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken test fails under every seed, and with every point."""
    status, toy = search(lambda plan: True, always=True)
    said = capsys.readouterr().err
    assert status == ExitStatus.TEST_FAILED
    assert f"failed in {seeds.WITHOUT} of {seeds.WITHOUT} runs in which no CPU was held" in said
    assert "to play it" not in said and "only" not in said
    assert len(toy.plans) == 1


def test_runs_without_a_result_are_not_counted_as_passed(search: Find) -> None:
    """Of guests that do not boot, say: the search ends, and says so."""
    with pytest.raises(SetupError, match="two runs in a row have ended without a result"):
        search(lambda plan: True, lost=True)


def test_failure_in_a_run_that_held_no_cpu_is_not_called_found(
    search: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though it did not fail again without holds."""
    _, toy = search(lambda plan: True, never=True)
    said = capsys.readouterr().err
    assert not toy.search.shown_at
    assert "nothing is said of the points" in said and "to play it" not in said


def test_the_first_seed_that_fails_ends_the_search(
    search: Find, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is played again, its result is kept, and the command that plays it is printed."""
    status, toy = search(lambda plan: plan.seed == 3 and not plan.points)
    printed, said = capsys.readouterr()
    assert printed == "what pytest prints under seed 3\n"
    assert status == ExitStatus.TEST_FAILED
    assert {plan.seed for plan in toy.plans} == {1, 2, 3}
    assert "the same test failed in 5 of 5 more runs under this seed\n" in said
    again = "kfabric test --schedule seeds=3 --module 'my mod' -- -k mail"
    assert f"to play it: {again}\n" in said
    assert "<failure/>" in (tmp_path / "schedule" / "guest.xml").read_text()
    assert (tmp_path / "schedule.md").read_text().startswith("Seed 3\n\n| point | module |")


def test_points_become_fewer_until_only_those_that_matter_are_left(
    search: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reader gets the one point, how often it shows the failure, and the command."""
    _, toy = search(lambda plan: plan.seed == 2 and (not plan.points or LOST in plan.points))
    said = capsys.readouterr().err
    assert "held at 1 point only, the same test failed in 5 of 5 runs:\n" in said
    assert f"  {LOST} [mod]\n" in said
    assert f"to play it: kfabric test --schedule seeds=2 --points {LOST} --module" in said
    assert f"to record it: kfabric test --schedule seeds=2 --points {LOST} --record --mod" in said
    assert toy.plans[-1] == Plan(2, (LOST,))
    assert [(one.module, one.point) for one in toy.search.shown_at] == [("mod", LOST)]


def test_known_seed_is_played_only_until_it_fails(
    search: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    """To record it: an earlier search has said how often it shows the failure."""
    played: list[int] = []

    def third(plan: Plan) -> bool:
        played.append(plan.seed)
        return len(played) == 3

    status, toy = search(third, known=True, asked=(LOST,))
    assert status == ExitStatus.TEST_FAILED and played == [4, 4, 4] and not toy.without
    assert [one.point for one in toy.search.shown_at] == [LOST]
    assert "more runs" not in capsys.readouterr().err


def test_known_seed_that_does_not_fail_is_given_up(
    search: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    status, toy = search(lambda plan: False, known=True, asked=(LOST,))
    assert status == ExitStatus.OK and len(toy.plans) == seeds.AGAIN
    assert f"no failure in {seeds.AGAIN} runs\n" in capsys.readouterr().err


def test_points_that_are_needed_together_stay(
    search: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though neither half of the points shows the failure: a race has two sides."""
    needed = {POINTS[0], POINTS[8]}
    _, toy = search(lambda plan: plan.seed == 2 and (not plan.points or needed <= {*plan.points}))
    assert "held at 2 points only, the same test failed in 5 of 5" in capsys.readouterr().err
    assert set(toy.plans[-1].points) == needed


def test_points_that_are_all_needed_are_not_called_fewer(
    search: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    """The number of runs is said."""
    every = {*POINTS[::2], LOST}
    search(lambda plan: plan.seed == 2 and (not plan.points or every <= {*plan.points}))
    said = capsys.readouterr().err
    assert "with fewer points showed it as often\n" in said and "only" not in said


def test_points_that_seldom_show_it_are_not_called_the_ones_that_do(
    search: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    """What fails once in three runs may have failed by chance."""
    turn = itertools.count()
    search(lambda plan: plan.seed == 2 and (not plan.points or next(turn) % 3 == 0))
    assert "only" not in capsys.readouterr().err


def test_seed_that_seldom_shows_it_is_not_reduced(search: Find) -> None:
    """Too many runs would be needed to tell whether fewer points still do."""
    turn = itertools.count()
    _, toy = search(lambda plan: next(turn) % 4 == 0)
    assert len(toy.plans) == 1 + seeds.AGAIN
    assert {one.point for one in toy.search.shown_at} == {*POINTS[::2], LOST}


def test_seed_that_mostly_shows_it_is_reduced(search: Find) -> None:
    """In four of five runs."""
    turn = itertools.count()
    _, toy = search(lambda plan: plan.seed == 2 and next(turn) % 5 != 2)
    assert len(toy.search.shown_at) < len({*POINTS[::2], LOST})


def test_reduction_ends_after_some_runs(search: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many points there are."""
    monkeypatch.setattr(seeds, "PLAYS", 3)
    _, toy = search(lambda plan: plan.seed == 2)
    assert len([plan for plan in toy.plans if plan.points]) <= 3 + seeds.AGAIN


def test_another_test_that_fails_is_not_the_finding(
    search: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the tests that failed under the seed count when it is played again."""
    plays = itertools.count()
    search(lambda plan: plan.seed == 2 and ("test_other" if next(plays) else MAIL))
    assert "the same test failed in 0 of 5 more runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "broken"),
    [(ExitStatus.BOOT, GUESTS), (ExitStatus.BUILD, ""), (ExitStatus.TIMEOUT, GUESTS)],
)
def test_a_guest_that_does_not_start_is_no_finding(
    search: Find, status: ExitStatus, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The search ends with that status, and says that no test failed."""
    ended, toy = search(lambda plan: plan.seed == 2, status=status, broken=broken)
    assert ended == status
    assert [plan.seed for plan in toy.plans] == [1, 2]
    said = capsys.readouterr().err
    assert "to play it" not in said and "the search ends at seed 2: no test failed" in said


@pytest.mark.parametrize(
    ("text", "found"), [("seeds=1..200", range(1, 201)), ("seeds=7", range(7, 8))]
)
def test_seeds_are_a_range_or_one(text: str, found: range) -> None:
    """Both ends are played."""
    assert seeds.parse(text) == found


@pytest.mark.parametrize("text", ["1..5", "seeds=", "seeds=0..3", "seeds=5..3", f"seeds={1 << 63}"])
def test_other_seeds_are_refused(text: str) -> None:
    """With what they should look like."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not like seeds=1\.\.200"):
        seeds.parse(text)


def test_the_command_keeps_everything_but_seeds_and_points() -> None:
    """In both spellings of an option. Nor is it recorded again."""
    argv = ["--points", "a+0x1", "--schedule=seeds=1..9", "--vms", "1", "--points=b", "t.py"]
    assert seeds.without([*argv, "--record", "--", "x", "--points", "y"]) == (
        ["--vms", "1", "t.py", "--", "x", "--points", "y"]
    )


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--points", "get"], "--points chooses what --schedule holds"),
        (["--schedule", "seeds=1", "--tx", "ssh=host"], "the guests of this machine alone"),
        (["--schedule", "seeds=1", "--matrix"], "--schedule takes one kernel"),
        (["--record", "--kernel", "6.1", "--kernel", "6.12"], "--record takes one kernel"),
        (["--schedule", "seeds=1", "--cpus", "1"], "holds a CPU while another one runs"),
    ],
)
def test_words_that_do_not_go_together_are_refused(words: list[str], error: str) -> None:
    """Before anything is built."""
    with pytest.raises(UsageError, match=error):
        testoptions.parse(words)


def test_old_boards_are_forgotten(tmp_path: Path, search: Find) -> None:
    """What an earlier run has counted is not shown as this one's."""
    out = tmp_path / "vm1" / "out"
    out.mkdir(parents=True)
    (out / "steer.board").write_bytes(b"")
    (out / "steer.jsonl").write_text("")
    search(lambda plan: False)
    assert not show.boards(tmp_path)
