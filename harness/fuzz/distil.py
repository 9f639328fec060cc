# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: the shortest programs in which each call succeeds, for the corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from harness.fuzz.crew import Stage
from harness.fuzz.generate import Origin, program
from harness.fuzz.player import Player
from harness.fuzz.program import Program
from harness.fuzz.shrink import Shrinker, unused_names_dropped

#: Programs that are played in search of calls that succeed.
_MOST = 3000
_TRIES = 150


def distil(stage: Stage, seed: int, ops: Sequence[str]) -> Iterator[tuple[str, Program]]:
    """Yield each call that a program of the seed lets succeed, with a short one that does.

    The programs have one thread, so that they do the same each time.
    """
    player = Player(stage.address, stage.infos)
    left = set(ops)
    for number in count():
        if not left or number == _MOST:
            return
        one = _plain(program(Origin(seed, 0, number)))
        for op in sorted(left & _succeeded(player, one)):
            left.remove(op)
            short = Shrinker(lambda p, op=op: op in _succeeded(player, p), _TRIES)  # type: ignore[misc]
            found = short.shrink(one)
            steps = unused_names_dropped(found.steps)
            yield op, Program(steps, (f"succeeds: {op}",))


def _plain(one: Program) -> Program:
    """In one thread, and without what the corpus has no use for."""
    steps = (step for step in one.serial().steps if step.op not in ("FORK", "REOPEN", "DUP"))
    return replace(one, steps=tuple(steps), notes=())


def _succeeded(player: Player, one: Program) -> set[str]:
    """The calls that succeed when a program is played."""
    return {op for (op, code) in player.play(one).calls if code == 0}
