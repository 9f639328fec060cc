# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What one user may have of a device, with connected endpoints."""

from __future__ import annotations

import contextlib
import errno

import pytest
from guest_support import LIMIT
from rdm_support import parameter
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
