# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Memory regions of a real RDMA device."""

from __future__ import annotations

import errno

import pytest
from verbs_support import REMOTE, Net, counts, wait_for_counts

import kfabric_py as kp
from kfabric_py.memory import Local

PAGE = 4096


def refused(net: Net, memory: Local, access: kp.Access = REMOTE) -> int:
    """Return the error number with which a registration fails."""
    peer = net.peer(enable=False)
    with pytest.raises(kp.KfiError) as error:
        peer.domain.mr(memory, access)
    return error.value.errno


def test_region_needs_no_connection(net: Net) -> None:
    """Registered at once, with a key, before any endpoint is connected."""
    peer = net.peer(enable=False)
    region = net.region(peer, peer.buffer)
    assert 0 < region.key < 1 << 32


def test_keys_differ(net: Net) -> None:
    """Each region has a key of its own, also over the same memory."""
    peer = net.peer(enable=False)
    keys = {net.region(peer, peer.buffer).key for _ in range(16)}
    assert len(keys) == 16


@pytest.mark.parametrize("offset", [0, 1, 4095, 5000])
def test_address_for_peers_is_no_kernel_address(net: Net, offset: int) -> None:
    """iova: where the first byte lies in its page, which is all that a device asks for."""
    peer = net.peer(enable=False)
    region = net.region(peer, peer.buffer[offset : offset + 100])
    assert region.iova == offset % PAGE


def test_largest_region_has_512_pages(net: Net) -> None:
    """One page more is E2BIG."""
    buffer = net.buffer(513 * PAGE)
    peer = net.peer(enable=False)
    net.region(peer, buffer[: 512 * PAGE])
    assert refused(net, buffer) == errno.E2BIG
    # 512 pages' worth of bytes over 513 pages.
    assert refused(net, buffer[1 : 512 * PAGE + 1]) == errno.E2BIG


def test_hole_between_pieces_is_refused(net: Net) -> None:
    """A device sees whole pages: pieces must meet at page borders."""
    buffer = net.buffer(4 * PAGE)
    assert refused(net, [buffer[:100], buffer[PAGE : PAGE + 100]]) == errno.EINVAL
    assert refused(net, [buffer[:PAGE], buffer[PAGE + 1 : 2 * PAGE]]) == errno.EINVAL


def test_pieces_may_begin_and_end_within_a_page(net: Net) -> None:
    """The first one may begin there, the last one end there."""
    buffer = net.buffer(4 * PAGE)
    peer = net.peer(enable=False)
    pieces = [buffer[100:PAGE], buffer[2 * PAGE : 3 * PAGE], buffer[PAGE : PAGE + 7]]
    assert len(net.region(peer, pieces)) == PAGE - 100 + PAGE + 7


def test_region_needs_an_access(net: Net) -> None:
    """No access at all, and unknown kinds of it: EINVAL."""
    buffer = net.buffer(PAGE)
    assert refused(net, buffer, kp.Access(0)) == errno.EINVAL


def test_empty_region_is_refused(net: Net) -> None:
    """No bytes: EINVAL."""
    assert refused(net, net.buffer(PAGE)[0:0]) == errno.EINVAL


def test_domain_with_a_region_is_busy(net: Net) -> None:
    """O1: a domain closes after its regions."""
    with net.fabric.domain(net.info) as domain:
        buffer = net.buffer(PAGE)
        region = domain.mr(buffer, REMOTE)
        region.close()
        assert not domain.closed


def test_closed_regions_are_gone_from_the_device(net: Net) -> None:
    """What registering took is given back: 50 times, counted by the kernel."""
    with net.fabric.domain(net.info) as domain:
        buffer = net.buffer(8 * PAGE)
        domain.mr(buffer, REMOTE).close()
        before = counts(net.link)
        for _ in range(50):
            domain.mr(buffer, REMOTE).close()
        wait_for_counts(net.link, before)
