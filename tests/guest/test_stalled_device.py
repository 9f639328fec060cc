# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A device that is late: no close gives memory back that the device can still write."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from guest_support import LIMIT, Call, Child, Mock, become, open_to_all
from rdm_support import RdmNet, parameter
from rdm_wire_cm import Channel, Event, Kind
from verbs_support import REMOTE, Net, counts, wait_for_counts

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest import topology
from kfabric.guest.kmsg import KernelLog
from kfabric.guest.waiting import wait_until

#: More work items than a queue runs at a time (KFV_WORK_MAX is 256).
QUEUE_ITEMS = 260
InThread = Callable[[Callable[[], object]], Call[object]]
InChild = Callable[..., Child]


@pytest.fixture
def late(device: kp.Device) -> Iterator[Net]:
    """A listener on a link of its own, whose queue pairs can be counted. Depends on: device."""
    guest_modules.need()
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        yield Net(device, link, stack)


@pytest.mark.skipif(
    Path("/sys/kernel/debug/kmemleak").exists(),
    reason="the connection is leaked on purpose, since a late completion would use its memory",
)
def test_closed_endpoint_has_no_queue_pair_on_a_late_device(late: Net, mock: Mock) -> None:
    """O4: hook D9: the time for its operations has passed, the work item has not run yet."""
    _, b = late.connect()
    before = counts(late.link)["qp"]
    mock.command("fault", "stall", b.ep.trace_id)
    hook = mock.hook("D9", b.domain)
    b.ep.close()
    hook.stopped()
    assert counts(late.link)["qp"] == before - 1
    hook.go()


def test_region_is_closed_when_a_late_device_has_left_it(
    late: Net, mock: Mock, in_thread: InThread
) -> None:
    """O4: hook D9: the kernel log shows that the close still waits, after its first limit."""
    b = late.peer()
    region = late.region(b, b.buffer)
    hook = mock.hook("D9", b.domain)
    with KernelLog() as log:
        call = in_thread(region.close)
        hook.stopped()
        wait_until(
            lambda: any("still holds a memory region" in record.text for record in log.new()),
            "the message about the late device",
            LIMIT / 2,
        )
    assert not call.done
    hook.go()
    call.result()


@pytest.mark.parametrize("how", ["close", "exit", "exit of another user"])
def test_process_that_was_sent_a_client_is_not_held_up(
    late: Net, mock: Mock, in_child: InChild, how: str
) -> None:
    """O4, O6: hook D9: the last reference is dropped, and the device keeps the opener's region.

    The other process does not wait for the device. The objects are closed nevertheless,
    and until then the module is in use.
    """
    references, before = guest_modules.references("kfabric_dev"), counts(late.link)
    here, there = socket.socketpair()

    def stranger(report: Callable[[str], None]) -> int:
        fd = socket.recv_fds(there, 16, 1)[1][0]
        if how == "close":
            os.close(fd)
        elif how != "exit":
            become()
        return 0

    with kp.Device() as device, here, there:
        fabric = device.fabric(late.info)
        domain = fabric.domain(late.info)
        buffer = device.buffer(4096)
        region = domain.mr(buffer, access=REMOTE)
        hook = mock.hook("D9", domain)
        socket.send_fds(here, [b"fd"], [device.fileno()])
        buffer._view.release()
        buffer._map.close()
        os.close(device.fileno())
        for obj in (region, buffer, domain, fabric, device):
            obj._closed = True
        assert in_child(stranger).wait() == 0
    hook.stopped()
    assert guest_modules.references("kfabric_dev") == references + 1
    hook.go()
    wait_for_counts(late.link, before)
    guest_modules.wait_for_references("kfabric_dev", references, LIMIT)


def crowd(net: Net, number: int) -> list[kp.Endpoint]:
    """Endpoints that connect to the listener, with an id each; nobody answers."""
    one = net.peer()
    # Of the usual size, so many queue pairs need 450 MiB.
    small = replace(
        net.info,
        tx_attr=replace(net.info.tx_attr, size=1),
        rx_attr=replace(net.info.rx_attr, size=1),
    )
    eps = [one.domain.endpoint(small) for _ in range(number)]
    with parameter("max_user_cm_requests", number):
        for ep in eps:
            ep.bind(one.cq, recv=True, transmit=True)
            ep.bind(one.eq)
            ep.connect()
    return eps


def test_device_that_keeps_connections_holds_up_no_other(
    late: Net, net: Net, mock: Mock, in_thread: InThread
) -> None:
    """O1, O4: hook D12: one id does not go, and more wait for it than a queue runs items."""
    other = net.peer()
    region = net.region(other, other.buffer)
    eps = crowd(late, QUEUE_ITEMS)
    hook = mock.hook("D12", None)
    for ep in eps:
        ep.close()
    hook.stopped()
    in_thread(region.close).result()
    assert mock.state()["hook D12"]["stopped"] == "1"
    hook.go()


def test_ids_that_wait_for_their_turn_hold_up_no_queue_pair(late: Net, mock: Mock) -> None:
    """O4, X3: hook D12: all queue pairs go, and so what was posted there, while one id stays."""
    without = counts(late.link)["qp"]
    eps = crowd(late, QUEUE_ITEMS)
    hook = mock.hook("D12", None)
    for ep in eps:
        ep.close()
    hook.stopped()
    # The one without an id of its own is open.
    wait_until(lambda: counts(late.link)["qp"] == without + 1, "the queue pairs gone", LIMIT)
    assert mock.state()["hook D12"]["stopped"] == "1"
    hook.go()


def test_user_waits_for_one_id_of_another(late: Net, mock: Mock, in_child: InChild) -> None:
    """X3: hook D12: 40 ids of a user wait before that of another one, which is not the last."""

    def stranger(report: Callable[[str], None]) -> int:
        become()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        with kp.Device() as device, contextlib.ExitStack() as stack:
            peer = Net(device, late.link, stack).peer(late.info)
            peer.ep.connect()
            assert peer.event().event is kp.Event.CONNECTED
            report("up")
            signal.sigwait({signal.SIGUSR1})
            peer.ep.close()
            report("closed")
            signal.pause()
        return 0

    with open_to_all():
        child = in_child(stranger)
        ends = late._stack.enter_context(late.fabric.eq())
        accepted = [accept(late, ends)]
        assert child.report() == "up"
        callers = [late.peer() for _ in range(40)]
        for caller in callers:
            caller.ep.connect()
            accepted.append(accept(late, ends))
            assert caller.event().event is kp.Event.CONNECTED
        before = counts(late.link)["qp"]
        hook = mock.hook("D12", None)
        for caller in callers:
            caller.ep.close()
        hook.stopped()
        child.kill(signal.SIGUSR1)
        assert child.report() == "closed"
        wait_until(lambda: counts(late.link)["qp"] == before - 41, "all wait", LIMIT)
        hook.go()
        order = [shut_down(ends) for _ in accepted]
        assert order.index(accepted[0]) < 20  # of 41


def accept(net: Net, ends: kp.EventQueue) -> kp.Endpoint:
    """Accept a connection whose events go to this queue."""
    peer = net.peer(net.request(), enable=False, eq=ends)
    peer.ep.accept()
    event = ends.sread(timeout=LIMIT)
    assert event is not None and event.event is kp.Event.CONNECTED
    return peer.ep


def shut_down(ends: kp.EventQueue) -> object:
    """Wait for the next end of a connection; the endpoint."""
    event = ends.sread(timeout=LIMIT)
    assert event is not None and event.event is kp.Event.SHUTDOWN
    return event.fid


def test_rdm_connection_has_no_queue_pair_when_its_operations_end(
    late: Net, device: kp.Device, mock: Mock
) -> None:
    """O4: hook D9: one end of the connection has not reported its operations yet."""
    with contextlib.ExitStack() as stack:
        without = counts(late.link)["qp"]
        a, b = RdmNet(device, late.link, stack).connect()
        b.ep.trecv(b.buffer[:8], 1)
        a.ep.tsend(a.buffer[:8], 1)
        a.entry()
        b.entry()
        assert counts(late.link)["qp"] == without + 2
        hook = mock.hook("D9", None)
        a.ep.close()
        b.ep.close()
        hook.stopped()
        wait_until(lambda: counts(late.link)["qp"] == without, "no queue pair", LIMIT)
        assert mock.state()["hook D9"]["stopped"] == "1"
        hook.go()


def test_killed_reader_of_a_request_is_not_held_up(
    late: Net, mock: Mock, in_child: InChild
) -> None:
    """O4: hook D12: the id of the request does not go; its peer is rejected nevertheless."""
    listening = late.device.getinfo(provider="verbs", source=(late.link.address, 0))[0]

    def read_a_request(report: Callable[[str], None]) -> int:
        with kp.Device() as device, device.fabric(listening) as fabric:
            eq, listener = fabric.eq(), fabric.passive_ep(listening)
            listener.bind(eq)
            listener.listen()
            name = listener.getname()
            assert isinstance(name, tuple)
            report(str(name[1]))
            event = eq.sread(timeout=LIMIT)
            assert event is not None and event.request is not None
            report("read")
            signal.pause()
        return 0

    child = in_child(read_a_request)
    peer = late.peer(late.info_for(int(child.report())))
    peer.ep.connect()
    assert child.report() == "read"
    hook = mock.hook("D12", None)
    child.kill(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    hook.stopped()
    assert peer.eq_error().err == errno.ECONNREFUSED
    assert mock.state()["hook D12"]["stopped"] == "1"
    hook.go()


def knock(channel: Channel, net: Net) -> None:
    """Send a listener a request whose sender is no endpoint of kfabric."""

    def happened(kind: Kind) -> None:
        event: Event | None = None

        def came() -> bool:
            nonlocal event
            event = channel.next()
            return event is not None

        wait_until(came, kind.name, LIMIT)
        assert event is not None and event.kind is kind

    id = channel.create()
    channel.resolve_addr(id, net.link.address, *net.name)
    happened(Kind.ADDR_RESOLVED)
    channel.resolve_route(id)
    happened(Kind.ROUTE_RESOLVED)
    channel.connect(id, 1, b"", 1)


def test_removal_that_waits_for_a_request_holds_up_no_close(
    late: Net, mock: Mock, in_thread: InThread
) -> None:
    """O5: hook D12: the removal destroys the id of a request, which does not go."""
    with contextlib.closing(Channel()) as channel, late.fabric.domain(late.info) as domain:
        knock(channel, late)
        request = late.request()
        hook = mock.hook("D12", None)
        removal = in_thread(lambda: topology.delete_link(late.link.name))
        hook.stopped()
        in_thread(domain.close).result()
        assert mock.state()["hook D12"]["stopped"] == "1"
        hook.go()
        removal.result()
        request.close()
