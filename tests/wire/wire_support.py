# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The host's ends of what runs in the two guests on a wire."""

from __future__ import annotations

from typing import Any

from kfabric.errors import KfabricError
from kfabric.runner.nodes import Node

#: Seconds for one call, however busy the machine is; longer than any wait in a guest.
ANSWER_SECONDS = 120.0
ROUNDS = 199
#: Seconds for a guest to describe itself.
STATE_SECONDS = 30.0
#: Prints each command and its output: queue pairs, counters, objects, links, the log's end.
STATE = """
exec 2>&1
set -x
dmesg | tail -n 60
ip -s link
ip neigh
rdma resource show qp
grep . /sys/class/infiniband/*/ports/1/hw_counters/*
cat /sys/kernel/debug/kfabric/objects
"""


class Remote:
    """The host's end of an object in a guest, see ``tests.wire.remote``.

    ``remote.send()`` calls the method there and returns what it returns;
    ``remote.begin("send")`` does not wait, ``remote.end()`` does. The object has a
    method ``leave``, which gives everything back.
    """

    def __init__(self, node: Node, module: str, name: str, *arguments: object) -> None:
        """Have it made from these arguments; ``end()`` returns "ready" once it is."""
        self.node = node
        self._here = True
        self._channel = node.gateway.remote_exec(
            f"from {module} import {name} as make; from tests.wire.remote import serve\n"
            "serve(channel, make)"
        )
        self._channel.send(arguments)

    def end(self) -> Any:
        """Wait for the answer to what was begun; its exceptions come out here."""
        return self._channel.receive(ANSWER_SECONDS)

    def begin(self, name: str, *arguments: object) -> None:
        """Have a method called there."""
        self._channel.send((name, arguments))

    def leave(self) -> None:
        """Have it give everything back, unless it or its guest has gone or failed already."""
        if not self._here or self.node.killed or self._channel.isclosed():
            return
        self._here = False
        self.begin("leave")
        self.end()
        self._channel.send(None)
        self._channel.waitclose(ANSWER_SECONDS)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: object) -> Any:
            self.begin(name, *arguments)
            return self.end()

        return call


def state(node: Node) -> str:
    """Describe a guest after a failure, as far as it still answers."""
    lines = []
    try:
        for line in node.vm.popen(["sh", "-c", STATE], timeout=STATE_SECONDS).lines():
            lines.append(line)
    except KfabricError as error:
        lines.append(error.line())
    return "\n".join(lines)


def on_both(two: tuple[Node, Node], module: str, name: str, *arguments: object) -> list[Remote]:
    """Make an object in each of two guests, at the same time; its address comes first."""
    remotes = [Remote(node, module, name, node.address, *arguments) for node in two]
    for remote in remotes:
        assert remote.end() == "ready"
    return remotes


class Pair:
    """Two stations that can talk."""

    def __init__(self, two: tuple[Node, Node], kind: str) -> None:
        """Bring both up, at the same time, and let them get to know each other."""
        self.near, self.far = on_both(two, "tests.wire.station", "Station", kind)
        name = self.far.name()
        if kind == "rdm":
            self.far.meet(self.near.node.address, self.near.name())
            self.near.meet(self.far.node.address, name)
        else:
            self.near.begin("meet", self.far.node.address, name)
            self.far.accept()
            self.near.end()

    def play(self) -> None:
        """Play ping-pong across the wire: all messages arrive, in order."""
        self.far.begin("play", ROUNDS, False)
        assert self.near.play(ROUNDS, True) == ROUNDS
        assert self.far.end() == ROUNDS

    def unplug(self, station: Remote) -> None:
        """Pull the cable of one of them, which then has noticed."""
        station.node.plug(False)
        station.carrier(False)

    def leave(self) -> None:
        """Both leave, if they are still there."""
        for station in (self.near, self.far):
            station.leave()
