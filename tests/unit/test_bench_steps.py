# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a developer waits for: the steps, their rows, and the clone that they are played in."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from kfabric.bench import steps
from kfabric.bench.steps import Step, Took
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


def test_a_goal_is_compared_with_the_median() -> None:
    """One slow time among three misses nothing; the first time is not among them."""
    took = Took(TEST, 60.0, (2.9, 9.0, 3.0))
    assert steps.row(took, {}).seconds == 3.0
    assert steps.row(took, {}).met
    assert not steps.row(Took(TEST, 1.0, (2.9, 9.0, 3.1)), {}).met


def test_what_a_step_takes_beyond_another_one_is_the_difference() -> None:
    """The row names what was taken off."""
    others = {"a test": Took(TEST, 9.0, (2.0, 2.5, 3.0))}
    row = steps.row(Took(WATCHED, 9.0, (3.0, 3.25, 3.5)), others)
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
    monkeypatch.setattr(Measurement, "write", lambda self, kernel, text: kernels.append(kernel))
    kernels: list[str] = []
    assert steps.run(measured) == 0
    assert kernels == ["6.1"]
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


def test_a_directory_without_commits_is_refused(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There is nothing to clone."""
    monkeypatch.setattr(prepare, "SOURCE", tmp_path / "none")
    with pytest.raises(SetupError, match="cannot be cloned"):
        steps.run()
