# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A queue whose close waits for acknowledgements, seen by its wait set and by descriptors."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable
from typing import Any

import pytest
from channel_support import ack, close, get, gone
from guest_support import LIMIT, Call, Mock

import kfabric_py as kp

InThread = Callable[[Callable[[], Any]], Call[Any]]


def full(mock: Mock, channel: kp.CompChannel, **options: Any) -> kp.CompletionQueue:
    """Open a queue with an entry that is unread and an event that was got of it."""
    cq = mock.domain.cq(64, channel=channel, **options)
    with mock.fabric.eq() as eq, mock.domain.endpoint(mock.info) as ep:
        ep.bind(cq, recv=True, transmit=True)
        ep.bind(eq)
        ep.enable()
        cq.req_notify()
        mock.inject(ep)
    assert get(channel) == (0, cq._handle)
    # A test that fails has not acknowledged it, and the close would wait for that.
    mock.stack.callback(ack, cq, 1)
    return cq


def test_entry_of_a_dying_queue_makes_nobody_ready(mock: Mock, in_thread: InThread) -> None:
    """E3, W1, W7, T3: nobody can read it any more, so no wait ends because of it."""
    channel = mock.channel()
    wait_set = mock.wait_set()
    cq = full(mock, channel, wait_set=wait_set)
    wait_set.wait(timeout=0)
    closing = in_thread(lambda: close(cq)).asleep()
    with pytest.raises(kp.KfiTimeout):
        wait_set.wait(timeout=0)
    assert ack(cq, 1) == 0
    assert closing.result() == 0
    assert gone(cq)


def test_dying_queue_is_no_member_any_more(mock: Mock, in_thread: InThread) -> None:
    """E3, W8, T3: the list of descriptors is without it, and does not wait for the close."""
    channel = mock.channel()
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.POLLFD)
    cq = full(mock, channel, wait_set=wait_set)
    stays = mock.cq(wait_set=wait_set)
    closing = in_thread(lambda: close(cq)).asleep()
    listing = in_thread(wait_set.pollfds)
    assert len(listing.result().fds) == 1
    assert ack(cq, 1) == 0
    assert closing.result() == 0
    assert gone(cq)
    assert len(wait_set.pollfds().fds) == 1
    stays.close()


def test_descriptor_hangs_up_when_the_close_begins(mock: Mock, in_thread: InThread) -> None:
    """E3, W8: it does not say that the queue can be read."""
    channel = mock.channel()
    cq = full(mock, channel, wait_obj=kp.WaitObj.FD)
    fd = cq.descriptor()
    closing = in_thread(lambda: close(cq)).asleep()
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    assert poller.poll(0) == [(fd, select.POLLERR | select.POLLHUP)]
    os.close(fd)
    assert ack(cq, 1) == 0
    assert closing.result() == 0
    assert gone(cq)


@pytest.mark.races
def test_acks_race_with_closing(mock: Mock) -> None:
    """E3, E4: events are got and acknowledged while their queue is closed: every close ends."""
    channel = mock.channel()
    over = threading.Event()

    def get_and_ack() -> None:
        while not over.is_set():
            event = channel.get_cq_event(timeout=0)
            # The close has acknowledged it, where it was faster.
            with contextlib.suppress(kp.KfiError):
                if event is not None:
                    event.cq.ack_events()

    threads = [threading.Thread(target=get_and_ack, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(211):
            cq = mock.domain.cq(64, channel=channel)
            with mock.fabric.eq() as eq, mock.domain.endpoint(mock.info) as ep:
                ep.bind(cq, recv=True, transmit=True)
                ep.bind(eq)
                ep.enable()
                cq.req_notify()
                mock.inject(ep)
            cq.close()
    finally:
        over.set()
        for thread in threads:
            thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)
