# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the tests of wait objects share: one object of each class, and its descriptor."""

from __future__ import annotations

import select
from collections.abc import Callable
from dataclasses import dataclass

from guest_support import Mock

import kfabric_py as kp

Kind = kp.WaitObj
Waits = kp.WaitSet | kp.CompletionQueue | kp.EventQueue | kp.Counter

#: Where a thread sleeps in poll(2), select(2) and epoll_wait(2).
POLLING = r"^(poll_schedule_timeout|schedule_hrtimeout_range|ep_poll|do_epoll_wait|do_sys_poll)"

HANGUP = select.POLLERR | select.POLLHUP


@dataclass(frozen=True)
class Ready:
    """An object that can be waited for, made ready and drained.

    Attributes:
        obj: the object.
        make: makes it ready, by something that one ``drain`` takes.
        drain: reads that.
        check: one blocking call without time to block.
    """

    obj: Waits
    make: Callable[[], object]
    drain: Callable[[], object]
    check: Callable[[], object]


def _wait_set(mock: Mock, kind: kp.WaitObj) -> Ready:
    wait_set = mock.wait_set(wait_obj=kind)
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    return Ready(wait_set, lambda: mock.inject(ep), cq.read, lambda: wait_set.wait(timeout=0))


def _cq(mock: Mock, kind: kp.WaitObj) -> Ready:
    cq = mock.cq(wait_obj=kind)
    ep = mock.endpoint(cq=cq)
    return Ready(cq, lambda: mock.inject(ep), cq.read, lambda: cq.sread(timeout=0))


def _eq(mock: Mock, kind: kp.WaitObj) -> Ready:
    eq = mock.eq(wait_obj=kind)
    return Ready(eq, eq.write, lambda: list(eq), lambda: eq.sread(timeout=0))


def _counter(mock: Mock, kind: kp.WaitObj) -> Ready:
    cntr = mock.counter(wait_obj=kind)
    ep = mock.endpoint(cntr=cntr)
    return Ready(
        cntr, lambda: mock.inject(ep, entry=0), cntr.read, lambda: cntr.wait(2**63, timeout=0)
    )


#: How each class of object is opened, with a wait object of its own.
CLASSES: dict[str, Callable[[Mock, kp.WaitObj], Ready]] = {
    "wait set": _wait_set,
    "cq": _cq,
    "eq": _eq,
    "counter": _counter,
}


#: The wait objects that wait sets, and queues and counters, can be opened with.
SET_KINDS = (Kind.UNSPEC, Kind.QUEUE, Kind.MUTEX_COND, Kind.FD, Kind.POLLFD, Kind.YIELD)
SOURCE_KINDS = (Kind.NONE, Kind.UNSPEC, Kind.QUEUE, Kind.MUTEX_COND, Kind.FD, Kind.YIELD)

OFFERED = [
    (name, kind) for name in CLASSES for kind in (SET_KINDS if name == "wait set" else SOURCE_KINDS)
]


def events(fd: int, timeout: float = 0) -> int:
    """Return what poll(2) says of a descriptor, 0 for nothing; ``timeout`` in seconds."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    found = poll.poll(timeout * 1000)
    return found[0][1] if found else 0


def readable(fd: int) -> bool:
    """Is the descriptor readable now?"""
    return bool(events(fd) & select.POLLIN)
