# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Makes steps slow for their line, without a wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType

import pytest

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
