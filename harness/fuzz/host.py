# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The hunt: play, find the program that did it, shrink it, leave it, tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from harness.errors import ExitStatus
from harness.fuzz.calls import CALLS
from harness.fuzz.failure import Failure, Totals
from harness.fuzz.generate import Origin
from harness.fuzz.generate import program as generate
from harness.fuzz.program import Program
from harness.fuzz.session import Session
from harness.fuzz.shrink import Shrinker, unused_names_dropped
from harness.vm import prepare

#: Calls after which all processes end, and what they left is looked at: on a kernel that
#: searches its memory for leaks that takes 40 s.
ROUND: Final = 50_000
#: How often a program is played to see whether it fails: with one thread, with several.
ONCE: Final = 1
RACES: Final = 20
#: Suspects that are looked at one by one.
_SUSPECTS: Final = 12
#: How often a run says how far it has come.
PACE_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Plan:
    """What to play.

    :param calls: at least, over all.
    :param processes: at a time.
    :param output: directory for programs that fail.
    :param shrink: make them short, which takes many guests if they end with them.
    :param guest: options of the command that say in which guest.
    """

    seed: int
    calls: int
    processes: int
    output: Path
    shrink: bool = True
    guest: str = ""


class Pace:
    """Says now and then how far a run has come, and how fast.

    Its clock begins with the first word from the guest: booting is no playing.

    :param every: seconds between two lines.
    """

    def __init__(self, every: float = PACE_SECONDS) -> None:
        self._every = every
        self._began = self._said = self._heard = 0.0
        self._calls = 0

    def now(self, calls: int) -> None:
        """Take the calls so far."""
        self._calls, self._heard = calls, time.monotonic()
        self._began = self._began or self._heard
        self._said = self._said or self._heard
        if self._heard - self._said >= self._every:
            self._said = self._heard
            prepare.say(str(self))

    def __str__(self) -> str:
        seconds = self._heard - self._began
        rate = f", {self._calls / seconds:.0f} a second" if seconds else ""
        return f"{self._calls:,} calls in {seconds:.0f} s{rate}"


class Hunt:
    """Plays random programs until something fails or there were enough calls.

    What it has at any moment can be asked for, should it be interrupted.
    """

    def __init__(self, plan: Plan, session: Session) -> None:
        self.totals = Totals()
        """Of whole rounds."""
        self.failures: list[Failure] = []
        self.found: list[Path] = []
        """Files of programs that fail, as short as they could be made."""
        self._plan = plan
        self._session = session
        self._pace = Pace()

    @property
    def status(self) -> ExitStatus:
        """The exit status."""
        return ExitStatus.TEST_FAILED if self.failures else ExitStatus.OK

    def run(self) -> None:
        """Play, and look for the program that did it."""
        plan, processes = self._plan, count(step=self._plan.processes)
        while self.totals.calls < plan.calls and not self.failures:
            self._round(next(processes))
        for failure in distinct(self.failures):
            self._pursue(failure)

    def _round(self, first: int) -> None:
        """Play with new processes, numbered from `first` on."""
        before = self.totals.calls
        answer = self._session.run(
            self._plan.seed,
            range(first, first + self._plan.processes),
            min(ROUND, self._plan.calls - before),
            settle=True,
            progress=lambda calls: self._pace.now(before + calls),
        )
        self.totals.take(answer.totals)
        self._pace.now(self.totals.calls)
        self.failures += answer.failures

    def _pursue(self, failure: Failure) -> None:
        """Find out which program it was, and leave it."""
        prepare.say(f"{failure.kind}: {failure.title}")
        culprit = find(self._session, failure)
        if culprit is None:
            prepare.say("no program fails alone; those that were played then are left")
            for origin in failure.suspects[:_SUSPECTS]:
                self._leave(generate(Origin.parse(origin)), failure)
            return
        program, failed = culprit
        self._leave(program, failed)
        if self._plan.shrink:
            # Each that is shorter replaces the last: what there is when it ends early is good.
            shrink(self._session, program, failed, lambda short: self._leave(short, failed))

    def _leave(self, program: Program, failure: Failure) -> None:
        """Write a program, and what is said about it."""
        path = leave(self._plan.output, program, failure)
        if path not in self.found:
            self.found.append(path)

    def summary(self) -> list[str]:
        """What is said at the end, line by line."""
        totals = self.totals
        lines = [str(self._pace)]
        if totals.calls:
            lines.append(
                f"in whole rounds: {totals.calls:,} calls in {totals.programs:,} programs, "
                f"{len(totals.results)} different pairs of call and error number"
            )
            missing = ", ".join(totals.unreached())
            lines.append(f"never succeeded: {missing or 'none'}")
        lines += [f"FAILED {one.kind}: {one.title}" for one in distinct(self.failures)]
        lines += [f"kfabric fuzz {self._plan.guest} --replay {path}" for path in self.found]
        return lines


def distinct(failures: Sequence[Failure]) -> list[Failure]:
    """One of each fault; the first that was seen."""
    return list({failure.signature: failure for failure in reversed(failures)}.values())[::-1]


def find(session: Session, failure: Failure) -> tuple[Program, Failure] | None:
    """The suspect that fails alone, in the same way, and how."""
    suspects = list(failure.suspects)
    if failure.kind in ("left", "memory"):
        suspects = _halved(session, failure, suspects)
    for origin in suspects[:_SUSPECTS]:
        program = generate(Origin.parse(origin))
        failed = replay(session, program, failure)
        if failed:
            return program, failed
    return None


def _halved(session: Session, failure: Failure, suspects: list[str]) -> list[str]:
    """Of many that were played one after the other, the one that leaves something."""
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        answer = session.play(origins=half, settle=failure.kind == "memory")
        guilty = any(one.kind == failure.kind for one in answer.failures)
        suspects = half if guilty else suspects[len(suspects) // 2 :]
    return suspects


def replay(
    session: Session, program: Program, like: Failure | None = None, times: int = 0
) -> Failure | None:
    """Play a program; how it failed, None if it did not, or not in this way.

    :param like: only a failure with the same signature counts.
    :param times: how often; 0: once, or more often if its threads race.
    """
    times = times or (RACES if program.threads else ONCE)
    settle = like is None or like.kind == "memory"
    answer = session.play([program], times=times, settle=settle)
    for failure in answer.failures:
        if like is None or failure.signature == like.signature:
            return failure
    return None


def shrink(
    session: Session, program: Program, failure: Failure, found: Callable[[Program], None]
) -> None:
    """Look for the shortest program that still fails in the same way.

    :param found: gets each that does, shorter and shorter.
    """
    tried = 0

    def fails(candidate: Program) -> bool:
        nonlocal tried
        tried += 1
        failed = replay(session, candidate, failure) is not None
        said = "still fails" if failed else "does not fail"
        prepare.say(f"shrinking, try {tried}: {len(candidate.steps)} steps, {said}")
        if failed:
            found(candidate.with_steps(unused_names_dropped(candidate.steps)))
        return failed

    Shrinker(fails).shrink(program)


def leave(directory: Path, program: Program, failure: Failure) -> Path:
    """Write a program with what is said about it; its file."""
    directory.mkdir(parents=True, exist_ok=True)
    notes = (f"{failure.kind}: {failure.title}", *program.notes)
    name = "-".join([failure.kind, *program.notes[-1:]]).replace(" ", "-").replace("/", "-")
    path = directory / f"{name}.fuzz"
    path.write_text(str(replace(program, notes=notes)))
    (directory / f"{name}.txt").write_text(failure.text)
    return path


def distil(session: Session, seed: int, directory: Path) -> list[str]:
    """Write short programs for the calls that the corpus has none for; those still missing."""
    have = {path.stem for path in directory.glob("*.fuzz")}
    wanted = [op for op in CALLS if op.lower() not in have]
    found = session.distil(seed, wanted)
    directory.mkdir(parents=True, exist_ok=True)
    for op, text in found.items():
        (directory / f"{op.lower()}.fuzz").write_text(text)
    return [op for op in wanted if op not in found]
