# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--verify-wakeups``: every test in the guest is recorded, and its wake-ups judged.

A test in which a wait was lost, was ended by its deadline although its object was
ready, or was woken for nothing fails, whatever its assertions say; so does one of
which the probe lost something. A test that makes such faults says so::

    @pytest.mark.wrong_wakeups("lost", reason="the fault point swallows one")

and then they must be found (``may=`` names those that need not be). One that cannot
be watched says ``@pytest.mark.unwatched(reason=...)``, and the run's end tells it.
It also tells which tests have unloaded the module: the probe lets go of it then, and
what follows in the same test is judged only where a block attaches it again.
"""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from harness import names
from harness.guest.evidence import Case, examine, leave
from harness.guest.session import Session
from harness.probes.recorder import Cut
from harness.verdict.kinds import Finding, Kind, Rules

WRONG, UNWATCHED = "wrong_wakeups", "unwatched"
NOT_VERIFIED = "not verified"
WORDS = frozenset({kind.value for kind in Kind if kind is not Kind.OVERTAKEN} | {NOT_VERIFIED})


@dataclass(frozen=True)
class Expected:
    """The faults that a test makes on purpose."""

    must: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()

    @classmethod
    def of(cls, item: pytest.Item) -> Expected:
        """Read a test's marks. Raises UsageError for a fault that there is not."""
        must: set[str] = set()
        may: set[str] = set()
        for mark in item.iter_markers(WRONG):
            must |= set(mark.args)
            more = mark.kwargs.get("may", ())
            may |= {more} if isinstance(more, str) else set(more)
            if not mark.kwargs.get("reason"):
                raise pytest.UsageError(f"{item.nodeid}: {WRONG} needs a reason")
        if strange := (must | may) - WORDS:
            raise pytest.UsageError(
                f"{item.nodeid}: no such fault: {', '.join(sorted(strange))}; "
                f"there are {', '.join(sorted(WORDS))}"
            )
        return cls(frozenset(must), frozenset(may))

    def complaints(self, case: Case, findings: Iterable[Finding]) -> list[str]:
        """What was found and not expected, in words."""
        allowed = self.must | self.may
        wrong = [finding for finding in findings if finding.kind.value not in allowed]
        doubted = bool(case.verdict.doubts) and NOT_VERIFIED not in allowed
        return [case.text(wrong)] if wrong or doubted else []

    def missing(self, case: Case) -> list[str]:
        """What was expected and not found, in words."""
        found = {finding.kind.value for finding in case.verdict.findings}
        if case.verdict.doubts:
            found.add(NOT_VERIFIED)
        return [
            f"the test says that it makes this fault, and it was not found: {word}"
            for word in sorted(self.must - found)
        ]


@contextmanager
def _clock_stopped() -> Iterator[None]:
    """Judging takes a while, which is no part of the test's time limit."""
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left, interval)


class VerifyWakeups:
    """The plugin's part in a guest that judges each test's wake-ups."""

    def __init__(self, session: Session) -> None:
        """Share a process's session."""
        self._session = session
        self._cut: Cut | None = None
        self._told: set[Finding] = set()
        self._failed = False

    @pytest.hookimpl
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse marks that mean nothing, before anything runs."""
        for item in items:
            Expected.of(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Load the probe before the first test, whose time limit it is not part of."""
        if session.items and not session.config.option.collectonly:
            self._session.recorder()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin to record, before fixtures do anything."""
        self._drop()
        if mark := item.get_closest_marker(UNWATCHED):
            self._session.detach()
            item.user_properties.append((names.UNWATCHED, mark.kwargs["reason"]))
            return
        self._cut = self._session.recorder().cut()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        """Fail the phase (call, teardown) whose wake-ups went wrong."""
        report: pytest.TestReport = yield
        skipped = report.outcome == "skipped" and not hasattr(report, "wasxfail")
        if self._cut is not None and call.when != "setup" and not skipped:
            with _clock_stopped():
                self._judge(item, report, self._cut)
            if self._cut.blind:
                report.user_properties.append((names.PARTLY, True))
        if call.when == "teardown":
            self._drop()
        return report

    def _judge(self, item: pytest.Item, report: pytest.TestReport, cut: Cut) -> None:
        """Judge all of the test up to now; say each thing once."""
        if report.when == "teardown" and not cut.news():
            return
        rules = Rules(since=cut.t_begin)
        case = examine(self._session.recorder(), cut.look(), rules)
        new = [finding for finding in case.verdict.findings if finding not in self._told]
        self._told.update(new)
        expected = Expected.of(item)
        complaints = [] if self._failed else expected.complaints(case, new)
        if report.when == "call":
            complaints += expected.missing(case)
            item.user_properties.append((names.WAITS, case.verdict.matched))
            report.user_properties = list(item.user_properties)
        if complaints:
            directory = leave(case, item.nodeid)
            self._fail(report, [*complaints, f"trace: {directory}"])

    def _fail(self, report: pytest.TestReport, complaints: list[str]) -> None:
        self._failed = True
        text = "\n".join(complaints)
        if report.outcome == "failed":
            report.sections.append(("wake-ups", text))
            return
        report.outcome = "failed"
        report.longrepr = text
        # An expected failure does not expect this one.
        report.__dict__.pop("wasxfail", None)

    def _drop(self) -> None:
        """Forget the last test."""
        if self._cut is not None:
            self._cut.drop()
        self._cut = None
        self._told = set()
        self._failed = False
