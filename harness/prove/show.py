# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What ``kfabric prove`` prints and leaves: the summary, the counterexamples, JSON."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Hashable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, JustifyMethod
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from kfabric.errors import counted
from kfabric.prove import names, places, table
from kfabric.prove.names import Places
from kfabric.prove.output import PLAIN, Finding, Output, Scenario, Step
from kfabric.prove.run import Job, Mode, Outcome
from kfabric.terminal import tables

SUMMARY = "summary.json"
_COLUMNS = ("scenario", "rules", "mode", "memory", "executions", "seconds", "result")
_NUMBERS = ("executions", "seconds")
_WRAPPED = ("rules", "result")
_WIDTH = 100
_MOST = 10_000
"""No table is wider."""
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_PLACELESS = ("asleep", "asleep-beside-ready", "deadlock", "leak", "steps")
"""Kinds of findings that are no fault of the last line that ran."""


def console(width: int = _WIDTH) -> Console:
    """Where tables go. A counterexample needs more columns than a pipe is taken to have."""
    plain = Console(highlight=False, soft_wrap=False)
    return plain if plain.is_terminal else Console(highlight=False, width=width)


def wide(to: Console, table: Table) -> Console:
    """A console for a summary, wide enough for its names. A pipe is as wide as the table."""
    needs = Measurement.get(to, to.options.update(width=_MOST), table)
    if not to.is_terminal:
        return console(max(to.width, needs.maximum))
    return to if needs.minimum <= to.width else Console(highlight=False, width=needs.minimum)


def listing(scenarios: Sequence[Scenario]) -> None:
    """Print the scenarios, one a line."""
    width = max((len(scenario.name) for scenario in scenarios), default=0)
    for scenario in scenarios:
        print(f"{scenario.name:{width}}  {scenario.says}")


def summary(outcomes: Sequence[Outcome]) -> Table:
    """The table of all explorations."""
    made = Table(
        box=box.SIMPLE_HEAD,
        title="scenarios",
        title_justify="left",
        pad_edge=False,
        collapse_padding=True,
    )
    for name in _COLUMNS:
        justify: JustifyMethod = "right" if name in _NUMBERS else "left"
        made.add_column(name, justify=justify, overflow="fold", no_wrap=name not in _WRAPPED)
    for outcome in outcomes:
        job, result = outcome.job, outcome.result
        made.add_row(
            job.scenario.name,
            " ".join(job.scenario.rules),
            job.how,
            job.memory,
            f"{result.executions:,}",
            f"{result.seconds:.1f}",
            Text(outcome.words, _style(outcome)),
        )
    return made


def _style(outcome: Outcome) -> str:
    if outcome.found:
        return "bold red"
    return "yellow" if outcome.unfinished else "green"


def totals(outcomes: Sequence[Outcome]) -> str:
    """One line: how many are proved, and how fast it was."""
    steps = sum(outcome.result.steps for outcome in outcomes)
    seconds = sum(outcome.result.seconds for outcome in outcomes)
    parts = {
        "proved": sum(outcome.proved for outcome in outcomes),
        "found": sum(outcome.found for outcome in outcomes),
        "unfinished": sum(outcome.unfinished for outcome in outcomes),
    }
    rest = len(outcomes) - sum(parts.values())
    parts["without a fault"] = rest
    text = ", ".join(f"{number} {words}" for words, number in parts.items() if number)
    judged = sum(outcome.judged for outcome in outcomes)
    more = f"; the verdict judged {counted(judged, 'execution')}" if judged else ""
    speed = f", {steps / seconds / 1e6:.1f} million a second" if seconds >= 1 else ""
    return f"{counted(len(outcomes), 'run')}: {text}; {steps:,} steps{speed}{more}"


def counterexample(outcome: Outcome, program: Path, width: int = _WIDTH) -> list[str | Table]:
    """The parts that are printed of a finding: its text, the table for a width."""
    shown, by = outcome.shown, outcome.shown_by
    if not outcome.found or shown is None or by is None:
        return []
    told = _told(outcome)
    known = _places(shown, told, program)
    steps = [step for step in shown.steps if _tells(step, told, known)]
    about = Step(told.thread, "race", told.object, memory=told.memory)
    *steps, about = names.named([*steps, about], program, known)
    text = told.text.replace(told.object, about.object) if told.object else told.text
    head = f"{outcome.job.scenario.name}: {told.kind.upper()}: {text}{_where(told, known)}"
    if not steps:
        return [head]
    rows = table.rows(steps, known)
    return [head, f"{_title(by)}:", table.table(rows, outcome.job.scenario.threads, width)]


def _tells(step: Step, finding: Finding, known: Places) -> bool:
    """Whether a step is shown. Plain accesses inside the shim's lists and queues are not."""
    if step.op not in PLAIN or step.place in finding.places:
        return True
    inner = known.get(step.place, ())
    return bool(inner) and not inner[0].ours


def groups(outcomes: Sequence[Outcome], program: Path) -> list[list[Outcome]]:
    """The outcomes with findings, those with the same cause together; the shortest one first."""
    found = [one for outcome in outcomes for one in outcome.findings]
    known = places.find(program, (address for one in found for address in _at_fault(one)))
    by_cause: dict[Hashable, list[Outcome]] = {}
    for outcome in found:
        by_cause.setdefault(_cause(outcome, known), []).append(outcome)
    return [sorted(group, key=_length) for group in by_cause.values()]


def also(group: Sequence[Outcome]) -> str:
    """One line: the other runs with the cause of the first one; empty if there are none."""
    memories: dict[str, list[str]] = {}
    for outcome in group[1:]:
        memories.setdefault(outcome.job.scenario.name, []).append(outcome.job.memory)
    several = len({outcome.job.memory for outcome in group}) > 1
    runs = [f"{name} ({', '.join(of)})" if several else name for name, of in memories.items()]
    return f"the same in {counted(len(group) - 1, 'other run')}: {', '.join(runs)}" if runs else ""


def _length(outcome: Outcome) -> int:
    """Of its table; one without steps is the last."""
    return len(outcome.shown.steps) if outcome.shown and outcome.shown.steps else sys.maxsize


def _at_fault(outcome: Outcome) -> list[int]:
    """The addresses of the accesses at fault, or else of the last step of the thread."""
    finding, shown = _told(outcome), outcome.shown
    if finding.places and finding.kind not in _PLACELESS:
        return list(finding.places)
    steps = shown.steps if shown else ()
    own = [step for step in steps if step.thread == finding.thread and step.place] or steps
    return [own[-1].place, *own[-1].stack] if own else []


def _cause(outcome: Outcome, known: Places) -> Hashable:
    """What outcomes with the same cause have in common."""
    finding = _told(outcome)
    text = finding.text
    for thread in sorted({finding.thread, *outcome.job.scenario.threads} - {""}, key=len)[::-1]:
        text = re.sub(rf"\b{re.escape(thread)}\b", "", text)
    at_fault = _at_fault(outcome)
    if finding.kind in _PLACELESS or not finding.places:
        lines = [places.under_test(at_fault, known)]
    else:
        lines = [places.under_test([address], known) for address in at_fault]
    return finding.kind, _NUMBER.sub("", text), tuple(lines)


def _told(outcome: Outcome) -> Finding:
    """The finding that the table shows."""
    told = outcome.shown.result.finding if outcome.shown else None
    told = told or outcome.result.finding
    assert told
    return told


def _title(job: Job) -> str:
    past = ", past data races" if job.past_races else ""
    if job.mode is Mode.BOUND:
        least = f"{counted(job.bound, 'preemption')}, the fewest that show it"
        return f"{job.scenario.name}, {job.memory}{past}: {least}"
    return f"{job.scenario.name}, {job.memory}, by {job.how}{past}"


def _places(shown: Output, finding: Finding, program: Path) -> Places:
    addresses = [a for step in shown.steps for a in (step.place, *step.stack)]
    addresses += [step.memory.place for step in shown.steps if step.memory]
    addresses += [finding.memory.place] if finding.memory else []
    return places.find(program, (*addresses, *finding.places))


def _where(finding: Finding, known: Places) -> str:
    """The lines of source at fault: `` (a.c:7 f(), b.c:9 g())``; empty if there are none."""
    addresses = finding.places if finding.kind not in _PLACELESS else ()
    found = (places.under_test([address], known) for address in addresses)
    text = ", ".join(str(place) for place in dict.fromkeys(found) if place)
    return f" ({text})" if text else ""


def again(outcome: Outcome, words: Sequence[str]) -> str:
    """The command that plays a counterexample again; ``words``: the files that it names."""
    shown, by = outcome.shown, outcome.shown_by
    finding = shown.result.finding if shown else outcome.result.finding
    if finding is None or by is None or not finding.schedule:
        return ""
    argv = ["kfabric", "prove", by.scenario.name, *words]
    argv += ["--memory", by.memory, "--replay", finding.schedule]
    return shlex.join(argv)


def as_json(outcome: Outcome, commit: str) -> dict[str, Any]:
    """An exploration as an object."""
    job, shown = outcome.job, outcome.shown
    made = {
        "name": job.name(commit),
        "scenario": job.scenario.name,
        "says": job.scenario.says,
        "rules": list(job.scenario.rules),
        "tables": list(job.scenario.tables),
        "mode": job.mode.value,
        "memory": job.memory,
        "bound": job.bound if job.mode is Mode.BOUND else None,
        "seed": job.seed,
        "commit": commit,
        "outcome": outcome.words,
        "judged": outcome.judged,
        **asdict(outcome.result),
    }
    if shown and shown.result.finding:
        made["counterexample"] = {
            "schedule": shown.result.finding.schedule,
            "steps": [asdict(step) for step in shown.steps],
        }
    if outcome.past_races:
        made["past_races"] = as_json(outcome.past_races, commit)
    return made


def leave(directory: Path, outcomes: Sequence[Outcome], commit: str, program: Path) -> None:
    """Write the summary, and of each finding its table; those of earlier runs are removed."""
    whole = [as_json(outcome, commit) for outcome in outcomes]
    text = json.dumps(whole, indent=1) + "\n"
    (directory / SUMMARY).write_text(text, encoding="utf-8")
    for outcome in outcomes:
        path = directory / f"{outcome.job.scenario.name}-{outcome.job.memory}.txt"
        if not outcome.found:
            path.unlink(missing_ok=True)
            continue
        with path.open("w", encoding="utf-8") as file:
            to_file = Console(file=file, highlight=False, width=_WIDTH)
            for one in outcome.findings:
                show(to_file, counterexample(one, program))


def show(to: Console, parts: Sequence[str | Table]) -> None:
    """Print texts and tables."""
    for part in parts:
        if isinstance(part, str):
            to.print(part, markup=False, soft_wrap=True)
        else:
            tables.show(to, part)
