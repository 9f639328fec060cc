# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The two sides of the comparison of completion channels: what both can do, and ours.

A side has one channel. A queue is named by a letter, has the channel, and belongs to one
end of a connection over the link: ``a`` and ``b`` are told of what this end receives,
``s`` of what it sends. Calls answer in words.
"""

from __future__ import annotations

import contextlib
import select
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import channel_support
import uapi_support as raw
from guest_support import LIMIT
from side_support import Sleeper, code
from verbs_support import Net

import kfabric_py as kp
from kfabric.guest import topology
from kfabric.guest.sleeping import WAIT_POINT
from kfabric.guest.waiting import Deadline, wait_until

#: Seconds after which an event that nobody expects is said not to come. One that is
#: expected is waited for as long as it takes, so this is no criterion.
SETTLE = 0.2
SIZE = 64
NOTHING, READABLE, NOT_READABLE = "-EAGAIN", "readable", "not readable"


@dataclass
class Queue:
    """A completion queue and the connection that it belongs to."""

    name: str
    cq: Any
    #: This end and its peer, and what else the side needs.
    ends: Any
    #: What was read of it in order to know that it is there: 1 for a failure, else 0.
    taken: list[int] = field(default_factory=list)

    @property
    def receives(self) -> bool:
        """Is it told of receives, not of sends?"""
        return self.name in "ab"


class Side(ABC):
    """What a scenario can do."""

    #: Functions of the kernel in which a thread sleeps: in a wait, in a destroy.
    sleeps_in: ClassVar[dict[str, str]]

    def __init__(self, patience: float) -> None:
        """Give up blocking calls after so many seconds."""
        self.patience = patience
        #: What the next answer is expected to be.
        self.expected = ""
        self.queues: dict[str, Queue] = {}

    @abstractmethod
    def open(self, name: str) -> None:
        """Open a queue and connect its ends."""

    @abstractmethod
    def arm(self, queue: Queue, solicited: bool) -> None:
        """Ask for an event."""

    @abstractmethod
    def transfer(self, queue: Queue, solicited: bool) -> None:
        """Send a message to the queue's end, or from it."""

    @abstractmethod
    def break_(self, queue: Queue) -> None:
        """Post an operation that has to fail, and end the connection."""

    @abstractmethod
    def read(self, queue: Queue) -> list[int]:
        """Read what can be read: 0 for a success, 1 for a failure each."""

    @abstractmethod
    def fd(self) -> int:
        """Return the channel's descriptor."""

    @abstractmethod
    def wait(self) -> str:
        """Get an event, however long it takes."""

    @abstractmethod
    def try_(self) -> str:
        """Get an event without waiting."""

    @abstractmethod
    def fault(self) -> str:
        """Get an event into memory that cannot be written."""

    @abstractmethod
    def ack(self, queue: Queue, count: int) -> str:
        """Acknowledge events."""

    @abstractmethod
    def hang_up(self, queue: Queue) -> None:
        """Close the ends of the queue's connection."""

    @abstractmethod
    def destroy(self, queue: Queue) -> str:
        """Destroy a queue."""

    @abstractmethod
    def destroy_channel(self) -> str:
        """Destroy the channel."""

    def complete(self, queue: Queue, solicited: bool) -> None:
        """Have an operation succeed; return when its completion is in the queue."""
        before = len(queue.taken)
        self.transfer(queue, solicited)
        self._until(queue, before + 1)

    def fail(self, queue: Queue) -> None:
        """Have an operation fail; return when its completion is in the queue."""
        before = len(queue.taken)
        self.break_(queue)
        self._until(queue, before + 1)

    def _until(self, queue: Queue, count: int) -> None:
        def there() -> bool:
            queue.taken += self.read(queue)
            return len(queue.taken) >= count

        wait_until(there, f"{count} completions on {queue.name}", Deadline(LIMIT))

    def drain(self, queue: Queue) -> str:
        """Read until the queue is empty; return how many, and how many of them failed."""
        found, queue.taken = queue.taken + self.read(queue), []
        failed = sum(found)
        return f"{len(found)}" + (f" ({failed} failed)" if failed else "")

    def poll(self) -> str:
        """Ask poll(2) whether there is an event."""
        poll = select.poll()
        poll.register(self.fd(), select.POLLIN)
        seconds = SETTLE if self.expected in (NOTHING, NOT_READABLE) else self.patience
        return READABLE if poll.poll(seconds * 1000) else NOT_READABLE

    def get(self) -> str:
        """Get an event if one comes."""
        self.poll()
        return self.try_()

    def thread(self, call: Callable[[], str], what: str) -> Sleeper:
        """Make a call in a thread; return once it sleeps."""
        return Sleeper(call, self.sleeps_in[what], self.patience).asleep()


def words(call: Callable[[], object]) -> str:
    """Put the result of a call of kfabric_py into words."""
    try:
        result = call()
    except kp.KfiError as error:
        return code(-error.errno)
    return "0" if result is None else str(result)


class Kfabric(Side):
    """kfabric, through kfabric_py and the verbs provider."""

    sleeps_in: ClassVar = {"wait": WAIT_POINT, "destroy": WAIT_POINT}

    def __init__(self, link: topology.RdmaLink, patience: float) -> None:
        """Listen on the link."""
        super().__init__(patience)
        self._device = kp.Device()
        self._net = Net(self._device, link, contextlib.ExitStack())
        self._channel = self._net.fabric.comp_channel()

    def open(self, name: str) -> None:
        kind = "rx" if name in "ab" else "tx"
        peer, mine = self._net.connect(channel=self._channel, only=kind)
        self.queues[name] = Queue(name, mine.cq, (mine, peer))

    def arm(self, queue: Queue, solicited: bool) -> None:
        queue.cq.req_notify(solicited_only=solicited)

    def transfer(self, queue: Queue, solicited: bool) -> None:
        to, from_ = queue.ends if queue.receives else queue.ends[::-1]
        to.ep.recv(to.buffer[:SIZE])
        mark = kp.OpFlags.SOLICITED if solicited else None
        from_.ep.send(from_.buffer[SIZE : 2 * SIZE], flags=mark)

    def break_(self, queue: Queue) -> None:
        mine = queue.ends[0]
        # The peer has no place for what is sent, so that stays under way.
        (mine.ep.recv if queue.receives else mine.ep.send)(mine.buffer[:SIZE])
        mine.ep.shutdown()

    def read(self, queue: Queue) -> list[int]:
        found: list[int] = []
        while True:
            try:
                entries = queue.cq.read()
            except kp.ErrorAvailable:
                queue.cq.readerr()
                found.append(1)
                continue
            if not entries:
                return found
            found += [0] * len(entries)

    def _name(self, event: kp.CqEvent | None) -> str:
        if event is None:
            return NOTHING
        return next(name for name, each in self.queues.items() if each.cq is event.cq)

    def fd(self) -> int:
        return self._channel.fileno()

    def wait(self) -> str:
        return words(lambda: self._name(self._channel.get_cq_event()))

    def try_(self) -> str:
        return words(lambda: self._name(self._channel.get_cq_event(timeout=0)))

    def fault(self) -> str:
        arg = raw.sample("GET_CQ_EVENT", channel=self._channel._handle)
        fd = self._device.fileno()
        return code(raw.with_read_only(fd, raw.Pages.new(), "GET_CQ_EVENT", arg))

    def ack(self, queue: Queue, count: int) -> str:
        return words(lambda: queue.cq.ack_events(count))

    def hang_up(self, queue: Queue) -> None:
        for end in queue.ends:
            end.ep.close()

    def destroy(self, queue: Queue) -> str:
        # The library's call would go on after a signal.
        return code(channel_support.close(queue.cq))

    def destroy_channel(self) -> str:
        return code(channel_support.close(self._channel))
