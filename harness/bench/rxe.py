# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: a ping-pong between two kernel threads over rxe, plain, traced, profiled, or RDM.

It runs examples/pingpong_ulp, or examples/rdm_ulp, and takes the threads' own time, from being
connected to the last message: connecting and closing wait for clock ticks.
"""

from contextlib import ExitStack, nullcontext
from functools import cached_property

from kfabric.bench.plans import PROFILED, RDM, WATCHED
from kfabric.demo import ulp
from kfabric.guest.modules import Modules
from kfabric.guest.topology import RdmaLink, rxe_on_dummy
from kfabric.probes.loader import Probe
from kfabric.top.guest import OBJECTS, prepare

_PORT = 7474


class Link(ExitStack):
    """An rxe link, made on first use, and probes that are attached where a ping-pong needs them."""

    def __init__(self, modules: Modules) -> None:
        super().__init__()
        self._modules = modules

    @cached_property
    def link(self) -> RdmaLink:
        """The link itself; makes it."""
        return self.enter_context(rxe_on_dummy())

    @cached_property
    def _probe(self) -> Probe:
        return self.enter_context(Probe())

    @property
    def address(self) -> str:
        """The link's address; makes the link."""
        return self.link.address

    def measure(self, messages: int, how: str) -> dict[str, int]:
        """Run one ping-pong; return its time, its errors, and the records that the probes lost."""
        address = self.address  # made before the probes, removed after them
        probe = self._attach(how == WATCHED)
        prepare()
        # While the file is open, times are measured, as for the profile of any object.
        with OBJECTS.open() if how == PROFILED else nullcontext():
            directory = self._modules.directory
            if how == RDM:
                scenario = ulp.run_rdm(directory, address, messages)
            else:
                scenario = ulp.run(directory, (address, _PORT), messages, lambda: None)
        elapsed = max(peer.ns for peer in scenario.peers)
        errors = sum(bool(peer.error) for peer in scenario.peers)
        losses = probe.counters().losses
        lost = losses.ring + losses.waits + losses.queues + losses.unpaired
        return {"ns": elapsed, "errors": errors, "records": len(probe.take()), "lost": lost}

    def _attach(self, wanted: bool) -> Probe:
        """Have the probes attached or detached."""
        if wanted and not self._probe.attached:
            self._probe.resume()
        elif not wanted and self._probe.attached:
            self._probe.rest()
        return self._probe
