# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The gallery's entries, and the verdict that each of them must get.

The bugs themselves are in tests/gallery/kmod, one file each.
"""

from dataclasses import dataclass

from kfabric.verdict.kinds import Kind

SOFTIRQ = "softirq"
"""As a waker: any thread, since an interrupt may come while any thread runs."""

UNKNOWN = "?"
"""As a waker: no thread is known."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One bug.

    Attributes:
        bug: the bug in words.
        story: words that the finding must contain.
        waiter: name of the thread that waits.
        waker: name of the thread that wakes; a trailing slash stands for all worker threads.
        realtime: is it a bug with PREEMPT_RT, too?
    """

    name: str
    bug: str
    story: str
    kind: Kind = Kind.LOST
    waiter: str = "waiter"
    waker: str = "waker"
    realtime: bool = True


_EARLY = "before it was on the queue"
_NO_CALL = "no wake call followed"
_STATE = "its state was set after its last look"
_SLEPT = "held it, which slept in wait 1 of thread waker"
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
    Entry("both-sleep", "sleeps since another thread waits, which does the same", _EARLY),
    Entry("second-queue", "is woken on one queue, and enqueues on another", _STATE),
    Entry("late-state", "sets its state after its last look", _STATE),
    Entry(
        "woken-twice",
        "stays on the queue, and gets the wake-ups of two items",
        "which had been woken already",
        waiter="waiter-2",
    ),
    Entry("moved-on", "is woken, and waits on another queue", _KEPT, Kind.NOT_HANDED_ON),
    Entry("emptied-queue", "wakes a queue that has just become empty", "went to queue_a"),
    Entry("stale-batch", "counts the items that an old batch lacks", _NO_CALL),
    Entry("throttle", "wakes only if a level is high, and it has fallen", _NO_CALL),
    Entry("last-close", "wakes one of several for the end", _KEPT, Kind.NOT_HANDED_ON),
    Entry(
        "old-threshold",
        "wakes at the amount of a sleeper that has left",
        "published nothing",
        Kind.SPURIOUS,
    ),
    Entry("half-condition", "wakes for half of a condition", "went to other_queue"),
    Entry("mutex-kept", "sleeps for something else with a mutex", _SLEPT, Kind.STUCK),
    Entry("mutex-exit", "exits with a mutex", "held it, which had exited", Kind.STUCK),
    Entry("rwsem-kept", "sleeps for something else with a semaphore", _SLEPT, Kind.STUCK),
    Entry("rt-mutex-kept", "sleeps for something else with an rt_mutex", _SLEPT, Kind.STUCK),
    Entry(
        "reader-writer-reader",
        "locks for reading again while a writer waits",
        "was its last known reader, which slept in wait 1 of thread waker",
        Kind.STUCK,
        realtime=False,
    ),
    Entry(
        "lock-order",
        "takes two locks in the other order",
        "which waits on order_a [gallery]",
        Kind.DEADLOCK,
    ),
    Entry("swait-early", "checks, and only then enqueues on a simple wait queue", _EARLY),
    Entry("bit-not-woken", "clears a bit and does not wake", "on bit 3 of busy_word"),
    Entry("wrong-variable", "wakes another variable", "went to sent_items"),
    Entry("folio-late", "unlocks a folio long after its work", "on folio lock", Kind.LATE),
    Entry(
        "work-blocked",
        "queues an item after one that waits for it",
        "ran work item question_item [gallery] there, which slept in wait 1",
        Kind.STUCK,
        waker="kworker/",
    ),
    Entry("timer-deleted", "deletes the timer of a pending item", "deleted its timer", Kind.STUCK),
    Entry(
        "stop-ignored",
        "does not look whether it should stop",
        "was asked to stop, which slept in wait 1 of thread target",
        Kind.STUCK,
        waker="target",
    ),
    Entry(
        "park-ignored",
        "does not look whether it should park",
        "was asked to park, which slept in wait 1 of thread target",
        Kind.STUCK,
        waker="target",
    ),
    Entry(
        "long-reader",
        "sleeps as a reader of RCU",
        "on RCU grace period",
        Kind.STUCK,
        waker=UNKNOWN,
    ),
    Entry(
        "wake-then-store",
        "wakes before it publishes, both in one marked function",
        "either it came before the store",
    ),
    Entry("wrong-state", "wakes sleepers of another state", "this thread slept uninterruptibly"),
    Entry(
        "reinit",
        "initializes a completion again that was given already",
        "raised the completion's count from 0 to 1",
    ),
)
BY_NAME = {entry.name: entry for entry in ENTRIES}

RACES = (
    *("check-then-enqueue", "clear-after-check", "waitqueue-active", "wake-before-publish"),
    *("missed-report", "timer", "both-sleep", "second-queue", "late-state", "swait-early"),
    *("wake-then-store", "reinit"),
)
"""Bugs that also show by chance, in runs in which the threads do not step each other."""

HEALTHY = (
    *("exclusive", "non-exclusive", "wake-all", "batch", "chain", "two-queues", "softirq"),
    *("interrupted", "timeout", "completion", "locks", "swait", "bit", "give"),
)
"""Kinds of healthy wake-ups in the gallery's module."""

MOCK_NAME = "kfi_wait"
"""The kind of healthy wake-ups of kfabric's own wait sets."""

KINDS = (*HEALTHY, MOCK_NAME)
