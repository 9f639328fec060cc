# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A run that is to end, ends once: further signals do not break off what it cleans up.

Ctrl-C reaches each process of a terminal; what ends a job of a CI reaches one of them, which
then tells the others.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


def take_first() -> Callable[[], None]:
    """Make the first SIGINT or SIGTERM a KeyboardInterrupt and ignore what comes behind it.

    Whoever has started this process with one of them ignored has it ignored.

    :returns: makes it as it was.
    """
    before = {number: signal.getsignal(number) for number in ENDING}
    taken = [number for number in ENDING if before[number] is not signal.SIG_IGN]

    def first(_number: int, _frame: FrameType | None) -> None:
        for number in taken:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    def restore() -> None:
        for number in taken:
            signal.signal(number, before[number])

    for number in taken:
        signal.signal(number, first)
    return restore
