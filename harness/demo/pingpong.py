# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side: one player of the ping-pong from Python, a process of its own.

A player has one wait set with its EQ, its CQ and a counter of receives. Sends
ask for no completion, so each wait has one cause: the peer's message.

What a player and its referee say to each other over a pipe, in this order:

    player                                  referee
                                            ("begin", address and port)
    ("listening", None) (the listener)
    ("connected", (wait set, names))
                                            ("play", (thread, wait set) of the peer)
    ("progress", n) ...
    ("done", None), or at any time ("failed", why)
                                            ("close", None)

Wait sets are tracing ids, names are of objects by tracing id.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.demo import faults
from harness.demo.job import Orders
from harness.guest.waiting import Deadline
from kfabric_py import (
    Access,
    Caps,
    ConnectionRequest,
    DomainAttr,
    EpAttr,
    EpType,
    EqEvent,
    ErrorAvailable,
    Event,
    Fabric,
    Info,
    KfiError,
    KfiTimeout,
    Mode,
    MrMode,
    WaitObj,
)
from kfabric_py.device import Device

_NUMBER = struct.Struct("<QQ")
_SIZE = 64
_CONNECT_SECONDS = 30.0
_WAIT_SECONDS = 10.0
_VICTIM_WAIT_SECONDS = 2.0
_MESSAGE_SECONDS = 30.0
_PROGRESS_EVERY = 100
_HINTS = Info(
    caps=Caps.MSG,
    mode=Mode.LOCAL_MR,
    ep_attr=EpAttr(type=EpType.MSG),
    domain_attr=DomainAttr(mr_mode=MrMode.LOCAL | MrMode.VIRT_ADDR | MrMode.PROV_KEY),
)


class PlayError(Exception):
    """The game went wrong: a message was missing, was another, or was an error."""


class Player:
    """One end of the connection; a context manager that closes what it opened."""

    def __init__(self, name: str, orders: Orders, control: Connection) -> None:
        """Open nothing yet."""
        self.name = name
        self.received = 0
        self.counted = 0
        self._orders = orders
        self._control = control
        self._stack = ExitStack()
        self._wait_seconds = _WAIT_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def listen(self) -> None:
        """Become the one that is connected to; returns when connected."""
        here = self._begin()
        info = self._device.getinfo(provider="verbs", source=here, hints=_HINTS)[0]
        fabric = self._open_fabric(info)
        passive = self._stack.enter_context(fabric.passive_ep(info))
        passive.bind(self._eq)
        passive.listen()
        self._control.send(("listening", None))
        request = self._await_event(Event.CONNREQ).request
        assert request is not None
        self._open_endpoint(fabric, request.info, request)
        self._ep.accept()
        self._await_event(Event.CONNECTED)

    def connect(self) -> None:
        """Become the one that connects; returns when connected."""
        there = self._begin()
        info = self._device.getinfo(provider="verbs", dest=there, hints=_HINTS)[0]
        fabric = self._open_fabric(info)
        self._open_endpoint(fabric, info, info)
        self._ep.connect()
        self._await_event(Event.CONNECTED)

    def serve(self) -> None:
        """Send first, then wait for the answer, for each message."""
        for number in range(1, self._orders.messages + 1):
            if self._orders.fault and number == self._orders.fault_at:
                faults.commit(self._orders.fault, *self._peer)
            self._send(number)
            self._await_message(number)
            if number % _PROGRESS_EVERY == 0:
                self._control.send(("progress", number))

    def answer(self) -> None:
        """Wait for each message and send it back."""
        if self._orders.fault:
            self._wait_seconds = _VICTIM_WAIT_SECONDS
        for number in range(1, self._orders.messages + 1):
            self._await_message(number)
            self._send(number)

    def meet(self) -> None:
        """Tell what is connected, and learn who the peer is."""
        self._control.send(("connected", (self._wait_set.trace_id, self._names())))
        self._peer: tuple[int, int] = self._hear("play")

    def part(self) -> None:
        """Stay until the peer has got everything; closing earlier could overtake it."""
        self._control.send(("done", None))
        self._hear("close")

    def _begin(self) -> tuple[str, int]:
        """Wait for the address; before it comes the device may not even be there."""
        address: tuple[str, int] = self._hear("begin")
        self._device = self._stack.enter_context(Device())
        return address

    def _hear(self, word: str) -> Any:
        """Wait for an order. The referee ends its players, so no deadline here."""
        said, what = self._control.recv()
        if said != word:
            raise PlayError(f"told to {said}, not to {word}")
        return what

    def _names(self) -> dict[int, str]:
        mine = {
            self._wait_set: "wait set",
            self._eq: "EQ",
            self._cq: "CQ",
            self._counter: "counter",
            self._ep: "endpoint",
        }
        return {thing.trace_id: f"{self.name}'s {word}" for thing, word in mine.items()}

    def _open_fabric(self, info: Info) -> Fabric:
        fabric = self._stack.enter_context(self._device.fabric(info))
        self._wait_set = self._stack.enter_context(fabric.wait_set(wait_obj=WaitObj.QUEUE))
        self._eq = self._stack.enter_context(fabric.eq(wait_set=self._wait_set))
        return fabric

    def _open_endpoint(self, fabric: Fabric, info: Info, what: Info | ConnectionRequest) -> None:
        """Everything that an endpoint needs, up to its first receive."""
        enter = self._stack.enter_context
        domain = enter(fabric.domain(info))
        self._cq = enter(domain.cq(wait_set=self._wait_set))
        self._counter = enter(domain.counter(wait_set=self._wait_set))
        self._buffer = enter(self._device.buffer(2 * _SIZE))
        self._region = enter(domain.mr(self._buffer[:], Access.SEND | Access.RECV))
        self._ep = enter(domain.endpoint(what))
        self._ep.bind(self._eq)
        self._ep.bind(self._cq, transmit=True, selective=True)
        self._ep.bind(self._cq, recv=True)
        self._ep.bind(self._counter, recv=True)
        self._ep.enable()
        self._post_receive()

    def _post_receive(self) -> None:
        self._ep.recv(self._region[_SIZE:])

    def _send(self, number: int) -> None:
        """Send one message; the peer's answer says that its memory is free again."""
        _NUMBER.pack_into(self._buffer.view, 0, number, ~number & 0xFFFF_FFFF_FFFF_FFFF)
        self._ep.send(self._region[:_SIZE])

    def _wait(self, limit: Deadline, what: str) -> None:
        """One kfi_wait; that its own deadline passes is no harm unless nothing came at all."""
        try:
            self._wait_set.wait(timeout=min(self._wait_seconds, limit.remaining()))
        except KfiTimeout:
            if limit.expired:
                raise PlayError(f"{what} did not come in {limit.seconds:g} s") from None

    def _await_event(self, wanted: Event) -> EqEvent:
        limit = Deadline(_CONNECT_SECONDS)
        while True:
            self._wait(limit, wanted.name)
            event = self._look_eq()
            if event and event.event is wanted:
                return event

    def _look_eq(self) -> EqEvent | None:
        try:
            return self._eq.read()
        except ErrorAvailable:
            error = self._eq.readerr()
            raise PlayError(f"event queue: {error and error.exception()}") from None

    def _await_message(self, number: int) -> None:
        """Sleep until message ``number`` is in the CQ and counted; prepare for the next."""
        limit = Deadline(_MESSAGE_SECONDS)
        while self.received < number or self.counted < number:
            self._wait(limit, f"message {number}")
            self._look()
        got, check = _NUMBER.unpack_from(self._buffer.view, _SIZE)
        if got != number or check != ~number & 0xFFFF_FFFF_FFFF_FFFF:
            raise PlayError(f"message {got} came instead of message {number}")
        if number < self._orders.messages:
            self._post_receive()

    def _look(self) -> None:
        """Read what may have made the wait set ready, else the next wait ends at once."""
        try:
            entries = self._cq.read()
        except ErrorAvailable:
            error = self._cq.readerr()
            raise PlayError(f"completion queue: {error and error.exception()}") from None
        self.received += len(entries)
        self.counted = self._counter.read()
        if not entries and (event := self._look_eq()):
            raise PlayError(f"event {event.event!r} in the middle of the game")


def run(name: str, serves: bool, orders: Orders, control: Connection) -> None:
    """Be a player; the body of its process."""
    # The name that the probes will see.
    Path("/proc/self/comm").write_text(name, encoding="ascii")
    try:
        with Player(name, orders, control) as player:
            (player.connect if serves else player.listen)()
            player.meet()
            (player.serve if serves else player.answer)()
            player.part()
    except (PlayError, KfiError, OSError) as error:
        control.send(("failed", f"{type(error).__name__}: {error}"))
