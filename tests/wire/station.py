# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What runs in each of two guests: one end of the traffic, which the test tells what to do.

A test calls the methods of :class:`Station` from the host, through
``tests.wire.wire_support.Remote``.
"""

from __future__ import annotations

import contextlib
import errno
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kfabric_py as kp
from kfabric.guest import modules, nodewatch, sleeping, topology
from kfabric.guest.waiting import wait_until
from tests.guest.support.guest_support import LIMIT, Side, open_side
from tests.wire import remote

LENGTH = 64
SLEEP_SECONDS = 300.0


class Station:
    """One end: an rxe link on the wire, and an endpoint of one type on it.

    :param address: ours on the wire, IPv4.
    :param kind: "msg" or "rdm".
    """

    def __init__(self, address: str, kind: str) -> None:
        """Bring up link, modules and, without a connection, the endpoint."""
        self._stack = contextlib.ExitStack()
        enter = self._stack.enter_context
        self._netdev = enter(topology.wire_netdev(address))
        modules.Modules.from_environment().load()
        self.link = enter(topology.rdma_link(self._netdev))
        self._objects = enter(contextlib.ExitStack())
        self._device = self._objects.enter_context(kp.Device())
        self._kind = kind
        self.side: Side
        self._listener: tuple[kp.EventQueue, kp.PassiveEndpoint]
        self._av: kp.AddressVector
        self._sleeper: threading.Thread

    # Getting to know each other -------------------------------------------------

    def name(self) -> Any:
        """Be there for the other side: the port that it connects to, or our address."""
        return self._listen() if self._kind == "msg" else self._open_rdm()

    def meet(self, address: str, name: Any) -> None:
        """Connect to the other side (MSG), or put it into the vector (RDM)."""
        if self._kind == "rdm":
            self.side.ep.peer = self._av.insert_one(tuple(name))
            return
        info = self._device.getinfo(provider="verbs", dest=(address, name))[0]
        fabric = self._objects.enter_context(self._device.fabric(info))
        self._open_msg(fabric, info, info)
        self.side.ep.connect()
        self._connected()

    def accept(self) -> None:
        """Take the connection that the other side asks for (MSG)."""
        event = self._listener[0].sread(timeout=LIMIT)
        assert event is not None and event.request is not None
        self._open_msg(self._fabric, self._offer, event.request)
        self.side.ep.accept()
        self._connected()

    def _listen(self) -> int:
        enter = self._objects.enter_context
        source = (self.link.address, 0)
        self._offer = self._device.getinfo(provider="verbs", source=source)[0]
        self._fabric = enter(self._device.fabric(self._offer))
        eq = enter(self._fabric.eq())
        pep = enter(self._fabric.passive_ep(self._offer))
        pep.bind(eq)
        pep.listen()
        self._listener = eq, pep
        name = pep.getname()
        assert isinstance(name, tuple)
        return name[1]

    def _open_msg(
        self, fabric: kp.Fabric, info: kp.Info, what: kp.Info | kp.ConnectionRequest
    ) -> None:
        domain = self._objects.enter_context(fabric.domain(info))
        self._open(fabric, domain, lambda: domain.endpoint(what))

    def _open_rdm(self) -> Any:
        enter = self._objects.enter_context
        attr = kp.EpAttr(type=kp.EpType.RDM)
        hints = kp.Info(addr_format=kp.AddrFormat.SOCKADDR_IN, ep_attr=attr)
        source = (self.link.address, 0)
        info = self._device.getinfo(provider="verbs", source=source, hints=hints)[0]
        fabric = enter(self._device.fabric(info))
        domain = enter(fabric.domain(info))
        self._av = enter(domain.av())

        def endpoint() -> Any:
            ep = domain.rdm_endpoint(info)
            ep.bind(self._av)
            return ep

        self._open(fabric, domain, endpoint)
        return self.side.ep.getname()

    def _open(self, fabric: kp.Fabric, domain: kp.Domain, endpoint: Callable[[], Any]) -> None:
        self.side = open_side(self._device, fabric, domain, endpoint, self._objects)

    def _connected(self) -> None:
        event = self.side.eq.read()
        while event is None:
            self._wait(LIMIT)
            event = self.side.eq.read()
        assert event.event is kp.Event.CONNECTED

    # Traffic --------------------------------------------------------------------

    def play(self, rounds: int, begins: bool) -> int:
        """Play ping-pong, asleep in the wait set between messages; completions read.

        What has been sent then is known to have arrived, on both sides.
        """
        got = 0
        self.post()
        for number in range(rounds):
            last = number + 1 == rounds
            if begins:
                self._ping(number)
            got += self._pong(number)
            if not last:
                self.post()
            if not begins:
                self._ping(number, kp.OpFlags.COMPLETION if last else None)
        if not begins:
            assert self.outcome(LIMIT) == "OK"
        return got

    def _ping(self, number: int, flags: kp.OpFlags | None = None) -> None:
        out = self.side.buffer[LENGTH : 2 * LENGTH]
        out.view[:4] = number.to_bytes(4, "little")
        self.side.ep.send(out, flags=flags)

    def _pong(self, number: int) -> int:
        entries = self._completions()
        while not entries:
            self._wait(LIMIT)
            entries = self._completions()
        assert int.from_bytes(self.side.buffer.view[:4], "little") == number
        return len(entries)

    def _completions(self) -> list[kp.CqEntry]:
        """Read what succeeded; what failed is an AssertionError that says why."""
        try:
            return self.side.cq.read(1)
        except kp.ErrorAvailable:
            raise AssertionError(self.side.cq.readerr()) from None

    def _wait(self, limit: float) -> None:
        """Sleep until something new is there; queues have been read until empty."""
        self._read_counter()
        self.side.wait_set.wait(timeout=limit)

    def _read_counter(self) -> None:
        # A change that nobody has read would end the next wait at once.
        self.side.cntr.read()
        self.side.cntr.readerr()

    def post(self) -> None:
        """Post a receive that reports its end."""
        self.side.ep.recv(self.side.buffer[:LENGTH], flags=kp.OpFlags.COMPLETION)

    def send(self, length: int = LENGTH) -> None:
        """Post a send that reports its end."""
        self.side.ep.send(self.side.buffer[:length], flags=kp.OpFlags.COMPLETION)

    def keepalive(self, seconds: int) -> None:
        """Probe a peer that has been silent for so long (MSG); 0: never."""
        self.side.ep.keepalive = seconds

    def sleep(self) -> None:
        """Let a thread sleep in the wait set; return once it does."""
        tids: list[int] = []
        started = threading.Event()
        self._read_counter()

        def run() -> None:
            tids.append(threading.get_native_id())
            started.set()
            # At its deadline a wait looks once more: it is longer than anybody's patience.
            with contextlib.suppress(TimeoutError):
                self.side.wait_set.wait(timeout=SLEEP_SECONDS)

        self._sleeper = threading.Thread(target=run, daemon=True)
        self._sleeper.start()
        started.wait(LIMIT)
        sleeping.wait_until_asleep(tids[0], deadline=LIMIT)

    def woken(self, seconds: float) -> bool:
        """Tell whether the sleeper's wait ends within so many seconds."""
        self._sleeper.join(seconds)
        return not self._sleeper.is_alive()

    def outcome(self, limit: float) -> str:
        """Wait for the next completion: "OK", or the name of the error entry's errno.

        :param limit: seconds that each wait lasts at most.
        """
        while True:
            try:
                if self.side.cq.read(1):
                    return "OK"
            except kp.ErrorAvailable:
                error = self.side.cq.readerr()
                assert error is not None
                return errno.errorcode[error.err]
            self._wait(limit)

    def event(self, limit: float) -> str:
        """Wait for the next event of the endpoint, and return its name.

        :param limit: seconds that each wait lasts at most.
        """
        while (event := self.side.eq.read()) is None:
            self._wait(limit)
        return kp.Event(event.event).name

    def quiet(self) -> bool:
        """Tell whether nothing has been reported that nobody has read."""
        return not self.side.cq.read(1) and self.side.eq.read() is None

    # The wire -------------------------------------------------------------------

    def shape(self, words: str) -> None:
        """Disturb what this side sends until it leaves, e.g. "loss 5% delay 2ms"."""
        self._tc("add", "netem", *words.split())
        self._stack.callback(self._tc, "del")

    def _tc(self, verb: str, *words: str) -> None:
        argv = ["tc", "qdisc", verb, "dev", self._netdev.name, "root", *words]
        subprocess.run(argv, check=True, timeout=nodewatch.TC_SECONDS)

    def carrier(self, up: bool) -> None:
        """Return once the guest has noticed that its cable is in, or out."""
        state = Path(f"/sys/class/net/{self._netdev.name}/carrier")
        wanted = str(int(up))
        wait_until(lambda: state.read_text().strip() == wanted, f"carrier {wanted}", LIMIT)

    def counter(self, name: str) -> int:
        """Read one of the RDMA device's own counters."""
        return remote.counter(self.link, name)

    def reaches(self, name: str, value: int) -> None:
        """Return once one of these has this value."""
        remote.reaches(self.link, name, value)

    def asked_in_vain(self) -> int:
        """Count how often the kernel has given up asking for somebody's address."""
        head, *rows = Path("/proc/net/stat/arp_cache").read_text().splitlines()
        column = head.split().index("res_failed")
        return sum(int(row.split()[column], 16) for row in rows)

    def asks_in_vain(self, count: int) -> None:
        """Return once it has done so that often."""
        wait_until(lambda: self.asked_in_vain() >= count, f"{count} questions", LIMIT)

    # The end --------------------------------------------------------------------

    def leave(self) -> None:
        """Close everything and unload the modules, which therefore nobody uses."""
        self._objects.close()
        modules.Modules.from_environment().unload(deadline=LIMIT)
        self._stack.close()
