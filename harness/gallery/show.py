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


def entries(console: Console, judged: Sequence[Judged]) -> None:
    """One row for each entry, with its bug and repaired."""
    fixed = {one.play.name: one for one in judged if one.play.what == "fixed"}
    table = Table(box=box.SIMPLE_HEAD, title="the gallery", title_justify="left")
    for name in ("entry", "must be", "found", "waiter", "waker", "repaired", "story"):
        table.add_column(name, overflow="fold")
    right = 0
    for one in judged:
        if one.play.what != "buggy":
            continue
        twin = fixed.get(one.play.name)
        good = not one.complaints and twin is not None and not twin.complaints
        right += good
        table.add_row(*_row(one, twin))
    if not table.rows:
        return
    console.print(table)
    console.print(f"{right} of {len(table.rows)} bugs named rightly", style=_style(right, table))


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
        Text(findings[0].text if findings else ""),
    ]


def healthy(console: Console, judged: Sequence[Judged]) -> None:
    """One row for each kind of healthy wake-ups."""
    if not judged:
        return
    table = Table(box=box.SIMPLE_HEAD, title="healthy wake-ups", title_justify="left")
    for name in ("kind", "waits", "of them slept", "wake calls", "wakes", "overtaken", "alarms"):
        table.add_column(name, justify="left" if name == "kind" else "right")
    table.add_column("played")
    for one in judged:
        table.add_row(one.play.name, *_sums(one), f"{one.play.seconds:.1f} s")
    console.print(table)


def _sums(one: Judged) -> list[str | Text]:
    queues = one.ledger.queues.values()
    alarms = len(one.verdict.findings)
    return [
        f"{sum(len(queue.waits) for queue in queues):,}",
        f"{sum(wait.slept for queue in queues for wait in queue.waits):,}",
        f"{sum(len(queue.signals) for queue in queues):,}",
        f"{sum(len(queue.all_wakes()) for queue in queues):,}",
        f"{one.verdict.overtaken:,}",
        Text(str(alarms), _BAD if alarms else _GOOD),
    ]


def complaints(console: Console, judged: Sequence[Judged]) -> None:
    """What is wrong, at the end."""
    for one in judged:
        for complaint in one.complaints[:5]:
            console.print(f"{one.play.name} ({one.play.what}): {complaint}", style=_BAD)
        if len(one.complaints) > 5:
            console.print(f"  and {len(one.complaints) - 5} more", style=_BAD)
