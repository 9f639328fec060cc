# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compares what was found with what must be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import ExitStatus
from harness.gallery.cut import Cut, Play
from harness.gallery.entries import SOFTIRQ, Entry
from harness.recording.records import Recording
from harness.verdict.kinds import Finding, Verdict
from harness.verdict.ledger import Ledger, build
from harness.verdict.queues import QueueRules, judge
from harness.verdict.verdict import judge as judge_wait_sets

# The entry hogs a CPU for longer; a busy host may stretch it in the others.
_RULES = QueueRules(marked=True, never_ran_ns=1_000_000_000)
# Unstepped, a thread may be anywhere when a busy host stops the guest for a while. A
# wake-up has as long as the sleeper has patience: without it, the wait is lost.
_HEALTHY = QueueRules(late_ns=10_000_000_000, never_ran_ns=10_000_000_000)


@dataclass(frozen=True, slots=True)
class Sums:
    """How much a play was. ``foreign`` wakes came past the queue: by a timer, say."""

    waits: int
    slept: int
    calls: int
    wakes: int
    foreign: int

    @classmethod
    def of(cls, ledger: Ledger) -> Sums:
        """Count a ledger."""
        queues = ledger.queues.values()
        return cls(
            waits=sum(len(queue.waits) for queue in queues),
            slept=sum(wait.slept for queue in queues for wait in queue.waits),
            calls=sum(len(queue.every_signal()) for queue in queues),
            wakes=sum(len(queue.all_wakes()) for queue in queues),
            foreign=sum(wait.record.foreign for queue in queues for wait in queue.waits),
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """One play with its verdict; ``complaints`` says what is wrong with that."""

    play: Play
    cut: Cut | None
    sums: Sums
    verdict: Verdict
    complaints: tuple[str, ...] = ()
    waiter: str = ""
    waker: str = ""

    @property
    def status(self) -> ExitStatus:
        """What a play adds to the exit status."""
        if self.verdict.doubts:
            return ExitStatus.NOT_VERIFIED
        if not self.complaints:
            return ExitStatus.OK
        # An alarm where there is nothing is worse than a bug that is misnamed.
        return ExitStatus.TEST_FAILED if self.play.what == "buggy" else ExitStatus.FAULT_FOUND


def examine(play: Play, cut: Cut, entry: Entry | None = None) -> Judged:
    """Judge a play. With an entry: the buggy one, which must be named so."""
    ledger = build(cut.recording())
    sums = Sums.of(ledger)
    verdict = judge(ledger, _RULES if entry else _HEALTHY)
    doubts = [f"not verified: {doubt}" for doubt in verdict.doubts]
    doubts += ["its stepping got stuck"] if play.stuck else []
    if entry is None or play.what != "buggy":
        alarms = [f"false alarm: {finding}" for finding in verdict.findings]
        return Judged(play, cut, sums, verdict, tuple(doubts + alarms))
    if not verdict.findings:
        return Judged(play, cut, sums, verdict, (*doubts, "nothing was found"))
    first = verdict.findings[0]
    waiter, waker = ledger.threads.get(first.tid, "?"), _waker(ledger, first)
    complaints = doubts + list(_mismatches(verdict.findings, entry, waiter, waker))
    return Judged(play, cut, sums, verdict, tuple(complaints), waiter, waker)


def examine_mock(play: Play, recording: Recording) -> Judged:
    """Judge kfabric's own wait sets, by their own rules."""
    ledger = build(recording)
    verdict = judge_wait_sets(ledger)
    complaints = [f"not verified: {doubt}" for doubt in verdict.doubts]
    complaints += [f"false alarm: {finding}" for finding in verdict.findings]
    return Judged(play, None, Sums.of(ledger), verdict, tuple(complaints))


def _waker(ledger: Ledger, finding: Finding) -> str:
    """The waker's name; in an interrupt its thread is a chance acquaintance."""
    if f"{ledger.thread_name(finding.waker)} in softirq context" in finding.text:
        return SOFTIRQ
    return ledger.threads.get(finding.waker, "?")


def _mismatches(findings: Sequence[Finding], entry: Entry, waiter: str, waker: str) -> list[str]:
    """What is not as it must be."""
    first = findings[0]
    wrong = [f"one too many: {finding}" for finding in findings[1:]]
    if first.kind is not entry.kind:
        wrong.append(f"{first.kind} instead of {entry.kind}")
    if waiter != entry.waiter:
        wrong.append(f"waiter {waiter} instead of {entry.waiter}")
    # A name that ends in a slash stands for all worker threads.
    if not (waker == entry.waker or (entry.waker[-1] == "/" and waker.startswith(entry.waker))):
        wrong.append(f"waker {waker} instead of {entry.waker}")
    if entry.story not in first.text:
        wrong.append(f"the story does not say {entry.story!r}: {first.text}")
    return wrong


def status(judged: Sequence[Judged]) -> ExitStatus:
    """The exit status of all: doubts first, then alarms, then misnamed bugs."""
    found = {one.status for one in judged}
    for worst in (ExitStatus.NOT_VERIFIED, ExitStatus.FAULT_FOUND, ExitStatus.TEST_FAILED):
        if worst in found:
            return worst
    return ExitStatus.OK
