# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a developer waits for: the steps, their rows, and the clone that they are played in."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from kfabric.bench import pictures, steps
from kfabric.bench.steps import Step, Took
from kfabric.bench.timeline import Part, Play, play
from kfabric.docs.results import Measurement
from kfabric.errors import SetupError
from kfabric.vm import prepare

TEST = Step("a test", 3, ("test",))
WATCHED = Step("watched", 1, ("test", "--verify-wakeups"), beyond="a test")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose command prints what its file has, and fails if that has three lines."""
    place = tmp_path / "checkout"
    (place / "harness").mkdir(parents=True)
    (place / "harness/__init__.py").touch()
    (place / "harness/cli.py").write_text(
        'import sys\nlines = open("edited").readlines()\nprint(len(lines), file=sys.stderr)\n'
        "sys.exit(len(lines) > 2)\n"
    )
    (place / "edited").touch()
    git = ["git", "-C", str(place), "-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(prepare, "SOURCE", place)
    monkeypatch.setattr(prepare, "guest_image", lambda: SimpleNamespace(release="6.1"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return place


def plays(*seconds: float) -> tuple[Play, ...]:
    """Commands that took so long."""
    return tuple(Play(0, each) for each in seconds)


def test_a_goal_is_compared_with_the_median() -> None:
    """One slow time among three misses nothing; the first time is not among them."""
    took = Took(TEST, 60.0, plays(2.9, 9.0, 3.0))
    assert steps.row(took, {}).seconds == 3.0
    assert steps.row(took, {}).met
    assert not steps.row(Took(TEST, 1.0, plays(2.9, 9.0, 3.1)), {}).met


def test_what_a_step_takes_beyond_another_one_is_the_difference() -> None:
    """The row names what was taken off."""
    others = {"a test": Took(TEST, 9.0, plays(2.0, 2.5, 3.0))}
    row = steps.row(Took(WATCHED, 9.0, plays(3.0, 3.25, 3.5)), others)
    assert row.seconds == 0.75
    assert row.plays == "3.0, 3.2, 3.5 s; first 9.0 s; less 2.5 s"


def test_steps_name_others_and_files_that_there_are() -> None:
    """What a step goes beyond, what it edits, and the test that it plays."""
    titles = [step.title for step in steps.STEPS]
    for step in steps.STEPS:
        assert not step.beyond or titles.index(step.beyond) < titles.index(step.title)
        assert (prepare.SOURCE / step.edits).exists()
    path, _, name = steps._TEST[1].partition("::")
    assert f"def {name}(" in (prepare.SOURCE / path).read_text()


def test_edits_are_made_in_a_clone(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One before each time; the checkout stays as it is, and the results have a row."""
    monkeypatch.setattr(steps, "PLAYS", 1)
    monkeypatch.setattr(steps, "STEPS", (Step("edit", 60, ("x",), edits="edited"),))
    measured = Measurement("steps", "kfabric bench steps --results")
    monkeypatch.setattr(Measurement, "write", lambda self, kernel, text: written.append(text))
    monkeypatch.setattr(pictures, "write", lambda path, picture: written.append(picture))
    written: list[str] = []
    assert steps.run(measured) == 0
    table, picture = written
    assert "| edit |" in table
    assert ">edit<" in picture
    assert (checkout / "edited").read_text() == ""
    assert "edit" in capsys.readouterr().out


def test_a_command_that_fails_ends_the_bench(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its title, its status and what it said; no time is made of it."""
    monkeypatch.setattr(steps, "STEPS", (Step("edit", 60, ("x",), edits="edited"),))
    with pytest.raises(SetupError, match="edit: exit status 1") as caught:
        steps.run()
    assert caught.value.console == "3\n"


def test_a_part_begins_with_the_last_line_before_it() -> None:
    """Lines in quick succession are one part, and no time is missing."""
    lines = ((0.5, "booting"), (2.0, "up"), (2.05, "begun"), (2.95, "passed"))
    assert Play(0, 3.0, lines).parts() == [
        Part(0.0, 0.5, "the command"),
        Part(0.5, 2.0, "booting"),
        Part(2.0, 3.0, "begun"),
    ]
    assert Play(0, 0.01).parts() == []


def test_a_command_is_played_with_the_times_of_its_lines(tmp_path: Path) -> None:
    """Both outputs, in order; its status is told, and what takes too long is killed."""
    words = ["sh", "-c", "echo one; echo two >&2; exit 3"]
    played = play(words, tmp_path, 60, {})
    assert (played.status, played.output) == (3, "one\ntwo\n")
    assert 0 <= played.lines[0][0] <= played.lines[1][0] <= played.seconds
    assert play(["sleep", "600"], tmp_path, 0.01, {}).status < 0


def test_a_directory_without_commits_is_refused(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There is nothing to clone."""
    monkeypatch.setattr(prepare, "SOURCE", tmp_path / "none")
    with pytest.raises(SetupError, match="cannot be cloned"):
        steps.run()
