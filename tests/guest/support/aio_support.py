# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""An event loop at rest, as a state: no turn of it makes a call into the kernel any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def settled(calls: Callable[[], int]) -> None:
    """Turn the loop until several turns in a row make no call into the kernel.

    Each turn polls the descriptors, so a wake-up that is due is taken in the next one. A loop
    that spins makes a call again and again, and never settles.

    Args:
        calls: how many calls there were so far.
    """
    before, quiet = calls(), 0
    for _ in range(200):
        await asyncio.sleep(0)
        now = calls()
        quiet = quiet + 1 if now == before else 0
        before = now
        if quiet == 10:
            return
    raise AssertionError("the loop does not stop making calls: it spins")
