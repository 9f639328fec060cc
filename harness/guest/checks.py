# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The checks of every test in a guest, apart from its own assertions.

A kernel report during a test fails it, and so does anything that it leaves behind. Leaked
memory fails the last test of a file, on kernels that can find leaks. After such a failure
the guest runs no other test. The pytest plugin uses this in a guest's test process.
"""

import contextlib
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kfabric.guest import kmsg, leaks, phases
from kfabric.guest.memleak import MemoryWatch
from kfabric.guest.retirement import Retirement
from kfabric.guest.waiting import DeadlineExpired, patience, wait_until
from kfabric.names import SUSPECTS
from kfabric.splats import splats

TAINTED = Path("/proc/sys/kernel/tainted")
# The other bits only show which modules are loaded.
TAINTS = {4: "machine check", 5: "bad page", 7: "oops", 9: "warning", 14: "soft lockup"}
# Another CPU may still be writing a report when its first line is read.
REPORT_SECONDS = 1.0
REPORT_END = "---[ end "
LOG_LINES = 100
"""How many lines of the kernel log a failure has."""


class KernelWatch:
    """Finds the kernel's reports and taints since the last look."""

    def __init__(self) -> None:
        self._log = kmsg.KernelLog()
        self._taint = _taint()

    def complaints(self) -> list[str]:
        """Return the kernel's new reports and taints since the last call, as texts."""
        text = self._read()
        found = splats(text)
        if found and REPORT_END not in text:
            text += self._rest_of_report()
            found = splats(text)
        taint = _taint()
        new, self._taint = taint & ~self._taint, taint
        if found:
            return [*map(str, found)]
        return [f"kernel tainted: {name}" for bit, name in TAINTS.items() if new >> bit & 1]

    def close(self) -> None:
        """Stop watching."""
        self._log.close()

    def _read(self) -> str:
        try:
            # Processes write lines, too, such as our own markers.
            return "\n".join(str(line) for line in self._log.new() if line.from_kernel) + "\n"
        except kmsg.LogOverrun as overrun:
            return f"BUG: {overrun}\n"

    def _rest_of_report(self) -> str:
        rest: list[str] = []

        def complete() -> bool:
            rest.append(self._read())
            return REPORT_END in rest[-1]

        # Some reports have no end mark.
        with contextlib.suppress(DeadlineExpired):
            wait_until(complete, "the end of the kernel's report", REPORT_SECONDS)
        return "".join(rest)


def _taint() -> int:
    return int(TAINTED.read_text())


class GuestChecks:
    """The plugin's part in a guest's test process.

    Args:
        retirement: Its harm() is called after a failed check.
    """

    def __init__(self, retirement: Retirement) -> None:
        self._retirement = retirement
        self._memory = MemoryWatch()
        self._watch = KernelWatch()
        self._before: deque[str] = deque(maxlen=SUSPECTS)

    @pytest.fixture(autouse=True)
    def _nothing_left_behind(self) -> Iterator[None]:
        """Fail a test after which there are more kernel objects than before.

        As an autouse fixture of function scope it is set up after the fixtures of wider
        scope, whose objects may stay, and torn down last in its own scope.
        """
        before = leaks.take()
        yield
        if left := leaks.since(before):
            self._retirement.harm()
            pytest.fail("left behind: " + "; ".join(left), pytrace=False)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: Sequence[pytest.Item]
    ) -> None:
        """Give each test more time on a slow kernel."""
        if patience(1.0) == 1.0:
            return
        for item in items:
            mark = item.get_closest_marker("timeout")
            own = mark.args[0] if mark and mark.args else config.getoption("timeout", None)
            if own:
                item.add_marker(pytest.mark.timeout(patience(own)), append=False)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write the test's name into the kernel log, and so on the console."""
        kmsg.mark(f"kfabric test: {nodeid}")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Remember the test: it may be the cause of a later report."""
        self._before.append(nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Fail the phase (set-up, call, teardown) in which the kernel wrote a report.

        Leftovers are reported in a teardown, which an expected failure does not cover.
        """
        report: pytest.TestReport = yield
        if report.when == "teardown" and report.__dict__.pop("wasxfail", None) is not None:
            report.outcome = "failed"
        if complaints := self._watch.complaints():
            self._retirement.harm()
            if self._before:
                names = ", ".join(self._before)
                complaints.append(f"these had run before, and may be the cause: {names}")
            phases.fail(report, "kernel", complaints)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Fail the last test of a file if memory was leaked since the last search.

        A search takes long, so not every file ends with one; but a test that harmed the guest
        does, since no other test follows.
        """
        return (yield from phases.then(lambda: self._leaked(item, nextitem)))

    def _leaked(self, item: pytest.Item, nextitem: pytest.Item | None) -> str:
        """The leaks that a search after a test finds, if a search is due."""
        ends = nextitem is None or self._retirement.harmed
        if not (nextitem is None or ends or (nextitem.path != item.path and self._memory.due())):
            return ""
        found = self._memory.leaks(settle=ends)
        if not found:
            return ""
        self._retirement.harm()
        lines = "\n".join(leak.line() for leak in found)
        texts = "\n\n".join(leak.text for leak in found)
        return f"memory leaked since the last search:\n{lines}\n\n{texts}"

    def pytest_unconfigure(self) -> None:
        """Close the log."""
        self._watch.close()


class LogOfFailures:
    """Adds to a failure the kernel log since its test began, or since an earlier failure of it."""

    def __init__(self) -> None:
        self._log = kmsg.KernelLog()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logstart(self) -> None:
        """Begin after the test's name, which GuestChecks writes."""
        self._log.skip()

    # The outermost: the checks may fail a phase, too.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Add the lines to the report of a failed phase."""
        report: pytest.TestReport = yield
        if report.failed and (lines := self._lines()):
            left_out = len(lines) - LOG_LINES
            if left_out > 0:
                lines[:left_out] = [f"({left_out} earlier lines are left out)"]
            phases.add(report, "kernel log during the test", "\n".join(lines))
        return report

    def _lines(self) -> list[str]:
        lines: list[str] = []
        # After an overrun the reader is at the oldest record that is left.
        for _ in range(2):
            try:
                return [*lines, *map(str, self._log.new())]
            except kmsg.LogOverrun as overrun:
                lines = [f"({overrun})"]
        return lines

    def pytest_unconfigure(self) -> None:
        """Close the log."""
        self._log.close()
