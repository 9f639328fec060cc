# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A network to test on: a dummy net device with an address, and an RDMA link on it.

Traffic between two endpoints on one such device never leaves the RDMA driver,
so a dummy device is all that it takes.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from harness.guest.modules import need
from harness.guest.rdma_nl import PortState, RdmaNetlink, RdmaNetlinkError
from harness.guest.waiting import Deadline, wait_until

# RFC 2544's range for test networks: one /24 for each net device.
NETWORKS = tuple(ipaddress.IPv4Network("198.18.0.0/15").subnets(new_prefix=24))
SYS_NET = Path("/sys/class/net")
SYS_INFINIBAND = Path("/sys/class/infiniband")
_numbers = itertools.count(1)
# Empty entries behind which no further GID is looked for.
_EMPTY_GIDS = 16


def unique_name(prefix: str) -> str:
    """Return a device name that no other process or earlier call in this guest has had.

    Net device names hold at most 15 characters: `prefix` should have at most 4.
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
    kind: str

    @property
    def address(self) -> str:
        """The IPv4 address at which the connection manager finds this link."""
        return self.netdev.address


@contextlib.contextmanager
def dummy_netdev(name: str | None = None, address: str | None = None) -> Iterator[Netdev]:
    """Have a dummy net device that is up and has an IPv4 address, for the block's duration.

    Without `name` a unique one is made up; without `address` the device gets the
    first host of a /24 network that belongs to its interface index alone.
    """
    # Loaded on demand, it would bring a dummy0 that nobody asked for.
    need(["dummy"], ["numdummies=0"])
    name = name or unique_name("kfn")
    with IPRoute() as route, contextlib.ExitStack() as cleanup:
        # Before the creation, so that nothing can come in between and leave it behind.
        cleanup.callback(delete_netdev, name)
        route.link("add", ifname=name, kind="dummy")
        (index,) = route.link_lookup(ifname=name)
        address = address or _address_of(index)
        route.addr("add", index=index, address=address, prefixlen=24)
        route.link("set", index=index, state="up")
        yield Netdev(name=name, index=index, address=address)


@contextlib.contextmanager
def wire_netdev(address: str) -> Iterator[Netdev]:
    """Have the guest's Ethernet up and with an IPv4 address, for the block's duration.

    Raises LookupError if the guest has no such device (see harness/runner/nodes.py).
    """
    need(["virtio_net"])
    with IPRoute() as route:
        found = [path.name for path in SYS_NET.iterdir() if (path / "device").exists()]
        if len(found) != 1:
            raise LookupError(f"one Ethernet device is wanted, there are {found}")
        (name,) = found
        (index,) = route.link_lookup(ifname=name)
        route.addr("add", index=index, address=address, prefixlen=24)
        route.link("set", index=index, state="up")
        yield Netdev(name=name, index=index, address=address)
        route.link("set", index=index, state="down")
        route.addr("del", index=index, address=address, prefixlen=24)


@contextlib.contextmanager
def rdma_link(
    netdev: Netdev,
    name: str | None = None,
    kind: str = "rxe",
    deadline: Deadline | float = 20.0,
) -> Iterator[RdmaLink]:
    """Have an RDMA link on a net device, for the block's duration.

    Entered when the port is active and the address is in its GID table, so that
    the connection manager can use it; DeadlineExpired if that takes longer than
    `deadline` (a Deadline, or seconds). Leaving tolerates a link that the block
    itself has deleted.
    """
    name = name or unique_name("kfr")
    with RdmaNetlink() as rdma, contextlib.ExitStack() as cleanup:
        cleanup.callback(delete_link, name)
        rdma.add_link(name, netdev.name, kind)
        link = RdmaLink(name=name, netdev=netdev, kind=kind)
        wait_until_active(link, deadline)
        yield link


@contextlib.contextmanager
def rxe_on_dummy(deadline: Deadline | float = 20.0) -> Iterator[RdmaLink]:
    """Have an rxe link on a dummy net device of its own: what most tests want."""
    with dummy_netdev() as netdev, rdma_link(netdev, deadline=deadline) as link:
        yield link


def wait_until_active(link: RdmaLink, deadline: Deadline | float = 20.0) -> None:
    """Wait until the link's port is active and has its address in the GID table."""
    limit = Deadline.of(deadline)
    with RdmaNetlink() as rdma:
        wait_until(
            lambda: rdma.port(link.name).state is PortState.ACTIVE,
            f"port of {link.name} active",
            limit,
            seen=lambda: rdma.port(link.name).state.name,
        )
    # The kernel fills the table from a work item, some time after the address came.
    wait_until(
        lambda: link.address in gid_addresses(link.name),
        f"{link.address} in the GID table of {link.name}",
        limit,
        seen=lambda: sorted(gid_addresses(link.name)),
    )


def gid_addresses(name: str, port: int = 1) -> set[str]:
    """Return the IPv4 addresses in a port's GID table.

    The kernel fills the table from the bottom, and reading all of it takes
    seconds (rxe's has 1024 entries): a stretch of empty ones is taken for its end.
    """
    table = SYS_INFINIBAND / name / "ports" / str(port) / "gids"
    found: set[str] = set()
    number = empty = 0
    while empty < _EMPTY_GIDS:
        gid = ipaddress.IPv6Address(_gid(table / str(number)) or "::")
        empty = empty + 1 if gid.is_unspecified else 0
        if gid.ipv4_mapped:
            found.add(str(gid.ipv4_mapped))
        number += 1
    return found


def delete_link(name: str) -> None:
    """Delete an RDMA link; one that is already gone is as good."""
    with RdmaNetlink() as rdma:
        if any(device.name == name for device in rdma.devices()):
            with contextlib.suppress(RdmaNetlinkError):
                rdma.del_link(name)
            _check_gone(rdma, name)


def _check_gone(rdma: RdmaNetlink, name: str) -> None:
    """Raise the reason why a link is still there.

    Two may delete at the same time: whose request comes second fails although
    all is well, therefore the list of devices decides and not the answer.
    """
    if any(device.name == name for device in rdma.devices()):
        rdma.del_link(name)


def delete_netdev(name: str) -> None:
    """Delete a net device; one that is already gone is as good."""
    with IPRoute() as route:
        for index in route.link_lookup(ifname=name):
            with contextlib.suppress(NetlinkError):
                route.link("del", index=index)


def _address_of(index: int) -> str:
    return str(NETWORKS[index % len(NETWORKS)].network_address + 1)


def _gid(path: Path) -> str:
    """Read one entry of a GID table: zeros, or nothing at all, if it is empty."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
