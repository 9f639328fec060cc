# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In a guest: one side of an example ULP, whose other side is in the other guest."""

from __future__ import annotations

import contextlib
import select
from pathlib import Path

from kfabric.guest import modules, topology
from tests.wire import remote

#: Seconds for a whole game, or for a part of a long one.
GAME_SECONDS = 100.0
PLAYING = "state=playing"


class Ulp:
    """A module of examples/ on an rxe link on the wire.

    :param address: ours on the wire, IPv4.
    :param name: of the module.
    """

    def __init__(self, address: str, name: str) -> None:
        """Bring up the link and kfabric."""
        self._name = name
        self._result = Path(f"/sys/module/{name}/parameters/result")
        self._modules = modules.Modules.from_environment()
        self._stack = contextlib.ExitStack()
        enter = self._stack.enter_context
        self._link = enter(topology.rdma_link(enter(topology.wire_netdev(address))))
        enter(self._modules.loaded())

    def load(self, parameters: str) -> None:
        """Load the ULP, which begins to play."""
        modules.insert(self._modules.file(self._name), parameters)
        self._game = self._stack.enter_context(contextlib.ExitStack())
        self._game.callback(modules.remove, self._name)

    def now(self) -> str:
        """The result, as the module tells it."""
        return self._result.read_text()

    def look(self) -> str:
        """The same, once the game has ended or some time has passed."""
        with self._result.open() as result:
            poller = select.poll()
            poller.register(result, select.POLLPRI)
            while (text := result.read()).startswith(PLAYING) and poller.poll(GAME_SECONDS * 1000):
                result.seek(0)
        return text

    def result(self) -> str:
        """The result of a game that ends in this time."""
        text = self.look()
        assert not text.startswith(PLAYING), "the game goes on"
        return text

    def plays(self, messages: int) -> None:
        """Return once so many more messages have come."""
        name = "rdma_recvs"
        remote.reaches(self._link, name, remote.counter(self._link, name) + messages)

    def lose(self) -> None:
        """Lose the device, under the ULP."""
        topology.delete_link(self._link.name)

    def unload(self) -> None:
        """Unload the ULP."""
        self._game.close()

    def leave(self) -> None:
        """Unload everything, and take the link down."""
        self._stack.close()
