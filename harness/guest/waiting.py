# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Waits for a state: polls with a doubling back-off under one absolute deadline.

The pauses synchronise nothing. They only leave the CPU to the awaited thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SLOW = "KFABRIC_SLOW"
"""Environment: the factor by which everything is slower here (VmSpec.on)."""

FIRST_PAUSE = 0.001
LONGEST_PAUSE = 0.1


class DeadlineExpired(TimeoutError):
    """The awaited state did not come in time; the text has that state and the last one."""


def patience(seconds: float) -> float:
    """Return the time to wait here for an event that usually takes less than `seconds`.

    Kernels with many debug checks are several times slower than others.
    """
    return seconds * float(os.environ.get(SLOW) or "1")


class Deadline:
    """An absolute time on the monotonic clock: `seconds` from now, or more on a slow kernel."""

    def __init__(self, seconds: float) -> None:
        self.seconds = patience(seconds)
        self._end = time.monotonic() + self.seconds

    @classmethod
    def firm(cls, seconds: float) -> Deadline:
        """A deadline that is the same on a slow kernel, because something else has a fixed end."""
        return cls(seconds / patience(1.0))

    @classmethod
    def of(cls, value: Deadline | float) -> Deadline:
        """The deadline itself, or a new one in that many seconds."""
        return value if isinstance(value, Deadline) else cls(value)

    def remaining(self) -> float:
        """Return the seconds that are left; 0 after the deadline."""
        return max(0.0, self._end - time.monotonic())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining() == 0.0


def wait_until(
    probe: Callable[[], T | None],
    what: str,
    deadline: Deadline | float = 10.0,
    seen: Callable[[], object] | None = None,
) -> T:
    """Call `probe` until it returns a true value, and return that.

    There is one more call after the deadline, so that a poller without CPU time does not
    miss a state that came in time.

    Args:
        probe: Returns a true value once the state is reached.
        what: The awaited state, for the error.
        deadline: A Deadline, or seconds from now.
        seen: Returns the present state, for the error.

    Raises:
        DeadlineExpired: The deadline has passed.
    """
    limit = Deadline.of(deadline)
    pause = FIRST_PAUSE
    while True:
        last_look = limit.expired
        state = probe()
        if state:
            return state
        if last_look:
            text = f"{what}: not within {limit.seconds:g} s"
            raise DeadlineExpired(f"{text}; seen: {seen()}" if seen else text)
        time.sleep(min(pause, limit.remaining()))
        pause = min(2 * pause, LONGEST_PAUSE)
