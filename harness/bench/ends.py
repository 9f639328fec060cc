# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: two connected endpoints of kfabric's verbs provider in one process."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import kfabric_py as kp
from kfabric.guest.topology import RdmaLink

SIZE = 64
"""Bytes of a message."""
_SECONDS = 30


@dataclass(frozen=True)
class End:
    """One of both ends. Its queue has receives, and failed sends."""

    ep: kp.Endpoint
    cq: kp.CompletionQueue
    received: kp.Segment
    sent: kp.Segment


class Pair:
    """Two ends that are connected, and the fabric that they belong to."""

    def __init__(self, device: kp.Device, link: RdmaLink, stack: contextlib.ExitStack) -> None:
        """Listen at the link's address. What is opened is closed with the stack."""
        self.device = device
        self._stack = stack
        offer = device.getinfo(provider="verbs", source=(link.address, 0))[0]
        self.fabric = stack.enter_context(device.fabric(offer))
        self._eq = stack.enter_context(self.fabric.eq())
        listener = stack.enter_context(self.fabric.passive_ep(offer))
        listener.bind(self._eq)
        listener.listen()
        name = listener.getname()
        assert isinstance(name, tuple)
        self._info = device.getinfo(provider="verbs", dest=(link.address, name[1]))[0]

    def connect(
        self,
        queue: Callable[[kp.Domain], kp.CompletionQueue],
        receives: int,
        *,
        selective: bool = True,
    ) -> tuple[End, End]:
        """Open both ends, with their own queues and so many receives posted, and connect them.

        Sends have a completion only without ``selective``.
        """
        first, first_eq = self._end(self._info, queue, receives, selective)
        first.ep.connect()
        event = self._eq.sread(timeout=_SECONDS)
        assert event is not None and event.request is not None
        second, second_eq = self._end(event.request, queue, receives, selective)
        second.ep.accept()
        for each in (first_eq, second_eq):
            answer = each.sread(timeout=_SECONDS)
            assert answer is not None and answer.event is kp.Event.CONNECTED
        return first, second

    def _end(
        self,
        to: kp.Info | kp.ConnectionRequest,
        queue: Callable[[kp.Domain], kp.CompletionQueue],
        receives: int,
        selective: bool,
    ) -> tuple[End, kp.EventQueue]:
        enter = self._stack.enter_context
        domain = enter(self.fabric.domain(to if isinstance(to, kp.Info) else to.info))
        cq = enter(queue(domain))
        eq = enter(self.fabric.eq())
        buffer = enter(self.device.buffer(4096))
        ep = enter(domain.endpoint(to))
        ep.bind(cq, transmit=True, selective=selective)
        ep.bind(cq, recv=True)
        ep.bind(eq)
        ep.enable()
        for _ in range(receives):
            ep.recv(buffer[:SIZE])
        return End(ep, cq, buffer[:SIZE], buffer[SIZE : 2 * SIZE]), eq
