# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A node that breaks docs/rdm-wire.md in every way, from a seed, next to an honest connection.

The seed is in the test's name; a failure shows the last messages, each with SEED.NUMBER.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from rdm_support import RdmNet
from rdm_wire_attack import Attacker, HonestPair, Victims
from rdm_wire_format import Status
from rdm_wire_peer import Peer

import kfabric_py as kp
from kfabric.guest import topology

if TYPE_CHECKING:
    from rdm_wire_link import Node

#: Those that take hours send 10^6 messages together.
RUNS = [
    pytest.param(1, 2000, id="1"),
    *(pytest.param(n, 5000, id=str(n), marks=pytest.mark.hours) for n in range(2, 202)),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "messages"), RUNS)
def test_hostile_peer_harms_its_own_connections_only(
    rdm: RdmNet,
    device: kp.Device,
    verbs: topology.RdmaLink,
    node: Node,
    seed: int,
    messages: int,
    record_property: Callable[[str, object], None],
) -> None:
    """Every kind of message in every state, with every field at its bounds.

    Meanwhile an honest pair on the same node loses nothing. No byte outside of the attacked
    regions and receives changes, everything closes, and afterwards the hostile address can
    exchange messages as any other.
    """
    pair = HonestPair(rdm)
    victims = Victims(device, verbs, node.address)
    attacker = Attacker(node, verbs.address, victims, seed)
    pair.start()
    try:
        attacker.run(messages)
    finally:
        rounds = pair.stop()
        print(f"seed {seed}: {dict(attacker.done)}, {dict(victims.seen)}, {rounds} rounds")
        attacker.close()
        victims.close()
    for name, count in attacker.done.items():
        record_property(f"hostile-{name}", count)
    assert rounds and attacker.done["connections"] > 1
    afterwards_honest(rdm, node)
    pair.play_once()


def afterwards_honest(rdm: RdmNet, node: Node) -> None:
    """A new connection of the same address carries a message."""
    a = rdm.peer()
    name = a.ep.getname()
    assert isinstance(name, tuple)
    a.buffer.view[:16] = b"\xcc" * 16
    a.ep.recv(a.buffer[:16], context="r")
    peer = Peer(node.connect(rdm.link.address))
    assert peer.finish(peer.send(name[1], b"honest")) is Status.OK
    assert (a.entry().len, bytes(a.buffer.view[:7])) == (6, b"honest\xcc")
