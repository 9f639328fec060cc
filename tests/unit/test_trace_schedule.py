# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric trace --schedule`: what counts as a finding, and which modules are held."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kfabric import names
from kfabric.errors import ExitStatus, UsageError
from kfabric.guest import aim
from kfabric.recording import HEAD
from kfabric.steer.plan import Plan
from kfabric.steer.search import Ended
from kfabric.trace import command, guest, loads, schedule
from kfabric.verdict.kinds import Finding, Kind, Verdict

LOST = Finding(Kind.LOST, 7, "wait 1 slept on")
WORDS = ["--schedule", "seeds=1..9", "--module", "mod", "--", "cmd", "--points", "3"]


@pytest.fixture
def once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """One trace that is played, with a status, findings and perhaps a recording to choose."""
    fake = SimpleNamespace(status=0, verdict=Verdict((), (), 5), recorded=True, argv=[])

    def run(argv: list[str], check: bool) -> SimpleNamespace:
        fake.argv = argv
        if fake.recorded:
            (tmp_path / HEAD).write_text("new")
        return SimpleNamespace(returncode=fake.status)

    def load(_: Path) -> SimpleNamespace:
        ledger = SimpleNamespace(object_name=lambda oid: f"queue {oid}")
        return SimpleNamespace(verdict=fake.verdict, ledger=ledger)

    monkeypatch.setattr("kfabric.trace.schedule.subprocess.run", run)
    monkeypatch.setattr("kfabric.trace.schedule.report.load", load)
    (tmp_path / HEAD).write_text("old")
    fake.play = lambda: schedule._once(WORDS, tmp_path)
    return fake


def test_a_run_is_the_same_command_without_seeds(once: SimpleNamespace) -> None:
    """The words of CMD are its own, whatever they look like."""
    once.play()
    words = ["trace", "--module", "mod", "--", "cmd", "--points", "3"]
    assert once.argv == [sys.executable, "-m", "kfabric.cli", *words]


def test_a_right_trace_has_not_failed(once: SimpleNamespace, tmp_path: Path) -> None:
    """And is described by its verdict: nothing more was seen."""
    words = "VERIFIED: 5 waits, each ended by the completion it waited for"
    assert once.play() == Ended(0, frozenset(), [tmp_path / HEAD], words)


def test_a_fault_is_named_by_its_kind_and_its_queue(once: SimpleNamespace) -> None:
    """W2: the numbers of waits and the times are others when it is played again."""
    once.status, once.verdict = ExitStatus.FAULT_FOUND, Verdict((LOST, LOST), (), 5)
    assert once.play().failed == {"lost on queue 7"}


def test_a_command_that_fails_is_a_failure_of_its_own(once: SimpleNamespace) -> None:
    """Beside a fault that was found in the same run."""
    once.status, once.verdict = 1, Verdict((LOST,), (), 5)
    assert once.play().failed == {"lost on queue 7", "status 1"}


def test_a_trace_that_ends_at_its_duration_has_not_failed(once: SimpleNamespace) -> None:
    """The user has asked for it."""
    once.status = guest.TIMED_OUT
    ended = once.play()
    assert not ended.failed and ended.status == ExitStatus.OK


def test_a_trace_that_judged_nothing_is_not_called_passed(once: SimpleNamespace) -> None:
    """Its status ends the search, without a finding."""
    once.status, once.verdict = ExitStatus.NOT_VERIFIED, Verdict((), (), 0)
    ended = once.play()
    assert not ended.failed and ended.status == ExitStatus.NOT_VERIFIED


@pytest.mark.parametrize(
    ("status", "failed"),
    [(ExitStatus.PANIC, {"status 74"}), (ExitStatus.BOOT, set()), (ExitStatus.BUILD, set())],
)
def test_a_guest_that_fails_is_a_failure_only_if_it_ran(
    once: SimpleNamespace, status: int, failed: set[str]
) -> None:
    """The recording of an earlier run is not taken for its own."""
    once.recorded, once.status, once.verdict = False, status, Verdict((LOST,), (), 5)
    assert once.play() == Ended(status, frozenset(failed))


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--", "true"], "holds CPUs in modules"),
        (["--here", "--module", "m"], "holds the CPUs of a guest"),
        (["--module", "m", "--cpus", "1", "--", "true"], "holds a CPU while another one runs"),
    ],
)
def test_traces_that_cannot_be_searched_are_refused(words: list[str], error: str) -> None:
    """Before a guest is booted."""
    with pytest.raises(UsageError, match=error):
        command._parse(["--schedule", "seeds=1..3", *words])


def test_module_that_comes_or_goes_is_aimed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each time that it is loaded, whoever loads it; other code may get its place."""
    nodes = {"mod": 0, "other": 3}
    seen: list[str] = []
    monkeypatch.setenv(names.STEER, Plan(1, (), ("mod", "other")).environment()[names.STEER])
    monkeypatch.setattr(loads, "node", lambda module: nodes[module])
    monkeypatch.setattr(aim, "at", lambda module: seen.append(f"at {module}"))
    monkeypatch.setattr(aim, "off", lambda module: seen.append(f"off {module}"))
    aims = loads.Aims()
    for now in (0, 5, 5, 6, 0):
        nodes["mod"] = now
        aims.look()
    assert seen == ["at other", "at mod", "at mod", "off mod"]


def test_nothing_is_held_without_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in every trace without seeds."""
    monkeypatch.delenv(names.STEER, raising=False)
    monkeypatch.setattr(loads, "node", pytest.fail)
    loads.Aims().look()
