# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Completion channels: requests, events, and waiting for them."""

from __future__ import annotations

import errno
import random
import select
import threading
import time
from collections.abc import Sequence

import pytest
import uapi_support as raw
from channel_support import (
    MISSED,
    NEXT,
    SOLICITED,
    InThread,
    Told,
    event_of,
    get,
    request,
    waits,
)
from guest_support import LIMIT, Mock

import kfabric_py as kp
from kfabric.guest.waiting import Deadline, wait_until
from kfabric_py import _uapi

pytestmark = pytest.mark.core

BOTH = NEXT | SOLICITED

#: Requests that follow each other, and whether an unsolicited success answers them.
REQUESTS: dict[str, tuple[Sequence[int], bool]] = {
    "solicited": ([SOLICITED], False),
    "next": ([NEXT], True),
    "solicited, next": ([SOLICITED, NEXT], True),
    "next, solicited": ([NEXT, SOLICITED], True),
    "both bits": ([BOTH], True),
    "next, next": ([NEXT, NEXT], True),
    "solicited, solicited": ([SOLICITED, SOLICITED], False),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("strong", ["solicited", "failed"])
def test_request_is_answered_once_by_what_it_asked_for(mock: Mock, name: str, strong: str) -> None:
    """E1, B10: a success, then a solicited or failed one; one event, at the right moment."""
    told = Told.new(mock)
    flags, by_any = REQUESTS[name]
    for flag in flags:
        assert request(told.cq, flag) == 0
    told.inject()
    assert told.events() == (1 if by_any else 0)
    told.inject(**({"solicited": 1} if strong == "solicited" else {"err": 5}))
    assert told.events() == (0 if by_any else 1)
    told.inject(solicited=1)
    told.inject(err=5)
    assert told.events() == 0
    told.drain()


def test_nobody_asked(mock: Mock) -> None:
    """E1: completions of all kinds, and no event."""
    told = Told.new(mock)
    for options in ({}, {"solicited": 1}, {"err": 5}):
        told.inject(**options)
    assert told.channel.get_cq_event(timeout=0) is None
    told.drain()


def test_one_event_for_many_entries(mock: Mock) -> None:
    """E1, B54: 64 completions, one event; reading 16 at a time gets them all."""
    told = Told.new(mock, size=128)
    told.cq.req_notify()
    told.mock.inject(told.ep, count=64)
    assert told.events() == 1
    assert [len(told.cq.read(16)) for _ in range(5)] == [16, 16, 16, 16, 0]


def test_event_without_an_entry(mock: Mock) -> None:
    """E1, B54: the entry is read before the event is got; the event comes all the same."""
    told = Told.new(mock)
    told.cq.req_notify()
    told.inject()
    assert len(told.cq.read()) == 1
    event = told.channel.get_cq_event(timeout=LIMIT)
    assert event is not None and event.cq is told.cq
    assert event.cq.read() == []
    event.cq.ack_events()


def test_request_is_in_effect_when_it_returns(mock: Mock) -> None:
    """E1, B55: with no other call behind it, twice, and after much was read without it."""
    told = Told.new(mock, size=8)
    for _ in range(3 * 8):
        told.inject()
        assert len(told.cq.read()) == 1
    for _ in range(3):
        told.cq.req_notify()
        told.cq.req_notify()
        told.inject()
        told.inject()
        assert told.events() == 1
        told.drain()


def test_what_was_there_before_makes_no_event_and_is_told(mock: Mock) -> None:
    """E1: an entry, an error, an overrun from before the request."""
    told = Told.new(mock, size=2)
    assert told.cq.req_notify(report_missed=True) is False
    told.inject()
    assert told.events() == 1
    assert told.cq.req_notify(report_missed=True) is True
    assert request(told.cq, NEXT) == 0
    told.drain()
    told.inject(err=5)
    assert told.events() == 1
    assert request(told.cq, SOLICITED | MISSED) == 1
    told.drain()
    assert request(told.cq, SOLICITED | MISSED) == 0


def test_request_that_makes_no_sense_is_refused(mock: Mock) -> None:
    """E1, O2: no bit, unknown bits, a queue without channel; nothing is requested."""
    told = Told.new(mock)
    for flags in (0, MISSED, 8, NEXT | 8):
        assert request(told.cq, flags) == -errno.EINVAL
    told.inject()
    assert told.events() == 0
    assert request(mock.cq(), NEXT) == -errno.EINVAL
    told.drain()


def test_queue_has_one_channel_for_good(mock: Mock) -> None:
    """E2, O2: a second one is refused, and the first goes on."""
    told = Told.new(mock)
    for other in (told.channel, mock.channel()):
        arg = raw.sample("CHANNEL_BIND", cq=told.cq._handle, channel=other._handle)
        assert raw.call(mock.device.fileno(), "CHANNEL_BIND", arg) == -errno.EINVAL
    told.make_events(1)
    assert told.events() == 1


def test_overrun_is_a_failure(mock: Mock) -> None:
    """E1, V7, Q2: a queue that overflows answers a request for what failed, and later ones."""
    told = Told.new(mock, size=2)
    told.inject()
    told.inject()
    told.cq.req_notify(solicited_only=True)
    told.inject()
    assert told.events() == 1
    told.cq.req_notify(solicited_only=True)
    told.inject()
    assert told.events() == 1


def test_device_loss_is_a_failure(mock: Mock) -> None:
    """E1, O5, V7: the last error entry makes an event; after it nothing more will come."""
    told = Told.new(mock)
    told.cq.req_notify(solicited_only=True)
    mock.command("lose", mock.domain.trace_id)
    event = told.channel.get_cq_event(timeout=LIMIT)
    assert event is not None
    event.cq.ack_events()
    with pytest.raises(kp.DeviceLost):
        told.channel.get_cq_event(timeout=LIMIT)
    told.drain()


def test_loss_of_all_queues_wakes_everyone(mock: Mock, in_thread: InThread) -> None:
    """O5, V7: threads that sleep in a channel whose queues are all lost get ENODEV."""
    told = Told.new(mock)
    calls = [in_thread(waits(told.channel)).asleep() for _ in range(3)]
    mock.command("lose", mock.domain.trace_id)
    for call in calls:
        with pytest.raises(kp.DeviceLost):
            call.result()
    told.drain()


def test_channel_with_a_living_queue_goes_on(mock: Mock, in_thread: InThread) -> None:
    """O5: one domain is lost, a queue of another one still makes events."""
    told = Told.new(mock)
    with mock.fabric.domain(mock.info) as other, other.cq(4, channel=told.channel):
        mock.command("lose", other.trace_id)
        told.cq.req_notify()
        call = in_thread(waits(told.channel)).asleep()
        told.inject()
        assert event_of(call).cq is told.cq
    told.drain()


def test_last_living_queue_that_leaves_ends_the_waits(mock: Mock, in_thread: InThread) -> None:
    """O5, V7: what is left is lost: who sleeps would sleep for ever."""
    channel = mock.channel()
    with mock.fabric.domain(mock.info) as other, other.cq(4, channel=channel):
        living = mock.domain.cq(4, channel=channel)
        mock.command("lose", other.trace_id)
        call = in_thread(waits(channel)).asleep()
        living.close()
        with pytest.raises(kp.DeviceLost):
            call.result()


def test_event_names_queue_and_context(mock: Mock) -> None:
    """E2: what was given as context when the queue was opened."""
    channel = mock.channel()
    told = Told.new(mock, channel)
    named = mock.cq(4, channel=channel, context="mine")
    ep = mock.endpoint(cq=named)
    for cq in (told.cq, named):
        cq.req_notify()
    told.inject()
    mock.inject(ep)
    got = list(channel)
    assert [(event.cq, event.context) for event in got] == [(told.cq, told.cq), (named, "mine")]
    for event in got:
        event.cq.ack_events()


def test_events_come_in_the_order_in_which_they_happened(mock: Mock) -> None:
    """E2, V10: several of one queue between those of others, none left out."""
    seed = time.monotonic_ns()
    print(f"seed {seed}")
    rng = random.Random(seed)
    channel = mock.channel()
    queues = [Told.new(mock, channel) for _ in range(3)]
    made, got = [], []
    for _ in range(200):
        told = rng.choice(queues)
        told.make_events(1)
        made.append(told.cq)
        for _ in range(rng.randrange(3)):
            event = channel.get_cq_event(timeout=0)
            if event is not None:
                event.cq.ack_events()
                got.append(event.cq)
    got += [event.cq for event in channel]
    assert got == made
    for told in queues:
        told.cq._abandon()


@pytest.mark.parametrize("context", ["process", "softirq", "workqueue"])
def test_event_wakes_a_sleeper(mock: Mock, in_thread: InThread, context: str) -> None:
    """E2, V1, W10: from whatever context the completion is reported."""
    told = Told.new(mock)
    told.cq.req_notify()
    call = in_thread(waits(told.channel)).asleep()
    told.inject(context=context)
    assert event_of(call).cq is told.cq


def test_event_that_comes_before_the_sleep_is_not_lost(mock: Mock, in_thread: InThread) -> None:
    """E2, V2: hook D1, between the last look and the sleep."""
    told = Told.new(mock)
    told.cq.req_notify()
    hook = mock.hook("D1", told.channel)
    call = in_thread(waits(told.channel))
    hook.stopped()
    told.inject()
    hook.go()
    assert event_of(call).cq is told.cq


def test_event_at_the_deadline_is_got(mock: Mock, in_thread: InThread) -> None:
    """E2, V4: hook D5, between the deadline and leaving the queue."""
    told = Told.new(mock)
    told.cq.req_notify()
    hook = mock.hook("D5", told.channel)
    call = in_thread(lambda: told.channel.get_cq_event(timeout=0.02))
    hook.stopped()
    told.inject()
    hook.go()
    assert event_of(call).cq is told.cq


def test_publisher_that_is_slow_to_wake(mock: Mock, in_thread: InThread) -> None:
    """E2, V1: hook D3, between storing and waking: who looks finds the event and its entry."""
    told = Told.new(mock)
    told.cq.req_notify()
    hook = mock.hook("D3", told.channel)
    report = in_thread(told.inject)
    hook.stopped()
    event = told.channel.get_cq_event(timeout=0)
    assert event is not None and len(event.cq.read()) == 1
    event.cq.ack_events()
    hook.go()
    report.result()


def test_each_event_wakes_another_sleeper(mock: Mock, in_thread: InThread) -> None:
    """E2, Q3: as many events as sleepers, all at once: each gets one."""
    channel = mock.channel()
    queues = [Told.new(mock, channel) for _ in range(4)]
    for told in queues:
        told.cq.req_notify()
    calls = [in_thread(waits(channel)).asleep() for _ in queues]
    for told in queues:
        told.inject()
    got = [event_of(call).cq for call in calls]
    assert sorted(cq.trace_id for cq in got) == [told.cq.trace_id for told in queues]


def test_one_event_wakes_one_sleeper(mock: Mock, in_thread: InThread) -> None:
    """E2, Q3: the others sleep on, undisturbed."""
    told = Told.new(mock)
    told.cq.req_notify()
    calls = [in_thread(waits(told.channel)).asleep() for _ in range(3)]
    before = [call.switches for call in calls]
    told.inject()
    wait_until(lambda: any(call.done for call in calls), "the end of a wait", Deadline(LIMIT))
    first = next(call for call in calls if call.done)
    event_of(first)
    others = [call for call in calls if call is not first]
    assert [call.asleep().switches for call in others] == [
        switches for call, switches in zip(calls, before, strict=True) if call is not first
    ]
    told.make_events(2)
    for call in others:
        event_of(call)


def test_channel_that_does_not_block(mock: Mock) -> None:
    """E2: EAGAIN (here: no event) at once, until there is one."""
    told = Told.new(mock, mock.channel(blocking=False))
    assert told.channel.get_cq_event() is None
    assert get(told.channel) == (-errno.EAGAIN, 0xDEAD)
    told.make_events(1)
    event = told.channel.get_cq_event()
    assert event is not None
    event.cq.ack_events()
    assert told.channel.get_cq_event() is None
    told.channel.set_blocking(True)
    assert told.channel.get_cq_event(timeout=0.01) is None


def test_wait_for_an_event_lasts_its_time(mock: Mock) -> None:
    """E2, W4: never early."""
    told = Told.new(mock)
    begin = time.monotonic()
    assert told.channel.get_cq_event(timeout=0.05) is None
    assert time.monotonic() - begin >= 0.05


def test_descriptor_is_readable_exactly_while_there_is_an_event(mock: Mock) -> None:
    """E2, W8: by select, poll and epoll, level and edge."""
    told = Told.new(mock)
    poll, level, edge = select.poll(), select.epoll(), select.epoll()
    poll.register(told.channel, select.POLLIN)
    level.register(told.channel, select.EPOLLIN)
    edge.register(told.channel, select.EPOLLIN | select.EPOLLET)

    def readable() -> list[bool]:
        found = bool(select.select([told.channel], [], [], 0)[0])
        return [found, bool(poll.poll(0)), bool(level.poll(0))]

    told.inject()
    assert readable() == [False] * 3
    told.drain()
    for _ in range(2):
        told.make_events(1)
        assert readable() == [True] * 3
        assert edge.poll(0)
    assert not edge.poll(0)
    # No more than there are: a channel that is ready for ever would keep who asks again.
    for _ in range(2):
        assert told.channel.get_cq_event(timeout=0, ack=True) is not None
    assert readable() == [False] * 3
    level.close()
    edge.close()


def test_descriptor_wakes_who_polls(mock: Mock, in_thread: InThread) -> None:
    """E2, W8: a thread in poll(2) is woken by the event."""
    told = Told.new(mock)
    told.cq.req_notify()
    poll = select.poll()
    poll.register(told.channel, select.POLLIN)
    done = threading.Event()

    def wait() -> int:
        found = poll.poll(LIMIT * 1000)
        done.set()
        return len(found)

    call = in_thread(wait)
    told.inject()
    assert call.result() == 1
    assert told.events() == 1
    told.drain()


@pytest.mark.races
def test_requests_race_with_completions(mock: Mock, in_thread: InThread) -> None:
    """E1, E2, V3, B54: ask, then read until empty, while entries come: none is missed."""
    told = Told.new(mock, size=4096)
    total = 400
    told.cq.req_notify()

    def complete() -> None:
        for _ in range(total):
            told.inject(context="softirq")

    writer = in_thread(complete)
    seen = 0
    while seen < total:
        event = told.channel.get_cq_event(timeout=LIMIT)
        assert event is not None, f"{seen} of {total}"
        event.cq.ack_events()
        event.cq.req_notify()
        seen += sum(1 for _ in event.cq)
    writer.result()
    told.events()


def test_one_call_gets_acks_and_asks_again(mock: Mock) -> None:
    """E1, E3: with the flags, every completion makes its event and none is left to ack."""
    told = Told.new(mock)
    told.cq.req_notify()
    for _ in range(5):
        told.inject()
        event = told.channel.get_cq_event(timeout=LIMIT, ack=True, notify=True)
        assert event is not None and len(list(event.cq)) == 1
    assert told.channel.get_cq_event(timeout=0) is None
    with pytest.raises(kp.KfiError) as refused:
        told.cq.ack_events()
    assert refused.value.errno == errno.EINVAL


def test_manual_progress_makes_events_for_who_sleeps(mock: Mock, in_thread: InThread) -> None:
    """E2, P4: in a domain that reports only when driven, with nothing else to wait on."""
    hints = kp.Info(domain_attr=kp.DomainAttr(data_progress=kp.Progress.MANUAL))
    info = mock.device.getinfo(provider="mock", hints=hints)[0]
    channel = mock.channel()
    with (
        mock.fabric.domain(info) as domain,
        domain.cq(4, wait_obj=kp.WaitObj.NONE, channel=channel) as cq,
        mock.fabric.eq() as eq,
        domain.endpoint(info) as ep,
    ):
        ep.bind(cq, recv=True, transmit=True)
        ep.bind(eq)
        ep.enable()
        cq.req_notify()
        call = in_thread(waits(channel)).asleep()
        mock.inject(ep)
        assert event_of(call).cq is cq
        assert len(cq.read()) == 1


def test_channel_and_wait_set_do_not_disturb_each_other(mock: Mock, in_thread: InThread) -> None:
    """E1, W1, Q8: a member of a wait set that has a channel wakes both, once."""
    channel, wait_set = mock.channel(), mock.wait_set()
    cq = mock.cq(4, channel=channel, wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    cq.req_notify()
    calls = [
        in_thread(waits(channel)).asleep(),
        in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep(),
    ]
    mock.inject(ep)
    event_of(calls[0])
    calls[1].result()
    assert len(cq.read()) == 1


def test_as_many_unread_events_as_there_may_be(mock: Mock) -> None:
    """E4, X3: the next request is refused with ENOBUFS, and works once one was got."""
    told = Told.new(mock)
    most = 1024
    told.make_events(most)
    assert request(told.cq, NEXT) == -errno.ENOBUFS
    event = told.channel.get_cq_event(timeout=0)
    assert event is not None
    told.make_events(1)
    told.cq.ack_events()
    assert told.events() == most


def test_uapi_numbers_are_the_kernels() -> None:
    """E1: the flags of the ioctl are those of the headers."""
    assert (SOLICITED, NEXT, MISSED) == (1, 2, 4)
    assert _uapi.KFAB_SOLICITED == 1 << 61
