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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kfabric import names
from kfabric.errors import ExitStatus, UsageError, counted
from kfabric.runner import junit
from kfabric.runner.rounds import Played
from kfabric.steer import show
from kfabric.steer.plan import Plan, is_point
from kfabric.steer.show import Held
from kfabric.terminal import streams
from kfabric.vm import prepare

AGAIN = 5
"""How often a finding is played again."""
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
    _failed: frozenset[str] = field(default=frozenset(), init=False)
    """The tests that failed under the seed that was found."""
    _plays: int = field(default=0, init=False)
    _held_any: bool = field(default=False, init=False)
    """Whether a seed has held a CPU at all."""

    def play(self) -> int:
        """Play them until one fails; the status of the last one.

        Raises UsageError: no seed has held a CPU, so nothing was searched.
        """
        shutil.rmtree(self.directory / KEPT, ignore_errors=True)
        for seed in self.seeds:
            plan = Plan(seed, tuple(self.points))
            played = self._under(plan)
            if played.status != ExitStatus.OK:
                print(self._log.read_text(errors="replace"), end="", flush=True)
                if played.status in _SEEN and (failed := failed_tests(played)):
                    self._failed = failed
                    self._keep(played)
                    self._found(plan)
                return played.status
            prepare.say(f"seed {seed} of {self.seeds[-1]}: passed")
            self._held_any |= any(one.holds for one in self._held())
        if not self._held_any:
            why = "no module under test was loaded, or no CPU passed the points"
            raise UsageError(f"--schedule has held no CPU: {why}")
        self._show(self.seeds[-1])
        prepare.say(f"no failure under {counted(len(self.seeds), 'seed')}")
        return ExitStatus.OK

    @property
    def _log(self) -> Path:
        return self.directory / LOG

    def _found(self, plan: Plan) -> None:
        """Say all that can be said of a seed under which the tests failed."""
        held = self._show(plan.seed)
        prepare.say(f"seed {plan.seed} of {self.seeds[-1]}: failed")
        again = self._again(plan)
        prepare.say(f"the same test failed in {again} of {AGAIN} more runs under this seed")
        prepare.say(f"to play it: {command(self.argv, plan.seed, plan.points)}")
        points = [one.point for one in held if one.holds]
        if again == AGAIN and len(points) > 1:
            prepare.say(f"looking for fewer points than {len(points)} that still show it")
            self._reduced(plan.seed, points, {one.point: one.place() for one in held})

    def _reduced(self, seed: int, points: list[str], places: Mapping[str, str]) -> None:
        """Say with how few of these points the tests still fail."""
        fewest = self._fewest(seed, points)
        if len(fewest) == len(points):
            prepare.say("neither half of them shows it as often")
            return
        again = self._again(Plan(seed, tuple(fewest)))
        where = counted(len(fewest), "point")
        prepare.say(f"held at {where} only, the same test failed in {again} of {AGAIN} runs:")
        for point in fewest[:SHOWN]:
            prepare.say(f"  {places[point]}")
        prepare.say(f"to play it: {command(self.argv, seed, fewest)}")

    def _fewest(self, seed: int, points: list[str]) -> list[str]:
        """Some of the points at which CPUs were held, with which the tests still fail."""
        self._plays = 0
        while len(points) > 1:
            half = len(points) // 2
            for some in (points[:half], points[half:]):
                if held := self._shows(Plan(seed, tuple(some))):
                    points = [one for one in some if one in held]
                    break
            else:
                break
        return points

    def _shows(self, plan: Plan) -> set[str]:
        """Where CPUs were held when the same test failed with a plan; empty if it seldom did."""
        failed = 0
        for left in range(TRIES, 0, -1):
            self._plays += 1
            if self._plays > PLAYS or failed + left < ENOUGH:
                break
            failed += self._fails(plan)
            if failed == ENOUGH:
                return {one.point for one in self._held() if one.holds}
        return set()

    def _again(self, plan: Plan) -> int:
        return sum(self._fails(plan) for _ in range(AGAIN))

    def _fails(self, plan: Plan) -> bool:
        """Whether a test fails that failed before."""
        return bool(failed_tests(self._under(plan)) & self._failed)

    def _under(self, plan: Plan) -> Played:
        for old in show.boards(self.directory):
            old.unlink(missing_ok=True)
            old.with_name(names.AIMS).unlink()
        self.directory.mkdir(parents=True, exist_ok=True)
        os.environ.update(plan.environment())
        try:
            with streams.of_children_into(self._log):
                return self.once()
        finally:
            del os.environ[names.STEER]

    def _held(self) -> list[Held]:
        return show.read(show.boards(self.directory))

    def _show(self, seed: int) -> list[Held]:
        """Write where CPUs were held under a seed, and print the points where it was longest."""
        held = self._held()
        table = self.directory / TABLE
        table.write_text(f"Seed {seed}\n\n{show.markdown(held)}")
        for one in [one for one in held if one.holds][:SHOWN]:
            times = counted(one.holds, "time")
            prepare.say(f"held {times}, {one.held_ns / 1e6:.1f} ms: {one.place()}")
        prepare.say(f"all {counted(len(held), 'point')} that were passed: {table}")
        return held

    def _keep(self, played: Played) -> None:
        place = self.directory / KEPT
        place.mkdir()
        for report in played.reports:
            for file in filter(Path.exists, map(report.with_suffix, junit.SUFFIXES)):
                shutil.copy(file, place)


def failed_tests(played: Played) -> frozenset[str]:
    """The tests that failed in a run; a guest that did not boot, say, is none."""
    reports = filter(Path.exists, played.reports)
    failed = (name for report in reports for name in junit.failed(report))
    return frozenset(name for name in failed if not name.startswith(f"{junit.CLASS}."))
