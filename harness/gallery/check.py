# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compares the verdict on each run with the verdict that its entry must get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kfabric.errors import ExitStatus
from kfabric.gallery.cut import Cut, Run
from kfabric.gallery.entries import SOFTIRQ, UNKNOWN, Entry
from kfabric.recording.records import Recording
from kfabric.verdict.kinds import Finding, Verdict
from kfabric.verdict.ledger import Ledger, build
from kfabric.verdict.queues import QueueRules, judge
from kfabric.verdict.verdict import judge as judge_wait_sets

# The entry "never-ran" keeps a CPU for longer; a busy host may delay the others. Waits of
# which the end is known are open for at least 250 ms, until a signal or the verdict.
_RULES = QueueRules(marked=True, never_ran_ns=1_000_000_000, stuck_ns=200_000_000)
# A busy host may stop the guest while an unstepped thread is anywhere. The limit is the
# timeout of the sleepers: a wake-up that takes longer is a lost one.
_HEALTHY = QueueRules(late_ns=10_000_000_000, never_ran_ns=10_000_000_000)


def count(ledger: Ledger) -> Counter[str]:
    """Counts of a run; `foreign` wake-ups did not come through the queue, but by a timer, say."""
    sums: Counter[str] = Counter()
    for queue in ledger.queues.values():
        sums["waits"] += len(queue.waits)
        sums["slept"] += sum(wait.slept for wait in queue.waits)
        sums["calls"] += len(queue.every_signal())
        sums["wakes"] += len(queue.all_wakes())
        sums["foreign"] += sum(wait.record.foreign for wait in queue.waits)
    return sums


@dataclass(frozen=True, slots=True)
class Judged:
    """One run with its verdict, and the complaints about that verdict."""

    run: Run
    cut: Cut | None
    sums: Counter[str]
    verdict: Verdict
    complaints: tuple[str, ...] = ()
    waiter: str = ""
    waker: str = ""

    @property
    def status(self) -> ExitStatus:
        """The exit status for this run alone."""
        if self.verdict.doubts:
            return ExitStatus.NOT_VERIFIED
        if not self.complaints:
            return ExitStatus.OK
        # A false alarm is worse than a bug with the wrong name.
        return ExitStatus.TEST_FAILED if self.run.variant == "buggy" else ExitStatus.FAULT_FOUND


def examine(run: Run, cut: Cut, entry: Entry | None = None) -> Judged:
    """Judge a run; the buggy run of an entry must get the entry's verdict."""
    ledger = build(cut.recording())
    verdict = judge(ledger, _RULES if entry else _HEALTHY)
    complaints = [f"not verified: {doubt}" for doubt in verdict.doubts]
    complaints += ["its stepping got stuck"] if run.stuck else []
    waiter = waker = ""
    if entry is None or run.variant != "buggy":
        complaints += [f"false alarm: {finding}" for finding in verdict.findings]
    elif not verdict.findings:
        complaints.append("nothing was found")
    else:
        first = verdict.findings[0]
        waiter, waker = ledger.threads.get(first.tid, "?"), _waker(ledger, first)
        complaints += _mismatches(verdict.findings, entry, waiter, waker)
    return Judged(run, cut, count(ledger), verdict, tuple(complaints), waiter, waker)


def examine_mock(run: Run, recording: Recording) -> Judged:
    """Judge a run of kfabric's own wait sets, by their own rules."""
    ledger = build(recording)
    verdict = judge_wait_sets(ledger)
    complaints = [f"not verified: {doubt}" for doubt in verdict.doubts]
    complaints += [f"false alarm: {finding}" for finding in verdict.findings]
    return Judged(run, None, count(ledger), verdict, tuple(complaints))


def _waker(ledger: Ledger, finding: Finding) -> str:
    """The waker's name, if it is known; in interrupt context the current thread is unrelated."""
    if not finding.waker:
        return UNKNOWN
    if f"{ledger.thread_name(finding.waker)} in softirq context" in finding.text:
        return SOFTIRQ
    return ledger.threads.get(finding.waker, "?")


def _mismatches(findings: Sequence[Finding], entry: Entry, waiter: str, waker: str) -> list[str]:
    """The differences between the findings and the entry."""
    first = findings[0]
    wrong = [f"one too many: {finding}" for finding in findings[1:]]
    if first.kind is not entry.kind:
        wrong.append(f"{first.kind} instead of {entry.kind}")
    if waiter != entry.waiter:
        wrong.append(f"waiter {waiter} instead of {entry.waiter}")
    if not (waker == entry.waker or (entry.waker[-1] == "/" and waker.startswith(entry.waker))):
        wrong.append(f"waker {waker} instead of {entry.waker}")
    if entry.story not in first.text:
        wrong.append(f"the finding does not say {entry.story!r}: {first.text}")
    return wrong


def status(judged: Sequence[Judged]) -> ExitStatus:
    """The exit status of all: doubts first, then false alarms, then bugs with the wrong name."""
    found = {one.status for one in judged}
    for worst in (ExitStatus.NOT_VERIFIED, ExitStatus.FAULT_FOUND, ExitStatus.TEST_FAILED):
        if worst in found:
            return worst
    return ExitStatus.OK
