# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Completion channels: an event reports which queue has something, once a request.

A queue is opened with a channel. :meth:`CompletionQueue.req_notify` asks for one
event, the next completion makes it, and :meth:`CompChannel.get_cq_event` returns
it. Every event has to be acknowledged. The loop that misses nothing::

    cq.req_notify()
    while event := channel.get_cq_event():
        event.cq.ack_events()
        event.cq.req_notify()
        for entry in event.cq:
            ...

One event stands for any number of entries, and sometimes for none: entries that
arrived between the request and the read may have been read already.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kfabric_py import _uapi
from kfabric_py._call import deadline_after
from kfabric_py._waitable import Waitable
from kfabric_py.errors import KfiError
from kfabric_py.queues import CompletionQueue

if TYPE_CHECKING:
    from kfabric_py.fabric import Fabric

#: struct kfab_cq_event, filled with one call, because every event needs one.
EVENT = struct.Struct("=4IqQ")


class CqEvent(NamedTuple):
    """One event: something was completed on a queue.

    Attributes:
        cq: the queue.
        context: the context that the queue was opened with; the queue itself without
            one.
    """

    cq: CompletionQueue
    context: object


class CompChannel(Waitable):
    """A completion channel, shared by any number of queues of one fabric.

    Its descriptors are readable exactly while it has an event. Iterating yields
    the events that are there now. Closing it while it has queues raises ``Busy``.
    If it closes, threads that wait in it get :class:`ClosedError`.
    """

    def __init__(self, fabric: Fabric, *, blocking: bool, context: object) -> None:
        """Use :meth:`Fabric.comp_channel`."""
        arg = _uapi.kfab_channel_open(fabric=fabric._live_handle())
        super().__init__(fabric, fabric._client, _uapi.KFAB_IOC_CHANNEL_OPEN, arg, context)
        self._blocking = blocking

    @property
    def blocking(self) -> bool:
        """Whether :meth:`get_cq_event` waits."""
        return self._blocking

    def set_blocking(self, blocking: bool) -> None:
        """Set whether calls that begin from now on wait."""
        self._blocking = blocking

    def get_cq_event(
        self, *, timeout: float | None = None, ack: bool = False, notify: bool = False
    ) -> CqEvent | None:
        """Wait for the next event.

        Args:
            timeout: seconds; ``None`` for no limit, 0 for one check. A non-blocking
                channel checks once in any case.
            ack: acknowledge the event at once.
            notify: ask its queue for the next event at once. With ``ack`` and
                ``notify`` the caller only has to read until the queue is empty.

        Returns:
            The event; ``None`` if there is none and the time is up.

        Raises:
            ClosedError: the channel is closed, or was during the call.
            DeviceLost: the devices of all its queues are gone, no event is left.
        """
        deadline = deadline_after(timeout) if self._blocking else _uapi.KFAB_DEADLINE_NOW
        flags = ack * _uapi.KFAB_EVENT_ACK | notify * _uapi.KFAB_EVENT_NOTIFY
        while True:
            arg = _uapi.kfab_cq_event()
            EVENT.pack_into(arg, 0, EVENT.size, flags, self._live_handle(), 0, deadline, 0)
            if self._client.attempt(_uapi.KFAB_IOC_GET_CQ_EVENT, arg) is None:
                return None
            cq = self._client.objects.get(arg.out_cq)
            if isinstance(cq, CompletionQueue):
                return CqEvent(cq, cq.context)
            if not ack:
                self._ack_forgotten(arg.out_cq)

    def _ack_forgotten(self, handle: int) -> None:
        """Acknowledge an event of a queue that the program forgot and that is, or was, closed."""
        arg = _uapi.kfab_ack_cq_events(cq=handle, count=1)
        try:
            self._client(_uapi.KFAB_IOC_ACK_CQ_EVENTS, arg)
        except KfiError as error:
            # The queue is closed by now, or its close has discarded the event.
            if error.errno not in (errno.EBADF, errno.EINVAL):
                raise

    def __iter__(self) -> Iterator[CqEvent]:
        """Yield events until there is none; waits for nothing."""
        while event := self.get_cq_event(timeout=0):
            yield event
