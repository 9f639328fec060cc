# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A network for tests: a dummy net device with an address, and an RDMA link on it.

Traffic between two endpoints on one such device never leaves the RDMA driver, so a dummy
device is sufficient.
"""

import contextlib
import ipaddress
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import AF_INET

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from kfabric.guest.modules import need
from kfabric.guest.rdma_nl import PortState, RdmaNetlink, RdmaNetlinkError
from kfabric.guest.waiting import Deadline, wait_until

# RFC 2544's range for test networks: one /24 for each net device.
NETWORKS = tuple(ipaddress.IPv4Network("198.18.0.0/15").subnets(new_prefix=24))
SYS_NET = Path("/sys/class/net")
SYS_INFINIBAND = Path("/sys/class/infiniband")
_numbers = itertools.count(1)
# The search for GIDs ends after so many empty entries.
_EMPTY_GIDS = 16
LINK_SECONDS = 20.0


def unique_name(prefix: str) -> str:
    """Return a device name that is unique in this guest.

    Net device names have at most 15 characters, so `prefix` should have at most 4.
    """
    return f"{prefix}{os.getpid():x}x{next(_numbers):x}"


@dataclass(frozen=True)
class Netdev:
    """A dummy net device that is up."""

    name: str
    index: int
    address: str
    """Its IPv4 address, without prefix length."""


@dataclass(frozen=True)
class RdmaLink:
    """An RDMA link whose port is active, and the net device below it."""

    name: str
    netdev: Netdev

    @property
    def address(self) -> str:
        """The IPv4 address of this link for the connection manager."""
        return self.netdev.address


@contextlib.contextmanager
def dummy_netdev() -> Iterator[Netdev]:
    """A dummy net device that is up and has an IPv4 address, during the block.

    The address is the first host of a /24 network that no other device has.
    """
    # When the kernel loads it on demand, it makes a device dummy0.
    need(["dummy"], ["numdummies=0"])
    name = unique_name("kfn")
    with IPRoute() as route, contextlib.ExitStack() as cleanup:
        # Registered before the creation, so that no error in between leaves it there.
        cleanup.callback(delete_netdev, name)
        route.link("add", ifname=name, kind="dummy")
        (index,) = route.link_lookup(ifname=name)
        address = _free_address(route, index)
        route.addr("add", index=index, address=address, prefixlen=24)
        route.link("set", index=index, state="up")
        yield Netdev(name=name, index=index, address=address)


def _free_address(route: IPRoute, index: int) -> str:
    """The address of the first network, from a device's index on, that no device is in.

    Raises:
        LookupError: all are taken.
    """
    taken = {address.get_attr("IFA_ADDRESS") for address in route.get_addr(family=AF_INET)}
    for number in range(index, index + len(NETWORKS)):
        address = str(NETWORKS[number % len(NETWORKS)].network_address + 1)
        if address not in taken:
            return address
    raise LookupError(f"each of {len(NETWORKS)} networks has a device")


@contextlib.contextmanager
def wire_netdev(address: str) -> Iterator[Netdev]:
    """The guest's Ethernet device, up and with an IPv4 address, during the block.

    Its hardware address follows from the other one: that of a frozen guest is the same for all
    of its kind.

    Raises:
        LookupError: The guest has no such device (see harness/runner/nodes.py).
    """
    need(["virtio_net"])
    with IPRoute() as route:
        found = [path.name for path in SYS_NET.iterdir() if (path / "device").exists()]
        if len(found) != 1:
            raise LookupError(f"one Ethernet device is wanted, there are {found}")
        (name,) = found
        (index,) = route.link_lookup(ifname=name)
        route.addr("add", index=index, address=address, prefixlen=24)
        mac = bytes((0x02, 0x00, *ipaddress.ip_address(address).packed)).hex(":")
        route.link("set", index=index, address=mac)
        route.link("set", index=index, state="up")
        yield Netdev(name=name, index=index, address=address)
        route.link("set", index=index, state="down")
        route.addr("del", index=index, address=address, prefixlen=24)


@contextlib.contextmanager
def rdma_link(netdev: Netdev) -> Iterator[RdmaLink]:
    """An rxe link on a net device, during the block.

    The block starts when the port is active and the address is in its GID table, as the
    connection manager needs. The block may delete the link itself.

    Raises:
        DeadlineExpired: The port takes too long.
    """
    name = unique_name("kfr")
    with RdmaNetlink() as rdma, contextlib.ExitStack() as cleanup:
        cleanup.callback(delete_link, name)
        rdma.add_link(name, netdev.name)
        link = RdmaLink(name=name, netdev=netdev)
        wait_until_active(link)
        yield link


@contextlib.contextmanager
def rxe_on_dummy() -> Iterator[RdmaLink]:
    """An rxe link on a dummy net device of its own, as most tests use it."""
    with dummy_netdev() as netdev, rdma_link(netdev) as link:
        yield link


def further_address(link: RdmaLink, distance: int) -> str:
    """Give a link's net device another IPv4 address, in the link's GID table, if it has it not.

    It stays as long as the device: a message of RDMA CM whose source is gone would end all that
    rxe receives of RDMA CM (docs/rdm.md, "Known behaviour of rxe").

    Args:
        link: the link.
        distance: how far it is from the link's own address.
    """
    address = str(ipaddress.IPv4Address(link.address) + distance)
    with IPRoute() as route:
        route.addr("replace", index=link.netdev.index, address=address, prefixlen=24)
    wait_until(
        lambda: address in gid_addresses(link.name),
        f"{address} in the GID table of {link.name}",
        LINK_SECONDS,
    )
    return address


def wait_until_active(link: RdmaLink) -> None:
    """Wait until the link's port is active, with the address in its GID table."""
    limit = Deadline(LINK_SECONDS)
    with RdmaNetlink() as rdma:
        wait_until(
            lambda: rdma.port_state(link.name) is PortState.ACTIVE,
            f"port of {link.name} active",
            limit,
            seen=lambda: rdma.port_state(link.name).name,
        )
    # The kernel fills the table in a work item, after the address is set.
    wait_until(
        lambda: link.address in gid_addresses(link.name),
        f"{link.address} in the GID table of {link.name}",
        limit,
        seen=lambda: sorted(gid_addresses(link.name)),
    )


def gid_addresses(name: str) -> dict[str, int]:
    """Return the IPv4 addresses in the GID table of a first port, with their indices.

    The kernel fills the table from the bottom. Reading all 1024 entries of rxe takes
    seconds, so several empty entries in a row count as the end.
    """
    table = SYS_INFINIBAND / name / "ports" / "1" / "gids"
    found: dict[str, int] = {}
    number = empty = 0
    while empty < _EMPTY_GIDS:
        gid = ipaddress.IPv6Address(_gid(table / str(number)) or "::")
        empty = empty + 1 if gid.is_unspecified else 0
        if gid.ipv4_mapped:
            found.setdefault(str(gid.ipv4_mapped), number)
        number += 1
    return found


def delete_link(name: str) -> None:
    """Delete an RDMA link, if it exists."""
    with RdmaNetlink() as rdma:
        if any(device.name == name for device in rdma.devices()):
            with contextlib.suppress(RdmaNetlinkError):
                rdma.del_link(name)
        # Two processes may delete at the same time, and one request fails although all
        # is well: therefore the list of devices decides, and not the first answer.
        if any(device.name == name for device in rdma.devices()):
            rdma.del_link(name)


def delete_netdev(name: str) -> None:
    """Delete a net device, if it exists."""
    with IPRoute() as route:
        for index in route.link_lookup(ifname=name):
            with contextlib.suppress(NetlinkError):
                route.link("del", index=index)


def _gid(path: Path) -> str:
    """Read one entry of a GID table; an empty one has zeros, or cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
