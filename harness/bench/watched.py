# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A ping-pong between two kernel threads over rxe: as it is, with the probes, profiled, by RDM.

The game is examples/pingpong_ulp, or examples/rdm_ulp. Its time is the players' own, from being
connected to the last message: connecting and closing wait for ticks of the clock.
"""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from typing import Self

from harness.bench.figures import PROFILED, RDM, WATCHED
from harness.demo import ulp
from harness.demo.job import Part
from harness.guest.modules import Modules
from harness.guest.topology import RdmaLink, rxe_on_dummy
from harness.probes.loader import Probe
from harness.top.guest import OBJECTS, prepare

_PORT = 7474


class Link:
    """An rxe link, made for the first game; the probes come and go with the games."""

    def __init__(self, modules: Modules) -> None:
        """Make nothing yet."""
        self._modules = modules
        self._stack = ExitStack()
        self._link: RdmaLink | None = None
        self._probe: Probe | None = None
        self._attached = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._probe is not None:
            self._probe.__exit__()
        self._stack.close()

    @property
    def link(self) -> RdmaLink:
        """The link itself; makes it."""
        if self._link is None:
            self._link = self._stack.enter_context(rxe_on_dummy())
        return self._link

    @property
    def address(self) -> str:
        """The link's address; makes the link."""
        return self.link.address

    def play(self, messages: int, how: str) -> dict[str, int]:
        """One game: how long it took, what went wrong, and what the probes lost."""
        self._watch(how == WATCHED)
        prepare()
        # Held open, it has times measured, as a profile of any object has.
        with OBJECTS.open() if how == PROFILED else nullcontext():
            part = self._game(messages, how)
        elapsed = max(player.ns for player in part.players)
        errors = sum(bool(player.error) for player in part.players)
        return {"ns": elapsed, "errors": errors, **self._collected()}

    def _game(self, messages: int, how: str) -> Part:
        directory = self._modules.directory
        if how == RDM:
            return ulp.play_rdm(directory, self.address, messages)
        return ulp.play(directory, (self.address, _PORT), messages, lambda: None)

    def _watch(self, watched: bool) -> None:
        """Have the probes attached, or at rest."""
        if self._probe is None:
            self._probe = Probe()
            self._attached = True
        if watched and not self._attached:
            self._probe.resume()
        elif not watched and self._attached:
            self._probe.rest()
        self._attached = watched

    def _collected(self) -> dict[str, int]:
        """The records of a game, and how many were lost."""
        assert self._probe is not None
        losses = self._probe.counters().losses
        lost = losses.ring + losses.waits + losses.queues + losses.unpaired
        return {"records": len(self._probe.take()), "lost": lost}
