# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Traffic between two guests, on a wire that is well and on one that is not."""

from __future__ import annotations

import pytest

from kfabric.runner.nodes import Node
from tests.wire.wire_support import Pair


def test_two_guests_answer(two_nodes: tuple[Node, Node]) -> None:
    """Each of the two runs what the host sends it, with the checkout on its path."""
    near, far = two_nodes
    assert near.ask("channel.send(6 * 7)") == 42
    names = [node.ask("import os; channel.send(os.uname().nodename)") for node in (near, far)]
    assert names == [near.vm.spec.name, far.vm.spec.name]
    assert names[0] != names[1]


def test_messages_cross_the_wire(pair: Pair) -> None:
    """W1, W10: threads of two guests wake each other; both unload their modules."""
    before = pair.near.counter("sent_pkts")
    pair.play()
    assert pair.near.counter("sent_pkts") > before
    pair.near.leave()
    pair.far.leave()


@pytest.mark.parametrize("words", ["loss 3%", "delay 3ms 1ms reorder 20%", "duplicate 10%"])
def test_no_message_is_lost_on_a_bad_wire(pair: Pair, words: str) -> None:
    """W2, W10: loss, reordering and doubles on the wire cost time and nothing else."""
    pair.near.shape(words)
    pair.far.shape(words)
    pair.play()


def test_cable_that_is_back_in_time_costs_nothing(pair: Pair) -> None:
    """W2, W10: what is sent while the link is down arrives once it is up again."""
    pair.play()
    pair.far.post()
    pair.far.sleep()
    pair.unplug(pair.far)
    tried = pair.near.counter("completer_retry_err")
    pair.near.send()
    # The device has tried again at least once.
    pair.near.reaches("completer_retry_err", tried + 1)
    pair.far.node.plug(True)
    assert pair.near.outcome(90.0) == "OK"
    assert pair.far.woken(90.0)
    assert pair.far.outcome(90.0) == "OK"
    pair.play()
