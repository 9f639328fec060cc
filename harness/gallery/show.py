# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The tables that `kfabric gallery` prints."""

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kfabric.gallery.check import Judged
from kfabric.gallery.entries import BY_NAME
from kfabric.terminal import tables

_GOOD, _BAD = "green", "bold red"


def entries(console: Console, judged: Sequence[Judged]) -> Table:
    """Print and return the table of the entries, each buggy and fixed."""
    fixed = {one.run.name: one for one in judged if one.run.variant == "fixed"}
    table = _table("the gallery")
    for name in ("entry", "must be", "found", "waiter", "waker", "repaired"):
        table.add_column(name, no_wrap=name == "entry")
    right = 0
    for one in judged:
        if one.run.variant != "buggy":
            continue
        twin = fixed.get(one.run.name)
        silent = twin is not None and not twin.complaints
        right += silent and not one.complaints
        findings = one.verdict.findings
        table.add_row(
            one.run.name,
            BY_NAME[one.run.name].kind,
            _colored(findings[0].kind if findings else "nothing", not one.complaints),
            one.waiter,
            one.waker,
            _colored("silent" if silent else "NOT SILENT", silent),
        )
        if findings:
            console.print(Text.assemble((one.run.name, "bold"), ": ", findings[0].text))
    if table.rows:
        tables.show(console, table)
        total = len(table.rows)
        console.print(_colored(f"{right} of {total} bugs named correctly", right == total))
    return table


def _table(title: str) -> Table:
    """A table that fits into 80 columns."""
    return Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        pad_edge=False,
        collapse_padding=True,
    )


def _colored(text: str, good: bool) -> Text:
    return Text(text, _GOOD if good else _BAD)


def healthy(console: Console, judged: Sequence[Judged]) -> Table:
    """Print and return the table of the healthy wake-ups, one row for each kind."""
    table = _table("healthy wake-ups")
    for name in ("kind", "waits", "slept", "calls", "wakes", "overtaken", "alarms", "run in"):
        table.add_column(name, justify="left" if name == "kind" else "right", no_wrap=True)
    for name in dict.fromkeys(one.run.name for one in judged):
        parts = [one for one in judged if one.run.name == name]
        sums = sum((one.sums for one in parts), Counter[str]())
        overtaken = sum(one.verdict.overtaken for one in parts)
        alarms = sum(len(one.verdict.findings) for one in parts)
        seconds = sum(one.run.seconds for one in parts)
        table.add_row(
            name,
            *(f"{sums[count]:,}" for count in ("waits", "slept", "calls", "wakes")),
            f"{overtaken:,}",
            _colored(str(alarms), not alarms),
            f"{seconds:.1f} s",
        )
    if table.rows:
        tables.show(console, table)
    return table


def complaints(console: Console, judged: Sequence[Judged]) -> None:
    """Print the complaints, at most five of each run."""
    for one in judged:
        for complaint in one.complaints[:5]:
            console.print(f"{one.run.name} ({one.run.variant}): {complaint}", style=_BAD)
        if len(one.complaints) > 5:
            console.print(f"  and {len(one.complaints) - 5} more", style=_BAD)
