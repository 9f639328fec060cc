# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Is what was observed among what the model allows?

The model asks wherever the contract leaves something open: which of two sleepers
gets an entry, who runs first. Here every answer is tried, and the worlds in which
the step comes out as it did in the guest live on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tests.model.model import World
from tests.model.steps import Outcome, Step

T = TypeVar("T")

#: More worlds than this are not told apart; no program of ours comes near it.
WORLDS = 2000


class Choices:
    """One way through what is open. Call :meth:`next` for another."""

    def __init__(self) -> None:
        """Begin with the first option everywhere."""
        self._path: list[int] = []
        self._widths: list[int] = []
        self._at = 0

    def __call__(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        if len(options) == 1:
            return options[0]
        if self._at == len(self._path):
            self._path.append(0)
            self._widths.append(len(options))
        self._at += 1
        return options[self._path[self._at - 1]]

    def next(self) -> bool:
        """Go on to the next way; False if there is none."""
        self._at = 0
        while self._path and self._path[-1] == self._widths[-1] - 1:
            self._path.pop()
            self._widths.pop()
        if not self._path:
            return False
        self._path[-1] += 1
        return True


class Disagreement(AssertionError):
    """The module did what the model does not allow."""


def outcomes(world: World, step: Step) -> Iterator[tuple[Outcome, World]]:
    """Yield every outcome of a step that is allowed, with the world behind it."""
    choices = Choices()
    while True:
        after = world.copy()
        yield after.step(step, choices), after
        if not choices.next():
            return


class Checker:
    """Follows a program through all worlds that agree with what was observed."""

    def __init__(self, world: World) -> None:
        """Begin with one world."""
        self.worlds = [world]

    def check(self, step: Step, observed: Outcome) -> None:
        """Take one step.

        Raises:
            Disagreement: no world allows what was observed.
        """
        allowed: list[Outcome] = []
        found: dict[str, World] = {}
        for world in self.worlds:
            for outcome, after in outcomes(world, step):
                if outcome == observed:
                    found[repr(after)] = after
                elif outcome not in allowed:
                    allowed.append(outcome)
        if not found:
            raise Disagreement(_disagreement(step, observed, allowed))
        assert len(found) < WORLDS, f"too many worlds after {step}"
        self.worlds = list(found.values())


def _disagreement(step: Step, observed: Outcome, allowed: list[Outcome]) -> str:
    lines = [f"{step!r}", f"  the module: {_told(observed)}"]
    return "\n".join(lines + [f"  the model:  {_told(outcome)}" for outcome in allowed])


def _told(outcome: Outcome) -> str:
    ended = [f"{thread} returned {value!r}" for thread, value in sorted(outcome.ended.items())]
    return ", ".join([repr(outcome.result), *(ended or ["nobody returned"])])


def without_needless(program: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    """Return what is left of a failing program when no step can be taken out any more."""
    size = max(len(program) // 2, 1)
    while True:
        smaller = _without_runs(program, size, fails)
        if size == 1 and len(smaller) == len(program):
            return program
        program, size = smaller, max(size // 2, 1)


def _without_runs(
    program: list[Step], size: int, fails: Callable[[list[Step]], bool]
) -> list[Step]:
    """Take out runs of so many steps, from the end, each if it fails without, too."""
    for start in range(len(program) - size, -1, -size):
        fewer = program[:start] + program[start + size :]
        if fails(fewer):
            program = fewer
    return program
