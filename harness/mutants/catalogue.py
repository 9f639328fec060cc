# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Mutants: patches that each break one thing which keeps a wake-up safe.

A test suite is as good as the faults that it notices. Each file of
tests/mutants/ is a unified diff against the modules with a header of fields::

    Breaks: what goes wrong, and when
    Rules: V2, W2, B07
    Tests: test_wait_set.py::test_event_between_check_and_sleep_is_not_lost
    Guest: own

A line that begins with a blank continues the one before it; Tests has one test a
line, below tests/guest. "Guest: own" says that the mutant harms the kernel, so
that no other may come after it in the same guest.

This module reads them and judges how their tests went; it starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from harness.errors import KfabricError, SetupError

DIRECTORY = Path("tests/mutants")
TESTS = "tests/guest"
FIELDS = ("Breaks", "Rules", "Tests", "Guest")
REQUIRED = FIELDS[:3]
OWN_GUEST = "own"

Report = Mapping[str, object]
"""One test's phase as the guest tells it: test, when, outcome, text."""


class PatchError(SetupError):
    """A mutant's header is wrong."""

    label = "mutant"


@dataclass(frozen=True)
class Mutant:
    """One patch.

    :param name: its file's name without ``.patch``.
    :param breaks: what goes wrong.
    :param rules: of the contract, and entries of the catalogue of bugs.
    :param tests: node ids, relative to the checkout, of the tests that must notice.
    :param files: what it changes, relative to the checkout.
    :param spoils: the guest is of no use afterwards.
    """

    name: str
    patch: Path
    breaks: str
    rules: tuple[str, ...]
    tests: tuple[str, ...]
    files: tuple[str, ...]
    spoils: bool = False


def read(path: Path) -> Mutant:
    """Read one patch.

    :raises PatchError: a field is missing, unknown or empty.
    """
    text = path.read_text()
    fields = _header(path, text)
    return Mutant(
        name=path.stem,
        patch=path,
        breaks=" ".join(fields["Breaks"]),
        rules=tuple(rule for line in fields["Rules"] for rule in line.replace(",", " ").split()),
        tests=tuple(f"{TESTS}/{test}" for test in fields["Tests"]),
        files=_changed(text),
        spoils=fields.get("Guest") == [OWN_GUEST],
    )


def _header(path: Path, text: str) -> dict[str, list[str]]:
    """The fields before the diff: each a list of its lines."""
    fields: dict[str, list[str]] = {}
    key = ""
    for line in text.splitlines():
        if line.startswith("--- "):
            break
        if not line.strip() or line.startswith("#"):
            continue
        value = line
        if not line[0].isspace():
            key, _, value = line.partition(":")
            if key not in FIELDS or key in fields:
                raise PatchError(f"{path}: field {key!r} is unknown or there twice")
            fields[key] = []
        if value.strip():
            fields[key].append(value.strip())
    if missing := [name for name in REQUIRED if not fields.get(name)]:
        raise PatchError(f"{path}: no {', '.join(missing)}")
    return fields


def _changed(text: str) -> tuple[str, ...]:
    lines = (line.split()[1] for line in text.splitlines() if line.startswith("+++ "))
    return tuple(name.partition("/")[2] for name in lines)


def load(source: Path, patterns: Sequence[str] = ()) -> list[Mutant]:
    """The mutants of a checkout whose names match; for no patterns: all.

    Sorted by what they change, because a build then recompiles one file.

    :raises PatchError: a header is wrong, or a pattern matches none.
    """
    found = [read(path) for path in sorted((source / DIRECTORY).glob("*.patch"))]
    for pattern in patterns:
        if not any(fnmatchcase(mutant.name, pattern) for mutant in found):
            raise PatchError(f"no mutant is called {pattern}", f"see {DIRECTORY}")
    chosen = [
        mutant
        for mutant in found
        if not patterns or any(fnmatchcase(mutant.name, pattern) for pattern in patterns)
    ]
    return sorted(chosen, key=lambda mutant: (mutant.files, mutant.name))


class Verdict(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    """A test failed."""
    SURVIVED = "survived"
    """Its tests all passed: one is missing."""
    CRASHED = "crashed"
    """The guest went down or hung, and no test had said a word."""
    BROKEN = "broken"
    """It says nothing: it does not apply or build, or its tests could not run."""


@dataclass(frozen=True)
class Outcome:
    """A verdict with its reason.

    :param test: node id of the test that noticed.
    :param why: the failure's last line, or what went wrong.
    :param seconds: from giving it to a guest until the verdict.
    """

    mutant: Mutant
    verdict: Verdict
    test: str = ""
    why: str = ""
    seconds: float = 0.0


def judge(
    mutant: Mutant,
    reports: Sequence[Report],
    status: int | None,
    error: KfabricError | None = None,
    seconds: float = 0.0,
) -> Outcome:
    """Decide what the tests say of a mutant.

    A failure is one of the test itself or of what it left behind; if a test cannot
    even be set up, the mutant breaks too much to prove anything.

    :param reports: of the tests, in order.
    :param status: pytest's; None: the test process had to be ended.
    :param error: how the guest went down, if it did.
    """
    failed = [report for report in reports if report["outcome"] == "failed"]
    skipped = [report for report in reports if report["outcome"] == "skipped"]
    if failed:
        test, why = str(failed[0]["test"]), _last_line(str(failed[0]["text"]))
        if failed[0]["when"] == "setup":
            return Outcome(mutant, Verdict.BROKEN, test, f"set-up fails: {why}", seconds)
        return Outcome(mutant, Verdict.KILLED, test, why, seconds)
    if error:
        return Outcome(mutant, Verdict.CRASHED, why=error.line(), seconds=seconds)
    if status is None:
        return Outcome(mutant, Verdict.CRASHED, why="the tests got stuck", seconds=seconds)
    if status or not reports:
        return Outcome(mutant, Verdict.BROKEN, why=f"pytest ended with {status}", seconds=seconds)
    if len(skipped) == len(reports):
        test, why = str(skipped[0]["test"]), _last_line(str(skipped[0]["text"]))
        return Outcome(mutant, Verdict.BROKEN, test, f"skipped: {why}", seconds)
    return Outcome(mutant, Verdict.SURVIVED, why=f"{len(reports)} tests passed", seconds=seconds)


def _last_line(text: str) -> str:
    """The line of a failure that says most: pytest's last "E" line, else the last of all."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    said = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (said or lines or [""])[-1 if not said else 0]
