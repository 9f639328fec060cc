# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a wait queue is called: by its symbol, by who sleeps on it, by who wakes it."""

from __future__ import annotations

import re
from collections.abc import Sequence

# What a stack has above the function that one wants to know.
_WAITING = re.compile(
    r"^(prepare_to_s?wait|__prepare_to_swait|add_wait_queue|do_wait_intr|wait_woken|"
    r"_*wait_for_common|wait_for_completion|out_of_line_wait_on|_*wait_on_bit|__pollwait|"
    r"_*wake_up|complete|swake_up|ep_ptable_queue_proc|pollwake|__pollwake|"
    r"autoremove_wake_function|default_wake_function)"
)


def function(frame: str) -> str:
    """A frame's function, without the place in it: ``pipe_read``, ``rxe_poll [rdma_rxe]``."""
    name, _, module = frame.partition(" ")
    name = name.partition("+")[0]
    return f"{name} {module}" if module else name


def place(frames: Sequence[str]) -> str:
    """The function that waits or wakes: the innermost one that is not the kernel's means to it."""
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

    :param variable: the symbol that holds it; empty if none does.
    :param sleeper: frames of a thread that slept on it, innermost first.
    :param waker: frames of one that woke it.
    """
    kind = "completion" if completion else "queue"
    if variable:
        return f"{variable} ({kind})" if completion else variable
    if sleeper:
        where = "on the stack of" if on_stack else "slept on in"
        return f"{kind} {where} {place(sleeper)}"
    if waker:
        return f"{kind} woken in {place(waker)}"
    return f"{kind} of nobody"
