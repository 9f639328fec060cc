# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--ktap FILE``: writes the results in the kernel's KTAP format.

Each test file is a subtest. The output of a failed test (its traceback, the panic, the end
of the console) precedes its line. A guest that ended badly outside of any test is a result
of its own. Format: Documentation/dev-tools/ktap.rst.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kfabric.runner.outcome import Trouble

VERSION = "KTAP version 1"


@dataclass
class Result:
    """Result of one test; its worst phase counts."""

    name: str
    failed: bool = False
    directive: str = ""
    text: str = ""
    ended: bool = True

    def lines(self, number: int) -> list[str]:
        output = [f"# {line}".rstrip() for line in self.text.splitlines()]
        word = "not ok" if self.failed else "ok"
        directive = f" # {self.directive}" if self.directive else ""
        return [*output, f"{word} {number} {_plain(self.name)}{directive}"]


class Ktap:
    """Collects results and writes the file at the end.

    ``more`` returns the problems outside of any test; it is called at the end.
    """

    def __init__(self, path: Path, title: str, more: Callable[[], Iterable[Trouble]]) -> None:
        self._path = path
        self._title = title
        self._more = more
        self._files: dict[str, dict[str, Result]] = {}

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file whose tests cannot be collected."""
        if report.failed:
            result = Result("collection", True, "ERROR", report.longreprtext)
            self._files.setdefault(report.nodeid, {})[result.name] = result

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
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
            where = report.longrepr
            text = where[2] if isinstance(where, tuple) else str(where or "")
            reason = " ".join(text.removeprefix("Skipped: ").split())
            result.directive = f"SKIP {reason}".rstrip()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self) -> None:
        """Write the file, now that the guests' ends are known."""
        for results in self._files.values():
            for result in results.values():
                if not result.ended and not result.failed:
                    result.failed, result.directive = True, "ERROR did not end"
        more = [Result(one.name, True, f"ERROR {one.reason}", one.text) for one in self._more()]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(document(self._title, self._files, more))


def document(title: str, files: dict[str, dict[str, Result]], more: Sequence[Result] = ()) -> str:
    """The whole text, of results by name by file, and of results without a file."""
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
    """A name without characters that start a directive or a line."""
    return name.replace("#", "_").replace("\n", " ")
