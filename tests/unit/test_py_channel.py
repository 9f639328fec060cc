# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Completion channels over a fake of the kernel: events, acks, who forgets them."""

from __future__ import annotations

import asyncio
import errno
import gc
import time
import warnings
from typing import Any

import pytest
from fake_kernel import FakeKernel

import kfabric_py as kp
from kfabric_py import _uapi, aio

LIMIT = 10.0


@pytest.fixture
def channel(fabric: kp.Fabric) -> kp.CompChannel:
    """An open channel."""
    return fabric.comp_channel()


def told(domain: kp.Domain, channel: kp.CompChannel, **options: Any) -> kp.CompletionQueue:
    """Open a queue that has the channel, and ask for an event."""
    cq = domain.cq(channel=channel, **options)
    cq.req_notify()
    return cq


def owed(kernel: FakeKernel, cq: kp.CompletionQueue) -> int:
    """How many acks the kernel is owed for a queue."""
    return kernel.unacked.get(cq._handle, 0)


def test_event_is_the_queue_and_its_context(
    kernel: FakeKernel, domain: kp.Domain, channel: kp.CompChannel
) -> None:
    plain, named = told(domain, channel), told(domain, channel, context="mine")
    kernel.complete(named)
    kernel.complete(plain)
    assert list(channel) == [(named, "mine"), (plain, plain)]
    assert channel.get_cq_event() is None
    for cq in (plain, named):
        cq.ack_events()


def test_timeouts_are_deadlines(kernel: FakeKernel, channel: kp.CompChannel) -> None:
    before = time.monotonic_ns()
    for timeout in (None, 0, 5.0):
        assert channel.get_cq_event(timeout=timeout) is None
    deadlines = [arg.deadline for name, arg in kernel.calls if name == "get_cq_event"]
    assert deadlines[:2] == [_uapi.KFAB_DEADLINE_NONE, _uapi.KFAB_DEADLINE_NOW]
    assert deadlines[2] >= before + 5_000_000_000


def test_channel_that_does_not_block_checks_once(kernel: FakeKernel, fabric: kp.Fabric) -> None:
    channel = fabric.comp_channel(blocking=False)
    assert not channel.blocking
    channel.get_cq_event(timeout=5)
    channel.set_blocking(True)
    channel.get_cq_event()
    deadlines = [arg.deadline for name, arg in kernel.calls if name == "get_cq_event"]
    assert deadlines == [_uapi.KFAB_DEADLINE_NOW, _uapi.KFAB_DEADLINE_NONE]


@pytest.mark.parametrize("solicited", [False, True])
def test_requests_say_what_they_want(
    kernel: FakeKernel, domain: kp.Domain, channel: kp.CompChannel, solicited: bool
) -> None:
    cq = domain.cq(channel=channel)
    kernel.queues[cq._handle].append((0, 0))
    assert cq.req_notify(solicited_only=solicited) is False
    assert cq.req_notify(solicited_only=solicited, report_missed=True) is True
    kind = _uapi.KFAB_NOTIFY_SOLICITED if solicited else _uapi.KFAB_NOTIFY_NEXT
    flags = [arg.flags for name, arg in kernel.calls if name == "req_notify"]
    assert flags == [kind, kind | _uapi.KFAB_NOTIFY_MISSED]


def test_channel_that_is_refused_leaves_no_queue(
    kernel: FakeKernel, domain: kp.Domain, channel: kp.CompChannel
) -> None:
    kernel.fail["channel_bind"] = errno.EINVAL
    with pytest.raises(kp.KfiError):
        domain.cq(channel=channel)
    assert kernel.closed == [channel._handle + 1]


def test_acking_at_once_leaves_nothing_to_ack(
    kernel: FakeKernel, domain: kp.Domain, channel: kp.CompChannel
) -> None:
    cq = told(domain, channel)
    kernel.complete(cq)
    assert channel.get_cq_event(ack=True, notify=True) is not None
    assert owed(kernel, cq) == 0
    kernel.complete(cq)
    assert channel.get_cq_event(ack=True) is not None


def test_refused_ack_counts_nothing(
    kernel: FakeKernel, domain: kp.Domain, channel: kp.CompChannel
) -> None:
    """B51: nothing is acked then."""
    cq = told(domain, channel)
    kernel.complete(cq)
    assert channel.get_cq_event() is not None
    with pytest.raises(kp.KfiError):
        cq.ack_events(2)
    with pytest.raises(OverflowError):
        cq.ack_events(-1)
    assert owed(kernel, cq) == 1


def test_exception_between_get_and_ack_does_not_hang(
    kernel: FakeKernel, domain: kp.Domain, channel: kp.CompChannel
) -> None:
    """B51: leaving by an exception acknowledges what was got."""
    cq = told(domain, channel)
    kernel.complete(cq)
    with pytest.raises(ZeroDivisionError), cq:
        assert channel.get_cq_event() is not None
        raise ZeroDivisionError
    assert owed(kernel, cq) == 0
    assert cq.closed


def test_plain_close_leaves_the_acks_to_who_owes_them(
    kernel: FakeKernel, domain: kp.Domain, channel: kp.CompChannel
) -> None:
    """E3: the kernel waits for them."""
    cq = told(domain, channel)
    kernel.complete(cq)
    assert channel.get_cq_event() is not None
    cq.close()
    assert owed(kernel, cq) == 1


def test_closing_the_parent_acks(
    kernel: FakeKernel, domain: kp.Domain, channel: kp.CompChannel
) -> None:
    cq = told(domain, channel)
    kernel.complete(cq)
    assert channel.get_cq_event() is not None
    domain.close()
    assert owed(kernel, cq) == 0


def test_forgotten_queue_is_owed_nothing(
    kernel: FakeKernel, domain: kp.Domain, channel: kp.CompChannel
) -> None:
    """E3: nobody has its events any more, so its close must not wait for them."""
    cq = told(domain, channel)
    handle = cq._handle
    kernel.complete(cq)
    event = channel.get_cq_event()
    with pytest.warns(ResourceWarning):
        del cq, event
        gc.collect()
    assert handle in kernel.closed
    assert handle not in kernel.unacked


@pytest.mark.parametrize("ack", [False, True])
def test_queue_may_be_collected_where_its_event_is_got(
    kernel: FakeKernel,
    domain: kp.Domain,
    channel: kp.CompChannel,
    monkeypatch: pytest.MonkeyPatch,
    ack: bool,
) -> None:
    """E3, B51: in the very thread, between the kernel's answer and the look for the queue."""
    queues = [told(domain, channel)]
    kernel.complete(queues[0])
    answer = kernel.get_cq_event

    def collect(arg: Any) -> None:
        answer(arg)
        queues.clear()
        gc.collect()

    monkeypatch.setattr(kernel, "get_cq_event", collect)
    # Recorded, the warning would keep the queue.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        assert channel.get_cq_event(timeout=0, ack=ack) is None
    assert len(kernel.closed) == 1


def test_event_of_a_queue_that_nobody_knows_is_acked(
    kernel: FakeKernel, domain: kp.Domain, channel: kp.CompChannel
) -> None:
    cq = told(domain, channel)
    other = told(domain, channel)
    kernel.complete(cq)
    kernel.complete(other)
    del domain._client.objects[cq._handle]
    event = channel.get_cq_event()
    assert event is not None and event.cq is other
    assert (owed(kernel, cq), owed(kernel, other)) == (0, 1)
    other.ack_events()


def test_await_an_event(kernel: FakeKernel, domain: kp.Domain, channel: kp.CompChannel) -> None:
    cq = told(domain, channel)

    async def main() -> list[kp.CqEvent]:
        with aio.wrap(channel) as awaited:
            task = asyncio.ensure_future(awaited.get_cq_event(ack=True, notify=True))
            await asyncio.sleep(0)
            assert not task.done()
            kernel.complete(cq)
            first = await task
            kernel.complete(cq)
            async for event in awaited:
                event.cq.ack_events()
                return [first, event]
        raise AssertionError

    got = asyncio.run(asyncio.wait_for(main(), LIMIT))
    assert [event.cq for event in got] == [cq, cq]
    assert owed(kernel, cq) == 0


def test_closing_the_channel_ends_the_await(kernel: FakeKernel, channel: kp.CompChannel) -> None:
    async def main() -> None:
        with aio.wrap(channel) as awaited:
            task = asyncio.ensure_future(awaited.get_cq_event())
            await asyncio.sleep(0)
            channel.close()
            with pytest.raises(kp.ClosedError):
                await task

    asyncio.run(asyncio.wait_for(main(), LIMIT))
