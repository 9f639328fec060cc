# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What one user may have of a device, with connected endpoints."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable

import pytest
from guest_support import LIMIT
from rdm_support import RdmNet, parameter
from verbs_support import Net, Peer

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest import topology
from kfabric.guest.waiting import wait_until

#: Places of each queue of an endpoint, and the entries that it counts for, however few it needs.
SIZE, ENTRIES = 4, 256


def small(net: Net) -> Peer:
    """Open an endpoint with small queues, which is not enabled."""
    hints = kp.Info(tx_attr=kp.TxAttr(size=SIZE), rx_attr=kp.RxAttr(size=SIZE))
    return net.peer(net.info_for(net.name[1], hints=hints), enable=False)


def test_user_reserves_little_room_in_queues_of_a_device(device: kp.Device) -> None:
    """X3: EMFILE for each client of the user at the limit; a close makes room.

    A small endpoint counts for more than it reserves, as each may take an address handle of RDMA
    CM when it connects.
    """
    guest_modules.need()
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        net = Net(device, link, stack)
        other = Net(stack.enter_context(kp.Device()), link, stack)
        first, second, third = small(net), small(other), small(other)

        def fits() -> bool:
            try:
                third.ep.enable()
            except kp.KfiError as error:
                assert error.errno == errno.EMFILE
                return False
            return True

        with parameter("max_user_cqes", 3 * ENTRIES - 1):
            first.ep.enable()
            second.ep.enable()
            assert not fits()
            with pytest.raises(kp.KfiError) as caught:
                third.ep.connect()
            assert caught.value.errno == errno.EMFILE
            first.ep.close()
            wait_until(fits, "room for another endpoint", LIMIT)


def test_user_has_few_listeners(device: kp.Device) -> None:
    """X3: each may take a port of all users. EMFILE for each client; a close makes room."""
    guest_modules.need()
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        net = Net(device, link, stack)
        other = Net(stack.enter_context(kp.Device()), link, stack)
        objects = device.version().objects + other.device.version().objects
        with parameter("max_user_listeners", 3, "kfabric_dev"):
            third = net.fabric.passive_ep(net.offer)
            for each in (net, other):
                with pytest.raises(kp.KfiError) as caught:
                    each.fabric.passive_ep(each.offer)
                assert caught.value.errno == errno.EMFILE
            third.close()
            with other.fabric.passive_ep(other.offer):
                pass
        # What was refused counts as no object.
        with parameter("max_user_objects", objects + 1, "kfabric_dev"), net.fabric.eq():
            pass


def nobody(link: topology.RdmaLink, machine: int) -> str:
    """An address of the link's network without a machine."""
    return f"{link.address.rpartition('.')[0]}.{machine}"


def begins(what: Callable[[], object]) -> bool:
    """Begin a connection; False if too many of the user wait for an answer."""
    try:
        what()
    except kp.Again:
        return False
    return True


def test_few_connections_of_a_user_wait_for_an_answer(device: kp.Device) -> None:
    """X3: EAGAIN for each client of the user, and for RDM; a close makes room.

    What is answered waits no more, so any number of connections can be up.
    """
    guest_modules.need()
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        net = Net(device, link, stack)
        other = Net(stack.enter_context(kp.Device()), link, stack)
        rdm = RdmNet(device, link, stack)
        sender = rdm.peer()
        first, second, third = net.peer(), other.peer(), other.peer()

        def third_begins() -> bool:
            return begins(lambda: third.ep.connect((nobody(link, 203), 7)))

        def sends(machine: int) -> bool:
            to = sender.av.insert_one((nobody(link, machine), 7))
            return begins(lambda: sender.ep.send(sender.buffer[:8], to=to))

        with parameter("max_user_cm_requests", 2):
            for _ in range(3):
                net.connect()
            first.ep.connect((nobody(link, 201), 7))
            second.ep.connect((nobody(link, 202), 7))
            assert not third_begins()
            assert not sends(204)
            first.ep.close()
            wait_until(third_begins, "another place", LIMIT)
            second.ep.close()
            wait_until(lambda: sends(204), "a place for RDM", LIMIT)
            assert not sends(205)


def test_connection_is_not_shut_down_while_too_many_wait(device: kp.Device) -> None:
    """X3: EAGAIN, and it stays up; then both sides learn of the end."""
    guest_modules.need()
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        net = Net(device, link, stack)
        a, b = net.connect()
        waiting = net.peer()
        with parameter("max_user_cm_requests", 1):
            waiting.ep.connect((nobody(link, 201), 7))
            assert not begins(a.ep.shutdown)
            assert a.ep.getpeer() == net.name
            waiting.ep.close()
            wait_until(lambda: begins(a.ep.shutdown), "a place", LIMIT)
        assert b.event().event is kp.Event.SHUTDOWN


class Caller:
    """Connects to a listener until it is not refused."""

    def __init__(self, net: Net) -> None:
        """Begin."""
        self.net = net
        self.request: kp.ConnectionRequest | None = None
        self.call()

    def call(self) -> None:
        """Connect another endpoint."""
        self.peer = self.net.peer()
        self.peer.ep.connect()

    def comes(self) -> bool:
        """Has the listener got a request? If it was refused, another one is made."""
        if event := self.net.listen_eq.read():
            self.request = event.request
            return True
        try:
            self.peer.eq.read()
        except kp.ErrorAvailable:
            self.call()
        return False


def test_user_has_few_requests(device: kp.Device) -> None:
    """X3: of all its listeners on a device; further peers are refused. An answer makes room."""
    guest_modules.need()
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        net = Net(device, link, stack)
        other = Net(stack.enter_context(kp.Device()), link, stack)
        with parameter("max_connreqs", 2):
            net.peer().ep.connect()
            first = net.request()
            other.peer().ep.connect()
            second = other.request()
            for each in (net, other):
                refused = each.peer()
                refused.ep.connect()
                assert refused.eq_error().err == errno.ECONNREFUSED
            first.reject()
            wait_until(Caller(net).comes, "a request", LIMIT)
            second.close()


def test_request_counts_although_its_endpoint_is_not_enabled(device: kp.Device) -> None:
    """X3: it has no queue for its completions, so it cannot be."""
    guest_modules.need()
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        net = Net(device, link, stack)
        with parameter("max_connreqs", 1):
            net.peer().ep.connect()
            domain = stack.enter_context(net.fabric.domain(net.info))
            eq = stack.enter_context(net.fabric.eq())
            taken = stack.enter_context(domain.endpoint(net.request()))
            taken.bind(eq)
            with pytest.raises(kp.KfiError) as error:
                taken.enable()
            assert error.value.errno == kp.KfabricErrno.KFI_ENOCQ
            refused = net.peer()
            refused.ep.connect()
            assert refused.eq_error().err == errno.ECONNREFUSED


def test_request_counts_until_it_is_accepted(device: kp.Device) -> None:
    """X3: also with an endpoint that has taken it over; its close rejects it, and makes room."""
    guest_modules.need()
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        net = Net(device, link, stack)
        with parameter("max_connreqs", 1):
            a = net.peer()
            a.ep.connect()
            taken = net.peer(net.request(), enable=False)
            refused = net.peer()
            refused.ep.connect()
            assert refused.eq_error().err == errno.ECONNREFUSED
            taken.ep.close()
            assert a.eq_error().err == errno.ECONNREFUSED
            caller = Caller(net)
            wait_until(caller.comes, "a request", LIMIT)
            b = net.peer(caller.request)
            b.ep.accept()
            assert b.event().event is kp.Event.CONNECTED
            wait_until(Caller(net).comes, "another request", LIMIT)
