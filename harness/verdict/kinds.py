# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a verdict says: kinds of faults, findings, rules, the verdict itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.recording.records import Context
from harness.verdict.ledger import Signal, Wait


class Kind(StrEnum):
    """What can be wrong with a wake-up; OVERTAKEN is told, and is no fault."""

    LOST = "lost"
    SPURIOUS = "spurious"
    LATE = "late"
    HERD = "herd"
    WRONG_WAITER = "wrong waiter"
    TIMEOUT_READY = "ended by timeout though ready"
    NOT_HANDED_ON = "wake not handed on"
    NEVER_RAN = "woken but never ran"
    WRONG_CONTEXT = "waker in wrong context"
    ORDER = "not ended by its own completion"
    OVERTAKEN = "overtaken"


class Outcome(StrEnum):
    """The verdict in one word."""

    VERIFIED = "VERIFIED"
    FAULT = "FAULT"
    NOT_VERIFIED = "NOT VERIFIED"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. ``wait`` is the number of the wait, 0 if none can be named.

    ``seq`` is the number of the publication at fault, 0 if there is none; ``waker``
    is the thread that woke, or should have, 0 if the text alone names it.
    """

    kind: Kind
    queue: int
    text: str
    tid: int = 0
    wait: int = 0
    seq: int = 0
    waker: int = 0

    def __str__(self) -> str:
        return f"{self.kind.upper()}: {self.text}"


@dataclass(frozen=True, slots=True)
class Side:
    """One thread of a job that is woken once for each message.

    ``queue`` is its wait set, ``source`` the CQ in it; ``messages`` is how many
    publications on that CQ must each end one wait, in order.
    """

    name: str
    tid: int
    queue: int
    source: int
    messages: int


@dataclass(frozen=True, slots=True)
class Rules:
    """What the verdict cannot know by itself.

    ``late_ns`` bounds signal to wake, all of which is the waker's own doing.
    ``never_ran_ns`` bounds the scheduler's part, which a busy machine may stretch.
    ``contexts`` tells by queue or source where a waker may run; others may anywhere.
    Waits that began before ``since`` are known in part only: what may have ended
    them was perhaps not recorded.
    """

    sides: tuple[Side, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    late_ns: int = 500_000_000
    never_ran_ns: int = 5_000_000_000
    contexts: Mapping[int, frozenset[Context]] = field(default_factory=dict)
    since: int = 0


@dataclass(frozen=True, slots=True)
class Match:
    """One side's messages: for each the wait that it ended, None if it ended none.

    A message that came while its thread was awake for another event shares the
    wait that this event ended: the look behind it finds both.
    """

    signals: tuple[Signal, ...]
    waits: tuple[Wait | None, ...]

    @property
    def matched(self) -> int:
        """Messages with a wait."""
        return sum(wait is not None for wait in self.waits)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Findings, doubts and how many waits were matched with what ended them.

    ``notes`` are findings that are no faults.
    """

    findings: tuple[Finding, ...]
    doubts: tuple[str, ...]
    matched: int
    notes: tuple[Finding, ...] = ()
    matches: Mapping[str, Match] = field(default_factory=dict)

    @property
    def overtaken(self) -> int:
        """Waits that were woken rightly, and found that somebody else had read."""
        return sum(note.kind is Kind.OVERTAKEN for note in self.notes)

    @property
    def outcome(self) -> Outcome:
        """Doubts come first: a recording with gaps proves no fault either."""
        if self.doubts:
            return Outcome.NOT_VERIFIED
        return Outcome.FAULT if self.findings else Outcome.VERIFIED

    def line(self) -> str:
        """The verdict as one line."""
        if self.outcome is Outcome.NOT_VERIFIED:
            return f"NOT VERIFIED: {self.doubts[0]}"
        if self.outcome is Outcome.FAULT:
            more = len(self.findings) - 1
            tail = f" (and {more} more)" if more else ""
            return f"{self.findings[0]}{tail}"
        return f"VERIFIED: {self.matched} waits, each ended by the completion it waited for"
