# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""CQ_RING: completions that are read from mapped memory, without a call.

::

    provider ── CQ ── entries, tail ──> ring ──> the program reads
                 ^─────────── head ─────┘        (looked at by each call)
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uapi_support as raw
from guest_support import LIMIT, Call, Mock, Side, connected_sides, rdm_sides

import kfabric_py as kp
from kfabric.guest.topology import RdmaLink
from kfabric_py import _uapi

pytestmark = pytest.mark.core

InThread = Callable[[Callable[[], Any]], Call[Any]]
ASKED = kp.OpFlags.COMPLETION


@pytest.fixture
def memory() -> Iterator[raw.Pages]:
    """A page whose successor is missing."""
    yield from raw.pages()


def numbered(mock: Mock, ep: kp.Endpoint, numbers: range) -> None:
    """Report one receive for each number, which its entry carries as data."""
    for number in numbers:
        mock.inject(ep, data=number)


def data(entries: list[kp.CqEntry]) -> list[int]:
    """The numbers that numbered() gave them."""
    return [entry.data for entry in entries]


@contextlib.contextmanager
def without_calls(cq: kp.CompletionQueue) -> Iterator[None]:
    """Have every call of a queue fail."""
    client = cq._client
    cq._client = None  # type: ignore[assignment]
    try:
        yield
    finally:
        cq._client = client


def ring_of(cq: kp.CompletionQueue) -> mmap.mmap:
    """The memory of a queue's ring."""
    assert cq._ring is not None
    return cq._ring._map


def place(field: str) -> slice:
    """Where a field of a ring is."""
    at = getattr(_uapi.kfab_ring, field).offset
    return slice(at, at + 4)


def put(cq: kp.CompletionQueue, head: int) -> None:
    """Write a count of entries read, as a program may."""
    ring_of(cq)[place("head")] = (head % (1 << 32)).to_bytes(4, "little")


def test_entries_are_read_without_a_call(mock: Mock) -> None:
    """Q1: the oldest first, at most as many as asked for."""
    cq = mock.cq(ring=True)
    numbered(mock, mock.endpoint(cq=cq), range(5))
    with without_calls(cq):
        assert data(cq.read(3)) == [0, 1, 2]
        assert data(cq.read(3)) == [3, 4]


@pytest.mark.parametrize("format", list(kp.CqFormat)[1:])
def test_entry_is_the_one_that_a_call_reads(
    mock: Mock, device: kp.Device, format: kp.CqFormat
) -> None:
    """Each format has the same fields in a ring; the context always."""
    found = []
    context = object()
    with device.buffer(100) as buffer:
        for ring in (False, True):
            cq = mock.cq(format=format, ring=ring)
            ep = mock.endpoint(cq=cq)
            ep.recv(buffer, context=context)
            mock.complete(ep, "recv", len=42, data=0x1122334455667788)
            found += cq.read()
    assert found[0] == found[1]
    assert found[1].context is context


def test_ring_has_entries_in_order_when_it_wraps(mock: Mock) -> None:
    """Q2: many times the queue's size, in changing portions."""
    cq = mock.cq(8, ring=True)
    ep = mock.endpoint(cq=cq)
    seen: list[int] = []
    for number in range(97):
        mock.inject(ep, data=number)
        if number % 5 == 4:
            seen += data(cq.read(3)) + data(cq.read(8))
            assert cq.read(0) == []
    seen += data(cq.read(8))
    assert seen == list(range(97))


def test_wait_sleeps_once_all_was_read(mock: Mock, in_thread: InThread) -> None:
    """V6, W2: each call looks at what was read; so a wait ends for what is unread only."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set, ring=True)
    ep = mock.endpoint(cq=cq)
    for number in range(20):
        call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
        mock.inject(ep, data=number)
        call.result()
        with without_calls(cq):
            assert data(cq.read()) == [number]


def test_wait_ends_at_once_beside_an_unread_entry(mock: Mock) -> None:
    """W2: one of two entries was read."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set, ring=True)
    numbered(mock, mock.endpoint(cq=cq), range(2))
    assert data(cq.read(1)) == [0]
    wait_set.wait(timeout=0)
    assert data(cq.read(1)) == [1]
    with pytest.raises(kp.KfiTimeout):
        wait_set.wait(timeout=0)


def test_descriptor_is_quiet_after_a_trywait(mock: Mock) -> None:
    """O2: TRYWAIT looks at what was read, and the descriptor then shows what is unread."""
    cq = mock.cq(wait_obj=kp.WaitObj.FD, ring=True)
    numbered(mock, mock.endpoint(cq=cq), range(2))
    assert not mock.fabric.trywait(cq)
    cq.read()
    assert mock.fabric.trywait(cq)


def test_error_is_read_by_readerr_only(mock: Mock) -> None:
    """Q3: what is behind an error comes after it."""
    cq = mock.cq(ring=True)
    ep = mock.endpoint(cq=cq)
    numbered(mock, ep, range(2))
    mock.inject(ep, err=errno.EIO)
    numbered(mock, ep, range(2, 4))
    assert data(cq.read()) == [0, 1]
    for _ in range(2):
        with pytest.raises(kp.ErrorAvailable):
            cq.read()
    error = cq.readerr(peek=True)
    assert error is not None and error.err == errno.EIO
    with pytest.raises(kp.ErrorAvailable):
        cq.read()
    error = cq.readerr()
    assert error is not None and error.err == errno.EIO
    assert cq.readerr() is None
    assert data(cq.read()) == [2, 3]


def test_many_entries_come_before_the_error_behind_them(mock: Mock) -> None:
    """Q3: also if they are so many that the kernel is told of them."""
    cq = mock.cq(8, ring=True)
    ep = mock.endpoint(cq=cq)
    numbered(mock, ep, range(5))
    mock.inject(ep, err=errno.EIO)
    assert data(cq.read()) == list(range(5))
    for _ in range(2):
        with pytest.raises(kp.ErrorAvailable):
            cq.read()
    assert cq.readerr() is not None


def test_error_that_comes_just_before_it_is_read_is_passed(
    mock: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q2: readerr() has found none in the ring, and then the kernel has one."""
    cq = mock.cq(8, ring=True)
    ep = mock.endpoint(cq=cq)

    def late() -> bool:
        mock.inject(ep, err=errno.EIO)
        return False

    monkeypatch.setattr(cq._ring, "at_error", late)
    assert cq.readerr() is not None
    numbered(mock, ep, range(8))
    assert data(cq.read()) == list(range(8))


def test_program_cannot_pass_an_error(mock: Mock) -> None:
    """Q3: a count that is behind an error removes what is before it, and no more."""
    cq = mock.cq(ring=True)
    ep = mock.endpoint(cq=cq)
    numbered(mock, ep, range(2))
    mock.inject(ep, err=errno.EIO)
    numbered(mock, ep, range(1))
    put(cq, 4)
    error = cq.readerr()
    assert error is not None and error.err == errno.EIO


def test_all_entries_before_an_error_are_removed(mock: Mock) -> None:
    """Q11: by one call, also if they are more than the kernel looks at with its lock held."""
    cq = mock.cq(256, ring=True)
    ep = mock.endpoint(cq=cq)
    numbered(mock, ep, range(200))
    mock.inject(ep, err=errno.EIO)
    put(cq, 200)
    assert cq.readerr(peek=True) is not None
    error = cq.readerr()
    assert error is not None and error.err == errno.EIO


def test_overrun_comes_behind_what_was_stored_and_stays(mock: Mock) -> None:
    """Q2: the stored entries in order, then EOVERRUN for ever."""
    cq = mock.cq(8, ring=True)
    ep = mock.endpoint(cq=cq)
    numbered(mock, ep, range(8))
    assert ring_of(cq)[place("overrun")] == bytes(4)
    numbered(mock, ep, range(8, 64))
    # A program sees it without a call.
    assert any(ring_of(cq)[place("overrun")])
    seen = data(cq.read(64))
    assert seen == list(range(8))
    for _ in range(2):
        with pytest.raises(kp.Overrun):
            cq.read()


def test_other_reads_are_refused(mock: Mock) -> None:
    """One count of what was read: the program's. A read of nothing makes progress."""
    cq = mock.cq(ring=True)
    numbered(mock, mock.endpoint(cq=cq), range(1))
    for read in (lambda: cq.sread(1, timeout=0), lambda: cq.read_into(bytearray(64))):
        with pytest.raises(kp.KfiError) as caught:
            read()
        assert caught.value.errno == errno.EBUSY
    assert cq.read(0) == []
    assert data(cq.read()) == [0]


def test_sleeping_read_takes_nothing_from_a_ring(mock: Mock, in_thread: InThread) -> None:
    """A thread that slept in sread when the ring was made is refused when it wakes."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    call = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
    ring, arg = show(cq)
    assert ring == 0
    mock.inject(ep)
    with pytest.raises(kp.KfiError) as caught:
        call.result()
    assert caught.value.errno == errno.EBUSY
    assert tail(cq, arg) == 1


def show(cq: kp.CompletionQueue, **fields: int) -> tuple[int, Any]:
    """Ask for a ring by a raw call."""
    arg = raw.sample("CQ_RING", **{"cq": cq._handle, **fields})
    arg.out_handle = arg.out_entries = arg.out_offset = 0xDEAD
    return raw.call(cq._client.fd, "CQ_RING", arg), arg


def refused(cq: kp.CompletionQueue) -> int:
    """Ask for a ring, and be told nothing of one; the error."""
    code, arg = show(cq)
    assert arg.out_handle == arg.out_entries == arg.out_offset == 0xDEAD
    return code


def tail(cq: kp.CompletionQueue, arg: Any) -> int:
    """The entries that a ring says it has had."""
    length = ctypes.sizeof(_uapi.kfab_ring) + 64 * arg.out_entries
    with mmap.mmap(cq._client.fd, length, offset=arg.out_offset) as ring:
        return int.from_bytes(ring[:4], "little")


def test_second_ring_is_refused(mock: Mock) -> None:
    """EBUSY, and the first one goes on."""
    cq = mock.cq(ring=True)
    assert refused(cq) == -errno.EBUSY
    numbered(mock, mock.endpoint(cq=cq), range(1))
    assert data(cq.read()) == [0]


@pytest.mark.parametrize("read", [False, True])
def test_queue_that_has_had_an_entry_gets_no_ring(mock: Mock, read: bool) -> None:
    """EBUSY; the entry is read as before."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    numbered(mock, ep, range(2))
    if read:
        cq.read()
    assert refused(cq) == -errno.EBUSY
    assert data(cq.read()) == ([] if read else [0, 1])


def test_large_queue_gets_no_ring(mock: Mock) -> None:
    """EINVAL above KFAB_RING_MAX entries; the queue is as it was."""
    cq = mock.cq(_uapi.KFAB_RING_MAX + 1)
    assert show(cq)[0] == -errno.EINVAL
    numbered(mock, mock.endpoint(cq=cq), range(1))
    assert data(cq.read()) == [0]


@pytest.mark.parametrize("count", [5, -1])
def test_count_that_is_wrong_removes_nothing(mock: Mock, count: int) -> None:
    """Q11: one of entries that are not stored, and one of before the first."""
    cq = mock.cq(8, ring=True)
    ep = mock.endpoint(cq=cq)
    numbered(mock, ep, range(2))
    put(cq, count)
    assert cq.read(0) == []
    numbered(mock, ep, range(2, 8))
    assert data(cq.read(8)) == list(range(8))


def test_counts_of_a_hostile_program_harm_only_itself(mock: Mock) -> None:
    """Whatever it writes: another queue goes on."""
    cq, other = mock.cq(8, ring=True), mock.cq(8, ring=True)
    ep, beside = mock.endpoint(cq=cq), mock.endpoint(cq=other)
    chance = random.Random(7)
    for number in range(300):
        memory = ring_of(cq)
        memory[:] = chance.randbytes(len(memory))
        put(cq, chance.choice([chance.getrandbits(32), number, number + 1, number - 1, number + 9]))
        mock.inject(ep, data=number)
        mock.inject(beside, data=number)
        with contextlib.suppress(kp.KfiError):
            cq.readerr()
        assert data(other.read()) == [number]


def test_mapping_outlives_the_queue(mock: Mock) -> None:
    """The memory stays as long as it is mapped; nothing writes into it once closed."""
    cq = mock.cq()
    result, arg = show(cq)
    assert result == 0
    ep = mock.endpoint(cq=cq)
    length = ctypes.sizeof(_uapi.kfab_ring)
    with mmap.mmap(cq._client.fd, length, offset=arg.out_offset) as memory:
        numbered(mock, ep, range(1))
        close = raw.sample("CLOSE", handle=arg.out_handle)
        assert raw.call(cq._client.fd, "CLOSE", close) == 0
        numbered(mock, ep, range(1))
        ep.close()
        cq.close()
        assert int.from_bytes(memory[:4], "little") == 2


def test_closed_queue_is_not_read(mock: Mock) -> None:
    """O3: what its ring had left is gone with it."""
    cq = mock.cq(ring=True)
    ep = mock.endpoint(cq=cq)
    numbered(mock, ep, range(1))
    ep.close()
    cq.close()
    with pytest.raises(kp.ClosedError):
        cq.read()


def test_context_of_a_closed_endpoint_comes_out(mock: Mock, device: kp.Device) -> None:
    """Its completion is read after the close; the contexts that never complete are dropped."""
    cq = mock.cq(ring=True)
    ep = mock.endpoint(cq=cq)
    with device.buffer(64) as buffer:
        for context in ("done", "never"):
            ep.recv(buffer, context=context)
        mock.complete(ep, "recv", 1)
        ep.close()
        (entry,) = cq.read()
    assert entry.context == "done"
    assert len(cq._pending) == 0


def test_ring_that_is_never_empty_does_not_overrun(mock: Mock) -> None:
    """Q2: a read tells the kernel before its count is half a queue behind."""
    cq = mock.cq(8, ring=True)
    ep = mock.endpoint(cq=cq)
    numbered(mock, ep, range(2))
    for number in range(2, 60):
        mock.inject(ep, data=number)
        assert data(cq.read(1)) == [number - 2]


def test_error_that_was_removed_by_a_call_left_early_is_passed(mock: Mock) -> None:
    """A signal handler that raises behind the call costs this error, and no other entry."""
    cq = mock.cq(ring=True)
    ep = mock.endpoint(cq=cq)
    mock.inject(ep, err=errno.EIO)
    numbered(mock, ep, range(1))
    arg = raw.sample("CQ_READERR", cq=cq._handle)
    assert raw.call(cq._client.fd, "CQ_READERR", arg) == 1
    with pytest.raises(kp.ErrorAvailable):
        cq.read()
    assert cq.readerr() is None
    assert data(cq.read()) == [0]


def test_entry_in_the_place_of_an_error_that_such_a_call_removed_is_read_once(mock: Mock) -> None:
    """Q2: the queue has become full since."""
    cq = mock.cq(8, ring=True)
    ep = mock.endpoint(cq=cq)
    mock.inject(ep, err=errno.EIO)
    arg = raw.sample("CQ_READERR", cq=cq._handle)
    assert raw.call(cq._client.fd, "CQ_READERR", arg) == 1
    numbered(mock, ep, range(8))
    assert data(cq.read()) == list(range(8))
    assert cq.read() == []


def test_answer_that_cannot_be_written_makes_no_ring(mock: Mock, memory: raw.Pages) -> None:
    """X2: EFAULT, and the queue is as it was."""
    cq = mock.cq()
    arg = raw.sample("CQ_RING", cq=cq._handle)
    arg.size = ctypes.sizeof(arg)
    address = memory.put(bytes(arg))
    memory.read_only()
    request = raw.CALLS["CQ_RING"][0]
    assert raw.ioctl(cq._client.fd, request, address) == -errno.EFAULT
    assert show(cq)[0] == 0


def test_child_reads_what_its_parent_reads(mock: Mock) -> None:
    """A ring is shared over fork(), as every buffer; the kernel goes on with the last count."""
    cq = mock.cq(ring=True)
    ep = mock.endpoint(cq=cq)
    numbered(mock, ep, range(3))
    child = os.fork()
    if not child:
        os._exit(0 if data(cq.read(1)) == [0] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert data(cq.read()) == [0, 1, 2]


def test_message_in_a_buffer_for_many_is_named(verbs: RdmaLink, device: kp.Device) -> None:
    """MULTI_RECV over rxe: an entry of a ring says where in the buffer its message is."""
    with contextlib.ExitStack() as stack:
        near, far = rdm_sides(device, verbs.address, stack, ring=True)
        flags = ASKED | kp.OpFlags.MULTI_RECV
        far.ep.recv(far.buffer[:4096], context="many", flags=flags)
        for number in range(3):
            near.ep.send(near.buffer[:100])
            entry = next_entry(far)
            assert entry.context == "many" and entry.buf is not None
            assert (entry.buf.offset, len(entry.buf)) == (100 * number, 100)


def next_entry(side: Side) -> kp.CqEntry:
    """The next completion of one end."""
    while not (entries := side.cq.read(1)):
        wait(side)
    return entries[0]


def wait(side: Side) -> None:
    """Wait for a completion, which is also counted."""
    side.wait_set.wait(timeout=LIMIT)
    side.cntr.read()


def test_messages_arrive_through_rings(verbs: RdmaLink, device: kp.Device) -> None:
    """W2, Q1: over rxe, two ends that read without a call, and wait if nothing is there."""
    with contextlib.ExitStack() as stack:
        near, far = connected_sides(device, verbs.address, stack, ring=True)
        for side in (near, far):
            side.ep.recv(side.buffer[:8], flags=ASKED)
        for number in range(200):
            for sender, receiver in ((near, far), (far, near)):
                sender.buffer.view[8:16] = number.to_bytes(8, "little")
                sender.ep.send(sender.buffer[8:16])
                assert receive(receiver) == number


def receive(side: Side) -> int:
    """Take one message, and post the receive again."""
    while True:
        with without_calls(side.cq):
            entries = side.cq._ring.read(1)  # type: ignore[union-attr]
        if entries:
            break
        wait(side)
    number = int.from_bytes(side.buffer.view[:8], "little")
    side.ep.recv(side.buffer[:8], flags=ASKED)
    return number
