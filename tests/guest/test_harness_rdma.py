# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""RDMA links through our own netlink messages: add, list, ports, resources, delete."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from kfabric.guest import topology
from kfabric.guest.rdma_nl import PortState, RdmaNetlink, RdmaNetlinkError
from kfabric.guest.topology import Netdev, RdmaLink


@pytest.fixture
def rdma() -> Iterator[RdmaNetlink]:
    """One open netlink socket."""
    with RdmaNetlink() as socket:
        yield socket


@pytest.fixture(scope="module")
def link() -> Iterator[RdmaLink]:
    """One rxe link on a dummy net device, for all tests of this file."""
    with topology.rxe_on_dummy() as made:
        yield made


def test_link_is_listed_with_its_protocol(rdma, link) -> None:
    """A new rxe link has one port and speaks RoCE."""
    device = rdma.device(link.name)
    assert (device.name, device.ports, device.protocol) == (link.name, 1, "roce")
    assert device.node_guid != 0


def test_port_is_active(rdma, link) -> None:
    """The link context is entered only when traffic can flow."""
    assert rdma.port_state(link.name) is PortState.ACTIVE
    assert link.address in topology.gid_addresses(link.name)


def test_resources_of_an_idle_link_are_counted(rdma, link) -> None:
    """The RDMA core owns a domain and a queue pair of each link."""
    counts = rdma.counts(link.name)
    assert counts["pd"] >= 1 and counts["qp"] >= 1


def test_deleted_link_is_gone(rdma) -> None:
    """Delete takes the link off the list, and leaves the net device."""
    with topology.dummy_netdev() as netdev:
        rdma.add_link("kf_gone", netdev.name)
        rdma.del_link("kf_gone")
        assert "kf_gone" not in [device.name for device in rdma.devices()]


def test_link_context_tolerates_a_link_that_is_gone(rdma) -> None:
    """A test may delete the link that a fixture made."""
    with topology.rxe_on_dummy() as link:
        rdma.del_link(link.name)


def test_link_goes_with_its_netdev(rdma) -> None:
    """Removing the net device removes the link, without our help."""
    with topology.rxe_on_dummy() as link:
        topology.delete_netdev(link.netdev.name)
        assert link.name not in [device.name for device in rdma.devices()]


@pytest.mark.parametrize(
    ("name", "netdev", "kind", "code"),
    [
        ("kf_new", "nodev0", "rxe", errno.ENODEV),
        ("kf_new", None, "nosuch", errno.EINVAL),
        ("kf%d", None, "rxe", errno.EINVAL),
        (None, None, "rxe", errno.EEXIST),
    ],
)
def test_refusals_carry_the_kernels_error(rdma, link, name, netdev, kind, code) -> None:
    """Each wrong request has its own error number, and the text says what was asked."""
    with pytest.raises(RdmaNetlinkError) as caught:
        rdma.add_link(name or link.name, netdev or link.netdev.name, kind)
    assert caught.value.errno == code
    assert f"add {kind} link" in str(caught.value)


def test_unknown_device_is_enodev(rdma) -> None:
    """Looking for a device that is not there is an error of its own."""
    for call in (rdma.device, rdma.counts, rdma.del_link):
        with pytest.raises(RdmaNetlinkError) as caught:
            call("nosuch0")
        assert caught.value.errno == errno.ENODEV


def test_socket_is_usable_after_an_error(rdma, link) -> None:
    """A refusal leaves no half-read answer behind."""
    with pytest.raises(RdmaNetlinkError):
        rdma.add_link("x", "nodev0")
    assert rdma.device(link.name).name == link.name


def test_many_links_come_in_more_than_one_read(rdma) -> None:
    """A dump is read up to its end mark, however many reads that takes."""
    with topology.dummy_netdev() as first, topology.dummy_netdev() as second:
        names = {_added(rdma, netdev) for netdev in (first, second)}
        assert names <= {device.name for device in rdma.devices()}
        for name in names:
            rdma.del_link(name)


def _added(rdma: RdmaNetlink, netdev: Netdev) -> str:
    name = topology.unique_name("kfm")
    rdma.add_link(name, netdev.name)
    return name


def test_names_and_addresses_are_unique() -> None:
    """Two at a time do not get into each other's way."""
    with topology.dummy_netdev() as one, topology.dummy_netdev() as two:
        assert one.name != two.name and one.address != two.address
        assert max(len(one.name), len(two.name)) <= 15


def test_networks_that_come_round_again_are_skipped_while_a_device_is_in_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two devices with one address: messages for one would go to the other."""
    monkeypatch.setattr(topology, "NETWORKS", topology.NETWORKS[-2:])
    with topology.dummy_netdev() as old:
        with topology.dummy_netdev() as other:
            assert other.address != old.address
        with topology.dummy_netdev() as again:
            assert again.index == old.index + len(topology.NETWORKS)
            assert again.address == other.address
            with pytest.raises(LookupError), topology.dummy_netdev():
                pass
