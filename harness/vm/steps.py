# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Progress of a long job: a moving bar on a terminal, otherwise a line every ten percent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from kfabric import names

if TYPE_CHECKING:
    from rich.progress import Progress

PERCENT = 10
"""Between two lines where there is no terminal."""


def say(line: str) -> None:
    """Show a step to the user, on standard error, unless it was started with -q."""
    if names.QUIET not in os.environ:
        print(f"kfabric: {line}", file=sys.stderr, flush=True)


class Steps:
    """Counts steps and shows how many are done; a context manager.

    Args:
        what: the job, a few words.
        total: the expected number of steps; more are shown as "almost done".
        log: prints a line where there is no terminal.
    """

    def __init__(self, what: str, total: int, log: Callable[[str], None]) -> None:
        self.done = 0
        """Steps so far."""
        self._what = what
        self._total = max(total, 1)
        self._log = log
        self._shown = 0
        self._bar = _bar(what, self._total) if sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self) -> None:
        self.done += 1
        # The caller reports the end, so 100 % is never shown here.
        shown = min(self.done, self._total - 1)
        percent = shown * 100 // self._total
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=shown)
        elif percent >= self._shown + PERCENT:
            self._shown = percent - percent % PERCENT
            self._log(f"{self._what}: {self._shown} %")


def _bar(what: str, total: int) -> Progress:
    # The import takes hundreds of milliseconds, so only terminals pay for it.
    from rich import progress
    from rich.console import Console

    columns = (progress.BarColumn(), progress.TaskProgressColumn(), progress.TimeElapsedColumn())
    left = (progress.TextColumn("left:"), progress.TimeRemainingColumn())
    name = progress.TextColumn("{task.description}")
    bar = progress.Progress(name, *columns, *left, console=Console(stderr=True))
    bar.add_task(what, total=total)
    bar.start()
    return bar
