# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The share of the long suites that a commit chooses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kfabric.commands import share
from kfabric.commands.share import Commit
from kfabric.errors import SetupError
from kfabric.gallery.entries import BY_NAME, KINDS
from kfabric.mutants import catalogue
from kfabric.vm import prepare

MUTANTS = catalogue.load(prepare.SOURCE)


def commit(number: int, *changed: str) -> Commit:
    return Commit(f"{number:040x}", number, frozenset(changed))


def chosen(commit: Commit, suite: str) -> list[str]:
    """The words of one suite's command."""
    (words,) = (words for words in share.suites(commit, MUTANTS) if words[0] == suite)
    return words[1:]


@pytest.mark.parametrize(
    ("suite", "size", "everything"),
    [
        ("mutants", share.MUTANTS, {mutant.name for mutant in MUTANTS}),
        ("gallery", share.ENTRIES, set(BY_NAME)),
    ],
)
def test_consecutive_commits_go_through_everything(
    suite: str, size: int, everything: set[str]
) -> None:
    """Nothing is left out for ever."""
    turns = -(-len(everything) // size)
    seen = {word for n in range(90, 90 + turns) for word in chosen(commit(n), suite)}
    assert everything <= seen


def test_healthy_kinds_take_turns() -> None:
    """One kind of healthy wake-ups for each commit."""
    kinds = {chosen(commit(n), "gallery")[-1] for n in range(len(KINDS))}
    assert kinds == set(KINDS)


def test_same_commit_has_the_same_share() -> None:
    """So that a failure can be repeated."""
    assert share.suites(commit(7), MUTANTS) == share.suites(commit(7), MUTANTS[::-1])


def test_each_commit_has_a_seed_of_its_own() -> None:
    """The seed follows from the hash."""
    assert chosen(Commit("89abcdef" * 5, 1, None), "fuzz")[-1] == str(0x89ABCDEF)


@pytest.mark.parametrize("changed", ["patch", "tests"])
def test_mutants_of_the_change_come_first(changed: str) -> None:
    """Those whose patch or tests it changes."""
    mutant = MUTANTS[-1]
    path = mutant.tests[0].partition("::")[0]
    if changed == "patch":
        path = str(mutant.patch.relative_to(prepare.SOURCE))
        assert chosen(commit(0, path), "mutants")[0] == mutant.name
    near = {m.name for m in MUTANTS if any(test.startswith(f"{path}::") for test in m.tests)}
    first = chosen(commit(0, path, "README.md"), "mutants")[: min(len(near), share.CHANGED)]
    assert set(first) <= near


def test_large_change_takes_no_more_than_its_part() -> None:
    """The rest of the share rotates as ever, and has none of them twice."""
    everything = {path for mutant in MUTANTS for path in share._files(mutant)}
    names = chosen(commit(3, *everything), "mutants")
    assert len(set(names)) == len(names) == share.CHANGED + share.MUTANTS
    assert f"{len(MUTANTS)} mutants, {share.CHANGED} of them" in share.about(
        commit(3, *everything), MUTANTS
    )


def git(place: Path, *words: str) -> None:
    """Run git as a person with a name."""
    argv = ["git", "-C", str(place), "-c", "user.name=n", "-c", "user.email=e", *words]
    subprocess.run(argv, check=True, capture_output=True)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A repository of three commits."""
    place = tmp_path / "history"
    place.mkdir()
    git(place, "init", "-q")
    for name in ("first", "second", "third"):
        (place / name).touch()
        git(place, "add", name)
        git(place, "commit", "-q", "-m", name)
    return place


def test_commit_is_counted_and_its_files_are_known(history: Path) -> None:
    """The files of the last commit, and of no other."""
    head = share.head(history)
    assert (head.number, head.changed) == (3, frozenset({"third"}))


def test_merge_changes_all_that_it_brings(history: Path) -> None:
    """Compared with the branch before."""
    git(history, "checkout", "-q", "-b", "side", "HEAD~2")
    for name in ("fourth", "fifth"):
        (history / name).touch()
        git(history, "add", name)
        git(history, "commit", "-q", "-m", name)
    git(history, "checkout", "-q", "-")
    git(history, "merge", "-q", "--no-ff", "-m", "merge", "side")
    assert share.head(history).changed == frozenset({"fourth", "fifth"})


def test_shallow_clone_claims_to_know_no_change(history: Path, tmp_path: Path) -> None:
    """Its only commit looks as if it had made every file."""
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", history.as_uri(), str(tmp_path / "shallow")], check=True
    )
    head = share.head(tmp_path / "shallow")
    assert head.changed is None and head.number == head.seed
    assert head.name == share.head(history).name
    assert "not known" in share.about(head, MUTANTS)


def test_directory_without_commits_is_refused(tmp_path: Path) -> None:
    """A share without a commit could not be repeated."""
    with pytest.raises(SetupError):
        share.head(tmp_path)


def test_list_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints a line for each suite."""
    monkeypatch.setattr(share, "_run", None)
    assert share.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["share:", "kfabric", suite] for suite in ("mutants", "gallery", "fuzz")
    ]


def test_suite_that_would_begin_too_late_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a line reports it."""
    monkeypatch.setattr(share, "_run", None)
    assert share.main(["--limit", "0"]) == 0
    assert capsys.readouterr().out.count("left out for want of time\n") == 3


def test_failed_suite_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """All run; the first failure is the exit status."""
    codes = iter([0, 3, 1])
    monkeypatch.setattr(share, "_run", lambda words: next(codes))
    assert share.main([]) == 3
    assert list(codes) == []
