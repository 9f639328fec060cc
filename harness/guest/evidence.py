# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A cut of the recording, judged; and what a failure shows of it: stories, stacks, files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from harness import names
from harness.guest.sleeping import ThreadGone, read_state
from harness.probes.recorder import Recorder
from harness.recording.records import NO_STACK, Recording, StackRecord
from harness.verdict.kinds import Finding, Rules, Verdict
from harness.verdict.ledger import Ledger, Wait, build
from harness.verdict.moments import moments
from harness.verdict.story import story, waits_of_finding
from harness.verdict.verdict import judge

# Numbers for stacks that were not taken by the kernel part.
_OWN_STACKS = 1 << 20
_STORIES = 5


@dataclass(frozen=True)
class Case:
    """A recording with its ledger and verdict."""

    recording: Recording
    ledger: Ledger
    rules: Rules
    verdict: Verdict

    def doubted(self, doubt: str) -> Case:
        """The same, with one more reason not to believe it."""
        doubts = (*self.verdict.doubts, doubt)
        return replace(self, verdict=replace(self.verdict, doubts=doubts))

    def text(self, findings: Iterable[Finding] | None = None) -> str:
        """All that there is to say: doubts, then the stories of these or of all findings."""
        told = list(self.verdict.findings if findings is None else findings)
        lines = [f"NOT VERIFIED: {doubt}" for doubt in self.verdict.doubts]
        lines += [story(self.ledger, finding, self.rules) for finding in told[:_STORIES]]
        if len(told) > _STORIES:
            lines.append(f"... and {len(told) - _STORIES} more findings")
        return "\n".join(lines)


def examine(recorder: Recorder, recording: Recording, rules: Rules) -> Case:
    """Judge a recording; where it is a bad one, look for stacks. Call it at once."""
    ledger = build(recording)
    verdict = judge(ledger, rules)
    case = Case(recording, ledger, rules, verdict)
    return _with_stacks(recorder, case) if verdict.findings else case


def _with_stacks(recorder: Recorder, case: Case) -> Case:
    """Names of the frames that were taken, and the stacks of accused who still sleep."""
    records = case.recording.records
    numbers = {
        number
        for record in records
        if isinstance(record, StackRecord)
        for number in (record.sleeper, record.waker)
        if number != NO_STACK
    }
    frames = recorder.probe.frames(numbers)
    mine: list[StackRecord] = []
    for finding in case.verdict.findings:
        for wait in waits_of_finding(case.ledger, finding):
            if not wait.finished and (stack := _sleeping(wait)):
                number = _OWN_STACKS + len(mine)
                frames[number] = stack
                rec = wait.record
                mine.append(StackRecord(rec.queue, rec.t_begin, rec.tid, sleeper=number))
    recording = replace(case.recording, records=(*records, *mine), stacks=frames)
    return replace(case, recording=recording, ledger=build(recording))


def _sleeping(wait: Wait) -> tuple[str, ...]:
    """The stack of a thread that is still in its wait."""
    try:
        return read_state(wait.record.tid).stack
    except (ThreadGone, OSError):
        return ()


def leave(case: Case, name: str, findings: Iterable[Finding] | None = None) -> Path | None:
    """Leave a trace of just these moments where the host finds it; the directory.

    :param name: of the test; None is returned if the guest has nowhere to leave it.
    """
    if not (out := os.environ.get(names.OUT)):
        return None
    # Imported late: only failures need it.
    from harness.report import chrome, source

    told = case.verdict.findings if findings is None else findings
    directory = _unused(Path(out) / "wakeups" / re.sub(r"[^\w.-]+", "-", name).strip("-"))
    part = moments(case.recording, case.ledger, told)
    source.save(part, directory)
    chrome.write(
        directory / "timeline.json", build(part), case.rules.names, case.verdict, {"test": name}
    )
    (directory / "story.txt").write_text(case.text(findings) + "\n", encoding="utf-8")
    return directory


def _unused(directory: Path) -> Path:
    """The directory, or one with a number: a test may fail several times."""
    number, free = 2, directory
    while free.exists():
        free = directory.with_name(f"{directory.name}-{number}")
        number += 1
    return free
