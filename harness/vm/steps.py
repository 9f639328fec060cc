# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""How far a long step is: a moving bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

PERCENT = 10
"""Between two lines where there is no terminal."""


class Steps:
    """Counts steps and shows how many are done; a context manager.

    :param what: what goes on, a few words.
    :param total: how many steps there are, as far as is known: more than that are
        shown as "almost done".
    :param log: takes a line, where there is no terminal.
    """

    def __init__(self, what: str, total: int, log: Callable[[str], None]) -> None:
        self.done = 0
        """Steps so far."""
        self._what = what
        self._total = max(total, 1)
        self._log = log
        self._said = 0
        self._bar: _Bar | None = _Bar(what, self._total) if sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self) -> None:
        """One step more is done."""
        self.done += 1
        # That it is done is for the caller to say.
        shown = min(self.done, self._total - 1)
        if self._bar:
            self._bar.show(shown)
            return
        percent = shown * 100 // self._total
        if percent >= self._said + PERCENT:
            self._said = percent - percent % PERCENT
            self._log(f"{self._what}: {self._said} %")


class _Bar:
    """A bar with the time that has passed and the time that is left."""

    def __init__(self, what: str, total: int) -> None:
        # Imported late: hundreds of milliseconds for who never sees it.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
        times = (TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
        self._progress = Progress(*columns, *times, console=Console(stderr=True))
        self._task = self._progress.add_task(what, total=total)
        self._progress.start()

    def show(self, done: int) -> None:
        self._progress.update(self._task, completed=done)

    def stop(self) -> None:
        self._progress.stop()
