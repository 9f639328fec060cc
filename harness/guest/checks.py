# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a test in a guest must pass besides its own assertions.

A kernel splat while it ran fails it, and so does whatever it left behind; memory
that is lost fails the last test of a file, where the kernel can find it. A guest with
which something is wrong is not for the next test. Used by the pytest plugin, in test
processes that run in a guest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.guest import kmsg, leaks, phases
from harness.guest.memleak import MemoryWatch
from harness.guest.retirement import Retirement
from harness.guest.waiting import DeadlineExpired, patience, wait_until
from harness.names import SUSPECTS
from harness.splats import splats

TAINTED = Path("/proc/sys/kernel/tainted")
# Machine check, bad page, oops, warning, soft lockup; the others say what is loaded.
TAINTS = {4: "machine check", 5: "bad page", 7: "oops", 9: "warning", 14: "soft lockup"}
# A report may still be on its way, from another CPU, when its first line is read.
REPORT_SECONDS = 1.0
REPORT_END = "---[ end "


class KernelWatch:
    """Tells what the kernel complained about since it was last asked."""

    def __init__(self) -> None:
        """Start to watch now."""
        self._log = kmsg.KernelLog()
        self._taint = _taint()

    def complaints(self) -> list[str]:
        """Return the kernel's reports and new taints since the last call, as texts."""
        text = self._read()
        found = splats(text)
        if found and REPORT_END not in text:
            text += self._rest_of_report()
            found = splats(text)
        return [*map(str, found), *self._new_taints(bool(found))]

    def close(self) -> None:
        """Stop watching."""
        self._log.close()

    def _read(self) -> str:
        try:
            # Lines that processes wrote, such as our own markers, prove nothing.
            return "\n".join(str(line) for line in self._log.new() if line.from_kernel) + "\n"
        except kmsg.LogOverrun as overrun:
            return f"BUG: {overrun}\n"

    def _rest_of_report(self) -> str:
        rest: list[str] = []

        def complete() -> bool:
            rest.append(self._read())
            return REPORT_END in rest[-1]

        try:
            wait_until(complete, "the end of the kernel's report", REPORT_SECONDS)
        except DeadlineExpired:
            pass  # some reports have no end mark
        return "".join(rest)

    def _new_taints(self, explained: bool) -> list[str]:
        taint = _taint()
        new, self._taint = taint & ~self._taint, taint
        if explained:
            return []
        return [f"kernel tainted: {name}" for bit, name in TAINTS.items() if new >> bit & 1]


def _taint() -> int:
    return int(TAINTED.read_text())


class GuestChecks:
    """The plugin's part in a test process that runs in a guest.

    :param retirement: is told of a test that left the guest other than it was.
    """

    def __init__(self, retirement: Retirement) -> None:
        """Start to watch the kernel's log and memory now."""
        self._retirement = retirement
        self._memory = MemoryWatch()
        self._watch = KernelWatch()
        self._before: deque[str] = deque(maxlen=SUSPECTS)

    @pytest.fixture(autouse=True)
    def _nothing_left_behind(self) -> Iterator[None]:
        """Fail a test after which there are more kernel objects than before.

        As an autouse fixture of function scope it is set up behind the fixtures of
        wider scope, whose objects are meant to stay, and torn down last of its own.
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
        """Give each test more time where all is slow."""
        if patience(1.0) == 1.0:
            return
        for item in items:
            mark = item.get_closest_marker("timeout")
            own = mark.args[0] if mark and mark.args else config.getoption("timeout", None)
            if own:
                item.add_marker(pytest.mark.timeout(patience(own)), append=False)

    @pytest.hookimpl
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Let the kernel log, and so the console, tell what was running."""
        kmsg.mark(f"kfabric test: {nodeid}")

    @pytest.hookimpl
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Remember who may have left what the kernel finds later."""
        self._before.append(nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Fail the phase (set-up, call, teardown) in which the kernel complained.

        What was left behind is told in a teardown, and an expected failure does not expect it.
        """
        report: pytest.TestReport = yield
        if report.when == "teardown" and report.__dict__.pop("wasxfail", None) is not None:
            report.outcome = "failed"
        if complaints := self._watch.complaints():
            self._retirement.harm()
            if self._before:
                names = ", ".join(self._before)
                complaints.append(f"these had run before, and may be the cause: {names}")
            _fail(report, complaints)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Fail the last test of a file when the kernel's memory was leaked since the last search.

        A search takes long, so there is none after every test, nor after every file; but one
        behind a test that harmed the guest, which ends with it.
        """
        return (yield from phases.then(lambda: self._leaked(item, nextitem)))

    def _leaked(self, item: pytest.Item, nextitem: pytest.Item | None) -> str:
        """What the search behind a test has found, if it is time for one."""
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

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        """Close the log."""
        self._watch.close()


def _fail(report: pytest.TestReport, complaints: list[str]) -> None:
    text = "\n".join(complaints)
    if report.outcome == "failed":
        report.sections.append(("kernel", text))
        return
    report.outcome = "failed"
    report.longrepr = text
    # An expected failure does not expect this one.
    report.__dict__.pop("wasxfail", None)
