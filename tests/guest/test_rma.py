# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Reading and writing a peer's memory, over a real RDMA link.

Tests that take ``links`` hold for both types of endpoints, the others for those
with a connection; test_rdm_rma.py has what only the others do.
"""

from __future__ import annotations

import dataclasses
import errno

import pytest
from guest_support import LIMIT
from rdm_support import Links
from verbs_support import REMOTE, Net, Peer

import kfabric_py as kp
from kfabric.guest.waiting import wait_until

WRITTEN = kp.CqFlags.RMA | kp.CqFlags.WRITE
READ = kp.CqFlags.RMA | kp.CqFlags.READ


@pytest.mark.parametrize("length", [0, 1, 4096, 8192])
def test_write_puts_the_bytes_there(links: Links, length: int) -> None:
    """The writer's entry comes when they are there; the peer notices nothing."""
    a, b = links.connect()
    target = links.region(b, b.buffer)
    data = a.write_pattern(a.buffer[:length])
    a.ep.write(a.buffer[:length], target.remote(0, length), context="w")
    entry = a.entry()
    assert (entry.context, entry.flags, entry.len) == ("w", WRITTEN, 0)
    assert bytes(b.buffer.view[:length]) == data
    assert b.cq.read(1) == []


def test_read_fetches_the_bytes(links: Links) -> None:
    """From the middle of a region, into pieces."""
    a, b = links.connect()
    source = links.region(b, b.buffer)
    data = b.write_pattern(b.buffer[:])
    a.ep.read([a.buffer[100:200], a.buffer[1000:4000]], source.remote(3000, 3100), context="r")
    entry = a.entry()
    assert (entry.context, entry.flags) == ("r", READ)
    assert bytes(a.buffer.view[100:200]) == data[3000:3100]
    assert bytes(a.buffer.view[1000:4000]) == data[3100:6100]


def test_megabytes_go_both_ways_between_regions(net: Net) -> None:
    """512 pages at once: the largest region."""
    a, b = net.connect()
    length = 512 * 4096
    mine, theirs = net.buffer(length), net.buffer(length)
    local = net.region(a, mine[:], kp.Access.READ | kp.Access.WRITE)
    remote = net.region(b, theirs[:])
    data = a.write_pattern(mine[:])
    a.ep.write(local, remote.remote())
    a.entry()
    assert bytes(theirs.view) == data
    mine.view[:] = bytes(length)
    a.ep.read(local, remote.remote())
    a.entry()
    assert bytes(mine.view) == data


def test_write_with_data_completes_at_the_target(net: Net) -> None:
    """It takes a posted receive there, whose entry says REMOTE_WRITE and the number."""
    a, b = net.connect()
    target = net.region(b, b.buffer[:4096])
    b.ep.recv(b.buffer[4096:4104], context="notice")
    a.ep.write(a.buffer[:100], target.remote(0, 100), data=0xFFFFFFFF)
    entry = b.entry()
    assert entry.context == "notice"
    flags = kp.CqFlags
    assert entry.flags == flags.RMA | flags.REMOTE_WRITE | flags.REMOTE_CQ_DATA
    assert (entry.data, entry.len) == (0xFFFFFFFF, 100)


def test_injected_write_takes_the_bytes_at_once(links: Links) -> None:
    """OpFlags.INJECT: what is written to the buffer after the call is not sent."""
    a, b = links.connect()
    target = links.region(b, b.buffer)
    for number in range(16):
        a.buffer.view[0] = number
        a.ep.write(a.buffer[:1], target.remote(number, 1), flags=kp.OpFlags.INJECT)
    for _ in range(16):
        a.entry()
    assert bytes(b.buffer.view[:16]) == bytes(range(16))


def test_injected_writes_leave_no_entry(links: Links) -> None:
    """inject_write: all arrive, from bytes that are used again at once."""
    a, b = links.connect()
    target = links.region(b, b.buffer)
    for number in range(16):
        a.buffer.view[0] = number + 1
        a.ep.inject_write(a.buffer[:1], target.remote(number, 1))
    wanted = bytes(range(1, 17))
    wait_until(lambda: bytes(b.buffer.view[:16]) == wanted, "16 bytes", LIMIT)
    assert a.cq.read() == []


def test_injected_write_with_data_completes_at_the_target(net: Net) -> None:
    """As one that is not injected; here there is an entry at the target alone."""
    a, b = net.connect()
    target = net.region(b, b.buffer[:4096])
    b.ep.recv(b.buffer[4096:4104], context="notice")
    a.buffer.view[:4] = b"then"
    a.ep.inject_write(a.buffer[:4], target.remote(0, 4), data=7)
    a.buffer.view[:4] = b"late"
    entry = b.entry()
    assert (entry.context, entry.data, entry.len) == ("notice", 7, 4)
    assert bytes(b.buffer.view[:4]) == b"then"
    assert a.cq.read() == []


def test_region_of_pieces_is_one_range_for_a_peer(net: Net) -> None:
    """Addresses go on from piece to piece; the pieces meet at page borders."""
    a, b = net.connect()
    pages = net.buffer(4 * 4096)
    region = net.region(b, [pages[3 * 4096 : 4 * 4096], pages[0 : 2 * 4096]])
    data = a.write_pattern(a.buffer[:])
    a.ep.write(a.buffer[:8192], region.remote(2048, 8192))
    a.entry()
    got = bytes(pages.view[3 * 4096 + 2048 : 4 * 4096]) + bytes(pages.view[0 : 4096 + 2048])
    assert got == data


def test_counters_of_reads_and_writes(links: Links) -> None:
    """Q8: both are counted where they were begun."""
    a, b = links.connect()
    region = links.region(b, b.buffer)
    a.ep.write(a.buffer[:8], region.remote(0, 8))
    a.ep.read(a.buffer[:8], region.remote(0, 8))
    a.cntr.wait(2, timeout=30)
    assert a.cntr.read() == 2


def fails(net: Net, a: Peer, b: Peer, error: kp.CqError) -> None:
    """A refused access is EREMOTEIO where it was begun, and ends the connection."""
    assert (error.context, error.err) == ("bad", errno.EREMOTEIO)
    assert a.cntr.readerr() == 1
    assert a.event().event is kp.Event.SHUTDOWN
    assert b.event().event is kp.Event.SHUTDOWN
    assert net.device


def test_wrong_key_is_refused(net: Net) -> None:
    """A key that the peer never gave out."""
    a, b = net.connect()
    region = net.region(b, b.buffer)
    wrong = dataclasses.replace(region.remote(0, 8), key=region.key ^ 0x55)
    a.ep.write(a.buffer[:8], wrong, context="bad")
    fails(net, a, b, a.error())


def test_key_of_a_closed_region_is_refused(net: Net) -> None:
    """Closing takes the memory away from peers at once."""
    a, b = net.connect()
    with b.domain.mr(b.buffer, REMOTE) as region:
        remote = region.remote(0, 8)
        a.ep.write(a.buffer[:8], remote)
        a.entry()
    a.ep.write(a.buffer[:8], remote, context="bad")
    fails(net, a, b, a.error())


def test_write_to_a_region_for_reads_is_refused(net: Net) -> None:
    """Access that was not given, is not had."""
    a, b = net.connect()
    region = net.region(b, b.buffer, kp.Access.REMOTE_READ)
    a.ep.read(a.buffer[:8], region.remote(0, 8))
    a.entry()
    a.ep.write(a.buffer[:8], region.remote(0, 8), context="bad")
    fails(net, a, b, a.error())


def test_access_past_the_end_is_refused(net: Net) -> None:
    """One byte too many."""
    a, b = net.connect()
    region = net.region(b, b.buffer[:4096])
    over = dataclasses.replace(region.remote(4090, 6), length=7)
    a.ep.write(a.buffer[:7], over, context="bad")
    fails(net, a, b, a.error())


def test_lengths_must_agree(links: Links) -> None:
    """Local pieces and the remote range are equally long: else EINVAL."""
    a, b = links.connect()
    region = links.region(b, b.buffer)
    with pytest.raises(kp.KfiError) as error:
        a.ep.write(a.buffer[:8], region.remote(0, 9))
    assert error.value.errno == errno.EINVAL


def test_one_remote_range_for_each_operation(links: Links) -> None:
    """rma_iov_limit is 1: two are EINVAL."""
    assert links.info.tx_attr.rma_iov_limit == 1
    a, b = links.connect()
    region = links.region(b, b.buffer)
    with pytest.raises(kp.KfiError) as error:
        a.ep.write(a.buffer[:8], [region.remote(0, 4), region.remote(4, 4)])
    assert error.value.errno == errno.EINVAL
