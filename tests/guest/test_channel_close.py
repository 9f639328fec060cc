# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Completion channels: acks, faults, closing queues and channels, the end of a process."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uapi_support as raw
from channel_support import (
    NEXT,
    InThread,
    Told,
    ack,
    close,
    event_of,
    get,
    gone,
    request,
    waits,
)
from guest_support import LIMIT, Call, Child, Mock, handler

import kfabric_py as kp
from kfabric.guest import sleeping
from kfabric.guest.waiting import Deadline, wait_until
from kfabric_py import _uapi

pytestmark = pytest.mark.core

InChild = Callable[..., Child]
NONE = _uapi.KFAB_DEADLINE_NONE
DISCARD = _uapi.KFAB_CLOSE_DISCARD_EVENTS


@pytest.fixture
def memory() -> Iterator[raw.Pages]:
    """A page whose successor is missing."""
    yield from raw.pages()


def get_events(told: Told, count: int) -> None:
    """Make events and get them; they are owed an ack then."""
    told.make_events(count)
    for _ in range(count):
        assert told.channel.get_cq_event(timeout=0) is not None


def without_endpoint(
    mock: Mock, channel: kp.CompChannel, count: int, **options: Any
) -> kp.CompletionQueue:
    """Open a queue that got events are owed acks of, and that nothing else keeps open."""
    cq = mock.domain.cq(64, channel=channel, **options)
    with mock.domain.endpoint(mock.info) as ep, mock.fabric.eq() as eq:
        ep.bind(cq, recv=True, transmit=True)
        ep.bind(eq)
        ep.enable()
        for _ in range(count):
            cq.req_notify()
            mock.inject(ep)
            assert len(cq.read()) == 1
        ep.close()
    return cq


def got(cq: kp.CompletionQueue, count: int) -> kp.CompletionQueue:
    """Get events of a queue, past the library."""
    assert cq.channel is not None
    for _ in range(count):
        assert get(cq.channel) == (0, cq._handle)
    return cq


def test_acks_may_be_batched(mock: Mock) -> None:
    """E3, V10, B51: five gets, acked as 2, 0 and 3."""
    told = Told.new(mock)
    get_events(told, 5)
    assert [ack(told.cq, count) for count in (2, 0, 3)] == [0, 0, 0]
    assert ack(told.cq, 1) == -errno.EINVAL


@pytest.mark.parametrize("count", [3, 4, 0x80000000, 0xFFFFFFFF])
def test_acking_more_than_was_got_is_refused(mock: Mock, count: int) -> None:
    """E3, V10, B51: nothing is acked then, and nothing wraps."""
    told = Told.new(mock)
    get_events(told, 2)
    told.make_events(1)
    assert ack(told.cq, count) == -errno.EINVAL
    assert ack(told.cq, 2) == 0
    assert told.events() == 1


def test_ack_is_of_one_queue(mock: Mock) -> None:
    """E3, B51: what another queue is owed cannot be given to this one."""
    channel = mock.channel()
    one, other = Told.new(mock, channel), Told.new(mock, channel)
    get_events(one, 1)
    assert ack(other.cq, 1) == -errno.EINVAL
    assert ack(mock.cq(), 1) == -errno.EINVAL
    one.cq.ack_events()


def test_destroying_a_queue_drops_its_unread_events(mock: Mock) -> None:
    """E3, B53, B51: ten of one queue and two of another: the two are left, in order."""
    channel = mock.channel()
    other = Told.new(mock, channel)
    other.make_events(1)
    cq = without_endpoint(mock, channel, 10)
    other.make_events(1)
    cq.close()
    assert [event.cq for event in channel] == [other.cq, other.cq]
    other.cq.ack_events(2)
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    assert not poll.poll(0)


def test_destroying_a_queue_that_is_bound_changes_nothing(mock: Mock) -> None:
    """E3, O1, V8: EBUSY; its events are still there, and its requests are answered."""
    told = Told.new(mock)
    told.make_events(1)
    told.cq.req_notify()
    assert close(told.cq) == -errno.EBUSY
    told.inject()
    assert told.events() == 2
    told.drain()


def test_destroying_a_queue_waits_for_its_acks(mock: Mock, in_thread: InThread) -> None:
    """E3, B51: three got; the close sleeps until the last is acked, and then the handle is gone."""
    cq = got(without_endpoint(mock, mock.channel(), 3), 3)
    closing = in_thread(lambda: close(cq)).asleep()
    for _ in range(2):
        assert ack(cq, 1) == 0
        assert not closing.asleep().done
    assert ack(cq, 1) == 0
    assert closing.result() == 0
    assert gone(cq)


def test_forgiving_close_waits_for_no_ack(mock: Mock) -> None:
    """E3: as at the end of a process, the acks are waived; they come too late then."""
    channel = mock.channel()
    cq = got(without_endpoint(mock, channel, 2), 2)
    assert close(cq, DISCARD) == 0
    assert ack(cq, 1) == -errno.EBADF
    assert gone(cq)


def test_forgiving_close_that_is_refused_forgives_nothing(mock: Mock) -> None:
    """E3, O1: a queue with an endpoint stays, and what it is owed, too."""
    told = Told.new(mock)
    get_events(told, 2)
    assert close(told.cq, DISCARD) == -errno.EBUSY
    assert ack(told.cq, 2) == 0


def test_forgiving_close_wants_no_ack_of_what_is_being_handed_out(
    mock: Mock, in_thread: InThread
) -> None:
    """E3, E4: hook D7; who gets the event may end without a word, as it was said."""
    channel = mock.channel()
    cq = without_endpoint(mock, channel, 1)
    hook = mock.hook("D7", channel)
    getting = in_thread(lambda: get(channel))
    hook.stopped()
    closing = in_thread(lambda: close(cq, DISCARD)).asleep()
    hook.go()
    assert getting.result() == (0, cq._handle)
    assert closing.result() == 0
    assert gone(cq)


def test_forgiving_close_ends_the_wait_of_another(mock: Mock, in_thread: InThread) -> None:
    """E3, B51: it is EBUSY itself; who closed first need not wait any more."""
    cq = got(without_endpoint(mock, mock.channel(), 2), 2)
    closing = in_thread(lambda: close(cq)).asleep()
    assert close(cq, DISCARD) == -errno.EBUSY
    assert closing.result() == 0
    assert gone(cq)


def test_exception_does_not_hang_beside_a_close(mock: Mock, in_thread: InThread) -> None:
    """E3, B51: the thread that owes the ack leaves while another one waits for it."""
    channel = mock.channel()
    cq = got(without_endpoint(mock, channel, 1), 1)
    closing: Call[Any] | None = None
    with pytest.raises(ZeroDivisionError), cq:
        closing = in_thread(cq.close).asleep()
        raise ZeroDivisionError
    assert closing is not None
    closing.result()
    assert cq.closed


def test_ack_between_the_look_and_the_sleep_of_a_close(mock: Mock, in_thread: InThread) -> None:
    """E3, V2: hook D1 in the close; the last ack comes before it sleeps."""
    cq = got(without_endpoint(mock, mock.channel(), 1), 1)
    hook = mock.hook("D1", cq)
    closing = in_thread(lambda: close(cq))
    hook.stopped()
    assert ack(cq, 1) == 0
    hook.go()
    assert closing.result() == 0
    assert gone(cq)


def test_queue_that_is_being_closed_takes_acks_and_nothing_else(
    mock: Mock, in_thread: InThread
) -> None:
    """E3, O3: EBADF; a second close is told that one goes on."""
    channel = mock.channel()
    cq = got(without_endpoint(mock, channel, 1), 1)
    closing = in_thread(lambda: close(cq)).asleep()
    fd = mock.device.fileno()
    assert request(cq, NEXT) == -errno.EBADF
    for name in ("CQ_READ", "CQ_SIGNAL", "CQ_READERR"):
        assert raw.call(fd, name, raw.sample(name, cq=cq._handle)) == -errno.EBADF
    bind = raw.sample("CHANNEL_BIND", cq=cq._handle, channel=channel._handle)
    assert raw.call(fd, "CHANNEL_BIND", bind) == -errno.EBADF
    assert close(cq) == -errno.EBUSY
    assert ack(cq, 2) == -errno.EINVAL
    assert ack(cq, 1) == 0
    assert closing.result() == 0
    assert gone(cq)


def test_other_objects_close_while_a_queue_waits_for_acks(mock: Mock, in_thread: InThread) -> None:
    """E3: the wait holds up nobody else of the client, nor the reading of events."""
    cq = got(without_endpoint(mock, mock.channel(), 1), 1)
    closing = in_thread(lambda: close(cq)).asleep()
    other = mock.domain.cq(4)
    other.close()
    with mock.fabric.eq() as eq:
        eq.write(data=497)
        event = eq.read()
        assert event is not None and event.data == 497
    cq.ack_events()
    assert closing.result() == 0
    assert gone(cq)


class Interrupted(Exception):
    """Raised by a signal handler."""


def _interrupt_when_asleep(tid: int) -> None:
    sleeping.wait_until_asleep(tid, deadline=LIMIT)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def interrupt_close(cq: kp.CompletionQueue, in_thread: InThread) -> None:
    """Close a queue, and end that by a signal when it waits for acks."""

    def stop() -> None:
        raise Interrupted

    with handler(signal.SIGUSR1, stop, restart=False):
        main = threading.get_native_id()
        disturber = in_thread(lambda: _interrupt_when_asleep(main))
        with pytest.raises(Interrupted):
            cq.close()
        disturber.result()


def test_interrupted_destroy_goes_on_when_called_again(mock: Mock, in_thread: InThread) -> None:
    """E3, B51: EINTR; it is still being closed; acked, the second call succeeds."""
    channel = mock.channel()
    cq = without_endpoint(mock, channel, 2)
    event = channel.get_cq_event(timeout=0)
    assert event is not None
    interrupt_close(cq, in_thread)
    assert not cq.closed
    assert request(cq, NEXT) == -errno.EBADF
    assert list(channel) == []
    cq.ack_events()
    cq.close()
    assert gone(cq)


def test_queue_that_is_being_closed_has_left_its_set_once(mock: Mock, in_thread: InThread) -> None:
    """W8, E3: the change index moves when its close begins, and not when that goes on."""
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.POLLFD)
    cq = without_endpoint(mock, mock.channel(), 1, wait_set=wait_set)
    got(cq, 1)
    before = wait_set.pollfds().change_index
    interrupt_close(cq, in_thread)
    left = wait_set.pollfds().change_index
    assert left != before and not wait_set.pollfds().fds
    interrupt_close(cq, in_thread)
    assert wait_set.pollfds().change_index == left
    assert ack(cq, 1) == 0
    cq.close()
    assert wait_set.pollfds().change_index == left


def test_event_is_got_while_its_queue_is_destroyed(mock: Mock, in_thread: InThread) -> None:
    """E3, E4, B53: hook D7, the event is being handed out: it is got, and the close waits."""
    channel = mock.channel()
    cq = without_endpoint(mock, channel, 3)
    hook = mock.hook("D7", channel)
    getting = in_thread(lambda: get(channel))
    hook.stopped()
    closing = in_thread(lambda: close(cq)).asleep()
    hook.go()
    assert getting.result() == (0, cq._handle)
    assert not closing.asleep().done
    assert get(channel)[0] == -errno.EAGAIN
    assert ack(cq, 1) == 0
    assert closing.result() == 0
    assert gone(cq)


def test_event_that_faults_while_its_queue_is_destroyed(
    mock: Mock, memory: raw.Pages, in_thread: InThread
) -> None:
    """E3, E4, X2: it was not got, so nobody can ack it, and the close does not wait."""
    channel = mock.channel()
    cq = without_endpoint(mock, channel, 1)
    hook = mock.hook("D7", channel)
    getting = in_thread(lambda: faulting_get(memory, channel))
    hook.stopped()
    closing = in_thread(lambda: close(cq)).asleep()
    hook.go()
    assert getting.result() == -errno.EFAULT
    assert closing.result() == 0
    assert gone(cq)
    assert get(channel)[0] == -errno.EAGAIN


def faulting_get(memory: raw.Pages, channel: kp.CompChannel, deadline: int = 0) -> int:
    """Get an event into memory that cannot be written."""
    arg = raw.sample("GET_CQ_EVENT", channel=channel._handle, deadline=deadline)
    return raw.with_read_only(channel._client.fd, memory, "GET_CQ_EVENT", arg)


def test_fault_loses_no_event(mock: Mock, memory: raw.Pages) -> None:
    """E4, X2, V6: EFAULT; no ack is owed, and the same event is the next one."""
    channel = mock.channel()
    one, other = Told.new(mock, channel), Told.new(mock, channel)
    one.make_events(1)
    other.make_events(1)
    for _ in range(2):
        assert faulting_get(memory, channel) == -errno.EFAULT
    assert ack(one.cq, 1) == -errno.EINVAL
    assert [event.cq for event in channel] == [one.cq, other.cq]
    one.cq.ack_events()
    other.cq.ack_events()


def test_fault_hands_the_wake_on(mock: Mock, memory: raw.Pages, in_thread: InThread) -> None:
    """E4, V4, X2: of two sleepers the woken one faults; the other gets the event."""
    told = Told.new(mock)
    told.cq.req_notify()
    faulting = in_thread(lambda: faulting_get(memory, told.channel, NONE)).asleep()
    other = in_thread(waits(told.channel)).asleep()
    told.inject()
    assert faulting.result() == -errno.EFAULT
    assert event_of(other).cq is told.cq
    told.drain()


def test_closed_channel_frees_its_sleepers(mock: Mock, in_thread: InThread) -> None:
    """E5, B53: EBADF for each of them, as for who comes later."""
    channel = mock.fabric.comp_channel()
    calls = [in_thread(lambda: get(channel, NONE)).asleep() for _ in range(3)]
    assert close(channel) == 0
    assert [call.result()[0] for call in calls] == [-errno.EBADF] * 3
    assert get(channel)[0] == -errno.EBADF
    assert gone(channel)


def test_channel_closed_between_the_look_and_the_sleep(mock: Mock, in_thread: InThread) -> None:
    """E5, V2: hook D1."""
    channel = mock.fabric.comp_channel()
    hook = mock.hook("D1", channel)
    call = in_thread(lambda: get(channel, NONE))
    hook.stopped()
    assert close(channel) == 0
    hook.go()
    assert call.result()[0] == -errno.EBADF
    assert gone(channel)


def test_channel_with_queues_stays(mock: Mock, in_thread: InThread) -> None:
    """E5, O1, V8, B53: EBUSY, nothing is changed: the sleeper gets its event."""
    told = Told.new(mock)
    told.cq.req_notify()
    call = in_thread(waits(told.channel)).asleep()
    with pytest.raises(kp.Busy):
        told.channel.close()
    told.inject()
    assert event_of(call).cq is told.cq


def test_last_queue_and_then_the_channel_go(mock: Mock, in_thread: InThread) -> None:
    """E5, B53: a thread waits, the last queue is destroyed, then the channel: EBADF."""
    channel = mock.fabric.comp_channel()
    cq = mock.domain.cq(4, channel=channel)
    call = in_thread(waits(channel)).asleep()
    cq.close()
    assert not call.asleep().done
    channel.close()
    with pytest.raises(kp.ClosedError):
        call.result()


def test_descriptor_hangs_up_with_the_channel(mock: Mock, in_thread: InThread) -> None:
    """E5, E2, W8: POLLHUP for who polls, and the descriptor outlives the channel."""
    channel = mock.fabric.comp_channel()
    fd = channel.descriptor()
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    call = in_thread(lambda: poll.poll(LIMIT * 1000))
    channel.close()
    [(_, events)] = call.result()
    assert events & select.POLLHUP
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_channel_is_of_one_fabric(mock: Mock) -> None:
    """E5, O1: a queue of another fabric is refused; the fabric stays while it has channels."""
    with mock.device.fabric(mock.info) as fabric:
        channel = fabric.comp_channel()
        with pytest.raises(kp.KfiError) as refused:
            mock.domain.cq(4, channel=channel)
        assert refused.value.errno == errno.EINVAL
        assert raw.call(
            mock.device.fileno(), "CLOSE", raw.sample("CLOSE", handle=fabric._handle)
        ) == (-errno.EBUSY)
        channel.close()


def _client(report: Callable[[str], None], body: Callable[[Any], None]) -> int:
    """In a child: a client with a queue of which two events were got, and one is unread."""
    device = kp.Device()
    info = device.getinfo(provider="mock")[0]
    fabric = device.fabric(info)
    domain = fabric.domain(info)
    mock = Mock(device, info, fabric, domain)
    told = Told.new(mock)
    get_events(told, 2)
    told.make_events(1)
    report(str(domain.trace_id))
    body(told)
    os._exit(0)


def _exit(told: Told) -> None:
    os._exit(0)


def _sleep(told: Told) -> None:
    signal.pause()


def _get(told: Told) -> None:
    told.channel.get_cq_event(ack=True)
    told.channel.get_cq_event()


def _destroy(told: Told) -> None:
    told.ep.close()
    close(told.cq)


@pytest.mark.parametrize("body", [_exit, _sleep, _get, _destroy])
def test_end_of_a_process_waits_for_no_ack(mock: Mock, in_child: InChild, body: Any) -> None:
    """E3, O4, B51: by exit or SIGKILL, awake, in a get or in a destroy: all is released."""
    child = in_child(lambda report: _client(report, body))
    domain = child.report()
    if body is not _exit:
        assert f"domain {domain}" in mock.state()
        if body is not _sleep:
            sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
        child.kill(signal.SIGKILL)
    assert child.wait() == (0 if body is _exit else -signal.SIGKILL)
    wait_until(
        lambda: f"domain {domain}" not in mock.state(), "the client to be gone", Deadline(LIMIT)
    )


@pytest.mark.races
def test_racing_threads_break_nothing(mock: Mock, in_thread: InThread) -> None:
    """E1, E3, E5, O3: requests, gets, acks, closes and completions of all at once."""
    stop = threading.Event()

    def play(number: int) -> None:
        while not stop.is_set():
            with contextlib.suppress(kp.KfiError, OSError):
                _one_game(mock, number)

    calls: list[Call[Any]] = [in_thread(lambda n=n: play(n)) for n in range(3)]  # type: ignore[misc]
    played = 0
    while played < 40:
        _one_game(mock, 3)
        played += 1
    stop.set()
    for call in calls:
        call.result()


def _one_game(mock: Mock, number: int) -> None:
    """A channel and a queue from open to close, with a getter that is overtaken by the end."""
    channel = mock.fabric.comp_channel()
    getter = Call(lambda: get(channel, NONE, _uapi.KFAB_EVENT_ACK))
    cq = without_endpoint(mock, channel, number)
    cq.close()
    channel.close()
    getter.settle()
    assert getter.result()[0] in (0, -errno.EBADF)
