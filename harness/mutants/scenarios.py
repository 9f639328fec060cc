# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Plays the mutants of kmod/core in the scenarios of kfabric prove, without a guest.

A scenario kills a mutant if its exploration has a finding that it does not have on the original.
tests/prove/mutants.txt excuses mutants that no scenario can kill, one a line, with the reason:

    NAME: equivalent: why no execution of any scenario can differ
    NAME: not about waiting: what it breaks, which scenarios do not look at

The first ones are played all the same, the others only if they are named.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kfabric.errors import SetupError, UsageError, counted
from kfabric.mutants import build
from kfabric.mutants.catalogue import Mutant, Outcome, Verdict
from kfabric.mutants.run import Progress
from kfabric.prove import variants
from kfabric.prove.variants import Change, Tried, Variants
from kfabric.vm import cache

EXCUSES = Path("tests/prove/mutants.txt")
PLACES = ("kmod/core/", "kmod/include/")
"""A mutant that changes files elsewhere, too, is not played."""
MEMORIES = ("sc",)
KINDS = (Verdict.EQUIVALENT, Verdict.NOT_WAITING)


@dataclass(frozen=True)
class Excuse:
    """Why no scenario can kill a mutant: equivalent or not about waiting, in one line."""

    verdict: Verdict
    why: str


def excuses(checkout: Path, known: Iterable[Mutant]) -> dict[str, Excuse]:
    """Read the list. Raises SetupError if a line is wrong or names no mutant."""
    by_word = {verdict.value: verdict for verdict in KINDS}
    names = {mutant.name for mutant in known}
    found: dict[str, Excuse] = {}
    for line in cache.list_lines(checkout / EXCUSES):
        name, word, why = (*map(str.strip, line.split(":", 2)), "", "")[:3]
        if word not in by_word or not why:
            raise SetupError(f"{EXCUSES}: {line!r} is not of the form NAME: KIND: REASON")
        if name not in names or name in found:
            raise SetupError(f"{EXCUSES}: {name} is no mutant of the core, or there twice")
        found[name] = Excuse(by_word[word], why)
    return found


def of_core(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Those that change nothing but the core and its headers. Raises UsageError."""
    chosen = [mutant for mutant in mutants if all(f.startswith(PLACES) for f in mutant.files)]
    if not chosen:
        raise UsageError("none of these mutants changes kmod/core alone")
    return chosen


class Run:
    """One run over mutants of the core.

    Args:
        checkout: where the core, its scenarios and the list of excuses are.
        excused: by the name of the mutant.
        jobs: explorations at a time.
        executions: at most so many of each scenario.
        progress: gets each outcome.
    """

    def __init__(
        self,
        checkout: Path,
        excused: dict[str, Excuse],
        jobs: int,
        executions: int,
        progress: Progress,
    ) -> None:
        self._excused = excused
        self._progress = progress
        self._variants = Variants(checkout, executions, jobs)
        self.left_out: list[str] = []
        """The scenarios that find a fault in the original."""

    def all(self, mutants: Sequence[Mutant], named: bool) -> list[Outcome]:
        """Play mutants.

        Args:
            mutants: those of the core.
            named: the user named them, so that mutants that are not about waiting are played.

        Returns:
            The outcomes in order.

        Raises:
            KfabricError: the original does not build.
        """
        played = [mutant for mutant in mutants if named or not self._not_waiting(mutant)]
        found = {mutant.name: self._unplayed(mutant) for mutant in mutants if mutant not in played}
        for outcome in found.values():
            self._progress(outcome)
        with self._variants as changes:
            jobs, faulty = changes.jobs(MEMORIES)
            self.left_out = [job.scenario.name for job in faulty]
            pairs = [(_patch(mutant), variants.by_rules(jobs, mutant.rules)) for mutant in played]
            for mutant, tried in zip(played, changes.each(pairs), strict=True):
                found[mutant.name] = self._judge(mutant, tried, len(jobs))
                self._progress(found[mutant.name])
        return [found[mutant.name] for mutant in mutants]

    def _not_waiting(self, mutant: Mutant) -> bool:
        excuse = self._excused.get(mutant.name)
        return excuse is not None and excuse.verdict is Verdict.NOT_WAITING

    def _unplayed(self, mutant: Mutant) -> Outcome:
        return Outcome(mutant, Verdict.NOT_WAITING, why=self._excused[mutant.name].why)

    def _judge(self, mutant: Mutant, tried: Tried, scenarios: int) -> Outcome:
        """The outcome of a mutant that was played."""
        excuse = self._excused.get(mutant.name)
        verdict, test, why = Verdict.SURVIVED, "", f"{counted(scenarios, 'scenario')} passed"
        if tried.broken:
            verdict, why = Verdict.BROKEN, tried.broken
        elif tried.job and tried.finding:
            verdict, test, why = Verdict.KILLED, tried.job.scenario.name, tried.finding.kind
            if excuse:
                said = f"{EXCUSES} calls it {excuse.verdict.value}"
                verdict, why = Verdict.BROKEN, f"{why}, but {said}"
        elif excuse:
            verdict, why = excuse.verdict, excuse.why
        elif tried.same:
            why = "scenarios compile none of its files"
        return Outcome(mutant, verdict, test, why, tried.seconds, tried.executions)


def _patch(mutant: Mutant) -> Change:
    return lambda tree: build.apply(mutant.patch, tree)
