# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the tests of completion channels share."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import uapi_support as raw
from guest_support import LIMIT, Call, Mock

import kfabric_py as kp
from kfabric_py import _uapi

InThread = Callable[[Callable[[], Any]], Call[Any]]

NEXT = _uapi.KFAB_NOTIFY_NEXT
SOLICITED = _uapi.KFAB_NOTIFY_SOLICITED
MISSED = _uapi.KFAB_NOTIFY_MISSED


@dataclass(frozen=True)
class Told:
    """A queue that has a channel, and an endpoint that reports to it."""

    mock: Mock
    channel: kp.CompChannel
    cq: kp.CompletionQueue
    ep: kp.Endpoint

    @classmethod
    def new(cls, mock: Mock, channel: kp.CompChannel | None = None, size: int = 64) -> Told:
        """Open them; closed with the test."""
        channel = channel or mock.channel()
        cq = mock.cq(size, channel=channel)
        return cls(mock, channel, cq, mock.endpoint(cq=cq))

    def inject(self, **options: Any) -> None:
        """Report a completion."""
        self.mock.inject(self.ep, **options)

    def make_events(self, count: int) -> None:
        """Make events that are not got; what is completed is read."""
        for _ in range(count):
            self.cq.req_notify()
            self.inject()
            list(self.cq)

    def events(self) -> int:
        """Get and acknowledge what is there now; return how many events it was."""
        got = list(self.channel)
        for event in got:
            event.cq.ack_events()
        return len(got)

    def drain(self) -> None:
        """Read whatever can be read."""
        while True:
            try:
                if not self.cq.read():
                    return
            except kp.ErrorAvailable:
                self.cq.readerr()


def request(cq: kp.CompletionQueue, flags: int) -> int:
    """Make a raw request; return its result, an error number negated."""
    return raw.call(
        cq._client.fd, "REQ_NOTIFY", raw.sample("REQ_NOTIFY", cq=cq._handle, flags=flags)
    )


def ack(cq: kp.CompletionQueue, count: int) -> int:
    """Acknowledge, past the library's own count; return the result."""
    arg = raw.sample("ACK_CQ_EVENTS", cq=cq._handle, count=count)
    return raw.call(cq._client.fd, "ACK_CQ_EVENTS", arg)


def get(channel: kp.CompChannel, deadline: int = 0, flags: int = 0) -> tuple[int, int]:
    """Get an event, past the library; return the result and the queue's handle."""
    arg = raw.sample(
        "GET_CQ_EVENT", channel=channel._handle, deadline=deadline, flags=flags, out_cq=0xDEAD
    )
    return raw.call(channel._client.fd, "GET_CQ_EVENT", arg), arg.out_cq


def close(obj: kp.CompletionQueue | kp.CompChannel, flags: int = 0) -> int:
    """Close the kernel's object, past the library; return the result."""
    arg = raw.sample("CLOSE", handle=obj._handle, flags=flags)
    return raw.call(obj._client.fd, "CLOSE", arg)


def gone(obj: kp.CompletionQueue | kp.CompChannel) -> bool:
    """Does the kernel know the handle no more? Tells the library so."""
    if close(obj) != -errno.EBADF:
        return False
    obj._mark_closed()
    return True


def event_of(call: Call[Any]) -> kp.CqEvent:
    """Wait for a thread's event and acknowledge it."""
    event = call.result()
    assert isinstance(event, kp.CqEvent)
    event.cq.ack_events()
    return event


def waits(channel: kp.CompChannel) -> Callable[[], kp.CqEvent | None]:
    """Return a call that waits for an event, for a thread."""
    return lambda: channel.get_cq_event(timeout=LIMIT)
