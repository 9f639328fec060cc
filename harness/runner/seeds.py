# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric test --schedule seeds=1..200``: the same tests under one seed after another.

Each seed plays the tests in fresh guests. The first one under which they fail ends the search. It
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
from kfabric.runner import junit
from kfabric.runner.rounds import Played
from kfabric.steer import show
from kfabric.steer.plan import Plan, is_point
from kfabric.steer.show import Held
from kfabric.terminal import streams
from kfabric.vm import prepare

AGAIN = 5
"""How often a finding is played again."""
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
_SEEN = frozenset(
    {
        *(ExitStatus.TEST_FAILED, ExitStatus.FAULT_FOUND, ExitStatus.PANIC, ExitStatus.HANG),
        *(ExitStatus.LOST, ExitStatus.TIMEOUT, ExitStatus.SPLAT),
    }
)
"""Statuses of a run whose tests failed because of what they tested."""
LOG = "schedule.log"
"""What pytest has printed under the last seed."""


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


def command(argv: Sequence[str], seed: int, points: Iterable[str]) -> str:
    """A command line with this seed and these points in place of its own."""
    words: list[str] = []
    left = iter(argv)
    for word in left:
        if word in ("--schedule", "--points"):
            next(left, None)
        elif not word.startswith(("--schedule=", "--points=")):
            words.append(word)
    ours = ["--schedule", f"seeds={seed}", *(w for one in points for w in ("--points", one))]
    return shlex.join(["kfabric", "test", *ours, *words])


@dataclass
class Search:
    """Plays seeds.

    Attributes:
        seeds: which.
        points: hold at these, if there are any; otherwise the seed chooses.
        directory: of the run's files.
        argv: of the command.
        once: plays the tests.
    """

    seeds: range
    points: Sequence[str]
    directory: Path
    argv: Sequence[str]
    once: Callable[[], Played]
    shown_at: tuple[Held, ...] = field(default=(), init=False)
    """Where CPUs were held when the tests failed; empty if the holds explain nothing."""
    _failed: frozenset[str] = field(default=frozenset(), init=False)
    """The tests that failed under the seed that was found."""
    _plays: int = field(default=0, init=False)
    _held_any: bool = field(default=False, init=False)
    """Whether a seed has held a CPU at all."""

    def play(self) -> int:
        """Play them until one fails; the status of that one.

        Raises UsageError: no seed has held a CPU, so nothing was searched.
        """
        shutil.rmtree(self.directory / KEPT, ignore_errors=True)
        for seed in self.seeds:
            plan = Plan(seed, tuple(self.points))
            played = self._under(plan)
            if played.status != ExitStatus.OK:
                print(self._log.read_text(errors="replace"), end="", flush=True)
                self._failed = _failed_tests(played)
                if played.status in _SEEN and self._failed:
                    self._keep(played)
                    self._found(plan)
                else:
                    tell(f"the search ends at seed {seed}: no test failed, but the run did")
                return played.status
            held = self._held()
            if seed == self.seeds[0]:
                self._require_passed(held)
            self._held_any |= any(one.holds for one in held)
            prepare.say(f"seed {seed} of {self.seeds[-1]}: passed")
        if not self._held_any:
            raise UsageError("--schedule has held no CPU", f"see {self.directory / TABLE}")
        self._show(self.seeds[-1])
        tell(f"no failure under {counted(len(self.seeds), 'seed')}")
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
        """Say all that can be said of a seed under which the tests failed."""
        held = self._show(plan.seed)
        tell(f"seed {plan.seed} of {self.seeds[-1]}: failed")
        without = sum(self._fails(None) for _ in range(WITHOUT))
        if without or not any(one.holds for one in held):
            tell(f"the same test failed in {without} of {WITHOUT} runs in which no CPU was held")
            tell("so nothing is said of the points")
            return
        again = self._again(plan)
        tell(f"the same test failed in {again} of {AGAIN} more runs under this seed")
        tell(f"and in none of {WITHOUT} in which no CPU was held")
        tell(f"to play it: {command(self.argv, plan.seed, plan.points)}")
        self.shown_at = tuple(one for one in held if one.holds)
        points = [one.point for one in self.shown_at]
        if again < AGAIN:
            tell("its points are not made fewer: that takes a seed that always shows it")
        elif len(points) > 1:
            prepare.say(f"looking for fewer points than {len(points)} that still show it")
            self._reduced(plan.seed, points)

    def _reduced(self, seed: int, points: list[str]) -> None:
        """Say with how few of these points the tests still fail."""
        fewest = self._fewest(seed, points)
        if len(fewest) == len(points):
            tell(f"none of {counted(self._plays, 'run')} with fewer points showed it as often")
            return
        left = tuple(one for one in self.shown_at if one.point in fewest)
        again = self._again(Plan(seed, tuple(fewest)))
        where = counted(len(fewest), "point")
        tell(f"held at {where} only, the same test failed in {again} of {AGAIN} runs:")
        for one in left[:SHOWN]:
            tell(f"  {one.place()}")
        if (more := len(fewest) - SHOWN) > 0:
            tell(f"  and {counted(more, 'other')}")
        tell(f"to play it: {command(self.argv, seed, fewest)}")
        if again:
            self.shown_at = left

    def _fewest(self, seed: int, points: list[str]) -> list[str]:
        """Some of the points at which CPUs were held, with which the tests still fail.

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
        """Where CPUs were held when the same test failed with a plan; empty if it seldom did."""
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
        """Whether a test fails that failed before; a run that tells nothing is played once more.

        Raises SetupError: that one has told nothing, either.
        """
        for _ in range(2):
            played = self._under(plan)
            if played.status == ExitStatus.OK or played.status in _SEEN:
                return bool(_failed_tests(played) & self._failed)
            prepare.say("a run has ended without a result of its tests")
        raise SetupError("two runs in a row have ended without a result", f"see {self._log}")

    def _under(self, plan: Plan | None) -> Played:
        """Play the tests with a plan, or without holds."""
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

    def _keep(self, played: Played) -> None:
        place = self.directory / KEPT
        place.mkdir()
        results = (report.with_suffix(s) for report in played.reports for s in junit.SUFFIXES)
        for file in filter(Path.exists, (*results, self._log)):
            shutil.copy(file, place)


def _some(points: Sequence[str], parts: int) -> Iterator[list[str]]:
    """Parts of the points, and all points but those of a part."""
    each = -(-len(points) // parts)
    chosen = [[*points[at : at + each]] for at in range(0, len(points), each)]
    yield from chosen
    if parts > 2:
        for part in chosen:
            yield [point for point in points if point not in part]


def _failed_tests(played: Played) -> frozenset[str]:
    """The tests that failed in a run."""
    reports = filter(Path.exists, played.reports)
    return frozenset(name for report in reports for name in junit.failed(report))


def tell(line: str) -> None:
    """Print a line about the result."""
    print(f"kfabric: {line}", file=sys.stderr, flush=True)
