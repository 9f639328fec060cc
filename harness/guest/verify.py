# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--verify-wakeups``: records every test in the guest, and judges its wake-ups.

A test fails, whatever its assertions, if the verdict has any finding except overtaken, and
if the probe lost events. A test that makes such faults on purpose has a mark::

    @pytest.mark.wrong_wakeups("lost", reason="the fault point swallows one")

The faults must then be found (faults in ``may=`` need not be). A test that cannot be
recorded has ``@pytest.mark.unwatched(reason=...)``; the end of the run lists such tests.
It also lists the tests that unloaded the module: the probe detaches then, and the rest
of such a test is judged only where a block attaches the probe again.
"""

import signal
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self

import pytest

from kfabric import names
from kfabric.guest import phases
from kfabric.guest.evidence import Case, examine, leave
from kfabric.guest.session import Session
from kfabric.probes.recorder import Cut
from kfabric.verdict.kinds import Finding, Kind, Rules

WRONG, UNWATCHED = "wrong_wakeups", "unwatched"
NOT_VERIFIED = "not verified"
WORDS = frozenset({kind.value for kind in Kind if kind is not Kind.OVERTAKEN} | {NOT_VERIFIED})


@dataclass(frozen=True)
class Expected:
    """The faults that a test makes on purpose: those that must be found, and that may be."""

    must: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()

    @classmethod
    def of(cls, item: pytest.Item) -> Self:
        """Read a test's marks. Raises UsageError for an unknown fault."""
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
        """The unexpected findings, in words."""
        allowed = self.must | self.may
        wrong = [finding for finding in findings if finding.kind.value not in allowed]
        doubted = bool(case.verdict.doubts) and NOT_VERIFIED not in allowed
        return [case.text(wrong)] if wrong or doubted else []

    def missing(self, cases: Iterable[Case]) -> list[str]:
        """The expected faults that were not found, in words."""
        found: set[str] = set()
        for case in cases:
            found |= {finding.kind.value for finding in case.verdict.findings}
            found |= {NOT_VERIFIED} if case.verdict.doubts else set()
        return [
            f"the test says that it makes this fault, and it was not found: {word}"
            for word in sorted(self.must - found)
        ]


@contextmanager
def clock_stopped() -> Iterator[None]:
    """Stop the test's time limit, since judging takes a while."""
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left, interval)


class Witness(Protocol):
    """Records waits on other queues than kfabric's: kfabric.trace.blocks.Witness."""

    def load(self) -> None:
        """Load what records. Raises ProbeError."""

    def begin(self) -> None:
        """Begin to record a test."""

    def judge(self) -> Case | None:
        """Judge the test so far; a fault is reported once. None: it is not recorded."""

    def drop(self) -> None:
        """Forget the recording."""


class VerifyWakeups:
    """The plugin's part in a guest that judges each test's wake-ups.

    Args:
        session: Has the probe on kfabric.
        witness: Records the user's own queues, if there are any.
    """

    def __init__(self, session: Session, witness: Witness | None = None) -> None:
        self._session = session
        self._witness = witness
        self._cut: Cut | None = None
        self._reported: set[Finding] = set()
        self._failed = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse invalid marks before anything runs."""
        for item in items:
            Expected.of(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Load the probe before the first test, outside of its time limit."""
        if session.items and not session.config.option.collectonly:
            self._session.recorder()
            if self._witness:
                self._witness.load()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Start to record before the fixtures."""
        self._drop()
        if mark := item.get_closest_marker(UNWATCHED):
            self._session.detach()
            item.user_properties.append((names.UNWATCHED, mark.kwargs["reason"]))
            return
        self._cut = self._session.recorder().cut()
        if self._witness:
            self._witness.begin()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        """Fail the phase (call, teardown) whose wake-ups went wrong."""
        report: pytest.TestReport = yield
        skipped = report.outcome == "skipped" and not hasattr(report, "wasxfail")
        if self._cut is not None and call.when != "setup" and not skipped:
            with clock_stopped():
                self._judge(item, report, self._cut)
            if self._cut.blind:
                report.user_properties.append((names.PARTLY, True))
        if call.when == "teardown":
            self._drop()
        return report

    def _judge(self, item: pytest.Item, report: pytest.TestReport, cut: Cut) -> None:
        """Judge the whole test up to now; report each finding once."""
        cases = list(self._cases(report, cut))
        expected = Expected.of(item)
        complaints: list[str] = []
        for case in [] if self._failed else cases:
            if found := expected.complaints(case, self._new(case)):
                complaints += [*found, f"trace: {leave(case, item.nodeid)}"]
        if report.when == "call":
            if missing := expected.missing(cases):
                complaints += [*missing, f"trace: {leave(cases[0], item.nodeid)}"]
            waits = sum(case.verdict.right for case in cases)
            item.user_properties.append((names.WAITS, waits))
            for case in cases[1:]:
                item.user_properties.append((names.OWN_WAITS, case.verdict.right))
            report.user_properties = list(item.user_properties)
        if complaints:
            report.user_properties.append((names.WRONG, True))
            self._failed = True
            phases.fail(report, "wake-ups", complaints)

    def _cases(self, report: pytest.TestReport, cut: Cut) -> Iterator[Case]:
        """The recordings of the test up to now, judged: kfabric's, then the user's."""
        if report.when == "call" or cut.news():
            # A probe that was detached stays so: in the middle of a wait it would see a part.
            yield examine(cut.recorder, cut.look(), Rules(since=cut.t_begin))
        if self._witness and (case := self._witness.judge()):
            yield case

    def _new(self, case: Case) -> list[Finding]:
        """The findings that were not reported for this test."""
        new = [finding for finding in case.verdict.findings if finding not in self._reported]
        self._reported.update(new)
        return new

    def _drop(self) -> None:
        if self._witness:
            self._witness.drop()
        if self._cut is not None:
            self._cut.drop()
        self._cut = None
        self._reported = set()
        self._failed = False
