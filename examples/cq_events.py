#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Completion events, as verbs programs use them: the two examples of ibv_get_cq_event(3).

On any machine with an RDMA link that has the address 10.77.0.1::

    cq_events.py 10.77.0.1                  # sleep in the channel
    cq_events.py 10.77.0.1 --non-blocking   # poll(2) the channel's descriptor

Two connected ends, both here. One sends messages in bursts; the other is told of
them by its completion channel. The order of the steps is what matters: get the
event, acknowledge it, ask for the next one, and only then read the queue until it
is empty. One event stands for any number of messages, and now and then for none:
a message that came between the last two steps was read already.
"""

from __future__ import annotations

import argparse
import contextlib
import select
from collections.abc import Iterator
from dataclasses import dataclass

import kfabric_py as kfabric

SIZE = 64
BURSTS = (1, 5, 16, 2)
POLL_MS = 1000
LIMIT = 30.0


@dataclass
class End:
    """One end of the connection."""

    ep: kfabric.Endpoint
    cq: kfabric.CompletionQueue
    eq: kfabric.EventQueue
    buffer: kfabric.Buffer


def open_end(
    stack: contextlib.ExitStack,
    device: kfabric.Device,
    fabric: kfabric.Fabric,
    to: kfabric.Info | kfabric.ConnectionRequest,
    channel: kfabric.CompChannel | None = None,
) -> End:
    """Open an end whose queue has the channel; ``stack`` closes it."""
    info = to if isinstance(to, kfabric.Info) else to.info
    domain = stack.enter_context(fabric.domain(info))
    cq = stack.enter_context(domain.cq(64, channel=channel))
    eq = stack.enter_context(fabric.eq())
    buffer = stack.enter_context(device.buffer(32 * SIZE))
    ep = stack.enter_context(domain.endpoint(to))
    # Sends ask for no completion: an event means that a message came.
    ep.bind(cq, transmit=True, selective=True)
    ep.bind(cq, recv=True)
    ep.bind(eq)
    ep.enable()
    return End(ep, cq, eq, buffer)


def connect(
    stack: contextlib.ExitStack, device: kfabric.Device, address: str
) -> tuple[End, End, kfabric.CompChannel]:
    """Connect two ends; the second one's queue has a completion channel."""
    offer = device.getinfo(provider="verbs", source=(address, 0))[0]
    fabric = stack.enter_context(device.fabric(offer))
    eq = stack.enter_context(fabric.eq())
    listener = stack.enter_context(fabric.passive_ep(offer))
    listener.bind(eq)
    listener.listen()
    name = listener.getname()
    assert isinstance(name, tuple)
    info = device.getinfo(provider="verbs", dest=(address, name[1]))[0]
    sender = open_end(stack, device, fabric, info)
    sender.ep.connect()
    event = eq.sread(timeout=LIMIT)
    assert event is not None and event.request is not None
    channel = stack.enter_context(fabric.comp_channel())
    receiver = open_end(stack, device, fabric, event.request, channel)
    receiver.ep.accept()
    for end in (sender, receiver):
        reply = end.eq.sread(timeout=LIMIT)
        assert reply is not None and reply.event is kfabric.Event.CONNECTED
    return sender, receiver, channel


def events(channel: kfabric.CompChannel, blocking: bool) -> Iterator[kfabric.CqEvent]:
    """Yield the channel's events as they come."""
    if blocking:
        while True:
            event = channel.get_cq_event()
            assert event is not None
            yield event
    channel.set_blocking(False)
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    while True:
        # Something else could be done in between.
        while not poll.poll(POLL_MS):
            pass
        # Another thread may have been faster: then there is none.
        event = channel.get_cq_event()
        if event is not None:
            yield event


def handle(receiver: End, event: kfabric.CqEvent) -> int:
    """Acknowledge an event, ask for the next, and empty the queue; return how many."""
    event.cq.ack_events(1)
    event.cq.req_notify()
    count = 0
    for _ in event.cq:
        receiver.ep.recv(receiver.buffer[:SIZE])
        count += 1
    return count


def run(device: kfabric.Device, address: str, blocking: bool) -> None:
    """Send the bursts and receive them by events."""
    with contextlib.ExitStack() as stack:
        sender, receiver, channel = connect(stack, device, address)
        # Before anything can be completed.
        receiver.cq.req_notify()
        for _ in range(max(BURSTS)):
            receiver.ep.recv(receiver.buffer[:SIZE])
        incoming = events(channel, blocking)
        for burst in BURSTS:
            for _ in range(burst):
                sender.ep.send(sender.buffer[:SIZE])
            received = number = 0
            while received < burst:
                received += handle(receiver, next(incoming))
                number += 1
            print(f"{received} messages, {number} events", flush=True)


def main() -> None:
    """Run one of the two examples."""
    parser = argparse.ArgumentParser(description="Completion events of a queue.")
    parser.add_argument("address", help="numeric address of an RDMA link of this machine")
    parser.add_argument("--non-blocking", action="store_true", help="poll(2) instead of sleeping")
    options = parser.parse_args()
    with kfabric.Device() as device:
        run(device, options.address, not options.non_blocking)


if __name__ == "__main__":
    main()
