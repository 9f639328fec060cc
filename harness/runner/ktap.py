# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--ktap FILE``: writes the results in the kernel's KTAP format.

Each test file is a subtest. The output of a failed test (its traceback, the panic, the end
of the console) precedes its line. A guest that ended badly outside of any test is a result
of its own. Format: Documentation/dev-tools/ktap.rst.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kfabric.runner.outcome import Trouble

VERSION = "KTAP version 1"
_RESULT = re.compile(r"(not )?ok \d+ (.*?)(?: # (.*))?")


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


Files = dict[str, dict[str, Result]]
"""Results by their name, by file."""


class Ktap:
    """Collects results and writes the file at the end.

    ``more`` returns the problems outside of any test; it is called at the end.
    """

    def __init__(self, path: Path, title: str, more: Callable[[], Iterable[Trouble]]) -> None:
        self._path = path
        self._title = title
        self._more = more
        self._files: Files = {}

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
            result.text += f"{report.longreprtext}\n"
        elif hasattr(report, "wasxfail"):
            result.directive = f"XFAIL {report.wasxfail}".rstrip()
        elif report.skipped:
            result.directive = f"SKIP {skip_reason(report)}".rstrip()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self) -> None:
        """Write the file, now that the guests' ends are known."""
        for results in self._files.values():
            for result in results.values():
                if not result.ended and not result.failed:
                    result.failed, result.directive = True, "ERROR did not end"
        more = [of_trouble(one) for one in self._more()]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(document(self._title, self._files, more))


def of_trouble(trouble: Trouble) -> Result:
    """A problem outside of any test."""
    return Result(trouble.name, True, f"ERROR {trouble.reason}", trouble.text)


def skip_reason(report: pytest.TestReport) -> str:
    """Why a test was skipped, in one line."""
    where = report.longrepr
    text = where[2] if isinstance(where, tuple) else str(where or "")
    return " ".join(text.removeprefix("Skipped: ").split())


def document(title: str, files: Files, more: Sequence[Result] = ()) -> str:
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


def read(text: str) -> tuple[str, Files, list[Result]]:
    """What :func:`document` has written: the title, results by file, results without a file.

    Raises:
        ValueError: the text has no title.
    """
    head, plan, title, *lines = text.split("\n")
    if head != VERSION or not plan.startswith("1..") or not title.startswith("# "):
        raise ValueError("it is not KTAP as kfabric writes it")
    files: Files = {}
    more: list[Result] = []
    output: list[str] = []
    file, before = "", ""
    for line in lines:
        word = line.removeprefix("  ")
        if before == VERSION:
            file = word.removeprefix("# Subtest: ")
            files[file] = {}
        elif word.startswith("#"):
            output.append(word[2:])
        elif match := _RESULT.fullmatch(word):
            result = Result(match[2], bool(match[1]), match[3] or "", "\n".join(output))
            output = []
            if word != line:
                files[file][result.name] = result
            elif file:
                file = ""  # the sum of its tests
            else:
                more.append(result)
        before = word
    return title[2:], files, more


def _plain(name: str) -> str:
    """A name without characters that start a directive or a line."""
    return name.replace("#", "_").replace("\n", " ")
