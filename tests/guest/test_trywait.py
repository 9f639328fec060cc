# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""trywait: may one block on a descriptor? And the loops that are built on it."""

from __future__ import annotations

import ctypes
import errno
import select
import threading
from collections.abc import Callable
from functools import partial

import pytest
import uapi_support as raw
from descriptor_support import CLASSES, OFFERED, Ready, events, readable
from guest_support import LIMIT, Call, Mock

import kfabric_py as kp

InThread = Callable[[Callable[[], object]], Call[object]]
FD = kp.WaitObj.FD


def try_handles(mock: Mock, *handles: int) -> int:
    """Make the call with bare handles."""
    room = (ctypes.c_uint32 * max(len(handles), 1))(*handles)
    arg = raw.sample(
        "TRYWAIT",
        fabric=mock.fabric._handle,
        count=len(handles),
        handles=ctypes.addressof(room),
    )
    return raw.call(mock.device.fileno(), "TRYWAIT", arg)


@pytest.mark.parametrize("name", CLASSES)
def test_idle_may_block_and_ready_may_not(mock: Mock, name: str) -> None:
    """T1, B38: both answers are reached, at the first call, as often as one asks."""
    ready = CLASSES[name](mock, FD)
    for _ in range(3):
        assert mock.fabric.trywait(ready.obj) is True
        assert mock.fabric.trywait(ready.obj) is True
        ready.make()
        assert mock.fabric.trywait(ready.obj) is False
        assert mock.fabric.trywait(ready.obj) is False
        assert readable(ready.obj.fileno()), "asking consumes nothing"
        ready.drain()


@pytest.mark.parametrize(("name", "kind"), OFFERED)
def test_every_kind_has_an_answer(mock: Mock, name: str, kind: kp.WaitObj) -> None:
    """T2, T4, B39: with a wait object the answer, without one EINVAL, never a crash."""
    ready = CLASSES[name](mock, kind)
    if kind is kp.WaitObj.NONE:
        assert try_handles(mock, ready.obj._handle) == -errno.EINVAL
        return
    assert mock.fabric.trywait(ready.obj) is True
    ready.make()
    assert mock.fabric.trywait(ready.obj) is False


def test_until_the_last_entry_is_read(mock: Mock) -> None:
    """T1, B38: one of five read: do not block; none left: block."""
    ready = CLASSES["cq"](mock, FD)
    assert isinstance(ready.obj, kp.CompletionQueue)
    for _ in range(5):
        ready.make()
    for _ in range(5):
        assert not mock.fabric.trywait(ready.obj)
        assert len(ready.obj.read(1)) == 1
    assert mock.fabric.trywait(ready.obj)


@pytest.mark.parametrize("name", ["cq", "eq", "counter"])
def test_pending_error_is_something_to_read(mock: Mock, name: str) -> None:
    """T1, B19, B38: an error counts until it was read, and no longer."""
    ready = CLASSES[name](mock, FD)
    match ready.obj:
        case kp.CompletionQueue() as cq:
            mock.inject(mock.endpoint(cq=cq), err=5)
        case kp.EventQueue() as eq:
            mock.command("eqerr", eq.trace_id, "err=5")
        case kp.Counter() as cntr:
            cntr.adderr(1)
    assert not mock.fabric.trywait(ready.obj)
    assert ready.obj.readerr()  # type: ignore[union-attr]
    assert mock.fabric.trywait(ready.obj)
    assert events(ready.obj.fileno()) == 0


def test_overrun_is_something_to_read(mock: Mock) -> None:
    """T1, Q2: a queue that has overflowed has that to say for ever."""
    cq = mock.cq(1, wait_obj=FD)
    mock.inject(mock.endpoint(cq=cq), count=4096)
    with pytest.raises(kp.Overrun):
        list(cq)
    assert not mock.fabric.trywait(cq)
    assert readable(cq.fileno())


def test_signals_of_the_user_leave_nothing_to_read(mock: Mock) -> None:
    """T1, W1, Q5, B19: after cq_signal, add and set one may block."""
    cq, cntr = mock.cq(wait_obj=FD), mock.counter(wait_obj=FD)
    cq.signal()
    cntr.add(3)
    cntr.set(1)
    assert mock.fabric.trywait(cq, cntr)
    assert events(cq.fileno()) == events(cntr.fileno()) == 0


@pytest.mark.parametrize("which", range(4))
def test_one_that_is_ready_is_enough(mock: Mock, which: int) -> None:
    """T1, B40: all are checked, wherever in the list it is."""
    all_of_them = [CLASSES[name](mock, FD) for name in CLASSES]
    objects = [ready.obj for ready in all_of_them]
    assert mock.fabric.trywait(*objects)
    all_of_them[which].make()
    assert not mock.fabric.trywait(*objects)
    all_of_them[which].drain()
    assert mock.fabric.trywait(*objects)


def test_the_same_object_twice(mock: Mock) -> None:
    """T2: it is judged twice, and used by nobody afterwards."""
    ready = CLASSES["cq"](mock, FD)
    assert mock.fabric.trywait(ready.obj, ready.obj)
    ready.make()
    assert not mock.fabric.trywait(ready.obj, ready.obj)
    mock.stack.close()
    assert ready.obj.closed


def test_member_is_judged_as_part_of_its_set(mock: Mock) -> None:
    """T2: what a member answers is what its set answers."""
    wait_set = mock.wait_set(wait_obj=FD)
    cq, eq = mock.cq(wait_set=wait_set), mock.eq(wait_set=wait_set)
    assert mock.fabric.trywait(cq, wait_set)
    eq.write()
    assert not mock.fabric.trywait(cq)


def test_one_kind_at_a_time(mock: Mock) -> None:
    """T2: mixed wait objects are EINVAL; a member counts as what its set is."""
    fd, other = mock.cq(wait_obj=FD), mock.cq(wait_obj=kp.WaitObj.YIELD)
    member = mock.cq(wait_set=mock.wait_set(wait_obj=FD))
    assert mock.fabric.trywait(fd, member)
    for pair in ((fd, other), (other, fd), (other, member)):
        assert try_handles(mock, *(cq._handle for cq in pair)) == -errno.EINVAL


def test_wrong_objects_are_refused(mock: Mock) -> None:
    """T2, B40, B39: closed, of another class or fabric, none, too many: nothing is touched."""
    good = CLASSES["cq"](mock, FD)
    good.make()
    with mock.domain.cq(wait_obj=FD) as cq:
        closed = cq._handle
    with mock.device.fabric(mock.info) as fabric, fabric.eq(wait_obj=FD) as foreign:
        refused = {
            closed: errno.EBADF,
            0: errno.EBADF,
            mock.domain._handle: errno.EINVAL,
            mock.fabric._handle: errno.EINVAL,
            mock.poll_set()._handle: errno.EINVAL,
            foreign._handle: errno.EINVAL,
        }
        for handle, number in refused.items():
            for handles in ((handle,), (good.obj._handle, handle), (handle, good.obj._handle)):
                assert try_handles(mock, *handles) == -number
    assert try_handles(mock) == -errno.EINVAL
    assert try_handles(mock, *[good.obj._handle] * 1025) == -errno.EINVAL
    assert readable(good.obj.fileno())
    good.drain()


def test_lost_device_is_no_reason_to_go_on(mock: Mock) -> None:
    """T3, O5: drained and dead: neither answer is true, a loop would spin or hang."""
    cq, cntr = mock.cq(wait_obj=FD), mock.counter(wait_obj=FD)
    eq = mock.eq(wait_obj=FD)
    mock.command("lose", mock.domain.trace_id)
    assert not mock.fabric.trywait(cq)
    assert not mock.fabric.trywait(cntr)
    assert cq.readerr() is not None
    cntr.readerr()
    for lost in (cq, cntr):
        with pytest.raises(kp.DeviceLost):
            mock.fabric.trywait(lost)
        with pytest.raises(kp.DeviceLost):
            mock.fabric.trywait(eq, lost)
    assert mock.fabric.trywait(eq)
    eq.write()
    assert not mock.fabric.trywait(eq, cq), "there is something to read first"


@pytest.mark.parametrize("name", CLASSES)
def test_event_between_begin_and_check(mock: Mock, in_thread: InThread, name: str) -> None:
    """T1, V3, B01: hook D2, before the check: the event is seen."""
    ready = CLASSES[name](mock, FD)
    hook = mock.hook("D2", ready.obj)
    call = in_thread(lambda: mock.fabric.trywait(ready.obj))
    hook.stopped()
    ready.make()
    hook.go()
    assert call.result() is False


@pytest.mark.parametrize("name", ["wait set", "cq", "counter"])
def test_event_after_the_check(mock: Mock, in_thread: InThread, name: str) -> None:
    """T1, V3, B01, B40: hook D2 at the second object, the first was judged: its descriptor tells.

    The other direction: what comes behind the check is not in the answer, so it
    has to be in the descriptor.
    """
    first, second = CLASSES[name](mock, FD), CLASSES["eq"](mock, FD)
    first.obj.fileno()
    hook = mock.hook("D2", second.obj)
    call = in_thread(lambda: mock.fabric.trywait(first.obj, second.obj))
    hook.stopped()
    first.make()
    hook.go()
    assert call.result() is True
    assert readable(first.obj.fileno())
    assert not mock.fabric.trywait(first.obj, second.obj)


def test_event_that_is_stored_and_not_announced(mock: Mock, in_thread: InThread) -> None:
    """T1, V1: hook D3: from storing on the answer is no, and the descriptor readable."""
    ready = CLASSES["cq"](mock, FD)
    hook = mock.hook("D3", ready.obj)
    publisher = in_thread(ready.make)
    hook.stopped()
    assert not mock.fabric.trywait(ready.obj)
    assert readable(ready.obj.fileno())
    hook.go()
    publisher.result()


class Loop:
    """The loop of the documents: ask, block, read until empty; and what it has counted."""

    def __init__(self, mock: Mock, objects: list[Ready], fds: Callable[[], list[int]]) -> None:
        self._mock = mock
        self._objects = objects
        self._fds = fds
        self.blocked = 0
        self.in_vain = 0
        self.found = 0

    def turn(self) -> None:
        """Go round once."""
        asked = self._mock.fabric.trywait(*(ready.obj for ready in self._objects))
        if asked:
            self.blocked += 1
            readable_now, _, _ = select.select(self._fds(), [], [], LIMIT)
            assert readable_now, "it blocked although something came, or was there"
        found = sum(self._read(ready) for ready in self._objects)
        self.in_vain += not found
        self.found += found

    def _read(self, ready: Ready) -> int:
        found = 0
        while ready.drain():
            found += 1
        return found


@pytest.mark.races
@pytest.mark.parametrize("kind", [FD, kp.WaitObj.POLLFD])
def test_loop_never_hangs_and_never_spins(
    mock: Mock, in_thread: InThread, kind: kp.WaitObj
) -> None:
    """T3, W2, B01, B19: 600 events from another thread: all found, and no turn in vain."""
    rounds = 600
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.POLLFD) if kind is not FD else None
    where = {"wait_set": wait_set} if wait_set else {"wait_obj": FD}
    cq, eq = mock.cq(4096, **where), mock.eq(4096, **where)
    ep = mock.endpoint(cq=cq)
    queues = [
        Ready(cq, lambda: mock.inject(ep), lambda: cq.read(1), lambda: None),
        Ready(eq, eq.write, eq.read, lambda: None),
    ]

    def fds() -> list[int]:
        return list(wait_set.pollfds().fds) if wait_set else [cq.fileno(), eq.fileno()]

    room = threading.Semaphore(3)

    def produce() -> None:
        for number in range(rounds):
            assert room.acquire(timeout=LIMIT)
            queues[number % 2].make()

    producer = in_thread(produce)
    loop = Loop(mock, queues, fds)
    while loop.found < rounds:
        before = loop.found
        loop.turn()
        room.release(loop.found - before)
    producer.result()
    assert (loop.found, loop.in_vain) == (rounds, 0)
    assert loop.blocked > 0
    assert mock.fabric.trywait(*(ready.obj for ready in queues))


@pytest.mark.races
def test_counter_loop_never_hangs_and_never_spins(mock: Mock, in_thread: InThread) -> None:
    """T3, B01, B19: the same for a counter: each change is one turn, and none in vain."""
    rounds = 400
    cntr = mock.counter(wait_obj=FD)
    ep = mock.endpoint(cntr=cntr)
    read = threading.Semaphore(1)

    def produce() -> None:
        for _ in range(rounds):
            assert read.acquire(timeout=LIMIT)
            mock.inject(ep, entry=0)

    producer = in_thread(produce)
    for expected in range(1, rounds + 1):
        if mock.fabric.trywait(cntr):
            assert select.select([cntr], [], [], LIMIT)[0] == [cntr]
        assert cntr.read() == expected
        read.release()
    producer.result()
    assert mock.fabric.trywait(cntr)
    assert not readable(cntr.fileno())


@pytest.mark.races
def test_one_loop_does_not_take_the_others_wake(mock: Mock, in_thread: InThread) -> None:
    """B02, V4: one thread reads and asks all the time, another one waits for the value."""
    rounds = 200
    cntr = mock.counter(wait_obj=FD)
    ep = mock.endpoint(cntr=cntr)
    over = threading.Event()

    def disturb() -> None:
        poll = select.poll()
        poll.register(cntr, select.POLLIN)
        while not over.is_set():
            cntr.read()
            mock.fabric.trywait(cntr)
            poll.poll(1)

    helper = in_thread(disturb)
    try:
        for expected in range(1, rounds + 1):
            call = in_thread(partial(cntr.wait, expected, timeout=LIMIT))
            mock.inject(ep, entry=0)
            call.result()
    finally:
        over.set()
    helper.result()


@pytest.mark.races
def test_two_wait_for_the_same_value(mock: Mock, in_thread: InThread) -> None:
    """B02, Q6: both return, and a descriptor is readable for a third."""
    cntr = mock.counter(wait_obj=FD)
    ep = mock.endpoint(cntr=cntr)
    fd = cntr.fileno()
    calls = [in_thread(lambda: cntr.wait(1, timeout=LIMIT)).asleep() for _ in range(2)]
    mock.inject(ep, entry=0)
    for call in calls:
        call.result()
    assert readable(fd)


@pytest.mark.races
def test_two_readers_two_entries(mock: Mock, in_thread: InThread) -> None:
    """B02, Q3: each gets one, whoever else looks at the descriptor."""
    ready = CLASSES["cq"](mock, FD)
    assert isinstance(ready.obj, kp.CompletionQueue)
    cq = ready.obj
    calls = [in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep() for _ in range(2)]
    ready.make()
    ready.make()
    assert [len(call.result()) for call in calls] == [1, 1]  # type: ignore[arg-type]
    assert not readable(cq.fileno())
