# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Writes docs/results.md, of which each measuring command writes its own section.

    measured = Measurement("mutants", "kfabric mutants --results")
    ...
    measured.write("6.1.0-42-amd64", "| mutants | killed |\n|---|---|\n| 167 | 167 |\n")

The document is never edited by hand. A section keeps its text until its command measures again,
so that each section has its own date, kernel, commit and host. A table with a row for each kernel
keeps the rows of the kernels that are not measured again.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from kfabric.docs.markdown import row
from kfabric.root import ROOT

DOCUMENT = ROOT / "docs" / "results.md"

HEAD = """\
# Results

The commands that measure write this page: `kfabric test`, `prove`, `mutants`, `gallery`,
`fuzz` and `bench` each replace their own section when they are called with `--results`.
`make soak ARGS=--results` replaces the row of its kernel. Do not edit this page.
"""

SECTIONS = {
    "matrix": "Tests on each kernel",
    "coverage": "Lines of the modules that the tests reach",
    "prove": "Interleavings of the wait core",
    "prove_mutants": "Mutants in the scenarios of the wait core",
    "prove_barriers": "Barriers of the wait core",
    "mutants": "Mutants",
    "gallery": "Classic wait bugs",
    "fuzz": "Fuzzing",
    "soak": "Soak",
    "bench": "Costs",
    "steps": "From edit to verdict",
}
"""Title of each section, in the order of the document."""

OPTION = "--results"
HELP = f"write the results into {DOCUMENT.relative_to(ROOT)}"

_SECTION = re.compile(r"<!-- results:(\w+) -->\n(.*?)<!-- end -->\n", re.DOTALL)


@dataclass(frozen=True)
class Measurement:
    """A measurement that begins now.

    Attributes:
        section: its key in SECTIONS.
        command: the command line that repeats it.
        began: the time of its start.
        load: the host's load before it began, in runnable processes (one-minute average).
    """

    section: str
    command: str
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    def write(self, kernel: str, table: str, document: Path = DOCUMENT) -> None:
        """Replace the section.

        Args:
            kernel: the releases of the guests' kernels.
            table: Markdown.
            document: the file to write; made if it does not exist.

        Raises:
            OSError: the file cannot be written.
        """
        bodies = _bodies(document)
        bodies[self.section] = f"{self.facts(kernel)}\n\n{table.strip()}\n"
        document.write_text(page(bodies), encoding="utf-8")

    def write_row(self, kernel: str, cells: Mapping[str, str], document: Path = DOCUMENT) -> None:
        """Replace the row of a kernel, and the facts above the table. The other rows stay.

        Args:
            kernel: the release of the guests' kernel.
            cells: the results by their column.
            document: as in :meth:`write`.

        Raises:
            OSError: the file cannot be written.
        """
        head = row(["kernel", "date", "commit", *cells]) + row(["---"] * (3 + len(cells)))
        # The rows of a table with other columns are lost.
        _, _, rest = _bodies(document).get(self.section, "").partition(head)
        first = row([kernel]).removesuffix("\n")
        others = [line for line in rest.splitlines(keepends=True) if not line.startswith(first)]
        mine = row([kernel, self._day(), _commit(), *cells.values()])
        self.write(kernel, head + "".join(sorted([*others, mine])), document)

    def facts(self, kernel: str) -> str:
        """A line with the day, the kernel, the commit, the host and the command."""
        host = f"{os.cpu_count()} CPUs, load {self.load:.1f} before the start"
        facts = f"{self._day()}, kernel {kernel}, commit {_commit()}, host: {host}"
        return f"{facts}. Command: `{self.command}`."

    def _day(self) -> str:
        return self.began.strftime("%Y-%m-%d")


def begin(section: str, argv: Sequence[str], wanted: bool) -> Measurement | None:
    """The measurement of a command that begins now, if the user wants its results written.

    Args:
        section: its key in SECTIONS.
        argv: the command's words after `kfabric`.
        wanted: whether the option was given.
    """
    return Measurement(section, shlex.join(["kfabric", *argv])) if wanted else None


def _commit() -> str:
    argv = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip() or "unknown"


def _bodies(document: Path) -> dict[str, str]:
    """The sections of a document, which need not exist."""
    text = document.read_text(encoding="utf-8") if document.exists() else ""
    return dict(_SECTION.findall(text))


def markdown(table: Table) -> str:
    """A terminal's table as Markdown."""
    columns = [[column.header, *column.cells] for column in table.columns]
    rows = [
        [str(cell).replace("\n", " ") for cell in cells] for cells in zip(*columns, strict=True)
    ]
    rules = ["--:" if column.justify == "right" else "---" for column in table.columns]
    return "".join(map(row, [rows[0], rules, *rows[1:]]))


def page(bodies: dict[str, str]) -> str:
    """The document with these sections."""
    parts = [HEAD]
    for name, title in SECTIONS.items():
        body = bodies.get(name, "Not measured yet.\n")
        parts.append(f"## {title}\n\n<!-- results:{name} -->\n{body}<!-- end -->\n")
    return "\n".join(parts)
