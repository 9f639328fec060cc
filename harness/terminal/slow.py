# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Shows a step that takes long; a quick one leaves no line.

The block is the step::

    with Slow("booting a guest", prepare.say):
        vm.start()

Steps of minutes show how long they have run::

    with Running("make in kmod", prepare.say):
        make()
"""

import threading
from collections.abc import Callable
from typing import Self

SECONDS = 5.0
"""No command is silent for longer while it works."""
FIRST_SECONDS = 20.0
"""Before the first line of what takes minutes; before each further one twice as long."""


class Slow:
    """Shows a line if its block takes long; a context manager.

    Args:
        line: names the step.
        show: prints the line; called in another thread.
        seconds: a block that ends earlier shows nothing.
    """

    def __init__(self, line: str, show: Callable[[str], object], seconds: float = SECONDS) -> None:
        self._timer = threading.Timer(seconds, show, [line])
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        # Whatever the caller prints next comes after the line.
        self._timer.join()

    def cancel(self) -> None:
        """Show nothing from now on: another line has named the step."""
        self._timer.cancel()


class Running:
    """Shows after 20 s, 40 s, 80 s, ... that its block still runs; a context manager.

    Args:
        step: names it; the line is ``STEP has run for 20 s``.
        show: prints a line; called in another thread.
        done: how much is done, for the line; called in that thread.
    """

    def __init__(
        self, step: str, show: Callable[[str], object], done: Callable[[], str] = str
    ) -> None:
        self._step = step
        self._show = show
        self._done = done
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        # Whatever the caller prints next comes after the last line.
        self._thread.join()

    def _look(self) -> None:
        shown, due = 0.0, FIRST_SECONDS
        while not self._ended.wait(due - shown):
            done = self._done()
            self._show(f"{self._step} has run for {due:.0f} s" + (f": {done}" if done else ""))
            shown, due = due, 2 * due
