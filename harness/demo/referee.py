# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side: starts the two players of the ping-pong from Python and follows them."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Self

from harness.demo.job import Orders, Part, Player
from harness.guest.waiting import Deadline

SERVER, RETURNER = "ping", "pong"
_TURN_SECONDS = 60.0
_END_SECONDS = 10.0
_TICK_SECONDS = 0.2

Tick = Callable[[], None]
Progress = Callable[[int], None]


class Referee:
    """Two player processes; a context manager that ends them.

    Made before the probe is loaded, since a fork copies all that its parent has;
    the players open nothing until the game begins.

    :param tick: called several times a second while waiting; drains the probe.
    """

    def __init__(self, orders: Orders, tick: Tick, progress: Progress) -> None:
        """Start the processes."""
        self._orders = orders
        self._tick = tick
        self._progress = progress
        self._controls: dict[str, Connection] = {}
        self._processes: dict[str, BaseProcess] = {}
        self.names: dict[int, str] = {}
        self.errors: dict[str, str] = {}

    def __enter__(self) -> Self:
        for name in (SERVER, RETURNER):
            self._start(name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for control in self._controls.values():
            control.close()
        self._end()

    def _end(self) -> None:
        """See the players off; by then all that they opened is closed."""
        for process in self._processes.values():
            process.join(_END_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()

    def _start(self, name: str) -> None:
        fork = multiprocessing.get_context("fork")
        ours, theirs = fork.Pipe()
        inherited = [ours, *self._controls.values()]
        process = fork.Process(
            target=_child, args=(inherited, name, self._orders, theirs), name=name
        )
        process.start()
        theirs.close()
        self._controls[name], self._processes[name] = ours, process

    def play(self, address: tuple[str, int]) -> Part:
        """The whole game. What players complain of ends up in the part."""
        self._begin(address)
        if not self.errors:
            self._expect("done", *self._controls)
        for name in self._controls:
            self._tell(name, "close", None)
        self._end()
        players = tuple(
            Player(name, process.pid or 0, self._orders.messages, self.errors.get(name, ""))
            for name, process in self._processes.items()
        )
        return Part("ping-pong from Python", players)

    def _begin(self, address: tuple[str, int]) -> None:
        """Connect the players, introduce them to each other and let them play."""
        self._tell(RETURNER, "begin", address)
        self._expect("listening", RETURNER)
        self._tell(SERVER, "begin", address)
        connected = self._expect("connected", *self._controls)
        if self.errors:
            return
        for _, names in connected.values():
            self.names |= names
        for name, other in ((SERVER, RETURNER), (RETURNER, SERVER)):
            peer = (self._processes[other].pid, connected[other][0])
            self._tell(name, "play", peer)

    def _tell(self, name: str, word: str, what: object) -> None:
        """Give an order. Who is gone already has said why, or shows it by its silence."""
        with contextlib.suppress(BrokenPipeError):
            self._controls[name].send((word, what))

    def _expect(self, word: str, *names: str) -> dict[str, Any]:
        """Wait until each of the players has said ``word``, or one has failed."""
        heard: dict[str, Any] = {}
        limit = Deadline(_TURN_SECONDS)
        while len(heard) < len(names) and not self.errors:
            for name in self._speakers(limit):
                said, what = self._hear(name)
                if said == "progress":
                    self._progress(what)
                    limit = Deadline(_TURN_SECONDS)
                elif said == word:
                    heard[name] = what
                else:
                    self.errors[name] = str(what)
        return heard

    def _speakers(self, limit: Deadline) -> list[str]:
        """The players that have something to say by the next tick."""
        self._tick()
        ready = wait(list(self._controls.values()), timeout=_TICK_SECONDS)
        if not ready and limit.expired:
            self.errors[SERVER] = f"nothing happened for {limit.seconds:g} s"
        return [name for name, control in self._controls.items() if control in ready]

    def _hear(self, name: str) -> tuple[str, Any]:
        try:
            said, what = self._controls[name].recv()
        except EOFError:
            return "failed", "the process ended without a word"
        return said, what


def _child(inherited: list[Connection], name: str, orders: Orders, control: Connection) -> None:
    """The body of a player's process."""
    from harness.demo import pingpong  # each for itself, while the probe compiles

    for connection in inherited:
        connection.close()
    pingpong.run(name, name == SERVER, orders, control)
