# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A fuzzing run: run programs, find the one that fails, shrink it, save and report it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from kfabric.errors import ExitStatus
from kfabric.fuzz.calls import CALLS
from kfabric.fuzz.failure import Failure, Totals
from kfabric.fuzz.generate import Origin
from kfabric.fuzz.generate import program as generate
from kfabric.fuzz.program import Program
from kfabric.fuzz.session import Session
from kfabric.fuzz.shrink import Shrinker, unused_names_dropped
from kfabric.vm import prepare

#: Calls after which all processes end and leaks are looked for. A kernel that scans its
#: memory for leaks needs long for that.
ROUND: Final = 50_000
#: How often a program runs to see whether it fails: with one thread, with several.
ONCE: Final = 1
RACES: Final = 20
#: Suspects that are run one by one.
_SUSPECTS: Final = 12


@dataclass(frozen=True)
class Plan:
    """The parameters of a run.

    Attributes:
        calls: the least number of calls, of all processes together.
        processes: how many run at a time.
        output: directory for programs that fail.
        shrink: shorten them, which takes many guests if each failure ends the guest.
        guest: options of the command that describe the guest.
    """

    seed: int
    calls: int
    processes: int
    output: Path
    shrink: bool = True
    guest: str = ""


class Throughput:
    """Prints the calls so far and their rate, at most every 30 seconds.

    Its clock starts with the first event from the guest, so that booting does not count.
    """

    def __init__(self, every: float = 30.0) -> None:
        self._every = every
        self._began = self._printed = self._updated = 0.0
        self._calls = 0

    def update(self, calls: int) -> None:
        """Take the number of calls so far."""
        self._calls, self._updated = calls, time.monotonic()
        self._began = self._began or self._updated
        self._printed = self._printed or self._updated
        if self._updated - self._printed >= self._every:
            self._printed = self._updated
            prepare.say(str(self))

    def __str__(self) -> str:
        seconds = self._updated - self._began
        rate = f", {self._calls / seconds:.0f} a second" if seconds else ""
        return f"{self._calls:,} calls in {seconds:.0f} s{rate}"


class Campaign:
    """Runs random programs until one fails or there were enough calls.

    Its attributes are valid at any moment, so that an interrupted run can be summarized.

    Attributes:
        totals: counts of the finished rounds.
        failures: all failures.
        saved: files of programs that fail, as short as they could be made so far.
    """

    def __init__(self, plan: Plan, session: Session) -> None:
        self.totals = Totals()
        self.failures: list[Failure] = []
        self.saved: list[Path] = []
        self._plan = plan
        self._session = session
        self._throughput = Throughput()

    @property
    def status(self) -> ExitStatus:
        """The exit status."""
        return ExitStatus.TEST_FAILED if self.failures else ExitStatus.OK

    def run(self) -> None:
        """Run programs, then look for those that caused the failures."""
        plan, processes = self._plan, count(step=self._plan.processes)
        while self.totals.calls < plan.calls and not self.failures:
            self._round(next(processes))
        for failure in distinct(self.failures):
            self._investigate(failure)

    def _round(self, first: int) -> None:
        """Run new processes, whose numbers begin with `first`."""
        before = self.totals.calls
        answer = self._session.run(
            self._plan.seed,
            range(first, first + self._plan.processes),
            min(ROUND, self._plan.calls - before),
            settle=True,
            progress=lambda calls: self._throughput.update(before + calls),
        )
        self.totals.take(answer.totals)
        self._throughput.update(self.totals.calls)
        self.failures += answer.failures

    def _investigate(self, failure: Failure) -> None:
        """Find the program that caused a failure, and save it."""
        prepare.say(f"{failure.kind}: {failure.title}")
        found = find(self._session, failure)
        if found is None:
            prepare.say("no program fails alone; all programs that ran then are saved")
            for origin in failure.suspects[:_SUSPECTS]:
                self._save(generate(Origin.parse(origin)), failure)
            return
        program, failed = found
        self._save(program, failed)
        if self._plan.shrink:
            # Each shorter program replaces the last one, so that an early end keeps the shortest.
            shrink(self._session, program, failed, lambda short: self._save(short, failed))

    def _save(self, program: Program, failure: Failure) -> None:
        path = save(self._plan.output, program, failure)
        if path not in self.saved:
            self.saved.append(path)

    def summary(self) -> list[str]:
        """The report of the run, line by line."""
        totals = self.totals
        lines = [str(self._throughput)]
        if totals.calls:
            lines.append(
                f"in whole rounds: {totals.calls:,} calls in {totals.programs:,} programs, "
                f"{len(totals.results)} different pairs of call and error number"
            )
            lines.append(f"never succeeded: {', '.join(totals.unreached()) or 'none'}")
        lines += [f"FAILED {one.kind}: {one.title}" for one in distinct(self.failures)]
        lines += [f"kfabric fuzz {self._plan.guest} --replay {path}" for path in self.saved]
        return lines


def distinct(failures: Sequence[Failure]) -> list[Failure]:
    """The first failure of each signature."""
    return list({failure.signature: failure for failure in reversed(failures)}.values())[::-1]


def find(session: Session, failure: Failure) -> tuple[Program, Failure] | None:
    """The suspect that fails alone in the same way, with its failure."""
    suspects = list(failure.suspects)
    if failure.kind in ("left", "memory"):
        suspects = _bisected(session, failure, suspects)
    for origin in suspects[:_SUSPECTS]:
        program = generate(Origin.parse(origin))
        if failed := replay(session, program, failure):
            return program, failed
    return None


def _bisected(session: Session, failure: Failure, suspects: list[str]) -> list[str]:
    """The one of many programs, run one after the other, that leaks something."""
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        answer = session.run_programs(origins=half, settle=failure.kind == "memory")
        leaks = any(one.kind == failure.kind for one in answer.failures)
        suspects = half if leaks else suspects[len(suspects) // 2 :]
    return suspects


def replay(
    session: Session, program: Program, like: Failure | None = None, times: int = 0
) -> Failure | None:
    """Run a program.

    Args:
        session: where it runs.
        program: the program.
        like: only a failure with the same signature counts.
        times: how often; 0: once, or more often if it has several threads.

    Returns:
        The failure; None if there was none that counts.
    """
    times = times or (RACES if program.threads else ONCE)
    settle = like is None or like.kind == "memory"
    for failure in session.run_programs([program], times=times, settle=settle).failures:
        if like is None or failure.signature == like.signature:
            return failure
    return None


def shrink(
    session: Session, program: Program, failure: Failure, found: Callable[[Program], None]
) -> None:
    """Look for the shortest program that fails in the same way; `found` gets each shorter one."""
    tried = 0

    def fails(candidate: Program) -> bool:
        nonlocal tried
        tried += 1
        failed = replay(session, candidate, failure) is not None
        result = "still fails" if failed else "does not fail"
        prepare.say(f"shrinking, try {tried}: {len(candidate.steps)} steps, {result}")
        if failed:
            found(candidate.with_steps(unused_names_dropped(candidate.steps)))
        return failed

    Shrinker(fails).shrink(program)


def save(directory: Path, program: Program, failure: Failure) -> Path:
    """Write a program, and the text of its failure beside it; return the program's file."""
    directory.mkdir(parents=True, exist_ok=True)
    notes = (f"{failure.kind}: {failure.title}", *program.notes)
    name = "-".join([failure.kind, *program.notes[-1:]]).replace(" ", "-").replace("/", "-")
    path = directory / f"{name}.fuzz"
    path.write_text(str(replace(program, notes=notes)))
    (directory / f"{name}.txt").write_text(failure.text)
    return path


def distil(session: Session, seed: int, directory: Path) -> list[str]:
    """Write short programs for the calls that the corpus lacks; return those still missing."""
    have = {path.stem for path in directory.glob("*.fuzz")}
    wanted = [op for op in CALLS if op.lower() not in have]
    found = session.distil(seed, wanted)
    directory.mkdir(parents=True, exist_ok=True)
    for op, text in found.items():
        (directory / f"{op.lower()}.fuzz").write_text(text)
    return [op for op in wanted if op not in found]
