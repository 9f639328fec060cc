# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Makes steps slow for their line, without a wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType

import pytest

from kfabric.terminal import slow
from kfabric.terminal.slow import Slow


def impatient(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> Callable[[], bool]:
    """Have a module show the line of each slow step at once.

    Returns a function that waits for the line of the present step; true: it was shown.
    """
    shown = threading.Event()

    def slow(line: str, show: Callable[[str], object]) -> Slow:
        def shows(line: str) -> None:
            show(line)
            shown.set()

        shown.clear()
        return Slow(line, shows, seconds=0)

    monkeypatch.setattr(module, "Slow", slow)
    return lambda: shown.wait(60)


class Log:
    """Lines of a log; steps of minutes show their first one after a moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(slow, "FIRST_SECONDS", 0.01)
        self._lines: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, line: str) -> None:
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def wait(self, line: str) -> bool:
        """Wait for a line; true: it came."""
        with self._changed:
            return self._changed.wait_for(lambda: line in self._lines, 60)
