# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Names wait queues: by their symbol, by a sleeper's function, or by a waker's."""

from __future__ import annotations

import re
from collections.abc import Sequence

# The kernel's functions above the one that waits or wakes.
_WAITING = re.compile(
    r"^(prepare_to_s?wait|__prepare_to_swait|add_wait_queue|do_wait_intr|wait_woken|"
    r"_*wait_for_common|wait_for_completion|out_of_line_wait_on|_*wait_on_bit|__pollwait|"
    r"_*wake_up|complete|swake_up|ep_ptable_queue_proc|pollwake|__pollwake|"
    r"autoremove_wake_function|default_wake_function)"
)


def function(frame: str) -> str:
    """A frame's function, without the offset: ``pipe_read``, ``rxe_poll [rdma_rxe]``."""
    name, _, module = frame.partition(" ")
    name = name.partition("+")[0]
    return f"{name} {module}" if module else name


def place(frames: Sequence[str]) -> str:
    """The function that waits or wakes: the innermost one outside the wait functions."""
    for frame in frames:
        if not _WAITING.match(frame):
            return function(frame)
    return function(frames[-1]) if frames else ""


def queue_name(
    variable: str,
    sleeper: Sequence[str] = (),
    waker: Sequence[str] = (),
    *,
    completion: bool = False,
    on_stack: bool = False,
) -> str:
    """Name a queue.

    Args:
        variable: The symbol that contains it, or empty.
        sleeper: The frames of a thread that slept on it, innermost first.
        waker: The frames of a thread that woke it.
        completion: It belongs to a completion.
        on_stack: It is on a stack.
    """
    kind = "completion" if completion else "queue"
    if variable:
        return f"{variable} ({kind})" if completion else variable
    if sleeper:
        where = "on the stack of" if on_stack else "slept on in"
        return f"{kind} {where} {place(sleeper)}"
    if waker:
        return f"{kind} woken in {place(waker)}"
    return f"unknown {kind}"
