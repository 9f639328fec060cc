# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A second implementation of docs/rdm-wire.md, in Python over real verbs, talks to kfi_verbs.

The other implementation was written from that page. It has an address of its own on the link.
"""

from __future__ import annotations

import contextlib
import errno
import pathlib
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from guest_support import LIMIT, OTHER_USER, Call, Child, Mock, become, open_to_all
from rdm_support import RECEIVED, SENT, TRECEIVED, TSENT, RdmNet, RdmPeer, parameter
from rdm_wire_cm import NO_MTUS, Path, Refused
from rdm_wire_format import (
    EAGER,
    IDS,
    MSG_MAX,
    RECEIVES,
    SEGS,
    VERSION,
    WINDOW,
    Flag,
    Header,
    Hello,
    Op,
    Refusal,
    Status,
    segments,
)
from rdm_wire_peer import PLENTY, Peer, Request
from verbs_support import counts

import kfabric_py as kp
from kfabric.guest.sleeping import ThreadGone, is_asleep
from kfabric.guest.waiting import Deadline, wait_until

if TYPE_CHECKING:
    from rdm_wire_link import Node

    from kfabric.guest.topology import RdmaLink

InThread = Callable[[Callable[[], Any]], Call[Any]]
POISON = 0xCC
SIZE = 1 << 17
#: Places that a connection of the kernel sends from, and how many of them a test leaves free.
TXBUFS, FREE = 64, 16
#: Control messages of the kernel that go before a request that waits.
URGENT_RUN = 8
#: Lanes of a connection of the kernel, and registrations that one of them gets.
LANES, LANE_MRS = 16, 16
#: Long messages that a peer takes a second or two each for: longer than it may be silent.
SLOW = 4
#: The number of no endpoint.
NOBODY = 999
#: Messages that a context keeps if it is opened with these hints.
KEPT = 4
FEW = kp.RxAttr(total_buffered_recv=KEPT * 4096)


def number(peer: RdmPeer) -> int:
    """The number of an endpoint of the kernel on its node."""
    name = peer.ep.getname()
    assert isinstance(name, tuple)
    return name[1]


def poison(peer: RdmPeer) -> None:
    """Fill a buffer, so that it shows what was written to it."""
    peer.buffer.view[:] = bytes([POISON]) * len(peer.buffer)


def untouched(peer: RdmPeer, begin: int) -> bool:
    """Is the buffer from here on as poison() has left it?"""
    rest = bytes(peer.buffer.view[begin:])
    return rest == bytes([POISON]) * len(rest)


def pattern(length: int, seed: int = 0) -> bytes:
    """Bytes that differ from page to page."""
    period = bytes((i + seed) % 251 for i in range(251))
    return (period * (length // 251 + 1))[:length]


def begun_here(
    rdm: RdmNet, node: Node, receives: int = RECEIVES, **options: Any
) -> tuple[RdmPeer, Peer]:
    """An endpoint of the kernel, and a peer that has begun the connection to it."""
    a = rdm.peer(length=SIZE, **options)
    b = Peer(node.connect(rdm.link.address, receives=receives))
    a.ep.peer = a.av.insert_service(node.address, str(b.number))
    # From the first message on the kernel uses this connection.
    b.write(number(a), 0, 0, b"")
    b.handle_until(Op.ERR)
    poison(a)
    return a, b


def test_both_sides_introduce_themselves(rdm: RdmNet, node: Node) -> None:
    """The reply's private data is a hello, and allows RDMA reads."""
    rdm.peer()
    answer = node.connect(rdm.link.address).answer
    assert Hello.unpack(answer.private) == Hello()
    assert answer.responder_resources and answer.initiator_depth


WRONG = {
    "magic": replace(Hello(), magic=Hello().magic + 1).pack(),
    "older": replace(Hello(), version=VERSION - 1).pack(),
    "newer": replace(Hello(), version=VERSION + 1).pack(),
    "eager": replace(Hello(), eager=EAGER - 1).pack(),
    "short": Hello().pack()[:16],
    "missing": b"",
}


@pytest.mark.parametrize("hello", WRONG.values(), ids=WRONG)
def test_wrong_hello_is_refused(rdm: RdmNet, node: Node, hello: bytes) -> None:
    """The private data of the rejection names the version that is accepted."""
    rdm.peer()
    with pytest.raises(Refused) as refused:
        node.connect(rdm.link.address, hello)
    answer = Hello.unpack(refused.value.private)
    assert (answer.magic, answer.version) == (Hello().magic, VERSION)
    assert answer.refusal == Refusal.VERSION
    # A right one is accepted afterwards.
    node.connect(rdm.link.address)


@pytest.mark.parametrize("mtu", NO_MTUS)
def test_path_that_no_packet_can_take_is_rejected(rdm: RdmNet, node: Node, mtu: int) -> None:
    """X3: RDMA CM passes on what the peer has written, and rxe crashes on an MTU of 0."""
    rdm.peer()
    with pytest.raises(Refused):
        node.connect(rdm.link.address, path=Path(node.address, rdm.link.address, mtu))
    node.connect(rdm.link.address, path=Path(node.address, rdm.link.address))


def test_peer_without_rdma_reads_is_rejected(rdm: RdmNet, node: Node) -> None:
    """Both sides must answer RDMA reads."""
    rdm.peer()
    with pytest.raises(Refused):
        node.connect(rdm.link.address, reads=0)


def begun_by_kernel(rdm: RdmNet, node: Node) -> tuple[RdmPeer, int]:
    """An endpoint of the kernel that has sent 100 bytes, which begins a connection."""
    node.listen()
    a = rdm.peer(length=SIZE)
    a.write_pattern(a.buffer[:100])
    to = a.av.insert_service(node.address, "77")
    a.ep.send(a.buffer[:100], to=to, context="first")
    return a, to


def test_kernel_begins_a_connection(rdm: RdmNet, node: Node) -> None:
    """Its request has a hello without a cookie; the message follows once it is accepted."""
    a, _ = begun_by_kernel(rdm, node)
    request = node.request()
    assert Hello.unpack(request.private) == Hello()
    b = Peer(node.accept(request))
    message = b.receive()
    assert (message.header.src, message.header.dst) == (number(a), b.number)
    assert message.data == pattern(100)
    assert (a.entry().context, b.flows[False].blocked) == ("first", False)


@pytest.mark.parametrize("hello", WRONG.values(), ids=WRONG)
def test_wrong_hello_in_the_reply_ends_the_connection(
    rdm: RdmNet, node: Node, hello: bytes
) -> None:
    """The side that began it disconnects, and its operation fails."""
    a, _ = begun_by_kernel(rdm, node)
    wire = node.accept(node.request(), hello)
    wire.wait_for_end()
    error = a.error()
    assert (error.context, error.err) == ("first", errno.EHOSTUNREACH)


@pytest.mark.parametrize("refusal", [Refusal.VERSION, Refusal.FULL])
def test_kernel_is_refused(rdm: RdmNet, node: Node, refusal: Refusal) -> None:
    """Its operation fails with the reason, and the next one asks again."""
    a, to = begun_by_kernel(rdm, node)
    version = VERSION + (refusal is Refusal.VERSION)
    node.reject(node.request(), replace(Hello(), version=version, refusal=refusal).pack())
    error = a.error()
    assert (error.context, error.err) == ("first", errno.EHOSTUNREACH)
    word = "version" if refusal is Refusal.VERSION else "connections"
    assert word in a.cq.strerror(error)
    a.ep.send(a.buffer[:100], to=to)
    assert Peer(node.accept(node.request())).receive().data == pattern(100)
    a.entry()


@pytest.mark.parametrize("length", [0, 1, 4096, 4097, 70_000])
def test_message_to_the_kernel(rdm: RdmNet, node: Node, length: int) -> None:
    """Short ones are acknowledged, long ones are read by RDMA and get FIN."""
    a, b = begun_here(rdm, node)
    a.ep.recv(a.buffer, context="r")
    request = b.send(number(a), pattern(length), cq_data=(1 << 64) - 3)
    assert b.finish(request) is Status.OK
    assert (request.reply is None) == (length <= EAGER)
    entry = a.entry()
    assert (entry.context, entry.len, entry.data) == ("r", length, (1 << 64) - 3)
    assert entry.flags == RECEIVED | kp.CqFlags.REMOTE_CQ_DATA
    assert bytes(a.buffer.view[:length]) == pattern(length)
    assert untouched(a, length)


@pytest.mark.parametrize("length", [0, 1, 4096, 4097, 70_000])
def test_message_of_the_kernel(rdm: RdmNet, node: Node, length: int) -> None:
    """The entry comes with the acknowledgement, or with FIN."""
    a, b = begun_here(rdm, node)
    data = a.write_pattern(a.buffer[:length], 5)
    a.ep.send(a.buffer[:length], context="s", data=7)
    message = b.receive()
    assert message.data == data
    assert message.header.op == (Op.EAGER if length <= EAGER else Op.RTS)
    assert (message.header.flags, message.header.data) == (Flag.DATA, 7)
    entry = a.entry()
    assert (entry.context, entry.flags) == ("s", SENT)


def test_segments_are_put_together(rdm: RdmNet, node: Node) -> None:
    """As many as a request may have, of odd lengths."""
    a, b = begun_here(rdm, node)
    data = pattern(70_001)
    a.ep.recv(a.buffer)
    memory = b.own(data, SEGS)
    assert len({each.len for each in memory}) > 1
    assert b.finish(b.request(Op.RTS, number(a), data, memory=memory)) is Status.OK
    assert a.entry().len == len(data)
    assert bytes(a.buffer.view[: len(data)]) == data


def test_tag_selects_the_receive(rdm: RdmNet, node: Node) -> None:
    """In both directions the tag travels in the header."""
    a, b = begun_here(rdm, node)
    a.ep.trecv(a.buffer[:8], 498, context="other")
    a.ep.trecv(a.buffer[8:16], 497, context="this")
    assert b.finish(b.send(number(a), b"tag 497.", tag=497)) is Status.OK
    entry = a.entry()
    assert (entry.context, entry.flags, entry.tag) == ("this", TRECEIVED, 497)
    assert bytes(a.buffer.view[8:16]) == b"tag 497."
    a.ep.tsend(a.buffer[8:16], 499)
    message = b.receive()
    assert (message.header.flags, message.header.tag) == (Flag.TAGGED, 499)
    assert a.entry().flags == TSENT


@pytest.mark.parametrize(("length", "count"), [(0, 0), (4096, 0), (8, 1), (50_001, SEGS)])
def test_peer_writes_a_region(rdm: RdmNet, node: Node, length: int, count: int) -> None:
    """By key, with the data in the message or in segments."""
    a, b = begun_here(rdm, node)
    region = rdm.region(a, a.buffer)
    data = pattern(length)
    assert b.finish(b.write(number(a), region.key, 100, data, count)) is Status.OK
    assert bytes(a.buffer.view[100 : 100 + length]) == data
    assert untouched(a, 100 + length) and a.buffer.view[99] == POISON


@pytest.mark.parametrize(("length", "count"), [(0, 0), (1, 1), (50_001, SEGS)])
def test_peer_reads_a_region(rdm: RdmNet, node: Node, length: int, count: int) -> None:
    """The data is in the segments when FIN arrives."""
    a, b = begun_here(rdm, node)
    region = rdm.region(a, a.buffer)
    data = a.write_pattern(a.buffer[3 : 3 + length])
    assert b.finish(b.read(number(a), region.key, 3, length, count)) is Status.OK
    assert b.own_data(length) == data


@pytest.mark.parametrize("length", [0, 1, 4096, 50_001])
def test_kernel_writes_and_reads_the_peers_region(rdm: RdmNet, node: Node, length: int) -> None:
    """Exactly the bytes that it names."""
    a, b = begun_here(rdm, node)
    b.regions[9] = bytearray([POISON]) * SIZE
    data = a.write_pattern(a.buffer[:length])
    a.ep.write(a.buffer[:length], kp.RemoteRegion(100, length, 9), context="w")
    assert b.handle_until(Op.WRITE).tag == 9
    assert a.entry().context == "w"
    assert b.regions[9] == bytes([POISON]) * 100 + data + bytes([POISON]) * (SIZE - 100 - length)
    poison(a)
    a.ep.read(a.buffer[:length], kp.RemoteRegion(100, length, 9), context="r")
    b.handle_until(Op.READ)
    assert a.entry().context == "r"
    assert bytes(a.buffer.view[:length]) == data and untouched(a, length)


def test_kernel_reports_the_peers_errors(rdm: RdmNet, node: Node) -> None:
    """ERR and FIN of the peer fail the operation, not the connection."""
    a, b = begun_here(rdm, node)
    b.regions[9] = bytearray(8)
    for length, key in ((8, 10), (5000, 10), (16, 9), (5000, 9)):
        a.ep.write(a.buffer[:length], kp.RemoteRegion(0, length, key), context=key)
        b.handle_until(Op.WRITE)
        error = a.error()
        assert (error.context, error.err) == (key, errno.EREMOTEIO)
    assert not b.wire.ended


@pytest.mark.parametrize("count", [0, 1])
def test_failures_have_their_status(rdm: RdmNet, node: Node, count: int) -> None:
    """The same with a number and with an id."""
    a, b = begun_here(rdm, node)
    to, data = number(a), b"12345678"
    region = rdm.region(a, a.buffer[:64])
    closed = rdm.region(a, a.buffer[64:128], kp.Access.REMOTE_READ)
    for status, request in {
        Status.NO_KEY: b.write(to, 0x4321, 0, data, count),
        Status.RANGE: b.write(to, region.key, 57, data, count),
        Status.ACCESS: b.write(to, closed.key, 0, data, count),
        Status.NO_ENDPOINT: b.write(to + 1, region.key, 0, data, count),
    }.items():
        assert b.finish(request) is status
        assert request.reply is not None
        assert request.reply.op == (Op.FIN if count else Op.ERR)
    assert untouched(a, 0)


@pytest.mark.parametrize("length", [100, 5000])
def test_message_longer_than_its_receive(rdm: RdmNet, node: Node, length: int) -> None:
    """The reply has both parts of the length; the receive has what fits."""
    a, b = begun_here(rdm, node)
    a.ep.recv(a.buffer[:40], context="r")
    request = b.send(number(a), pattern(length))
    assert b.finish(request) is Status.TOO_LONG
    assert request.reply is not None
    assert (request.reply.len, request.reply.over) == (40, length - 40)
    error = a.error()
    assert (error.context, error.err) == ("r", errno.EMSGSIZE)
    assert bytes(a.buffer.view[:40]) == pattern(40) and untouched(a, 40)


def test_messages_in_both_directions_are_acknowledged(rdm: RdmNet, node: Node) -> None:
    """More than a side has receive buffers, also without a message to travel with."""
    a, b = begun_here(rdm, node, size=1024)
    for each in range(200):
        a.ep.recv(a.buffer[each : each + 1], context=each)
    requests = [b.send(number(a), bytes([each % 251])) for each in range(200)]
    for each in range(200):
        a.ep.send(a.buffer[SIZE - 1 - each : SIZE - each], data=each)
    for each in range(200):
        assert b.receive().header.data == each
    assert {b.finish(request) for request in requests} == {Status.OK}
    entries = [a.entry() for _ in range(400)]
    assert [e.context for e in entries if e.flags == RECEIVED] == list(range(200))
    assert sum(entry.flags == SENT for entry in entries) == 200
    assert bytes(a.buffer.view[:200]) == bytes(each % 251 for each in range(200))


def test_kernel_sends_no_more_than_a_window(rdm: RdmNet, node: Node) -> None:
    """Without an acknowledgement; each one makes room for further requests."""
    a, b = begun_here(rdm, node)
    b.silent = True
    for each in range(WINDOW + 10):
        a.ep.send(a.buffer[:1], data=each)
    while len(b.received) < WINDOW:
        b.handle_one()
    # What else it sends would come before its replies.
    for _ in range(3):
        assert b.finish(b.write(number(a), 0x4321, 0, b"")) is Status.NO_KEY
    assert len(b.received) == WINDOW
    b.silent = False
    b.acknowledge()
    assert [b.receive().header.data for _ in range(WINDOW + 10)] == list(range(WINDOW + 10))
    assert {a.entry().flags for _ in range(WINDOW + 10)} == {SENT}


def few(rdm: RdmNet) -> kp.Info:
    """An offer of an endpoint that keeps few messages."""
    return rdm.ask(rx_attr=FEW)


def test_refused_messages_are_sent_again(rdm: RdmNet, node: Node) -> None:
    """The kernel has no room: NAK, then RESUME or WANT, and every message arrives in order."""
    a, b = begun_here(rdm, node, info=few(rdm))
    requests = [b.send(number(a), bytes([each]), cq_data=each) for each in range(3 * KEPT)]
    while sum(request.naks > 0 for request in requests) < 2 * KEPT:
        b.handle_one()
    for each in range(3 * KEPT):
        a.ep.recv(a.buffer[each : each + 1], context=each)
    for request in requests:
        assert b.finish(request) is Status.OK
    entries = [a.entry() for _ in requests]
    assert [(entry.context, entry.data) for entry in entries] == [(n, n) for n in range(3 * KEPT)]
    assert bytes(a.buffer.view[: 3 * KEPT]) == bytes(range(3 * KEPT))
    assert {Op.RESUME, Op.WANT} & {header.op for header in b.log}


def test_no_epoch_of_resume_is_zero(rdm: RdmNet, node: Node) -> None:
    """Epochs begin again without 0, which is that of flows that were not resumed yet."""
    a, b = begun_here(rdm, node, info=few(rdm))
    for _ in range(16):
        requests = [b.send(number(a), b"x") for _ in range(KEPT + 1)]
        while not requests[-1].naks:
            b.handle_one()
        for _ in requests:
            a.ep.recv(a.buffer[:1])
        for request in requests:
            assert b.finish(request) is Status.OK
            a.entry()
    epochs = [header.epoch for header in b.log if header.op == Op.RESUME]
    assert epochs[-1] < epochs[0], "they did not begin again"
    assert 0 not in epochs


@pytest.mark.parametrize("length", [1, 5000])
def test_kernel_sends_refused_messages_again(rdm: RdmNet, node: Node, length: int) -> None:
    """RESUME brings all of them, in the order of submission, in its epoch."""
    a, b = begun_here(rdm, node)
    b.flows[False].room = 1
    for each in range(6):
        a.ep.send(a.buffer[:length], data=each)
    while sum(header.op in (Op.EAGER, Op.RTS) for header in b.log) < 6:
        b.handle_one()
    assert [message.header.data for message in b.received] == [0]
    b.resume(PLENTY)
    got = [b.receive() for _ in range(6)]
    assert [message.header.data for message in got] == list(range(6))
    assert {message.header.epoch for message in got[1:]} == {b.flows[False].epoch}
    assert {a.entry().flags for _ in range(6)} == {SENT}


@pytest.mark.parametrize("length", [1, 5000])
def test_requests_in_flight_at_resume_come_after_refused_ones(
    rdm: RdmNet, node: Node, length: int
) -> None:
    """V4: RESUME says that three were handled; the others arrive in an epoch that is over."""
    a, b = begun_here(rdm, node)
    b.flows[False].room = 0
    for each in range(6):
        a.ep.send(a.buffer[:length], data=each)
    while sum(header.op in (Op.EAGER, Op.RTS) for header in b.log) < 3:
        b.handle_one()
    b.resume(PLENTY)
    assert [b.receive().header.data for _ in range(6)] == list(range(6))
    assert {a.entry().flags for _ in range(6)} == {SENT}


def test_request_in_flight_at_resume_comes_before_a_younger_one(rdm: RdmNet, node: Node) -> None:
    """V4: the peer has refused the younger one, and says that it has handled none."""
    a, b = begun_here(rdm, node)
    b.hold = True
    for each in range(2):
        a.ep.send(a.buffer[:5000], data=each)
    for _ in range(2):
        b.handle_until(Op.RTS)
    b.reply(b.held[1][0], Op.NAK)
    b.hold = False
    b.wire.post(Header(op=Op.RESUME, src=b.number, epoch=1, auth=b.auth).pack())
    assert [b.receive().header.data for _ in range(2)] == [0, 1]
    assert {a.entry().flags for _ in range(2)} == {SENT}


def test_kernel_sends_a_refused_write_again(rdm: RdmNet, node: Node) -> None:
    """RMA by key is a flow of its own: messages pass while it is blocked."""
    a, b = begun_here(rdm, node)
    b.regions[9] = bytearray(8)
    b.flows[True].room = 0
    a.buffer.view[:8] = b"12345678"
    a.ep.write(a.buffer[:8], kp.RemoteRegion(0, 8, 9), context="w")
    a.ep.send(a.buffer[:8], context="s")
    assert b.receive().data == b"12345678"
    assert a.entry().context == "s"
    assert b.regions[9] == bytes(8)
    b.resume(PLENTY, by_key=True)
    b.handle_until(Op.WRITE)
    assert a.entry().context == "w"
    assert b.regions[9] == b"12345678"


def test_refused_requests_come_before_those_that_wait_for_an_id(rdm: RdmNet, node: Node) -> None:
    """Q2: the first id that is given back is not for a later request."""
    receives = WINDOW // 2
    a, b = begun_here(rdm, node, receives=receives)
    b.regions[9] = bytearray(IDS)
    b.flows[True].room = 0
    b.wire.deaf = True
    # One destination gets a quarter of the ids.
    refused, posted = IDS // 4, IDS // 2
    for each in range(posted):
        a.ep.read(a.buffer[:0], kp.RemoteRegion(each, 0, 9), context=each)
    while sum(header.op == Op.READ for header in b.log) < refused:
        b.handle_one()
    first = next(header for header in b.log if header.op == Op.READ)
    b.log.clear()
    # Messages that the peer has no receives for leave the kernel few places to send from.
    others = receives - refused + TXBUFS - FREE
    for _ in range(others):
        a.ep.send(a.buffer[:1])
    b.resume(PLENTY, by_key=True)
    epoch = b.flows[True].epoch
    assert epoch is not None
    # The kernel has sent this one again, and not yet all that follow.
    b.reply(replace(first, epoch=epoch), Op.FIN)
    b.wire.hear()
    while sum(header.op == Op.READ for header in b.log) < posted:
        b.handle_one()
    assert [each.offset for each in b.log if each.op == Op.READ] == list(range(posted))
    entries = [a.entry() for _ in range(posted + others)]
    assert sum(entry.flags == SENT for entry in entries) == others


def test_freed_id_is_used_though_nothing_else_happens(rdm: RdmNet, node: Node) -> None:
    """V4: FIN alone is enough to send a request that waits for an id."""
    a, b = begun_here(rdm, node)
    b.regions[9] = bytearray(IDS)
    b.hold = True
    # One destination gets a quarter of the ids.
    held = IDS // 4
    with parameter("rdm_probe_s", 0):
        for each in range(IDS):
            a.ep.read(a.buffer[:0], kp.RemoteRegion(each, 0, 9), context=each)
        while len(b.held) < held:
            b.handle_one()
        b.reply(b.held.pop(0)[0], Op.FIN)
        while len(b.held) < held:
            b.handle_one()
    b.hold = False
    for header, _ in b.held:
        b.reply(header, Op.FIN)
    while sum(header.op == Op.READ for header in b.log) < IDS:
        b.handle_one()
    assert [a.entry().context for _ in range(IDS)] == list(range(IDS))


def handle_window(b: Peer) -> None:
    """Handle messages until a window of them has come."""
    while sum(header.op == Op.EAGER for header in b.log) < WINDOW:
        b.handle_one()


def wait_until_handled(a: RdmPeer, b: Peer) -> None:
    """Send a request that the kernel replies to after it has handled all before."""
    assert b.finish(b.write(number(a), 0x4321, 0, b"")) is Status.NO_KEY


def test_refused_requests_and_others_take_turns(rdm: RdmNet, node: Node) -> None:
    """A context that resumes does not hold up the others; its own requests stay in order."""
    a, b = begun_here(rdm, node)
    other = a.av.insert_service(node.address, str(b.number + 1))
    b.flows[False].room = 0
    b.silent = True
    # The window is full of refused ones when the others are posted.
    for each in range(WINDOW):
        a.ep.send(a.buffer[:1], data=each)
    for _ in range(10):
        a.ep.send(a.buffer[:1], to=other)
    for each in range(WINDOW, WINDOW + 10):
        a.ep.send(a.buffer[:1], data=each)
    handle_window(b)
    b.log.clear()
    b.silent = False
    b.resume(PLENTY)
    got = [b.receive().header.data for _ in range(WINDOW + 10)]
    assert got == list(range(WINDOW + 10))
    requests = [header.dst for header in b.log if header.op == Op.EAGER]
    assert b.number + 1 in requests[:3]


def refused_window(a: RdmPeer, b: Peer) -> None:
    """Post a window of messages that are refused, and wait for an ACK to be sent again."""
    b.flows[False].room = 0
    b.silent = True
    for each in range(WINDOW):
        a.ep.send(a.buffer[:1], data=each)
    handle_window(b)
    b.resume(PLENTY)
    wait_until_handled(a, b)


def test_long_message_takes_its_turn_among_short_ones(rdm: RdmNet, node: Node) -> None:
    """After those that are sent again, later short messages do not overtake it."""
    a, b = begun_here(rdm, node)
    refused_window(a, b)
    a.ep.send(a.buffer[:5000], data=WINDOW)
    for each in range(WINDOW + 1, WINDOW + 10):
        a.ep.send(a.buffer[:1], data=each)
    b.silent = False
    b.acknowledge()
    assert [b.receive().header.data for _ in range(WINDOW + 10)] == list(range(WINDOW + 10))
    assert {a.entry().flags for _ in range(WINDOW + 10)} == {SENT}


def test_long_message_in_its_turn_holds_up_no_lane(rdm: RdmNet, node: Node) -> None:
    """A long message to another context of the lane passes it."""
    a, b = begun_here(rdm, node)
    other = b.number + LANES
    refused_window(a, b)
    a.ep.send(a.buffer[:5000])
    a.ep.send(a.buffer[:5000], to=a.av.insert_service(node.address, str(other)))
    assert b.handle_until(Op.RTS).dst == other


@pytest.fixture
def other_user(
    rdm: RdmNet, node: Node, in_child: Callable[..., Child]
) -> Iterator[Callable[..., None]]:
    """Have a process of another user send one message to each of these endpoints of the peer."""

    def send(*numbers: int) -> None:
        def child(report: Callable[[str], None]) -> int:
            become()
            with contextlib.ExitStack() as stack:
                c = RdmNet(stack.enter_context(kp.Device()), rdm.link, stack).peer()
                for each in numbers:
                    c.ep.send(c.buffer[:1], to=c.av.insert_service(node.address, str(each)))
                report("sent")
                signal.pause()
            return 0

        assert in_child(child).report() == "sent"

    with open_to_all():
        yield send


def test_new_messages_of_a_user_hold_up_no_other_user(
    rdm: RdmNet, node: Node, other_user: Callable[..., None]
) -> None:
    """X3: users take turns, so the next but one is that of a user who has posted just one."""
    a, b = begun_here(rdm, node)
    b.silent = True
    for _ in range(WINDOW + 10):
        a.ep.send(a.buffer[:1])
    while len(b.received) < WINDOW:
        b.handle_one()
    other_user(b.number)
    b.received.clear()
    b.silent = False
    b.acknowledge()
    assert len({b.receive().header.src for _ in range(2)}) == 2
    assert {b.receive().header.src for _ in range(9)} == {number(a)}


#: Contexts of the peer that refuse messages of one user.
REFUSING = 8


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_messages_of_a_user_that_were_refused_hold_up_no_other_user(
    rdm: RdmNet, node: Node, other_user: Callable[..., None], *, shared: bool
) -> None:
    """X3: many contexts have refused that user's, and resume all at once.

    One of them is the other user's, who waits for what came there before, but for no more.
    """
    a, b = begun_here(rdm, node)
    b.aliases = set(range(b.number + 1, b.number + REFUSING + 1))
    b.flows[False].room = 0
    b.silent = True
    first, *to = [
        a.av.insert_service(node.address, str(b.number + each)) for each in range(REFUSING)
    ]
    a.ep.send(a.buffer[:1], to=first)
    for each in range(WINDOW - 2):
        a.ep.send(a.buffer[:1], to=to[each % len(to)])
    other_user(b.number if shared else b.number + REFUSING)
    handle_window(b)
    b.resume(PLENTY)
    wait_until_handled(a, b)
    b.silent = False
    b.acknowledge()
    assert len({b.receive().header.src for _ in range(2)}) == 2


def test_context_of_many_holds_up_no_message_to_another_one(
    rdm: RdmNet, node: Node, other_user: Callable[..., None]
) -> None:
    """X3: a user's refused message waits for those before it there; the next one does not."""
    a, b = begun_here(rdm, node)
    b.aliases = {b.number + 1}
    b.flows[False].room = 0
    b.silent = True
    for _ in range(WINDOW - 2):
        a.ep.send(a.buffer[:1])
    other_user(b.number, b.number + 1)
    handle_window(b)
    b.resume(PLENTY)
    wait_until_handled(a, b)
    b.silent = False
    b.acknowledge()
    headers = [b.receive().header for _ in range(WINDOW)]
    assert b.number + 1 in [header.dst for header in headers[:4]]
    there = [header.src for header in headers if header.dst == b.number]
    assert there[:-1] == [number(a)] * (WINDOW - 2)


def test_messages_that_are_asked_for_at_once_keep_their_order(rdm: RdmNet, node: Node) -> None:
    """Q2: two receives for which nothing was kept, while the window is full."""
    a, b = begun_here(rdm, node)
    b.flows[False].room = 0
    b.silent = True
    for each in range(WINDOW):
        a.ep.send(a.buffer[:1], data=each)
    handle_window(b)
    b.want()
    b.want()
    wait_until_handled(a, b)
    b.silent = False
    b.acknowledge()
    assert [b.receive().header.data for _ in range(2)] == [0, 1]


def test_unsent_long_messages_leave_their_registrations_to_others(rdm: RdmNet, node: Node) -> None:
    """Their endpoint closes, and another one has as many as before."""
    a, b = begun_here(rdm, node)
    c = rdm.peer(length=SIZE)
    c.ep.peer = c.av.insert_service(node.address, str(b.number))
    refused_window(a, b)
    for _ in range(LANE_MRS):
        a.ep.send(a.buffer[:5000])
    a.ep.close()
    c.ep.send(c.buffer[:5000])
    assert b.handle_until(Op.RTS).src == number(c)
    assert c.entry().flags == SENT


def test_message_of_many_registrations_is_not_overtaken(rdm: RdmNet, node: Node) -> None:
    """X3: not by those of its user to other contexts, which need one registration each."""
    a, b = begun_here(rdm, node)
    b.hold = True
    b.aliases = {b.number + 1, b.number + 2}
    lanes = [a.av.insert_service(node.address, str(b.number + each)) for each in range(3)]
    for each in range(2 * LANE_MRS):
        a.ep.send(a.buffer[:5000], to=lanes[each % 2])
    pieces = [a.buffer[each * 8192 :][:2000] for each in range(SEGS)]
    a.ep.send(pieces, to=lanes[2])
    for each in range(2 * SEGS):
        a.ep.send(a.buffer[:5000], to=lanes[each % 2])
    while len(b.held) < 2 * LANE_MRS:
        b.handle_one()
    for header, _ in b.held[:SEGS]:
        b.reply(header, Op.FIN, length=header.len)
    later = b.handle_until(Op.RTS)
    assert (later.dst, later.nsegs) == (b.number + 2, SEGS)


def test_close_waits_for_a_peer_that_goes_on_answering(
    rdm: RdmNet, node: Node, in_thread: InThread
) -> None:
    """O4: the peer reads slowly; messages of another endpoint arrive afterwards."""
    a, b = begun_here(rdm, node)
    c = rdm.peer()
    c.ep.peer = c.av.insert_service(node.address, str(b.number))
    b.hold = True
    with parameter("rdm_probe_s", 1):
        for held in range(1, SLOW + 1):
            a.ep.send(a.buffer[:5000])
            while len(b.held) < held:
                b.handle_one()
        requests, b.held[:] = list(b.held), []
        closing = in_thread(a.ep.close)
        for header, payload in requests:
            for _ in range(2):
                b.handle_until(Op.ACK)
            b.wire.fetch(segments(payload, header.nsegs))
            b.reply(header, Op.FIN, length=header.len)
    closing.result()
    b.hold = False
    c.ep.send(c.buffer[:8])
    b.receive()
    assert c.entry().flags == SENT


def test_kernel_sends_the_wanted_message_alone(rdm: RdmNet, node: Node) -> None:
    """WANT selects by tag, with bits to ignore; RESUME brings the rest."""
    a, b = begun_here(rdm, node)
    b.flows[False].room = 0
    for tag in (0x10, 0x21, 0x22, 0x30):
        a.ep.tsend(a.buffer[:8], tag)
    while sum(header.op == Op.EAGER for header in b.log) < 4:
        b.handle_one()
    b.want(0x20, ignore=0xF)
    message = b.receive()
    assert (message.header.tag, message.header.flags) == (0x21, Flag.TAGGED | Flag.PULLED)
    b.resume(PLENTY)
    assert [b.receive().header.tag for _ in range(3)] == [0x10, 0x22, 0x30]
    assert {a.entry().flags for _ in range(4)} == {TSENT}


def test_want_outlives_the_endpoint_of_the_message_that_it_has_selected(
    rdm: RdmNet, node: Node
) -> None:
    """V4: another endpoint of the node has a message that matches, too."""
    a, b = begun_here(rdm, node)
    closing = rdm.peer()
    closing.ep.peer = closing.av.insert_service(node.address, str(b.number))
    b.flows[False].room = 0
    for first, each in enumerate((closing, a), 1):
        each.ep.tsend(each.buffer[:8], 5)
        while sum(header.op == Op.EAGER for header in b.log) < first:
            b.handle_one()
    # The window is full, so the selected message is not sent yet.
    b.silent = True
    for _ in range(WINDOW):
        a.ep.send(a.buffer[:8])
    while sum(header.op == Op.EAGER for header in b.log) < WINDOW + 2:
        b.handle_one()
    b.want(5)
    a.ep.recv(a.buffer[:8])
    b.send(number(a), b"after it")
    assert a.entry().flags == RECEIVED
    closing.ep.close()
    b.silent = False
    b.acknowledge()
    header = b.receive().header
    assert (header.src, header.tag, header.flags) == (number(a), 5, Flag.TAGGED | Flag.PULLED)
    assert a.entry().flags == TSENT


def wants_that_wait(rdm: RdmNet, node: Node) -> tuple[RdmPeer, Peer, Request]:
    """A user of the kernel whose WANTs take all places to send from, and more.

    The first of them were sent. The last request of the peer was refused.
    """
    a, b = begun_here(rdm, node, receives=FREE, info=few(rdm), size=1024)
    requests = [b.send(number(a), b"x", tag=1) for _ in range(KEPT + 1)]
    while not requests[-1].naks:
        b.handle_one()
    b.log.clear()
    b.wire.deaf = True
    for _ in range(FREE + TXBUFS + 3 * URGENT_RUN):
        a.ep.trecv(a.buffer[:1], 2)
    return a, b, requests[-1]


def test_receives_of_a_user_hold_up_no_message(rdm: RdmNet, node: Node) -> None:
    """X3: each makes a WANT, as messages were refused that it does not match."""
    a, b, _ = wants_that_wait(rdm, node)
    a.ep.send(a.buffer[:1])
    b.wire.hear()
    b.handle_until(Op.EAGER)
    wants = sum(header.op == Op.WANT for header in b.log)
    assert wants <= FREE + TXBUFS + URGENT_RUN
    while wants < FREE + TXBUFS + 3 * URGENT_RUN:
        wants += b.handle_one().op == Op.WANT


def test_message_that_goes_before_a_refusal_does_not_acknowledge_it(
    rdm: RdmNet, node: Node
) -> None:
    """V4: the NAK waits behind control messages that requests are not held up by."""
    a, b, _ = wants_that_wait(rdm, node)
    region = rdm.region(a, a.buffer[SIZE - 1 :])
    refused = b.send(number(a), b"x", tag=1)
    written = b.write(number(a), region.key, 0, b"y")
    wait_until(lambda: not untouched(a, SIZE - 1), "the write of the peer arrives", LIMIT)
    a.ep.send(a.buffer[:1])
    b.wire.hear()
    b.handle_until(Op.EAGER)
    assert (refused.done, refused.naks, written.done) == (False, 0, False)
    b.handle_until(Op.NAK)
    assert (refused.done, refused.naks) == (False, 1)
    assert b.finish(written) is Status.OK


def test_wanted_message_comes_before_kept_ones(rdm: RdmNet, node: Node) -> None:
    """A receive that matches a refused message only is sent WANT for."""
    a, b = begun_here(rdm, node, info=few(rdm))
    requests = [b.send(number(a), bytes([each]), tag=each) for each in range(2 * KEPT)]
    while sum(request.naks > 0 for request in requests) < KEPT:
        b.handle_one()
    a.ep.trecv(a.buffer[:1], KEPT + 1, context="wanted")
    assert b.finish(requests[KEPT + 1]) is Status.OK
    assert a.entry().context == "wanted"
    assert requests[KEPT + 1].header.flags & Flag.PULLED
    assert (a.buffer.view[0], requests[KEPT].done) == (KEPT + 1, False)


def test_messages_are_not_wanted_without_room_in_the_queue(rdm: RdmNet, node: Node) -> None:
    """A receive for many messages matches them, but only RESUME brings them, once there is room."""
    a, b = begun_here(rdm, node, size=4)
    a.ep.multi_recv(a.buffer[:256])
    requests = [b.send(number(a), b"", cq_data=each) for each in range(8)]
    while not all(request.done or request.naks for request in requests):
        b.handle_one()
    assert Op.WANT not in {header.op for header in b.log}
    for each, request in enumerate(requests):
        assert b.finish(request) is Status.OK
        assert a.entry().data == each


def test_reader_that_waits_for_many_messages_gets_them(
    rdm: RdmNet, node: Node, in_thread: InThread
) -> None:
    """Q2, Q4: half of the queue is full, so messages wait for room, but the reader wants more."""
    a, b = begun_here(rdm, node, size=16, threshold=True)
    a.ep.multi_recv(a.buffer[:256])
    requests = [b.send(number(a), b"") for _ in range(24)]
    # Nothing is on its way then: all that do not fit are refused.
    while any(request.sent for request in requests):
        b.handle_one()
    assert [request.done for request in requests] == [True] * 8 + [False] * 16
    call = in_thread(lambda: a.cq.sread(16, threshold=14, timeout=LIMIT))
    b.handle_until(Op.RESUME)
    assert len(call.result()) >= 14


def test_queue_that_overruns_makes_nobody_wait(rdm: RdmNet, node: Node) -> None:
    """Q2: it stores nothing any more, so what waited for room in it may come."""
    a, b = begun_here(rdm, node, size=16)
    a.ep.multi_recv(a.buffer[:256])
    requests = [b.send(number(a), b"") for _ in range(9)]
    while any(request.sent for request in requests):
        b.handle_one()
    assert not requests[8].done
    for _ in range(9):
        a.ep.send(a.buffer[:8])
    b.handle_until(Op.RESUME)


def test_peer_that_fills_a_queue_leaves_room_for_what_is_posted(rdm: RdmNet, node: Node) -> None:
    """Q2: it acknowledges the sends once it is told that its own messages have no room."""
    a, b = begun_here(rdm, node, size=16)
    a.ep.multi_recv(a.buffer[:256])
    for context in range(8):
        a.ep.send(a.buffer[:8], context=context)
    b.silent = True
    requests = [b.send(number(a), b"") for _ in range(24)]
    while any(request.sent for request in requests):
        b.handle_one()
    b.silent = False
    b.acknowledge()
    # The reply shows that the acknowledgement has arrived.
    b.write(number(a), 0, 0, b"")
    b.handle_until(Op.ERR)
    entries = [a.entry() for _ in range(16)]
    assert [entry.flags for entry in entries] == [RECEIVED] * 8 + [SENT] * 8
    assert {entry.context for entry in entries[8:]} == set(range(8))


def test_closing_endpoint_cancels(rdm: RdmNet, node: Node, in_thread: InThread) -> None:
    """CANCEL repeats the names of the request, and FIN ends it."""
    a, b = begun_here(rdm, node)
    b.hold = True
    a.ep.send(a.buffer[:5000])
    b.handle_until(Op.RTS)
    ((held, _),) = b.held
    # Another endpoint keeps the connection.
    rdm.peer()
    call = in_thread(a.ep.close)
    cancel = b.handle_until(Op.CANCEL)
    names = ("src", "dst", "rx", "auth", "seq")
    assert [getattr(cancel, name) for name in names] == [getattr(held, name) for name in names]
    call.result()
    assert not b.wire.ended


def test_peer_cancels_a_kept_message(rdm: RdmNet, node: Node) -> None:
    """It gets FIN, and its place is free; one that is unknown is ignored."""
    a, b = begun_here(rdm, node)
    kept = b.send(number(a), bytes(5000), cq_data=1)
    b.cancel(kept)
    assert b.finish(kept) is Status.CANCELED
    b.cancel(kept)
    a.ep.recv(a.buffer[:8], context="r")
    assert b.finish(b.send(number(a), b"next one", cq_data=2)) is Status.OK
    assert (a.entry().data, bytes(a.buffer.view[:8])) == (2, b"next one")


SANE = Header(op=Op.EAGER, count=2, seq=2, src=77)
#: What breaks a rule, each as the second request of a connection.
VIOLATIONS = {
    "half a header": SANE.pack()[:32],
    "no header": b"\0",
    "version": replace(SANE, version=VERSION + 1).pack(),
    "kind 0": replace(SANE, op=0).pack(),
    "unknown kind": replace(SANE, op=Op.LEAVE + 1).pack(),
    "unknown flag": replace(SANE, flags=32).pack(),
    "too long": replace(SANE, op=Op.RTS, len=MSG_MAX + 1).pack(),
    "too many segments": replace(SANE, op=Op.RTS, nsegs=SEGS + 1).pack() + bytes(16 * (SEGS + 1)),
    "payload": replace(SANE, len=5).pack() + b"four",
    "segments": replace(SANE, op=Op.RTS, nsegs=1, len=5).pack() + bytes(16),
    "payload beyond the buffer": replace(SANE, len=EAGER + 1).pack() + bytes(EAGER + 1),
    "count repeated": replace(SANE, count=1).pack(),
    "count skipped": replace(SANE, count=3).pack(),
    "number repeated": replace(SANE, seq=1).pack(),
    "number skipped": replace(SANE, seq=3).pack(),
    "early acknowledgement": Header(ack=1).pack(),
    "unknown status": Header(op=Op.FIN, status=len(Status)).pack(),
    "FIN of nothing": Header(op=Op.FIN, seq=1).pack(),
    "ERR of nothing": Header(op=Op.ERR, seq=1).pack(),
}


def test_resume_for_an_unknown_flow_is_ignored(rdm: RdmNet, node: Node) -> None:
    """The context that sends it may be gone, and its flow with it."""
    a, b = begun_here(rdm, node)
    b.wire.post(Header(op=Op.RESUME, src=77, epoch=1).pack())
    a.ep.recv(a.buffer[:8])
    assert b.finish(b.send(number(a), b"go on...")) is Status.OK
    assert bytes(a.buffer.view[:8]) == b"go on..."


def begun_there(rdm: RdmNet, node: Node) -> Peer:
    """A peer that the kernel has begun the connection to, for a message."""
    a = rdm.peer()
    node.listen()
    a.ep.peer = a.av.insert_service(node.address, "77")
    a.ep.send(a.buffer[:8])
    b = Peer(node.accept(node.request()))
    b.receive()
    assert a.entry().flags == SENT
    return b


def left(b: Peer) -> bool:
    """Has the kernel asked to end a connection?"""
    return Op.LEAVE in {Header.unpack(message).op for message in b.wire.inbox}


def room_comes(rdm: RdmNet, node: Node, b: Peer) -> None:
    """See that another connection gets the only place of the node in the end."""

    def room() -> bool:
        try:
            node.connect(rdm.link.address)
        except Refused:
            return False
        return True

    with parameter("rdm_max_conns", 1):
        assert not room()
        assert not b.wire.ended
        wait_until(room, "a place on the node", Deadline.firm(60))
    b.wire.wait_for_end()


def begins_to_nobody(rdm: RdmNet, peer: RdmPeer, machine: int) -> bool:
    """Send to an address of the network without a machine; False if that is refused."""
    to = peer.av.insert_one((f"{rdm.link.address.rpartition('.')[0]}.{machine}", 7))
    try:
        peer.ep.send(peer.buffer[:8], to=to)
    except kp.Again:
        return False
    return True


@pytest.mark.parametrize("end", ["refused", "up"])
def test_dead_connection_keeps_a_place_of_its_owner(
    rdm: RdmNet, node: Node, mock: Mock, end: str
) -> None:
    """X3: until it is destroyed, which hook D9 puts off; then another one may begin."""
    a, _ = begun_by_kernel(rdm, node)
    request = node.request()
    if end == "up":
        b = Peer(node.accept(request))
        b.receive()
        a.entry()

    def begins() -> bool:
        return begins_to_nobody(rdm, a, 200)

    with parameter("rdm_max_conns", 8):
        hook = mock.hook("D9", None)
        if end == "up":
            b.wire.post(VIOLATIONS["number skipped"])
        else:
            node.reject(request, Hello().pack())
        hook.stopped()
        assert not begins()
        hook.go()
        wait_until(begins, "the place is free", LIMIT)


def waits_for_threads() -> bool:
    """Does a work item of the kernel wait in the function that has no limit?"""
    names = pathlib.Path("/proc").glob("[0-9]*/comm")
    workers = [int(name.parent.name) for name in names if name.read_text().startswith("kworker")]
    with contextlib.suppress(ThreadGone):
        return any(is_asleep(tid, r"^kfr_conn_wait_inside\b") for tid in workers)
    return False


def test_end_of_a_connection_waits_for_threads_that_use_it(
    rdm: RdmNet, node: Node, mock: Mock
) -> None:
    """O4: hook D14: a thread has ended an operation, and has not unmapped its buffer yet.

    The connection's work item sleeps until it has: hook D9, behind that, is not reached.
    """
    a, b = begun_here(rdm, node)
    b.flows[False].room = 0
    with parameter("rdm_keep", 0), parameter("rdm_match_timeout_ms", 1):
        inside, behind = mock.hook("D14", None), mock.hook("D9", None)
        a.ep.send(a.buffer[:8], context="s")
        b.handle_until(Op.EAGER)
        inside.stopped()

        def ended() -> bool:
            return mock.state()["hook D9"]["stopped"] == "1"

        b.wire.close()
        wait_until(lambda: ended() or waits_for_threads(), "the end of the connection", LIMIT)
        assert not ended()
        inside.go()
        behind.stopped()
        behind.go()
    error = a.error()
    assert (error.context, error.err) == ("s", errno.EREMOTEIO)


#: Connections that a peer has begun, with those that are not destroyed yet: half of KFR_SLOTS.
BEGUN = 32


def requests(link: RdmaLink) -> int:
    """How many requests for connections have come to the link, repeated ones too."""
    counters = pathlib.Path("/sys/class/infiniband", link.name, "ports/1/cm_rx_msgs")
    return int((counters / "req").read_text())


def test_dead_connections_of_a_peer_count_until_they_are_destroyed(
    rdm: RdmNet, node: Node, mock: Mock, in_thread: InThread
) -> None:
    """X3: hook D12: no id is given back. The kernel can still begin a connection to the peer."""
    from rdm_wire_link import opened

    a = rdm.peer()
    a.ep.peer = a.av.insert_service(node.address, "77")
    node.listen()
    domains = counts(rdm.link)["pd"]
    hook = mock.hook("D12", None)
    for _ in range(BEGUN):
        b = Peer(node.connect(rdm.link.address))
        b.wire.post(VIOLATIONS["number skipped"])
    hook.stopped()
    wait_until(lambda: counts(rdm.link)["pd"] == domains, "all have ended", LIMIT)
    with opened(rdm.link, node.address) as again:
        came = requests(rdm.link)
        further = in_thread(lambda: again.connect(rdm.link.address))
        try:
            # RDMA CM repeats what nobody has answered.
            repeated = "the request is repeated"
            wait_until(lambda: further.done or requests(rdm.link) > came + 1, repeated, LIMIT)
            a.ep.send(a.buffer[:8])
            Peer(node.accept(node.request())).receive()
            assert a.entry().flags == SENT
            assert not further.done
        finally:
            # The thread connects with what is closed next.
            hook.go()
            further.settle()
        further.result()


#: Places of a node in a test of shares: each owner has one, and one is kept for others.
PLACES = 8


def test_owner_with_a_share_leaves_the_last_places_to_others(
    rdm: RdmNet, node: Node, in_child: Callable[..., Child]
) -> None:
    """X3: of connections that are up, too, however busy they are."""

    def user(uid: int, machines: Sequence[int]) -> bool:
        """Have another user begin connections, and keep them."""

        def child(report: Callable[[str], None]) -> int:
            become(uid)
            with contextlib.ExitStack() as stack:
                net = RdmNet(stack.enter_context(kp.Device()), rdm.link, stack)
                peer = net.peer()
                report(str(all([begins_to_nobody(net, peer, machine) for machine in machines])))
                signal.pause()
            return 0

        return in_child(child).report() == "True"

    with open_to_all():
        a, _ = begun_by_kernel(rdm, node)
        b = Peer(node.accept(node.request()))
        b.receive()
        a.entry()
        assert user(OTHER_USER, range(200, 200 + PLACES - 2))
        with parameter("rdm_max_conns", PLACES):
            assert not begins_to_nobody(rdm, a, 220)
            assert user(OTHER_USER - 1, [221])
            # Its own connection is idle, and makes room.
            wait_until(lambda: left(b) or begins_to_nobody(rdm, a, 222), "LEAVE", LIMIT)
            b.wire.close()
            wait_until(lambda: begins_to_nobody(rdm, a, 222), "a place of its own", LIMIT)


@pytest.mark.timeout(120)
def test_idle_peer_that_does_not_leave_makes_room(rdm: RdmNet, node: Node) -> None:
    """X3: it may ignore LEAVE; on a full node its connection ends nevertheless."""
    _, b = begun_here(rdm, node)
    room_comes(rdm, node, b)


@pytest.mark.timeout(120)
def test_idle_peer_that_the_kernel_has_begun_with_makes_room(rdm: RdmNet, node: Node) -> None:
    """X3: the same if the kernel has begun the connection."""
    room_comes(rdm, node, begun_there(rdm, node))


@pytest.mark.timeout(120)
def test_peer_that_takes_no_answers_makes_room(rdm: RdmNet, node: Node) -> None:
    """X3: there are more answers than places for messages on their way; nobody waits for it."""
    _, b = begun_here(rdm, node, receives=FREE)
    b.wire.deaf = True
    for _ in range(FREE + TXBUFS + 1):
        b.send(NOBODY, b"")
    room_comes(rdm, node, b)


@pytest.mark.timeout(120)
def test_silent_peer_whose_message_waits_makes_room(rdm: RdmNet, node: Node) -> None:
    """X3: a living one would probe. The message is kept, and no receive is posted for it.

    LEAVE comes first: a peer that has nothing under way any more ends the connection itself.
    """
    with parameter("rdm_probe_s", 1):
        a, b = begun_here(rdm, node)
        b.send(number(a), bytes(SIZE))
        room_comes(rdm, node, b)
    assert left(b)


def ended_alone(rdm: RdmNet, node: Node, a: RdmPeer, b: Peer) -> None:
    """Wait for the end of a connection, and see another one carry a message."""
    b.wire.wait_for_end()
    b = Peer(node.connect(rdm.link.address))
    a.ep.recv(a.buffer[:8])
    assert b.finish(b.send(number(a), b"go on...")) is Status.OK
    assert bytes(a.buffer.view[:8]) == b"go on..."


@pytest.mark.parametrize("message", VIOLATIONS.values(), ids=VIOLATIONS)
def test_violation_ends_the_connection(rdm: RdmNet, node: Node, message: bytes) -> None:
    """Only that one: a new one carries messages."""
    a, b = begun_here(rdm, node)
    b.wire.post(message)
    ended_alone(rdm, node, a, b)


def test_message_with_immediate_data_ends_the_connection(rdm: RdmNet, node: Node) -> None:
    """A message is a plain send, though its header may be right."""
    a, b = begun_here(rdm, node)
    b.wire.post(SANE.pack(), immediate=True)
    ended_alone(rdm, node, a, b)
