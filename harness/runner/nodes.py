# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Two guests on one emulated Ethernet, with a Python in each that the host talks to.

    with nodes.two(directory) as (near, far):
        channel = near.gateway.remote_exec("channel.send(6 * 7)")
        assert channel.receive(10) == 42

The wire is a pair of datagram sockets: what a guest that is gone would have got is
lost, as on a real one. Traffic between two endpoints in one guest never leaves the
RDMA driver; here it does, so loss, delay and an unplugged cable can be had.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import execnet

from harness.errors import GuestSplat, KfabricError
from harness.guest.waiting import DeadlineExpired, wait_until
from harness.runner import testvm
from harness.runner.pool import Ending, Slot
from harness.vm import prepare
from harness.vm.machine import Vm

ADDRESSES = ("198.19.255.1", "198.19.255.2")
"""RFC 2544's range for test networks; the rest of it is the guests' own."""
END_SECONDS = 20.0
GATEWAY_SECONDS = 5.0
ASK_SECONDS = 60.0
IDLE_SECONDS = 5.0
# Longer than a connection's retries: a test may well say nothing while they last.
_SILENCE = 200.0
_WIRE = "wire"
# What asking a guest that is gone ends with.
_SILENT = (EOFError, OSError, execnet.RemoteError, execnet.TimeoutError)
# Run in a guest, around each test that it is lent to.
_BEGIN = "from harness.guest import nodewatch; channel.send(nodewatch.begin())"
_LEFT = "from harness.guest import nodewatch; channel.send(nodewatch.left())"


@dataclass
class Node:
    """One of the two guests.

    :param address: what it should call itself on the wire, IPv4.
    :param gateway: execnet's, into a Python that has the checkout on its path.
    :param killed: it is gone because somebody wanted that.
    """

    vm: Vm
    address: str
    gateway: execnet.Gateway
    killed: bool = False

    def plug(self, up: bool) -> None:
        """Plug the guest's network cable in or out."""
        self.vm.set_link(_WIRE, up)

    def kill(self) -> None:
        """End the guest at once, as a power cut does."""
        self.killed = True
        self.vm.kill()

    def ask(self, source: str) -> Any:
        """Run Python in the guest that sends one thing on ``channel``; that thing."""
        channel = self.gateway.remote_exec(source)
        try:
            return channel.receive(ASK_SECONDS)
        finally:
            channel.close()


def wiring(directory: Path, number: int) -> tuple[str, ...]:
    """QEMU's arguments for one end of the wire.

    :param directory: for the sockets; its path must be short.
    :param number: 0 or 1.
    """
    mine, other = (directory / f"end{end}" for end in (number, 1 - number))
    sockets = f"local.type=unix,local.path={mine},remote.type=unix,remote.path={other}"
    return (
        *("-netdev", f"dgram,id={_WIRE},{sockets}"),
        # No boot from the network: QEMU need not have the ROM for it.
        *("-device", f"virtio-net-pci,netdev={_WIRE},mac=52:54:00:00:00:0{number + 1},romfile="),
    )


@contextlib.contextmanager
def two(directory: Path) -> Iterator[tuple[Node, Node]]:
    """Boot two guests on one wire, at the same time, for the length of the block.

    :param directory: gets a directory for each, with what it leaves.
    :raises KfabricError: one does not boot; or, behind the block: one that nobody has
        killed is gone, or its kernel complained.
    """
    with contextlib.ExitStack() as stack:
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kfabric-")))
        guests: dict[str, Vm] = {}
        slots = []
        for number in (0, 1):

            def boot(name: str, where: Path, number: int = number) -> Vm:
                guests[name] = testvm.boot(name, where, qemu=wiring(sockets, number))
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
            _judge(node, ending)


def _judge(node: Node, ending: Ending) -> None:
    """Fail for a kernel's complaint, and for an end that nobody wanted."""
    if ending.splats:
        splat = ending.splats[0]
        raise GuestSplat(f"{ending.name}: {splat.title}", console=splat.text)
    if ending.error and not node.killed:
        raise ending.error


class Wire:
    """Two guests that are lent to one test after the other, as long as they stay clean.

    :param directory: for what they leave.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count()
        self._stack = contextlib.ExitStack()
        self._nodes: tuple[Node, Node] | None = None

    def lend(self) -> tuple[Node, Node]:
        """Two guests that nobody has harmed; boots them if there are none.

        :raises KfabricError: one does not boot.
        """
        if self._nodes is None:
            where = self._directory / f"pair{next(self._numbers)}"
            self._nodes = self._stack.enter_context(two(where))
        try:
            for node in self._nodes:
                node.ask(_BEGIN)
        except _SILENT:
            self._throw_away()
            raise
        return self._nodes

    def take_back(self) -> list[str]:
        """Look at the guests behind a test; those that are not as they were are thrown away.

        :return: what the test has left behind, and the kernels' complaints, a line each.
        :raises KfabricError: a guest is gone that nobody has killed.
        """
        nodes = self._nodes or ()
        try:
            left = [line for node in nodes if not node.killed for line in _left(node)]
        except _SILENT as error:
            left = [f"the guests do not answer: {error!r}"]
        except KfabricError:
            # What the guests end with says more.
            self._throw_away()
            raise
        if left or any(node.killed for node in nodes):
            self._throw_away(left)
        return left

    def _throw_away(self, left: Sequence[str] = ()) -> None:
        try:
            self.close()
        except KfabricError:
            # What is known of its end already is what fails the test.
            if not left:
                raise

    def close(self) -> None:
        """End the guests, if there are any."""
        stack, self._stack, self._nodes = self._stack, contextlib.ExitStack(), None
        stack.close()


def _left(node: Node) -> list[str]:
    """Have the cable in, for the next test, and see what this one has left."""
    node.plug(True)
    try:
        # What has answered may still be on its way out.
        wait_until(lambda: not node.gateway.remote_status().numexecuting, "idle", IDLE_SECONDS)
    except DeadlineExpired:
        return [f"{node.vm.spec.name}: something still runs there"]
    return [f"{node.vm.spec.name}: {line}" for line in node.ask(_LEFT)]
