# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""From what the guest left to verdict and table. Pure but for reading the files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.demo.job import Account, Part
from harness.recording import HEAD, RECORDS
from harness.recording.records import FClass, Recording, from_guest
from harness.verdict.ledger import Ledger, build
from harness.verdict.stats import Row, row
from harness.verdict.verdict import Finding, Rules, Side, Verdict, judge


@dataclass(frozen=True, slots=True)
class Judged:
    """Everything that there is to show of a run."""

    account: Account
    ledger: Ledger
    rules: Rules
    verdict: Verdict
    tables: tuple[tuple[str, tuple[Row, ...]], ...]

    @property
    def complaints(self) -> list[str]:
        """What the players say went wrong."""
        return [
            f"{player.name}: {player.error}"
            for part in self.account.parts
            for player in part.players
            if player.error
        ]


def read(directory: Path) -> tuple[Account, Recording]:
    """Read account and recording. Raises OSError or ValueError."""
    head = json.loads((directory / HEAD).read_text(encoding="utf-8"))
    return Account.read(directory), from_guest(head, (directory / RECORDS).read_bytes())


def pronounce(account: Account, recording: Recording) -> Judged:
    """Judge a recording by what the account says was to happen."""
    ledger = build(recording)
    names = dict(account.names)
    sides = {part.title: tuple(_sides(ledger, part, names)) for part in account.parts}
    rules = Rules(sides=tuple(side for some in sides.values() for side in some), names=names)
    verdict = judge(ledger, rules)
    tables = tuple(
        (part.title, tuple(_rows(ledger, part, sides[part.title], verdict)))
        for part in account.parts
    )
    return Judged(account, ledger, rules, verdict, tables)


def _sides(ledger: Ledger, part: Part, names: dict[int, str]) -> Iterator[Side]:
    """What each player slept on, as the recording shows it; adds names for it."""
    for player in part.players:
        queue = _set_of(ledger, player.tid)
        members = {
            ledger.objects[oid].fclass: oid
            for oid in ledger.members.get(queue, ())
            if oid in ledger.objects
        }
        for oid, word in (
            (queue, "wait set"),
            (members.get(FClass.CQ, 0), "CQ"),
            (members.get(FClass.EQ, 0), "EQ"),
            (members.get(FClass.CNTR, 0), "counter"),
        ):
            names.setdefault(oid, f"{player.name}'s {word}")
        yield Side(player.name, player.tid, queue, members.get(FClass.CQ, 0), player.messages)


def _set_of(ledger: Ledger, tid: int) -> int:
    """The wait set on which a thread waited most; 0 if it never did."""
    used: Counter[int] = Counter()
    for queue in ledger.queues.values():
        if queue.fclass == FClass.WAIT:
            used[queue.id] = len(queue.waits_of(tid))
    best = used.most_common(1)
    return best[0][0] if best and best[0][1] else 0


def _rows(ledger: Ledger, part: Part, sides: tuple[Side, ...], verdict: Verdict) -> Iterator[Row]:
    """The table's lines: a line a player, or a line a queue for a scene without."""
    findings: tuple[Finding, ...] = verdict.findings
    for side in sides:
        match = verdict.matches.get(side.name)
        if match:
            yield row(ledger, side.name, side.queue, side.tid, findings, match)
    if not sides:
        for queue in ledger.queues.values():
            if queue.fclass == FClass.CQ and queue.waits:
                yield row(ledger, f"CQ {queue.id}", queue.id, 0, findings)
