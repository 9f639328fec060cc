# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The stand-in for ULPs of large storage networks (tests/kmod/lnd), between two guests."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kfabric.runner.nodes import Node
from tests.wire.ulp import PLAYING
from tests.wire.wire_support import Remote, on_both

#: More than a game lasts until it is disturbed.
ENDLESS = 1 << 20
#: What the driver may learn of a server that is gone: the machine, or only the endpoint.
GONE = {-110, -113, -107}


@pytest.fixture
def sides(two_nodes: tuple[Node, Node]) -> Iterator[tuple[Remote, Remote]]:
    """Server and driver, not loaded yet. Depends on: two_nodes."""
    server, driver = on_both(two_nodes, "tests.wire.ulp", "Ulp", "kfi_lnd")
    yield server, driver
    server.leave()
    driver.leave()


def load(sides: tuple[Remote, Remote], messages: int, bulks: int) -> None:
    """Load both; the driver begins."""
    server, driver = sides
    server.load(f"addr=cxi0 peer={driver.node.address} messages={messages}")
    counts = f"messages={messages} bulks={bulks}"
    driver.load(f"addr=cxi0 peer={server.node.address} first=1 {counts}")


def told(side: Remote, *others: Remote) -> tuple[str, dict[str, int]]:
    """The state of a side once it has ended, and its numbers; it must not stand still.

    The others are asked meanwhile: a guest that is silent for long counts as hung.
    """
    before = ""
    while (text := side.look()).startswith(PLAYING):
        assert text != before, "the game stands still"
        before = text
        for other in others:
            other.now()
    state, line = text.splitlines()
    return state, {name: int(value) for name, value in re.findall(r"(\w+)=(-?\d+)", line)}


def play(sides: tuple[Remote, Remote], messages: int, bulks: int) -> None:
    """Play a game to its end: each message comes once, and each bulk has an end."""
    load(sides, messages, bulks)
    server, driver = sides
    state, mine = told(driver, server)
    assert state == "state=passed", mine
    assert mine["bulks"] + mine["refused"] + mine["withdrawn"] == bulks
    state, theirs = told(server)
    assert state == "state=passed", theirs
    assert theirs["came"] == messages
    assert theirs["requests"] == mine["bulks"] + mine["refused"]
    # One in 97 is refused, and one in 101 is taken back before it is asked for.
    assert mine["refused"] >= theirs["requests"] // 97
    assert mine["withdrawn"] == bulks // 101
    for side in sides:
        side.unload()
        side.leave()


def test_messages_and_bulks_arrive(sides: tuple[Remote, Remote]) -> None:
    """W2, Q3, Q9: handlers and work items only; the data of each is compared."""
    play(sides, messages=2000, bulks=110)


@pytest.mark.stress
def test_many_messages_and_bulks_arrive(sides: tuple[Remote, Remote]) -> None:
    """The same at length."""
    play(sides, messages=100_000, bulks=10_000)


def lose(server: Remote, how: str) -> None:
    """The server's machine goes, or only its cable."""
    if how == "killed":
        server.node.kill()
    else:
        server.node.plug(False)


@pytest.mark.parametrize("how", ["killed", "unplugged"])
def test_driver_survives_the_servers_machine(sides: tuple[Remote, Remote], how: str) -> None:
    """O6, W2, V7: all that is under way ends with an error, and the module can be unloaded."""
    load(sides, messages=ENDLESS, bulks=0)
    server, driver = sides
    driver.plays(10)
    lose(server, how)
    state, mine = told(driver)
    assert state == "state=failed" and mine["error"] in GONE
    driver.unload()
    driver.leave()


def test_server_survives_its_own_pulled_cable(sides: tuple[Remote, Remote]) -> None:
    """O6, W2, V7: nothing of it waits for a driver that it cannot reach."""
    load(sides, messages=ENDLESS, bulks=0)
    server, driver = sides
    server.plays(10)
    lose(server, "unplugged")
    for side in (server, driver):
        side.unload()
        side.leave()


@pytest.mark.parametrize("loser", [0, 1], ids=["server", "driver"])
def test_both_survive_the_loss_of_a_device(sides: tuple[Remote, Remote], loser: int) -> None:
    """O5, W2: the last error entry belongs to no operation; both can be unloaded."""
    load(sides, messages=ENDLESS, bulks=0)
    for side in sides:
        side.plays(10)
    sides[loser].lose()
    state, mine = told(sides[loser])
    assert state == "state=failed" and mine["error"] == -19
    for side in sides:
        side.unload()
        side.leave()


def test_server_is_unloaded_after_its_driver_is_gone(sides: tuple[Remote, Remote]) -> None:
    """O6: the module, in the middle of the game; nothing of the server waits for it."""
    load(sides, messages=ENDLESS, bulks=0)
    server, driver = sides
    server.plays(10)
    for side in (driver, server):
        side.unload()
        side.leave()
