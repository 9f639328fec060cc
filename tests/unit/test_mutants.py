# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Mutants: their headers and patches are right, and verdicts mean what they say."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import cast

import pytest

from kfabric.errors import BuildError, GuestLost
from kfabric.mutants import build, catalogue, run, show
from kfabric.mutants.build import Builder
from kfabric.mutants.catalogue import Mutant, Outcome, PatchError, Report, UnknownMutant, Verdict
from kfabric.vm.machine import Vm
from kfabric.vm.prepare import SOURCE

PATCHES = sorted((SOURCE / catalogue.DIRECTORY).glob("*.patch"))
LEAST = 40
RULE = re.compile(r"[OWQPTEFX]\d{1,2}|V\d{1,2}|B\d{2}")

SAMPLE = """\
# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
Breaks: something,
  and something else
Rules: V2, B07
Tests:
  test_a.py::test_one
  test_b.py::test_two[x-1]

--- a/kmod/core/a.c
+++ b/kmod/core/a.c
@@ -1,3 +1,3 @@
 one
-two
+2
 three
"""


@pytest.fixture
def patch(tmp_path: Path) -> Path:
    """A patch that applies to the directory `tree` next to it."""
    path = tmp_path / "sample.patch"
    path.write_text(SAMPLE)
    source = tmp_path / "tree/kmod/core/a.c"
    source.parent.mkdir(parents=True)
    source.write_text("one\ntwo\nthree\n")
    return path


def report(outcome: str, when: str = "call", text: str = "") -> Report:
    return {
        "test": "tests/guest/test_a.py::test_one",
        "when": when,
        "outcome": outcome,
        "text": text,
    }


def test_header_is_read(patch: Path) -> None:
    mutant = catalogue.read(patch)
    assert mutant.name == "sample"
    assert mutant.breaks == "something, and something else"
    assert mutant.rules == ("V2", "B07")
    assert mutant.tests == (
        "tests/guest/test_a.py::test_one",
        "tests/guest/test_b.py::test_two[x-1]",
    )
    assert mutant.files == ("kmod/core/a.c",)
    assert not mutant.spoils


def test_guest_of_its_own_is_read(patch: Path) -> None:
    patch.write_text(SAMPLE.replace("Tests:", "Guest: own\nTests:"))
    assert catalogue.read(patch).spoils


@pytest.mark.parametrize(
    ("old", "new"),
    [("Rules: V2, B07\n", ""), ("Breaks", "Brakes"), ("  test_a", "Breaks: twice\n  test_a")],
    ids=["missing", "unknown", "twice"],
)
def test_wrong_header_is_refused(patch: Path, old: str, new: str) -> None:
    patch.write_text(SAMPLE.replace(old, new))
    with pytest.raises(PatchError, match="sample"):
        catalogue.read(patch)


def test_names_are_patterns(tmp_path: Path) -> None:
    directory = tmp_path / catalogue.DIRECTORY
    directory.mkdir(parents=True)
    for name in ("one", "only", "two"):
        (directory / f"{name}.patch").write_text(SAMPLE)
    assert [mutant.name for mutant in catalogue.load(tmp_path)] == ["one", "only", "two"]
    assert [mutant.name for mutant in catalogue.load(tmp_path, ["on*"])] == ["one", "only"]
    with pytest.raises(UnknownMutant, match="three"):
        catalogue.load(tmp_path, ["one", "three"])


def test_patch_is_applied_without_fuzz(patch: Path) -> None:
    tree = patch.parent / "tree"
    source = tree / "kmod/core/a.c"
    build.apply(patch, tree, check=True)
    assert source.read_text() == "one\ntwo\nthree\n", "only tried"
    build.apply(patch, tree)
    assert source.read_text() == "one\n2\nthree\n"
    with pytest.raises(BuildError, match="sample"):
        build.apply(patch, tree)
    source.write_text("ONE\ntwo\nthree\n")
    with pytest.raises(BuildError, match="sample"):
        build.apply(patch, tree)
    assert {path.name for path in source.parent.iterdir()} == {"a.c"}


FAILED = report("failed", text="def test():\n>   assert not 1\nE   assert not 1\n\nx.py:3: Error")


@pytest.mark.parametrize(
    ("reports", "status", "verdict"),
    [
        ([report("passed"), FAILED], None, Verdict.KILLED),
        ([report("passed"), report("failed", "teardown", "left behind")], 1, Verdict.KILLED),
        ([report("failed", "setup", "no module")], 1, Verdict.BROKEN),
        ([report("passed"), report("passed")], 0, Verdict.SURVIVED),
        ([report("passed"), report("skipped", text="not here")], 0, Verdict.SURVIVED),
        ([report("skipped", text="no hooks")], 0, Verdict.BROKEN),
        ([report("passed")], None, Verdict.CRASHED),
        ([], 4, Verdict.BROKEN),
        ([], 0, Verdict.BROKEN),
    ],
    ids="call teardown setup pass one-skipped all-skipped stuck not-found nothing-ran".split(),
)
def test_verdict(patch: Path, reports: list[Report], status: int | None, verdict: Verdict) -> None:
    outcome = catalogue.judge(catalogue.read(patch), reports, status)
    assert outcome.verdict is verdict
    assert outcome.why or outcome.test


def test_reason_is_the_assertion(patch: Path) -> None:
    assert catalogue.judge(catalogue.read(patch), [FAILED], None).why == "assert not 1"


def test_only_a_test_kills(patch: Path) -> None:
    """A guest that goes down is no verdict, unless a test had failed before."""
    mutant, lost = catalogue.read(patch), GuestLost("gone")
    assert catalogue.judge(mutant, [report("passed")], None, lost).verdict is Verdict.CRASHED
    assert catalogue.judge(mutant, [FAILED], None, lost).verdict is Verdict.KILLED


@pytest.mark.parametrize(
    ("tries", "verdict"),
    [
        ([[], [FAILED]], Verdict.KILLED),
        ([[], []], Verdict.CRASHED),
        ([[FAILED]], Verdict.KILLED),
    ],
)
def test_guest_that_stood_still_gets_a_second_try(
    patch: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tries: list[list[Report]],
    verdict: Verdict,
) -> None:
    """A machine that was busy is no verdict; nothing is tried a third time."""
    left = list(tries)
    end = {"status": None, "clean": True, "log": ""}
    monkeypatch.setattr(run, "ask", lambda _guest, _job: (left.pop(0), end, None))
    outcomes: list[Outcome] = []
    tried = run.Run(cast(Builder, None), lambda _: cast(Vm, None), 1, 1.0, outcomes.append)
    tried._try(catalogue.read(patch), tmp_path)
    assert [outcome.verdict for outcome in outcomes] == [verdict]
    assert not left


def test_summary_counts_verdicts(patch: Path) -> None:
    mutant = catalogue.read(patch)
    outcomes = [Outcome(mutant, Verdict.KILLED), Outcome(mutant, Verdict.SURVIVED)]
    assert show.summary(outcomes, 61.2).plain == "2 mutants: 1 killed, 1 survived (1 min 1 s)"
    assert show.table(outcomes).row_count == 2


def test_there_are_enough() -> None:
    assert len(PATCHES) >= LEAST


@cache
def present(name: str) -> Mutant:
    return catalogue.read(SOURCE / catalogue.DIRECTORY / name)


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((SOURCE / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("name", [path.name for path in PATCHES])
def test_every_mutant_applies(name: str) -> None:
    build.apply(present(name).patch, SOURCE, check=True)


@pytest.mark.parametrize("name", [path.name for path in PATCHES])
def test_every_mutant_has_a_good_header(name: str) -> None:
    mutant = present(name)
    assert mutant.files and all(file.startswith("kmod/") for file in mutant.files)
    assert all(RULE.fullmatch(rule) for rule in mutant.rules)
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert function.partition("[")[0] in functions(file), test
