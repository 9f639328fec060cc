# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Shows a step that takes long; a quick one leaves no line.

The block is the step::

    with Slow("booting a guest", prepare.say):
        vm.start()
"""

import threading
from collections.abc import Callable
from typing import Self

SECONDS = 5.0
"""No command is silent for longer while it works."""


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
