#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Ping-pong of tagged messages between endpoints without a connection.

On any machine with an RDMA link that has the address 10.77.0.1 (two machines
work as well; the server's address on both)::

    rdm_pingpong.py --server 10.77.0.1
    rdm_pingpong.py 10.77.0.1 --count 997

The server has a fixed number at its address, like a port; the client takes any
and says so in its first message. Nobody connects: the first message does. Each
message of a round has a tag, so that it finds its receive whatever comes first.
"""

from __future__ import annotations

import argparse
import contextlib
import time

import kfabric_py as kfabric

SIZE = 64
PORT = 7472
HELLO, PING, PONG, DONE = 1, 2, 3, 4


class End:
    """One end: an endpoint, its address vector, and a wait set with all it waits for."""

    def __init__(
        self, stack: contextlib.ExitStack, device: kfabric.Device, info: kfabric.Info
    ) -> None:
        """Open what this end needs; ``stack`` closes it."""
        enter = stack.enter_context
        fabric = enter(device.fabric(info))
        domain = enter(fabric.domain(info))
        self.wait_set = enter(fabric.wait_set(wait_obj=kfabric.WaitObj.QUEUE))
        self.cq = enter(domain.cq(64, format=kfabric.CqFormat.TAGGED, wait_set=self.wait_set))
        self.received = enter(domain.counter(wait_set=self.wait_set))
        self.av = enter(domain.av())
        buffer = enter(device.buffer(2 * SIZE))
        self.inbox, self.outbox = buffer[:SIZE], buffer[SIZE:]
        self.count = 0

        self.ep = enter(domain.rdm_endpoint(info))
        self.ep.bind(self.cq, transmit=True, recv=True, selective=True)
        self.ep.bind(self.received, recv=True)
        self.ep.bind(self.av)
        self.ep.enable()

    def expect(self, tag: int) -> None:
        """Offer memory for the next message with this tag."""
        self.ep.trecv(self.inbox, tag)

    def send(self, tag: int, data: bytes) -> None:
        """Send a short message to the peer."""
        self.outbox.view[: len(data)] = data
        self.ep.tsend(self.outbox[: len(data)], tag)

    def receive(self, length: int = SIZE) -> bytes:
        """Wait for the message that was expected."""
        self.count += 1
        while self.received.read() < self.count:
            self.wait_set.wait(timeout=10)
            if error := self.cq.readerr():
                raise error.exception()
        return bytes(self.inbox[:length])

    def send_and_wait(self, tag: int, data: bytes) -> None:
        """Send a short message; return once the peer has it."""
        self.outbox.view[: len(data)] = data
        self.ep.tsend(self.outbox[: len(data)], tag, flags=kfabric.OpFlags.COMPLETION)
        while not self.cq.read(1):
            self.wait_set.wait(timeout=10)


def offer(device: kfabric.Device, address: str, port: int) -> kfabric.Info:
    """Ask for RDM endpoints at a local address."""
    hints = kfabric.Info(
        addr_format=kfabric.AddrFormat.SOCKADDR_IN,
        ep_attr=kfabric.EpAttr(type=kfabric.EpType.RDM),
    )
    return device.getinfo(provider="verbs", source=(address, port), hints=hints)[0]


def serve(device: kfabric.Device, address: str, count: int) -> None:
    """Wait for one peer and answer its messages."""
    with contextlib.ExitStack() as stack:
        end = End(stack, device, offer(device, address, PORT))
        end.expect(HELLO)
        print(f"endpoint {PORT} of {address}", flush=True)
        host, _, port = end.receive().rstrip(b"\0").decode().partition(" ")
        end.ep.peer = end.av.insert_one((host, int(port)))
        for number in range(count):
            end.expect(PING)
            if number == 0:
                end.send(HELLO, b"ready")
            ping = end.receive()
            end.send(PONG, ping.replace(b"ping", b"pong"))
        end.expect(DONE)
        end.receive()


def play(device: kfabric.Device, address: str, local: str, count: int) -> None:
    """Send messages to the server and wait for each answer."""
    with contextlib.ExitStack() as stack:
        end = End(stack, device, offer(device, local, 0))
        end.ep.peer = end.av.insert_one((address, PORT))
        name = end.ep.getname()
        assert isinstance(name, tuple)
        end.expect(HELLO)
        end.send(HELLO, f"{name[0]} {name[1]}".encode().ljust(SIZE, b"\0"))
        end.receive()
        begin = time.monotonic()
        for number in range(count):
            text = f"{number:06}".encode()
            end.expect(PONG)
            end.send(PING, b"ping " + text)
            assert end.receive(11) == b"pong " + text
        seconds = time.monotonic() - begin
        end.send_and_wait(DONE, b"done")
    print(f"{count} round trips, {seconds / count * 1e6:.0f} us each")


def main() -> None:
    """Be one of the two ends."""
    parser = argparse.ArgumentParser(description="Ping-pong of tagged messages over RDMA.")
    parser.add_argument("address", help="numeric address of the server's RDMA link")
    parser.add_argument("--server", action="store_true", help="be the server")
    parser.add_argument("--local", help="the client's own address (default: the server's)")
    parser.add_argument("--count", type=int, default=997, help="round trips (default: 997)")
    options = parser.parse_args()
    with kfabric.Device() as device:
        if options.server:
            serve(device, options.address, options.count)
        else:
            play(device, options.address, options.local or options.address, options.count)


if __name__ == "__main__":
    main()
