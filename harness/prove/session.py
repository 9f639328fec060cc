# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""One call of ``kfabric prove``: builds the program, explores, shows and leaves the results."""

from __future__ import annotations

import fnmatch
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from kfabric.docs.results import Measurement
from kfabric.errors import ExitStatus, UsageError, counted, near
from kfabric.prove import build, coverage, export, judge, proofs, run, show
from kfabric.prove.build import Sources
from kfabric.prove.output import RACE, Output, Scenario
from kfabric.prove.run import Job, Mode, Outcome, Runner
from kfabric.terminal.arguments import relative
from kfabric.terminal.slow import Slow
from kfabric.vm.steps import Steps, say

MEMORIES = ("sc", "tso", "pso", "weak")
QUICK_EXECUTIONS = 10_000
SAMPLE_EXECUTIONS = 100_000
"""Of the modes that never end by themselves."""
SECONDS = 600.0


class UnknownScenario(UsageError, label="no such scenario"):
    """There is no scenario of that name."""


@dataclass(frozen=True)
class Plan:
    """What a call asks for.

    Args:
        sources: what is compiled.
        names: the scenarios, also as shell patterns; empty: all.
        mode: how executions are chosen; None: as each scenario says.
        bound: preemptions of one execution; None: as each scenario says.
        memories: the memory models, each explored by itself.
        seed: of random executions.
        executions: at most so many of each scenario; 0: no limit.
        seconds: at most so long for each scenario, by memory model; None: as for those that
            are not named.
        replay: the schedule to play; empty: none.
        quick: explore the first executions of each scenario only.
        records: the verdict judges each so many executions; 0: none.
        words: options that name the sources, for the command that repeats a run.
        json: print the results as JSON, and no tables.
        export: the guest test to write of the counterexample; None: none.
    """

    sources: Sources
    names: Sequence[str] = ()
    mode: Mode | None = None
    bound: int | None = None
    memories: Sequence[str] = ("sc",)
    seed: int = 1
    executions: int = 0
    seconds: Mapping[str | None, float] = field(default_factory=dict)
    replay: str = ""
    quick: bool = False
    records: int = 0
    words: Sequence[str] = ()
    json: bool = False
    export: Path | None = None

    def jobs(self, scenarios: Sequence[Scenario]) -> list[Job]:
        """The explorations of scenarios."""
        return [self._job(scenario, memory) for scenario in scenarios for memory in self.memories]

    def _job(self, scenario: Scenario, memory: str) -> Job:
        bound = scenario.bound if self.bound is None else self.bound
        mode = self.mode or (Mode.DPOR if bound is None else Mode.BOUND)
        executions = self.executions
        if not executions and mode in (Mode.RANDOM, Mode.PCT):
            executions = SAMPLE_EXECUTIONS
        if self.quick:
            executions = min(executions or QUICK_EXECUTIONS, QUICK_EXECUTIONS)
        return Job(
            scenario,
            Mode.REPLAY if self.replay else mode,
            memory,
            bound or 0,
            self.seed,
            executions,
            self.seconds.get(memory, self.seconds.get(None, SECONDS)),
            self.records,
            self.replay,
        )


def listing(sources: Sources) -> list[Scenario]:
    """All scenarios of the sources, by name."""
    with Runner(_build(sources)) as runner:
        return _by_name(runner.scenarios())


def play(plan: Plan, output: Path, measured: Measurement | None = None) -> int:
    """Explore, print the results and leave them; the exit status.

    An interrupted run shows and leaves what it has found so far.
    """
    program = _build(plan.sources)
    commit = commit_of(plan.sources.base)
    outcomes: list[Outcome] = []
    with Runner(program) as runner:
        known = _by_name(runner.scenarios())
        jobs = plan.jobs(_chosen_one(plan, chosen(known, plan.names)))
        try:
            _explore(runner, jobs, outcomes)
        finally:
            _print(plan, outcomes, commit, program)
            show.leave(output, outcomes, commit, program)
        if plan.export:
            print(_export(runner, plan.export, plan.sources.base, outcomes[0]))
    lines: list[str] = []
    if plan.sources.kfabric and not plan.names:
        lines = coverage.of(known, plan.sources.base).lines()
    if measured:
        proofs.write(outcomes, measured.facts("none"), plan.sources.base)
        measured.write("none", proofs.totals(outcomes, lines))
    if not plan.json:
        left = f"left in {relative(output)}: {show.SUMMARY}, and a table of each finding"
        print(*lines, left, sep="\n")
    return status(outcomes, plan.quick)


def _explore(runner: Runner, jobs: Sequence[Job], outcomes: list[Outcome]) -> None:
    """Add the outcome of each job as it ends, and sort them when it is over."""
    try:
        with Steps("exploring", len(jobs), say) as steps:
            for outcome in _outcomes(runner, jobs):
                outcomes.append(outcome)
                steps.advance()
    finally:
        outcomes.sort(key=lambda one: (one.job.scenario.name, MEMORIES.index(one.job.memory)))


def _by_name(scenarios: Sequence[Scenario]) -> list[Scenario]:
    return sorted(scenarios, key=lambda scenario: scenario.name)


def chosen(known: Sequence[Scenario], names: Sequence[str]) -> list[Scenario]:
    """The scenarios of these names and shell patterns, or all. Raises UnknownScenario."""
    by_name = {scenario.name: scenario for scenario in known}
    return [by_name[name] for name in matching(names, list(by_name))] or list(known)


def _chosen_one(plan: Plan, scenarios: list[Scenario]) -> list[Scenario]:
    """The scenarios. Raises UsageError if a pattern selects several and only one can be played."""
    if len(scenarios) > 1 and (plan.replay or plan.export):
        option = "--replay" if plan.replay else "--export"
        raise UsageError(f"{option} needs one scenario, not {counted(len(scenarios), 'scenario')}")
    return scenarios


def matching(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The known names that names and shell patterns select. Raises UnknownScenario."""
    found: dict[str, None] = {}
    for name in names:
        matches = [name] if name in known else fnmatch.filter(known, name)
        if not matches:
            raise UnknownScenario(name, near(name, known, "see kfabric prove --list"))
        found |= dict.fromkeys(matches)
    return list(found)


def check_names(sources: Sources, names: Sequence[str]) -> None:
    """Refuse unknown names before anything is compiled, if the files show all names.

    Raises:
        UnknownScenario: no scenario has the name, or matches the pattern.
    """
    if names and (known := build.declared(sources)) is not None:
        matching(names, known)


def status(outcomes: Sequence[Outcome], quick: bool) -> int:
    """The exit status: a finding comes first, then an exploration that a limit ended."""
    if any(outcome.found for outcome in outcomes):
        return ExitStatus.FAULT_FOUND
    if any(outcome.unfinished for outcome in outcomes) and not quick:
        return ExitStatus.NOT_VERIFIED
    return ExitStatus.OK


def commit_of(base: Path) -> str:
    """The commit of the directory's checkout; ``no commit`` outside of one."""
    argv = ["git", "-C", str(base), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return "no commit"
    return done.stdout.strip() or "no commit"


def _build(sources: Sources) -> Path:
    with Slow("compiling the scenarios and the code under test", say):
        return build.ensure(sources)


def _outcomes(runner: Runner, jobs: Sequence[Job]) -> Iterator[Outcome]:
    """Explore, have the verdict judge the sample, look for the shortest counterexample."""
    for job, seen in run.every(runner, jobs):
        sample = seen.records if job.records else ()
        judged, wrong = judge.executions(sample, job.scenario.threads)
        if wrong and not seen.result.finding:
            result = replace(seen.result, finding=wrong)
            yield Outcome(job, result, judged, replace(seen, result=result), job)
        elif seen.result.finding:
            yield replace(_found(runner, job, seen), judged=judged)
        else:
            yield Outcome(job, seen.result, judged)


def _found(runner: Runner, job: Job, seen: Output) -> Outcome:
    """The outcome of a finding. A race may hide what comes of it, so that is looked for, too."""
    by, shown = run.fewest_switches(runner, job, seen)
    outcome = Outcome(job, seen.result, shown=shown, shown_by=by)
    finding = seen.result.finding
    if not finding or finding.kind != RACE or job.mode is Mode.REPLAY:
        return outcome
    past = replace(job, past_races=True, records=0)
    other = runner.explore(past)
    if not other.result.finding:
        return outcome
    return replace(outcome, past_races=_found(runner, past, other))


def _print(plan: Plan, outcomes: Sequence[Outcome], commit: str, program: Path) -> None:
    """Print a counterexample of each cause, the summary and its totals; or all as JSON."""
    if plan.json:
        print(json.dumps([show.as_json(outcome, commit) for outcome in outcomes], indent=1))
        return
    console = show.console()
    for group in show.groups(outcomes, program):
        outcome = group[0]
        show.show(console, show.counterexample(outcome, program, console.width))
        if command := show.again(outcome, plan.words):
            show.show(console, [f"again: {command}"])
        if line := show.also(group):
            show.show(console, [line])
        console.print()
    summary = show.summary(outcomes)
    show.show(show.wide(console, summary), [summary, show.totals(outcomes)])


def _export(runner: Runner, path: Path, checkout: Path, outcome: Outcome) -> str:
    """Write the counterexample as a guest test; a line that says what was done."""
    outcome = outcome.past_races or outcome
    finding = outcome.result.finding
    if not finding:
        return "not exported: no fault was found"
    if outcome.job.mode is not Mode.REPLAY:
        found = run.at_hooks(runner, outcome.job, finding.kind)
        if not found:
            return f"not exported: {export.NOT_AT_HOOKS}"
        outcome = replace(outcome, shown_by=found[0], shown=found[1])
    steps = outcome.shown.steps if outcome.shown else ()
    try:
        again = show.again(outcome, ())
        text = export.guest_test(outcome.job.scenario, finding, steps, again, checkout)
    except export.NotExportable as reason:
        return f"not exported: {reason}"
    path.write_text(text, encoding="utf-8")
    return f"exported: {path}, a guest test; in tests/guest, kfabric test plays it"


def as_json(scenarios: Sequence[Scenario]) -> str:
    """The list of scenarios for ``--list --json``."""
    return json.dumps([asdict(scenario) for scenario in scenarios], indent=1)
