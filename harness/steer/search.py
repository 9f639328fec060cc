# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--schedule seeds=1..200``: the same tests, or the same trace, under one seed after another.

Each seed is played in fresh guests. The first one under which something fails ends the search. It
is then played again, to say how often it shows the failure, and with fewer and fewer points.
"""

import argparse
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kfabric import names
from kfabric.errors import ExitStatus, SetupError, UsageError, counted
from kfabric.steer import show
from kfabric.steer.plan import Plan, is_point
from kfabric.steer.show import Held
from kfabric.terminal import streams
from kfabric.vm import prepare

AGAIN = 5
"""How often a finding is played again."""
OFTEN = 4
"""If it shows the failure so often of that, its points are made fewer."""
WITHOUT = 3
"""How often it is played without holds."""
TRIES = 3
ENOUGH = 2
"""Some of its points show it if the same test fails so often, in at most TRIES runs."""
PLAYS = 40
"""At most so many runs make its points fewer."""
MOST = (1 << 63) - 1
SHOWN = 5
"""Points that are printed; the file has all."""
TABLE = "schedule.md"
KEPT = "schedule"
"""Directory for the files of the run that failed, since later ones write theirs again."""
LOG = "schedule.log"
"""What was printed under the last seed."""
OF_GUESTS = frozenset(
    (ExitStatus.PANIC, ExitStatus.HANG, ExitStatus.LOST, ExitStatus.TIMEOUT, ExitStatus.SPLAT)
)
"""Statuses of a run whose guest failed because of what it ran."""


@dataclass(frozen=True)
class Ended:
    """How a run has ended.

    Attributes:
        status: its exit status.
        failed: the names of what failed and may be due to a hold; they are the same each time.
        files: its results.
        words: what is said of it if its status is 0.
    """

    status: int
    failed: frozenset[str] = frozenset()
    files: Sequence[Path] = ()
    words: str = "passed"


@dataclass(frozen=True)
class Kind:
    """What is played: tests, or a trace.

    Attributes:
        command: the subcommand.
        again: says that what failed has failed again.
        broke: says that nothing failed in a run that broke off.
        records: whether the subcommand has ``--record``.
    """

    command: str
    again: str
    broke: str
    records: bool = False


def add_options(
    parser: argparse.ArgumentParser, group: argparse._ActionsContainer, until: str
) -> None:
    """Add ``--schedule`` to a group and ``--points`` to a parser.

    Args:
        until: what ends a search, in words.
    """
    group.add_argument(
        "--schedule",
        type=parse,
        metavar="seeds=A..B",
        help="hold the guests' CPUs in the modules, where each seed says, "
        f"until {until} (docs/schedule.md)",
    )
    parser.add_argument(
        "--points",
        type=point,
        action="append",
        default=[],
        metavar="FUNCTION[+0xOFFSET]",
        help="with --schedule: hold the CPUs there, and nowhere else; may be repeated",
    )


def check_options(args: argparse.Namespace) -> None:
    """Raise UsageError for options of a guest that cannot be steered."""
    if args.points and not args.schedule:
        raise UsageError("--points chooses what --schedule holds", "give both")
    if args.schedule and args.cpus == 1:
        raise UsageError("--schedule holds a CPU while another one runs", "leave out --cpus")


def parse(text: str) -> range:
    """The seeds of ``seeds=1..200`` or ``seeds=7``, in argparse's way."""
    if match := re.fullmatch(r"seeds=(\d+)(?:\.\.(\d+))?", text):
        first, last = int(match[1]), int(match[2] or match[1])
        if 1 <= first <= last <= MOST:
            return range(first, last + 1)
    raise argparse.ArgumentTypeError(f"{text!r} is not like seeds=1..200; the first is 1")


def point(text: str) -> str:
    """A point, in argparse's way."""
    if is_point(text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not like my_wait or my_wait+0x2c")


def without(argv: Sequence[str]) -> list[str]:
    """A command line without its own ``--schedule``, ``--points`` and ``--record``."""
    words: list[str] = []
    left = iter(argv)
    for word in left:
        if word == "--":
            return [*words, word, *left]
        if word in ("--schedule", "--points"):
            next(left, None)
        elif word != "--record" and not word.startswith(("--schedule=", "--points=")):
            words.append(word)
    return words


@dataclass
class Search:
    """Plays seeds.

    Attributes:
        kind: of the runs.
        seeds: which.
        points: hold at these, if there are any; otherwise the seed chooses.
        directory: of the run's files.
        argv: of the command.
        once: plays it, in the environment that asks for the plan.
        known: the seed and the points are those of an earlier search, and only its failure is
            asked for: at most AGAIN runs look for it, and nothing else is said.
    """

    kind: Kind
    seeds: range
    points: Sequence[str]
    directory: Path
    argv: Sequence[str]
    once: Callable[[], Ended]
    known: bool = False
    shown_at: tuple[Held, ...] = field(default=(), init=False)
    """Where CPUs were held when it failed; empty if the holds explain nothing."""
    _failed: frozenset[str] = field(default=frozenset(), init=False)
    """What failed under the seed that was found."""
    _plays: int = field(default=0, init=False)
    _held_any: bool = field(default=False, init=False)
    """Whether a seed has held a CPU at all."""

    def play(self) -> int:
        """Play them until one fails; the status of that one.

        Raises UsageError: no seed has held a CPU, so nothing was searched.
        """
        shutil.rmtree(self.directory / KEPT, ignore_errors=True)
        for seed in [*self.seeds] * (AGAIN if self.known else 1):
            plan = Plan(seed, tuple(self.points))
            ended = self._under(plan)
            if ended.status != ExitStatus.OK:
                print(self._log.read_text(errors="replace"), end="", flush=True)
                self._failed = ended.failed
                if ended.failed:
                    self._keep(ended)
                    self._found(plan)
                else:
                    tell(f"the search ends at seed {seed}: {self.kind.broke}")
                return ended.status
            held = self._held()
            if seed == self.seeds[0]:
                self._require_passed(held)
            self._held_any |= any(one.holds for one in held)
            prepare.say(f"seed {seed} of {self.seeds[-1]}: {ended.words}")
        if not self._held_any:
            raise UsageError("--schedule has held no CPU", f"see {self.directory / TABLE}")
        self._show(self.seeds[-1])
        seeds = counted(len(self.seeds), "seed")
        tell(f"no failure in {AGAIN} runs" if self.known else f"no failure under {seeds}")
        return ExitStatus.OK

    @property
    def _log(self) -> Path:
        return self.directory / LOG

    def _require_passed(self, held: Sequence[Held]) -> None:
        """Raise UsageError if other seeds cannot hold a CPU either, or not at a named point."""
        if not held:
            why = "no module under test was loaded, or no CPU has executed its code"
            raise UsageError("--schedule has held no CPU", why)
        known = {name for one in held for name in (one.point, one.point.partition("+")[0])}
        for point in self.points:
            if point not in known:
                self._show(self.seeds[0])
                raise UsageError(f"no CPU has passed {point}", f"see {self.directory / TABLE}")

    def _found(self, plan: Plan) -> None:
        """Say all that can be said of a seed under which something failed."""
        held = self._show(plan.seed)
        tell(f"seed {plan.seed} of {self.seeds[-1]}: failed")
        if self.known:
            self.shown_at = tuple(one for one in held if one.holds)
            return
        runs = f"{WITHOUT} times without holds, and {AGAIN} times under the seed"
        prepare.say(f"playing it again, {runs}")
        without = sum(self._fails(None) for _ in range(WITHOUT))
        if without or not any(one.holds for one in held):
            words = f"{without} of {WITHOUT} runs in which no CPU was held"
            tell(f"{self.kind.again} in {words}")
            tell("so nothing is said of the points")
            return
        again = self._again(plan)
        tell(f"{self.kind.again} in {again} of {AGAIN} more runs under this seed")
        tell(f"and in none of {WITHOUT} in which no CPU was held")
        tell(f"to play it: {self._command(plan.seed, plan.points)}")
        self.shown_at = tuple(one for one in held if one.holds)
        points = [one.point for one in self.shown_at]
        if again < OFTEN:
            tell(f"its points are not made fewer: that takes a seed that shows it {OFTEN} times")
        elif len(points) > 1:
            fewer = f"looking for fewer points than {len(points)} that still show it"
            prepare.say(f"{fewer}, in at most {PLAYS} runs")
            self._reduced(plan.seed, points)

    def _reduced(self, seed: int, points: list[str]) -> None:
        """Say with how few of these points it still fails."""
        fewest = self._fewest(seed, points)
        if len(fewest) == len(points):
            tell(f"none of {counted(self._plays, 'run')} with fewer points showed it as often")
            return
        left = tuple(one for one in self.shown_at if one.point in fewest)
        again = self._again(Plan(seed, tuple(fewest)))
        where = counted(len(fewest), "point")
        tell(f"held at {where} only, {self.kind.again} in {again} of {AGAIN} runs:")
        for one in left[:SHOWN]:
            tell(f"  {one.place()}")
        if (more := len(fewest) - SHOWN) > 0:
            tell(f"  and {counted(more, 'other')}")
        tell(f"to play it: {self._command(seed, fewest)}")
        if self.kind.records and "--record" not in self.argv:
            tell(f"to record it: {self._command(seed, fewest, '--record')}")
        if again:
            self.shown_at = left

    def _command(self, seed: int, points: Iterable[str], *more: str) -> str:
        """The command line with this seed and these points in place of its own."""
        ours = ["--schedule", f"seeds={seed}", *(w for one in points for w in ("--points", one))]
        ours += more
        return shlex.join(["kfabric", self.kind.command, *ours, *without(self.argv)])

    def _fewest(self, seed: int, points: list[str]) -> list[str]:
        """Some of the points at which CPUs were held, with which it still fails.

        This is delta debugging: halves are tried first, then smaller parts and all but one part.
        """
        self._plays = 0
        parts = 2
        while len(points) > 1 and self._plays < PLAYS:
            for some in _some(points, parts):
                if held := self._shows(Plan(seed, tuple(some))):
                    points = [one for one in some if one in held]
                    prepare.say(f"{counted(len(points), 'point')} left")
                    parts = 2
                    break
            else:
                if parts >= len(points):
                    break
                parts = min(2 * parts, len(points))
        return points

    def _shows(self, plan: Plan) -> set[str]:
        """Where CPUs were held when the same failed with a plan; empty if it seldom did."""
        failed = 0
        for left in range(TRIES, 0, -1):
            if self._plays >= PLAYS or failed + left < ENOUGH:
                break
            self._plays += 1
            failed += self._fails(plan)
            if failed == ENOUGH:
                return {one.point for one in self._held() if one.holds}
        return set()

    def _again(self, plan: Plan) -> int:
        return sum(self._fails(plan) for _ in range(AGAIN))

    def _fails(self, plan: Plan | None) -> bool:
        """Whether the same fails as before; a run that tells nothing is played once more.

        Raises SetupError: that one has told nothing, either.
        """
        for _ in range(2):
            ended = self._under(plan)
            if ended.status == ExitStatus.OK or ended.failed:
                return bool(ended.failed & self._failed)
            prepare.say("a run has ended without a result of its tests")
        raise SetupError("two runs in a row have ended without a result", f"see {self._log}")

    def _under(self, plan: Plan | None) -> Ended:
        """Play it with a plan, or without holds."""
        for old in show.boards(self.directory):
            old.unlink(missing_ok=True)
            old.with_name(names.AIMS).unlink()
        self.directory.mkdir(parents=True, exist_ok=True)
        os.environ.update(plan.environment() if plan else {})
        try:
            with streams.of_children_into(self._log):
                return self.once()
        finally:
            os.environ.pop(names.STEER, None)

    def _held(self) -> list[Held]:
        return show.read(show.boards(self.directory))

    def _show(self, seed: int) -> list[Held]:
        """Write where CPUs were held under a seed, and print the points where it was longest."""
        held = self._held()
        table = self.directory / TABLE
        table.write_text(f"Seed {seed}\n\n{show.markdown(held)}")
        for one in [one for one in held if one.holds][:SHOWN]:
            times = counted(one.holds, "time")
            tell(f"held {times}, {one.held_ns / 1e6:.1f} ms: {one.place()}")
        tell(f"all {counted(len(held), 'point')} that were passed: {table}")
        return held

    def _keep(self, ended: Ended) -> None:
        place = self.directory / KEPT
        place.mkdir()
        for file in filter(Path.exists, (*ended.files, self._log)):
            shutil.copy(file, place)


def _some(points: Sequence[str], parts: int) -> Iterator[list[str]]:
    """Parts of the points, and all points but those of a part."""
    each = -(-len(points) // parts)
    chosen = [[*points[at : at + each]] for at in range(0, len(points), each)]
    yield from chosen
    if parts > 2:
        for part in chosen:
            yield [point for point in points if point not in part]


def tell(line: str) -> None:
    """Print a line about the result."""
    print(f"kfabric: {line}", file=sys.stderr, flush=True)
