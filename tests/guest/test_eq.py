# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Event queues: blocking reads, peeking, errors, order."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

import pytest
import uapi_support as raw
from guest_support import LIMIT, Call, Mock

import kfabric_py as kp

InThread = Callable[[Callable[[], object]], Call[object]]


def test_written_event_comes_back(mock: Mock) -> None:
    """An event of one's own: number, object, context and data."""
    eq, context = mock.eq(), object()
    eq.write(77, fid=mock.domain, context=context, data=2**63)
    event = eq.read()
    assert event is not None
    assert (event.event, event.fid, event.data) == (77, mock.domain, 2**63)
    assert event.context is context
    assert eq.read() is None


def test_close_takes_back_what_was_reported_and_not_what_was_written(mock: Mock) -> None:
    """O3, V6: the program's own event outlives its object, and names it by a number."""
    eq = mock.eq()
    about = mock.domain.endpoint(mock.info)
    about.bind(mock.cq(), recv=True, transmit=True)
    about.bind(eq)
    about.enable()
    handle = about._live_handle()
    eq.write(77, fid=about)
    mock.command("event", about.trace_id, int(kp.Event.SHUTDOWN))
    about.close()
    arg = raw.sample("EQ_READ", eq=eq._live_handle())
    assert raw.call(mock.device.fileno(), "EQ_READ", arg) > 0
    assert (arg.out_event, arg.out_handle) == (77, handle)
    assert eq.read() is None
    close = raw.sample("CLOSE", handle=handle)
    assert raw.call(mock.device.fileno(), "CLOSE", close) == -errno.EBADF


def test_event_about_an_endpoint_names_it(mock: Mock) -> None:
    """A provider's event: the endpoint, and the context that it was opened with."""
    eq = mock.eq()
    ep = mock.endpoint(eq=eq)
    mock.command("event", ep.trace_id, int(kp.Event.CONNECTED))
    event = eq.read()
    assert event is not None
    assert event.event is kp.Event.CONNECTED
    assert event.fid is ep
    assert event.context is ep


@pytest.mark.parametrize("context", ["process", "softirq", "workqueue"])
def test_event_wakes_sread(mock: Mock, in_thread: InThread, context: str) -> None:
    """Q1, W10: a thread asleep in sread gets the event."""
    eq = mock.eq()
    call = in_thread(lambda: eq.sread(timeout=LIMIT)).asleep()
    mock.command("event", eq.trace_id, 0, "data=497", f"context={context}")
    event = call.result()
    assert isinstance(event, kp.EqEvent)
    assert (event.event, event.data) == (kp.Event.NOTIFY, 497)


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_sread_comes_back_empty_at_its_deadline(mock: Mock, timeout: float) -> None:
    """Q1, B25: EAGAIN (here: None) when the time has passed, and not earlier."""
    eq = mock.eq()
    begin = time.monotonic()
    assert eq.sread(timeout=timeout) is None
    assert time.monotonic() - begin >= timeout


def test_sread_returns_what_is_there(mock: Mock) -> None:
    """Q1: also with one check."""
    eq = mock.eq()
    eq.write(data=1)
    event = eq.sread(timeout=0)
    assert event is not None and event.data == 1


def test_one_event_goes_to_one_of_two_sleepers(mock: Mock, in_thread: InThread) -> None:
    """Q3, V5: the other one sleeps on until there is one for it."""
    eq = mock.eq()
    calls = [in_thread(lambda: eq.sread(timeout=LIMIT)).asleep() for _ in range(2)]
    eq.write(data=1)
    eq.write(data=2)
    events = [call.result() for call in calls]
    assert {event.data for event in events if isinstance(event, kp.EqEvent)} == {1, 2}


def test_peek_consumes_nothing(mock: Mock) -> None:
    """Q7: the same event, context included, as often as one looks, and then once more."""
    eq, context = mock.eq(), object()
    eq.write(context=context, data=7)
    looks = [eq.read(peek=True), eq.sread(timeout=LIMIT, peek=True), eq.read()]
    assert looks[0] == looks[1] == looks[2]
    assert looks[0] is not None and looks[0].context is context
    assert eq.read(peek=True) is None


def test_events_keep_their_order(mock: Mock) -> None:
    """Q2: around the ring more than once."""
    eq = mock.eq(8)
    seen: list[int] = []
    for number in range(97):
        eq.write(data=number)
        if number % 5 == 4:
            seen += [event.data for event in eq]
    seen += [event.data for event in eq]
    assert seen == list(range(97))


def test_error_is_read_with_readerr_once(mock: Mock) -> None:
    """Q1, B29: EAVAIL from every read while it is at the head; readerr gets it once."""
    eq = mock.eq()
    mock.command("eqerr", eq.trace_id, "err=111", "prov=77", "data=3")
    for _ in range(2):
        with pytest.raises(kp.ErrorAvailable):
            eq.read()
        with pytest.raises(kp.ErrorAvailable):
            eq.sread(timeout=LIMIT)
    assert eq.readerr(peek=True) == eq.readerr(peek=True)
    error = eq.readerr()
    assert error is not None
    assert (error.err, error.prov_errno, error.data) == (111, 77, 3)
    assert isinstance(error.exception(), ConnectionRefusedError)
    assert eq.readerr() is None
    assert eq.read() is None


def test_error_wakes_sread(mock: Mock, in_thread: InThread) -> None:
    """Q1, V7, B27, B28: asleep, then an error: EAVAIL."""
    eq = mock.eq()
    call = in_thread(lambda: eq.sread(timeout=LIMIT)).asleep()
    mock.command("eqerr", eq.trace_id, "err=5", "context=softirq")
    with pytest.raises(kp.ErrorAvailable):
        call.result()
    assert eq.readerr() is not None


def test_errors_and_events_keep_their_order(mock: Mock) -> None:
    """Q2, B28: an event, an error, an event, as they happened."""
    eq = mock.eq()
    eq.write(data=1)
    mock.command("eqerr", eq.trace_id, "err=5")
    eq.write(data=2)
    first = eq.read()
    assert first is not None and first.data == 1
    with pytest.raises(kp.ErrorAvailable):
        eq.read()
    assert eq.readerr() is not None
    second = eq.read()
    assert second is not None and second.data == 2


def test_queue_without_wait_object_refuses_to_block(mock: Mock) -> None:
    """W8: NONE forbids blocking calls; reading works."""
    eq = mock.eq(wait_obj=kp.WaitObj.NONE)
    eq.write()
    with pytest.raises(kp.KfiError, match="EINVAL"):
        eq.sread(timeout=0)
    assert eq.read() is not None


def test_queue_with_a_sleeper_does_not_close(mock: Mock, in_thread: InThread) -> None:
    """O1: EBUSY while a thread sleeps in it."""
    eq = mock.eq()
    call = in_thread(lambda: eq.sread(timeout=LIMIT)).asleep()
    with pytest.raises(kp.Busy):
        eq.close()
    eq.write()
    assert call.result() is not None
    eq.close()
