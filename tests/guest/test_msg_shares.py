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

#: Places of each queue of an endpoint, and the entries that it reserves for them.
SIZE, ENTRIES = 4, 12


def small(net: Net) -> Peer:
    """Open an endpoint with small queues, which is not enabled."""
    hints = kp.Info(tx_attr=kp.TxAttr(size=SIZE), rx_attr=kp.RxAttr(size=SIZE))
    return net.peer(net.info_for(net.name[1], hints=hints), enable=False)


def test_user_reserves_little_room_in_queues_of_a_device(device: kp.Device) -> None:
    """X3: EMFILE for each client of the user at the limit; a close makes room."""
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

        with parameter("max_user_cqes", 2 * ENTRIES):
            first.ep.enable()
            second.ep.enable()
            assert not fits()
            with pytest.raises(kp.KfiError) as caught:
                third.ep.connect()
            assert caught.value.errno == errno.EMFILE
            first.ep.close()
            wait_until(fits, "room for another endpoint", LIMIT)
