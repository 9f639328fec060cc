# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the tests over a real RDMA link share: a listener, and peers that connect to it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import pytest
from guest_support import LIMIT

import kfabric_py as kp
from kfabric.guest import topology
from kfabric.guest.rdma_nl import RdmaNetlink
from kfabric.guest.waiting import wait_until
from kfabric_py.memory import Local

#: Flags of completion entries.
SENT = kp.CqFlags.MSG | kp.CqFlags.SEND
RECEIVED = kp.CqFlags.MSG | kp.CqFlags.RECV

REMOTE = kp.Access.REMOTE_READ | kp.Access.REMOTE_WRITE

#: What a device counts for its users. Not CQs: the RDMA core keeps a pool of them.
KINDS = ("pd", "qp", "cm_id", "mr")


@dataclass(frozen=True)
class Peer:
    """One end of a connection, with queues of its own that block."""

    domain: kp.Domain
    cq: kp.CompletionQueue
    eq: kp.EventQueue
    cntr: kp.Counter
    ep: kp.Endpoint
    buffer: kp.Buffer
    reads: kp.Counter

    def entry(self) -> kp.CqEntry:
        """Wait for the next completion."""
        (entry,) = self.cq.sread(1, timeout=LIMIT)
        return entry

    def error(self) -> kp.CqError:
        """Wait for the next completion, which must be an error."""
        with pytest.raises(kp.ErrorAvailable):
            self.cq.sread(1, timeout=LIMIT)
        error = self.cq.readerr()
        assert error is not None
        return error

    def event(self) -> kp.EqEvent:
        """Wait for the next event of the connection."""
        event = self.eq.sread(timeout=LIMIT)
        assert event is not None
        return event

    def eq_error(self) -> kp.EqError:
        """Wait for the next event, which must be an error."""
        with pytest.raises(kp.ErrorAvailable):
            self.eq.sread(timeout=LIMIT)
        error = self.eq.readerr()
        assert error is not None
        return error

    def write_pattern(self, where: kp.Segment, seed: int = 0) -> bytes:
        """Fill a segment with bytes that differ from page to page, and return them."""
        period = bytes((i + seed) % 251 for i in range(251))
        data = (period * (len(where) // 251 + 1))[: len(where)]
        where.view[:] = data
        return data


class Net:
    """A listener on an RDMA link, and endpoints that connect to it.

    What is opened through it is closed at the end of the test.
    """

    def __init__(
        self, device: kp.Device, link: topology.RdmaLink, stack: contextlib.ExitStack
    ) -> None:
        """Listen at the link's address, at any port."""
        self.device = device
        self.link = link
        self._stack = stack
        self.offer = device.getinfo(provider="verbs", source=(link.address, 0))[0]
        self.fabric = stack.enter_context(device.fabric(self.offer))
        self.listen_eq = stack.enter_context(self.fabric.eq())
        self.listener = stack.enter_context(self.fabric.passive_ep(self.offer))
        self.listener.bind(self.listen_eq)
        self.listener.listen()
        name = self.listener.getname()
        assert isinstance(name, tuple)
        self.name = name
        self.info = self.info_for(name[1])

    def info_for(self, port: int, **options: Any) -> kp.Info:
        """Ask for what it takes to connect to a port of the link's own address."""
        dest = (self.link.address, port)
        return self.device.getinfo(provider="verbs", dest=dest, **options)[0]

    def offer_of_any_address(self) -> kp.Info:
        """Ask for the link's device without saying from which address to connect."""
        name = kp.DomainAttr(name=self.link.name)
        return self.device.getinfo(provider="verbs", hints=kp.Info(domain_attr=name))[0]

    def buffer(self, length: int) -> kp.Buffer:
        """Allocate a buffer that is closed with the test."""
        return self._stack.enter_context(self.device.buffer(length))

    def region(self, peer: Peer, memory: Local, access: kp.Access = REMOTE) -> kp.MemoryRegion:
        """Register memory with a peer's device, until the end of the test."""
        return self._stack.enter_context(peer.domain.mr(memory, access))

    def peer(
        self,
        what: kp.Info | kp.ConnectionRequest | None = None,
        *,
        selective: bool = False,
        enable: bool = True,
        size: int = 512,
        domain: kp.Domain | None = None,
        channel: kp.CompChannel | None = None,
        eq: kp.EventQueue | None = None,
        only: str = "",
        reads: bool = False,
    ) -> Peer:
        """Open an endpoint: to connect to the listener, or for a request.

        It gets a domain and an event queue of its own unless they are given. ``only``: "tx" or
        "rx": the peer's queue is for these; the others go elsewhere. ``reads``: a counter of
        their own counts them.
        """
        enter = self._stack.enter_context
        domain = domain or enter(self.fabric.domain(self.info))
        cq = enter(domain.cq(size, channel=channel))
        eq = eq or enter(self.fabric.eq())
        cntr = enter(domain.counter())
        counter_of_reads = enter(domain.counter()) if reads else cntr
        buffer = self.buffer(8192)
        ep = enter(domain.endpoint(self.info if what is None else what))
        ep.bind(cq, recv=only != "tx", transmit=only != "rx", selective=selective)
        if only:
            ep.bind(enter(domain.cq(size)), recv=only == "tx", transmit=only == "rx")
        ep.bind(counter_of_reads, read=True)
        ep.bind(cntr, recv=True, transmit=True, write=True)
        ep.bind(eq)
        if enable:
            ep.enable()
        return Peer(domain, cq, eq, cntr, ep, buffer, counter_of_reads)

    def request(self) -> kp.ConnectionRequest:
        """Wait for a connection request at the listener."""
        event = self.listen_eq.sread(timeout=LIMIT)
        assert event is not None and event.event is kp.Event.CONNREQ
        assert event.request is not None
        return event.request

    def connect(
        self,
        *,
        passive_domain: kp.Domain | None = None,
        channel: kp.CompChannel | None = None,
        only: str = "",
        **options: Any,
    ) -> tuple[Peer, Peer]:
        """Connect two endpoints; the first one is the active side, the other has the channel."""
        active = self.peer(**options)
        active.ep.connect()
        passive = self.peer(
            self.request(), domain=passive_domain, channel=channel, only=only, **options
        )
        passive.ep.accept()
        for peer in (active, passive):
            assert peer.event().event is kp.Event.CONNECTED
        return active, passive


def counts(link: topology.RdmaLink) -> dict[str, int]:
    """Return what the link's device counts for its users."""
    with RdmaNetlink() as rdma:
        all_kinds = rdma.counts(link.name)
    return {kind: all_kinds.get(kind, 0) for kind in KINDS}


def wait_for_counts(link: topology.RdmaLink, wanted: dict[str, int]) -> None:
    """Wait until the device has as many of each kind: it may take its time to let go."""
    wait_until(
        lambda: counts(link) == wanted,
        f"resources {wanted}",
        LIMIT,
        seen=lambda: counts(link),
    )
