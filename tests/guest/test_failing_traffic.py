# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Everything that goes over an RDMA link, while each call finds no memory at first.

The device of these tests makes every call again and again: its 1st, 2nd, … allocation fails,
until none does. What is rxe's, the RDMA core's and rdma_cm's own fails among them.
"""

from __future__ import annotations

import contextlib
import errno
from collections import Counter
from collections.abc import Iterator

import pytest
import uapi_support as raw
from failslab_support import Failslab, Persistent
from guest_support import LIMIT
from rdm_support import CXI, SOCKADDR, RdmNet, RdmPeer
from test_failing_allocations import CALLS
from verbs_support import Net, Peer

import kfabric_py as kp
from kfabric.guest.topology import RdmaLink

#: What each of the tests below calls; test_failing_allocations has the others.
CONNECTED = {
    *("PEP_OPEN", "BIND", "LISTEN", "CONNECT", "ACCEPT", "REJECT", "SHUTDOWN"),
    *("GETNAME", "GETPEER", "SETOPT", "GETOPT", "MR_REG", "READ", "WRITE"),
    *("ATOMIC_VALID", "FETCH_ATOMIC", "EQ_SREAD", "EQ_READERR", "CQ_READERR", "STRERROR"),
}
UNCONNECTED = {
    *("AV_OPEN", "AV_INSERT", "AV_INSERTSVC", "AV_REMOVE", "AV_LOOKUP", "AV_STRADDR"),
    *("TRECV", "TSEND", "CANCEL", "PROFILE_QUERY"),
}
SCALABLE = {"SEP_OPEN", "TX_CTX_OPEN", "RX_CTX_OPEN"}
QUEUES = {
    *("CQ_SIGNAL", "CNTR_SET", "CNTR_ADDERR", "CNTR_SETERR", "CNTR_READERR", "ACK_CQ_EVENTS"),
    *("POLL_DEL", "CLOSE"),
}

#: Messages that a receive context keeps by default.
KEPT = 64
#: Allocations of kernel threads that one test lets fail, one after the other.
BATCH = 50
#: Where each test begins; there are 724 on 6.1.
FIRSTS = [1, *(pytest.param(n, marks=pytest.mark.stress) for n in range(1 + BATCH, 1000, BATCH))]


@pytest.fixture
def persistent(failslab: Failslab) -> Persistent:
    """What makes the calls. Depends on: failslab."""
    return Persistent(failslab)


@pytest.fixture
def device(persistent: Persistent) -> Iterator[kp.Device]:
    """A client whose calls fail first. Depends on: persistent."""
    with kp.Device() as device:
        device._client._ioctl = persistent
        yield device


def accepted(net: Net, persistent: Persistent) -> tuple[Peer, Peer]:
    """Connect; who cannot accept for want of memory has refused, which the other one is told."""
    persistent.once = {"ACCEPT"}
    while True:
        active = net.peer()
        active.ep.connect()
        passive = net.peer(net.request())
        try:
            passive.ep.accept()
        except OSError as error:
            assert error.errno == errno.ENOMEM
            assert active.eq_error().err == errno.ECONNREFUSED
            continue
        for peer in (active, passive):
            assert peer.event().event is kp.Event.CONNECTED
        return active, passive


def test_connected_endpoints(net: Net, persistent: Persistent) -> None:
    """X4, B43: messages, remote memory, atomics, a refusal: each arrives in the end."""
    a, b = accepted(net, persistent)
    b.ep.recv(b.buffer[:64])
    a.ep.send(a.buffer[:64])
    assert (a.entry().len, b.entry().len) == (0, 64)
    region, own = net.region(b, b.buffer), net.region(a, a.buffer)
    for post in (a.ep.write, a.ep.read):
        post(own[:64], region.remote(0, 64))
        a.entry()
    assert a.ep.atomic_valid(kp.AtomicOp.SUM)
    a.ep.fetch_atomic(own[:8], own[8:16], region.remote(0, 8), kp.AtomicOp.SUM)
    a.entry()
    assert a.ep.getpeer() == b.ep.getname()
    a.ep.keepalive = 7
    assert a.ep.keepalive == 7
    a.ep.recv(a.buffer[:64])
    # Here RDMA CM says nothing if it has no memory for the message to the peer.
    net.peer().ep.connect()
    net.request().reject()
    a.ep.shutdown()
    assert a.cq.strerror(a.error())
    assert persistent.made >= CONNECTED


@pytest.mark.parametrize("rdm", [SOCKADDR, CXI], indirect=True)
def test_endpoints_without_a_connection(rdm: RdmNet, persistent: Persistent) -> None:
    """X4, B43: messages short and long, remote memory, addresses of either format."""
    a, b = rdm.connect(length=1 << 20)
    for length in (8, 1 << 20):
        b.ep.recv(b.buffer[:length])
        a.ep.send(a.buffer[:length])
        assert (a.entry().len, b.entry().len) == (0, length)
        b.ep.trecv(b.buffer[:length], 7)
        a.ep.tsend(a.buffer[:length], 7)
        assert (a.entry().len, b.entry().tag) == (0, 7)
    region = rdm.region(b, b.buffer)
    for post in (a.ep.write, a.ep.read):
        post(a.buffer[:4096], region.remote(0, 4096))
        a.entry()
    a.ep.recv(a.buffer[:8], context="mine")
    a.ep.cancel("mine")
    assert a.error().err == errno.ECANCELED
    with b.ep.profile() as profile:
        assert profile.variables
    name = b.ep.getname()
    assert name is not None
    number = a.av.insert_one(name)
    assert a.av.lookup(number) == name and a.av.straddr(name)
    a.av.remove(number)
    a.av.insert_service(rdm.link.address if rdm.info.addr_format is SOCKADDR else "1", "7")
    assert persistent.made >= UNCONNECTED


def test_scalable_endpoints(rdm: RdmNet, persistent: Persistent) -> None:
    """X4, B43: a message from one context to another."""
    a, b = rdm.scalable(2), rdm.scalable(2)
    name = b.sep.getname()
    assert name is not None
    to = a.av.insert_one(name)
    b.contexts[1].rx.recv(b.buffer[:8])
    a.contexts[0].tx.send(a.buffer[:8], to=a.av.rx_addr(to, 1))
    assert b.contexts[1].rx_cq.sread(1, timeout=LIMIT)
    assert persistent.made >= SCALABLE


def test_queues_and_counters(net: Net, persistent: Persistent) -> None:
    """X4, B43: what changes them or takes something back."""
    channel = net._stack.enter_context(net.fabric.comp_channel())
    peer = net.peer(channel=channel)
    peer.cq.req_notify()
    peer.cq.signal()
    peer.cntr.set(7)
    peer.cntr.seterr(2)
    peer.cntr.adderr(1)
    assert (peer.cntr.read(), peer.cntr.readerr()) == (7, 3)
    with peer.domain.poll_set() as poll_set:
        poll_set.add(peer.cntr)
        poll_set.remove(peer.cntr)
    peer.ep.close()
    peer.cq.ack_events(0)
    assert persistent.made >= QUEUES


def outcome(failslab: Failslab, link: RdmaLink, nth: int) -> tuple[bool, bool]:
    """Send a first message; whether it arrives, and whether an allocation failed meanwhile."""
    with kp.Device() as device, contextlib.ExitStack() as stack:
        a, b = RdmNet(device, link, stack).connect()
        b.ep.recv(b.buffer[:8])
        with failslab.in_kernel_threads(nth) as counts:
            a.ep.send(a.buffer[:8])
            try:
                a.entry()
                arrived = b.entry().len == 8
            except kp.ErrorAvailable:
                assert a.cq.readerr() is not None
                arrived = False
    return arrived, bool(counts["failed"])


# What RDMA CM had no memory to send it sends again after six seconds.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", FIRSTS)
def test_connection_that_finds_no_memory(failslab: Failslab, verbs: RdmaLink, first: int) -> None:
    """X4, B43: in the threads that make it: the message arrives, or is an error for its sender."""
    for nth in range(first, first + BATCH):
        arrived, failed = outcome(failslab, verbs, nth)
        if not failed:
            assert arrived
            break


@pytest.fixture
def plain(failslab: Failslab, verbs: RdmaLink) -> Iterator[RdmNet]:
    """RDM endpoints whose calls do not fail. Depends on: failslab."""
    with kp.Device() as device, contextlib.ExitStack() as stack:
        yield RdmNet(device, verbs, stack)


def told(peer: Peer) -> str:
    """Wait for the next completion; the errno's name of an error, or nothing."""
    try:
        assert peer.cq.sread(1, timeout=LIMIT)
    except kp.ErrorAvailable:
        error = peer.cq.readerr()
        assert error is not None
        return errno.errorcode[error.err]
    return ""


def acquainted(plain: RdmNet) -> tuple[RdmPeer, RdmPeer]:
    """Open two endpoints that have a connection."""
    a, b = plain.connect(length=1 << 16)
    b.ep.recv(b.buffer[:64])
    a.ep.send(a.buffer[:64])
    assert (told(a), b.entry().len) == ("", 64)
    return a, b


def test_refusal_without_memory_ends_no_connection(plain: RdmNet, failslab: Failslab) -> None:
    """X4: an operation is refused while no memory is there; the others are not affected."""
    a, b = acquainted(plain)
    nobody = a.av.insert_service(plain.link.address, "4711")
    with failslab.every_atomic("kfi_verbs"):
        a.ep.send(a.buffer[:8], to=nobody)
        assert told(a) == "EHOSTUNREACH"
        b.ep.recv(b.buffer[:8])
        a.ep.send(a.buffer[:16])
        assert told(a) == "EMSGSIZE"
        assert told(b) == "EMSGSIZE"
        b.ep.recv(b.buffer[:8])
        a.ep.send(a.buffer[:8])
        assert (told(a), b.entry().len) == ("", 8)


def test_flow_without_memory_fails_messages_only(plain: RdmNet, failslab: Failslab) -> None:
    """X4: messages that can be neither kept nor resumed fail; those that are kept do not."""
    a, b = acquainted(plain)
    with failslab.every_atomic("kfi_verbs") as counts:
        for _ in range(KEPT + 10):
            a.ep.send(a.buffer[:8])
        outcomes = [told(a) for _ in range(KEPT + 10)]
    assert counts["failed"]
    assert Counter(outcomes) == {"": KEPT, "ENOMEM": 10}
    for _ in range(KEPT):
        b.ep.recv(b.buffer[:8])
        assert b.entry().len == 8
    b.ep.recv(b.buffer[:8])
    a.ep.send(a.buffer[:8])
    assert (told(a), b.entry().len) == ("", 8)


def test_refused_message_is_resumed_without_memory(plain: RdmNet, failslab: Failslab) -> None:
    """X4: what was refused before arrives, although there is no memory any more."""
    a, b = acquainted(plain)
    for _ in range(KEPT + 1):
        a.ep.send(a.buffer[:8])
    for _ in range(KEPT):
        assert told(a) == ""
    with failslab.every_atomic("kfi_verbs"):
        for _ in range(KEPT + 1):
            b.ep.recv(b.buffer[:8])
            assert b.entry().len == 8
        assert told(a) == ""


def test_no_call_is_left_out() -> None:
    """X4: every ioctl is made without memory, by these tests or by test_failing_allocations."""
    elsewhere = {name for name, _ in CALLS.values()}
    made = CONNECTED | UNCONNECTED | SCALABLE | QUEUES | elsewhere
    left_out, unknown = set(raw.CALLS) - made, made - set(raw.CALLS)
    assert not left_out and not unknown
