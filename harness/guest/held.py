# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Findings that the stop of a publisher can explain are not judged."""

from collections.abc import Iterable
from dataclasses import replace

from kfabric.guest.holds import PUBLISHERS, Hold, noted
from kfabric.verdict.kinds import Finding, Kind, Verdict
from kfabric.verdict.ledger import Ledger
from kfabric.verdict.story import waits_of_finding

_KINDS = frozenset((Kind.TIMEOUT_READY, Kind.NOT_HANDED_ON))


def without_held(ledger: Ledger, verdict: Verdict, holds: Iterable[Hold] = noted) -> Verdict:
    """The verdict without the findings that a held publisher explains; they become notes."""
    publishers = [hold for hold in holds if hold.hook == PUBLISHERS]
    held = [one for one in verdict.findings if _explained(ledger, one, publishers)]
    if not held:
        return verdict
    notes = tuple(
        replace(one, text=f"{one.text} (not judged: a publisher was held at hook {PUBLISHERS})")
        for one in held
    )
    rest = tuple(one for one in verdict.findings if one not in held)
    return replace(verdict, findings=rest, notes=(*verdict.notes, *notes))


def _explained(ledger: Ledger, finding: Finding, holds: Iterable[Hold]) -> bool:
    if finding.kind not in _KINDS:
        return False
    objects = {0, finding.queue, *ledger.members.get(finding.queue, ())}
    waits = [wait.record for wait in waits_of_finding(ledger, finding)]
    return any(
        hold.object in objects and hold.touches(rec.t_begin, rec.t_end or ledger.t_stop)
        for hold in holds
        for rec in waits
    )
