# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Waiting for a state: poll with a doubling back-off under one absolute deadline.

Nobody synchronises by sleeping for a while and hoping. The pauses below only
keep a poll from burning the CPU that the awaited thread needs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SLOW = "KFABRIC_SLOW"
"""Environment: how many times as long as usual everything may take here (VmSpec.on)."""

FIRST_PAUSE = 0.001
LONGEST_PAUSE = 0.1


class DeadlineExpired(TimeoutError):
    """The awaited state did not come in time; the text says which state and what was seen."""


def patience(seconds: float) -> float:
    """Return how long to wait here for what usually takes less than `seconds`.

    A kernel that checks everything it does is several times slower than others.
    """
    return seconds * float(os.environ.get(SLOW) or "1")


class Deadline:
    """One absolute point in time on the monotonic clock, fixed when it is made."""

    def __init__(self, seconds: float) -> None:
        """Let `seconds` pass from now on until the deadline, or more if all is slow here."""
        self.seconds = patience(seconds)
        self._end = time.monotonic() + self.seconds

    @classmethod
    def firm(cls, seconds: float) -> Deadline:
        """Make one that is no later where all is slow: something else ends at a fixed time."""
        return cls(seconds / patience(1.0))

    @classmethod
    def of(cls, value: Deadline | float) -> Deadline:
        """Take a deadline as it is, or make one that is that many seconds away."""
        return value if isinstance(value, Deadline) else cls(value)

    def remaining(self) -> float:
        """Return the seconds that are left, never less than 0."""
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
    """Call `probe` until it returns something true, and return that.

    `what` names the awaited state and `seen` describes the present one; both
    go into the DeadlineExpired that is raised when the deadline (a Deadline, or
    seconds from now) passes. The state is looked at once more after the
    deadline, so that a starved poller does not report a state as missing that
    has long been there.
    """
    limit = Deadline.of(deadline)
    pause = FIRST_PAUSE
    while True:
        last_look = limit.expired
        state = probe()
        if state:
            return state
        if last_look:
            raise DeadlineExpired(_late(what, limit, seen))
        time.sleep(min(pause, limit.remaining()))
        pause = min(2 * pause, LONGEST_PAUSE)


def _late(what: str, limit: Deadline, seen: Callable[[], object] | None) -> str:
    text = f"{what}: not within {limit.seconds:g} s"
    return f"{text}; seen: {seen()}" if seen else text
