# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Judges a cut of the recording, and writes texts, stacks and files for a failure."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kfabric import names
from kfabric.guest import symbols
from kfabric.guest.held import without_held
from kfabric.guest.sleeping import ThreadGone, read_state
from kfabric.probes.recorder import Recorder
from kfabric.recording.records import NO_STACK, Recording, StackRecord
from kfabric.verdict.kinds import Finding, Rules, Verdict
from kfabric.verdict.ledger import Ledger, build
from kfabric.verdict.moments import moments
from kfabric.verdict.story import events_of, story, waits_of_finding
from kfabric.verdict.verdict import judge

# Numbers for stacks that are read here, and not recorded by the kernel part.
_OWN_STACKS = 1 << 20
_STORIES = 5

Frames = tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A recording with its ledger and verdict."""

    recording: Recording
    ledger: Ledger
    rules: Rules
    verdict: Verdict

    def doubted(self, doubt: str) -> Case:
        """The same case with one more doubt."""
        doubts = (*self.verdict.doubts, doubt)
        return replace(self, verdict=replace(self.verdict, doubts=doubts))

    def text(self, findings: Iterable[Finding] | None = None) -> str:
        """The doubts, then the stories of these findings (default: all)."""
        shown = list(self.verdict.findings if findings is None else findings)
        lines = [f"NOT VERIFIED: {doubt}" for doubt in self.verdict.doubts]
        lines += [story(self.ledger, finding, self.rules) for finding in shown[:_STORIES]]
        if len(shown) > _STORIES:
            lines.append(f"... and {len(shown) - _STORIES} more findings")
        return "\n".join(lines)

    def events(self, findings: Sequence[Finding]) -> Iterator[tuple[int, str, str]]:
        """The events of their stories, as :func:`events_of` gives them."""
        for finding in findings[:_STORIES]:
            yield from events_of(self.ledger, finding, self.rules)


def examine(recorder: Recorder, recording: Recording, rules: Rules) -> Case:
    """Judge a recording; with findings, add stacks, which is only possible at once."""
    ledger = build(recording)
    verdict = without_held(ledger, judge(ledger, rules))
    case = Case(recording, ledger, rules, verdict)
    return add_stacks(case, recorder.probe.frames) if verdict.findings else case


def add_stacks(case: Case, frames_of: Callable[[Iterable[int]], dict[int, Frames]]) -> Case:
    """Add the frames of recorded stacks, and the stacks of waits that are still open."""
    records = case.recording.records
    numbers = {
        number
        for record in records
        if isinstance(record, StackRecord)
        for number in (record.sleeper, record.waker)
        if number != NO_STACK
    }
    frames = frames_of(numbers)
    mine: list[StackRecord] = []
    for finding in case.verdict.findings:
        for wait in waits_of_finding(case.ledger, finding):
            rec = wait.record
            stack: tuple[str, ...] = ()
            with contextlib.suppress(ThreadGone, OSError):
                stack = () if wait.finished else read_state(rec.tid).stack
            if stack:
                number = _OWN_STACKS + len(mine)
                frames[number] = stack
                mine.append(StackRecord(rec.queue, rec.t_begin, rec.tid, sleeper=number))
    recording = replace(case.recording, records=(*records, *mine), stacks=frames)
    return replace(case, recording=recording, ledger=build(recording))


def leave(case: Case, name: str, findings: Iterable[Finding] | None = None) -> Path | None:
    """Write a trace of the time around these findings for the host; return its directory.

    Args:
        case: The recording and its verdict.
        name: The name of the test.
        findings: Default: all findings of the verdict.

    Returns:
        None if the guest has no directory for the host.
    """
    if not (out := os.environ.get(names.OUT)):
        return None
    # Imported late: only failures need them.
    from kfabric.report import chrome, source

    directory = wanted = Path(out) / names.WAKEUPS / re.sub(r"[^\w.-]+", "-", name).strip("-")
    # A test may fail several times.
    number = 2
    while directory.exists():
        directory = wanted.with_name(f"{wanted.name}-{number}")
        number += 1
    shown = tuple(case.verdict.findings if findings is None else findings)
    part = moments(case.recording, case.ledger, shown)
    source.save(part, directory)
    chrome.write(
        directory / "timeline.json", build(part), case.rules.names, case.verdict, {"test": name}
    )
    (directory / "story.txt").write_text(case.text(findings) + "\n", encoding="utf-8")
    symbols.tell(directory, case.events(shown))
    return directory
