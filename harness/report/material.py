# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a report is made of: a recording, its ledger, and the verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.errors import ExitStatus, KfabricError
from harness.recording.records import FClass
from harness.report.source import Source, open_source
from harness.verdict import queues as queues
from harness.verdict import verdict as wakeups
from harness.verdict.ledger import Ledger, build
from harness.verdict.verdict import Finding, Kind, Verdict

REPORT = "report.json"


class NoRecordingError(KfabricError):
    """A directory has no recording, or one that cannot be read."""

    status = ExitStatus.USAGE
    label = "no recording"


@dataclass(frozen=True, slots=True)
class Material:
    """Everything that a page or a trace is made of.

    ``ledger`` may hold a part of the recording only: then ``notes`` say so.
    ``about`` is what else the run tells of itself, such as versions.
    """

    source: Source
    ledger: Ledger
    verdict: Verdict
    names: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)


def load(directory: Path) -> Material:
    """Read a recording and what was found of it. Raises NoRecordingError.

    Who made the recording may have judged it, and left that in ``report.json``
    next to it: then this is the verdict, since only they know what had to happen.
    """
    try:
        source = open_source(directory)
        recording = source.recording()
    except (OSError, ValueError) as error:
        raise NoRecordingError(f"{directory}: {error}") from error
    ledger = build(recording)
    told = _told(directory, source)
    names = {int(oid): str(name) for oid, name in told.get("names", {}).items()}
    verdict = _verdict_of(told) if told else judged(ledger)
    shown = len(recording.records)
    if source.whole:
        return Material(source, ledger, verdict, names)
    part = f"{shown:,} of {source.count:,} records"
    if not told:
        verdict = _of_a_part(verdict, source, f"only {part} were judged")
    note = (
        f"This is a big recording. Timeline and suspicious waits show {part}: its beginning, "
        "and what stands around the waits that look wrong. The table of queues, the histograms, "
        "the trace and the stacks are made from all of them."
    )
    return Material(source, ledger, verdict, names, (note,))


def judged(ledger: Ledger) -> Verdict:
    """The verdict on a ledger, by the judge of its kind of queues."""
    plain = [queue.fclass == FClass.QUEUE for queue in ledger.queues.values() if queue.fclass]
    if plain and all(plain):
        return queues.judge(ledger)
    return wakeups.judge(ledger)


def _of_a_part(verdict: Verdict, source: Source, why: str) -> Verdict:
    """What a part of a recording proves: nothing, since what is missing may explain it."""
    lost = build(replace(source.head, tallies={}, kernel=None)).doubts
    notes = (*verdict.findings, *verdict.notes)
    return replace(verdict, findings=(), doubts=(why, *lost), notes=notes)


def _told(directory: Path, source: Source) -> dict[str, Any]:
    """The verdict that was left with a recording; nothing if it is of another one."""
    try:
        told = json.loads((directory / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    mine = isinstance(told, dict) and told.get("t_stop") == source.head.t_stop
    return told if mine and "findings" in told else {}


def _verdict_of(told: Mapping[str, Any]) -> Verdict:
    """A verdict from its JSON. Raises NoRecordingError."""
    try:
        return Verdict(
            findings=tuple(map(_finding_of, told["findings"])),
            doubts=tuple(told["doubts"]),
            matched=int(told["waits_matched"]),
            notes=tuple(map(_finding_of, told["notes"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NoRecordingError(f"{REPORT} next to it cannot be read: {error!r}") from error


def _finding_of(told: Mapping[str, Any]) -> Finding:
    return Finding(**{**told, "kind": Kind(told["kind"])})
