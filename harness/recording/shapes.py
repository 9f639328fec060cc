# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The records' shapes: what each struct of ``records.h`` is in Python.

All times are nanoseconds of CLOCK_MONOTONIC; 0 means that it never happened.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar


class FClass(IntEnum):
    """Object classes, as the tracepoints number them."""

    FABRIC = 1
    DOMAIN = 2
    EP = 3
    PEP = 9
    AV = 11
    MR = 12
    EQ = 13
    CQ = 14
    CNTR = 15
    WAIT = 16
    POLL = 17
    PROFILE = 19
    CHANNEL = 24
    # Any wait queue of the kernel, seen by the functions that sleep and wake.
    QUEUE = 64


class Why(IntEnum):
    """Why a queue was signalled (``enum kfi_why``); 0: nothing was published."""

    NONE = 0
    EVENT = 1
    ERROR = 2
    OVERRUN = 3
    SIGNAL = 4
    LOST = 5
    HANDON = 6
    ACKED = 7
    CLOSED = 8


class Context(IntEnum):
    """Where the waker ran."""

    UNKNOWN = 0
    PROCESS = 1
    SOFTIRQ = 2
    HARDIRQ = 3


class Change(IntEnum):
    """What happened to an object or a membership."""

    NEW = 1
    FREE = 2
    ADD = 3
    DEL = 4


class Mark(IntEnum):
    """What a marked function of a module means: something came, or was taken."""

    PUBLISH = 1
    TAKE = 2


NO_STACK = -1
# Of WaitRecord.flags; the others are the kernel part's own.
EXCLUSIVE = 2


@dataclass(frozen=True, slots=True)
class WaitRecord:
    """One blocking call, from its begin to its return.

    One that had not returned when the recording stopped has ``t_end == 0``.
    ``seq`` to ``cpu`` describe its last wake; ``ended`` is the reason that the
    call itself gives for its end: 0 if no wake ended it. ``seen`` is the last
    publication that does not concern it. ``foreign`` counts how often the
    scheduler was asked to wake the thread by anything but a kfabric wake,
    ``kernel_wakes`` how often the kernel's wake function ran for it.
    """

    KIND: ClassVar[int] = 1
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II10Q3Ii3I12B")
    MEMBERS: ClassVar[str] = (
        "kind queue t_begin t_slept t_wake t_waking t_running t_end t_foreign seq need "
        "seen tid tgid source ret waker wakeup_ns foreign_tid fclass why ended context cpu "
        "ready sleeps wakes foreign foreign_context flags kernel_wakes"
    )

    queue: int
    t_begin: int
    tid: int
    tgid: int = 0
    fclass: int = FClass.WAIT
    t_slept: int = 0
    t_wake: int = 0
    t_waking: int = 0
    t_running: int = 0
    t_end: int = 0
    t_foreign: int = 0
    seq: int = 0
    need: int = 0
    seen: int = 0
    source: int = 0
    ret: int = 0
    waker: int = 0
    wakeup_ns: int = 0
    foreign_tid: int = 0
    why: int = 0
    ended: int = 0
    context: int = 0
    cpu: int = 0
    ready: int = 0
    sleeps: int = 0
    wakes: int = 0
    foreign: int = 0
    foreign_context: int = 0
    flags: int = 0
    kernel_wakes: int = 0

    @property
    def exclusive(self) -> bool:
        """Is one sleeper enough for a publication here?"""
        return bool(self.flags & EXCLUSIVE)


@dataclass(frozen=True, slots=True)
class SignalRecord:
    """A queue was signalled, with the sleepers that were found enqueued.

    ``seq`` numbers the publications on the queue; it is 0 for a wake-up that is
    none, such as one that a thread hands on.
    """

    KIND: ClassVar[int] = 2
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II3Q3I4B")
    MEMBERS: ClassVar[str] = "kind queue t seq have source sleepers waker why context cpu pad"

    queue: int
    t: int
    seq: int
    source: int = 0
    why: int = Why.EVENT
    have: int = 0
    sleepers: int = 0
    waker: int = 0
    context: int = 0
    cpu: int = 0


@dataclass(frozen=True, slots=True)
class WakeRecord:
    """A wake that is not the last one of its wait.

    The thread went back to sleep and was woken again before it returned, or
    (``t_begin == 0``) no wait of that thread was open.
    """

    KIND: ClassVar[int] = 3
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II5Q3I4B")
    MEMBERS: ClassVar[str] = (
        "kind queue t_begin t_wake t_waking t_running seq tid source waker why context cpu pad"
    )

    queue: int
    tid: int
    t_begin: int
    t_wake: int
    seq: int = 0
    t_waking: int = 0
    t_running: int = 0
    source: int = 0
    waker: int = 0
    why: int = 0
    context: int = 0
    cpu: int = 0


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """An object came or went, or joined or left a wait set.

    ``other`` is the parent of a new object, the set of a membership.
    """

    KIND: ClassVar[int] = 4
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<IIQIIII")
    MEMBERS: ClassVar[str] = "kind id t change fclass other tid"

    id: int
    t: int
    change: int
    fclass: int
    other: int = 0
    tid: int = 0


@dataclass(frozen=True, slots=True)
class MarkRecord:
    """A thread entered a function that publishes or takes what sleepers wait for.

    ``queue`` is 0 if the function does not tell whose event it is.
    """

    KIND: ClassVar[int] = 5
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<IIQIIi4B")
    MEMBERS: ClassVar[str] = "kind queue t tid tgid stack what context cpu pad"

    queue: int
    t: int
    tid: int
    what: int
    tgid: int = 0
    stack: int = NO_STACK
    context: int = 0
    cpu: int = 0


@dataclass(frozen=True, slots=True)
class StackRecord:
    """The kernel stacks of a wait: its sleeper's, and that of who woke it last.

    Stacks are numbers of :attr:`Recording.stacks`, or NO_STACK.
    """

    KIND: ClassVar[int] = 6
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<IIQIiiI")
    MEMBERS: ClassVar[str] = "kind queue t_begin tid sleeper waker pad"

    queue: int
    t_begin: int
    tid: int
    sleeper: int = NO_STACK
    waker: int = NO_STACK


@dataclass(frozen=True, slots=True)
class TallyRecord:
    """What was counted on a queue, told when the queue goes."""

    KIND: ClassVar[int] = 7
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<II4Q")
    MEMBERS: ClassVar[str] = "kind queue signals wakes begins ends"

    queue: int
    signals: int = 0
    wakes: int = 0
    begins: int = 0
    ends: int = 0


Record = (
    WaitRecord | SignalRecord | WakeRecord | ObjectRecord | MarkRecord | StackRecord | TallyRecord
)
