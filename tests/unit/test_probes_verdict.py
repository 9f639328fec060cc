# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict on recorded traces: each fault, and cases next to it without a fault.

A trace of tests/data/traces says in its first lines what happened and what the
verdict must be.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from record_lines import load_lines
from report_support import TRACES

from kfabric.recording.records import Context
from kfabric.verdict.ledger import build
from kfabric.verdict.verdict import Kind, Outcome, Rules, Side, Verdict, judge


@dataclass(frozen=True)
class Case:
    """A trace with what it promises."""

    lines: list[str]
    sides: tuple[Side, ...]
    contexts: dict[int, frozenset[Context]]
    verdict: str
    text: str
    notes: list[str]


def load(path: Path) -> Case:
    """Read a trace and its first lines."""
    lines = path.read_text(encoding="utf-8").splitlines()
    header: dict[str, list[str]] = {
        key: [] for key in ("sides", "contexts", "verdict", "text", "notes")
    }
    for line in lines:
        key, _, value = line.removeprefix("#").strip().partition(": ")
        if line.startswith("#") and key in header:
            header[key].append(value)
    sides = tuple(Side(words[0], *map(int, words[1:])) for words in map(str.split, header["sides"]))
    assert len(header["verdict"]) == 1, f"{path.name} must say one verdict"
    contexts = {
        int(words[0]): frozenset(Context[word] for word in words[1:])
        for words in map(str.split, header["contexts"])
    }
    text = "".join(header["text"])
    return Case(lines, sides, contexts, header["verdict"][0], text, header["notes"])


def verdict_on(case: Case) -> Verdict:
    """Judge a trace."""
    rules = Rules(sides=case.sides, contexts=case.contexts)
    return judge(build(load_lines(case.lines)), rules)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_trace_gets_its_verdict(path: Path) -> None:
    """F7 and every kind of fault: a trace gets the verdict that it says, no more, no less."""
    case = load(path)
    verdict = verdict_on(case)
    if case.verdict.startswith("verified"):
        assert verdict.findings == () and verdict.doubts == ()
        assert verdict.outcome is Outcome.VERIFIED
        assert verdict.matched == int(case.verdict.split()[1])
    elif case.verdict == "not judged":
        assert verdict.findings == () and verdict.doubts == ()
        assert verdict.outcome is Outcome.NOT_JUDGED
    elif case.verdict == "not verified":
        assert verdict.outcome is Outcome.NOT_VERIFIED
        assert case.text in verdict.doubts[0]
    else:
        assert verdict.doubts == ()
        assert [finding.kind for finding in verdict.findings] == [Kind(case.verdict)]
        assert case.text in verdict.findings[0].text
    assert len(verdict.notes) == len(case.notes) == verdict.overtaken
    for note, expected in zip(verdict.notes, case.notes, strict=True):
        assert f"{note.kind} {note.text}".startswith(expected)


def test_every_kind_of_fault_has_a_trace() -> None:
    """A kind without a trace would be a check that was never seen to fail.

    Faults of the kernel's own waits are shown by the gallery instead.
    """
    cases = [load(path) for path in TRACES]
    kinds = {case.verdict for case in cases} | {
        note.partition(" ")[0] for case in cases for note in case.notes
    }
    assert {kind.value for kind in Kind} - {Kind.DEADLOCK, Kind.STUCK} <= kinds


def test_every_kind_is_explained() -> None:
    """docs/verdict.md has a row for each kind."""
    page = (Path(__file__).parents[2] / "docs/verdict.md").read_text()
    assert [kind.value for kind in Kind if f"\n| {kind} | " not in page] == []


def test_every_verdict_has_a_trace_that_nearly_gives_it() -> None:
    """A check with false findings would be seen here."""
    for path in TRACES:
        word = path.stem.partition("-nearly")[0]
        if word != path.stem:
            assert load(path).verdict.startswith(("verified", "not judged"))
    nearly = {path.stem for path in TRACES if path.stem.endswith("-nearly")}
    assert {
        "lost-nearly",
        "spurious-nearly",
        "late-nearly",
        "herd-nearly",
        "wrong-waiter-nearly",
        "timeout-ready-nearly",
        "not-handed-on-nearly",
        "never-ran-nearly",
        "wrong-context-nearly",
        "order-nearly",
        "good-overtaken-nearly",
        "views-open-nearly",
    } <= nearly


def test_a_wait_from_before_the_recording_accuses_nobody() -> None:
    """The signal that woke it may have come before the recording began."""
    case = load(next(path for path in TRACES if path.stem == "spurious"))
    ledger = build(load_lines(case.lines))
    assert judge(ledger, Rules(since=1)).findings
    assert not judge(ledger, Rules(since=10**12)).findings


def test_verdict_line_gives_the_number_of_waits() -> None:
    """The line of a good run is the one that the README shows."""
    case = load(next(path for path in TRACES if path.stem == "good"))
    assert verdict_on(case).line() == (
        "VERIFIED: 2 waits, each ended by the completion it waited for"
    )


def test_fault_line_names_the_fault_and_counts_the_others() -> None:
    """The line of a bad run begins with the first fault."""
    case = load(next(path for path in TRACES if path.stem == "lost"))
    line = verdict_on(case).line()
    assert line.startswith("LOST: wait 2 of thread ping/101 on wait set 20 ")


def test_given_names_appear_in_findings() -> None:
    """The run may call objects by what they mean to the reader."""
    case = load(next(path for path in TRACES if path.stem == "lost"))
    ledger = build(load_lines(case.lines))
    verdict = judge(ledger, Rules(names={20: "ping's set", 21: "ping's CQ"}))
    assert "wait set 20 (ping's set)" in verdict.findings[0].text
    assert "CQ 21 (ping's CQ)" in verdict.findings[0].text


def test_an_empty_recording_verifies_no_side() -> None:
    """A probe that saw nothing at all must not look like a good run."""
    verdict = judge(build(load_lines([])), Rules(sides=(Side("ping", 1, 2, 3, 4),)))
    assert verdict.line() == "NOT VERIFIED: ping: the probe saw no wait at all"
