# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The example ULPs with one side in each of two guests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kfabric.runner.nodes import Node
from tests.wire.wire_support import Remote, on_both

COUNT = 211
#: Parameters of the side that waits, and of the one that begins; a is the address of
#: the first, b of the other.
ROLES = {
    "pingpong_ulp": ("role=listen addr={a}", "role=connect addr={a}"),
    "rdm_ulp": ("addr={a} peer={b}", "addr={b} peer={a} first=1"),
}
SIDES = {"pingpong_ulp": ("listener", "connector"), "rdm_ulp": ("pong", "ping")}


@pytest.fixture(params=sorted(ROLES))
def ulps(
    request: pytest.FixtureRequest, two_nodes: tuple[Node, Node]
) -> Iterator[tuple[str, Remote, Remote]]:
    """A ULP, not loaded yet, in each of two guests. Depends on: two_nodes."""
    name: str = request.param
    waits, begins = on_both(two_nodes, "tests.wire.ulp", "Ulp", name)
    yield name, waits, begins
    waits.leave()
    begins.leave()


def load(ulps: tuple[str, Remote, Remote], parameters: str) -> None:
    """Load both sides, in the order that they want."""
    name, waits, begins = ulps
    addresses = {"a": waits.node.address, "b": begins.node.address}
    for side, role in zip((waits, begins), ROLES[name], strict=True):
        side.load(f"{role.format(**addresses)} {parameters}")


def test_ulp_plays_with_another_machine(ulps: tuple[str, Remote, Remote]) -> None:
    """W1, W7, O6: every message arrives on both sides, and all modules can be unloaded."""
    load(ulps, f"count={COUNT} timeout_ms=60000")
    name, *sides = ulps
    for side, who in zip(sides, SIDES[name], strict=True):
        state, line = side.result().splitlines()
        assert state == "state=passed", line
        assert line.startswith(f"{who} ") and f" messages={COUNT} " in line
        side.unload()
        side.leave()


def test_ulp_survives_the_other_machine(ulps: tuple[str, Remote, Remote]) -> None:
    """W2, O6: the other guest dies in the middle of the game; this side fails, and unloads."""
    load(ulps, "count=100000000")
    _, waits, begins = ulps
    begins.plays(10)
    waits.node.kill()
    state, line = begins.result().splitlines()
    assert state == "state=failed"
    assert " error=-110 " in line
    begins.unload()
    begins.leave()
