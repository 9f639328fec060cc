# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The types of a verdict: kinds of faults, findings, rules, the verdict itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kfabric.errors import counted
from kfabric.recording.records import Context
from kfabric.verdict.ledger import Signal, Wait

STILL_OPEN = "still open at the end"
"""Why a wait was not judged."""


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
    DEADLOCK = "deadlock"
    STUCK = "stuck"
    OVERTAKEN = "overtaken"


class Outcome(StrEnum):
    """The verdict in one word."""

    VERIFIED = "VERIFIED"
    FAULT = "FAULT"
    NOT_VERIFIED = "NOT VERIFIED"
    NOT_JUDGED = "NOT JUDGED"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault.

    ``wait`` is the number of the wait, 0 if none can be named; ``seq`` the number of
    the publication at fault, 0 if there is none; ``waker`` the thread that woke, or
    should have woken the wait, 0 if only the text names it. ``published`` is the time
    of the marked publication that the wait missed, 0 without one.
    """

    kind: Kind
    queue: int
    text: str
    tid: int = 0
    wait: int = 0
    seq: int = 0
    waker: int = 0
    published: int = 0

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
    ``stuck_ns`` bounds a wait of which it is known what would end it, such as the holder's
    unlock. ``contexts`` are the contexts in which a waker may run, by queue or source; without
    an entry any context is allowed. Waits that began before ``since`` are known in
    part only: the signal that ended them may not have been recorded.
    """

    sides: tuple[Side, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    late_ns: int = 500_000_000
    never_ran_ns: int = 5_000_000_000
    stuck_ns: int = 10_000_000_000
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
    """Findings, doubts, and the number of waits that were judged.

    Args:
        findings: The faults.
        doubts: Reasons why the recording has gaps, or not the marks that it needs.
        despite: The doubts concern only marks, and the findings need none.
        matched: Waits that were judged, whether right or wrong.
        notes: Findings that are no faults.
        matches: The messages of each side of a job.
        unaided: Of the ``matched`` waits those that no event ended, and rightly.
        past: Of the ``matched`` waits those whose thread was woken otherwise than by its queue.
        awake: Of the ``matched`` waits those whose thread did not sleep.
        unjudged: The numbers of waits that were not judged, by reason.
        odd: What was odd in these, by its name; no faults.
        missing: Marks that were never called: no gap, so a fault is still a fault.
        ended_by: The events that ended the waits that were judged.
        published: The calls of marked functions that publish, in words; empty without one.
    """

    findings: tuple[Finding, ...]
    doubts: tuple[str, ...]
    matched: int
    notes: tuple[Finding, ...] = ()
    matches: Mapping[str, Match] = field(default_factory=dict)
    unaided: int = 0
    past: int = 0
    awake: int = 0
    unjudged: Mapping[str, int] = field(default_factory=dict)
    odd: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    despite: bool = False
    ended_by: str = "the completion"
    published: str = ""

    @property
    def overtaken(self) -> int:
        """Waits that were woken rightly, but found that another thread had read the entry."""
        return sum(note.kind is Kind.OVERTAKEN for note in self.notes)

    @property
    def right(self) -> int:
        """Waits that were found right.

        With a fault or a gap it is 0: a finding names one wait, and may concern others.
        """
        return self.matched if self.outcome is Outcome.VERIFIED else 0

    @property
    def outcome(self) -> Outcome:
        """Doubts come first, since a recording with gaps proves no fault."""
        if self.doubts and not (self.despite and self.findings):
            return Outcome.NOT_VERIFIED
        if self.findings:
            return Outcome.FAULT
        if self.missing:
            return Outcome.NOT_VERIFIED
        return Outcome.VERIFIED if self.matched else Outcome.NOT_JUDGED

    def line(self) -> str:
        """The verdict as one line, which says what was judged and what was not."""
        if self.outcome is Outcome.NOT_VERIFIED:
            return f"NOT VERIFIED: {(*self.doubts, *self.missing)[0]}"
        if self.outcome is Outcome.FAULT:
            more = len(self.findings) - 1
            tail = f" (and {more} more)" if more else ""
            return f"{self.findings[0]}{tail}"
        text = self._judged() if self.matched else self._not_judged()
        return f"{self.outcome}: {text}"

    def lines(self, most: int = 10) -> list[str]:
        """The faults, then the doubts, each in a line, if there are any; else :meth:`line`."""
        if self.outcome is Outcome.FAULT:
            lines, what = list(map(str, self.findings)), "finding"
            lines += [f"{Outcome.NOT_VERIFIED}: {doubt}" for doubt in self.doubts]
        elif self.outcome is Outcome.NOT_VERIFIED:
            lines = [f"{self.outcome}: {doubt}" for doubt in (*self.doubts, *self.missing)]
            what = "reason"
        else:
            return [self.line()]
        more = len(lines) - most
        return [*lines[:most], f"... and {counted(more, f'more {what}')}"] if more > 0 else lines

    def _judged(self) -> str:
        total = self.matched + sum(self.unjudged.values())
        alone = {
            "ended by a limit or a signal, with nothing ready": self.unaided,
            "woken past the queue": self.past,
        }
        alone = {words: number for words, number in alone.items() if number}
        if self.unjudged:
            parts = (f"{self.matched} of {counted(total, 'wait')} judged", listed(alone))
            text = ", ".join(filter(None, parts)) + f"; not judged: {listed(self.unjudged)}"
            return text + (f"; {listed(self.odd)}" if self.odd else "")
        ended = total - sum(alone.values()) - self.awake
        if ended == total:
            each = "each " if total > 1 else ""
            return f"{counted(total, 'wait')}, {each}ended by {self.ended_by} it waited for"
        found = {f"ended by {self.ended_by} {pronoun(ended)} waited for": ended} if ended else {}
        found |= alone | ({"without a sleep": self.awake} if self.awake else {})
        return f"{counted(total, 'wait')}: {listed(found)}"

    def _not_judged(self) -> str:
        total = sum(self.unjudged.values())
        if not total and self.published:
            unseen = "a thread that slept before the trace began is not seen"
            return f"no wait was recorded, though {self.published}; {unseen}"
        if not total:
            return "no wait was recorded"
        reasons = next(iter(self.unjudged)) if len(self.unjudged) == 1 else listed(self.unjudged)
        return f"{counted(total, 'wait')} traced, {reasons}" + (
            f"; {listed(self.odd)}" if self.odd else ""
        )


def pronoun(waits: int) -> str:
    """The word for that many waits, or for what their threads did."""
    return "it" if waits == 1 else "they"


def listed(numbers: Mapping[str, int]) -> str:
    """Numbers with the words for them: ``2 ended by a timer, 1 never ended``."""
    return ", ".join(f"{number} {words}" for words, number in numbers.items())
