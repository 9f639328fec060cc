# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Prints mutants: a line for each as it ends, the table, the summary."""

import itertools
import threading
from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kfabric.errors import counted
from kfabric.mutants.catalogue import Outcome, Verdict

_STYLES = {
    Verdict.KILLED: "green",
    Verdict.SURVIVED: "bold red",
    Verdict.CRASHED: "bold red",
    Verdict.BROKEN: "bold yellow",
    Verdict.EQUIVALENT: "green",
    Verdict.NOT_WAITING: "green",
}


class ProgressLines:
    """Prints one line for each finished mutant, from any thread."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def show(self, outcome: Outcome) -> None:
        """Print an outcome."""
        with self._lock:
            self._console.print(self._line(outcome), soft_wrap=True)

    def _line(self, outcome: Outcome) -> Text:
        line = Text()
        if outcome.mutant.name == "original":
            good = outcome.verdict is Verdict.SURVIVED
            line.append(f"original: {'passes' if good else 'FAILS'} ")
            line.append(f"{outcome.test} {outcome.why} ({outcome.seconds:.0f} s)")
            return line
        line.append(f"{next(self._numbers):3}/{self._total} {outcome.mutant.name} ")
        line.append(outcome.verdict.value, _STYLES[outcome.verdict])
        line.append(f" {short(outcome.test)} ({outcome.seconds:.0f} s)")
        if outcome.verdict is not Verdict.KILLED:
            line.append(f"\n        {outcome.why}")
        return line


def short(test: str) -> str:
    """A test's node id without its directory."""
    return test.rpartition("/")[2]


def plain(*titles: str) -> Table:
    """A table without rows."""
    view = Table(box=box.SIMPLE_HEAD)
    for title in titles:
        view.add_column(title, overflow="fold")
    return view


def table(outcomes: Sequence[Outcome]) -> Table:
    """All mutants with their verdicts."""
    view = plain("mutant", "rules", "verdict", "failing test")
    view.add_column("s", justify="right")
    for outcome in sorted(outcomes, key=lambda outcome: outcome.mutant.name):
        view.add_row(
            outcome.mutant.name,
            " ".join(outcome.mutant.rules),
            Text(outcome.verdict.value, _STYLES[outcome.verdict]),
            short(outcome.test) or outcome.why,
            f"{outcome.seconds:.0f}",
        )
    return view


def of_scenarios(outcomes: Sequence[Outcome]) -> Table:
    """The same of mutants that were played in scenarios."""
    view = plain("mutant", "rules", "verdict", "scenario", "finding, or why there is none")
    for title in ("executions", "s"):
        view.add_column(title, justify="right")
    for outcome in sorted(outcomes, key=lambda outcome: outcome.mutant.name):
        view.add_row(
            outcome.mutant.name,
            " ".join(outcome.mutant.rules),
            Text(outcome.verdict.value, _STYLES[outcome.verdict]),
            outcome.test,
            outcome.why,
            f"{outcome.executions:,}",
            f"{outcome.seconds:.1f}",
        )
    return view


def summary(outcomes: Sequence[Outcome], seconds: float) -> Text:
    """One line: the number of each verdict, and the duration."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    words = [f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]]
    good = all(verdict.good for verdict in counts)
    minutes, rest = divmod(round(seconds), 60)
    return Text(
        f"{counted(len(outcomes), 'mutant')}: {', '.join(words)} ({minutes} min {rest} s)",
        "bold green" if good else "bold red",
    )
