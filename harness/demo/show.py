# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the user of the demo sees: progress, tables, one verdict line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from harness.demo.judge import Judged
from harness.verdict.stats import Latency, Row
from harness.verdict.verdict import Outcome

_STYLES = {
    Outcome.VERIFIED: "bold green",
    Outcome.FAULT: "bold red",
    Outcome.NOT_VERIFIED: "bold yellow",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """One promise about the demo itself, with what was measured."""

    what: str
    measured: float
    limit: float
    unit: str

    @property
    def kept(self) -> bool:
        """Is it within the limit?"""
        return self.measured <= self.limit


class Steps:
    """Progress: a moving display on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console, messages: int) -> None:
        """Show progress of games of ``messages`` on a console."""
        self._console = console
        self._messages = messages
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, visible=False)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Keep the display up for the block's duration."""
        if not self._console.is_terminal:
            yield
            return
        with self._progress:
            yield

    def step(self, text: str) -> None:
        """Begin a step."""
        if self._console.is_terminal:
            self._progress.reset(self._task, description=text, total=None, visible=True)
        else:
            self._console.print(f"kfabric: {text}", highlight=False, soft_wrap=True)

    def messages(self, number: int) -> None:
        """So many messages of the game have been played."""
        self._progress.update(self._task, completed=number, total=self._messages)


def tables(console: Console, judged: Judged) -> None:
    """One table for each game."""
    for title, rows in judged.tables:
        console.print(_table(title, rows))
        early = ", ".join(f"{row.name} {row.at_once}" for row in rows if row.at_once)
        if early:
            console.print(f"found their message there already, without sleeping: {early}\n")
    if judged.verdict.overtaken:
        console.print(
            f"overtaken (woken, but the entry was read by then; no fault): "
            f"{judged.verdict.overtaken}"
        )


def verdict(console: Console, judged: Judged) -> None:
    """What the players complain of, each finding and doubt, and last the verdict's line."""
    pronounced = judged.verdict
    for complaint in judged.complaints:
        console.print(Text(f"player {complaint}", style="red"), soft_wrap=True)
    for doubt in pronounced.doubts[1:]:
        console.print(Text(doubt, style="yellow"), soft_wrap=True)
    if pronounced.outcome is Outcome.FAULT:
        for finding in pronounced.findings[1:]:
            console.print(Text(str(finding), style="red"), soft_wrap=True)
    console.print(Text(pronounced.line(), style=_STYLES[pronounced.outcome]), soft_wrap=True)


def _table(title: str, rows: Sequence[Row]) -> Table:
    """One game: a line for each side. Fits into 80 columns."""
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
        caption="p50, p99, max: from signal to running, in µs",
        caption_justify="left",
    )
    herd = any(row.herd for row in rows)
    table.add_column("side", no_wrap=True)
    for name in (
        "waits",
        "signals",
        "wakes",
        "spurious",
        "lost",
        "timeouts",
        "late",
        *(["herd"] if herd else []),
        "p50",
        "p99",
        "max",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.name, *(str(n) for n in _counts(row, herd)), *_times(row.latency))
    return table


def _counts(row: Row, herd: bool) -> list[int]:
    counts = [row.waits, row.signals, row.wakes, row.spurious, row.lost, row.timeouts, row.late]
    return [*counts, row.herd] if herd else counts


def _times(latency: Latency) -> list[str]:
    if not latency.count:
        return ["-"] * 3
    return [f"{ns / 1000:.0f}" for ns in (latency.p50, latency.p99, latency.max)]


def limits(console: Console, rows: Sequence[Limit]) -> None:
    """What the demo promises about itself, measured."""
    table = Table(
        title="what the demo promises about itself",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("what", no_wrap=True)
    table.add_column("measured", justify="right")
    table.add_column("at most", justify="right")
    for row in rows:
        style = "" if row.kept else "red"
        table.add_row(
            row.what, f"{row.measured:.1f} {row.unit}", f"{row.limit:g} {row.unit}", style=style
        )
    console.print(table)
