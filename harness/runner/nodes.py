# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Two guests on one emulated Ethernet, each with a Python that the host controls.

    with nodes.two(directory) as (near, far):
        channel = near.gateway.remote_exec("channel.send(6 * 7)")
        assert channel.receive(10) == 42

The wire is a pair of datagram sockets: packets to a guest that is gone are lost, as on a real
network. Traffic between two endpoints in one guest never leaves the RDMA driver; between two
guests, loss, delay and an unplugged cable can be tested.
"""

import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import execnet

from kfabric.errors import GuestSplat, KfabricError
from kfabric.guest.waiting import DeadlineExpired, wait_until
from kfabric.runner import testvm
from kfabric.runner.pool import Slot
from kfabric.vm import prepare
from kfabric.vm.machine import Vm

ADDRESSES = ("198.19.255.1", "198.19.255.2")
"""From RFC 2544's range for test networks; guests may use the rest of it themselves."""
END_SECONDS = 60.0
GATEWAY_SECONDS = 5.0
ASK_SECONDS = 60.0
IDLE_SECONDS = 5.0
# Longer than a connection's retries, during which a test may print nothing.
_SILENCE = 200.0
# Errors of a request to a guest that is gone.
_SILENT = (EOFError, OSError, execnet.RemoteError, execnet.TimeoutError)
# Run in a guest before and after each test that uses it.
_BEGIN = "from kfabric.guest import nodewatch; channel.send(nodewatch.begin())"
_LEFT = "from kfabric.guest import nodewatch; channel.send(nodewatch.left())"


@dataclass
class Node:
    """One of the two guests."""

    vm: Vm
    address: str
    """Its intended IPv4 address on the wire."""
    gateway: execnet.Gateway
    """Into a Python that has the checkout on its path."""
    killed: bool = False
    """Whether it was ended on purpose."""

    def plug(self, up: bool) -> None:
        self.vm.plug(up)

    def kill(self) -> None:
        """End the guest at once, like a power failure."""
        self.killed = True
        self.vm.kill()

    def ask(self, source: str) -> Any:
        """Run Python in the guest that sends one object on ``channel``; that object."""
        channel = self.gateway.remote_exec(source)
        try:
            return channel.receive(ASK_SECONDS)
        finally:
            channel.close()

    def clean_up(self) -> list[str]:
        """Plug in the cable for the next test; a line for each thing that the last test left."""
        self.plug(True)
        try:
            # A remote execution that has answered may take a moment to end.
            wait_until(lambda: not self.gateway.remote_status().numexecuting, "idle", IDLE_SECONDS)
        except DeadlineExpired:
            return [f"{self.vm.spec.name}: something still runs there"]
        return [f"{self.vm.spec.name}: {line}" for line in self.ask(_LEFT)]


@contextlib.contextmanager
def two(directory: Path) -> Iterator[tuple[Node, Node]]:
    """Boot two guests on one wire, in parallel, for the duration of the block.

    Raises KfabricError if one does not boot and, after the block, if one ended although it
    was not killed, or its kernel reported a problem.
    """
    with contextlib.ExitStack() as stack:
        # A socket needs a short path.
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kfabric-")))
        guests: dict[str, Vm] = {}
        slots = []
        for number in (0, 1):
            wire = (sockets / f"end{number}", sockets / f"end{1 - number}")

            def boot(name: str, where: Path, wire: tuple[Path, Path] = wire) -> Vm:
                guests[name] = testvm.boot(name, where, wire=wire)
                return guests[name]

            slot = Slot(f"node{number}", boot, directory, prepare.SOURCE, _SILENCE)
            stack.callback(slot.close)
            slot.start()
            slots.append(slot)
        for slot in slots:
            slot.life.booted.result()
        group = execnet.Group()
        stack.callback(group.terminate, GATEWAY_SECONDS)
        nodes = tuple(
            Node(guests[slot.life.name], address, group.makegateway(slot.spec))
            for slot, address in zip(slots, ADDRESSES, strict=True)
        )
        yield nodes[0], nodes[1]
        group.terminate(GATEWAY_SECONDS)
        endings = [slot.life.finish(END_SECONDS) for slot in slots]
        for node, ending in zip(nodes, endings, strict=True):
            for splat in ending.splats[:1]:
                raise GuestSplat(f"{ending.name}: {splat.title}", console=splat.text)
            if ending.error and not node.killed:
                raise ending.error


class Wire:
    """Two guests that successive tests share, as long as they stay clean and no test fails."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count()
        self._stack = contextlib.ExitStack()
        self._nodes: tuple[Node, Node] | None = None
        self._harmed = False

    def lend(self) -> tuple[Node, Node]:
        """Two clean guests, booted if there are none; raises KfabricError."""
        if self._harmed:
            # The test that harmed them has failed already.
            with contextlib.suppress(KfabricError):
                self.close()
        if self._nodes is None:
            where = self._directory / f"pair{next(self._numbers)}"
            self._nodes = self._stack.enter_context(two(where))
        try:
            for node in self._nodes:
                node.ask(_BEGIN)
        except _SILENT:
            self.close()
            raise
        return self._nodes

    def condemn(self) -> list[Node]:
        """The guests of a failed test that are still there, to look at; no other test gets them."""
        self._harmed = True
        return [node for node in self._nodes or () if not node.killed]

    def take_back(self) -> list[str]:
        """Check the guests after a test. The next one gets others unless these are clean.

        Returns:
            A line for each thing that the test left, and for each report of a kernel.

        Raises:
            KfabricError: a guest ended that was not killed.
        """
        nodes = self._nodes or ()
        try:
            left = [line for node in nodes if not node.killed for line in node.clean_up()]
        except _SILENT as error:
            left = [f"the guests do not answer: {error!r}"]
        except KfabricError:
            # The guests' own ends are a better explanation.
            self.close()
            raise
        if left:
            self._harmed = True
        elif self._harmed or any(node.killed for node in nodes):
            self.close()
        return left

    def close(self) -> None:
        """End the guests; raises KfabricError if one ended badly."""
        stack, self._stack = self._stack, contextlib.ExitStack()
        self._nodes, self._harmed = None, False
        stack.close()
