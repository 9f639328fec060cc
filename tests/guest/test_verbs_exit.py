# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Processes that end in the middle of real traffic, and links that go down."""

from __future__ import annotations

import contextlib
import errno
import signal
from collections.abc import Callable

import pytest
from guest_support import Child
from pyroute2 import IPRoute
from rdm_support import Links, RdmNet
from verbs_support import Net, counts, wait_for_counts

import kfabric_py as kp
from kfabric.guest import topology

InChild = Callable[..., Child]
Report = Callable[[str], None]


def test_process_killed_in_the_middle_of_transfers_gives_the_device_back(
    links: Links, in_child: InChild
) -> None:
    """O4: megabytes under way in both directions, SIGKILL: nothing of it stays."""

    def work(report: Report) -> int:
        with kp.Device() as device, contextlib.ExitStack() as stack:
            inner = type(links)(device, links.link, stack)
            a, b = inner.connect()
            buffer = inner.buffer(512 * 4096)
            local, remote = inner.region(a, buffer), inner.region(b, buffer)
            report("connected")
            while True:
                with contextlib.suppress(kp.Again):
                    a.ep.write(local, remote.remote())
                    b.ep.recv(b.buffer[:8])
                    a.ep.send(a.buffer[:8])
                a.cq.read()
                b.cq.read()

    before = counts(links.link)
    for _ in range(5):
        child = in_child(work)
        assert child.report() == "connected"
        child.kill(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    wait_for_counts(links.link, before)


def test_peer_of_a_killed_process_hears_of_it(net: Net, in_child: InChild) -> None:
    """The exit disconnects: SHUTDOWN, and posted receives come back."""

    def work(report: Report) -> int:
        with kp.Device() as device, contextlib.ExitStack() as stack:
            inner = Net(device, net.link, stack)
            peer = inner.peer(inner.info_for(net.name[1]))
            peer.ep.connect()
            assert peer.event().event is kp.Event.CONNECTED
            report("connected")
            signal.pause()
            return 0

    child = in_child(work)
    peer = net.peer(net.request())
    peer.ep.recv(peer.buffer[:8], context="flushed")
    peer.ep.accept()
    assert peer.event().event is kp.Event.CONNECTED
    assert child.report() == "connected"
    child.kill(signal.SIGKILL)
    assert peer.event().event is kp.Event.SHUTDOWN
    error = peer.error()
    assert (error.context, error.err) == ("flushed", errno.ECANCELED)


def test_link_that_goes_down_is_not_lost(device: kp.Device) -> None:
    """O5: "down" is not loss; when it is up again messages arrive."""
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        net = Net(device, link, stack)
        a, b = net.connect()
        with IPRoute() as route:
            route.link("set", index=link.netdev.index, state="down")
            assert a.cq.read(1) == [] and a.eq.read() is None
            route.link("set", index=link.netdev.index, state="up")
        topology.wait_until_active(link)
        b.ep.recv(b.buffer[:8])
        a.ep.send(a.buffer[:8])
        assert b.entry().len == 8


def test_peer_without_connection_hears_of_a_killed_process(rdm: RdmNet, in_child: InChild) -> None:
    """O4: a send to it fails with EHOSTUNREACH, and a new one in its place is reached."""

    def work(report: Report) -> int:
        with kp.Device() as device, contextlib.ExitStack() as stack:
            peer = RdmNet(device, rdm.link, stack).peer()
            address = peer.ep.getname()
            assert isinstance(address, tuple)
            report(f"{address[0]} {address[1]}")
            signal.pause()
            return 0

    child = in_child(work)
    host, port = child.report().split()
    a = rdm.peer()
    a.ep.peer = a.av.insert_one((host, int(port)))
    child.kill(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    a.ep.send(a.buffer[:8], context="late")
    error = a.error()
    assert (error.context, error.err) == ("late", errno.EHOSTUNREACH)
    b = rdm.peer()
    a.meet(b)
    b.ep.recv(b.buffer[:8])
    a.ep.send(a.buffer[:8])
    assert b.entry().len == 8


@pytest.mark.parametrize("step", ["connecting", "requested", "connected"])
def test_endpoint_closes_in_every_state(net: Net, step: str) -> None:
    """O1: closing waits for no peer, and leaves nothing of it with the device."""
    before = counts(net.link)
    with contextlib.ExitStack() as stack:
        inner = Net(net.device, net.link, stack)
        a = inner.peer()
        a.ep.recv(a.buffer[:8])
        a.ep.connect()
        if step != "connecting":
            b = inner.peer(inner.request())
            if step == "connected":
                b.ep.accept()
                assert a.event().event is kp.Event.CONNECTED
            b.ep.close()
        a.ep.close()
    wait_for_counts(net.link, before)
