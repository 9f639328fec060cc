# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Everything that makes an object ready or signals it, against every way to wait for that.

One table of producers, one of waiters; each legal pair of them is a test: the waiter is
asleep, the producer acts, the waiter returns what it should. The second part does the
same over a real RDMA link. (Handlers are in-kernel: the case ``comp_handler_producers`` of
test_inkernel.)
"""

from __future__ import annotations

import select
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from descriptor_support import POLLING
from guest_support import LIMIT, Call, Mock
from rdm_support import Links
from verbs_support import Peer

import kfabric_py as kp
from kfabric.guest import sleeping

InThread = Callable[[Callable[[], object]], Call[object]]

#: Neither a real address nor a real key: the mock provider moves no bytes.
FAR = kp.RemoteRegion(0, 8, 1)
CQ_SIZE = 4


@dataclass(frozen=True)
class World:
    """An endpoint with a CQ, an EQ and a counter, and the wait set that they may be in."""

    mock: Mock
    wait_set: kp.WaitSet
    cq: kp.CompletionQueue
    eq: kp.EventQueue
    cntr: kp.Counter
    ep: kp.Endpoint
    memory: kp.Segment

    @classmethod
    def new(cls, mock: Mock, wait_obj: kp.WaitObj, members: bool) -> World:
        """Open it all; ``members``: in the set, instead of with wait objects of their own."""
        wait_set = mock.wait_set(wait_obj=wait_obj)
        waits = {"wait_set": wait_set} if members else {"wait_obj": wait_obj}
        cq, eq = mock.cq(CQ_SIZE, **waits), mock.eq(**waits)
        cntr = mock.counter(**waits)
        ep = mock.stack.enter_context(mock.domain.endpoint(mock.info))
        ep.bind(cq, recv=True, transmit=True)
        ep.bind(
            cntr,
            **dict.fromkeys(
                ("recv", "transmit", "read", "write", "remote_read", "remote_write"), True
            ),
        )
        ep.bind(eq)
        ep.enable()
        buffer = mock.stack.enter_context(mock.device.buffer(4096))
        return cls(mock, wait_set, cq, eq, cntr, ep, buffer[:8])


@dataclass(frozen=True)
class Producer:
    """One way to make something happen.

    Attributes:
        act: does it.
        cq: what a read of the CQ finds: entry, error, signal, or "" for nothing at all.
        eq: what a read of the EQ finds: event, error.
        cntr: what a wait of the counter for one more finds: reached, error.
        readable: something is left that can be read.
    """

    act: Callable[[World], object]
    cq: str = ""
    eq: str = ""
    cntr: str = ""
    readable: bool = True


def _posted(kind: str, post: Callable[[World], None], **options: Any) -> Callable[[World], None]:
    """Return what posts an operation and completes it."""

    def act(world: World) -> None:
        post(world)
        world.mock.complete(world.ep, kind, **options)

    return act


def _injected(kind: str, **options: Any) -> Callable[[World], None]:
    """Return what reports an operation that nobody posted."""
    return lambda world: world.mock.inject(world.ep, kind, **options)


PRODUCERS: dict[str, Producer] = {
    "send": Producer(_posted("send", lambda w: w.ep.send(w.memory)), "entry", "", "reached"),
    "recv": Producer(_posted("recv", lambda w: w.ep.recv(w.memory)), "entry", "", "reached"),
    "inject": Producer(_posted("send", lambda w: w.ep.inject(w.memory)), "", "", "reached"),
    "read": Producer(_posted("read", lambda w: w.ep.read(w.memory, FAR)), "entry", "", "reached"),
    "write": Producer(
        _posted("write", lambda w: w.ep.write(w.memory, FAR)), "entry", "", "reached"
    ),
    "remote read": Producer(_injected("remote_read", entry=0), "", "", "reached"),
    "remote write with data": Producer(_injected("remote_write", data=497), "entry", "", "reached"),
    "flushed receive": Producer(
        _posted("recv", lambda w: w.ep.recv(w.memory), err=125), "error", "", "error"
    ),
    "flushed send": Producer(
        _posted("send", lambda w: w.ep.send(w.memory), err=125), "error", "", "error"
    ),
    "failed read": Producer(
        _posted("read", lambda w: w.ep.read(w.memory, FAR), err=121), "error", "", "error"
    ),
    "failed inject": Producer(
        _posted("send", lambda w: w.ep.inject(w.memory), err=125), "error", "", "error"
    ),
    "entry from a softirq": Producer(_injected("recv", context="softirq"), "entry", "", "reached"),
    "entry from a work item": Producer(
        _injected("recv", context="workqueue"), "entry", "", "reached"
    ),
    "overrun": Producer(lambda w: w.mock.inject(w.ep, count=CQ_SIZE + 1), "entry", "", "reached"),
    "cq_signal": Producer(lambda w: w.cq.signal(), "signal", readable=False),
    "eq_write": Producer(lambda w: w.eq.write(), eq="event"),
    "connected": Producer(
        lambda w: w.mock.command("event", w.ep.trace_id, int(kp.Event.CONNECTED)), eq="event"
    ),
    "shutdown": Producer(
        lambda w: w.mock.command("event", w.ep.trace_id, int(kp.Event.SHUTDOWN), "context=softirq"),
        eq="event",
    ),
    "failed connection": Producer(
        lambda w: w.mock.command("eqerr", w.ep.trace_id, "err=111"), eq="error"
    ),
    "cntr add": Producer(lambda w: w.cntr.add(1), cntr="reached", readable=False),
    "cntr set": Producer(lambda w: w.cntr.set(1), cntr="reached", readable=False),
    "cntr adderr": Producer(lambda w: w.cntr.adderr(1), cntr="error"),
    "cntr seterr": Producer(lambda w: w.cntr.seterr(1), cntr="error"),
    "counted completion": Producer(_injected("recv", entry=0), cntr="reached"),
    "device loss": Producer(
        lambda w: w.mock.command("lose", w.mock.domain.trace_id), "error", "", "error"
    ),
}


@dataclass(frozen=True)
class Waiter:
    """One way to wait.

    Attributes:
        watches: the objects that it waits for.
        wait_obj: what they are opened with.
        members: they are in the wait set.
        call: blocks; returns what it found.
        readable_only: it ends only when something can be read.
    """

    watches: tuple[str, ...]
    wait_obj: kp.WaitObj
    members: bool
    call: Callable[[World], str]
    readable_only: bool = False


def _wait(world: World) -> str:
    world.wait_set.wait(timeout=LIMIT)
    return "woken"


def _cq_sread(world: World | Peer) -> str:
    try:
        return "entry" if world.cq.sread(1, timeout=LIMIT) else "signal"
    except kp.ErrorAvailable:
        return "error"


def _eq_sread(world: World | Peer) -> str:
    try:
        return "event" if world.eq.sread(timeout=LIMIT) else "nothing"
    except kp.ErrorAvailable:
        return "error"


def _cntr_wait(world: World | Peer) -> str:
    try:
        world.cntr.wait(1, timeout=LIMIT)
    except kp.ErrorAvailable:
        return "error"
    return "reached"


def _poll(fd: int) -> str:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    found = poll.poll(LIMIT * 1000)
    return "woken" if found and found[0][1] & select.POLLIN else f"{found}"


EVERYTHING = ("cq", "eq", "cntr")
QUEUE, FD, POLLFD = kp.WaitObj.QUEUE, kp.WaitObj.FD, kp.WaitObj.POLLFD

WAITERS: dict[str, Waiter] = {
    "wait": Waiter(EVERYTHING, QUEUE, True, _wait),
    "wait on descriptors": Waiter(EVERYTHING, FD, True, _wait),
    "wait by yielding": Waiter(EVERYTHING, kp.WaitObj.YIELD, True, _wait),
    "wait on a condition": Waiter(EVERYTHING, kp.WaitObj.MUTEX_COND, True, _wait),
    "cq_sread": Waiter(("cq",), QUEUE, False, _cq_sread),
    "cq_sread by yielding": Waiter(("cq",), kp.WaitObj.YIELD, False, _cq_sread),
    "eq_sread": Waiter(("eq",), QUEUE, False, _eq_sread),
    "cntr_wait": Waiter(("cntr",), QUEUE, False, _cntr_wait),
    "poll(2) on the set": Waiter(EVERYTHING, FD, True, lambda w: _poll(w.wait_set.fileno()), True),
    "poll(2) on the cq": Waiter(("cq",), FD, False, lambda w: _poll(w.cq.fileno()), True),
    "poll(2) on the eq": Waiter(("eq",), FD, False, lambda w: _poll(w.eq.fileno()), True),
    "poll(2) on the counter": Waiter(("cntr",), FD, False, lambda w: _poll(w.cntr.fileno()), True),
    "poll(2) on the cq in a set": Waiter(
        ("cq",), POLLFD, True, lambda w: _poll(w.cq.fileno()), True
    ),
}


def _legal(producer: Producer, waiter: Waiter) -> bool:
    touched = any(getattr(producer, kind) for kind in waiter.watches)
    return touched and (producer.readable or not waiter.readable_only)


CELLS = [
    (what, how)
    for what, producer in PRODUCERS.items()
    for how, waiter in WAITERS.items()
    if _legal(producer, waiter)
]


def _asleep(call: Call[object], waiter: Waiter) -> None:
    """Return once the waiter sleeps; one that yields never does."""
    if waiter.wait_obj is not kp.WaitObj.YIELD:
        where = POLLING if waiter.readable_only else sleeping.WAIT_POINT
        call.asleep(where)


def _expected(producer: Producer, waiter: Waiter) -> str:
    if len(waiter.watches) > 1 or waiter.readable_only:
        return "woken"
    return str(getattr(producer, waiter.watches[0]))


@pytest.mark.parametrize(("what", "how"), CELLS, ids=lambda name: name.replace(" ", "-"))
def test_producer_ends_the_wait(mock: Mock, in_thread: InThread, what: str, how: str) -> None:
    """V7, W2, W10, Q1, Q5, Q6, B12, B27, B28, B34: asleep, then it happens: the call returns it."""
    producer, waiter = PRODUCERS[what], WAITERS[how]
    world = World.new(mock, waiter.wait_obj, waiter.members)
    call = in_thread(lambda: waiter.call(world))
    _asleep(call, waiter)
    producer.act(world)
    # A signal ends only what has begun, and of one that yields that cannot be seen.
    while waiter.wait_obj is kp.WaitObj.YIELD and not producer.readable and not call.done:
        producer.act(world)
    assert call.result() == _expected(producer, waiter)


@pytest.mark.parametrize("what", [name for name, p in PRODUCERS.items() if not p.readable])
def test_signal_leaves_a_descriptor_unreadable(mock: Mock, what: str) -> None:
    """W8, W1, Q5: what leaves nothing to read makes no descriptor readable."""
    world = World.new(mock, FD, True)
    PRODUCERS[what].act(world)
    poll = select.poll()
    poll.register(world.wait_set.fileno(), select.POLLIN)
    assert poll.poll(0) == []


#
# Over a real RDMA link. The near side acts, the far side waits.
#


def _write_with_data(links: Links, near: Peer, far: Peer) -> None:
    target = links.region(far, far.buffer)
    near.ep.write(near.buffer[:8], target.remote(0, 8), data=497)


@dataclass(frozen=True)
class Real:
    """What happens, and what the far side's cq_sread, cntr_wait or eq_sread returns.

    Attributes:
        act: makes it happen.
        found: by the call that waits.
        types: of the endpoints that have it.
    """

    act: Callable[[Links, Peer, Peer], object]
    found: dict[str, str]
    types: tuple[str, ...] = ("msg", "rdm")


REAL = {
    "recv": Real(
        lambda links, near, far: near.ep.send(near.buffer[:8]),
        {"cq": "entry", "cntr": "reached"},
    ),
    "recv of an injected message": Real(
        lambda links, near, far: near.ep.inject(near.buffer[:8]),
        {"cq": "entry", "cntr": "reached"},
    ),
    "message too long": Real(
        lambda links, near, far: near.ep.send(near.buffer[:9]),
        {"cq": "error", "cntr": "error"},
    ),
    "remote write with data": Real(_write_with_data, {"cq": "entry"}, ("msg",)),
    "flushed receive": Real(
        lambda links, near, far: near.ep.shutdown(),
        {"cq": "error", "cntr": "error", "eq": "event"},
        ("msg",),
    ),
    "peer that goes": Real(
        lambda links, near, far: near.ep.close(),
        {"cq": "error", "cntr": "error", "eq": "event"},
        ("msg",),
    ),
    "cancelled receive": Real(
        lambda links, near, far: far.ep.cancel("posted"),
        {"cq": "error", "cntr": "error"},
        ("rdm",),
    ),
}

REAL_CELLS = [
    (type, what, kind) for what, real in REAL.items() for type in real.types for kind in real.found
]


@pytest.mark.parametrize(("links", "what", "kind"), REAL_CELLS, indirect=["links"])
def test_real_producer_ends_the_wait(
    links: Links, in_thread: InThread, what: str, kind: str
) -> None:
    """V7, W10, B12, B27, B34: over RDMA: messages, writes, flushes and events of the connection."""
    near, far = links.connect()
    far.ep.recv(far.buffer[4096:4104], context="posted")
    calls: dict[str, Callable[[], str]] = {
        "cq": lambda: _cq_sread(far),
        "cntr": lambda: _cntr_wait(far),
        "eq": lambda: _eq_sread(far),
    }
    call = in_thread(calls[kind]).asleep()
    REAL[what].act(links, near, far)
    assert call.result() == REAL[what].found[kind]


@pytest.mark.parametrize("what", ["send", "write", "read"])
@pytest.mark.parametrize("kind", ["cq", "cntr"])
def test_own_operation_ends_the_wait(
    links: Links, in_thread: InThread, what: str, kind: str
) -> None:
    """V7, W10, B12, B14: a thread waits for what another one begins."""
    near, far = links.connect()
    far.ep.recv(far.buffer[4096:4104])
    target = links.region(far, far.buffer).remote(0, 8)
    begin: dict[str, Callable[[], object]] = {
        "send": lambda: near.ep.send(near.buffer[:8]),
        "write": lambda: near.ep.write(near.buffer[:8], target),
        "read": lambda: near.ep.read(near.buffer[:8], target),
    }
    wait = {"cq": lambda: _cq_sread(near), "cntr": lambda: _cntr_wait(near)}[kind]
    call = in_thread(wait).asleep()
    begin[what]()
    assert call.result() == {"cq": "entry", "cntr": "reached"}[kind]
