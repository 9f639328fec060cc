# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The gallery's entries, and the verdict that each of them must get.

The bugs themselves are in tests/gallery/kmod, one file each.
"""

from dataclasses import dataclass

from harness.verdict.kinds import Kind

SOFTIRQ = "softirq"
"""As a waker: any thread, since an interrupt may come while any thread runs."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One bug.

    Attributes:
        bug: the bug in words.
        story: words that the finding must contain.
        waiter: name of the thread that waits.
        waker: name of the thread that wakes; a trailing slash stands for all worker threads.
    """

    name: str
    bug: str
    story: str
    kind: Kind = Kind.LOST
    waiter: str = "waiter"
    waker: str = "waker"


_EARLY = "before it was on the queue"
_NO_CALL = "no wake call followed"
_KEPT = "took nothing and woke nobody"

ENTRIES = (
    Entry("check-then-enqueue", "checks, and only then enqueues", _EARLY),
    Entry("clear-after-check", "clears a sticky flag after the check", _EARLY),
    Entry(
        "mix-up",
        "sleeps exclusively on a queue of several conditions",
        "woke thread waiter-2",
        Kind.WRONG_WAITER,
    ),
    Entry("waitqueue-active", "checks for sleepers without a barrier", _NO_CALL),
    Entry("wake-before-publish", "wakes, and only then publishes", "before the publication"),
    Entry("baton-signal", "is woken, and leaves for a signal", _KEPT, Kind.NOT_HANDED_ON),
    Entry("baton-timeout", "is woken, and leaves at its deadline", _KEPT, Kind.NOT_HANDED_ON),
    Entry(
        "one-wake-for-two",
        "wakes one thread for two publications",
        "for 2 publications",
        waiter="waiter-2",
    ),
    Entry("wrong-queue", "wakes another queue, an empty one", "went to send_queue"),
    Entry(
        "wrong-waiter",
        "wakes another queue, with a sleeper on it",
        "went to write_queue",
        Kind.WRONG_WAITER,
    ),
    Entry("herd", "wakes three threads for one publication", "for one publication", Kind.HERD),
    Entry("not-rearmed", "does not arm its handler again", _NO_CALL),
    Entry("missed-report", "polls, arms, and does not poll again", _NO_CALL),
    Entry("spurious", "wakes with nothing published", "published nothing", Kind.SPURIOUS),
    Entry(
        "late",
        "leaves the wake-up to a delayed work item",
        "after that",
        Kind.LATE,
        waker="kworker/",
    ),
    Entry(
        "timer",
        "checks, and only then enqueues: a timer fires in between",
        "in softirq context",
        waker=SOFTIRQ,
    ),
    Entry("never-ran", "keeps the CPU of the thread that it has woken", "ran only", Kind.NEVER_RAN),
    Entry(
        "wake-then-store",
        "wakes before it publishes, both in one marked function",
        "either it came before the store",
    ),
    Entry("wrong-state", "wakes sleepers of another state", "this thread slept uninterruptibly"),
    Entry(
        "reinit",
        "initializes a completion again that was given already",
        "its count was 0 again",
    ),
)
BY_NAME = {entry.name: entry for entry in ENTRIES}

HEALTHY = (
    *("exclusive", "non-exclusive", "wake-all", "softirq", "interrupted", "timeout"),
    *("completion", "give"),
)
"""Kinds of healthy wake-ups."""
