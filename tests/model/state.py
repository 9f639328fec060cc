# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the model knows of each object: plain data, and what follows from it alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

#: Where one waits for an object: a wait object of its own, the set's, or nowhere.
OWN = ("UNSPEC", "FD", "MUTEX_COND")
NONE = "NONE"


@dataclass
class Source:
    """A CQ, an EQ or a counter.

    Attributes:
        place: UNSPEC, FD or MUTEX_COND: a wait object of its own; NONE; or a set's name.
    """

    name: str
    place: str

    @property
    def set(self) -> str | None:
        """The wait set that it is in (W7)."""
        return None if self.place in (*OWN, NONE) else self.place

    @property
    def queue(self) -> str | None:
        """Where threads sleep that wait for it: its own name or that of its set."""
        return None if self.place == NONE else self.set or self.name

    @property
    def left(self) -> int:
        """How much of it is unread."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """W1: is it ready for a wait set?"""
        return self.left > 0

    def copy(self) -> Source:
        """Return one that changes on its own."""
        return replace(self)


@dataclass
class Stored:
    """One entry of a queue: a success with its number, or an error."""

    serial: int
    error: bool


@dataclass
class Queue(Source):
    """What a CQ and an EQ have in common: a bounded queue of entries and errors (Q2)."""

    size: int
    stored: list[Stored] = field(default_factory=list)
    overrun: bool = False

    @property
    def left(self) -> int:
        """Entries and errors, and the state of overrun behind them."""
        return len(self.stored) + self.overrun

    @property
    def full(self) -> bool:
        """Does the next entry overrun it?"""
        return self.overrun or len(self.stored) == self.size

    def empty_answer(self) -> str | None:
        """Q2: why nothing can be read; overrun comes behind the last stored entry."""
        if self.stored:
            return "EAVAIL" if self.stored[0].error else None
        return "EOVERRUN" if self.overrun else "EAGAIN"

    def copy(self) -> Queue:
        """Return one that changes on its own."""
        return replace(self, stored=list(self.stored))


@dataclass
class Cq(Queue):
    """A completion queue; `threshold`: opened with KFI_CQ_COND_THRESHOLD (Q4)."""

    threshold: bool = False


@dataclass
class Eq(Queue):
    """An event queue."""


@dataclass
class Cntr(Source):
    """A counter. "Changed" is a number of changes, never a comparison of values (V9)."""

    value: int = 0
    errors: int = 0
    value_changes: int = 0
    error_changes: int = 0
    value_read: int = 0
    error_read: int = 0

    @property
    def changes(self) -> int:
        """P1: completions, errors, adderr and seterr."""
        return self.value_changes + self.error_changes

    @property
    def left(self) -> int:
        """W1: which of the two numbers has changes that were not read."""
        return (self.value_read != self.value_changes) + (self.error_read != self.error_changes)


@dataclass
class WaitSet:
    """A wait set; `turns`: threads that were woken and owe a read or a wait (W3)."""

    name: str
    place: str
    exclusive: bool
    turns: list[str] = field(default_factory=list)

    def copy(self) -> WaitSet:
        """Return one that changes on its own."""
        return replace(self, turns=list(self.turns))


@dataclass
class Member:
    """One object in one poll set.

    Attributes:
        mark: of a counter: its change number when this set last reported it.
        passed_by: those that were reported while this one was ready and had to wait.
    """

    mark: int = 0
    passed_by: frozenset[str] = frozenset()


@dataclass
class PollSet:
    """A poll set."""

    name: str
    members: dict[str, Member] = field(default_factory=dict)

    def copy(self) -> PollSet:
        """Return one that changes on its own."""
        members = {name: replace(member) for name, member in self.members.items()}
        return replace(self, members=members)


@dataclass
class Endpoint:
    """What completions are reported to."""

    name: str
    cq: str
    cntr: str | None

    def copy(self) -> Endpoint:
        """Return one that changes on its own."""
        return replace(self)


@dataclass
class Call:
    """A blocking call that has not returned.

    Attributes:
        kind: wait, cq_sread, eq_sread or cntr_wait.
        subject: what it waits for.
        queue: where it sleeps.
        need: how much has to be there to wake it; 0 for a wait set.
        state: awake, asleep; or has looked, and is about to take.
        woken: a wake-up is what made it awake.
        have: how much there was when it was woken.
        signalled: its CQ was signalled during the call.
        count: of cq_sread: most entries wanted.
        peek: of eq_sread: it consumes nothing.
        errors: of cntr_wait: the counter's error changes when it began.
    """

    kind: str
    thread: str
    subject: str
    queue: str
    need: int = 0
    state: Literal["awake", "asleep", "taking"] = "awake"
    woken: bool = False
    have: int = 0
    signalled: bool = False
    count: int = 0
    peek: bool = False
    errors: int = 0

    def copy(self) -> Call:
        """Return one that changes on its own."""
        return replace(self)


@dataclass
class Wake:
    """What one publication tells one queue of sleepers.

    Attributes:
        queue: the queue.
        have: how much its source has now, for waiters with a threshold.
        everyone: whatever their thresholds, and not one at a time.
    """

    queue: str | None
    have: int
    everyone: bool


Object = Any
