# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Stops of publishers at delay hook D3, which the fixture ``mock`` notes.

At D3 an entry is stored and not announced yet. A reader that looks at its deadline finds
the entry, and the recording has no event for it. Nothing in the recording distinguishes
that from a lost wake-up, so what a stop can explain is not judged.
"""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kfabric.verdict.kinds import Finding, Kind, Verdict
from kfabric.verdict.ledger import Ledger
from kfabric.verdict.story import waits_of_finding

PUBLISHERS = "D3"
_KINDS = frozenset((Kind.TIMEOUT_READY, Kind.NOT_HANDED_ON))
_KEPT = 100


@dataclass(slots=True)
class Hold:
    """From arming a hook on an object (0: on any) to the release; ``end`` is 0 until then."""

    hook: str
    object: int
    begin: int
    end: int = 0

    def over(self) -> None:
        """The thread was released, or the hook was disarmed."""
        self.end = self.end or time.monotonic_ns()

    def touches(self, begin: int, end: int) -> bool:
        """Was any of this time within it?"""
        return self.begin <= end and (not self.end or begin <= self.end)


_holds: deque[Hold] = deque(maxlen=_KEPT)


def note(hook: str, oid: int) -> Hold:
    """A hook is armed now."""
    hold = Hold(hook, oid, time.monotonic_ns())
    _holds.append(hold)
    return hold


def without_held(ledger: Ledger, verdict: Verdict, holds: Iterable[Hold] = _holds) -> Verdict:
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
