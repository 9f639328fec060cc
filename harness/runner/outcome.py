# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Exit status of a run in which nothing was tested or pytest broke; what a run comes to."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from harness import names
from harness.errors import ExitStatus

GREEN = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
"""What a status is before somebody finds fault with more than the tests."""

WHOLE = "run"
"""What is in trouble if not a certain guest is."""


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a run though no test's report tells."""

    name: str
    """What it is wrong with: a guest, or the run as a whole (``WHOLE``)."""
    reason: str
    """In one line."""
    text: str
    """What else there is to read."""

    @property
    def title(self) -> str:
        """What kind of trouble it is."""
        whole = self.name == WHOLE
        return "not all tests ran" if whole else "a guest ended badly, outside of any test"


class Outcome:
    """Turns a run in which every test was skipped into a failed one.

    Such a run looks green, and says nothing.
    """

    def __init__(self) -> None:
        """Count nothing yet."""
        self._skipped = 0
        self._ran = 0

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what ran and what did not."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped += 1
        elif report.when == "call" or report.failed:
            self._ran += 1

    @property
    def nothing_ran(self) -> bool:
        """Whether there were tests, and none of them ran."""
        return self._skipped > 0 and self._ran == 0

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail such a run."""
        if self.nothing_ran and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = ExitStatus.TEST_FAILED

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say why the run failed."""
        if self.nothing_ran:
            terminalreporter.write_line(
                f"kfabric: all {self._skipped} tests were skipped: nothing was tested", red=True
            )


class Broken:
    """Fails a run in which pytest itself broke, in this process or in a worker's last test.

    xdist forgets the latter: it has all reports that it waits for, and the status stays 0.
    """

    def __init__(self) -> None:
        """Nothing is."""
        self._broken = False

    @pytest.hookimpl
    def pytest_internalerror(self) -> None:
        """Remember it."""
        self._broken = True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail such a run."""
        if self._broken and session.exitstatus in GREEN:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


class Watched:
    """Sums up what --verify-wakeups has judged, and names what it has not."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._tests = 0
        self._waits = 0
        self._unwatched: dict[str, str] = {}
        self._partly: list[str] = []

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a test's numbers from the report of its call."""
        for name, value in report.user_properties:
            if name == names.PARTLY and report.nodeid not in self._partly:
                self._partly.append(report.nodeid)
            if report.when != "call":
                continue
            if name == names.WAITS:
                self._tests += 1
                self._waits += int(str(value))
            elif name == names.UNWATCHED:
                self._unwatched[report.nodeid] = str(value)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell how much the verdicts rest on."""
        terminalreporter.write_line(
            f"kfabric: the wake-ups of {self._waits} waits in {self._tests} tests were judged"
        )
        for test, reason in self._unwatched.items():
            terminalreporter.write_line(f"kfabric: not watched: {test}: {reason}")
        if self._partly:
            terminalreporter.write_line(
                f"kfabric: not watched from where they unload the module: "
                f"{len(self._partly)} tests: {', '.join(self._partly)}"
            )


class Soaked:
    """Sums up a soak, round by round: what was done, and what came of it."""

    # Properties of a round's report; see tests/guest/test_soak.py.
    MESSAGES, FAULTS, ERRORS = "soak-messages", "soak-faults", "soak-errors"

    def __init__(self) -> None:
        """Nothing yet."""
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
        """Remember where to write."""
        self._terminal = session.config.pluginmanager.get_plugin("terminalreporter")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a round, and tell where we are once it has left nothing."""
        if report.failed:
            self._found += 1
        if report.when == "call":
            told = dict(report.user_properties)
            if self.MESSAGES in told:
                self._add(told)
        if report.when == "teardown" and self._terminal is not None:
            self._terminal.write_line("")
            self._terminal.write_line(self.line())

    def _add(self, told: dict[str, Any]) -> None:
        self._rounds += 1
        self._messages += int(told[self.MESSAGES])
        self._waits += int(told.get(names.WAITS, 0))
        self._faults.update(told[self.FAULTS])
        self._errors.update(told[self.ERRORS])

    def line(self) -> str:
        """All so far, in one line."""
        minutes = (time.monotonic() - self._began) / 60
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self._faults.items()))
        errors = ", ".join(f"{name} {count}" for name, count in sorted(self._errors.items()))
        return (
            f"soak: {minutes:.0f} min, {self._rounds} rounds: {self._messages} messages, "
            f"{self._waits} waits judged, {self._faults.total()} faults ({kinds or 'none'}), "
            f"errors reported: {errors or 'none'}; findings: {self._found}"
        )

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell the totals."""
        terminalreporter.write_line(self.line(), bold=True)
