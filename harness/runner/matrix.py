# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The table of test results by kernel and test file, from pytest's JUnit files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from rich import box
from rich.table import Table
from rich.text import Text

from kfabric.runner import junit
from kfabric.runner.outcome import WHOLE

SUMMARY = "all"


class Cell(Counter[str]):
    """Test results of one file: how many have "passed", "failed" or been "skipped"."""

    def text(self) -> str:
        """In few characters; empty if no test ran."""
        parts = [f"{self['failed']} failed"] if self["failed"] else []
        parts += [f"{self['passed']}"] if self["passed"] else []
        parts += [f"{self['skipped']} skipped"] if self["skipped"] else []
        return ", ".join(parts)


@dataclass
class Column:
    """Test results on one kernel."""

    kernel: str
    note: str = ""
    """Why there are no results, or a problem of the run."""
    files: dict[str, Cell] = field(default_factory=dict)
    """By test file, without directory and suffix."""
    seconds: float = 0.0

    def total(self) -> Cell:
        return Cell(outcome for cell in self.files.values() for outcome in cell.elements())

    def summary(self) -> str:
        return ", ".join(text for text in (self.total().text(), self.note) if text)


def read(kernel: str, reports: Sequence[Path], seconds: float, status: int = 0) -> Column:
    """Results from the JUnit files of one kernel; a missing file is ignored.

    The exit status of the run matters if pytest itself broke, which the files do not show.
    """
    column = Column(kernel, seconds=seconds)
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
            # pytest's class names are made of directories, file and class.
            words = case.get("classname", "").split(".")
            name = next((word for word in words if word.startswith("test_")), words[-1])
            tags = {child.tag for child in case}
            outcome = "skipped" if "skipped" in tags else "passed"
            outcome = "failed" if tags & {"failure", "error"} else outcome
            column.files.setdefault(name, Cell())[outcome] += 1
            column.note = column.note or _note(case)
    if not column.files:
        column.note = "no results"
    elif status and not column.total()["failed"]:
        column.note = f"but exit status {status}"
    return column


def _note(case: ElementTree.Element) -> str:
    """The problem of the whole run, if this case reports one."""
    if (case.get("classname"), case.get("name")) != (junit.CLASS, WHOLE):
        return ""
    return next((error.get("message", "") for error in case.iter("error")), "")


def rows(columns: Sequence[Column]) -> Mapping[str, list[str]]:
    """Texts by row, one for each kernel."""
    names = sorted({name for column in columns for name in column.files})
    table = {name: [column.files.get(name, Cell()).text() for column in columns] for name in names}
    table[SUMMARY] = [column.summary() for column in columns]
    table["minutes"] = [f"{column.seconds / 60:.0f}" for column in columns]
    return table


def show(columns: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("test file")
    for column in columns:
        table.add_column(column.kernel, justify="right")
    for name, texts in rows(columns).items():
        table.add_section() if name == SUMMARY else None
        table.add_row(name, *(Text(text, _style(text)) for text in texts))
    return table


def _style(text: str) -> str:
    if any(word in text for word in ("failed", "no ", "status")):
        return "red"
    return "yellow" if "skipped" in text else "green"


def markdown(columns: Sequence[Column]) -> str:
    head = ["test file", *(column.kernel for column in columns)]
    lines = [head, ["---", *["--:"] * len(columns)]]
    lines += [[name, *texts] for name, texts in rows(columns).items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
