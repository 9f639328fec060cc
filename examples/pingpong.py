#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Ping-pong over RDMA: two ends, one wait set each.

On any machine with an RDMA link that has the address 10.77.0.1 (two machines
work as well, with the server's address on both)::

    pingpong.py --server 10.77.0.1
    pingpong.py 10.77.0.1 --count 997

Each end has a wait set that holds all it could wait for: the completion queue
(errors), the event queue (the connection) and a counter of received messages.
Sends ask for no completion, so that a wait has one cause: a message came.
"""

from __future__ import annotations

import argparse
import contextlib
import time

import kfabric_py as kfabric

SIZE = 64
PORT = 7471


class Peer:
    """One end of the connection."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        fabric: kfabric.Fabric,
        info: kfabric.Info,
        to: kfabric.Info | kfabric.ConnectionRequest,
        device: kfabric.Device,
    ) -> None:
        """Open what this end needs; ``stack`` closes it."""
        enter = stack.enter_context
        domain = enter(fabric.domain(info))
        self.wait_set = enter(fabric.wait_set(wait_obj=kfabric.WaitObj.QUEUE))
        self.cq = enter(domain.cq(64, wait_set=self.wait_set))
        self.eq = enter(fabric.eq(wait_set=self.wait_set))
        self.received = enter(domain.counter(wait_set=self.wait_set))
        buffer = enter(device.buffer(2 * SIZE))
        self.inbox, self.outbox = buffer[:SIZE], buffer[SIZE:]

        self.ep = enter(domain.endpoint(to))
        self.ep.bind(self.cq, transmit=True, recv=True, selective=True)
        self.ep.bind(self.received, recv=True)
        self.ep.bind(self.eq)
        self.ep.enable()
        self.ep.recv(self.inbox)

    def next_event(self) -> kfabric.Event | int:
        """Wait for the next thing that happens to the connection."""
        while (event := self.eq.read()) is None:
            self.wait_set.wait(timeout=10)
            # When the peer leaves, the posted receive comes back as an error.
            # What is left unread would keep the set ready.
            self.cq.readerr()
            self.received.readerr()
        return event.event

    def send(self, text: str) -> None:
        """Send one message."""
        data = text.encode()
        self.outbox.view[: len(data)] = data
        self.ep.send(self.outbox[: len(data)])

    def receive(self, number: int, length: int) -> str:
        """Wait for message ``number`` (from 1) and offer its place to the next."""
        while self.received.read() < number:
            self.wait_set.wait(timeout=10)
            if error := self.cq.readerr():
                raise error.exception()
            if event := self.eq.read():
                raise ConnectionError(f"the peer is gone: {event.event!r}")
        text = bytes(self.inbox[:length]).decode()
        self.ep.recv(self.inbox)
        return text


def serve(device: kfabric.Device, address: str, count: int) -> None:
    """Wait for one peer and answer its messages."""
    info = device.getinfo(provider="verbs", source=(address, PORT))[0]
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(device.fabric(info))
        eq = stack.enter_context(fabric.eq())
        listener = stack.enter_context(fabric.passive_ep(info))
        listener.bind(eq)
        listener.listen()
        print(f"listening on {address}, port {PORT}", flush=True)
        event = eq.sread()
        assert event is not None and event.request is not None
        peer = Peer(stack, fabric, event.request.info, event.request, device)
        peer.ep.accept()
        if peer.next_event() is not kfabric.Event.CONNECTED:
            raise ConnectionError("no connection")
        for number in range(1, count + 1):
            ping = peer.receive(number, len(f"ping {number:06}"))
            peer.send(ping.replace("ping", "pong"))
        # The last answer is on its way until the peer says that it has it.
        peer.next_event()


def play(device: kfabric.Device, address: str, count: int) -> None:
    """Connect, send messages and wait for each answer."""
    info = device.getinfo(provider="verbs", dest=(address, PORT))[0]
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(device.fabric(info))
        peer = Peer(stack, fabric, info, info, device)
        peer.ep.connect()
        if peer.next_event() is not kfabric.Event.CONNECTED:
            raise ConnectionError("no connection")
        begin = time.monotonic()
        for number in range(1, count + 1):
            peer.send(f"ping {number:06}")
            pong = peer.receive(number, len(f"pong {number:06}"))
            assert pong == f"pong {number:06}", pong
        seconds = time.monotonic() - begin
        peer.ep.shutdown()
    print(f"{count} round trips, {seconds / count * 1e6:.0f} us each")


def main() -> None:
    """Be one of the two ends."""
    parser = argparse.ArgumentParser(description="Ping-pong over RDMA.")
    parser.add_argument("address", help="numeric address of the server's RDMA link")
    parser.add_argument("--server", action="store_true", help="be the server")
    parser.add_argument("--count", type=int, default=997, help="round trips (default: 997)")
    options = parser.parse_args()
    with kfabric.Device() as device:
        role = serve if options.server else play
        role(device, options.address, options.count)


if __name__ == "__main__":
    main()
