# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The list of mutants: reads their headers, and judges how their tests ended.

Each file of tests/mutants/ is a unified diff against the modules with a header of fields:

    Breaks: what goes wrong, and when
    Rules: V2, W2, B07
    Tests: test_wait_set.py::test_event_between_check_and_sleep_is_not_lost
    Guest: own

A line that begins with a blank continues the one before it; Tests has one test a line, below
tests/guest. "Guest: own" marks a mutant that harms the kernel, so that its guest is not used
again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from kfabric.errors import KfabricError, SetupError, UsageError, counted, near

DIRECTORY = Path("tests/mutants")
TESTS = "tests/guest"
FIELDS = ("Breaks", "Rules", "Tests", "Guest")
REQUIRED = FIELDS[:3]
OWN_GUEST = "own"

Report = Mapping[str, object]
"""One phase of a test as the guest reports it: test, when, outcome, text."""


class PatchError(SetupError):
    """A mutant's header is wrong."""

    label = "mutant"


class UnknownMutant(UsageError, label="no such mutant"):
    """No mutant has that name, or matches that pattern."""


@dataclass(frozen=True)
class Mutant:
    """One patch.

    Attributes:
        name: the name of its file without `.patch`.
        breaks: the effect, as its header describes it.
        rules: ids of rules and known bugs in docs/contract.md.
        tests: node ids, relative to the checkout, of the tests that must fail.
        files: the files that it changes, relative to the checkout.
        spoils: its guest must not be used again.
    """

    name: str
    patch: Path
    breaks: str
    rules: tuple[str, ...]
    tests: tuple[str, ...]
    files: tuple[str, ...]
    spoils: bool = False


def read(path: Path) -> Mutant:
    """Read one patch. Raises PatchError."""
    text = path.read_text()
    fields = _header(path, text)
    return Mutant(
        name=path.stem,
        patch=path,
        breaks=" ".join(fields["Breaks"]),
        rules=tuple(rule for line in fields["Rules"] for rule in line.replace(",", " ").split()),
        tests=tuple(f"{TESTS}/{test}" for test in fields["Tests"]),
        files=tuple(
            line.split()[1].partition("/")[2]
            for line in text.splitlines()
            if line.startswith("+++ ")
        ),
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


def load(source: Path, patterns: Sequence[str] = ()) -> list[Mutant]:
    """The mutants of a checkout whose names match; without patterns all.

    They are sorted by the files that they change, so that a build recompiles few files.

    Raises:
        PatchError: a header is wrong.
        UnknownMutant: a pattern matches no name.
    """
    found = [read(path) for path in sorted((source / DIRECTORY).glob("*.patch"))]
    for pattern in patterns:
        if not any(fnmatchcase(mutant.name, pattern) for mutant in found):
            names = [mutant.name for mutant in found]
            raise UnknownMutant(pattern, near(pattern, names, f"see {DIRECTORY}"))
    chosen = [
        mutant
        for mutant in found
        if not patterns or any(fnmatchcase(mutant.name, pattern) for pattern in patterns)
    ]
    return sorted(chosen, key=lambda mutant: (mutant.files, mutant.name))


class Verdict(Enum):
    """The result of a mutant."""

    KILLED = "killed"
    """A test failed."""
    SURVIVED = "survived"
    """All its tests passed: a test is missing."""
    CRASHED = "crashed"
    """The guest went down or hung before any test failed."""
    BROKEN = "broken"
    """It proves nothing: it does not apply or build, or its tests could not run."""
    EQUIVALENT = "equivalent"
    """No scenario killed it, and there is a reason why none can."""
    NOT_WAITING = "not about waiting"
    """Scenarios do not look at what it breaks."""

    @property
    def good(self) -> bool:
        """Whether nothing is left to do about the mutant."""
        return self in (Verdict.KILLED, Verdict.EQUIVALENT, Verdict.NOT_WAITING)


@dataclass(frozen=True)
class Outcome:
    """A verdict with its reason.

    Attributes:
        test: node id of the test that failed, or the scenario with a finding.
        why: the last line of the failure, the kind of the finding, or the error.
        seconds: from the start of the tests to the verdict.
        executions: that scenarios played.
    """

    mutant: Mutant
    verdict: Verdict
    test: str = ""
    why: str = ""
    seconds: float = 0.0
    executions: int = 0


def judge(
    mutant: Mutant,
    reports: Sequence[Report],
    status: int | None,
    error: KfabricError | None = None,
    seconds: float = 0.0,
) -> Outcome:
    """Judge a mutant by its tests.

    A test that fails in its call or its teardown kills the mutant; if the set-up of a test
    fails, the mutant breaks too much to prove anything.

    Args:
        mutant: the mutant.
        reports: of the tests, in order.
        status: that of pytest; None: the test process had to be killed.
        error: the end of the guest, if it went down.
        seconds: how long it took.
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
    return Outcome(
        mutant, Verdict.SURVIVED, why=f"{counted(len(reports), 'test')} passed", seconds=seconds
    )


def _last_line(text: str) -> str:
    """The first "E" line of pytest's text; the last line if there is none."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    return errors[0] if errors else (lines or [""])[-1]
