# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Makes a program that fails as short as it can be: delta debugging.

First whole steps go, in halves, quarters and so on to single ones; then the threads;
then fields, and what is left of them is made plain. A program is tried only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from harness.fuzz.program import Program, Step

Fails = Callable[[Program], bool]
"""Plays a program: does it still fail in the same way?"""


class Shrinker:
    """One search.

    :param fails: tried on each candidate.
    :param tries: most candidates that are played; the search ends there.
    """

    def __init__(self, fails: Fails, tries: int = 400) -> None:
        self._fails = fails
        self._left = tries
        self._known: dict[str, bool] = {}

    def shrink(self, program: Program) -> Program:
        """Return the shortest that was found; it fails, as the given one is said to."""
        self._known[_key(program)] = True
        program = self._serialized(program)
        while True:
            before = _key(program)
            program = self._without_steps(program)
            program = self._serialized(program)
            program = self._plainer(program)
            if _key(program) == before:
                return program

    def _still(self, program: Program) -> bool:
        """Does it fail? Nothing does when the tries are used up."""
        key = _key(program)
        if key not in self._known:
            if not self._left or not program.steps:
                return False
            self._left -= 1
            self._known[key] = self._fails(program)
        return self._known[key]

    def _serialized(self, program: Program) -> Program:
        """With one thread, if that will do."""
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
        """Drop chunks of one size, from the end: what comes late depends on what is early."""
        at = len(steps)
        while at > 0:
            start = max(0, at - size)
            fewer = steps[:start] + steps[at:]
            if self._still(program.with_steps(fewer)):
                steps = fewer
            at = start
        return steps

    def _plainer(self, program: Program) -> Program:
        """Drop fields, and threads' numbers of single steps."""
        for index in range(len(program.steps)):
            for plain in _plainer(program.steps[index]):
                steps = [*program.steps]
                steps[index] = plain(steps[index])
                candidate = program.with_steps(steps)
                if self._still(candidate):
                    program = candidate
        return program


def _plainer(step: Step) -> Iterator[Callable[[Step], Step]]:
    """Ways to make a step plainer."""
    for key in step.args:
        yield lambda step, key=key: _without(step, key)  # type: ignore[misc]
    if step.thread is not None:
        yield lambda step: replace(step, thread=None)


def _without(step: Step, key: str) -> Step:
    return replace(step, args={k: v for k, v in step.args.items() if k != key})


def _key(program: Program) -> str:
    return str(program.with_steps(program.steps))


def unused_names_dropped(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The same steps, with names only where somebody refers to them."""
    used = set().union(*(step.uses() for step in steps)) if steps else set()
    return tuple(step if step.name in used else replace(step, name="") for step in steps)
