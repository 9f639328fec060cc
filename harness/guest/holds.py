# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Stops of publishers at delay hook D3, which the fixture ``mock`` notes.

At D3 an entry is stored and not announced yet. A reader that looks at its deadline finds
the entry, and the recording has no event for it. Nothing in the recording distinguishes
that from a lost wake-up, so what a stop can explain is not judged (:mod:`kfabric.guest.held`).
"""

import time
from collections import deque
from dataclasses import dataclass

PUBLISHERS = "D3"
_KEPT = 100


@dataclass(slots=True)
class Hold:
    """From arming a hook on an object (0: on any) to the release; ``end`` is 0 until then."""

    hook: str
    object: int
    begin: int
    end: int = 0

    def over(self) -> None:
        """The thread was released, or the hook was disarmed."""
        self.end = self.end or time.monotonic_ns()

    def touches(self, begin: int, end: int) -> bool:
        """Was any of this time within it?"""
        return self.begin <= end and (not self.end or begin <= self.end)


noted: deque[Hold] = deque(maxlen=_KEPT)
"""The last ones."""


def note(hook: str, oid: int) -> Hold:
    """A hook is armed now."""
    hold = Hold(hook, oid, time.monotonic_ns())
    noted.append(hold)
    return hold
