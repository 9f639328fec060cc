# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Plugins that summarise a run: results, status of runs that tested nothing, wake-ups, soaks."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from kfabric import names
from kfabric.errors import ExitStatus, counted

GREEN = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
"""Statuses that a problem outside of the tests may replace."""

WHOLE = "run"
"""Name of a trouble that concerns no particular guest."""


@dataclass(frozen=True)
class Trouble:
    """A problem of a run that no test report shows."""

    name: str
    """A guest, or ``WHOLE``."""
    reason: str
    """In one line."""
    text: str
    """Details."""

    @property
    def title(self) -> str:
        whole = self.name == WHOLE
        return "the run broke off" if whole else "a guest ended badly, outside of any test"


COLLECTION, SESSION, END = "collection", "session", "end"
"""Phases that can fail besides a test's: of a file, of pytest itself, a test without an end."""


@dataclass
class Result:
    """Result of one test; its worst phase counts.

    Attributes:
        test: its name in pytest.
        failed: the phase that failed, or nothing.
        skipped: whether it was skipped, or failed as expected.
        expected: whether it is expected to fail.
        reason: why it was skipped or is expected to fail.
        text: the details of a failure.
        began: in seconds since 1970, by the host's clock; `None` if it did not run.
        seconds: how long it ran.
        ended: whether its last phase was reported.
    """

    test: str
    failed: str = ""
    skipped: bool = False
    expected: bool = False
    reason: str = ""
    text: str = ""
    began: float | None = None
    seconds: float = 0.0
    ended: bool = False

    def add(self, report: pytest.TestReport) -> None:
        """Take one phase into account."""
        self.seconds += report.duration
        self.ended = report.when == "teardown" or report.failed
        if report.failed:
            # After a test the guest is checked: a splat or a leak fails the teardown.
            self.failed = str(report.when)
            self.text = "\n".join(filter(None, [self.text, report.longreprtext]))
        elif hasattr(report, "wasxfail"):
            self.skipped, self.expected, self.reason = report.skipped, True, report.wasxfail
        elif report.skipped:
            self.skipped, self.reason = True, _skip_reason(report)

    @property
    def where(self) -> str:
        """Where it failed, in words; nothing if that was in the test itself."""
        words = {"": "", "call": "", END: "did not end"}
        return words.get(self.failed, f"in {self.failed}")


def _skip_reason(report: pytest.TestReport) -> str:
    """Why a test was skipped, in one line."""
    where = report.longrepr
    text = where[2] if isinstance(where, tuple) else str(where or "")
    return " ".join(text.removeprefix("Skipped: ").split())


Writer = Callable[[Sequence[Result], Sequence[Trouble]], None]
"""Writes a file with all results of a run."""


class Results:
    """Collects the results of a run, and has them written at its end.

    ``troubles`` returns the problems outside of any test; it is called at the end.
    """

    def __init__(
        self, troubles: Callable[[], Sequence[Trouble]], writers: Iterable[Writer]
    ) -> None:
        self._troubles = troubles
        self._writers = [*writers]
        self._results: dict[str, Result] = {}
        self._ended = False

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file whose tests cannot be collected."""
        if report.failed:
            text = report.longreprtext
            self._results[report.nodeid] = Result(report.nodeid, COLLECTION, text=text)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid not in self._results:
            began = time.time() - report.duration
            self._results[report.nodeid] = Result(report.nodeid, began=began)
        self._results[report.nodeid].add(report)

    @pytest.hookimpl
    def pytest_internalerror(self, excrepr: object) -> None:
        """Record that pytest itself failed, under the name that it has in JUnit."""
        self._results["pytest"] = Result("pytest::internal", SESSION, text=str(excrepr))

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        self._ended = True

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        """Write the files: the guests' ends are known, also if the session did not begin."""
        troubles = self._troubles()
        if not (self._ended or troubles):
            return
        results = [*self._results.values()]
        for result in results:
            if not (result.ended or result.failed):
                result.failed = END
        for write in self._writers:
            write(results, troubles)


class Outcome:
    """Fails a run in which every test was skipped: it looks green but proves nothing.

    Args:
        part: the run is a shard, of which that may be true; ``kfabric merge`` judges the whole.
    """

    def __init__(self, part: bool = False) -> None:
        self._part = part
        self._skipped = 0
        self._ran = 0

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped += 1
        elif report.when == "call" or report.failed:
            self._ran += 1

    @property
    def nothing_ran(self) -> bool:
        return self._skipped > 0 and self._ran == 0

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.nothing_ran and not self._part and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = ExitStatus.TEST_FAILED

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.nothing_ran:
            terminalreporter.write_line(
                f"kfabric: nothing was tested: {counted(self._skipped, 'test')} skipped, none run",
                red=True,
            )


class FailuresFirst:
    """Shows failures before errors: the objects that a failed test leaves behind are an error."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None]:
        errors, failures = terminalreporter.summary_errors, terminalreporter.summary_failures
        terminalreporter.summary_errors, terminalreporter.summary_failures = failures, errors
        return (yield)


class Broken:
    """Fails a run in which pytest itself broke, in this process or after a worker's last test.

    xdist ignores the latter: it has all reports that it waits for, and the status stays 0.
    """

    _broken = False

    @pytest.hookimpl
    def pytest_internalerror(self) -> None:
        self._broken = True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._broken and session.exitstatus in GREEN:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


class Watched:
    """Sums up the wake-ups that --verify-wakeups checked, and lists tests that it did not."""

    def __init__(self) -> None:
        self._waits: dict[str, int] = {}
        self._own: dict[str, int] = {}
        self._unwatched: dict[str, str] = {}
        self._partly: list[str] = []
        self._wrong: list[str] = []

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a test's numbers from the report of its call."""
        for name, value in report.user_properties:
            if name == names.WRONG and report.nodeid not in self._wrong:
                self._wrong.append(report.nodeid)
            if name == names.PARTLY and report.nodeid not in self._partly:
                self._partly.append(report.nodeid)
            if report.when == "call" and name == names.WAITS:
                self._waits[report.nodeid] = int(str(value))
            elif report.when == "call" and name == names.OWN_WAITS:
                self._own[report.nodeid] = self._own.get(report.nodeid, 0) + int(str(value))
            elif report.when == "call" and name == names.UNWATCHED:
                self._unwatched[report.nodeid] = str(value)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        right, own = self._right(self._waits), self._right(self._own)
        terminalreporter.write_line(f"kfabric: {_found_right(right)}{self._not_counted()}")
        if any(own) or (self._own and not self._wrong):
            terminalreporter.write_line(f"kfabric: {_own_waits(sum(own))}")
        for test, reason in self._unwatched.items():
            terminalreporter.write_line(f"kfabric: not watched: {test}: {reason}")
        if self._partly:
            terminalreporter.write_line(
                f"kfabric: not watched from where they unload the module: "
                f"{counted(len(self._partly), 'test')}: {', '.join(self._partly)}"
            )

    def _right(self, numbers: Mapping[str, int]) -> list[int]:
        """The numbers of the tests whose wake-ups had no fault and no gap."""
        return [number for test, number in numbers.items() if test not in self._wrong]

    def _not_counted(self) -> str:
        """The tests with findings, or without a verdict, as the end of the first line."""
        if not self._wrong:
            return ""
        tests = counted(len(self._wrong), "test")
        names = ", ".join(self._wrong)
        return f"; the waits of {tests} that failed by wake-ups are not counted: {names}"


def _found_right(waits: Sequence[int]) -> str:
    """How many waits were judged and found right, by test."""
    if not any(waits):
        return "no wait was found right"
    return (
        f"the wake-ups of {counted(sum(waits), 'wait')} in {counted(len(waits), 'test')} "
        "were found right"
    )


def _own_waits(count: int) -> str:
    """How many waits on the user's own queues were found right."""
    if count:
        verb = "was" if count == 1 else "were"
        return f"{count} of these waits {verb} on the queues of wakeups.toml"
    return (
        "no wait on the queues of wakeups.toml was judged: no test called its functions, "
        "or no thread waited there meanwhile"
    )


class Soaked:
    """Sums up a soak, round by round."""

    # Properties of a round's report; see tests/guest/test_soak.py.
    MESSAGES, FAULTS, ERRORS = "soak-messages", "soak-faults", "soak-errors"

    def __init__(self, record: Callable[[Mapping[str, str]], None] | None = None) -> None:
        self._record = record
        self._began = time.monotonic()
        self._rounds = 0
        self._found = 0
        self._messages = 0
        self._waits = 0
        self._faults: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._terminal: Any = None

    @pytest.hookimpl
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._terminal = session.config.pluginmanager.get_plugin("terminalreporter")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a round, and show the totals after its teardown."""
        self._found += report.failed
        properties: dict[str, Any] = dict(report.user_properties)
        if report.when == "call" and self.MESSAGES in properties:
            self._rounds += 1
            self._messages += int(properties[self.MESSAGES])
            self._waits += int(properties.get(names.WAITS, 0))
            self._faults.update(properties[self.FAULTS])
            self._errors.update(properties[self.ERRORS])
        if report.when == "teardown" and self._terminal is not None:
            self._terminal.write_line("")
            self._terminal.write_line(self.line())

    def line(self) -> str:
        return (
            f"soak: {self._minutes()} min, {counted(self._rounds, 'round')}: "
            f"{self._messages} messages, {self._waits} waits judged, "
            f"{self._faults.total()} faults ({_listed(self._faults)}), "
            f"errors reported: {_listed(self._errors)}; findings: {self._found}"
        )

    def cells(self) -> dict[str, str]:
        """The totals by their column in docs/results.md.

        A round reports its messages after it has seen that each was sent, reported and received
        once. A round that fails may have seen less.
        """
        return {
            "minutes": self._minutes(),
            "rounds": f"{self._rounds:,}",
            "messages": f"{self._messages:,}",
            "lost or doubled": "not known" if self._found else "none",
            "waits judged": f"{self._waits:,}",
            "faults": f"{self._faults.total():,} ({_listed(self._faults)})",
            "errors reported": _listed(self._errors),
            "findings": str(self._found),
        }

    def _minutes(self) -> str:
        return f"{(time.monotonic() - self._began) / 60:.0f}"

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(self.line(), bold=True)
        if self._record and self._rounds:
            self._record(self.cells())


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
