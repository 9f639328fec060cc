# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict: a pure function of the ledger and of the rules of the run.

Every fault names the wait, the object and the event that should have ended it.
A recording with gaps has no verdict. Wakes are recorded twice: by our tracepoints, and
by the kernel's own wait functions, which know neither queues nor publications. If the
two views differ, there is no verdict either.
"""

from collections import defaultdict
from collections.abc import Iterator

from kfabric.verdict.findings import CHECKS, find_overtaken, overtaken
from kfabric.verdict.kinds import (
    STILL_OPEN,
    Finding,
    Kind,
    Match,
    Outcome,
    Rules,
    Side,
    Verdict,
)
from kfabric.verdict.ledger import Ledger, Wait
from kfabric.verdict.matching import match_side
from kfabric.verdict.words import Analysis

__all__ = ["Finding", "Kind", "Match", "Outcome", "Rules", "Side", "Verdict", "judge", "overtaken"]


def _faults(analysis: Analysis) -> list[Finding]:
    """All checks on all queues, with at most one finding for each wait."""
    findings: list[Finding] = []
    reported: set[tuple[int, int, int]] = set()
    for check in CHECKS:
        for queue in analysis.ledger.queues.values():
            for finding in check(analysis, queue):
                wait = (finding.queue, finding.tid, finding.wait)
                if finding.wait and wait in reported:
                    continue
                reported.add(wait)
                findings.append(finding)
    return findings


def _unseen_wakeups(analysis: Analysis) -> Iterator[str]:
    """Wakes of sleeping threads of which the scheduler's events show nothing."""
    for queue, wait in analysis.ledger.waits():
        rec = wait.record
        asleep = 0 < rec.t_slept < rec.t_wake
        if rec.wakes == 1 and not rec.foreign and asleep and rec.t_running and not rec.t_waking:
            yield (
                f"{analysis.wait(queue, wait)} was woken by us, but the scheduler "
                "saw no wake-up of it"
            )


def _differences(analysis: Analysis) -> Iterator[str]:
    """Wakes within waits of which the tracepoints and the kernel's functions differ."""
    ledger = analysis.ledger
    for queue in ledger.queues.values():
        sums: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        for wait in queue.waits:
            rec = wait.record
            if rec.wakes != rec.kernel_wakes and not _in_flight(analysis, wait):
                sums[rec.tid][0] += rec.wakes
                sums[rec.tid][1] += rec.kernel_wakes
        for tid, (ours, kernels) in sums.items():
            yield (
                f"the two views differ: the tracepoints saw {ours} wakes of "
                f"{ledger.thread_name(tid)} on {analysis.object(queue.id)}, the kernel's "
                f"wait functions {kernels}"
            )


def _in_flight(analysis: Analysis, wait: Wait) -> bool:
    """May the kernel's wake function still have to run? It runs after the tracepoint."""
    rec = wait.record
    recent = analysis.ledger.t_stop - rec.t_wake <= analysis.rules.late_ns
    return not wait.finished and recent and rec.wakes == rec.kernel_wakes + 1


def _differences_outside(analysis: Analysis, strays: dict[int, tuple[int, int]]) -> Iterator[str]:
    """The same for threads that were in no wait; ``strays`` are the kernel's counts."""
    ledger = analysis.ledger
    ours: defaultdict[int, int] = defaultdict(int)
    for queue in ledger.queues.values():
        for wake in queue.strays:
            ours[wake.tid] += 1
    for tid in sorted(set(ours) | set(strays)):
        wakes, sleeps = strays.get(tid, (0, 0))
        if wakes != ours[tid]:
            yield (
                f"the two views differ: outside any wait the tracepoints saw {ours[tid]} wakes of "
                f"{ledger.thread_name(tid)}, the kernel's wait functions {wakes}"
            )
        if sleeps:
            yield (
                f"the two views differ: {ledger.thread_name(tid)} slept {sleeps} times in "
                "the module, as the kernel saw, and the tracepoints reported no wait"
            )


def judge(ledger: Ledger, rules: Rules | None = None) -> Verdict:
    """Judge a ledger. Without ``rules.sides`` every finished wait counts as matched."""
    analysis = Analysis(ledger, rules or Rules())
    findings = _faults(analysis)
    doubts = list(ledger.doubts)
    if ledger.kernel is not None:
        doubts += _differences(analysis)
        doubts += _differences_outside(analysis, dict(ledger.kernel.strays))
    doubts += _unseen_wakeups(analysis)
    matches = {}
    for side in analysis.rules.sides:
        queue = ledger.queues.get(side.queue)
        if queue is None:
            doubts.append(f"{side.name}: the probe saw no wait at all")
            continue
        faulty = any(f.wait for f in findings if f.queue == side.queue)
        matches[side.name], more = match_side(analysis, queue, side, faulty)
        findings += more
    if analysis.rules.sides:
        matched = sum(match.matched for match in matches.values())
        unaided = still_open = 0
    else:
        waits = [wait for _, wait in ledger.waits()]
        matched = sum(wait.finished for wait in waits)
        unaided = sum(wait.finished and not wait.succeeded for wait in waits)
        still_open = len(waits) - matched
    queues = ledger.queues.values()
    notes = tuple(note for queue in queues for note in find_overtaken(analysis, queue))
    return Verdict(
        tuple(findings),
        tuple(doubts),
        matched,
        notes,
        matches,
        unaided=unaided,
        unjudged={STILL_OPEN: still_open} if still_open else {},
    )
