# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The terminal output of the demo: progress, tables, one line with the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kfabric.demo.judge import Judged
from kfabric.terminal.tables import show
from kfabric.verdict.stats import Row
from kfabric.verdict.verdict import Outcome

_STYLES = {
    Outcome.VERIFIED: "bold green",
    Outcome.FAULT: "bold red",
    Outcome.NOT_VERIFIED: "bold yellow",
    Outcome.NOT_JUDGED: "bold yellow",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of the demo itself, with the measurement."""

    what: str
    measured: float
    limit: float
    unit: str

    @property
    def kept(self) -> bool:
        """Whether the measurement is within the limit."""
        return self.measured <= self.limit


class Steps:
    """Progress of `messages` messages: a moving display on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console, messages: int) -> None:
        self._console = console
        self._messages = messages
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self.display = Progress(
            *columns,
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        """To be entered while messages come; without a terminal it does nothing."""
        self._task = self.display.add_task("", total=None, visible=False)

    def step(self, text: str) -> None:
        """Begin a step."""
        if self._console.is_terminal:
            self.display.reset(self._task, description=text, total=None, visible=True)
        else:
            self._console.print(f"kfabric: {text}", highlight=False, soft_wrap=True)

    def messages(self, number: int) -> None:
        """Show the number of messages so far."""
        self.display.update(self._task, completed=number, total=self._messages)


def tables(console: Console, judged: Judged) -> None:
    """Print one table for each scenario."""
    for title, rows in judged.tables:
        show(console, _table(title, rows))
        early = ", ".join(f"{row.name} {row.at_once}" for row in rows if row.at_once)
        if early:
            console.print(f"messages that were there before the wait, without a sleep: {early}\n")
    if judged.verdict.overtaken:
        console.print(
            f"overtaken (woken, but the entry was read by then; no fault): "
            f"{judged.verdict.overtaken}"
        )


def verdict(console: Console, judged: Judged) -> None:
    """Print the errors of the peers, each finding and doubt, and last the verdict's line."""
    found = judged.verdict
    lines = [(f"player {complaint}", "red") for complaint in judged.complaints]
    lines += [(doubt, "yellow") for doubt in found.doubts[1:]]
    if found.outcome is Outcome.FAULT:
        lines += [(str(finding), "red") for finding in found.findings[1:]]
    for text, style in [*lines, (found.line(), _STYLES[found.outcome])]:
        console.print(Text(text, style=style), soft_wrap=True)


def framed(title: str, heads: Sequence[str], gap: int = 1) -> Table:
    """An empty table of numbers; its first column has words."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0))
    for head in heads:
        table.add_column(head, justify="left" if head == heads[0] else "right", no_wrap=True)
    return table


def _table(title: str, rows: Sequence[Row]) -> Table:
    """One scenario: a line for each peer. Fits into 80 columns."""
    counts = ["waits", "signals", "wakes", "spurious", "lost", "timeouts", "late"]
    counts += ["herd"] if any(row.herd for row in rows) else []
    table = framed(title, ("side", *counts, "p50", "p99", "max"), gap=0)
    table.caption, table.caption_justify = "p50, p99, max: from signal to running, in µs", "left"
    for row in rows:
        times = ["-"] * 3
        if (latency := row.latency).count:
            times = [f"{ns / 1000:.0f}" for ns in (latency.p50, latency.p99, latency.max)]
        table.add_row(row.name, *(str(getattr(row, name)) for name in counts), *times)
    return table


def limits(console: Console, rows: Sequence[Limit]) -> None:
    """Print the limits of the demo itself, with the measurements."""
    table = framed("limits of the demo itself", ("what", "measured", "at most"))
    for row in rows:
        measured, limit = f"{row.measured:.1f} {row.unit}", f"{row.limit:g} {row.unit}"
        mark, style = ("", "") if row.kept else (", exceeded", "red")
        table.add_row(row.what, measured, limit + mark, style=style)
    show(console, table)
