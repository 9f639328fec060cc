# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Atomics on a peer's memory, over a real RDMA link: as far as the device has them."""

from __future__ import annotations

import errno
import itertools
import sys
from collections.abc import Callable

import pytest
from verbs_support import Net, Peer

import kfabric_py as kp

Op, Kind, Type = kp.AtomicOp, kp.AtomicKind, kp.Datatype
CHANGED = kp.CqFlags.ATOMIC | kp.CqFlags.WRITE
FETCHED = kp.CqFlags.ATOMIC | kp.CqFlags.READ

#: What the calls can do with 64 bits, signed or not; nothing with anything else.
OFFERED = {
    (Kind.PLAIN, Op.SUM),
    (Kind.PLAIN, Op.WRITE),
    (Kind.FETCH, Op.SUM),
    (Kind.FETCH, Op.READ),
    (Kind.COMPARE, Op.CSWAP),
}


class Words:
    """A buffer as an array of 64-bit numbers."""

    def __init__(self, buffer: kp.Buffer) -> None:
        self.buffer = buffer

    def __getitem__(self, index: int) -> int:
        """Return one number."""
        return int.from_bytes(bytes(self.buffer[8 * index : 8 * index + 8]), sys.byteorder)

    def at(self, index: int, value: int) -> kp.Segment:
        """Set one number; return the piece of the buffer that it is."""
        piece = self.buffer[8 * index : 8 * index + 8]
        piece.view[:] = value.to_bytes(8, sys.byteorder)
        return piece


def words(net: Net) -> tuple[Peer, Words, Words, kp.MemoryRegion]:
    """Connect; return one side, its numbers, and the other side's, which are registered."""
    a, b = net.connect()
    return a, Words(a.buffer), Words(b.buffer), net.region(b, b.buffer)


def test_capability_is_offered(net: Net) -> None:
    """rxe has atomics, so the info says ATOMIC, for both directions."""
    assert kp.Caps.ATOMIC in net.info.caps
    assert kp.Caps.ATOMIC in net.info.tx_attr.caps & net.info.rx_attr.caps
    assert net.info_for(1, hints=kp.Info(caps=kp.Caps.ATOMIC)).caps & kp.Caps.ATOMIC


def test_valid_tells_the_truth(net: Net) -> None:
    """Each kind of call, operation and type: one element, or none at all."""
    a, _ = net.connect()
    for kind, op, datatype in itertools.product(Kind, Op, Type):
        can = (kind, op) in OFFERED and datatype in (Type.INT64, Type.UINT64)
        count = a.ep.atomic_valid(op, kind=kind, datatype=datatype)
        assert count == can, (kind, op, datatype)


def test_what_is_not_valid_is_refused(net: Net) -> None:
    """EOPNOTSUPP from the call itself, for everything that valid denies; nothing is changed."""
    a, mine, theirs, region = words(net)
    theirs.at(0, 497)
    one, two, three = mine.at(0, 1), mine.at(1, 2), mine.at(2, 3)
    remote = region.remote(0, 8)
    posts: dict[kp.AtomicKind, Callable[[kp.AtomicOp], None]] = {
        Kind.PLAIN: lambda op: a.ep.atomic(one, remote, op),
        Kind.FETCH: lambda op: a.ep.fetch_atomic(one, two, remote, op),
        Kind.COMPARE: lambda op: a.ep.compare_atomic(one, two, three, remote, op),
    }
    for kind, op in itertools.product(Kind, Op):
        if (kind, op) in OFFERED:
            continue
        with pytest.raises(kp.NotSupported):
            posts[kind](op)
    with pytest.raises(kp.NotSupported):
        a.ep.atomic(one, remote, Op.SUM, datatype=Type.DOUBLE)
    assert theirs[0] == 497


def test_sum_adds(net: Net) -> None:
    """The entry says ATOMIC | WRITE; the peer notices nothing; wraps around like any u64."""
    a, mine, theirs, region = words(net)
    theirs.at(3, (1 << 64) - 1)
    a.ep.atomic(mine.at(0, 500), region.remote(24, 8), Op.SUM, context="sum")
    entry = a.entry()
    assert (entry.context, entry.flags, entry.len) == ("sum", CHANGED, 0)
    assert theirs[3] == 499
    assert (theirs[2], theirs[4], mine[0]) == (0, 0, 500)


def test_fetching_sum_gives_what_was_there(net: Net) -> None:
    """The entry says ATOMIC | READ; the operand stays."""
    a, mine, theirs, region = words(net)
    theirs.at(0, 997)
    a.ep.fetch_atomic(mine.at(0, 3), mine.at(1, 0xCC), region.remote(0, 8), Op.SUM, context="f")
    entry = a.entry()
    assert (entry.context, entry.flags) == ("f", FETCHED)
    assert (theirs[0], mine[0], mine[1]) == (1000, 3, 997)


def test_write_and_read_move_one_element(net: Net) -> None:
    """Both are eight bytes of RDMA; to read takes no operand."""
    a, mine, theirs, region = words(net)
    a.ep.atomic(mine.at(0, 0x0123456789ABCDEF), region.remote(8, 8), Op.WRITE)
    assert a.entry().flags == CHANGED
    assert theirs[1] == 0x0123456789ABCDEF
    a.ep.fetch_atomic((), mine.at(1, 0xCC), region.remote(8, 8), Op.READ)
    assert a.entry().flags == FETCHED
    assert mine[1] == 0x0123456789ABCDEF


@pytest.mark.parametrize("there", [497, 498])
def test_compare_and_swap(net: Net, there: int) -> None:
    """It swaps if what is there compares equal, and tells what was there in any case."""
    a, mine, theirs, region = words(net)
    theirs.at(0, there)
    new, old, result = mine.at(0, 7), mine.at(1, 497), mine.at(2, 0xCC)
    a.ep.compare_atomic(new, old, result, region.remote(0, 8))
    assert a.entry().flags == FETCHED
    assert mine[2] == there
    assert theirs[0] == (7 if there == 497 else there)


def test_operand_is_free_on_return(net: Net) -> None:
    """OpFlags.INJECT and inject_atomic: what is written to the buffer afterwards is not used."""
    a, mine, theirs, region = words(net)
    for number in range(8):
        a.ep.inject_atomic(mine.at(0, 1 << number), region.remote(0, 8), Op.SUM)
        a.ep.inject_atomic(mine.at(0, number), region.remote(64 + 8 * number, 8), Op.WRITE)
    mine.at(0, 0xCC)
    flags = kp.OpFlags.INJECT
    a.ep.atomic(mine.at(0, 256), region.remote(0, 8), Op.SUM, flags=flags, context="last")
    mine.at(0, 0xCC)
    # What was injected before has written no entry.
    assert a.entry().context == "last"
    assert theirs[0] == 511
    assert [theirs[index] for index in range(8, 16)] == list(range(8))


def test_registered_buffers_take_part(net: Net) -> None:
    """A region of one's own describes the room for the result."""
    a, mine, theirs, region = words(net)
    own = net.region(a, a.buffer, kp.Access.READ | kp.Access.WRITE)
    theirs.at(0, 41)
    mine.at(0, 1)
    a.ep.fetch_atomic(own[0:8], own[8:16], region.remote(0, 8), Op.SUM)
    a.entry()
    assert (theirs[0], mine[1]) == (42, 41)


def test_adders_lose_nothing(net: Net) -> None:
    """Two connections add to one number at the same time: each of 122 times counts."""
    times = 61
    a, b = net.connect()
    c, _ = net.connect(passive_domain=b.domain)
    theirs, region = Words(b.buffer), net.region(b, b.buffer)
    one, other = Words(a.buffer).at(0, 1), Words(c.buffer).at(0, 1000)
    for _ in range(times):
        a.ep.atomic(one, region.remote(0, 8), Op.SUM)
        c.ep.atomic(other, region.remote(0, 8), Op.SUM)
    for peer in (a, c):
        peer.cntr.wait(times, timeout=30)
    assert theirs[0] == 1001 * times


def test_counters_of_atomics(net: Net) -> None:
    """Q8: those that fetch count as reads, the others as writes."""
    a, b = net.connect(reads=True)
    mine, region = Words(a.buffer), net.region(b, b.buffer)
    for _ in range(2):
        a.ep.atomic(mine.at(0, 1), region.remote(0, 8), Op.SUM)
    a.ep.fetch_atomic(mine.at(0, 1), mine.at(1, 1), region.remote(0, 8), Op.SUM)
    for counter, times in ((a.reads, 1), (a.cntr, 2)):
        counter.wait(times, timeout=30)
        assert counter.read() == times


@pytest.mark.parametrize(
    ("offset", "remote", "local", "number"),
    [
        (4, 8, 8, errno.EINVAL),
        (0, 16, 16, errno.EMSGSIZE),
        (0, 8, 16, errno.EINVAL),
        (0, 4, 4, errno.EINVAL),
        (0, 0, 0, errno.EINVAL),
    ],
)
def test_one_aligned_element(net: Net, offset: int, remote: int, local: int, number: int) -> None:
    """Not aligned, two, different numbers on the two sides, half of one, none: refused."""
    a, _, _, region = words(net)
    with pytest.raises(kp.KfiError) as error:
        a.ep.atomic(a.buffer[:local], region.remote(offset, remote), Op.SUM)
    assert error.value.errno == number


def test_flags_of_atomics(net: Net) -> None:
    """What fetches cannot be injected: KFI_EBADFLAGS."""
    a, mine, _, region = words(net)
    with pytest.raises(kp.KfiError) as error:
        a.ep.fetch_atomic(
            mine.at(0, 1), mine.at(1, 1), region.remote(0, 8), Op.SUM, flags=kp.OpFlags.INJECT
        )
    assert error.value.errno == kp.KfabricErrno.KFI_EBADFLAGS


@pytest.mark.parametrize("access", [kp.Access.REMOTE_READ, kp.Access.REMOTE_WRITE])
def test_access_that_was_not_given_is_not_had(net: Net, access: kp.Access) -> None:
    """An atomic reads and writes, so it needs both; a region for one of them refuses it."""
    a, b = net.connect()
    mine = Words(a.buffer)
    region = net.region(b, b.buffer, access)
    a.ep.atomic(mine.at(0, 1), region.remote(0, 8), Op.SUM, context="bad")
    error = a.error()
    assert (error.context, error.flags, error.err) == ("bad", CHANGED, errno.EREMOTEIO)
    assert Words(b.buffer)[0] == 0


def test_atomics_need_a_connection(net: Net) -> None:
    """BadState before enable, ENOTCONN before connect."""
    peer = net.peer(enable=False)
    remote = kp.RemoteRegion(0, 8, 1)
    with pytest.raises(kp.BadState):
        peer.ep.atomic(peer.buffer[:8], remote, Op.SUM)
    peer.ep.enable()
    with pytest.raises(kp.KfiError) as error:
        peer.ep.atomic(peer.buffer[:8], remote, Op.SUM)
    assert error.value.errno == errno.ENOTCONN
