# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict: a pure function of the ledger, and of what the run promised.

Every fault names the wait, the object and the event that should have ended it.
A recording with gaps has no verdict at all, and neither has one of which its two
witnesses, the tracepoints and the kernel's own functions, tell different things.
"""

from __future__ import annotations

from harness.verdict.findings import CHECKS, find_overtaken, overtaken
from harness.verdict.kinds import Finding, Kind, Match, Outcome, Rules, Side, Verdict
from harness.verdict.ledger import Ledger
from harness.verdict.matching import match_side
from harness.verdict.views import differences
from harness.verdict.words import Court

__all__ = [
    "Finding",
    "Kind",
    "Match",
    "Outcome",
    "Rules",
    "Side",
    "Verdict",
    "judge",
    "overtaken",
]


def _faults(court: Court) -> list[Finding]:
    """All checks on all queues; one wait is accused once."""
    findings: list[Finding] = []
    accused: set[tuple[int, int, int]] = set()
    for check in CHECKS:
        for queue in court.ledger.queues.values():
            for finding in check(court, queue):
                who = (finding.queue, finding.tid, finding.wait)
                if finding.wait and who in accused:
                    continue
                accused.add(who)
                findings.append(finding)
    return findings


def _scheduler_doubts(court: Court) -> list[str]:
    """The independent witness: who was asleep runs again only if the scheduler woke it."""
    return [
        f"{court.wait(queue, wait)} was woken by us, but the scheduler saw no wake-up of it"
        for queue in court.ledger.queues.values()
        for wait in queue.waits
        if wait.record.wakes == 1
        and not wait.record.foreign
        and 0 < wait.record.t_slept < wait.record.t_wake
        and wait.record.t_running
        and not wait.record.t_waking
    ]


def judge(ledger: Ledger, rules: Rules | None = None) -> Verdict:
    """Judge a ledger. Without ``rules.sides`` every finished wait counts as matched."""
    court = Court(ledger, rules or Rules())
    findings = _faults(court)
    doubts = [*ledger.doubts, *differences(court), *_scheduler_doubts(court)]
    matches = {}
    for side in court.rules.sides:
        queue = ledger.queues.get(side.queue)
        if queue is None:
            doubts.append(f"{side.name}: the probe saw no wait at all")
            continue
        quiet = any(f.wait for f in findings if f.queue == side.queue)
        matches[side.name], more = match_side(court, queue, side, quiet)
        findings += more
    if court.rules.sides:
        matched = sum(match.matched for match in matches.values())
    else:
        matched = sum(wait.finished for queue in ledger.queues.values() for wait in queue.waits)
    return Verdict(
        findings=tuple(findings),
        doubts=tuple(doubts),
        matched=matched,
        notes=tuple(
            note for queue in ledger.queues.values() for note in find_overtaken(court, queue)
        ),
        matches=matches,
    )
