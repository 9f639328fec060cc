# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The hunt: play, find the program that did it, shrink it, leave it, tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from harness import setup
from harness.errors import ExitStatus
from harness.fuzz.calls import CALLS
from harness.fuzz.failure import Failure, Totals
from harness.fuzz.generate import Origin
from harness.fuzz.generate import program as generate
from harness.fuzz.program import Program
from harness.fuzz.session import Session
from harness.fuzz.shrink import Shrinker, unused_names_dropped

#: Calls after which all processes end, and what they left is looked at.
ROUND: Final = 50_000
#: How often a program is played to see whether it fails: with one thread, with several.
ONCE: Final = 1
RACES: Final = 20
#: Suspects that are looked at one by one.
_SUSPECTS: Final = 12


@dataclass
class Hunt:
    """What was played, and what came of it.

    :param found: files of programs that fail, as short as they could be made.
    """

    totals: Totals = field(default_factory=Totals)
    failures: list[Failure] = field(default_factory=list)
    found: list[Path] = field(default_factory=list)

    @property
    def status(self) -> ExitStatus:
        """The exit status."""
        return ExitStatus.TEST_FAILED if self.failures else ExitStatus.OK


@dataclass(frozen=True)
class Plan:
    """What to play.

    :param calls: at least, over all.
    :param processes: at a time.
    :param output: directory for programs that fail.
    :param shrink: make them short, which takes many guests if they end with them.
    """

    seed: int
    calls: int
    processes: int
    output: Path
    shrink: bool = True


def run(plan: Plan, session: Session) -> Hunt:
    """Play random programs until something fails or there were enough calls."""
    hunt = Hunt()
    first = 0
    while hunt.totals.calls < plan.calls and not hunt.failures:
        calls = min(ROUND, plan.calls - hunt.totals.calls)
        answer = session.run(
            plan.seed,
            plan.processes,
            calls,
            first=first,
            settle=True,
        )
        results = [[op, code, n] for (op, code), n in answer.totals.results.items()]
        hunt.totals.add(answer.totals.programs, results)
        hunt.failures += answer.failures
        first += _next(answer.totals.programs, plan.processes)
        setup.say(f"{hunt.totals.calls} calls, {hunt.totals.programs} programs")
    for failure in distinct(hunt.failures):
        _pursue(plan, session, hunt, failure)
    return hunt


def _next(programs: int, processes: int) -> int:
    """The number of programs that no process of a round can have come to."""
    return 2 * programs // processes + 1


def distinct(failures: Sequence[Failure]) -> list[Failure]:
    """One of each fault; the first that was seen."""
    return list({failure.signature: failure for failure in reversed(failures)}.values())[::-1]


def _pursue(plan: Plan, session: Session, hunt: Hunt, failure: Failure) -> None:
    """Find out which program it was, and leave it."""
    setup.say(f"{failure.kind}: {failure.title}")
    culprit = find(session, failure)
    if culprit is None:
        setup.say("no program fails alone; those that were played then are left")
        for origin in failure.suspects[:_SUSPECTS]:
            hunt.found.append(_leave(plan.output, _of(origin), failure))
        return
    program, failed = culprit
    if plan.shrink:
        program = shortest(session, program, failed)
    hunt.found.append(_leave(plan.output, program, failed))


def find(session: Session, failure: Failure) -> tuple[Program, Failure] | None:
    """The suspect that fails alone, in the same way, and how."""
    suspects = list(failure.suspects)
    if failure.kind in ("left", "memory"):
        suspects = _halved(session, failure, suspects)
    for origin in suspects[:_SUSPECTS]:
        program = _of(origin)
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
    settle = like is not None and like.kind == "memory"
    answer = session.play([program], times=times, settle=settle)
    for failure in answer.failures:
        if like is None or failure.signature == like.signature:
            return failure
    return None


def shortest(session: Session, program: Program, failure: Failure) -> Program:
    """The shortest program that still fails in the same way."""
    tried = 0

    def fails(candidate: Program) -> bool:
        nonlocal tried
        tried += 1
        failed = replay(session, candidate, failure) is not None
        setup.say(f"shrinking, try {tried}: {len(candidate.steps)} steps, {_said(failed)}")
        return failed

    short = Shrinker(fails).shrink(program)
    return short.with_steps(unused_names_dropped(short.steps))


def _said(failed: bool) -> str:
    return "still fails" if failed else "does not fail"


def _of(origin: str) -> Program:
    seed, process, number = map(int, origin.split("."))
    return generate(Origin(seed, process, number))


def _leave(directory: Path, program: Program, failure: Failure) -> Path:
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


def summary(hunt: Hunt, seconds: float) -> list[str]:
    """What is said at the end, line by line."""
    totals = hunt.totals
    ways = len(totals.results)
    lines = [
        f"{totals.calls} calls in {totals.programs} programs, {seconds:.0f} s, "
        f"{ways} different pairs of call and error number"
    ]
    if missing := totals.unreached():
        lines.append(f"never succeeded: {', '.join(missing)}")
    lines += [f"FAILED {failure.kind}: {failure.title}" for failure in distinct(hunt.failures)]
    lines += [f"kfabric fuzz --replay {path}" for path in hunt.found]
    return lines
