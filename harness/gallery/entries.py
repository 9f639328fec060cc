# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The gallery's entries, and what must be said of each.

The bugs themselves are in tests/gallery/kmod, one file each.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.verdict.kinds import Kind

SOFTIRQ = "softirq"
"""As a waker: whatever thread the interrupt came upon."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One bug. ``waiter`` and ``waker`` are names of threads; ``story`` must be told."""

    name: str
    bug: str
    kind: Kind
    waiter: str
    waker: str
    story: str


ENTRIES = (
    Entry(
        "check-then-enqueue",
        "looks, and only then gets onto the queue",
        Kind.LOST,
        "waiter",
        "waker",
        "before it was on the queue",
    ),
    Entry(
        "clear-after-check",
        "clears a sticky flag after it has looked",
        Kind.LOST,
        "waiter",
        "waker",
        "before it was on the queue",
    ),
    Entry(
        "mix-up",
        "sleeps exclusively on a queue of several conditions",
        Kind.WRONG_WAITER,
        "waiter",
        "waker",
        "woke thread waiter-2",
    ),
    Entry(
        "waitqueue-active",
        "asks whether anybody sleeps, without a barrier",
        Kind.LOST,
        "waiter",
        "waker",
        "no wake call followed",
    ),
    Entry(
        "wake-before-publish",
        "wakes, and only then publishes",
        Kind.LOST,
        "waiter",
        "waker",
        "before the publication",
    ),
    Entry(
        "baton-signal",
        "is woken, and leaves for a signal",
        Kind.NOT_HANDED_ON,
        "waiter",
        "waker",
        "took nothing and woke nobody",
    ),
    Entry(
        "baton-timeout",
        "is woken, and leaves at its deadline",
        Kind.NOT_HANDED_ON,
        "waiter",
        "waker",
        "took nothing and woke nobody",
    ),
    Entry(
        "one-wake-for-two",
        "wakes one for two publications",
        Kind.LOST,
        "waiter-2",
        "waker",
        "for 2 publications",
    ),
    Entry(
        "wrong-queue",
        "wakes another queue, an empty one",
        Kind.LOST,
        "waiter",
        "waker",
        "went to send_queue",
    ),
    Entry(
        "wrong-waiter",
        "wakes another queue, and somebody on it",
        Kind.WRONG_WAITER,
        "waiter",
        "waker",
        "went to write_queue",
    ),
    Entry(
        "herd",
        "wakes three for one publication",
        Kind.HERD,
        "waiter",
        "waker",
        "for one publication",
    ),
    Entry(
        "not-rearmed",
        "does not arm its handler again",
        Kind.LOST,
        "waiter",
        "waker",
        "no wake call followed",
    ),
    Entry(
        "missed-report",
        "polls, arms, and does not poll again",
        Kind.LOST,
        "waiter",
        "waker",
        "no wake call followed",
    ),
    Entry(
        "spurious",
        "wakes with nothing published",
        Kind.SPURIOUS,
        "waiter",
        "waker",
        "published nothing",
    ),
    Entry(
        "late",
        "leaves the wake-up to a delayed work item",
        Kind.LATE,
        "waiter",
        "kworker/",
        "after that",
    ),
    Entry(
        "timer",
        "looks, and only then gets onto the queue: a timer comes between",
        Kind.LOST,
        "waiter",
        SOFTIRQ,
        "in softirq context",
    ),
    Entry(
        "never-ran",
        "keeps the CPU of the one it has woken",
        Kind.NEVER_RAN,
        "waiter",
        "waker",
        "ran only",
    ),
)
BY_NAME = {entry.name: entry for entry in ENTRIES}

HEALTHY = (
    "exclusive",
    "non-exclusive",
    "wake-all",
    "softirq",
    "interrupted",
    "timeout",
    "completion",
)
"""Kinds of healthy wake-ups."""
