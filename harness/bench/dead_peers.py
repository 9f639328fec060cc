# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: the exit of a client whose peers are dead.

A peer is a connected endpoint at an address of its own. It accepts the connection of an RDM node
and takes one message, whose memory it could read, and then no other one. So the client's device
finishes nothing more.
"""

import contextlib
import os
import signal
import struct
import time
from functools import partial

import kfabric_py as kp
from kfabric.guest.topology import RdmaLink, further_address
from kfabric.guest.waiting import wait_until

_PORT = 7473
_HELLO = struct.pack("<IHHQII", 0x4B465244, 3, 0, 0, 4096, 0)
"""What an RDM node answers to a connect request, docs/rdm-wire.md."""
_LENGTH = 1 << 16
_SLOT = 8192
_SECONDS = 60


class Peers:
    """Dead peers, and the addresses that they listen at."""

    def __init__(self, link: RdmaLink, count: int, stack: contextlib.ExitStack) -> None:
        enter = stack.enter_context
        self._stack = stack
        self.addresses = [further_address(link, 1 + n) for n in range(count)]
        device = enter(kp.Device())
        offers = [device.getinfo(provider="verbs", source=(a, _PORT))[0] for a in self.addresses]
        fabric = enter(device.fabric(offers[0]))
        self._eq = enter(fabric.eq(4 * count))
        self._domain = enter(fabric.domain(offers[0]))
        self._cq = enter(self._domain.cq(4 * count))
        self._slot = enter(device.buffer(_SLOT))
        for offer in offers:
            listener = enter(fabric.passive_ep(offer))
            listener.bind(self._eq)
            listener.listen()

    def take(self) -> None:
        """Accept a connection from each address, and take a message of it."""
        missing = len(self.addresses)
        while missing:
            event = self._eq.sread(timeout=_SECONDS)
            assert event is not None
            if event.request is not None:
                self._accept(event.request)
            elif event.event is kp.Event.CONNECTED:
                missing -= 1
        for _ in self.addresses:
            assert self._cq.sread(1, timeout=_SECONDS)

    def _accept(self, request: kp.ConnectionRequest) -> None:
        ep = self._stack.enter_context(self._domain.endpoint(request))
        ep.bind(self._cq, recv=True, transmit=True)
        ep.bind(self._eq)
        ep.enable()
        # Nothing reads it, so all may write to the same place.
        ep.recv(self._slot[:])
        ep.accept(_HELLO)


def _client(link: RdmaLink, addresses: list[str]) -> None:
    """Send a long message to each peer, and wait to be killed."""
    hints = kp.Info(
        addr_format=kp.AddrFormat.SOCKADDR_IN,
        ep_attr=kp.EpAttr(type=kp.EpType.RDM),
        domain_attr=kp.DomainAttr(name=link.name),
    )
    device = kp.Device()
    info = device.getinfo(provider="verbs", source=(link.address, 0), hints=hints)[0]
    domain = device.fabric(info).domain(info)
    cq, av, ep = domain.cq(4 * len(addresses)), domain.av(), domain.rdm_endpoint(info)
    ep.bind(cq, recv=True, transmit=True)
    ep.bind(av)
    ep.enable()
    buffer = device.buffer(_LENGTH)
    for address in addresses:
        to = av.insert_service(address, "77")
        wait_until(partial(_sends, ep, buffer, to), "room for a connection", _SECONDS)
    signal.pause()


def _sends(ep: kp.RdmEndpoint, buffer: kp.Buffer, to: int) -> bool:
    """Send a message; not if too many connections of this user wait for their peers."""
    try:
        ep.send(buffer, to=to)
    except kp.Again:
        return False
    return True


def measure(link: RdmaLink, count: int) -> dict[str, int]:
    """Kill a client; return the time until it can be waited for."""
    with contextlib.ExitStack() as stack:
        peers = Peers(link, count, stack)
        pid = os.fork()
        if pid == 0:
            try:
                _client(link, peers.addresses)
            finally:
                os._exit(1)
        peers.take()
        begin = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        elapsed = time.monotonic_ns() - begin
    return {"ns": elapsed, "wrong": int(os.waitstatus_to_exitcode(status) != -signal.SIGKILL)}
