# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--ktap FILE``: the results in the kernel's own format, next to JUnit's.

One subtest for each file of tests; what a failed test says (its traceback, the panic, the
console's tail) stands before its line. A guest that ended badly when no test ran is a
result of its own. Format: Documentation/dev-tools/ktap.rst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.runner.outcome import Trouble

VERSION = "KTAP version 1"


@dataclass
class Result:
    """What came of one test; its worst phase counts."""

    name: str
    failed: bool = False
    directive: str = ""
    text: str = ""
    ended: bool = True

    def end(self) -> None:
        """It is too late for what was not told."""
        if not self.ended and not self.failed:
            self.failed, self.directive = True, "ERROR did not end"

    def lines(self, number: int) -> list[str]:
        """The result line, behind what explains it."""
        said = [f"# {line}".rstrip() for line in self.text.splitlines()]
        word = "not ok" if self.failed else "ok"
        directive = f" # {self.directive}" if self.directive else ""
        return [*said, f"{word} {number} {_plain(self.name)}{directive}"]


class Ktap:
    """Collects results and writes the file at the end.

    :param path: of the file.
    :param title: says what ran, e.g. with the kernel's release.
    :param more: what belongs to no test, asked for at the end.
    """

    def __init__(self, path: Path, title: str, more: Callable[[], Iterable[Trouble]]) -> None:
        self._path = path
        self._title = title
        self._more = more
        self._files: dict[str, dict[str, Result]] = {}

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take a file whose tests cannot be listed."""
        if report.failed:
            result = Result("collection", True, "ERROR", report.longreprtext)
            self._files.setdefault(report.nodeid, {})[result.name] = result

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take one phase of a test."""
        file, _, name = report.nodeid.partition("::")
        result = self._files.setdefault(file, {}).setdefault(name, Result(name))
        result.ended = report.when == "teardown" or report.failed
        if report.failed:
            result.failed = True
            result.directive = "" if report.when == "call" else f"ERROR in {report.when}"
            result.text += report.longreprtext
        elif hasattr(report, "wasxfail"):
            result.directive = f"XFAIL {report.wasxfail}".rstrip()
        elif report.skipped:
            result.directive = f"SKIP {_reason(report)}".rstrip()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self) -> None:
        """Write the file; by now the guests' ends are known."""
        for results in self._files.values():
            for result in results.values():
                result.end()
        more = [Result(one.name, True, f"ERROR {one.reason}", one.text) for one in self._more()]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(document(self._title, self._files, more))


def document(title: str, files: dict[str, dict[str, Result]], more: Sequence[Result] = ()) -> str:
    """The whole text.

    :param files: results by name, by file.
    :param more: those without a file.
    """
    lines = [VERSION, f"1..{len(files) + len(more)}", f"# {title}"]
    for number, (file, results) in enumerate(files.items(), 1):
        inner = [VERSION, f"# Subtest: {_plain(file)}", f"1..{len(results)}"]
        for count, result in enumerate(results.values(), 1):
            inner += result.lines(count)
        lines += [f"  {line}" for line in inner]
        lines += Result(file, any(result.failed for result in results.values())).lines(number)
    for number, result in enumerate(more, len(files) + 1):
        lines += result.lines(number)
    return "\n".join(lines) + "\n"


def _plain(name: str) -> str:
    """A name without what begins a directive, or another line."""
    return name.replace("#", "_").replace("\n", " ")


def _reason(report: pytest.TestReport) -> str:
    """Why a test was skipped, in one line."""
    where = report.longrepr
    said = where[2] if isinstance(where, tuple) else str(where or "")
    return " ".join(said.removeprefix("Skipped: ").split())
