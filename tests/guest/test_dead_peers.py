# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Clients that are killed while their peers do not respond, and the clients next to them.

A silent peer sends no reply, but its device works. A deaf peer also has no receives left: the
device of this side finishes nothing that was posted after the messages which it does not take.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from guest_support import LIMIT, Child
from rdm_support import RECEIVED, SENT, RdmNet, RdmPeer, parameter
from rdm_wire_cm import Broken
from rdm_wire_format import Op, segments
from rdm_wire_peer import Peer
from verbs_support import counts

import kfabric_py as kp
from kfabric.guest.waiting import Deadline, wait_until

if TYPE_CHECKING:
    from rdm_wire_link import Node

Report = Callable[[str], None]
Work = Callable[[RdmNet, RdmPeer], object]
InChild = Callable[..., Child]

SIZE = 1 << 16
SERVICE = "77"
#: Receives of a peer, and more messages than that.
RECEIVES, MANY = 16, 24
#: Probes, one a second: a peer that has not replied for as many is slow.
PROBES = 4
#: The number of no endpoint.
NOBODY = 999
#: Addresses without a machine, in the link's network.
ADDRESSES, FIRST = 64, 100


def client(rdm: RdmNet, in_child: InChild, work: Work, closes: bool = False) -> Child:
    """Start a client that does something on an endpoint and then reports the endpoint's number.

    Then it does nothing any more; with `closes`, it closes the endpoint after SIGUSR1.
    """

    def run(report: Report) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        with kp.Device() as device, ExitStack() as stack:
            net = RdmNet(device, rdm.link, stack)
            peer = net.peer(length=SIZE)
            peer.write_pattern(peer.buffer[:])
            work(net, peer)
            report(str(number(peer)))
            if closes:
                signal.sigwait({signal.SIGUSR1})
                peer.ep.close()
            signal.pause()
            return 0

    return in_child(run)


def number(peer: RdmPeer) -> int:
    """The number of an endpoint on its node."""
    name = peer.ep.getname()
    assert isinstance(name, tuple)
    return name[1]


def kill(child: Child) -> None:
    """Kill a client, and wait until its file is released."""
    child.kill(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def neighbour(rdm: RdmNet, node: Node) -> RdmPeer:
    """A client that is not killed, and sends to the peer, too."""
    a = rdm.peer()
    a.ep.peer = a.av.insert_service(node.address, SERVICE)
    return a


def deafen(a: RdmPeer, b: Peer) -> None:
    """Use up the peer's receives: the last messages of the neighbour stay with the device."""
    b.wire.deaf = True
    for _ in range(MANY):
        a.ep.send(a.buffer[:8])
    b.wire.node.wait(lambda: len(b.wire.inbox) >= RECEIVES, "a message in each receive")


def expect_all(a: RdmPeer, b: Peer) -> None:
    """The peer goes on, and gets each message of the neighbour."""
    b.wire.hear()
    while len(b.received) < MANY:
        b.handle_one()
    for _ in range(MANY):
        assert a.entry().flags == SENT


def operation(node: Node, op: Op) -> Work:
    """What a client does that has a long operation under way to the peer."""

    def work(_: RdmNet, peer: RdmPeer) -> None:
        peer.ep.peer = peer.av.insert_service(node.address, SERVICE)
        if op is Op.RTS:
            peer.ep.send(peer.buffer)
        else:
            peer.ep.read(peer.buffer, kp.RemoteRegion(0, SIZE, 1))

    return work


@pytest.mark.parametrize("op", [Op.RTS, Op.READ], ids=["send", "read"])
def test_exit_with_an_operation_at_a_deaf_peer_fails_no_other(
    rdm: RdmNet, node: Node, in_child: InChild, op: Op
) -> None:
    """O4: other clients' messages on the connection arrive once the peer goes on."""
    node.listen()
    child = client(rdm, in_child, operation(node, op))
    b = Peer(node.accept(node.request(), receives=RECEIVES))
    b.hold = True
    b.handle_until(op)
    a = neighbour(rdm, node)
    deafen(a, b)
    kill(child)
    expect_all(a, b)


#: What a client does that a peer moves data to or from, and what the peer does.
SERVED: dict[str, tuple[Work, Callable[[Peer, int], object]]] = {
    "receive": (
        lambda _, peer: peer.ep.recv(peer.buffer),
        lambda b, to: b.send(to, bytes(SIZE)),
    ),
    "region": (
        lambda net, peer: net.region(peer, peer.buffer),
        lambda b, to: b.read(to, 1, 0, SIZE),
    ),
}


def served(rdm: RdmNet, node: Node, in_child: InChild, what: str) -> tuple[Child, RdmPeer, Peer]:
    """A client that data moves for, a neighbour of it, and the deaf peer of both."""
    work, request = SERVED[what]
    node.listen()
    child = client(rdm, in_child, work)
    to = int(child.report())
    a = neighbour(rdm, node)
    a.ep.send(a.buffer[:8])
    b = Peer(node.accept(node.request(), receives=RECEIVES))
    b.receive()
    assert a.entry().flags == SENT
    deafen(a, b)
    # Requests are handled in the order of arrival.
    a.ep.recv(a.buffer[8:16])
    request(b, to)
    b.send(number(a), b"after it")
    assert a.entry().flags == RECEIVED
    return child, a, b


@pytest.mark.parametrize("what", SERVED)
def test_exit_with_data_moving_for_a_deaf_peer_fails_no_other(
    rdm: RdmNet, node: Node, in_child: InChild, what: str
) -> None:
    """O4: other clients' messages on the connection arrive once the peer goes on."""
    child, a, b = served(rdm, node, in_child, what)
    kill(child)
    expect_all(a, b)


@pytest.fixture
def impatient() -> Iterator[None]:
    """A peer has a second or two for what killed clients have left to it."""
    with parameter("rdm_abandon_s", 1):
        yield


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """The test and its children run on one CPU, so that freed pages are the next to be used."""
    was = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(was)})
    yield
    os.sched_setaffinity(0, was)


def test_silent_peer_loses_access_to_the_memory_of_a_killed_client(
    rdm: RdmNet, node: Node, in_child: InChild, impatient: None, one_cpu: None
) -> None:
    """O4: until then it finds in that memory what the client has sent."""
    rdm.peer()
    node.listen()
    child = client(rdm, in_child, operation(node, Op.RTS))
    b = Peer(node.accept(node.request()))
    b.hold = True
    b.handle_until(Op.RTS)
    ((header, payload),) = b.held
    memory = segments(payload, header.nsegs)
    data = b.wire.fetch(memory)
    kill(child)
    # They get pages that were freed last, filled with zeros.
    for _ in range(2 * SIZE // 4096):
        rdm.buffer(4096)
    deadline = Deadline(LIMIT)
    with pytest.raises(Broken):
        while not deadline.expired:
            assert b.wire.fetch(memory) == data


@pytest.mark.parametrize("closes", [False, True], ids=["at_rest", "in_close"])
def test_slow_peer_goes_on_with_the_memory_of_a_killed_client(
    rdm: RdmNet, node: Node, in_child: InChild, closes: bool
) -> None:
    """O4: other clients' messages on the connection arrive afterwards.

    Also if the client is killed while it waits for the peer in the close of its endpoint.
    """
    node.listen()
    with parameter("rdm_probe_s", 1):
        child = client(rdm, in_child, operation(node, Op.RTS), closes)
        b = Peer(node.accept(node.request()))
        b.hold = True
        b.handle_until(Op.RTS)
        a = neighbour(rdm, node)
        # Data that moves already is not held any more, and CANCEL does not find it.
        ((header, payload),) = b.held
        b.held.clear()
        if closes:
            assert child.report()
            child.kill(signal.SIGUSR1)
            b.handle_until(Op.CANCEL)
        kill(child)
        b.handle_until(Op.CANCEL)
        for _ in range(PROBES):
            b.handle_until(Op.ACK)
    b.wire.fetch(segments(payload, header.nsegs))
    b.reply(header, Op.FIN, length=header.len)
    a.ep.send(a.buffer[:8])
    b.receive()
    assert a.entry().flags == SENT


def test_connection_that_only_killed_clients_use_is_given_up(
    rdm: RdmNet, node: Node, in_child: InChild, impatient: None
) -> None:
    """O4, X3: a deaf peer does not keep the memory of killed clients."""

    def work(net: RdmNet, peer: RdmPeer) -> None:
        operation(node, Op.RTS)(net, peer)
        for _ in range(MANY):
            peer.ep.send(peer.buffer[:8])

    rdm.peer()
    node.listen()
    child = client(rdm, in_child, work)
    wire = node.accept(node.request(), receives=RECEIVES)
    wire.deaf = True
    node.wait(lambda: len(wire.inbox) >= RECEIVES, "a message in each receive")
    kill(child)
    wire.wait_for_end()


def test_connection_is_given_up_if_the_peer_stays_deaf(rdm: RdmNet, node: Node) -> None:
    """V7: its messages neither arrive nor fail by themselves."""
    a = neighbour(rdm, node)
    node.listen()
    a.ep.send(a.buffer[:8])
    b = Peer(node.accept(node.request(), receives=RECEIVES))
    b.receive()
    assert a.entry().flags == SENT
    with parameter("rdm_probe_s", 1):
        deafen(a, b)
        assert a.error().err == errno.ETIMEDOUT


def test_receive_is_given_back_if_the_peer_that_fills_it_is_deaf(rdm: RdmNet, node: Node) -> None:
    """V7: the answer to a message before it never arrives, so the data never moves.

    Nothing of this side is on its way to the peer, which has no receives.
    """
    with parameter("rdm_probe_s", 1):
        a = rdm.peer(length=SIZE)
        a.ep.recv(a.buffer)
        b = Peer(node.connect(rdm.link.address, receives=0))
        b.send(NOBODY, b"")
        b.send(number(a), bytes(SIZE))
        assert a.error().err == errno.ETIMEDOUT


@pytest.mark.parametrize("what", SERVED)
def test_connection_that_others_wait_on_is_given_up_if_the_peer_stays_deaf(
    rdm: RdmNet, node: Node, in_child: InChild, impatient: None, what: str
) -> None:
    """O4, X3: it does not keep the memory of killed clients."""
    child, a, b = served(rdm, node, in_child, what)
    kill(child)
    b.wire.wait_for_end()
    assert a.error().err == errno.ENOTCONN


def test_exit_waits_for_no_connection_that_begins(rdm: RdmNet, in_child: InChild) -> None:
    """O4: those to addresses without a machine go on, and so do other clients' messages."""

    def work(_: RdmNet, peer: RdmPeer) -> None:
        network = ipaddress.IPv4Address(rdm.link.address)
        for i in range(ADDRESSES):
            to = peer.av.insert_service(str(network + FIRST + i), SERVICE)
            peer.ep.send(peer.buffer[:8], to=to)

    def beginning() -> int:
        return counts(rdm.link)["cm_id"] - before

    a, b = rdm.connect()
    before = counts(rdm.link)["cm_id"]
    child = client(rdm, in_child, work)
    wait_until(lambda: beginning() == ADDRESSES, "connections that begin", LIMIT, seen=beginning)
    kill(child)
    assert beginning() == ADDRESSES
    b.ep.recv(b.buffer[:8])
    a.ep.send(a.buffer[:8])
    assert b.entry().len == 8
