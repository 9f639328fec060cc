# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Messages over a real RDMA link.

Tests that take ``links`` hold for both types of endpoints, the others for those
with a connection; test_rdm_messages.py has what only the others do.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable

import pytest
import uapi_support as raw
from guest_support import LIMIT, Call
from rdm_support import Links, parameter
from verbs_support import RECEIVED, SENT, Net

import kfabric_py as kp
from kfabric_py.info import info_to_raw

InThread = Callable[[Callable[[], object]], Call[object]]

COMPLETION = kp.OpFlags.COMPLETION

#: Requests that a listener of verbs keeps (KFV_BACKLOG).
BACKLOG = 128


@pytest.mark.parametrize("length", [0, 1, 4096, 4097, 100_000])
def test_message_arrives_as_it_was_sent(links: Links, length: int) -> None:
    """Bytes, length and context; the sender's entry says only that it was a send."""
    a, b = links.connect()
    sent, received = links.buffer(102_400), links.buffer(102_400)
    data = a.write_pattern(sent[:length])
    b.ep.recv(received[:length], context="into")
    a.ep.send(sent[:length], context="from")
    got, done = b.entry(), a.entry()
    assert (got.context, got.flags, got.len) == ("into", RECEIVED, length)
    assert (done.context, done.flags, done.len) == ("from", SENT, 0)
    assert bytes(received.view[:length]) == data


def test_message_shorter_than_the_buffer_shows_its_own_length(links: Links) -> None:
    """The entry has the bytes received, and nothing behind them is touched."""
    a, b = links.connect()
    b.buffer.view[:] = b"\xee" * len(b.buffer)
    b.ep.recv(b.buffer[:4096])
    a.ep.send(a.buffer[:10])
    assert b.entry().len == 10
    assert bytes(b.buffer.view[10:4096]) == b"\xee" * 4086


def test_pieces_are_gathered_and_scattered_in_order(links: Links) -> None:
    """sendv and recvv: pieces of other sizes on either side."""
    a, b = links.connect()
    data = a.write_pattern(a.buffer[:])
    b.ep.recv([b.buffer[4000:5000], b.buffer[0:100], b.buffer[100:3000]])
    a.ep.send([a.buffer[0:1], a.buffer[5000:6500], a.buffer[200:700]])
    assert b.entry().len == 2001
    got = bytes(b.buffer.view[4000:5000]) + bytes(b.buffer.view[0:1001])
    assert got == data[0:1] + data[5000:6500] + data[200:700]


def test_messages_arrive_in_order(links: Links) -> None:
    """One receive, one message, 211 times ahead of the reader."""
    a, b = links.connect()
    for number in range(211):
        b.ep.recv(b.buffer[number * 8 : number * 8 + 8], context=number)
    for number in range(211):
        a.buffer.view[number * 8 : number * 8 + 8] = number.to_bytes(8, "little")
        a.ep.send(a.buffer[number * 8 : number * 8 + 8])
    assert [b.entry().context for _ in range(211)] == list(range(211))
    words = memoryview(bytes(b.buffer.view[: 211 * 8])).cast("Q")
    assert list(words) == list(range(211))


def test_remote_cq_data_comes_with_the_message(links: Links) -> None:
    """senddata: a number for the peer's completion, beside the message."""
    a, b = links.connect()
    b.ep.recv(b.buffer[:100])
    a.ep.send(a.buffer[:5], data=0xDEADBEEF)
    entry = b.entry()
    assert entry.flags == RECEIVED | kp.CqFlags.REMOTE_CQ_DATA
    assert (entry.data, entry.len) == (0xDEADBEEF, 5)


def test_remote_cq_data_is_refused_where_it_does_not_fit(net: Net) -> None:
    """cq_data_size is 4: a larger number is EINVAL, not cut."""
    assert net.info.domain_attr.cq_data_size == 4
    a, _ = net.connect()
    with pytest.raises(kp.KfiError) as error:
        a.ep.send(a.buffer[:5], data=1 << 32)
    assert error.value.errno == errno.EINVAL


def test_injected_memory_is_free_at_once(links: Links) -> None:
    """inject: what is written to the buffer after the call is not sent."""
    a, b = links.connect()
    for number in range(8):
        b.ep.recv(b.buffer[number : number + 1], context=number)
    for number in range(8):
        a.buffer.view[0] = number
        a.ep.inject(a.buffer[:1])
    assert [b.entry().context for _ in range(8)] == list(range(8))
    assert bytes(b.buffer.view[:8]) == bytes(range(8))


def test_inject_counts_but_writes_no_entry(links: Links) -> None:
    """Q8: an injected message is counted; only the one sent after it has an entry."""
    a, b = links.connect()
    for _ in range(2):
        b.ep.recv(b.buffer[:8])
    a.ep.inject(a.buffer[:8], data=7)
    a.ep.send(a.buffer[:8], context="sent")
    a.cntr.wait(2, timeout=30)
    assert [entry.context for entry in a.cq.read(4)] == ["sent"]
    assert b.entry().data == 7


def test_inject_is_limited(links: Links) -> None:
    """More than inject_size is EMSGSIZE."""
    a, _ = links.connect()
    with pytest.raises(kp.KfiError) as error:
        a.ep.inject(a.buffer[: links.info.tx_attr.inject_size + 1])
    assert error.value.errno == errno.EMSGSIZE


def test_selective_binding_leaves_out_what_was_not_asked_for(links: Links) -> None:
    """Q8: without COMPLETION a success is counted and not stored."""
    a, b = links.connect(selective=True)
    for flags in (None, COMPLETION, None):
        b.ep.recv(b.buffer[:8], context="recv", flags=flags)
    for flags in (None, COMPLETION, None):
        a.ep.send(a.buffer[:8], context="send", flags=flags)
    a.cntr.wait(3, timeout=30)
    b.cntr.wait(3, timeout=30)
    assert [entry.context for entry in a.cq.read(4)] == ["send"]
    assert [entry.context for entry in b.cq.read(4)] == ["recv"]


def test_message_wakes_a_sleeper(links: Links, in_thread: InThread) -> None:
    """W10: a device reports from softirq context; a thread asleep in sread wakes."""
    a, b = links.connect()
    b.ep.recv(b.buffer[:8], context=497)
    call = in_thread(b.entry).asleep()
    a.ep.send(a.buffer[:8])
    entry = call.result()
    assert isinstance(entry, kp.CqEntry) and entry.context == 497


def test_posting_needs_an_enabled_endpoint(links: Links) -> None:
    """Before kfi_enable: KFI_EOPBADSTATE."""
    peer = links.peer(enable=False)
    with pytest.raises(kp.BadState):
        peer.ep.recv(peer.buffer[:8])
    with pytest.raises(kp.BadState):
        peer.ep.send(peer.buffer[:8])


def test_sending_needs_a_connection(net: Net) -> None:
    """Enabled, not connected: a receive is kept, a send is ENOTCONN."""
    peer = net.peer()
    peer.ep.recv(peer.buffer[:8])
    with pytest.raises(kp.KfiError) as error:
        peer.ep.send(peer.buffer[:8])
    assert error.value.errno == errno.ENOTCONN


def test_receive_posted_before_the_connection_takes_the_first_message(net: Net) -> None:
    """A receive is legal from kfi_enable on."""
    a = net.peer()
    a.ep.recv(a.buffer[:8], context="early")
    a.ep.connect()
    b = net.peer(net.request())
    b.ep.accept()
    assert b.event().event is kp.Event.CONNECTED
    b.ep.send(b.buffer[:8])
    assert a.entry().context == "early"


def test_full_queue_is_again_until_there_is_room(links: Links) -> None:
    """As many receives as rx_attr.size; one more once one of them is done."""
    a, b = links.connect()
    size = links.info.rx_attr.size
    for _ in range(size):
        b.ep.recv(b.buffer[:8])
    with pytest.raises(kp.Again):
        b.ep.recv(b.buffer[:8])
    a.ep.send(a.buffer[:8])
    b.entry()
    b.ep.recv(b.buffer[:8])
    with pytest.raises(kp.Again):
        b.ep.recv(b.buffer[:8])


def test_full_transmit_queue_is_again(net: Net) -> None:
    """Nobody receives, so nothing is done: tx_attr.size sends, then EAGAIN."""
    a, b = net.connect()
    size = net.info.tx_attr.size
    for _ in range(size):
        a.ep.send(a.buffer[:8])
    with pytest.raises(kp.Again):
        a.ep.send(a.buffer[:8])
    for _ in range(size):
        b.ep.recv(b.buffer[:8])
    assert b.entry().len == 8 and a.entry().flags == SENT
    a.ep.send(a.buffer[:8])


def test_sizes_follow_the_hints(net: Net) -> None:
    """An asked-for depth is the depth."""
    hints = kp.Info(tx_attr=kp.TxAttr(size=5), rx_attr=kp.RxAttr(size=3))
    info = net.info_for(net.name[1], hints=hints)
    assert (info.tx_attr.size, info.rx_attr.size) == (5, 3)
    peer = net.peer(info)
    for _ in range(3):
        peer.ep.recv(peer.buffer[:8])
    with pytest.raises(kp.Again):
        peer.ep.recv(peer.buffer[:8])


def test_too_many_pieces_are_refused(links: Links) -> None:
    """More than iov_limit: EINVAL, nothing is posted."""
    a, _ = links.connect()
    limit = links.info.tx_attr.iov_limit
    pieces = [a.buffer[i * 8 : i * 8 + 8] for i in range(limit + 1)]
    with pytest.raises(kp.KfiError) as error:
        a.ep.send(pieces)
    assert error.value.errno == errno.EINVAL


def test_message_longer_than_the_receive_is_an_error_on_both_sides(net: Net) -> None:
    """EMSGSIZE, once each, and then the connection is over."""
    a, b = net.connect()
    b.ep.recv(b.buffer[:10], context="short")
    a.ep.send(a.buffer[:11], context="long")
    mine, theirs = a.error(), b.error()
    assert (mine.context, mine.err) == ("long", errno.EMSGSIZE)
    assert (theirs.context, theirs.err) == ("short", errno.EMSGSIZE)
    assert a.event().event is kp.Event.SHUTDOWN
    assert b.event().event is kp.Event.SHUTDOWN


def test_long_message_goes_through_a_region(net: Net) -> None:
    """1 MiB, scattered over any number of pages, is one element when registered."""
    a, b = net.connect()
    length = 1 << 20
    sent, received = net.buffer(length), net.buffer(length)
    data = a.write_pattern(sent[:])
    b.ep.recv(net.region(b, received[:], kp.Access.RECV))
    a.ep.send(net.region(a, sent[:], kp.Access.SEND))
    assert b.entry().len == length
    assert bytes(received.view) == data


def test_descriptor_of_other_memory_is_refused(net: Net) -> None:
    """A buffer outside the region that its descriptor names: EINVAL."""
    a, _ = net.connect()
    region = net.region(a, a.buffer[:4096], kp.Access.SEND)
    outside = kp.Segment(a.buffer, 4000, 200, region)
    with pytest.raises(kp.KfiError) as error:
        a.ep.send(outside)
    assert error.value.errno == errno.EINVAL


def test_shutdown_flushes_what_is_posted(net: Net) -> None:
    """Receives come back as ECANCELED on both sides; the peer hears SHUTDOWN."""
    a, b = net.connect()
    a.ep.recv(a.buffer[:8], context="mine")
    b.ep.recv(b.buffer[:8], context="theirs")
    a.ep.shutdown()
    assert b.event().event is kp.Event.SHUTDOWN
    for peer, context in ((a, "mine"), (b, "theirs")):
        error = peer.error()
        assert (error.context, error.err, error.flags) == (context, errno.ECANCELED, RECEIVED)
    with pytest.raises(kp.KfiError) as refused:
        a.ep.send(a.buffer[:8])
    assert refused.value.errno == errno.ENOTCONN


def test_close_drops_what_is_posted_and_frees_its_memory(net: Net) -> None:
    """No entries come, the peer hears SHUTDOWN, and the buffer can be closed."""
    a, b = net.connect()
    for _ in range(50):
        a.ep.recv(a.buffer[:8])
    a.ep.close()
    assert a.cq.read(1) == []
    a.buffer.close()
    assert b.event().event is kp.Event.SHUTDOWN


@pytest.mark.parametrize("which", ["src_addr", "dest_addr"])
@pytest.mark.parametrize(
    ("family", "length"), [(27, 16), (27, 128), (10, 28), (2, 8), (2, 15)], ids=str
)
def test_address_of_another_kind_is_refused(net: Net, which: str, family: int, length: int) -> None:
    """X1: EINVAL; RDMA CM would read as much as such an address has, wherever ours ends."""
    info = info_to_raw(net.info)
    address = getattr(info, which)
    address[0], address[1] = family, 0
    setattr(info, f"{which}len", length)
    fd, at = net.device.fileno(), ctypes.addressof(info)
    with net.fabric.domain(net.info) as domain:
        arg = raw.sample("EP_OPEN", domain=domain._handle, info=at)
        assert raw.call(fd, "EP_OPEN", arg) == -errno.EINVAL
    if which == "src_addr":
        arg = raw.sample("PEP_OPEN", fabric=net.fabric._handle, info=at)
        assert raw.call(fd, "PEP_OPEN", arg) == -errno.EINVAL


def test_listener_has_room_for_so_many_requests(net: Net) -> None:
    """X3: the next peer is refused until one is answered; none is lost."""
    stack = net._stack
    eq = stack.enter_context(net.fabric.eq(512))
    listener = stack.enter_context(net.fabric.passive_ep(net.offer))
    listener.bind(eq)
    listener.listen()
    name = listener.getname()
    assert isinstance(name, tuple)
    info = net.info_for(name[1])
    domain = stack.enter_context(net.fabric.domain(info))
    cq = stack.enter_context(domain.cq(16))

    def ask() -> tuple[kp.Endpoint, kp.EventQueue]:
        mine = stack.enter_context(net.fabric.eq(4))
        ep = stack.enter_context(domain.endpoint(info))
        ep.bind(cq, recv=True, transmit=True)
        ep.bind(mine)
        ep.enable()
        ep.connect()
        return ep, mine

    stack.enter_context(parameter("max_user_cm_requests", 2 * BACKLOG))
    requests = []
    for _ in range(BACKLOG):
        ask()
        event = eq.sread(timeout=LIMIT)
        assert event is not None and event.request is not None
        requests.append(event.request)
    _, refused = ask()
    with pytest.raises(kp.ErrorAvailable):
        refused.sread(timeout=LIMIT)
    error = refused.readerr()
    assert error is not None and error.err == errno.ECONNREFUSED
    requests.pop().reject()
    ask()
    event = eq.sread(timeout=LIMIT)
    assert event is not None and event.request is not None
    for request in (*requests, event.request):
        request.reject()


def test_injected_write_says_how_much_it_writes(links: Links) -> None:
    """EINVAL, as for one that is not injected: the remote piece is as long as the local one."""
    a, b = links.connect()
    remote = links.region(b, b.buffer).remote(0, 16)
    for length in (8, 17):
        with pytest.raises(kp.KfiError) as error:
            a.ep.inject_write(a.buffer[:length], remote)
        assert error.value.errno == errno.EINVAL
    a.ep.inject_write(a.buffer[:16], remote)
