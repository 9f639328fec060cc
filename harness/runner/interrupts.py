# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Handles SIGINT and SIGTERM once: further signals do not interrupt the clean-up.

Ctrl-C reaches every process of a terminal. A CI's signal reaches one of them, which then
passes it to the others.
"""

import signal
from collections.abc import Callable
from types import FrameType

import pytest

ENDING = (signal.SIGINT, signal.SIGTERM)


def take_first() -> Callable[[], None]:
    """Make the first SIGINT or SIGTERM a KeyboardInterrupt, and ignore all later ones.

    It is pytest's own kind: of any other, pytest shows in which of our files it came.
    A signal that is ignored already stays ignored. Returns a function that restores the
    former handlers.
    """
    before = {number: signal.getsignal(number) for number in ENDING}
    taken = [number for number in ENDING if before[number] is not signal.SIG_IGN]

    def first(_number: int, _frame: FrameType | None) -> None:
        for number in taken:
            signal.signal(number, signal.SIG_IGN)
        raise pytest.Session.Interrupted("by a signal")

    def restore() -> None:
        for number in taken:
            signal.signal(number, before[number])

    for number in taken:
        signal.signal(number, first)
    return restore
