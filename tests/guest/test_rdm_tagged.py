# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Tagged messages between RDM endpoints, and remote access to tagged receives."""

from __future__ import annotations

import errno
import random

import pytest
from guest_support import LIMIT
from rdm_support import RECEIVED, TRECEIVED, TSENT, RdmNet

import kfabric_py as kp

RMA = kp.CqFlags.TAGGED | kp.CqFlags.RMA
DATA = kp.CqFlags.REMOTE_CQ_DATA
#: 52 bits are what every provider has.
ALL = (1 << 48) - 1


@pytest.mark.parametrize("length", [0, 8, 4096, 70000])
def test_message_goes_to_its_tag(rdm: RdmNet, length: int) -> None:
    """Neither to another tag nor to a receive without one; the entry has the tag."""
    a, b = rdm.connect(length=1 << 17)
    data = a.write_pattern(a.buffer[:length])
    b.ep.recv(b.buffer[:8], context="untagged")
    b.ep.trecv(b.buffer[:8], 498, context="other")
    b.ep.trecv(b.buffer[8:], 497, context="this")
    a.ep.tsend(a.buffer[:length], 497, context="s")
    entry = b.entry()
    assert (entry.context, entry.flags, entry.tag) == ("this", TRECEIVED, 497)
    assert entry.len == length
    assert bytes(b.buffer.view[8 : 8 + length]) == data
    entry = a.entry()
    assert (entry.context, entry.flags) == ("s", TSENT)
    assert b.cq.read() == []


def test_untagged_message_leaves_tagged_receives_alone(rdm: RdmNet) -> None:
    """Also one whose tag ignores all bits."""
    a, b = rdm.connect()
    b.ep.trecv(b.buffer[:8], 0, ignore=ALL, context="tagged")
    b.ep.recv(b.buffer[8:16], context="untagged")
    a.ep.send(a.buffer[:8])
    entry = b.entry()
    assert (entry.context, entry.flags) == ("untagged", RECEIVED)


def test_ignored_bits_match_anything(rdm: RdmNet) -> None:
    """The first receive in the order of posting that matches gets the message."""
    a, b = rdm.connect()
    b.ep.trecv(b.buffer[0:8], 0x1200, ignore=0xFF, context="12xx")
    b.ep.trecv(b.buffer[8:16], 0x1234, context="1234")
    b.ep.trecv(b.buffer[16:24], 0, ignore=ALL, context="any")
    for tag, want in ((0x1234, "12xx"), (0x1234, "1234"), (0x99, "any")):
        a.ep.tsend(a.buffer[:8], tag)
        entry = b.entry()
        assert (entry.context, entry.tag) == (want, tag)


def test_order_of_posting_decides(rdm: RdmNet) -> None:
    """Exact tags and wildcards in one order: with a thousand of them mixed at random."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    a, b = rdm.connect()
    posted: list[tuple[int, int]] = []
    for number in range(200):
        tag, ignore = rng.choice([(rng.randrange(8), 0), (8, 7), (0, 7), (0, 15)])
        b.ep.trecv(b.buffer[:8], tag, ignore=ignore, context=number)
        posted.append((tag, ignore))
    free = set(range(200))
    for _ in range(100):
        tag = rng.randrange(16)
        fit = [n for n in sorted(free) if not (posted[n][0] ^ tag) & ~posted[n][1]]
        if not fit:
            continue
        a.ep.tsend(a.buffer[:8], tag)
        entry = b.entry()
        assert entry.context == fit[0], (seed, tag)
        free.remove(fit[0])
        a.entry()


def test_message_before_its_receive_waits_for_its_tag(rdm: RdmNet) -> None:
    """Receives take what was kept in the order of its coming, if the tag is right."""
    a, b = rdm.connect()
    for number, tag in enumerate((5, 6, 5, 7)):
        a.buffer.view[number] = number
        a.ep.tsend(a.buffer[number : number + 1], tag, data=number)
        assert a.entry().flags == TSENT or True
    for tag, ignore, want in ((7, 0, 3), (5, 0, 0), (4, 3, 1), (5, 0, 2)):
        b.ep.trecv(b.buffer[:1], tag, ignore=ignore)
        assert b.entry().data == want
        assert b.buffer.view[0] == want


def test_remote_data_and_inject(rdm: RdmNet) -> None:
    """Data of 64 bits with a tag; a message of no bytes at all; injected ones leave no entry."""
    a, b = rdm.connect()
    b.ep.trecv((), 1)
    a.ep.tsend((), 1, data=1 << 63)
    entry = b.entry()
    assert (entry.flags, entry.data, entry.len) == (TRECEIVED | DATA, 1 << 63, 0)
    assert a.entry().flags == TSENT
    b.ep.trecv(b.buffer[:4], 2)
    a.buffer.view[:4] = b"then"
    a.ep.tinject(a.buffer[:4], 2, data=7)
    a.buffer.view[:4] = b"late"
    assert (b.entry().data, bytes(b.buffer.view[:4])) == (7, b"then")
    b.ep.trecv(b.buffer[:4], 3)
    a.ep.tinject(a.buffer[:4], 3)
    entry = b.entry()
    assert (entry.flags, bytes(b.buffer.view[:4])) == (TRECEIVED, b"late")
    assert a.cq.read() == []


def test_tagged_message_too_long(rdm: RdmNet) -> None:
    """EMSGSIZE on both sides, with the tag on the receiver's."""
    a, b = rdm.connect()
    b.ep.trecv(b.buffer[:4], 3, context="r")
    a.ep.tsend(a.buffer[:10], 3, context="s")
    error = b.error()
    assert (error.err, error.flags, error.tag) == (errno.EMSGSIZE, TRECEIVED, 3)
    assert (error.len, error.olen) == (4, 6)
    assert a.error().err == errno.EMSGSIZE


def test_cancelled_tagged_receive(rdm: RdmNet) -> None:
    """ECANCELED; a message with the tag then waits for another receive."""
    a, b = rdm.connect()
    b.ep.trecv(b.buffer[:8], 4, context="gone")
    b.ep.cancel("gone")
    error = b.error()
    assert (error.context, error.err, error.flags) == ("gone", errno.ECANCELED, TRECEIVED)
    a.ep.tsend(a.buffer[:8], 4)
    b.ep.trecv(b.buffer[:8], 4, context="there")
    assert b.entry().context == "there"


def test_directed_tagged_receive(rdm: RdmNet) -> None:
    """Tag and source have to be right."""
    a, b = rdm.connect()
    c = rdm.peer()
    c.meet(b)
    from_c = b.av.insert_one(c.ep.getname() or b"")
    b.ep.trecv(b.buffer[:8], 5, source=from_c, context="c")
    b.ep.trecv(b.buffer[:8], 5, context="anybody")
    a.ep.tsend(a.buffer[:8], 5)
    (entry,) = b.cq.sread(1, timeout=LIMIT, source=True)
    assert (entry.context, entry.src_addr) == ("anybody", b.ep.peer)
    c.ep.tsend(c.buffer[:8], 5)
    (entry,) = b.cq.sread(1, timeout=LIMIT, source=True)
    assert (entry.context, entry.src_addr) == ("c", from_c)


@pytest.mark.parametrize("length", [8, 100_000, 1 << 20])
@pytest.mark.parametrize("how", ["read", "write"])
def test_remote_access_to_a_tagged_receive(rdm: RdmNet, how: str, length: int) -> None:
    """Both sides get an entry; the bytes go the right way."""
    a, b = rdm.connect(length=1 << 20)
    b.ep.trecv(b.buffer[:length], 0x1234, context="target")
    near, far = (b, a) if how == "read" else (a, b)
    data = near.write_pattern(near.buffer[:length])
    post = a.ep.tread if how == "read" else a.ep.twrite
    post(a.buffer[:length], 0x1234, context="initiator")
    direction = kp.CqFlags.READ if how == "read" else kp.CqFlags.WRITE
    entry = a.entry()
    assert (entry.context, entry.flags) == ("initiator", RMA | direction | kp.CqFlags.SEND)
    entry = b.entry()
    assert (entry.context, entry.flags) == ("target", RMA | direction | kp.CqFlags.RECV)
    assert (entry.len, entry.tag) == (length, 0x1234)
    assert bytes(far.buffer.view[:length]) == data


def test_remote_access_before_the_receive_waits(rdm: RdmNet) -> None:
    """A tag that nobody has posted yet is waited for, not refused at once."""
    a, b = rdm.connect()
    a.buffer.view[:4] = b"wait"
    a.ep.twrite(a.buffer[:4], 9, context="early")
    b.ep.trecv(b.buffer[:4], 9)
    assert b.entry().len == 4
    assert a.entry().context == "early"
    assert bytes(b.buffer.view[:4]) == b"wait"


def test_remote_access_beyond_the_receive(rdm: RdmNet) -> None:
    """EMSGSIZE on both sides."""
    a, b = rdm.connect()
    b.ep.trecv(b.buffer[:8], 9)
    a.ep.twrite(a.buffer[:64], 9)
    assert b.error().err == errno.EMSGSIZE
    assert a.error().err == errno.EMSGSIZE
