# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the visitor of the gallery sees."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.gallery.check import Judged
from harness.gallery.entries import BY_NAME

_GOOD, _BAD = "green", "bold red"


def entries(console: Console, judged: Sequence[Judged]) -> Table:
    """Print one row for each entry, with its bug and repaired; the table."""
    fixed = {one.play.name: one for one in judged if one.play.what == "fixed"}
    table = _table("the gallery")
    for name in ("entry", "must be", "found", "waiter", "waker", "repaired"):
        table.add_column(name, no_wrap=name == "entry")
    right = 0
    for one in judged:
        if one.play.what != "buggy":
            continue
        twin = fixed.get(one.play.name)
        good = not one.complaints and twin is not None and not twin.complaints
        right += good
        table.add_row(*_row(one, twin))
    if table.rows:
        _stories(console, judged)
        console.print(table)
        style = _style(right, table)
        console.print(f"{right} of {len(table.rows)} bugs named rightly", style=style)
    return table


def _table(title: str) -> Table:
    """One that fits into 80 columns."""
    return Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        pad_edge=False,
        collapse_padding=True,
    )


def _style(right: int, table: Table) -> str:
    return _GOOD if right == len(table.rows) else _BAD


def _row(one: Judged, twin: Judged | None) -> list[Text]:
    entry = BY_NAME[one.play.name]
    findings = one.verdict.findings
    style = _BAD if one.complaints else _GOOD
    quiet = twin is not None and not twin.complaints
    return [
        Text(entry.name),
        Text(entry.kind),
        Text(findings[0].kind if findings else "nothing", style),
        Text(one.waiter),
        Text(one.waker),
        Text("silent" if quiet else "NOT SILENT", _GOOD if quiet else _BAD),
    ]


def _stories(console: Console, judged: Sequence[Judged]) -> None:
    """What was found of each bug, in words."""
    for one in judged:
        if one.play.what == "buggy" and one.verdict.findings:
            console.print(
                Text.assemble((one.play.name, "bold"), ": ", one.verdict.findings[0].text)
            )


def healthy(console: Console, judged: Sequence[Judged]) -> Table:
    """Print one row for each kind of healthy wake-ups; the table."""
    table = _table("healthy wake-ups")
    for name in ("kind", "waits", "slept", "calls", "wakes", "overtaken", "alarms", "played"):
        table.add_column(name, justify="left" if name == "kind" else "right", no_wrap=True)
    for name in dict.fromkeys(one.play.name for one in judged):
        parts = [one for one in judged if one.play.name == name]
        seconds = sum(one.play.seconds for one in parts)
        table.add_row(name, *_sums(parts), f"{seconds:.1f} s")
    if table.rows:
        console.print(table)
    return table


def _sums(parts: Sequence[Judged]) -> list[str | Text]:
    """The numbers of one kind, of all its parts."""
    alarms = sum(len(one.verdict.findings) for one in parts)
    return [
        f"{sum(one.sums.waits for one in parts):,}",
        f"{sum(one.sums.slept for one in parts):,}",
        f"{sum(one.sums.calls for one in parts):,}",
        f"{sum(one.sums.wakes for one in parts):,}",
        f"{sum(one.verdict.overtaken for one in parts):,}",
        Text(str(alarms), _BAD if alarms else _GOOD),
    ]


def complaints(console: Console, judged: Sequence[Judged]) -> None:
    """What is wrong, at the end."""
    for one in judged:
        for complaint in one.complaints[:5]:
            console.print(f"{one.play.name} ({one.play.what}): {complaint}", style=_BAD)
        if len(one.complaints) > 5:
            console.print(f"  and {len(one.complaints) - 5} more", style=_BAD)
