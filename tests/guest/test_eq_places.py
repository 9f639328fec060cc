# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Places in an event queue: no object's events take those of another object."""

from __future__ import annotations

import contextlib
import errno

import pytest
from guest_support import LIMIT, Mock
from verbs_support import Net

import kfabric_py as kp
from kfabric.guest.waiting import wait_until

#: Events that an endpoint may have unread in its queue (KFI_EP_EVENTS).
PLACES = 3


def fill(eq: kp.EventQueue) -> int:
    """Write events until the queue refuses one, and return how many it took."""
    for written in range(10_000):
        try:
            eq.write(data=written)
        except kp.Again:
            return written
    raise AssertionError("the queue refuses nothing")


def drain(eq: kp.EventQueue) -> list[kp.EqEvent]:
    """Read all events that are there."""
    return [event for event in iter(eq.read, None)]


@pytest.mark.parametrize("size", [1, 5])
def test_queue_holds_what_its_user_asked_for(mock: Mock, size: int) -> None:
    """Q10, Q2: so many events of the user; the next one is refused and changes nothing."""
    eq = mock.eq(size)
    assert fill(eq) == size
    assert [event.data for event in drain(eq)] == list(range(size))
    assert fill(eq) == size


def test_provider_of_a_full_queue_is_refused(mock: Mock) -> None:
    """Q10, Q2: an event and an error event about the queue itself; then it works on."""
    eq = mock.eq(2)
    fill(eq)
    for command in (("event", eq.trace_id, 0), ("eqerr", eq.trace_id, "err=5")):
        with pytest.raises(OSError) as caught:
            mock.command(*command)
        assert caught.value.errno == errno.EAGAIN
    assert len(drain(eq)) == 2
    mock.command("event", eq.trace_id, 0, "data=3")
    assert [event.data for event in drain(eq)] == [3]


def test_full_queue_takes_the_events_of_each_endpoint(mock: Mock) -> None:
    """Q10, O5: connected, shut down and lost, for nine endpoints of a queue of one event."""
    eq = mock.eq(1)
    eps = [mock.endpoint(eq=eq) for _ in range(9)]
    assert fill(eq) == 1
    for number in (kp.Event.CONNECTED, kp.Event.SHUTDOWN):
        for ep in eps:
            mock.command("event", ep.trace_id, int(number))
    mock.command("lose", mock.domain.trace_id)
    assert len(drain_until_error(eq)) == 1 + 2 * len(eps)
    lost = [eq.readerr() for _ in eps]
    assert [(error.fid, error.err) for error in lost if error] == [(ep, errno.ENODEV) for ep in eps]
    assert eq.read() is None


def drain_until_error(eq: kp.EventQueue) -> list[kp.EqEvent]:
    """Read the events before the first error."""
    found: list[kp.EqEvent] = []
    with pytest.raises(kp.ErrorAvailable):
        while event := eq.read():
            found.append(event)
    return found


def test_endpoint_takes_no_place_of_another(mock: Mock) -> None:
    """Q10: its own places end; the user and another endpoint still have theirs."""
    eq = mock.eq(1)
    greedy, modest = mock.endpoint(eq=eq), mock.endpoint(eq=eq)
    for _ in range(PLACES):
        mock.command("event", greedy.trace_id, int(kp.Event.CONNECTED))
    with pytest.raises(OSError) as caught:
        mock.command("event", greedy.trace_id, int(kp.Event.SHUTDOWN))
    assert caught.value.errno == errno.EAGAIN
    for _ in range(PLACES):
        mock.command("event", modest.trace_id, int(kp.Event.CONNECTED))
    assert fill(eq) == 1
    assert len(drain(eq)) == 2 * PLACES + 1


def test_closed_endpoint_takes_its_places_along(mock: Mock) -> None:
    """Q10: a hundred of them, each with unread events, and the queue holds what it held."""
    eq = mock.eq(2)
    for _ in range(100):
        ep = mock.endpoint(eq=eq)
        for _ in range(PLACES):
            mock.command("event", ep.trace_id, int(kp.Event.CONNECTED))
        ep.close()
    assert eq.read() is None
    assert fill(eq) == 2


class Server:
    """A listener and endpoints that all report to one small queue."""

    def __init__(self, net: Net, size: int) -> None:
        """Listen."""
        self.net = net
        self.stack = net._stack
        self.eq = self.stack.enter_context(net.fabric.eq(size))
        self.listener = self.stack.enter_context(net.fabric.passive_ep(net.offer))
        self.listener.bind(self.eq)
        self.listener.listen()
        name = self.listener.getname()
        assert isinstance(name, tuple)
        self.info = net.info_for(
            name[1], hints=kp.Info(tx_attr=kp.TxAttr(size=4), rx_attr=kp.RxAttr(size=4))
        )
        self.domain = self.stack.enter_context(net.fabric.domain(self.info))
        self.cq = self.stack.enter_context(self.domain.cq(16))
        self.eps: list[kp.Endpoint] = []
        self.asking: list[tuple[contextlib.ExitStack, kp.EventQueue]] = []

    def endpoint(
        self,
        stack: contextlib.ExitStack,
        eq: kp.EventQueue,
        what: kp.Info | kp.ConnectionRequest,
    ) -> kp.Endpoint:
        """Open an endpoint that reports to a queue."""
        ep = stack.enter_context(self.domain.endpoint(what))
        ep.bind(self.cq, recv=True, transmit=True)
        ep.bind(eq)
        return ep

    def attempt(self, stack: contextlib.ExitStack) -> tuple[kp.Endpoint, kp.EventQueue]:
        """Begin to connect to the listener."""
        eq = stack.enter_context(self.net.fabric.eq(1))
        ep = self.endpoint(stack, eq, self.info)
        ep.connect()
        return ep, eq

    def connect(self) -> kp.Endpoint:
        """Establish a connection, and return the peer's end."""
        far, far_eq = self.attempt(self.stack)
        event = self.eq.sread(timeout=LIMIT)
        assert event is not None and event.request is not None
        ep = self.endpoint(self.stack, self.eq, event.request)
        ep.accept()
        for eq in (self.eq, far_eq):
            event = eq.sread(timeout=LIMIT)
            assert event is not None and event.event is kp.Event.CONNECTED
        self.eps.append(ep)
        return far

    def ask(self) -> None:
        """Begin to connect once more; the request may find a place or not."""
        stack = self.stack.enter_context(contextlib.ExitStack())
        _, eq = self.attempt(stack)
        self.asking.append((stack, eq))

    def _answered(self) -> int | None:
        """Find an attempt that has an answer."""
        for index, (_, eq) in enumerate(self.asking):
            if eq.readerr(peek=True):
                return index
        return None

    def refused(self) -> None:
        """Wait until one of the attempts was rejected, and give that one up."""
        wait_until(lambda: self._answered() is not None, "a rejected request", LIMIT)
        index = self._answered()
        assert index is not None
        stack, eq = self.asking.pop(index)
        error = eq.readerr()
        assert error is not None and error.err == errno.ECONNREFUSED
        stack.close()

    def shutdowns(self) -> list[object]:
        """Read until each endpoint has reported its end, and reject what else comes."""
        ended: list[object] = []
        while len(ended) < len(self.eps):
            event = self.eq.sread(timeout=LIMIT)
            assert event is not None
            if event.request:
                event.request.close()
            else:
                assert event.event is kp.Event.SHUTDOWN
                ended.append(event.fid)
        return ended

    def close(self) -> None:
        """Close the endpoints, the listener and at last the queue."""
        for ep in self.eps:
            ep.close()
        self.listener.close()
        self.eq.close()


def flood(net: Net, attempts: int) -> None:
    """Let peers ask and give up while no event is read; then end the old connections."""
    places = 4
    server = Server(net, places)
    far = [server.connect() for _ in range(3)]
    for _ in range(places):
        server.ask()
    for _ in range(attempts):
        server.ask()
        server.refused()
    for ep in far:
        ep.close()
    assert sorted(map(id, server.shutdowns())) == sorted(map(id, server.eps))
    server.close()
    for _ in range(places):
        server.refused()


def test_flood_of_requests_costs_no_endpoint_its_event(net: Net) -> None:
    """Q10: 300 requests that are refused, and three connections that end."""
    flood(net, 300)


@pytest.mark.stress
@pytest.mark.parametrize("part", range(20))
def test_long_flood_costs_no_endpoint_its_event(net: Net, part: int) -> None:
    """Q10: 10^4 requests."""
    flood(net, 500)


def test_connections_that_end_together_are_all_reported(net: Net) -> None:
    """Q10: nine endpoints of a queue of two events."""
    server = Server(net, 2)
    for ep in [server.connect() for _ in range(9)]:
        ep.shutdown()
    assert sorted(map(id, server.shutdowns())) == sorted(map(id, server.eps))
    server.close()
