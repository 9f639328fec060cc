# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The words in which a verdict describes waits, events and outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass

from kfabric.recording.records import Context, Ender, EnderRecord, Why
from kfabric.verdict.kinds import Finding, Kind, Rules
from kfabric.verdict.ledger import Ledger, Queue, Signal, Wait

_WHY_NAMES: Mapping[int, str] = {
    Why.NONE: "nothing published",
    Why.EVENT: "event",
    Why.ERROR: "error",
    Why.OVERRUN: "overrun",
    Why.SIGNAL: "signal call",
    Why.LOST: "device loss",
    Why.HANDON: "handed on",
    Why.ACKED: "last ack",
    Why.CLOSED: "close",
}

_ENDER_WORDS: Mapping[int, str] = {
    Ender.HOLDER: "held it",
    Ender.READER: "was its last known reader",
    Ender.STOP: "was asked to stop",
    Ender.PARK: "was asked to park",
    Ender.WORK: "ran the work item",
}
# Without a thread.
_NO_ENDER_WORDS: Mapping[int, str] = {
    Ender.WORK: "no thread was seen to run the work item",
    Ender.RCU: "the grace period had not ended",
}

_CONTEXT_NAMES: Mapping[int, str] = {
    Context.PROCESS: "process context",
    Context.SOFTIRQ: "softirq context",
    Context.HARDIRQ: "hard interrupt context",
}


def context_name(context: int) -> str:
    """The words for a waker's context."""
    return _CONTEXT_NAMES.get(context, "unknown context")


# The kernel's numbers, which are the same in all its versions.
_INTERRUPTIBLE, _UNINTERRUPTIBLE, _WAKEKILL = 1, 2, 0x100


def passed_over(call: Signal, wait: Wait) -> str:
    """Why a wake call passed over a sleeper by its state, in words; empty if it did not."""
    mode, state = call.record.mode, wait.record.state
    if not mode or not state or mode & state:
        return ""
    return f"it asked for {_asked(mode)} sleepers, and this thread slept {_slept(state)}"


def _asked(mode: int) -> str:
    if mode & _WAKEKILL:
        return "killable"
    return {_INTERRUPTIBLE: "interruptible", _UNINTERRUPTIBLE: "uninterruptible"}.get(
        mode, f"state {mode:#x}"
    )


def _slept(state: int) -> str:
    if state & _INTERRUPTIBLE:
        return "interruptibly"
    if state & _UNINTERRUPTIBLE:
        return "killably" if state & _WAKEKILL else "uninterruptibly"
    return f"in state {state:#x}"


def ms(ns: int) -> str:
    """Nanoseconds as milliseconds."""
    return f"{ns / 1e6:.1f} ms"


def how_it_ended(wait: Wait, since: int) -> str:
    """How a wait ended that was not woken at ``since`` (nanoseconds)."""
    rec = wait.record
    if not wait.finished:
        return "it never returned"
    after = ms(rec.t_end - since)
    if wait.timed_out:
        return f"it timed out {after} later"
    if wait.unaided:
        return f"only its deadline ended it, {after} later"
    return f"another publication ({rec.seq}) ended it {after} later"


@dataclass(frozen=True, slots=True)
class Analysis:
    """A ledger and its rules, with the words for findings."""

    ledger: Ledger
    rules: Rules

    def object(self, oid: int) -> str:
        """An object, with the name that the run gave it."""
        return self.ledger.object_name(oid, self.rules.names)

    def wait(self, queue: Queue, wait: Wait) -> str:
        """A wait, by its number."""
        thread = self.ledger.thread_name(wait.record.tid)
        return f"wait {wait.number} of {thread} on {self.object(queue.id)}"

    def event(self, signal: Signal) -> str:
        """A signal: its number, its reason and its object."""
        rec = signal.record
        what = _WHY_NAMES.get(rec.why, f"reason {rec.why}")
        number = f"publication {rec.seq}" if rec.seq else "wake-up"
        return f"{number} ({what} on {self.object(rec.source)})"

    def waker(self, tid: int, context: int) -> str:
        """The waking thread, and its context."""
        return f"{self.ledger.thread_name(tid)} in {context_name(context)}"

    def ender(self, ender: EnderRecord) -> str:
        """The thread that could end a wait, and why it could."""
        if not ender.ender:
            return _NO_ENDER_WORDS[ender.what]
        return f"{self.ledger.thread_name(ender.ender)} {_ENDER_WORDS[ender.what]}"

    def of_wait(
        self, kind: Kind, queue: Queue, wait: Wait, text: str, seq: int = 0, waker: int = 0
    ) -> Finding:
        """A finding about a wait; its text begins with the name of the wait."""
        text = f"{self.wait(queue, wait)} {text}"
        return Finding(kind, queue.id, text, wait.record.tid, wait.number, seq, waker)
