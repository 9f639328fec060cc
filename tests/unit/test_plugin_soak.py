# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""--soak-hours: the totals that a long run shows after each round and at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kfabric.errors import ExitStatus
from kfabric.root import python_path
from kfabric.runner.outcome import Soaked

ROUNDS = """
import pytest

@pytest.mark.parametrize("number", [1, 2, 3])
def test_round(number, record_property):
    record_property("soak-messages", 100)
    record_property("soak-faults", {"kill": 2, "stop": number})
    record_property("soak-errors", {"ENODEV": 1})
    assert number != FAILS
"""

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run three toy rounds, of which one may fail, for some hours."""
    monkeypatch.setenv("PYTHONPATH", python_path(Path(__file__).parents[2]))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def rounds(fails: int = 0, hours: str = "0.05") -> pytest.RunResult:
        pytester.makepyfile(test_toy=f"FAILS = {fails}\n{ROUNDS}")
        return pytester.runpytest_subprocess(
            *("-p", "kfabric.runner.plugin", "--kfabric-here", "-x", "--soak-hours", hours),
            timeout=60,
        )

    return rounds


def test_totals_are_shown_after_each_round_and_at_the_end(run: Run) -> None:
    """Messages, faults by kind and errors are sums of all rounds so far."""
    result = run()
    assert result.ret == ExitStatus.OK
    result.stdout.fnmatch_lines(
        [
            "soak: * 1 round: 100 messages, * 3 faults (kill 2, stop 1), *ENODEV 1; findings: 0",
            "soak: * 2 rounds: 200 messages, * 7 faults (kill 4, stop 3), *ENODEV 2; findings: 0",
            "soak: * 3 rounds: 300 messages, * 12 faults (kill 6, stop 6), *ENODEV 3; findings: 0",
            "soak: * 3 rounds: *",
        ]
    )


def test_first_finding_ends_it(run: Run) -> None:
    """No round runs after one that failed; the totals show it."""
    result = run(fails=2)
    assert result.ret == ExitStatus.TEST_FAILED
    result.stdout.fnmatch_lines(["soak: * 2 rounds: 200 messages, *; findings: 1"])
    result.stdout.no_fnmatch_line("*3 rounds*")


def soaked(*outcomes: str) -> list[Mapping[str, str]]:
    """The cells that a soak with such rounds writes into docs/results.md."""
    written: list[Mapping[str, str]] = []
    soaked = Soaked(written.append)
    for outcome in outcomes:
        told: dict[str, Any] = (
            {"messages": 1000, "faults": {"kill": 2}, "errors": {}} if outcome == "passed" else {}
        )
        report = SimpleNamespace(
            when="call",
            failed=outcome == "failed",
            user_properties=[(f"soak-{name}", value) for name, value in told.items()],
        )
        soaked.pytest_runtest_logreport(cast(pytest.TestReport, report))
    soaked.pytest_terminal_summary(SimpleNamespace(write_line=lambda *_, **__: None))
    return written


def test_results_have_the_totals() -> None:
    """Each round that passed has seen that nothing was lost."""
    (cells,) = soaked("passed", "passed")
    assert cells == {
        "minutes": "0",
        "rounds": "2",
        "messages": "2,000",
        "lost or doubled": "none",
        "waits judged": "0",
        "faults": "4 (kill 4)",
        "errors reported": "none",
        "findings": "0",
    }


def test_results_claim_no_check_that_was_not_made() -> None:
    """A round that failed may not have counted its messages."""
    (cells,) = soaked("passed", "failed")
    assert cells["lost or doubled"] == "not known" and cells["findings"] == "1"


def test_soak_without_a_round_writes_no_results() -> None:
    """The row of an earlier soak says more."""
    assert soaked("failed") == []


def test_nothing_is_shown_without_hours(run: Run) -> None:
    """Other runs show no totals."""
    run(hours="0").stdout.no_fnmatch_line("soak: *")
