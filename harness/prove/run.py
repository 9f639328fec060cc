# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs explorations of scenarios, several at a time, each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from kfabric.errors import ExitStatus, KfabricError, UsageError, counted
from kfabric.prove import output
from kfabric.prove.output import Finding, Output, OutputError, Result, Scenario
from kfabric.prove.sharing import communicating
from kfabric.vm import tools

PROCESSES = 2
GRACE_SECONDS = 30.0
"""How long a program may go on after its own limit of time."""
LIST_SECONDS = 30.0
MOST_SWITCHES = 8
"""A counterexample is not looked for with more preemptions than these."""


class ProgramError(KfabricError, status=ExitStatus.BUILD, label="broken program"):
    """The compiled program does not list its scenarios, or refuses its command line."""


class Mode(StrEnum):
    """How the executions of a scenario are chosen."""

    DPOR = "dpor"
    BOUND = "bound"
    ENUMERATE = "enumerate"
    RANDOM = "random"
    PCT = "pct"
    REPLAY = "replay"


COMPLETE = (Mode.DPOR, Mode.BOUND)
"""The modes that end when every execution was played."""


@dataclass(frozen=True, slots=True)
class Job:
    """One exploration of one scenario.

    Args:
        mode: how executions are chosen.
        memory: ``sc``, ``tso``, ``pso`` or ``weak``.
        bound: preemptions of one execution, in modes ``bound`` and ``enumerate``.
        seed: of the modes ``random`` and ``pct``.
        executions: at most so many; 0: no limit.
        seconds: at most so long.
        records: the events of each so many executions are printed; 0: none.
        replay: the schedule, in mode ``replay``.
        hooks: threads are preempted at delay hooks only, in mode ``enumerate``.
        past_races: a data race is no finding, and the execution goes on.
    """

    scenario: Scenario
    mode: Mode = Mode.DPOR
    memory: str = "sc"
    bound: int = 0
    seed: int = 1
    executions: int = 0
    seconds: float = 60.0
    records: int = 0
    replay: str = ""
    hooks: bool = False
    past_races: bool = False

    @property
    def argv(self) -> list[str]:
        """The words after the program's name."""
        words = [self.scenario.name, "--memory", self.memory, "--seconds", f"{self.seconds:g}"]
        if self.mode is Mode.REPLAY:
            return [*words, "--replay", self.replay]
        words += ["--mode", self.mode, "--seed", str(self.seed)]
        bounded = self.mode in (Mode.BOUND, Mode.ENUMERATE)
        words += ["--bound", str(self.bound)] if bounded else []
        words += ["--hooks"] if self.hooks else []
        words += ["--executions", str(self.executions)] if self.executions else []
        words += ["--records", str(self.records)] if self.records else []
        return words + (["--past-races"] if self.past_races else [])

    @property
    def how(self) -> str:
        """The mode in words."""
        return f"bound {self.bound}" if self.mode is Mode.BOUND else self.mode.value

    def name(self, commit: str) -> str:
        """Everything that decides the run."""
        return f"{self.scenario.name}, {self.how}, {self.memory}, seed {self.seed}, {commit}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an exploration came to.

    Args:
        judged: the executions whose events the verdict judged.
        shown: the output with the counterexample: that of the fewest preemptions, if it was
            looked for and found.
        shown_by: the exploration of that output.
        past_races: what else is found where executions go on past data races; None: nothing.
    """

    job: Job
    result: Result
    judged: int = 0
    shown: Output | None = None
    shown_by: Job | None = None
    past_races: Outcome | None = None

    @property
    def found(self) -> bool:
        """Whether there is a finding."""
        return self.result.finding is not None

    @property
    def findings(self) -> list[Outcome]:
        """The outcomes with a finding: itself, and what comes past its races."""
        return [one for one in (self, self.past_races) if one and one.found]

    @property
    def proved(self) -> bool:
        """Whether every execution was played without a finding and without a bound."""
        return self.result.complete and not self.found and self.job.mode is Mode.DPOR

    @property
    def unfinished(self) -> bool:
        """Whether a complete exploration was asked for, and a limit ended it."""
        return self.job.mode in COMPLETE and not self.result.complete and not self.found

    @property
    def words(self) -> str:
        """The result in a few words, which say no more than was seen."""
        if self.result.finding:
            kinds = [one.result.finding.kind for one in self.findings if one.result.finding]
            return f"FOUND: {', '.join(kinds)}"
        if self.proved:
            return "proved"
        if self.job.mode is Mode.BOUND and self.result.complete:
            return f"no fault up to {counted(self.job.bound or 0, 'preemption')}"
        if self.job.mode is Mode.REPLAY:
            return "no fault"
        limit = f" ({self.result.why_not})" if self.result.why_not else ""
        return f"no fault found, unfinished{limit}" if self.unfinished else "no fault found"


class Runner:
    """Starts the program, and ends what it started when the with block ends."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._over = False

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._over = True
            for process in self._running:
                process.kill()

    def scenarios(self) -> list[Scenario]:
        """The scenarios of the program. Raises ProgramError."""
        status, text, log = self._run(["--list"], LIST_SECONDS)
        try:
            if status:
                raise OutputError(f"exit status {status}")
            return output.scenarios(text.splitlines())
        except (OutputError, KeyError) as error:
            raise ProgramError(f"{self._program}: --list: {error}", console=log) from None

    def explore(self, job: Job) -> Output:
        """Explore one scenario. A program that ends without a result is a finding, too."""
        try:
            status, text, log = self._run(job.argv, job.seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            what = f"no end within {job.seconds + GRACE_SECONDS:g} s"
            return Output(Result(finding=Finding("hang", what)))
        if status == ExitStatus.USAGE:
            last = (log.strip().splitlines() or ["usage"])[-1]
            if job.replay and "does not fit" in last:
                what = "is of other code; play the scenario anew"
                raise UsageError(f"--replay: the schedule {what}")
            raise ProgramError(f"{job.scenario.name}: {last}")
        try:
            seen = output.read(text.splitlines())
        except (OutputError, KeyError, ValueError) as error:
            last = (log.strip().splitlines() or [str(error)])[-1]
            return Output(Result(finding=Finding("crash", f"{_ended(status)}: {last}")))
        at_fault = seen.result.finding.places if seen.result.finding else ()
        return replace(seen, steps=tuple(communicating(seen.steps, at_fault)))

    def _run(self, words: Sequence[str], seconds: float) -> tuple[int, str, str]:
        """Exit status, standard output, standard error."""
        with self._lock:
            if self._over:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                [*tools.END_WITH_US, str(self._program), *words],
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for us, and we end it
            )
            self._running.add(process)
        try:
            text, log = process.communicate(timeout=seconds)
            return process.returncode, text, log
        finally:
            process.kill()
            process.wait()
            with self._lock:
                self._running.discard(process)


def _ended(status: int) -> str:
    """How a program ended, in words."""
    if status >= 0:
        return f"the program ended with status {status} and without a result"
    return f"{signal.Signals(-status).name} ended the program"


def every(runner: Runner, jobs: Sequence[Job]) -> Iterator[tuple[Job, Output]]:
    """Explore all, in several processes; yields each as it ends."""
    pool = ThreadPoolExecutor(PROCESSES)
    try:
        futures = {pool.submit(runner.explore, job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def fewest_switches(runner: Runner, job: Job, found: Output) -> tuple[Job, Output]:
    """The same kind of finding with the fewest preemptions, or what was found."""
    finding = found.result.finding
    if finding is None or job.mode is Mode.REPLAY:
        return job, found
    return _fewest(runner, replace(job, mode=Mode.BOUND), finding.kind) or (job, found)


def at_hooks(runner: Runner, job: Job, kind: str) -> tuple[Job, Output] | None:
    """The same kind of finding, with the fewest preemptions and all of them at delay hooks."""
    return _fewest(runner, replace(job, mode=Mode.ENUMERATE, hooks=True), kind)


def _fewest(runner: Runner, job: Job, kind: str) -> tuple[Job, Output] | None:
    """Bounds 0, 1, 2 … are played until it shows, so that none has fewer by construction."""
    for bound in range(MOST_SWITCHES + 1):
        fewer = replace(job, bound=bound, executions=0, records=0)
        seen = runner.explore(fewer)
        if seen.result.finding and seen.result.finding.kind == kind:
            return fewer, seen
        if not seen.result.complete:
            break  # a smaller one might have been left out
    return None
