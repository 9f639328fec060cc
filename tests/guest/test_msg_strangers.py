# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Connected endpoints whose peer is not kfabric: what its connection request asks for."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from guest_support import Call
from rdm_wire_cm import NO_MTUS, Path, Refused
from verbs_support import Net, Peer

import kfabric_py as kp

if TYPE_CHECKING:
    from rdm_wire_link import Node

InThread = Callable[[Callable[[], object]], Call[object]]

#: Retries that rxe takes for "no limit".
ENDLESS = 7
#: Packets live 17 ms, so that six retries take a second.
SHORT_LIFE = 12


@pytest.mark.parametrize("mtu", NO_MTUS)
def test_request_with_a_path_that_no_packet_can_take_is_rejected(
    net: Net, node: Node, mtu: int
) -> None:
    """X3: RDMA CM passes on what the peer has written, and rxe crashes on an MTU of 0.

    The listener's program does not see the request.
    """
    here = net.link.address
    with pytest.raises(Refused):
        node.connect(here, port=net.name[1], path=Path(node.address, here, mtu))
    assert net.listen_eq.read() is None


def test_peer_that_asks_for_endless_retries_is_given_up(
    net: Net, node: Node, in_thread: InThread
) -> None:
    """V7: its machine is gone, so a message to it fails and the connection ends."""
    peers: list[Peer] = []

    def accept() -> None:
        peers.append(net.peer(net.request()))
        peers[0].ep.accept()

    accepting = in_thread(accept)
    path = Path(node.address, net.link.address, life=SHORT_LIFE)
    wire = node.connect(net.link.address, port=net.name[1], path=path, retries=ENDLESS)
    accepting.result()
    (peer,) = peers
    assert peer.event().event is kp.Event.CONNECTED
    wire.die()
    peer.ep.send(peer.buffer[:8])
    assert peer.error().err == errno.ETIMEDOUT
    assert peer.event().event is kp.Event.SHUTDOWN
