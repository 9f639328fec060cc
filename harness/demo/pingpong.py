# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: one end of the ping-pong from Python, a process of its own.

An end has one wait set with its EQ, its CQ and a counter of receives. Sends are not signalled,
so each wait has one cause: the other end's message.

The messages between an end and the coordinator over a pipe, in this order:

    end                                     coordinator
                                            ("begin", address and port)
    ("listening", None) (the listener)
    ("connected", (wait set, names))
                                            ("start", (thread, wait set) of the other end)
    ("progress", n) ...
    ("done", None), or at any time ("failed", reason)
                                            ("close", None)

Wait sets are tracing ids, names are of objects by tracing id.
"""

import struct
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import kfabric_py as kp
from kfabric.demo import faults
from kfabric.demo.job import PingPong
from kfabric.guest.waiting import Deadline

_NUMBER = struct.Struct("<QQ")
_SIZE = 64
_CONNECT_SECONDS = 30.0
_WAIT_SECONDS = 10.0
_VICTIM_WAIT_SECONDS = 2.0
_MESSAGE_SECONDS = 30.0
_PROGRESS_EVERY = 100
_HINTS = kp.Info(
    caps=kp.Caps.MSG,
    mode=kp.Mode.LOCAL_MR,
    ep_attr=kp.EpAttr(type=kp.EpType.MSG),
    domain_attr=kp.DomainAttr(mr_mode=kp.MrMode.LOCAL | kp.MrMode.VIRT_ADDR | kp.MrMode.PROV_KEY),
)


class PingPongError(Exception):
    """A message was missing, was not the expected one, or was an error."""


class End:
    """One end of the connection; a context manager that closes its objects."""

    def __init__(self, name: str, parameters: PingPong, control: Connection) -> None:
        self.name = name
        self.received = 0
        self.counted = 0
        self._parameters = parameters
        self._control = control
        self._stack = ExitStack()
        self._wait_seconds = _WAIT_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def listen(self) -> None:
        """Wait for a connection."""
        here = self._begin()
        info = self._device.getinfo(provider="verbs", source=here, hints=_HINTS)[0]
        fabric = self._open_fabric(info)
        passive = self._stack.enter_context(fabric.passive_ep(info))
        passive.bind(self._eq)
        passive.listen()
        self._control.send(("listening", None))
        request = self._await_event(kp.Event.CONNREQ).request
        assert request is not None
        self._open_endpoint(fabric, request.info, request)
        self._ep.accept()
        self._await_event(kp.Event.CONNECTED)

    def connect(self) -> None:
        """Connect to the other end."""
        there = self._begin()
        info = self._device.getinfo(provider="verbs", dest=there, hints=_HINTS)[0]
        fabric = self._open_fabric(info)
        self._open_endpoint(fabric, info, info)
        self._ep.connect()
        self._await_event(kp.Event.CONNECTED)

    def request(self) -> None:
        """Send each message, and wait for its answer."""
        for number in range(1, self._parameters.messages + 1):
            if self._parameters.fault and number == self._parameters.fault_at:
                faults.inject(self._parameters.fault, *self._peer)
            self._send(number)
            self._await_message(number)
            if number % _PROGRESS_EVERY == 0:
                self._control.send(("progress", number))

    def answer(self) -> None:
        """Wait for each message and send it back."""
        if self._parameters.fault:
            self._wait_seconds = _VICTIM_WAIT_SECONDS
        for number in range(1, self._parameters.messages + 1):
            self._await_message(number)
            self._send(number)

    def exchange(self) -> None:
        """Send the names of the objects to the coordinator, and receive the other end's ids."""
        objects = {
            self._wait_set: "wait set",
            self._eq: "EQ",
            self._cq: "CQ",
            self._counter: "counter",
            self._ep: "endpoint",
        }
        names = {thing.trace_id: f"{self.name}'s {word}" for thing, word in objects.items()}
        self._control.send(("connected", (self._wait_set.trace_id, names)))
        self._peer: tuple[int, int] = self._receive("start")

    def finish(self) -> None:
        """Wait until both ends are done: a close could overtake the last message."""
        self._control.send(("done", None))
        self._receive("close")

    def _begin(self) -> tuple[str, int]:
        """Wait for the address; before it comes the device may not exist."""
        address: tuple[str, int] = self._receive("begin")
        self._device = self._stack.enter_context(kp.Device())
        return address

    def _receive(self, word: str) -> Any:
        """Wait for a message. It needs no deadline: the coordinator kills this process."""
        got, value = self._control.recv()
        if got != word:
            raise PingPongError(f"received {got} instead of {word}")
        return value

    def _open_fabric(self, info: kp.Info) -> kp.Fabric:
        fabric = self._stack.enter_context(self._device.fabric(info))
        self._wait_set = self._stack.enter_context(fabric.wait_set(wait_obj=kp.WaitObj.QUEUE))
        self._eq = self._stack.enter_context(fabric.eq(wait_set=self._wait_set))
        return fabric

    def _open_endpoint(
        self, fabric: kp.Fabric, info: kp.Info, what: kp.Info | kp.ConnectionRequest
    ) -> None:
        """Open the endpoint and its objects, and post the first receive."""
        enter = self._stack.enter_context
        domain = enter(fabric.domain(info))
        self._cq = enter(domain.cq(wait_set=self._wait_set))
        self._counter = enter(domain.counter(wait_set=self._wait_set))
        self._buffer = enter(self._device.buffer(2 * _SIZE))
        self._region = enter(domain.mr(self._buffer[:], kp.Access.SEND | kp.Access.RECV))
        self._ep = enter(domain.endpoint(what))
        self._ep.bind(self._eq)
        self._ep.bind(self._cq, transmit=True, selective=True)
        self._ep.bind(self._cq, recv=True)
        self._ep.bind(self._counter, recv=True)
        self._ep.enable()
        self._ep.recv(self._region[_SIZE:])

    def _send(self, number: int) -> None:
        """Send one message; its memory is free again when the answer comes."""
        _NUMBER.pack_into(self._buffer.view, 0, number, ~number & 0xFFFF_FFFF_FFFF_FFFF)
        self._ep.send(self._region[:_SIZE])

    def _wait(self, limit: Deadline, what: str) -> None:
        """One kfi_wait(); its timeout is an error only after `limit`."""
        try:
            self._wait_set.wait(timeout=min(self._wait_seconds, limit.remaining()))
        except kp.KfiTimeout:
            if limit.expired:
                raise PingPongError(f"{what} did not come in {limit.seconds:g} s") from None

    def _await_event(self, wanted: kp.Event) -> kp.EqEvent:
        limit = Deadline(_CONNECT_SECONDS)
        while True:
            self._wait(limit, wanted.name)
            event = self._read_eq()
            if event and event.event is wanted:
                return event

    def _read_eq(self) -> kp.EqEvent | None:
        try:
            return self._eq.read()
        except kp.ErrorAvailable:
            error = self._eq.readerr()
            raise PingPongError(f"event queue: {error and error.exception()}") from None

    def _await_message(self, number: int) -> None:
        """Sleep until a message is in the CQ and counted; post the next receive."""
        limit = Deadline(_MESSAGE_SECONDS)
        while self.received < number or self.counted < number:
            self._wait(limit, f"message {number}")
            self._read()
        got, check = _NUMBER.unpack_from(self._buffer.view, _SIZE)
        if got != number or check != ~number & 0xFFFF_FFFF_FFFF_FFFF:
            raise PingPongError(f"message {got} came instead of message {number}")
        if number < self._parameters.messages:
            self._ep.recv(self._region[_SIZE:])

    def _read(self) -> None:
        """Read all members of the wait set; otherwise the next wait would end at once."""
        try:
            entries = self._cq.read()
        except kp.ErrorAvailable:
            error = self._cq.readerr()
            raise PingPongError(f"completion queue: {error and error.exception()}") from None
        self.received += len(entries)
        self.counted = self._counter.read()
        if not entries and (event := self._read_eq()):
            raise PingPongError(f"event {event.event!r} during the ping-pong")


def run(name: str, connects: bool, parameters: PingPong, control: Connection) -> None:
    """Run one end; the body of its process."""
    # The name that the probes record.
    Path("/proc/self/comm").write_text(name, encoding="ascii")
    try:
        with End(name, parameters, control) as end:
            (end.connect if connects else end.listen)()
            end.exchange()
            (end.request if connects else end.answer)()
            end.finish()
    except (PingPongError, kp.KfiError, OSError) as error:
        control.send(("failed", f"{type(error).__name__}: {error}"))
