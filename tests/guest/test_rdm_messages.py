# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Messages between RDM endpoints, over a real RDMA link."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from guest_support import LIMIT, Call, Mock
from rdm_support import RECEIVED, SENT, TRECEIVED, RdmNet, RdmPeer

import kfabric_py as kp

InThread = Callable[[Callable[[], Any]], Call[Any]]
MULTI = kp.CqFlags.MULTI_RECV
DATA = kp.CqFlags.REMOTE_CQ_DATA


@pytest.mark.parametrize("length", [0, 1, 64, 4096, 4097, 65536, 1 << 20])
def test_message_arrives_as_it_was_sent(rdm: RdmNet, length: int) -> None:
    """Both entries say what happened; short ones are copied, long ones fetched."""
    a, b = rdm.connect(length=max(length, 4096))
    data = a.write_pattern(a.buffer[:length])
    b.ep.recv(b.buffer, context="r")
    a.ep.send(a.buffer[:length], context="s")
    entry = b.entry()
    assert (entry.context, entry.flags, entry.len) == ("r", RECEIVED, length)
    assert (entry.data, entry.tag, entry.buf) == (0, 0, None)
    assert bytes(b.buffer.view[:length]) == data
    entry = a.entry()
    assert (entry.context, entry.flags, entry.len) == ("s", SENT, 0)


def test_megabytes_at_odd_offsets(rdm: RdmNet) -> None:
    """2 MiB from one odd place to another, both ways at the same time."""
    length = 2 << 20
    a, b = rdm.connect(length=length + 4096)
    rooms = {peer: rdm.buffer(length + 4096) for peer in (a, b)}
    for peer, seed in ((a, 1), (b, 2)):
        peer.write_pattern(peer.buffer[17 : 17 + length], seed)
        peer.ep.recv(rooms[peer][331 : 331 + length])
    a.ep.send(a.buffer[17 : 17 + length])
    b.ep.send(b.buffer[17 : 17 + length])
    for peer in (a, b):
        assert {peer.entry().flags for _ in range(2)} == {SENT, RECEIVED}
    for near, far in ((a, b), (b, a)):
        assert bytes(rooms[far][331 : 331 + length]) == bytes(near.buffer[17 : 17 + length])


def test_remote_data_has_64_bits(rdm: RdmNet) -> None:
    """cq_data_size is 8; the entry says REMOTE_CQ_DATA."""
    assert rdm.info.domain_attr.cq_data_size == 8
    a, b = rdm.connect()
    b.ep.recv(b.buffer[:8])
    a.ep.send(a.buffer[:8], data=(1 << 64) - 3)
    entry = b.entry()
    assert (entry.flags, entry.data) == (RECEIVED | DATA, (1 << 64) - 3)


def test_messages_keep_their_order(rdm: RdmNet) -> None:
    """KFI_ORDER_SAS: short and long ones mixed come in the order in which they were sent."""
    lengths = [8, 5000, 16, 70000, 24, 4096, 0, 9000]
    a, b = rdm.connect(length=1 << 20)
    for number in range(len(lengths)):
        b.ep.recv(b.buffer[number << 17 : (number + 1) << 17], context=number)
    for number, length in enumerate(lengths):
        a.ep.send(a.buffer[:length], data=number)
    got = sorted((b.entry() for _ in lengths), key=lambda entry: entry.data)
    assert [(entry.context, entry.len) for entry in got] == list(enumerate(lengths))


def test_message_before_its_receive_is_kept(rdm: RdmNet) -> None:
    """What comes before a receive is posted goes into the first one that is."""
    a, b = rdm.connect()
    for number in range(8):
        a.buffer.view[number] = number
        a.ep.send(a.buffer[number : number + 1], data=number)
    for number in range(8):
        b.ep.recv(b.buffer[number : number + 1], context=number)
        entry = b.entry()
        assert (entry.context, entry.data, entry.len) == (number, number, 1)
    assert bytes(b.buffer.view[:8]) == bytes(range(8))
    for _ in range(8):
        assert a.entry().flags == SENT


def test_senders_are_pushed_back_and_lose_nothing(rdm: RdmNet) -> None:
    """More than total_buffered_recv without a receive: Again, not loss, not more memory."""
    a, b = rdm.connect(size=4096)
    kept = rdm.info.rx_attr.total_buffered_recv // 4096
    assert kept > 0
    sent = 0
    while sent < 16 * kept:
        try:
            a.ep.send(a.buffer[:4], data=sent)
        except kp.Again:
            break
        sent += 1
    assert sent < 16 * kept, "nothing pushed back"
    for number in range(sent):
        b.ep.recv(b.buffer[:4])
        assert b.entry().data == number
    done = 0
    while done < sent:
        assert a.entry().flags == SENT
        done += 1
    b.ep.recv(b.buffer[:4])
    a.ep.send(a.buffer[:4], data=997)
    assert b.entry().data == 997


@pytest.mark.parametrize("length", [100, 70000])
def test_message_longer_than_its_receive(rdm: RdmNet, length: int) -> None:
    """Both sides get EMSGSIZE; what fits is delivered; the endpoints go on."""
    a, b = rdm.connect(length=1 << 17)
    data = a.write_pattern(a.buffer[:length])
    b.buffer.view[:64] = bytes([0xCC]) * 64
    b.ep.recv(b.buffer[:40], context="r")
    a.ep.send(a.buffer[:length], context="s")
    error = b.error()
    assert (error.context, error.err, error.flags) == ("r", errno.EMSGSIZE, RECEIVED)
    assert (error.len, error.olen) == (40, length - 40)
    assert bytes(b.buffer.view[:41]) == data[:40] + b"\xcc"
    error = a.error()
    assert (error.context, error.err, error.flags) == ("s", errno.EMSGSIZE, SENT)
    assert a.cq.strerror(error)
    b.ep.recv(b.buffer[:64])
    a.ep.send(a.buffer[:8])
    assert (b.entry().len, a.entry().flags) == (8, SENT)


def test_source_of_a_message(rdm: RdmNet) -> None:
    """read with source: the number that the receiver's own vector has for the sender."""
    a, b = rdm.connect()
    c = rdm.peer()
    c.meet(b)
    known = b.av.insert_one(c.ep.getname() or b"")
    for sender, number in ((a, b.ep.peer), (c, known)):
        b.ep.recv(b.buffer[:8])
        sender.ep.send(sender.buffer[:8])
        (entry,) = b.cq.sread(1, timeout=LIMIT, source=True)
        assert entry.src_addr == number


def test_source_that_nobody_knows(rdm: RdmNet) -> None:
    """A sender that is not in the receiver's vector: not available."""
    b, c = rdm.peer(), rdm.peer()
    c.meet(b)
    b.ep.recv(b.buffer[:8])
    c.ep.send(c.buffer[:8])
    (entry,) = b.cq.sread(1, timeout=LIMIT, source=True)
    assert entry.src_addr == kp.ANY


def test_directed_receive_takes_only_its_peers_message(rdm: RdmNet) -> None:
    """DIRECTED_RECV: it is passed over by everybody else's."""
    a, b = rdm.connect()
    c = rdm.peer()
    c.meet(b)
    from_c = b.av.insert_one(c.ep.getname() or b"")
    b.ep.recv(b.buffer[:8], source=from_c, context="c")
    b.ep.recv(b.buffer[8:16], context="anybody")
    a.ep.send(a.buffer[:8])
    assert b.entry().context == "anybody"
    c.ep.send(c.buffer[:8])
    assert b.entry().context == "c"


def test_cancelled_receive(rdm: RdmNet) -> None:
    """ECANCELED with its context; the others stay; what is gone is ENOENT."""
    a, b = rdm.connect()
    first, second = object(), object()
    b.ep.recv(b.buffer[:8], context=first)
    b.ep.recv(b.buffer[8:16], context=second)
    b.ep.cancel(first)
    error = b.error()
    assert error.context is first
    assert (error.err, error.flags) == (errno.ECANCELED, RECEIVED)
    a.ep.send(a.buffer[:8])
    assert b.entry().context is second
    with pytest.raises(kp.NotFound):
        b.ep.cancel(second)


def test_selective_completion(rdm: RdmNet) -> None:
    """Q8: successes only if asked for; errors always; counters count all."""
    a, b = rdm.connect(selective=True)
    asked = kp.OpFlags.COMPLETION
    b.ep.recv(b.buffer[:8])
    b.ep.recv(b.buffer[:8], flags=asked, context="r")
    a.ep.send(a.buffer[:8])
    a.ep.send(a.buffer[:8], flags=asked, context="s")
    assert b.entry().context == "r"
    assert a.entry().context == "s"
    a.cntr.wait(2, timeout=LIMIT)
    b.cntr.wait(2, timeout=LIMIT)
    b.ep.recv(b.buffer[:4], context="short")
    a.ep.send(a.buffer[:8])
    assert b.error().context == "short"
    assert a.error().err == errno.EMSGSIZE


def test_endpoint_talks_to_itself(rdm: RdmNet) -> None:
    """The own address is an address like any other."""
    a = rdm.peer()
    a.meet(a)
    a.ep.recv(a.buffer[100:200])
    a.buffer.view[:4] = b"echo"
    a.ep.send(a.buffer[:4])
    assert {a.entry().flags for _ in range(2)} == {SENT, RECEIVED}
    assert bytes(a.buffer.view[100:104]) == b"echo"


def test_two_domains_of_one_device(rdm: RdmNet) -> None:
    """Endpoints of one domain and of another one reach each other."""
    domain = rdm.domain()
    first, second = rdm.peer(domain=domain), rdm.peer(domain=domain)
    third = rdm.peer()
    for near, far in ((first, second), (second, third), (third, first)):
        near.meet(far)
        far.ep.recv(far.buffer[:8], context=far)
        near.ep.send(near.buffer[:8])
        assert far.entry().context is far
        assert near.entry().flags == SENT


def test_no_such_endpoint(rdm: RdmNet) -> None:
    """EHOSTUNREACH for what is sent to a number where nobody is; the sender goes on."""
    a, b = rdm.connect()
    gone = rdm.peer()
    nobody = a.av.insert_one(gone.ep.getname() or b"")
    gone.ep.close()
    a.ep.send(a.buffer[:8], to=nobody, context="lost")
    error = a.error()
    assert (error.context, error.err) == ("lost", errno.EHOSTUNREACH)
    b.ep.recv(b.buffer[:8])
    a.ep.send(a.buffer[:8])
    assert b.entry().flags == RECEIVED


def test_address_that_is_not_in_the_vector(rdm: RdmNet) -> None:
    """EINVAL at once."""
    a, _ = rdm.connect()
    for to in (a.ep.peer + 1, 1 << 40, kp.ANY):
        with pytest.raises(kp.KfiError) as error:
            a.ep.send(a.buffer[:8], to=to)
        assert error.value.errno == errno.EINVAL


@pytest.fixture
def other_cpu() -> Iterator[set[int]]:
    """The CPUs for what spins at a hook, so that the test's own thread can go on.

    A real-time kernel may handle a message in a thread of higher priority, on the CPU of
    the sender: the test's thread keeps off it. Other kernels may handle it on any CPU,
    and the test's thread moves out of the way.
    """
    was = os.sched_getaffinity(0)
    realtime = Path("/sys/kernel/realtime").exists()
    os.sched_setaffinity(0, {min(was)} if realtime else was)
    yield {max(was)} if realtime else was
    os.sched_setaffinity(0, was)


def test_message_that_a_closing_endpoint_has_got_is_a_success(
    rdm: RdmNet, mock: Mock, in_thread: InThread, other_cpu: set[int]
) -> None:
    """V6: hook D3: it closes while it reports the message, which must not be sent again."""
    a, b = rdm.connect(info=rdm.ask(rx_attr=kp.RxAttr(total_buffered_recv=4096)))
    b.ep.trecv(b.buffer[:8], 1)
    for _ in range(2):
        a.ep.send(a.buffer[:8])
    a.ep.tsend(a.buffer[:8], 1)
    # The first one is kept, and the second one refused: WANT brings the third one.
    assert b.entry().flags == TRECEIVED
    for _ in range(2):
        b.ep.recv(b.buffer[:8])
        b.entry()
    for _ in range(3):
        a.entry()
    b.ep.recv(b.buffer[:8], context="last")
    hook = mock.hook("D3", b.cq)

    def send() -> None:
        os.sched_setaffinity(0, other_cpu)
        a.ep.send(a.buffer[:8], context="last")

    sending = in_thread(send)
    hook.stopped()
    closing = in_thread(b.ep.close)
    # RESUME has been queued before that.
    closing.asleep(r"^kfr_rx_close\b")
    hook.go()
    for call in (sending, closing):
        call.result()
    assert b.entry().context == "last"
    assert (a.entry().context, a.cq.read(1)) == ("last", [])


def test_closing_with_receives_posted(rdm: RdmNet) -> None:
    """O1: posted receives go silently; the peer's next message is answered EHOSTUNREACH."""
    a, b = rdm.connect()
    for number in range(5):
        b.ep.recv(b.buffer[:8], context=number)
    b.ep.close()
    assert b.cq.read() == []
    a.ep.send(a.buffer[:8])
    assert a.error().err == errno.EHOSTUNREACH


def test_endpoint_that_is_not_enabled(rdm: RdmNet) -> None:
    """BadState for every post, and for its name; KFI_ENOAV without a vector."""
    a = rdm.peer(enable=False)
    with pytest.raises(kp.BadState):
        a.ep.recv(a.buffer[:8])
    with pytest.raises(kp.BadState):
        a.ep.getname()
    with (
        rdm.fabric.domain(rdm.info) as domain,
        domain.cq() as cq,
        domain.rdm_endpoint(rdm.info) as ep,
    ):
        ep.bind(cq, recv=True, transmit=True)
        with pytest.raises(kp.KfiError) as error:
            ep.enable()
        assert error.value.errno == kp.KfabricErrno.KFI_ENOAV


def test_what_endpoints_without_a_connection_refuse(rdm: RdmNet) -> None:
    """A length or a number of pieces that is too large, an unknown option."""
    a, _ = rdm.connect()
    with pytest.raises(kp.KfiError) as error:
        a.ep.inject(a.buffer[: rdm.info.tx_attr.inject_size + 1])
    assert error.value.errno == errno.EMSGSIZE
    with pytest.raises(kp.KfiError) as error:
        a.ep.getopt(99)
    assert error.value.errno == errno.ENOPROTOOPT
    with pytest.raises(kp.KfiError) as error:
        a.ep.recv(a.buffer[:8], flags=kp.OpFlags.FENCE)
    assert error.value.errno == kp.KfabricErrno.KFI_EBADFLAGS


@pytest.mark.parametrize(
    "flag", [kp.OpFlags.FENCE, kp.OpFlags.DELIVERY_COMPLETE], ids=["fence", "delivery"]
)
def test_promise_that_cannot_be_kept_is_refused(rdm: RdmNet, flag: kp.OpFlags) -> None:
    """Of an operation nothing is sent; as the endpoint's own nobody is offered it."""
    a, b = rdm.connect()
    with pytest.raises(kp.KfiError) as error:
        a.ep.send(a.buffer[:8], flags=flag)
    assert error.value.errno == kp.KfabricErrno.KFI_EBADFLAGS
    with pytest.raises(kp.NoMatch):
        rdm.ask(tx_attr=kp.TxAttr(op_flags=flag))
    b.ep.recv(b.buffer[:8])
    a.ep.send(a.buffer[:4])
    assert [entry.len for entry in b.cq.sread(timeout=LIMIT)] == [4]


def test_one_buffer_for_many_messages(rdm: RdmNet) -> None:
    """MULTI_RECV: each message behind the last one; the last use gives the buffer back."""
    a, b = rdm.connect()
    b.ep.min_multi_recv = 64
    assert b.ep.min_multi_recv == 64
    b.ep.multi_recv(b.buffer[:256], context="many")
    at = 0
    for number, length in enumerate((100, 50, 60)):
        data = a.write_pattern(a.buffer[:length], number)
        a.ep.send(a.buffer[:length])
        entry = b.entry()
        assert (entry.context, entry.len) == ("many", length)
        assert entry.buf is not None and entry.buf.offset == at
        assert bytes(entry.buf) == data
        at += length
        # 46 bytes are left after the third one: below the least.
        assert entry.flags == (RECEIVED | MULTI if number == 2 else RECEIVED)
        a.entry()


def test_many_messages_over_several_buffers(rdm: RdmNet) -> None:
    """Nothing is lost and nothing is torn where one buffer ends and the next one begins."""
    a, b = rdm.connect()
    b.ep.min_multi_recv = 100
    for number in range(4):
        b.ep.multi_recv(b.buffer[1024 * number : 1024 * (number + 1)], context=number)
    texts, released = [], []
    for number in range(24):
        a.buffer.view[:100] = bytes([number]) * 100
        a.ep.send(a.buffer[:100])
        entry = b.entry()
        assert entry.buf is not None
        texts.append(bytes(entry.buf))
        if MULTI in entry.flags:
            released.append(entry.context)
        a.entry()
    assert texts == [bytes([number]) * 100 for number in range(24)]
    assert released == [0, 1]


def test_message_that_does_not_fit_releases_the_buffer(rdm: RdmNet) -> None:
    """Q8: the release is an entry of the receiver's queue, and no message of its own."""
    a, b = rdm.connect()
    b.ep.multi_recv(b.buffer[:256], context="many")
    a.ep.send(a.buffer[:100])
    assert (b.entry().flags, a.entry().flags) == (RECEIVED, SENT)
    a.ep.send(a.buffer[:200])
    release = b.entry()
    assert (release.context, release.flags, release.len) == ("many", MULTI, 0)
    assert b.cntr.read() == 1
    b.ep.recv(b.buffer[:256], context="one")
    assert (b.entry().len, b.cntr.read()) == (200, 2)


def test_release_goes_to_the_queue_of_receives(rdm: RdmNet) -> None:
    """Q8: also where there is no other."""
    a, b = rdm.scalable(1), rdm.scalable(1)
    name = b.sep.getname()
    assert name is not None
    to = a.av.rx_addr(a.av.insert_one(name), 0)
    (tx, rx) = a.contexts[0].tx, b.contexts[0].rx
    rx.multi_recv(b.buffer[:256], context="many")
    for length in (100, 200):
        tx.send(a.buffer[:length], to=to)
    entries: list[kp.CqEntry] = []
    while len(entries) < 2:
        entries += b.contexts[0].rx_cq.sread(timeout=LIMIT)
    assert [entry.flags for entry in entries] == [RECEIVED, MULTI]


def _send_all(rdm: RdmNet, a: RdmPeer, b: RdmPeer, lengths: list[int]) -> None:
    """Send numbered messages. The write after them ends when the receiver has seen them all."""
    for number, length in enumerate(lengths):
        a.ep.send(a.buffer[:length], data=number)
    a.ep.write(a.buffer[:8], rdm.region(b, b.buffer[4096:]).remote(0, 8), context="last")
    while a.entry().context != "last":
        pass


def test_messages_in_one_buffer_wait_for_room_in_the_queue(rdm: RdmNet) -> None:
    """Q2: messages without bytes never fill the buffer, and do not overrun the queue."""
    a, b = rdm.peer(), rdm.peer(size=16)
    a.meet(b)
    b.ep.multi_recv(b.buffer[:256])
    _send_all(rdm, a, b, [0] * 40)
    assert sorted(b.entry().data for _ in range(40)) == list(range(40))


def test_kept_messages_in_one_buffer_leave_room_in_the_queue(rdm: RdmNet) -> None:
    """Q2: if the queue fills up, the buffer is given back; the next one goes on."""
    a, b = rdm.peer(), rdm.peer(size=16)
    a.meet(b)
    _send_all(rdm, a, b, [0] * 40)
    got: list[int] = []
    while len(got) < 40:
        b.ep.multi_recv(b.buffer[:256])
        entries = b.cq.sread(16, timeout=LIMIT)
        got += [entry.data for entry in entries]
        assert MULTI in entries[-1].flags or len(got) == 40
    assert sorted(got) == list(range(40))


def test_release_of_a_buffer_waits_for_room_in_the_queue(rdm: RdmNet) -> None:
    """Q2: a message that does not fit causes one more entry."""
    a, b = rdm.peer(), rdm.peer(size=4)
    a.meet(b)
    b.ep.multi_recv(b.buffer[:256])
    _send_all(rdm, a, b, [10, 10, 10, 10, 250])
    assert [b.entry().flags for _ in range(5)] == [RECEIVED | DATA] * 4 + [MULTI]
    b.ep.recv(b.buffer[:256])
    assert b.entry().len == 250


def test_peers_that_keep_sending_let_the_post_end(
    rdm: RdmNet, mock: Mock, in_thread: InThread
) -> None:
    """O4: hook D13: 100 messages come while a post takes the two that were kept.

    It takes 64 of them and gives the buffer back; the next one takes the others.
    """
    kept = kp.RxAttr(total_buffered_recv=128 * 4096)
    a, b = rdm.peer(), rdm.peer(info=rdm.ask(rx_attr=kept))
    a.meet(b)
    _send_all(rdm, a, b, [0] * 2)
    hook = mock.hook("D13", b.ep)
    call = in_thread(lambda: b.ep.multi_recv(b.buffer[:256], context="many"))
    hook.stopped()
    _send_all(rdm, a, b, [0] * 100)
    hook.go()
    call.result()
    assert [b.entry().flags for _ in range(66)] == [RECEIVED | DATA] * 66
    assert (release := b.entry()).flags == MULTI and release.context == "many"
    b.ep.multi_recv(b.buffer[:256], context="more")
    assert [b.entry().context for _ in range(36)] == ["more"] * 36


def test_cancelled_buffer_for_many_messages(rdm: RdmNet) -> None:
    """The entry says that the buffer is given back."""
    a, b = rdm.connect()
    b.ep.multi_recv(b.buffer[:1024], context="many")
    a.ep.send(a.buffer[:10])
    assert b.entry().context == "many"
    b.ep.cancel("many")
    error = b.error()
    assert error.err == errno.ECANCELED


def test_buffer_for_many_messages_is_charged_until_it_is_given_back(rdm: RdmNet) -> None:
    """X3: a message does not end it, its last one does, and so does a cancellation."""
    a, b = rdm.connect()
    device = rdm.device
    before = device.version().bytes
    for cancelled in (False, True):
        buffer = device.buffer(4096)
        b.ep.multi_recv(buffer[:256], context="many")
        a.ep.send(a.buffer[:100])
        assert (b.entry().flags, a.entry().flags) == (RECEIVED, SENT)
        buffer.close()
        assert device.version().bytes == before + 4096
        if cancelled:
            b.ep.cancel("many")
            assert b.error().err == errno.ECANCELED
        else:
            a.ep.send(a.buffer[:200])
            assert b.entry().flags == MULTI
            b.ep.recv(b.buffer[:256])
            assert (b.entry().len, a.entry().flags) == (200, SENT)
        assert device.version().bytes == before
