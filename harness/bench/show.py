# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The table that `kfabric bench` prints."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from harness.bench.figures import Row

_MET = {True: ("yes", ""), False: ("MISSED", "bold red"), None: ("", "dim")}


def table(rows: Sequence[Row]) -> Table:
    """One line for each row, with the figures that it was computed from."""
    shown = Table(
        title="the cost of a wait: ratios within one guest (docs/bench.md)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    shown.add_column("what")
    for name in ("measured", "goal"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("met?", no_wrap=True)
    shown.add_column("from")
    for row in rows:
        met, style = _MET[row.met]
        shown.add_row(row.what, number(row.measured), goal(row), met, row.raw, style=style)
    return shown


def number(value: float) -> str:
    """With three decimals if it is below 100."""
    return f"{value:.3f}" if value < 100 else f"{value:.0f}"


def goal(row: Row) -> str:
    """The goal with its direction; empty without one."""
    if row.goal is None:
        return ""
    return f"{'≥' if row.at_least else '≤'} {row.goal:g}"
