# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: starts the two processes of the ping-pong from Python, and follows them."""

import contextlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Self

from kfabric.demo.job import Peer, PingPong, Scenario
from kfabric.guest.waiting import Deadline

CLIENT, SERVER = "ping", "pong"
_SILENCE_SECONDS = 60.0
_END_SECONDS = 10.0
_TICK_SECONDS = 0.2

Tick = Callable[[], None]
Progress = Callable[[int], None]


class Coordinator:
    """Two peer processes; a context manager that ends them.

    Made before the probes are loaded, because a fork copies its parent's memory; the peers open
    nothing until the ping-pong begins.

    Args:
        parameters: of the ping-pong.
        tick: called several times a second while waiting; drains the probes.
        progress: gets the number of messages.
    """

    def __init__(self, parameters: PingPong, tick: Tick, progress: Progress) -> None:
        self._parameters = parameters
        self._tick = tick
        self._progress = progress
        self._controls: dict[str, Connection] = {}
        self._processes: dict[str, BaseProcess] = {}
        self.names: dict[int, str] = {}
        self.errors: dict[str, str] = {}

    def __enter__(self) -> Self:
        fork = multiprocessing.get_context("fork")
        for name in (CLIENT, SERVER):
            ours, theirs = fork.Pipe()
            inherited = [ours, *self._controls.values()]
            arguments = (inherited, name, self._parameters, theirs)
            process = fork.Process(target=_child, args=arguments, name=name)
            process.start()
            theirs.close()
            self._controls[name], self._processes[name] = ours, process
        return self

    def __exit__(self, *_: object) -> None:
        for control in self._controls.values():
            control.close()
        self._end()

    def _end(self) -> None:
        """Wait for the peers, which close everything that they opened."""
        for process in self._processes.values():
            process.join(_END_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()

    def run(self, address: tuple[str, int]) -> Scenario:
        """Run the whole ping-pong; the result has the peers' errors."""
        self._connect(address)
        if not self.errors:
            self._expect("done", *self._controls)
        for name in self._controls:
            self._send(name, "close", None)
        self._end()
        messages = self._parameters.messages
        peers = tuple(
            Peer(name, process.pid or 0, messages, self.errors.get(name, ""))
            for name, process in self._processes.items()
        )
        return Scenario("ping-pong from Python", peers)

    def _connect(self, address: tuple[str, int]) -> None:
        """Connect the peers, and let them start."""
        self._send(SERVER, "begin", address)
        self._expect("listening", SERVER)
        self._send(CLIENT, "begin", address)
        connected = self._expect("connected", *self._controls)
        if self.errors:
            return
        for _, names in connected.values():
            self.names |= names
        for name, other in ((CLIENT, SERVER), (SERVER, CLIENT)):
            self._send(name, "start", (self._processes[other].pid, connected[other][0]))

    def _send(self, name: str, word: str, value: object) -> None:
        # A peer that has ended has sent its error before, or is noticed by its silence.
        with contextlib.suppress(BrokenPipeError):
            self._controls[name].send((word, value))

    def _expect(self, word: str, *names: str) -> dict[str, Any]:
        """Wait until each of the peers has sent `word`, or one has failed; the values."""
        received: dict[str, Any] = {}
        limit = Deadline(_SILENCE_SECONDS)
        while len(received) < len(names) and not self.errors:
            self._tick()
            ready = wait(list(self._controls.values()), timeout=_TICK_SECONDS)
            if not ready and limit.expired:
                self.errors[CLIENT] = f"no message for {limit.seconds:g} s"
            for name in [name for name, control in self._controls.items() if control in ready]:
                got, value = self._receive(name)
                if got == "progress":
                    self._progress(value)
                    limit = Deadline(_SILENCE_SECONDS)
                elif got == word:
                    received[name] = value
                else:
                    self.errors[name] = str(value)
        return received

    def _receive(self, name: str) -> tuple[str, Any]:
        try:
            word, value = self._controls[name].recv()
        except EOFError:
            return "failed", "the process ended without a message"
        return word, value


def _child(inherited: list[Connection], name: str, parameters: PingPong, own: Connection) -> None:
    """The body of a peer's process."""
    from kfabric.demo import pingpong  # in the children, while the probes compile

    for connection in inherited:
        connection.close()
    pingpong.run(name, name == CLIENT, parameters, own)
