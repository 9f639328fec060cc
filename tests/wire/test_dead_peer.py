# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A guest that dies, and a cable that is pulled, while the other's threads sleep.

Nobody says goodbye. A side with something on the wire learns it when the retries of
its connection are used up (about 17 s); one without learns it if it asks.
"""

from __future__ import annotations

import pytest

from tests.wire.wire_support import Pair

#: Longer than a connection's retries, however busy the machine is.
LONG = 90.0
#: Bytes of a message that stays with its sender until there is a receive.
LARGE = 8192

msg = pytest.mark.parametrize("pair", ["msg"], indirect=True)
rdm = pytest.mark.parametrize("pair", ["rdm"], indirect=True)


@pytest.mark.parametrize("how", ["killed", "unplugged"])
def test_lost_peer_ends_what_is_in_flight(pair: Pair, how: str) -> None:
    """W2, V7: the other guest dies, or its cable is pulled, with an operation under way here.

    The sleeper wakes, the operation ends with an error, and nothing keeps the
    modules from being unloaded, on either side.
    """
    pair.play()
    pair.near.sleep()
    if how == "killed":
        pair.far.node.kill()
    else:
        pair.unplug(pair.far)
    pair.near.send()
    assert pair.near.woken(LONG)
    assert pair.near.outcome(LONG) == "ETIMEDOUT"
    pair.leave()


def test_own_pulled_cable_ends_what_is_in_flight(pair: Pair) -> None:
    """W2, V7: the same with our own cable. The neighbour is unknown then, and RDMA CM
    says so before the retries are used up.
    """
    pair.play()
    pair.near.sleep()
    pair.unplug(pair.near)
    pair.near.send()
    assert pair.near.woken(LONG)
    assert pair.near.outcome(LONG) in {"ETIMEDOUT", "ECANCELED", "EHOSTUNREACH"}
    pair.leave()


@rdm
def test_endpoint_without_connection_survives_a_pulled_cable(pair: Pair) -> None:
    """V7: what was in flight fails; once the cable is back, the same endpoints talk again."""
    pair.play()
    pair.unplug(pair.far)
    pair.near.send()
    assert pair.near.outcome(LONG) == "ETIMEDOUT"
    pair.far.node.plug(True)
    pair.play()


@rdm
def test_first_message_waits_for_a_cable(pair: Pair) -> None:
    """V7: the peer's address is asked for again and again until its cable is back."""
    pair.far.post()
    pair.unplug(pair.far)
    in_vain = pair.near.asked_in_vain()
    pair.near.send()
    pair.near.asks_in_vain(in_vain + 1)
    pair.far.node.plug(True)
    for side in (pair.near, pair.far):
        assert side.outcome(LONG) == "OK"


@rdm
def test_killed_peer_ends_what_waits_for_its_receive(pair: Pair) -> None:
    """W2, V7: a large message has been announced, and the peer has no receive for it.

    Nothing of it is on the wire any more when the peer's machine dies.
    """
    pair.play()
    got = pair.far.counter("rdma_recvs")
    pair.near.send(LARGE)
    pair.far.reaches("rdma_recvs", got + 1)
    pair.near.sleep()
    pair.far.node.kill()
    assert pair.near.woken(LONG)
    assert pair.near.outcome(LONG) == "ETIMEDOUT"
    pair.near.leave()


@msg
def test_killed_peer_ends_an_idle_connection_with_keepalive(pair: Pair) -> None:
    """W2, V7: nothing but a receive is posted here when the other guest dies.

    The sleeper wakes, the connection is shut down, and the receive comes back.
    """
    pair.play()
    pair.near.keepalive(2)
    pair.near.post()
    pair.near.sleep()
    pair.far.node.kill()
    assert pair.near.woken(LONG)
    assert pair.near.event(LONG) == "SHUTDOWN"
    assert pair.near.outcome(LONG) == "ECANCELED"
    pair.near.leave()


@msg
def test_pulled_cable_ends_both_idle_sides_with_keepalive(pair: Pair) -> None:
    """W2, V7: each side asks for itself, and each learns it."""
    pair.play()
    for side in (pair.near, pair.far):
        side.keepalive(2)
        side.post()
        side.sleep()
    pair.near.node.plug(False)
    for side in (pair.near, pair.far):
        assert side.woken(LONG)
        assert side.event(LONG) == "SHUTDOWN"
        assert side.outcome(LONG) == "ECANCELED"
        side.leave()


@msg
def test_keepalive_leaves_a_living_peer_alone(pair: Pair) -> None:
    """O5, Q8: probes take no receive, report nothing, and end nothing."""
    pair.play()
    pair.far.post()
    sent = pair.near.counter("sent_pkts")
    pair.near.keepalive(1)
    pair.near.reaches("sent_pkts", sent + 3)
    assert pair.near.quiet() and pair.far.quiet()
    pair.near.send()
    assert pair.near.outcome(LONG) == "OK"
    assert pair.far.outcome(LONG) == "OK"
