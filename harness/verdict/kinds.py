# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The types of a verdict: kinds of faults, findings, rules, the verdict itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.recording.records import Context
from harness.verdict.ledger import Signal, Wait


class Kind(StrEnum):
    """The ways in which a wake-up can be wrong. OVERTAKEN is only a note, never a fault."""

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
    """One fault.

    ``wait`` is the number of the wait, 0 if none can be named; ``seq`` the number of
    the publication at fault, 0 if there is none; ``waker`` the thread that woke, or
    should have woken the wait, 0 if only the text names it.
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

    ``queue`` is its wait set, ``source`` the CQ in it. Each of ``messages``
    publications on that CQ must end one wait, in order.
    """

    name: str
    tid: int
    queue: int
    source: int
    messages: int


@dataclass(frozen=True, slots=True)
class Rules:
    """The promises of a run, which the recording does not contain.

    ``late_ns`` bounds signal to wake, which is the waker's own work.
    ``never_ran_ns`` bounds wake to running, which a busy machine may stretch.
    ``contexts`` are the contexts in which a waker may run, by queue or source; without
    an entry any context is allowed. Waits that began before ``since`` are known in
    part only: the signal that ended them may not have been recorded.
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
    wait that this event ended: the thread looks after that wait, and finds both.
    """

    signals: tuple[Signal, ...]
    waits: tuple[Wait | None, ...]

    @property
    def matched(self) -> int:
        """Messages with a wait."""
        return sum(wait is not None for wait in self.waits)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Findings, doubts, and the number of waits matched with the event that ended them.

    ``notes`` are findings that are no faults.
    """

    findings: tuple[Finding, ...]
    doubts: tuple[str, ...]
    matched: int
    notes: tuple[Finding, ...] = ()
    matches: Mapping[str, Match] = field(default_factory=dict)

    @property
    def overtaken(self) -> int:
        """Waits that were woken rightly, but found that another thread had read the entry."""
        return sum(note.kind is Kind.OVERTAKEN for note in self.notes)

    @property
    def outcome(self) -> Outcome:
        """Doubts come first, since a recording with gaps proves no fault."""
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
