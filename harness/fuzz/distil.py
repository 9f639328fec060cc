# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: the shortest programs in which each call succeeds, for the corpus."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.fuzz.executor import Executor
from harness.fuzz.generate import Origin, program
from harness.fuzz.program import Program
from harness.fuzz.shrink import Shrinker, unused_names_dropped
from harness.fuzz.workers import Environment

#: Programs that are run in search of successful calls.
_MOST = 3000
_TRIES = 150


def distil(
    environment: Environment, seed: int, ops: Sequence[str]
) -> Iterator[tuple[str, Program]]:
    """Yield each call that succeeds in a program of the seed, with a short program of it.

    The programs have one thread, so that they do the same each time.
    """
    executor = Executor(environment.address, environment.infos)

    def succeeded(one: Program) -> set[str]:
        return {op for (op, code) in executor.run(one).calls if code == 0}

    left = set(ops)
    for number in range(_MOST):
        if not left:
            return
        one = program(Origin(seed, 0, number)).serial()
        steps = tuple(step for step in one.steps if step.op not in ("FORK", "REOPEN", "DUP"))
        one = replace(one, steps=steps, notes=())
        for op in sorted(left & succeeded(one)):
            left.remove(op)
            shrinker = Shrinker(lambda p, op=op: op in succeeded(p), _TRIES)  # type: ignore[misc]
            short = shrinker.shrink(one)
            yield op, Program(unused_names_dropped(short.steps), (f"succeeds: {op}",))
