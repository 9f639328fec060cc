# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""BATCH: posts, a wait and reads in one call, and an exact answer if a part of it fails.

::

    posts ── RECV, SEND ... ── endpoint ── CQ ─┐
                                               ├─ wait set ── the call sleeps here
    reads ── CQ_READ, EQ_READ, CNTR_READ ...  ─┘

How many operations are pending, the mock provider knows: it completes none if there are
fewer than a command asks for. test_tables has the deadlines, signals, stops and kills.
"""

from __future__ import annotations

import ctypes
import errno
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import uapi_support as raw
from guest_support import LIMIT, Call, Mock, Side, handler

import kfabric_py as kp
from kfabric.guest.waiting import wait_until
from kfabric_py import _uapi

InThread = Callable[[Callable[[], Any]], Call[Any]]

NOW, NONE = _uapi.KFAB_DEADLINE_NOW, _uapi.KFAB_DEADLINE_NONE
MOST = _uapi.KFAB_BATCH_MAX
#: What outputs have before a call.
POISON = 0x5A5A5A5A
#: Receives that the mock provider keeps pending.
QUEUE = 256
ELEMENT = ctypes.sizeof(_uapi.kfab_batch_call)
EAVAIL, EBADFLAGS = kp.KfabricErrno.KFI_EAVAIL, kp.KfabricErrno.KFI_EBADFLAGS


@pytest.fixture
def memory() -> Iterator[raw.Pages]:
    """A page whose successor is missing."""
    yield from raw.pages()


@dataclass
class Batch:
    """The structure of one batch, and all that it points to."""

    mock: Mock
    posts: list[tuple[str, Any]] = field(default_factory=list)
    reads: list[tuple[str, Any]] = field(default_factory=list)
    wait: int = 0
    deadline: int = 0
    keep: list[Any] = field(default_factory=list)
    arg: Any = None

    def build(self) -> Any:
        """Fill the structure, its outputs with a pattern."""
        self.post_array, self.read_array = self._array(self.posts), self._array(self.reads)
        self.arg = raw.sample(
            "BATCH",
            posts=ctypes.addressof(self.post_array),
            reads=ctypes.addressof(self.read_array),
            post_count=len(self.posts),
            read_count=len(self.reads),
            wait=self.wait,
            deadline=self.deadline,
            out_post_err=POISON,
            out_wait_err=POISON,
        )
        return self.arg

    @staticmethod
    def _array(calls: Sequence[tuple[str, Any]]) -> Any:
        array = (_uapi.kfab_batch_call * len(calls))()
        for element, (name, arg) in zip(array, calls, strict=True):
            arg.size = ctypes.sizeof(arg)
            element.cmd, element.out_result = raw.CALLS[name][0], POISON
            element.arg = ctypes.addressof(arg)
        return array

    def again(self) -> int:
        """Make the call with the structure as it is."""
        return raw.call(self.mock.device.fileno(), "BATCH", self.arg)

    def call(self) -> int:
        """Build the structure and make the call."""
        self.build()
        return self.again()

    def recv(self, ep: kp.Endpoint, context: int = 0, op_flags: int = 0) -> None:
        """Add a receive without memory."""
        flags = op_flags | _uapi.KFAB_COMPLETION
        self.posts.append(
            ("RECV", raw.sample("RECV", ep=ep._handle, context=context, op_flags=flags))
        )

    def read(self, cq: kp.CompletionQueue, count: int = 8, entries: int = 0) -> Any:
        """Add a read of a CQ; return its room."""
        room = (_uapi.kfab_cq_entry * count)()
        self.keep.append(room)
        arg = raw.sample("CQ_READ", cq=cq._handle, count=count)
        arg.entries = entries or ctypes.addressof(room)
        self.reads.append(("CQ_READ", arg))
        return room

    @property
    def answer(self) -> tuple[int, int, int]:
        """What was posted, and the errors of the posts and of the wait."""
        return self.arg.posted, self.arg.out_post_err, self.arg.out_wait_err

    @property
    def results(self) -> list[int]:
        """The results of the reads."""
        return [element.out_result for element in self.read_array]


def pending(mock: Mock, ep: kp.Endpoint, count: int, kind: str = "recv") -> bool:
    """Complete so many operations, and tell whether exactly that many were pending."""
    mock.complete(ep, kind, count)
    with pytest.raises(OSError) as caught:
        mock.complete(ep, kind, 1)
    return caught.value.errno == errno.ENODATA


def contexts(room: Any, count: int) -> list[int]:
    """The contexts of the first entries."""
    return [entry.context for entry in room[:count]]


def test_posts_are_made_in_their_order(mock: Mock) -> None:
    """V6: three receives and a send in one call, and all are pending."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    batch = Batch(mock)
    for context in (1, 2, 3):
        batch.recv(ep, context)
    batch.posts.append(("SEND", raw.sample("SEND", ep=ep._handle, context=4)))
    assert batch.call() == 0
    assert batch.answer == (4, 0, 0)
    assert pending(mock, ep, 3)
    mock.complete(ep, "send")
    room = batch.read(cq)
    batch.posts.clear()
    assert batch.call() == 1
    assert contexts(room, 3) == [1, 2, 3]


@pytest.mark.core
def test_post_that_fails_is_named(mock: Mock) -> None:
    """V6: the posts before it are made, none after it is, and its errno is that of its ioctl."""
    ep = mock.endpoint(cq=mock.cq())
    batch = Batch(mock)
    batch.recv(ep, 1)
    batch.recv(ep, 2)
    batch.recv(ep, 3, op_flags=_uapi.KFAB_FENCE)
    batch.recv(ep, 4)
    assert batch.call() == 0
    assert batch.answer == (2, EBADFLAGS, 0)
    assert raw.call(mock.device.fileno(), "RECV", batch.posts[2][1]) == -EBADFLAGS
    assert pending(mock, ep, 2)


def test_rest_is_posted_by_the_next_call(mock: Mock) -> None:
    """V6: a full queue stops the posts; the same structure goes on where they stopped."""
    cq = mock.cq(512)
    ep = mock.endpoint(cq=cq)
    batch = Batch(mock)
    for context in range(QUEUE + 3):
        batch.recv(ep, context)
    assert batch.call() == 0
    assert batch.answer == (QUEUE, errno.EAGAIN, 0)
    mock.complete(ep, "recv", 2)
    assert batch.again() == 0
    assert batch.answer == (QUEUE + 2, errno.EAGAIN, 0)
    mock.complete(ep, "recv", 1)
    assert batch.again() == 0
    assert batch.answer == (QUEUE + 3, 0, 0)
    assert pending(mock, ep, QUEUE)
    assert batch.again() == 0
    assert batch.answer == (QUEUE + 3, 0, 0)
    with pytest.raises(OSError):
        mock.complete(ep, "recv", 1)
    room = (_uapi.kfab_cq_entry * 512)()
    read = raw.sample("CQ_READ", cq=cq._handle, count=512, entries=ctypes.addressof(room))
    assert raw.call(mock.device.fileno(), "CQ_READ", read) == QUEUE + 3
    assert contexts(room, QUEUE + 3) == [*range(QUEUE + 3)]


def test_nothing_is_waited_for_after_a_failed_post(mock: Mock, in_thread: InThread) -> None:
    """W1: the call returns although nothing is ready, and its reads are made."""
    wait_set = mock.wait_set()
    cq, other = mock.cq(wait_set=wait_set), mock.cq()
    ep = mock.endpoint(cq=cq)
    mock.inject(mock.endpoint(cq=other))
    batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
    batch.recv(ep)
    batch.recv(ep, op_flags=_uapi.KFAB_FENCE)
    batch.read(cq)
    batch.read(other)
    assert in_thread(batch.call).result() == 2
    assert batch.answer == (1, EBADFLAGS, 0)
    assert batch.results == [-errno.EAGAIN, 1]


@pytest.mark.core
def test_event_ends_the_wait_and_is_read(mock: Mock, in_thread: InThread) -> None:
    """W2: the call sleeps until the operation that it has posted completes, and reads it."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
    batch.recv(ep, 497)
    room = batch.read(cq)
    call = in_thread(batch.call).asleep()
    mock.complete(ep, "recv")
    assert call.result() == 1
    assert batch.answer == (1, 0, 0)
    assert batch.results == [1]
    assert contexts(room, 1) == [497]


def test_event_between_check_and_sleep_is_not_lost(mock: Mock, in_thread: InThread) -> None:
    """W2, V2: hook D1, between the last look and the sleep."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
    batch.recv(ep)
    batch.read(cq)
    hook = mock.hook("D1", wait_set)
    call = in_thread(batch.call)
    hook.stopped()
    mock.complete(ep, "recv")
    hook.go()
    assert (call.result(), batch.results) == (1, [1])


def test_deadline_is_reported_and_the_reads_are_made(mock: Mock) -> None:
    """W4: ETIMEDOUT of the wait is no failure of the call, and never early."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    deadline = time.monotonic_ns() + 20_000_000
    batch = Batch(mock, wait=wait_set._handle, deadline=deadline)
    batch.recv(mock.endpoint(cq=cq))
    batch.read(cq)
    assert batch.call() == 1
    assert time.monotonic_ns() >= deadline
    assert batch.answer == (1, 0, errno.ETIMEDOUT)
    assert batch.results == [-errno.EAGAIN]


@pytest.mark.core
@pytest.mark.parametrize("restart", [False, True], ids=["no restart", "restart"])
def test_interrupted_call_posts_nothing_twice(
    mock: Mock, in_thread: InThread, restart: bool
) -> None:
    """W5, B56: whether the kernel or the program repeats it, the posts are made once."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
    batch.recv(ep, 1)
    batch.recv(ep, 2)
    batch.read(cq)
    results: list[tuple[int, int]] = []

    def body() -> None:
        batch.build()
        while not results or results[-1][0] == -errno.EINTR:
            results.append((batch.again(), batch.arg.posted))

    with handler(signal.SIGUSR1, lambda: None, restart=restart):
        call = in_thread(body)
        for _ in range(3):
            before = call.asleep().switches
            signal.pthread_kill(call.ident, signal.SIGUSR1)
            wait_until(lambda: call.switches > before, "it has run", LIMIT)  # noqa: B023
        call.asleep()
        mock.complete(ep, "recv", 2)
        call.result()
    assert results == [(-errno.EINTR, 2)] * (0 if restart else 3) + [(1, 2)]
    # The first of the two completions may have ended the wait.
    (read,) = batch.results
    assert read + len(cq.read()) == 2
    with pytest.raises(OSError):
        mock.complete(ep, "recv", 1)


def test_signal_after_a_read_ends_the_reads(mock: Mock, in_thread: InThread) -> None:
    """W5, X2: hook D7: the first read is made and reported, the others are not begun."""
    first, second = mock.cq(), mock.cq()
    mock.inject(mock.endpoint(cq=first), data=1)
    mock.inject(mock.endpoint(cq=second), data=2)
    batch = Batch(mock)
    batch.read(first)
    batch.read(second)
    with handler(signal.SIGUSR1, lambda: None, restart=False):
        hook = mock.hook("D7", first)
        call = in_thread(batch.call)
        hook.stopped()
        signal.pthread_kill(call.ident, signal.SIGUSR1)
        hook.go()
        assert call.result() == 1
    assert batch.results == [1, POISON]
    assert [entry.data for entry in second.read()] == [2]


@pytest.mark.parametrize("place", [0, 1], ids=["first read", "second read"])
def test_signal_ends_the_wait_for_another_reader(
    mock: Mock, in_thread: InThread, place: int
) -> None:
    """W5, X2: hook D7: EINTR if nothing was read yet, else the reads that were made count."""
    cqs = [mock.cq(), mock.cq()]
    for cq in cqs:
        mock.inject(mock.endpoint(cq=cq), count=2)
    ep = mock.endpoint(cq=mock.cq())
    batch = Batch(mock)
    batch.recv(ep)
    for cq in cqs:
        batch.read(cq, count=1)
    with handler(signal.SIGUSR1, lambda: None, restart=False):
        hook = mock.hook("D7", cqs[place])
        reader = in_thread(lambda: cqs[place].read(1))
        hook.stopped()
        call = in_thread(batch.call).asleep(r"^kfd_read_lock\b")
        signal.pthread_kill(call.ident, signal.SIGUSR1)
        assert call.result() == (place or -errno.EINTR)
        assert batch.answer == (1, 0, 0)
        hook.go()
        assert len(reader.result()) == 1
    assert pending(mock, ep, 1)
    # One entry went to the other reader, and one to the batch if it read the first queue.
    assert [len(cq.read()) for cq in cqs] == [1, 2 - place]


def test_signal_after_the_wait_ends_a_batch_that_has_read_nothing(
    mock: Mock, in_thread: InThread
) -> None:
    """W3, W5: hook D7: the kernel does not repeat its wait, for what another reader takes now."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    mock.inject(mock.endpoint(cq=cq))
    batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
    batch.read(cq)
    with handler(signal.SIGUSR1, lambda: None, restart=True):
        hook = mock.hook("D7", cq)
        reader = in_thread(cq.read)
        hook.stopped()
        call = in_thread(batch.call).asleep(r"^kfd_read_lock\b")
        signal.pthread_kill(call.ident, signal.SIGUSR1)
        assert call.result() == 0
        hook.go()
        assert len(reader.result()) == 1
    assert batch.answer == (0, 0, 0)


def test_members_of_all_classes_are_read(mock: Mock, in_thread: InThread) -> None:
    """W7, Q8: two CQs, an EQ and a counter after one wait, each as by its own ioctl."""
    wait_set = mock.wait_set()
    cq, other = mock.cq(wait_set=wait_set), mock.cq(wait_set=wait_set)
    eq, cntr = mock.eq(wait_set=wait_set), mock.counter(wait_set=wait_set)
    ep = mock.endpoint(cq=cq, cntr=cntr, eq=eq)
    mock.inject(mock.endpoint(cq=other), err=5)
    eq.write(data=497)
    batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
    room = batch.read(cq)
    batch.read(other)
    event, count = raw.sample("EQ_READ", eq=eq._handle), raw.sample("CNTR_READ", cntr=cntr._handle)
    error = raw.sample("CQ_READERR", cq=other._handle)
    mock.inject(ep, data=3)
    batch.reads += [("CQ_READERR", error), ("EQ_READ", event), ("CNTR_READ", count)]
    errors = raw.sample("CNTR_READERR", cntr=cntr._handle)
    batch.reads += [
        ("CNTR_READERR", errors),
        ("EQ_READERR", raw.sample("EQ_READERR", eq=eq._handle)),
    ]
    assert in_thread(batch.call).result() == 7
    assert batch.answer == (0, 0, 0)
    size = ctypes.sizeof(event)
    assert batch.results == [1, -EAVAIL, 1, size, 0, 0, -errno.EAGAIN]
    assert (room[0].data, error.out_err, event.out_data, count.value) == (3, 5, 497, 1)
    with pytest.raises(kp.KfiTimeout):
        wait_set.wait(timeout=0)


def test_empty_queue_is_reported(mock: Mock) -> None:
    """Q7: the flags of a read have their meaning."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq), count=3)
    batch = Batch(mock)
    batch.read(cq, count=2)
    batch.read(cq, count=2)
    batch.reads[1][1].flags = _uapi.KFAB_CQ_REPORT_EMPTY
    assert batch.call() == 2
    assert batch.results == [2, 1 | _uapi.KFAB_CQ_EMPTY]


def test_fault_of_one_read_loses_nothing(mock: Mock, memory: raw.Pages) -> None:
    """X2, V6: EFAULT is the result of that read; its entries stay, and the next read is made."""
    first, second = mock.cq(), mock.cq()
    mock.inject(mock.endpoint(cq=first), count=3)
    mock.inject(mock.endpoint(cq=second))
    batch = Batch(mock)
    batch.read(first, entries=memory.end)
    batch.read(second)
    assert batch.call() == 2
    assert batch.results == [-errno.EFAULT, 1]
    assert len(first.read()) == 3


@pytest.mark.parametrize("room", [0, 1], ids=["no element", "one element"])
def test_result_that_cannot_be_written_costs_nothing(
    mock: Mock, memory: raw.Pages, room: int
) -> None:
    """X2, V6: the read is not made: EFAULT for the first, fewer reads for a later one."""
    cqs = [mock.cq(), mock.cq()]
    for cq in cqs:
        mock.inject(mock.endpoint(cq=cq), count=2)
    batch = Batch(mock)
    batch.recv(mock.endpoint(cq=mock.cq()))
    for cq in cqs:
        batch.read(cq)
    batch.build()
    elements = bytes(batch.read_array)
    batch.arg.reads = memory.put(elements[: room * ELEMENT], at_end=True)
    assert batch.again() == (room or -errno.EFAULT)
    assert batch.answer == (1, 0, 0)
    assert [len(cq.read()) for cq in cqs] == [0 if at < room else 2 for at in range(2)]


def test_result_in_read_only_memory_costs_nothing(mock: Mock, memory: raw.Pages) -> None:
    """X2, V6: the place of a result is tried before the read is made."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq), count=2)
    batch = Batch(mock)
    batch.read(cq)
    batch.build()
    batch.arg.reads = memory.put(bytes(batch.read_array))
    memory.read_only()
    assert batch.again() == -errno.EFAULT
    memory.writable()
    assert len(cq.read()) == 2


def test_nothing_is_posted_if_the_answer_cannot_be_written(mock: Mock, memory: raw.Pages) -> None:
    """X2, V6: posts that nobody learns of are not made."""
    ep = mock.endpoint(cq=mock.cq())
    batch = Batch(mock)
    batch.recv(ep)
    arg = batch.build()
    assert raw.with_read_only(mock.device.fileno(), memory, "BATCH", arg) == -errno.EFAULT
    with pytest.raises(OSError):
        mock.complete(ep, "recv", 1)


def test_fault_of_a_post_is_its_error(mock: Mock, memory: raw.Pages) -> None:
    """X2: an element, or a structure, that cannot be read: EFAULT, and what was posted counts."""
    ep = mock.endpoint(cq=mock.cq())
    batch = Batch(mock)
    batch.recv(ep)
    batch.recv(ep)
    batch.build()
    batch.arg.posts = memory.put(bytes(batch.post_array)[:ELEMENT], at_end=True)
    assert batch.again() == 0
    assert batch.answer == (1, errno.EFAULT, 0)
    batch.build()
    batch.post_array[0].arg = memory.end
    assert batch.again() == 0
    assert batch.answer == (0, errno.EFAULT, 0)
    assert pending(mock, ep, 1)


def test_overrun_of_one_queue_is_its_result(mock: Mock) -> None:
    """Q2: the others are read."""
    full, cq = mock.cq(4), mock.cq()
    mock.inject(mock.endpoint(cq=full), count=5)
    mock.inject(mock.endpoint(cq=cq))
    batch = Batch(mock)
    for queue in (full, full, cq):
        batch.read(queue)
    assert batch.call() == 3
    assert batch.results == [4, -kp.KfabricErrno.KFI_EOVERRUN, 1]


@pytest.mark.parametrize(
    "wrong",
    ["posts", "reads", "posted", "deadline", "late", "class", "handle"],
)
def test_wrong_batch_posts_nothing(mock: Mock, wrong: str) -> None:
    """X1, X3: the batch itself is checked before its first post; nothing is written."""
    wait_set = mock.wait_set()
    ep = mock.endpoint(cq=mock.cq())
    batch = Batch(mock)
    batch.recv(ep)
    arg = batch.build()
    fields = {
        "posts": {"post_count": MOST + 1},
        "reads": {"read_count": MOST + 1},
        "posted": {"posted": 2},
        "deadline": {"deadline": 1},
        "late": {"wait": wait_set._handle, "deadline": -1},
        "class": {"wait": ep._handle},
        "handle": {"wait": 0xFFFFFFFF},
    }[wrong]
    for name, value in fields.items():
        setattr(arg, name, value)
    arg.size = ctypes.sizeof(arg)
    before = bytes(arg)
    assert batch.again() == (-errno.EBADF if wrong == "handle" else -errno.EINVAL)
    assert bytes(arg) == before
    with pytest.raises(OSError):
        mock.complete(ep, "recv", 1)


def test_as_many_posts_and_reads_as_there_may_be(mock: Mock) -> None:
    """X3: the limits themselves are allowed."""
    cq = mock.cq(2048)
    ep = mock.endpoint(cq=cq)
    batch = Batch(mock)
    for _ in range(MOST):
        batch.posts.append(("SEND", raw.sample("SEND", ep=ep._handle, flags=1)))
        batch.reads.append(("CQ_READ", raw.sample("CQ_READ", cq=cq._handle)))
    assert batch.call() == MOST
    # Injected sends stay pending in the mock provider.
    assert batch.answer == (QUEUE, errno.EAGAIN, 0)
    assert batch.results == [-errno.EAGAIN] * MOST


@pytest.mark.parametrize("name", ["BATCH", "CQ_READ", "CQ_SREAD", "WAIT", "CLOSE", "BIND"])
def test_only_posts_are_posted(mock: Mock, name: str) -> None:
    """X1: EINVAL for any other ioctl, and for a number that none has."""
    wait_set = mock.wait_set()
    ep = mock.endpoint(cq=mock.cq())
    batch = Batch(mock)
    batch.recv(ep)
    fields = {"CLOSE": {"handle": wait_set._handle}, "WAIT": {"wait": wait_set._handle}}
    batch.posts.append((name, raw.sample(name, **fields.get(name, {}))))
    assert batch.call() == 0
    assert batch.answer == (1, errno.EINVAL, 0)
    batch.post_array[1].cmd = raw.number(255)
    assert batch.again() == 0
    assert batch.answer == (1, errno.EINVAL, 0)
    wait_set.close()


@pytest.mark.parametrize("name", ["BATCH", "RECV", "CQ_SREAD", "EQ_SREAD", "CNTR_ADD", "WAIT"])
def test_only_reads_are_read(mock: Mock, name: str) -> None:
    """X1: EINVAL for any other ioctl; the reads after it are made."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq))
    batch = Batch(mock)
    batch.reads.append((name, raw.sample(name)))
    batch.read(cq)
    assert batch.call() == 2
    assert batch.results == [-errno.EINVAL, 1]


def test_parts_are_checked_as_ioctls(mock: Mock, memory: raw.Pages) -> None:
    """X1: size, flags, padding and the tail of each structure that a batch points to."""
    fd = mock.device.fileno()
    ep, cntr = mock.endpoint(cq=mock.cq()), mock.counter()
    for size, tail, fields in (
        (0, b"", {"flags": 0x80}),
        (-8, b"", {}),
        (8, b"\0" * 8, {}),
        (8, b"\1" + b"\0" * 7, {}),
        (raw.PAGE, b"", {}),
    ):
        for name, handle in (("RECV", {"ep": ep._handle}), ("CNTR_READ", {"cntr": cntr._handle})):
            arg = raw.sample(name, **handle, **fields)
            batch = Batch(mock)
            (batch.posts if name == "RECV" else batch.reads).append((name, arg))
            batch.build()
            arg.size = ctypes.sizeof(arg) + size
            address = memory.put(bytes(arg) + tail)
            wanted = raw.ioctl(fd, raw.CALLS[name][0], address)
            memory.put(bytes(arg) + tail)
            (element,) = batch.post_array if name == "RECV" else batch.read_array
            element.arg = address
            batch.again()
            got = -batch.arg.out_post_err if name == "RECV" else element.out_result
            assert got == wanted, (name, size, tail, fields)


def test_wait_set_is_busy_while_a_batch_sleeps(mock: Mock, in_thread: InThread) -> None:
    """O1: the set is in use; what the posts and the reads name is not."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    member, ep = mock.cq(wait_set=wait_set), mock.endpoint(cq=mock.cq())
    other = mock.endpoint(cq=cq)
    batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
    batch.recv(ep)
    batch.read(member)
    batch.read(cq)
    call = in_thread(batch.call).asleep()
    close = raw.sample("CLOSE", handle=wait_set._handle)
    assert raw.call(mock.device.fileno(), "CLOSE", close) == -errno.EBUSY
    ep.close()
    member.close()
    mock.inject(other)
    assert call.result() == 2
    assert batch.answer == (1, 0, 0)
    assert batch.results == [-errno.EBADF, 1]


def test_lost_device_is_reported_by_every_part(mock: Mock, in_thread: InThread) -> None:
    """O5, V7: the loss ends the sleep; then the wait and the posts fail, and reads are made."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
    batch.read(cq)
    call = in_thread(batch.call).asleep()
    mock.command("lose", mock.domain.trace_id)
    assert call.result() == 1
    assert (batch.answer, batch.results) == ((0, 0, 0), [-EAVAIL])
    assert cq.readerr() is not None
    assert batch.call() == 1
    assert (batch.answer, batch.results) == ((0, 0, errno.ENODEV), [-errno.EAGAIN])
    batch.recv(ep)
    assert batch.call() == 1
    assert batch.answer == (0, errno.ENODEV, 0)


@pytest.mark.races
def test_concurrent_batches_share_the_entries(mock: Mock, in_thread: InThread) -> None:
    """Q3, W3, X2: eight threads wait and read; each entry goes to exactly one of them."""
    total = 199
    wait_set = mock.wait_set()
    cq = mock.cq(1024, wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    got: list[int] = []
    together = threading.Barrier(9)

    def body() -> None:
        batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
        room = batch.read(cq, count=3)
        batch.build()
        together.wait()
        while len(got) < total:
            assert batch.again() == 1
            assert batch.arg.out_wait_err == 0
            (count,) = batch.results
            if count > 0:
                got.extend(entry.data for entry in room[:count])
            else:
                assert count == -errno.EAGAIN

    calls = [in_thread(body) for _ in range(8)]
    together.wait()
    for number in range(total):
        mock.inject(ep, data=number)

    def all_have_ended() -> bool:
        cq.signal()
        return all(call.done for call in calls)

    wait_until(all_have_ended, "the end of all threads", LIMIT)
    for call in calls:
        call.result()
    assert sorted(got) == [*range(total)]


def test_reads_of_a_batch_end_a_turn(mock: Mock, in_thread: InThread) -> None:
    """W3: in an exclusive set each of two sleeping batches is woken for one entry, and reads it."""
    wait_set = mock.wait_set()
    wait_set.exclusive = True
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    batches = [Batch(mock, wait=wait_set._handle, deadline=NONE) for _ in range(2)]
    rooms = [batch.read(cq, count=1) for batch in batches]
    calls = [in_thread(batch.call).asleep() for batch in batches]
    mock.inject(ep, data=1)
    assert calls[0].result() == 1
    assert not calls[1].done
    mock.inject(ep, data=2)
    assert calls[1].result() == 1
    assert [batch.results for batch in batches] == [[1], [1]]
    assert [room[0].data for room in rooms] == [1, 2]


Exclusive = tuple[kp.WaitSet, kp.CompletionQueue]


@pytest.fixture
def exclusive(mock: Mock) -> Exclusive:
    """A set that wakes one sleeper for an entry, and its member."""
    wait_set = mock.wait_set()
    wait_set.exclusive = True
    return wait_set, mock.cq(wait_set=wait_set)


def test_signal_before_a_batch_has_read_hands_its_turn_on(
    mock: Mock, in_thread: InThread, exclusive: Exclusive
) -> None:
    """W3, V4: hooks D4, D7: woken, it waits for another reader, and is signalled there."""
    wait_set, cq = exclusive
    ep = mock.endpoint(cq=cq)
    batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
    batch.read(cq)
    with handler(signal.SIGUSR1, lambda: None, restart=True):
        call = in_thread(batch.call).asleep()
        other = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
        woken, reading = mock.hook("D4", wait_set), mock.hook("D7", cq)
        mock.inject(ep)
        woken.stopped()
        reader = in_thread(cq.read)
        reading.stopped()
        woken.go()
        call.asleep(r"^kfd_read_lock\b")
        signal.pthread_kill(call.ident, signal.SIGUSR1)
        assert call.result() == 0
        other.result()
        reading.go()
        assert len(reader.result()) == 1


def woken_beside(mock: Mock, in_thread: InThread, exclusive: Exclusive, batch: Batch) -> int:
    """Have an entry wake a batch, and wait for another thread that is woken; the batch's result."""
    wait_set, cq = exclusive
    call = in_thread(batch.again).asleep()
    other = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    mock.inject(mock.endpoint(cq=cq))
    result = call.result()
    other.result()
    return result


def test_batch_whose_result_has_no_room_hands_its_turn_on(
    mock: Mock,
    in_thread: InThread,
    exclusive: Exclusive,
    memory: raw.Pages,
) -> None:
    """W3, V4, X2: it fails with EFAULT before its first read, and another thread is woken."""
    wait_set, cq = exclusive
    batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
    batch.read(cq)
    batch.build()
    batch.arg.reads = memory.put(bytes(batch.read_array))
    memory.read_only()
    assert woken_beside(mock, in_thread, exclusive, batch) == -errno.EFAULT
    memory.writable()
    assert len(cq.read()) == 1


def test_batch_that_ends_before_all_reads_hands_its_turn_on(
    mock: Mock,
    in_thread: InThread,
    exclusive: Exclusive,
    memory: raw.Pages,
) -> None:
    """W3, V4, X2: its first read finds nothing, the second has no room for its result."""
    wait_set, cq = exclusive
    batch = Batch(mock, wait=wait_set._handle, deadline=NONE)
    batch.read(mock.cq(wait_set=wait_set))
    batch.read(cq)
    batch.build()
    batch.arg.reads = memory.put(bytes(batch.read_array)[:ELEMENT], at_end=True)
    assert woken_beside(mock, in_thread, exclusive, batch) == 1


def test_library_posts_many_messages_in_one_call(msg_pair: tuple[Side, Side]) -> None:
    """V6: sixteen receives, and sixteen messages for them: two calls; each arrives in order."""
    left, right = msg_pair
    count, size = 16, 8
    client = left.ep._client
    made: list[int] = []
    plain = client._ioctl

    def counted(fd: int, request: int, arg: ctypes.Structure) -> int:
        made.append(request)
        return plain(fd, request, arg)

    for number in range(count):
        left.buffer.view[number * size : (number + 1) * size] = number.to_bytes(size, "little")
    pieces = [slice(number * size, (number + 1) * size) for number in range(count)]
    client._ioctl = counted
    try:
        flags = kp.OpFlags.COMPLETION
        numbers = range(count)
        assert (
            right.ep.recv_many((right.buffer[p] for p in pieces), contexts=numbers, flags=flags)
            == count
        )
        assert left.ep.send_many(left.buffer[p] for p in pieces) == count
    finally:
        client._ioctl = plain
    assert made == [_uapi.KFAB_IOC_BATCH] * 2
    memory = bytearray(count * ctypes.sizeof(_uapi.kfab_cq_entry))
    seen: list[object] = []
    while len(seen) < count:
        right.wait_set.wait(timeout=LIMIT)
        # The counter of receives is a member, too: what is left unread keeps the set ready.
        right.cntr.read()
        entries = (_uapi.kfab_cq_entry * count).from_buffer(memory)
        for entry in entries[: right.cq.read_into(memory)]:
            assert entry.len == size
            seen.append(right.cq.take_context(entry.context))
    assert seen == [*range(count)]
    assert right.buffer.view[: count * size] == left.buffer.view[: count * size]


def test_library_posts_as_many_as_there_is_room_for(mock: Mock) -> None:
    """V6: a full queue: the number that were posted, and Again for the rest; no context is lost."""
    cq = mock.cq(512)
    ep = mock.endpoint(cq=cq)
    buffer = mock.stack.enter_context(mock.device.buffer(64))
    posted = ep.recv_many([buffer] * (QUEUE + 2), contexts=range(QUEUE + 2))
    assert posted == QUEUE
    with pytest.raises(kp.Again):
        ep.recv_many([buffer])
    mock.complete(ep, "recv", QUEUE)
    assert [entry.context for entry in cq.read(512)] == [*range(QUEUE)]
    assert len(cq._pending) == 0
