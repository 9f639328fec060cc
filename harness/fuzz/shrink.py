# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Shortens a program that fails, by delta debugging.

First it removes whole steps, in halves, quarters and so on to single ones; then threads; then
fields. No program is tried twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from kfabric.fuzz.program import Program, Step

Fails = Callable[[Program], bool]
"""Runs a program, and returns whether it still fails in the same way."""


class Shrinker:
    """One search.

    Args:
        fails: called with each candidate.
        tries: the most candidates that are run; the search ends there.
    """

    def __init__(self, fails: Fails, tries: int = 400) -> None:
        self._fails = fails
        self._left = tries
        self._known: dict[str, bool] = {}

    def shrink(self, program: Program) -> Program:
        """Return the shortest failing program that was found; the given one has to fail."""
        self._known[str(program)] = True
        program = self._serialized(program)
        while True:
            before = str(program)
            program = self._without_steps(program)
            program = self._serialized(program)
            program = self._plainer(program)
            if str(program) == before:
                return program

    def _still(self, program: Program) -> bool:
        """Whether it fails; False when the tries are used up."""
        key = str(program)
        if key not in self._known:
            if not self._left or not program.steps:
                return False
            self._left -= 1
            self._known[key] = self._fails(program)
        return self._known[key]

    def _serialized(self, program: Program) -> Program:
        """With one thread, if it still fails so."""
        serial = program.serial()
        return serial if program.threads and self._still(serial) else program

    def _without_steps(self, program: Program) -> Program:
        steps = program.steps
        size = max(1, len(steps) // 2)
        while True:
            steps = self._without_chunks(program, steps, size)
            if size == 1:
                return program.with_steps(steps)
            size = max(1, size // 2)

    def _without_chunks(
        self, program: Program, steps: tuple[Step, ...], size: int
    ) -> tuple[Step, ...]:
        """Drop chunks of one size, from the end, since late steps depend on early ones."""
        at = len(steps)
        while at > 0:
            start = max(0, at - size)
            fewer = steps[:start] + steps[at:]
            if self._still(program.with_steps(fewer)):
                steps = fewer
            at = start
        return steps

    def _plainer(self, program: Program) -> Program:
        """Drop fields and thread numbers of single steps."""
        for index, step in enumerate(program.steps):
            for change in (*step.args, None):
                steps = [*program.steps]
                steps[index] = _plainer(steps[index], change)
                candidate = program.with_steps(steps)
                if candidate != program and self._still(candidate):
                    program = candidate
        return program


def _plainer(step: Step, field: str | None) -> Step:
    """Without a field, or without its thread number for None."""
    if field is None:
        return replace(step, thread=None)
    return replace(step, args={k: v for k, v in step.args.items() if k != field})


def unused_names_dropped(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The same steps without the names that no step refers to."""
    used = set().union(*(step.uses() for step in steps)) if steps else set()
    return tuple(step if step.name in used else replace(step, name="") for step in steps)
