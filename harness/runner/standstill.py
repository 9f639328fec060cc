# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Shows which tests run if none has ended for a while, so that a hang is no silence."""

import time
from collections.abc import Callable, Iterable

from kfabric.terminal.slow import FIRST_SECONDS


class Standstill:
    """Prints a line after 20 s in which no test began or ended, then after 40 s, 80 s, ...

    Args:
        running: each guest that is at work, and its test.
        say: prints a line.
    """

    def __init__(
        self,
        running: Callable[[], Iterable[tuple[str, str]]],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._running = running
        self._say = say
        self._clock = clock
        self._began: dict[str, float] = {}
        self.end()

    def begin(self, test: str) -> None:
        """Record that a test begins."""
        self.end()
        self._began[test] = self._since

    def end(self) -> None:
        """Record that a test has ended."""
        self._since = self._clock()
        self._limit = FIRST_SECONDS

    def look(self) -> None:
        """Print the line if it is due, and a test runs."""
        now = self._clock()
        if now - self._since < self._limit:
            return
        # A guest that has not reported the begin of its test may still be collecting.
        lines = [
            f"{guest}: {test} has run for {now - self._began[test]:.0f} s"
            for guest, test in self._running()
            if test in self._began
        ]
        if lines:
            self._say("; ".join(lines))
            self._limit *= 2
