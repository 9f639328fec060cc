# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Words for the numbers in records; an unknown number is shown as it is."""

from functools import cache

from kfabric.recording.records import Context, Why


@cache
def why_name(why: int) -> str:
    """The reason for a signal."""
    return Why(why).name.lower() if why in list(Why) else str(why)


@cache
def context_name(context: int) -> str:
    """The context of a waker."""
    return Context(context).name.lower() if context in list(Context) else str(context)


def duration(ns: int) -> str:
    """Nanoseconds, in the unit that suits them."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 1000)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns} ns"


def counted(count: int, noun: str) -> str:
    """A count with its noun: ``1 finding``, ``2,000 waits``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def short_name(name: str) -> str:
    """A queue's name without its module: ``ulog_wq`` for ``ulog_wq [ulog]``."""
    return name.partition(" [")[0]


def thread(name: str) -> str:
    """A thread as the ledger names it, without the word before a name: ``reader/812``."""
    return name.removeprefix("thread ") if "/" in name else name
