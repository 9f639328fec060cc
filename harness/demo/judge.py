# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Computes the verdict and the tables from the files that the guest left."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kfabric.demo.job import GuestReport, Scenario
from kfabric.recording import HEAD, RECORDS
from kfabric.recording.records import FClass, Recording, from_guest
from kfabric.verdict.ledger import Ledger, build
from kfabric.verdict.stats import Row, row
from kfabric.verdict.verdict import Rules, Side, Verdict, judge


@dataclass(frozen=True, slots=True)
class Judged:
    """Everything that the host shows of a run."""

    report: GuestReport
    ledger: Ledger
    rules: Rules
    verdict: Verdict
    tables: tuple[tuple[str, tuple[Row, ...]], ...]

    @property
    def complaints(self) -> list[str]:
        """The errors that the peers reported."""
        return [
            f"{peer.name}: {peer.error}"
            for scenario in self.report.scenarios
            for peer in scenario.peers
            if peer.error
        ]


def read(directory: Path) -> tuple[GuestReport, Recording]:
    """Read report and recording. Raises OSError or ValueError."""
    head = json.loads((directory / HEAD).read_text(encoding="utf-8"))
    return GuestReport.read(directory), from_guest(head, (directory / RECORDS).read_bytes())


def judge_run(report: GuestReport, recording: Recording) -> Judged:
    """Compare a recording with the scenarios that ran."""
    ledger = build(recording)
    names = dict(report.names)
    sides = {one.title: tuple(_sides(ledger, one, names)) for one in report.scenarios}
    rules = Rules(sides=tuple(side for some in sides.values() for side in some), names=names)
    verdict = judge(ledger, rules)
    tables = tuple(
        (one.title, tuple(_rows(ledger, sides[one.title], verdict))) for one in report.scenarios
    )
    return Judged(report, ledger, rules, verdict, tables)


def _sides(ledger: Ledger, scenario: Scenario, names: dict[int, str]) -> Iterator[Side]:
    """The objects that each peer slept on, found in the recording; adds names for them."""
    for peer in scenario.peers:
        queue = _set_of(ledger, peer.tid)
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
            names.setdefault(oid, f"{peer.name}'s {word}")
        yield Side(peer.name, peer.tid, queue, members.get(FClass.CQ, 0), peer.messages)


def _set_of(ledger: Ledger, tid: int) -> int:
    """The wait set on which a thread waited most; 0 if it never did."""
    sets = (queue for queue in ledger.queues.values() if queue.fclass == FClass.WAIT)
    waits = {queue.id: len(queue.waits_of(tid)) for queue in sets}
    best = max(waits, key=waits.__getitem__, default=0)
    return best if waits.get(best) else 0


def _rows(ledger: Ledger, sides: tuple[Side, ...], verdict: Verdict) -> Iterator[Row]:
    """One row for each peer, or for each CQ of a scenario without peers."""
    findings = verdict.findings
    for side in sides:
        if match := verdict.matches.get(side.name):
            yield row(ledger, side.name, side.queue, side.tid, findings, match)
    if not sides:
        for queue in ledger.queues.values():
            if queue.fclass == FClass.CQ and queue.waits:
                yield row(ledger, f"CQ {queue.id}", queue.id, 0, findings)
