# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""O5: a device that is removed under open objects.

Each test deletes the link from a thread of its own, since the removal returns
only when the module has let go of the device.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator

import pytest
from guest_support import LIMIT, Call, Mock
from rdm_support import Links, RdmNet
from verbs_support import REMOTE, Net

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest import topology
from kfabric.guest.waiting import wait_until

pytestmark = pytest.mark.core

InThread = Callable[[Callable[[], object]], Call[object]]


@pytest.fixture
def doomed(device: kp.Device) -> Iterator[Net]:
    """A listener on a link that the test deletes. Depends on: device."""
    guest_modules.need()
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        yield Net(device, link, stack)


@pytest.fixture(params=["msg", "rdm"])
def doomed_links(request: pytest.FixtureRequest, device: kp.Device) -> Iterator[Links]:
    """Like doomed with endpoints of either type: a test runs once with each."""
    guest_modules.need()
    kind = Net if request.param == "msg" else RdmNet
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        yield kind(device, link, stack)


def delete(net: Links, in_thread: InThread) -> Call[object]:
    """Delete the link and wait until it is gone."""
    call = in_thread(lambda: topology.delete_link(net.link.name))
    call.result()
    return call


def test_every_queue_gets_a_last_error(doomed: Net, in_thread: InThread) -> None:
    """O5: an ENODEV entry in each CQ, in each endpoint's EQ and in the listener's."""
    a, b = doomed.connect()
    delete(doomed, in_thread)
    for peer in (a, b):
        assert peer.error().err == errno.ENODEV
        found = peer.eq_error()
        assert (found.fid, found.err) == (peer.ep, errno.ENODEV)
    with pytest.raises(kp.ErrorAvailable):
        doomed.listen_eq.read()
    error = doomed.listen_eq.readerr()
    assert error is not None and (error.fid, error.err) == (doomed.listener, errno.ENODEV)


def test_full_queue_takes_the_loss(doomed: Net, in_thread: InThread) -> None:
    """O5, Q10: the listener's, beside unread requests and the user's events."""
    with doomed.fabric.eq(2) as eq, doomed.fabric.passive_ep(doomed.offer) as listener:
        listener.bind(eq)
        listener.listen()
        name = listener.getname()
        assert isinstance(name, tuple)
        peers = [doomed.peer(doomed.info_for(name[1])) for _ in range(3)]
        for peer in peers:
            peer.ep.connect()
        wait_until(lambda: any(peer.eq.readerr() for peer in peers), "a rejected request", LIMIT)
        for _ in range(2):
            eq.write()
        delete(doomed, in_thread)
        unread = [eq.read() for _ in range(4)]
        requests = [event.request for event in unread if event and event.request]
        assert len(requests) == 2
        with pytest.raises(kp.ErrorAvailable):
            eq.read()
        error = eq.readerr()
        assert error is not None and (error.fid, error.err) == (listener, errno.ENODEV)
        for request in requests:
            request.close()


def test_posted_operations_end_with_the_device(doomed_links: Links, in_thread: InThread) -> None:
    """O5: the entry that says ENODEV is the last; what was posted has none of its own."""
    a, _ = doomed_links.connect()
    for _ in range(20):
        a.ep.recv(a.buffer[:8])
    delete(doomed_links, in_thread)
    assert a.error().err == errno.ENODEV
    assert a.cq.read(4) == []


def test_sleepers_wake(doomed: Net, in_thread: InThread) -> None:
    """O5, V7: threads asleep in reads and in a counter's wait return."""
    a, b = doomed.connect()
    reader = in_thread(a.error).asleep()
    listener = in_thread(b.eq_error).asleep()
    counter = in_thread(lambda: a.cntr.wait(10, timeout=LIMIT)).asleep()
    delete(doomed, in_thread)
    error = reader.result()
    assert isinstance(error, kp.CqError) and error.err == errno.ENODEV
    event = listener.result()
    assert isinstance(event, kp.EqError) and event.err == errno.ENODEV
    with pytest.raises(kp.ErrorAvailable):
        counter.result()


def test_sleepers_of_either_type_wake(doomed_links: Links, in_thread: InThread) -> None:
    """O5, V7: the read of a queue and the wait of a counter return, for either type."""
    a, b = doomed_links.connect()
    reader = in_thread(a.error).asleep()
    counter = in_thread(lambda: b.cntr.wait(10, timeout=LIMIT)).asleep()
    delete(doomed_links, in_thread)
    error = reader.result()
    assert isinstance(error, kp.CqError) and error.err == errno.ENODEV
    with pytest.raises(kp.ErrorAvailable):
        counter.result()


def test_posts_of_either_type_say_that_it_is_gone(doomed_links: Links, in_thread: InThread) -> None:
    """O5: ENODEV from its posts, of either type, and from what would open more."""
    a, _ = doomed_links.connect()
    a.ep.recv(a.buffer[:8], context="mine")
    delete(doomed_links, in_thread)
    calls: list[Callable[[], object]] = [
        lambda: a.ep.send(a.buffer[:8]),
        lambda: a.ep.recv(a.buffer[:8]),
        lambda: a.domain.mr(a.buffer, REMOTE),
        lambda: doomed_links.fabric.domain(doomed_links.info),
    ]
    if isinstance(a.ep, kp.RdmEndpoint):
        # One that is said to be cancelled has an entry, and nobody writes one any more.
        calls.append(lambda: a.ep.cancel("mine"))
    for number, call in enumerate(calls):
        with pytest.raises(kp.DeviceLost):
            call()
            pytest.fail(f"call {number} succeeded")


def test_later_calls_say_that_it_is_gone(doomed: Net, in_thread: InThread) -> None:
    """O5: ENODEV from everything that would need the device."""
    a, _ = doomed.connect()
    idle = doomed.peer(enable=False)
    request_peer = doomed.peer()
    request_peer.ep.connect()
    request = doomed.request()
    delete(doomed, in_thread)
    calls: list[Callable[[], object]] = [
        lambda: a.ep.send(a.buffer[:8]),
        lambda: a.ep.recv(a.buffer[:8]),
        a.ep.shutdown,
        a.ep.getname,
        a.ep.getpeer,
        lambda: a.domain.mr(a.buffer, REMOTE),
        lambda: a.domain.endpoint(doomed.info),
        idle.ep.enable,
        idle.ep.connect,
        lambda: idle.domain.endpoint(request),
        request.reject,
        doomed.listener.listen,
        doomed.listener.getname,
        lambda: doomed.fabric.domain(doomed.info),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(kp.DeviceLost):
            call()
            pytest.fail(f"call {number} succeeded")


def test_regions_go_with_the_device(doomed_links: Links, in_thread: InThread) -> None:
    """O5: closing what is left always works, and the memory is free."""
    a, b = doomed_links.connect()
    regions = [doomed_links.region(peer, peer.buffer) for peer in (a, b) for _ in range(4)]
    delete(doomed_links, in_thread)
    for region in regions:
        region.close()
    for peer in (a, b):
        peer.ep.close()
        peer.buffer.close()


def test_unread_request_goes_with_the_device(doomed: Net, in_thread: InThread) -> None:
    """O5: it can still be read, and closed."""
    a = doomed.peer()
    a.ep.connect()
    wait_until(lambda: doomed.listen_eq.read(peek=True) is not None, "an unread request", LIMIT)
    delete(doomed, in_thread)
    doomed.request().close()


def test_other_device_goes_on(doomed: Net, net: Net, in_thread: InThread) -> None:
    """O5: only the objects of the lost device are lost."""
    a, b = net.connect()
    lost, _ = doomed.connect()
    delete(doomed, in_thread)
    assert lost.error().err == errno.ENODEV
    b.ep.recv(b.buffer[:8])
    a.ep.send(a.buffer[:8])
    assert b.entry().len == 8


def test_listener_on_all_devices_goes_on(doomed: Net, net: Net, in_thread: InThread) -> None:
    """O5: a listener without an address is no device's."""
    info = net.device.getinfo(provider="verbs", source=("0.0.0.0", 0))[0]
    with net.fabric.eq() as eq, net.fabric.passive_ep(info) as listener:
        listener.bind(eq)
        listener.listen()
        name = listener.getname()
        assert isinstance(name, tuple)
        delete(doomed, in_thread)
        a = net.peer(net.info_for(name[1]))
        a.ep.connect()
        event = eq.sread(timeout=LIMIT)
        assert event is not None and event.request is not None
        event.request.close()
        assert a.eq_error().err == errno.ECONNREFUSED


def test_lost_listener_takes_no_new_queue(doomed: Net, in_thread: InThread) -> None:
    """O5: no event would ever come to it, neither a request nor the loss."""
    doomed.listen_eq.close()
    delete(doomed, in_thread)
    with doomed.fabric.eq() as eq, pytest.raises(kp.DeviceLost):
        doomed.listener.bind(eq)


def test_netdev_that_goes_takes_the_device_along(device: kp.Device, in_thread: InThread) -> None:
    """O5: unregistering the net device below is a loss like any other."""
    guest_modules.need()
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        a, _ = Net(device, link, stack).connect()
        reader = in_thread(a.error).asleep()
        topology.delete_netdev(link.netdev.name)
        error = reader.result()
        assert isinstance(error, kp.CqError) and error.err == errno.ENODEV


def test_link_that_is_deleted_in_the_middle_of_traffic(
    doomed_links: Links, in_thread: InThread
) -> None:
    """O5: posting and removing exclude each other: success, then ENODEV, and no splat."""
    a, b = doomed_links.connect()
    sent = 0

    def keep_sending() -> int:
        nonlocal sent
        while True:
            try:
                b.ep.recv(b.buffer[:64])
                a.ep.send(a.buffer[:64])
                sent += 1
                b.cq.read(16)
                a.cq.read(16)
            except kp.Again:
                continue
            except (kp.DeviceLost, kp.ErrorAvailable) as error:
                return error.errno

    call = in_thread(keep_sending)
    wait_until(lambda: sent > 100, "traffic", LIMIT)
    delete(doomed_links, in_thread)
    call.result()
    with pytest.raises(kp.DeviceLost):
        a.ep.send(a.buffer[:64])


@pytest.mark.parametrize("turn", range(5))
def test_link_that_is_deleted_while_endpoints_connect(
    doomed: Net, in_thread: InThread, turn: int
) -> None:
    """O5: at any point of connecting; the removal returns, and closing works."""
    connected = 0

    def keep_connecting() -> int | None:
        nonlocal connected
        while True:
            try:
                with contextlib.ExitStack() as inner:
                    Net(doomed.device, doomed.link, inner).connect()
                connected += 1
            except kp.KfiError as error:
                return error.errno

    call = in_thread(keep_connecting)
    wait_until(lambda: connected > turn, "connections", LIMIT)
    delete(doomed, in_thread)
    call.result()


def test_slow_removal_holds_up_no_other_device(
    doomed: Net, net: Net, mock: Mock, in_thread: InThread
) -> None:
    """O5: hook D10: beside it another device is found, opened, connected and closed."""
    a, _ = doomed.connect()
    hook = mock.hook("D10", a.domain)
    removal = in_thread(lambda: topology.delete_link(doomed.link.name))
    hook.stopped()

    def use() -> None:
        with contextlib.ExitStack() as stack:
            near, far = Net(net.device, net.link, stack).connect()
            far.ep.recv(far.buffer[:8])
            near.ep.send(near.buffer[:8])
            far.entry()

    in_thread(use).result()
    assert mock.state()["hook D10"]["stopped"] == "1"
    hook.go()
    removal.result()
