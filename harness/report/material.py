# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The input of a report: a recording, its ledger, and the verdict."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kfabric.errors import UsageError
from kfabric.recording.records import TRACED
from kfabric.report.source import Source, open_source
from kfabric.verdict import queues
from kfabric.verdict import verdict as wakeups
from kfabric.verdict.ledger import Ledger, build
from kfabric.verdict.verdict import Finding, Kind, Verdict

REPORT = "report.json"


class NoRecordingError(UsageError, label="no recording"):
    """A directory has no recording, or one that cannot be read."""


@dataclass(frozen=True, slots=True)
class Material:
    """The input of a page or a trace.

    ``ledger`` may hold only a part of the recording; then ``notes`` say so.
    ``about`` has further facts about the run, such as versions.
    """

    source: Source
    ledger: Ledger
    verdict: Verdict
    names: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)


def load(directory: Path) -> Material:
    """Read a recording and its verdict.

    A ``report.json`` next to the recording has the verdict of the program that made it.
    That verdict counts, since only that program knows what had to happen.

    Raises:
        NoRecordingError: There is no recording, or it cannot be read.
    """
    try:
        source = open_source(directory)
        recording = source.recording()
    except OSError as error:
        raise NoRecordingError(f"{error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise NoRecordingError(f"{directory} cannot be read: {error}") from error
    ledger = build(recording)
    report = _report_of(directory, source)
    try:
        names = {int(oid): str(name) for oid, name in report.get("names", {}).items()}
        verdict = _verdict_of(report) if report else judged(ledger)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NoRecordingError(f"{directory / REPORT} cannot be read: {error!r}") from error
    shown = len(recording.records)
    if source.whole:
        return Material(source, ledger, verdict, names)
    part = f"{shown:,} of {source.count:,} records"
    if not report:
        # The rest may explain what looks like a fault.
        lost = build(replace(source.head, tallies={}, kernel=None)).doubts
        doubts, notes = (f"only {part} were judged", *lost), (*verdict.findings, *verdict.notes)
        verdict = replace(verdict, findings=(), doubts=doubts, notes=notes)
    note = (
        f"This is a big recording. Timeline and suspicious waits show {part}: its beginning, "
        "and the part around the waits that look wrong. The table of queues, the histograms, "
        "the trace and the stacks are made from all of them."
    )
    return Material(source, ledger, verdict, names, (note,))


def judged(ledger: Ledger) -> Verdict:
    """The verdict on a ledger, by the judge for its kind of queues."""
    plain = [queue.fclass in TRACED for queue in ledger.queues.values() if queue.fclass]
    if plain and all(plain):
        return queues.judge(ledger)
    return wakeups.judge(ledger)


def _report_of(directory: Path, source: Source) -> dict[str, Any]:
    """The report next to a recording; empty if it is about another recording."""
    try:
        report = json.loads((directory / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    mine = isinstance(report, dict) and report.get("t_stop") == source.head.t_stop
    return report if mine and "findings" in report else {}


def _verdict_of(report: Mapping[str, Any]) -> Verdict:
    """Raises KeyError, TypeError or ValueError if it is damaged."""
    return Verdict(
        findings=tuple(map(_finding_of, report["findings"])),
        doubts=tuple(report["doubts"]),
        matched=int(report["waits_matched"]),
        notes=tuple(map(_finding_of, report["notes"])),
        unaided=int(report.get("unaided", 0)),
        unjudged=report.get("unjudged", {}),
        odd=report.get("odd", {}),
        missing=tuple(report.get("missing", ())),
    )


def _finding_of(item: Mapping[str, Any]) -> Finding:
    return Finding(**{**item, "kind": Kind(item["kind"])})
