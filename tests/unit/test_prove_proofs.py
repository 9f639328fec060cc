# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""docs/proofs.md, and the lines of docs/wakeups.md that lead there."""

from __future__ import annotations

import re
import shutil

import pytest

from kfabric.prove import build, coverage, proofs, session
from kfabric.prove.output import Finding, Result, Scenario
from kfabric.prove.run import Job, Mode, Outcome
from kfabric.root import ROOT

WAKEUPS = """\
# Why

### 1. `kfi_one()`

Rules V1, W2. Code: `waitq.c`.

The text of the first case.

### 2. Two

Rule Q5. Code: `cq.c`.

The text of the second.
"""


def outcomes(scenario: Scenario, *results: Result) -> list[Outcome]:
    """The outcomes of a scenario under each memory model."""
    mode = Mode.DPOR if scenario.bound is None else Mode.BOUND
    return [
        Outcome(Job(scenario, mode, memory, scenario.bound or 0), result)
        for memory, result in zip(session.MEMORIES, results, strict=True)
    ]


def complete(executions: int) -> Result:
    """A complete exploration."""
    return Result(executions, complete=True)


PLAYED = outcomes(
    Scenario("one-reader", "one reads", ("W2",), (1,)),
    *(complete(5), complete(7), complete(1200), complete(9)),
)


def test_page_has_the_executions_under_each_memory_model() -> None:
    """In a section of each case, which says so if it has none."""
    page = proofs.page(PLAYED, "today", WAKEUPS, [])
    row = "| `one-reader` | one reads | dpor | 5 | 7 | 1,200 | 9 |\n"
    assert (
        "## 1. `kfi_one()`\n\n| scenario | what happens | mode | sc | tso | pso | weak |\n" in page
    )
    assert row in page and "\ntoday\n" in page
    assert "## 2. Two\n\nNo scenario plays this case.\n" in page


def test_page_lists_rules_without_a_scenario() -> None:
    """Each rule that has scenarios names them."""
    page = proofs.page(PLAYED, "today", WAKEUPS, ["W2", "Q5"])
    assert "Without a scenario: Q5." in page
    assert "| [W2](contract.md#w2) | `one-reader` |\n" in page


def test_line_of_a_case_stands_below_its_facts() -> None:
    """The text around it stays, and a second run replaces it."""
    text = proofs.with_lines(WAKEUPS, PLAYED)
    line = (
        "Played by [1 scenario](proofs.md#1-kfi_one): `one-reader`. "
        "Executions: 5 under sc, 7 under tso, 1,200 under pso, 9 under weak.\n"
    )
    paragraph = text.partition("Code: `waitq.c`.\n\n")[2].partition("\n\nThe text")[0]
    assert paragraph.replace("\n", " ") + "\n" == line
    assert "Code: `cq.c`.\n\nPlayed by no scenario.\n\nThe text of the second.\n" in text
    assert proofs.with_lines(text, PLAYED) == text


@pytest.mark.parametrize(
    ("result", "cell", "words"),
    [
        (
            Result(9, why_not="seconds"),
            "9, *unfinished*",
            "unfinished: 0 under sc, 0 under tso, 1 under pso, 0 under weak.",
        ),
        (
            Result(9, finding=Finding("asleep", "reader sleeps")),
            "**FOUND: asleep**",
            "with a fault: 0 under sc, 0 under tso, 1 under pso, 0 under weak.",
        ),
    ],
)
def test_exploration_that_is_no_proof_is_named(result: Result, cell: str, words: str) -> None:
    """In the cell and in the line; the other models keep their numbers."""
    played = outcomes(Scenario("a", tables=(1,)), complete(1), complete(2), result, complete(4))
    assert f"| 1 | 2 | {cell} |" in proofs.page(played, "today", WAKEUPS, [])
    assert words in proofs.with_lines(WAKEUPS, played).replace("\n", " ")


def test_bound_is_named() -> None:
    """A complete exploration up to a bound is no proof beyond it."""
    played = outcomes(Scenario("a", tables=(2,), bound=3), *[complete(4)] * 4)
    assert "| bound 3 | 4 | 4 | 4 | 4 |" in proofs.page(played, "today", WAKEUPS, [])
    text = proofs.with_lines(WAKEUPS, played).replace("\n", " ")
    assert "Scenarios with a bound of preemptions: 1." in text


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    """Those of the wait core."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on this host")
    return session.listing(build.of_kfabric(ROOT))


CASES = coverage.tables((ROOT / coverage.WAKEUPS).read_text(encoding="utf-8"))


@pytest.mark.parametrize(("number", "title"), CASES.items(), ids=str)
def test_case_names_the_scenarios_that_play_it(
    number: int, title: str, scenarios: list[Scenario]
) -> None:
    """Both documents agree with the scenarios' own lists of tables."""
    playing = [one for one in scenarios if number in one.tables]
    text = (ROOT / coverage.WAKEUPS).read_text(encoding="utf-8")
    section = text.partition(f"### {number}. {title}\n")[2].partition("\n### ")[0]
    assert proofs.played_by(playing, number, title) in section.replace("\n", " ")
    page = (ROOT / proofs.DOCUMENT).read_text(encoding="utf-8")
    table = page.partition(f"## {number}. {title}\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == [one.name for one in playing]


def test_names_are_known_before_the_scenarios_are_compiled(scenarios: list[Scenario]) -> None:
    """So that a wrong name is refused at once."""
    declared = build.declared(build.of_kfabric(ROOT))
    assert declared and sorted(declared) == [one.name for one in scenarios]


def test_page_lists_every_rule_of_two_threads(scenarios: list[Scenario]) -> None:
    """With its scenarios, or among those without one."""
    rules = (ROOT / proofs.DOCUMENT).read_text(encoding="utf-8").partition("## Rules\n")[2]
    for rule in coverage.rules(ROOT):
        names = ", ".join(f"`{one.name}`" for one in scenarios if rule in one.rules)
        row = f"| [{rule}](contract.md#{rule.lower()}) | {names} |\n"
        assert row in rules if names else f" {rule}" in rules.partition("Without")[2]
