# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the tests of RDM endpoints share: endpoints on a link that know each other.

:class:`RdmNet` has the calls of :class:`verbs_support.Net` that a test needs which
holds for both types of endpoints.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from verbs_support import REMOTE, Net, Peer

import kfabric_py as kp
from kfabric.guest import topology
from kfabric_py.memory import Local

SENT = kp.CqFlags.MSG | kp.CqFlags.SEND
RECEIVED = kp.CqFlags.MSG | kp.CqFlags.RECV
TSENT = kp.CqFlags.TAGGED | kp.CqFlags.SEND
TRECEIVED = kp.CqFlags.TAGGED | kp.CqFlags.RECV

SOCKADDR, CXI = kp.AddrFormat.SOCKADDR_IN, kp.AddrFormat.ADDR_CXI


@contextlib.contextmanager
def parameter(name: str, value: int, module: str = "kfi_verbs") -> Iterator[None]:
    """Give a parameter of a module another value; what stands, stays as it is."""
    path = Path("/sys/module") / module / "parameters" / name
    before = path.read_text()
    path.write_text(str(value))
    try:
        yield
    finally:
        path.write_text(before)


@dataclass(frozen=True)
class RdmPeer(Peer):
    """An RDM endpoint with queues of its own that block, and its address vector."""

    ep: kp.RdmEndpoint  # type: ignore[assignment]
    av: kp.AddressVector

    def meet(self, other: RdmPeer) -> int:
        """Get to know another one, which plain posts are for from now on."""
        name = other.ep.getname()
        assert name is not None
        self.ep.peer = self.av.insert_one(name)
        return self.ep.peer


@dataclass(frozen=True)
class Context:
    """A pair of contexts with the same index, and where they report to."""

    tx: kp.TransmitContext
    rx: kp.ReceiveContext
    tx_cq: kp.CompletionQueue
    rx_cq: kp.CompletionQueue


@dataclass(frozen=True)
class Scalable:
    """A scalable endpoint with open contexts."""

    domain: kp.Domain
    av: kp.AddressVector
    sep: kp.ScalableEndpoint
    contexts: list[Context]
    buffer: kp.Buffer


class RdmNet:
    """A link, and RDM endpoints on it. What is opened is closed with the test."""

    def __init__(
        self,
        device: kp.Device,
        link: topology.RdmaLink,
        stack: contextlib.ExitStack,
        *,
        format: kp.AddrFormat = SOCKADDR,
        **wishes: Any,
    ) -> None:
        """Ask for RDM endpoints with addresses of one format, and open the fabric."""
        self.device = device
        self.link = link
        self._stack = stack
        self._keys = itertools.count(1)
        self.info = self.ask(format=format, **wishes)
        self.fabric = stack.enter_context(device.fabric(self.info))

    def ask(self, *, format: kp.AddrFormat = SOCKADDR, **wishes: Any) -> kp.Info:
        """Return the first offer; wishes are fields of :class:`kfabric_py.Info`."""
        wishes.setdefault("ep_attr", kp.EpAttr(type=kp.EpType.RDM))
        wishes.setdefault("domain_attr", kp.DomainAttr(name=self.link.name))
        hints = kp.Info(addr_format=format, **wishes)
        source = (self.link.address, 0) if format is SOCKADDR else None
        return self.device.getinfo(provider="verbs", source=source, hints=hints)[0]

    def buffer(self, length: int) -> kp.Buffer:
        """Allocate a buffer that is closed with the test."""
        return self._stack.enter_context(self.device.buffer(length))

    def domain(self) -> kp.Domain:
        """Open a domain."""
        return self._stack.enter_context(self.fabric.domain(self.info))

    def region(self, peer: Peer, memory: Local, access: kp.Access = REMOTE) -> kp.MemoryRegion:
        """Register memory of a peer for the others, with a key that is not in use."""
        region = self._stack.enter_context(
            peer.domain.mr(memory, access, key=next(self._keys), context="region")
        )
        if kp.MrMode.ENDPOINT in self.info.domain_attr.mr_mode:
            region.bind(peer.ep)
            region.enable()
        return region

    def peer(
        self,
        *,
        domain: kp.Domain | None = None,
        info: kp.Info | None = None,
        selective: bool = False,
        enable: bool = True,
        size: int = 512,
        threshold: bool = False,
        format: kp.CqFormat = kp.CqFormat.TAGGED,
        length: int = 8192,
    ) -> RdmPeer:
        """Open an endpoint, in a domain of its own unless one is given."""
        enter = self._stack.enter_context
        domain = domain or self.domain()
        cq = enter(domain.cq(size, format=format, threshold=threshold))
        eq = enter(self.fabric.eq())
        cntr = enter(domain.counter())
        av = enter(domain.av())
        buffer = self.buffer(length)
        ep = enter(domain.rdm_endpoint(info or self.info))
        ep.bind(cq, recv=True, transmit=True, selective=selective)
        ep.bind(cntr, recv=True, transmit=True, read=True, write=True)
        ep.bind(eq)
        ep.bind(av)
        if enable:
            ep.enable()
        return RdmPeer(domain, cq, eq, cntr, ep, buffer, cntr, av)

    def connect(self, **options: Any) -> tuple[RdmPeer, RdmPeer]:
        """Open two endpoints that know each other."""
        first, second = self.peer(**options), self.peer(**options)
        first.meet(second)
        second.meet(first)
        return first, second

    def scalable(self, contexts: int = 2, *, bits: int = 4, **options: Any) -> Scalable:
        """Open a scalable endpoint with contexts, each with queues of its own."""
        enter = self._stack.enter_context
        attr = kp.EpAttr(type=kp.EpType.RDM, tx_ctx_cnt=contexts, rx_ctx_cnt=contexts)
        info = self.ask(format=self.info.addr_format, ep_attr=attr, **options)
        domain = self.domain()
        av = enter(domain.av(rx_ctx_bits=bits))
        sep = enter(domain.scalable_endpoint(info))
        sep.bind(av)
        sep.enable()
        buffer = self.buffer(8192)
        found = [self._context(domain, sep, index) for index in range(contexts)]
        return Scalable(domain, av, sep, found, buffer)

    def _context(self, domain: kp.Domain, sep: kp.ScalableEndpoint, index: int) -> Context:
        enter = self._stack.enter_context
        tx_cq = enter(domain.cq(64, format=kp.CqFormat.TAGGED))
        rx_cq = enter(domain.cq(64, format=kp.CqFormat.TAGGED))
        tx, rx = enter(sep.transmit(index)), enter(sep.receive(index))
        tx.bind(tx_cq, transmit=True)
        rx.bind(rx_cq, recv=True)
        tx.enable()
        rx.enable()
        return Context(tx, rx, tx_cq, rx_cq)


#: A link and endpoints of either type; what the fixture ``links`` gives.
Links: TypeAlias = Net | RdmNet
