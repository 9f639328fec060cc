# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--ktap FILE``: writes the results in the kernel's KTAP format.

Each test file is a subtest. The output of a failed test (its traceback, the panic, the end
of the console) precedes its line. A guest that ended badly outside of any test is a result
of its own. Format: Documentation/dev-tools/ktap.rst.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kfabric.runner.outcome import COLLECTION, Result, Trouble

VERSION = "KTAP version 1"
_RESULT = re.compile(r"(not )?ok \d+ (.*?)(?: # (.*))?")


@dataclass
class Line:
    """A line of results, with the output that precedes it."""

    name: str
    failed: bool = False
    directive: str = ""
    text: str = ""

    def lines(self, number: int) -> list[str]:
        output = [f"# {line}".rstrip() for line in self.text.splitlines()]
        word = "not ok" if self.failed else "ok"
        directive = f" # {self.directive}" if self.directive else ""
        return [*output, f"{word} {number} {_plain(self.name)}{directive}"]


Files = dict[str, dict[str, Line]]
"""Lines by the name of their test, by file."""


def write(path: Path, title: str, results: Iterable[Result], troubles: Iterable[Trouble]) -> None:
    files: Files = {}
    for result in results:
        file, _, name = result.test.partition("::")
        line = Line(name or COLLECTION, bool(result.failed), _directive(result), result.text)
        files.setdefault(file, {})[line.name] = line
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document(title, files, [*map(of_trouble, troubles)]))


def _directive(result: Result) -> str:
    if result.failed:
        return f"ERROR {result.where}" if result.where else ""
    kind = "XFAIL" if result.expected else "SKIP" if result.skipped else ""
    return f"{kind} {result.reason}".strip()


def of_trouble(trouble: Trouble) -> Line:
    """A problem outside of any test."""
    return Line(trouble.name, True, f"ERROR {trouble.reason}", trouble.text)


def document(title: str, files: Files, more: Sequence[Line] = ()) -> str:
    """The whole text, of results by name by file, and of results without a file."""
    lines = [VERSION, f"1..{len(files) + len(more)}", f"# {title}"]
    for number, (file, results) in enumerate(files.items(), 1):
        inner = [VERSION, f"# Subtest: {_plain(file)}", f"1..{len(results)}"]
        for count, result in enumerate(results.values(), 1):
            inner += result.lines(count)
        lines += [f"  {line}" for line in inner]
        lines += Line(file, any(result.failed for result in results.values())).lines(number)
    for number, result in enumerate(more, len(files) + 1):
        lines += result.lines(number)
    return "\n".join(lines) + "\n"


def read(text: str) -> tuple[str, Files, list[Line]]:
    """What :func:`document` has written: the title, results by file, results without a file.

    Raises:
        ValueError: the text has no title.
    """
    head, plan, title, *lines = text.split("\n")
    if head != VERSION or not plan.startswith("1..") or not title.startswith("# "):
        raise ValueError("it is not KTAP as kfabric writes it")
    files: Files = {}
    more: list[Line] = []
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
            result = Line(match[2], bool(match[1]), match[3] or "", "\n".join(output))
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
