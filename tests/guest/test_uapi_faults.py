# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What cannot be copied out was not consumed, and was not opened."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uapi_support as raw
from guest_support import LIMIT, Call, Mock, Side

import kfabric_py as kp
from kfabric_py import _uapi

InThread = Callable[[Callable[[], Any]], Call[Any]]
ENTRY = ctypes.sizeof(_uapi.kfab_cq_entry)


@pytest.fixture
def memory() -> Iterator[raw.Pages]:
    """A page whose successor is missing."""
    yield from raw.pages()


def numbered(mock: Mock, cq: kp.CompletionQueue, numbers: range) -> None:
    """Put one entry for each number into a queue."""
    ep = mock.endpoint(cq=cq)
    for number in numbers:
        mock.inject(ep, data=number)


def data_of(cq: kp.CompletionQueue) -> list[int]:
    """Read all and tell what the entries carry."""
    return [entry.data for entry in cq.read(64)]


@pytest.mark.parametrize("name", ["CQ_READ", "CQ_SREAD"])
@pytest.mark.parametrize("room", [0, 1, 4])
def test_fault_loses_no_completion(mock: Mock, memory: raw.Pages, name: str, room: int) -> None:
    """X2, V6: EFAULT with room for some of five: all five are there afterwards, in order."""
    cq = mock.cq()
    numbered(mock, cq, range(5))
    arg = raw.sample(name, cq=cq._handle, count=5, entries=memory.end - room * ENTRY)
    assert raw.call(mock.device.fileno(), name, arg) == -errno.EFAULT
    assert data_of(cq) == [0, 1, 2, 3, 4]


def test_fault_in_a_long_read_loses_nothing(mock: Mock, memory: raw.Pages) -> None:
    """X2, V6: what was read before the fault counts, the rest stays."""
    cq = mock.cq(64)
    numbered(mock, cq, range(61))
    arg = raw.sample("CQ_READ", cq=cq._handle, count=61, entries=memory.end - 40 * ENTRY)
    got = raw.call(mock.device.fileno(), "CQ_READ", arg)
    assert 0 < got <= 40
    first = (_uapi.kfab_cq_entry * got).from_address(memory.end - 40 * ENTRY)
    assert [entry.data for entry in first] == list(range(got))
    assert data_of(cq) == list(range(got, 61))


def test_fault_after_a_sleep_loses_no_completion(
    mock: Mock, memory: raw.Pages, in_thread: InThread
) -> None:
    """X2, V4: the sleeper faults on what woke it; the entry is there for the next."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    arg = raw.sample(
        "CQ_SREAD",
        cq=cq._handle,
        count=1,
        entries=memory.end,
        deadline=_uapi.KFAB_DEADLINE_NONE,
    )
    faulting = in_thread(lambda: raw.call(mock.device.fileno(), "CQ_SREAD", arg)).asleep()
    mock.inject(ep, data=497)
    assert faulting.result() == -errno.EFAULT
    assert data_of(cq) == [497]


def test_fault_hands_the_wake_on(mock: Mock, memory: raw.Pages, in_thread: InThread) -> None:
    """X2, Q3, V4: of two sleepers the woken one faults; the other gets the entry."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    arg = raw.sample(
        "CQ_SREAD",
        cq=cq._handle,
        count=1,
        entries=memory.end,
        deadline=_uapi.KFAB_DEADLINE_NONE,
    )
    faulting = in_thread(lambda: raw.call(mock.device.fileno(), "CQ_SREAD", arg)).asleep()
    other = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
    mock.inject(ep, data=497)
    assert faulting.result() == -errno.EFAULT
    assert [entry.data for entry in other.result()] == [497]


def test_fault_hands_the_wake_of_an_event_on(
    mock: Mock, memory: raw.Pages, in_thread: InThread
) -> None:
    """X2, V4: of two sleepers in an EQ the woken one faults; the other gets the event."""
    eq = mock.eq()
    fd = mock.device.fileno()
    arg = raw.sample("EQ_SREAD", eq=eq._handle, deadline=_uapi.KFAB_DEADLINE_NONE)
    # A structure that can be read but not written, for as long as the call lasts.
    arg.size = ctypes.sizeof(arg)
    address = memory.put(bytes(arg))
    memory.read_only()
    number = raw.CALLS["EQ_SREAD"][0]
    faulting = in_thread(lambda: raw.ioctl(fd, number, address)).asleep()
    other = in_thread(lambda: eq.sread(timeout=LIMIT)).asleep()
    eq.write(data=497)
    assert faulting.result() == -errno.EFAULT
    memory.writable()
    event = other.result()
    assert event is not None and event.data == 497


def test_fault_loses_no_completion_error(mock: Mock, memory: raw.Pages) -> None:
    """X2, V6: readerr into memory that cannot be written: the error is still first."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq), err=5)
    arg = raw.sample("CQ_READERR", cq=cq._handle)
    fd = mock.device.fileno()
    assert raw.with_read_only(fd, memory, "CQ_READERR", arg) == -errno.EFAULT
    error = cq.readerr()
    assert error is not None and error.err == 5
    assert cq.readerr() is None


@pytest.mark.parametrize("name", ["EQ_READ", "EQ_SREAD"])
def test_fault_loses_no_event(mock: Mock, memory: raw.Pages, name: str) -> None:
    """X2, V6: the event is still first."""
    eq = mock.eq()
    eq.write(data=497)
    arg = raw.sample(name, eq=eq._handle)
    assert raw.with_read_only(mock.device.fileno(), memory, name, arg) == -errno.EFAULT
    event = eq.read()
    assert event is not None and event.data == 497
    assert eq.read() is None


def test_fault_loses_no_event_error(mock: Mock, memory: raw.Pages) -> None:
    """X2, V6: the same for readerr of an event queue."""
    eq = mock.eq()
    mock.command("eqerr", eq.trace_id, "err=5")
    arg = raw.sample("EQ_READERR", eq=eq._handle)
    fd = mock.device.fileno()
    assert raw.with_read_only(fd, memory, "EQ_READERR", arg) == -errno.EFAULT
    error = eq.readerr()
    assert error is not None and error.err == 5
    assert eq.readerr() is None


@pytest.mark.parametrize("where", ["structure", "private data", "info"])
def test_fault_loses_no_connection_request(
    verbs: Any, device: kp.Device, memory: raw.Pages, where: str
) -> None:
    """X2, V6: the request is still first, no handle was spent on it; accepting keeps it, too."""
    fd = device.fileno()
    offer = device.getinfo(provider="verbs", source=(verbs.address, 0))[0]
    with device.fabric(offer) as fabric, fabric.eq() as eq, fabric.passive_ep(offer) as listener:
        listener.bind(eq)
        listener.listen()
        name = listener.getname()
        assert isinstance(name, tuple)
        info = device.getinfo(provider="verbs", dest=(verbs.address, name[1]))[0]
        with (
            fabric.domain(info) as domain,
            domain.cq(16) as cq,
            fabric.eq() as mine,
            domain.endpoint(info) as ep,
        ):
            ep.bind(cq, recv=True, transmit=True)
            ep.bind(mine)
            ep.enable()
            ep.connect(data=b"497")
            peeked = eq.sread(timeout=LIMIT, peek=True)
            assert peeked is not None and peeked.event is kp.Event.CONNREQ
            before = device.version().objects
            arg = raw.sample("EQ_READ", eq=eq._handle)
            room = ctypes.create_string_buffer(256)
            arg.data_len, arg.cm_data = 256, ctypes.addressof(room)
            if where == "private data":
                arg.cm_data = memory.end
            if where == "info":
                size = ctypes.sizeof(_uapi.kfab_info).to_bytes(4, "little")
                arg.info = memory.put(size, at_end=True)
            if where == "structure":
                got = raw.with_read_only(fd, memory, "EQ_READ", arg)
            else:
                got = raw.call(fd, "EQ_READ", arg)
            assert got == -errno.EFAULT
            assert device.version().objects == before
            event = eq.read()
            assert event is not None and event.request is not None
            assert event.cm_data[:3] == b"497"
            accept = raw.sample("EP_OPEN", domain=domain._handle, connreq=event.request._handle)
            before = device.version().objects
            assert raw.with_read_only(fd, memory, "EP_OPEN", accept) == -errno.EFAULT
            assert device.version().objects == before
            event.request.reject()


def test_fault_leaves_the_counter_unread(mock: Mock, memory: raw.Pages) -> None:
    """X2, V6, W1: a failed read leaves the wait set ready; a good one does not."""
    wait = mock.wait_set()
    cntr = mock.counter(wait_set=wait)
    mock.inject(mock.endpoint(cntr=cntr))
    arg = raw.sample("CNTR_READ", cntr=cntr._handle)
    assert raw.with_read_only(mock.device.fileno(), memory, "CNTR_READ", arg) == -errno.EFAULT
    wait.wait(timeout=0)
    assert cntr.read() == 1
    with pytest.raises(kp.KfiTimeout):
        wait.wait(timeout=0)


def poll_raw(mock: Mock, poll: kp.PollSet, count: int, address: int) -> int:
    """Poll into memory of our choice."""
    arg = raw.sample("POLL", poll=poll._handle, count=count, entries=address)
    return raw.call(mock.device.fileno(), "POLL", arg)


def test_fault_leaves_changes_to_be_reported(mock: Mock, memory: raw.Pages) -> None:
    """X2, P1, V6: a counter's change is reported by the next poll, once."""
    cntr = mock.counter()
    poll = mock.poll_set()
    poll.add(cntr)
    mock.inject(mock.endpoint(cntr=cntr))
    assert poll_raw(mock, poll, 8, memory.end) == -errno.EFAULT
    assert poll_raw(mock, poll, 8, memory.end - 8) == -errno.EFAULT
    assert poll.poll() == [cntr]
    assert poll.poll() == []


def test_owed_changes_keep_the_rules(mock: Mock, memory: raw.Pages) -> None:
    """X2, P2: three owed, one changed again: each once, also when asked for one at a time."""
    counters = [mock.counter() for _ in range(3)]
    endpoints = [mock.endpoint(cntr=cntr) for cntr in counters]
    poll = mock.poll_set()
    for cntr, ep in zip(counters, endpoints, strict=True):
        poll.add(cntr)
        mock.inject(ep)
    assert poll_raw(mock, poll, 8, memory.end) == -errno.EFAULT
    mock.inject(endpoints[1])
    got: list[object] = []
    for _ in range(3):
        got += poll.poll(1)
    assert sorted(map(id, got)) == sorted(map(id, counters))


def test_owed_change_of_a_removed_member_is_dropped(mock: Mock, memory: raw.Pages) -> None:
    """X2, P4: after poll_del its context never comes back."""
    kept, removed = mock.counter(), mock.counter()
    poll = mock.poll_set()
    for cntr in (kept, removed):
        poll.add(cntr)
        mock.inject(mock.endpoint(cntr=cntr))
    assert poll_raw(mock, poll, 8, memory.end) == -errno.EFAULT
    poll.remove(removed)
    room = 2 * ctypes.sizeof(_uapi.kfab_poll_entry)
    # Counted as the kernel tells it: PollSet knows the removed one's context no more.
    assert poll_raw(mock, poll, 2, memory.end - room) == 1


OPENS = ["FABRIC_OPEN", "DOMAIN_OPEN", "EQ_OPEN", "WAIT_OPEN", "CQ_OPEN", "CNTR_OPEN"]
OPENS += ["POLL_OPEN", "EP_OPEN", "BUF_ALLOC", "MR_REG"]


@pytest.mark.parametrize("name", OPENS)
def test_fault_opens_nothing(mock: Mock, memory: raw.Pages, name: str) -> None:
    """X2, X4: an open whose answer cannot be written leaves no object behind."""
    fd = mock.device.fileno()
    info = _uapi.kfab_info(size=ctypes.sizeof(_uapi.kfab_info))
    hints = raw.sample("GETINFO", infos=ctypes.addressof(info), info_size=info.size, count=1)
    info.prov_name[:4] = list(b"mock")
    ask = _uapi.kfab_info.from_buffer_copy(bytes(info))
    hints.hints = ctypes.addressof(ask)
    assert raw.call(fd, "GETINFO", hints) == 1
    buffer = mock.stack.enter_context(mock.device.buffer(4096))
    iov = _uapi.kfab_iov(buf=buffer._handle, len=4096)
    fields = {
        "fabric": mock.fabric._handle,
        "domain": mock.domain._handle,
        "info": ctypes.addressof(info),
        "wait_obj": 1,
        "length": 4096,
        "iov": ctypes.addressof(iov),
        "iov_count": 1,
        "access": _uapi.KFAB_SEND,
    }
    known = raw.fields(raw.CALLS[name][1])
    arg = raw.sample(name, **{key: value for key, value in fields.items() if key in known})
    before = mock.device.version()
    assert raw.with_read_only(fd, memory, name, arg) == -errno.EFAULT
    assert mock.device.version() == before
    assert raw.call(fd, name, arg) == 0
    close = raw.sample("CLOSE", handle=arg.out_handle)
    assert raw.call(fd, "CLOSE", close) == 0


def test_call_without_outputs_needs_no_writable_memory(mock: Mock, memory: raw.Pages) -> None:
    """X2: what was done is never reported as a fault: CLOSE from read-only memory."""
    opened = raw.sample("WAIT_OPEN", fabric=mock.fabric._handle, wait_obj=1)
    assert raw.call(mock.device.fileno(), "WAIT_OPEN", opened) == 0
    arg = raw.sample("CLOSE", handle=opened.out_handle)
    assert raw.with_read_only(mock.device.fileno(), memory, "CLOSE", arg) == 0


def test_no_kernel_address_comes_out(connected_pair: tuple[Side, Side]) -> None:
    """W8: nothing that calls return looks like an address of the kernel's."""
    left, right = connected_pair
    device = left.buffer._parent
    assert isinstance(device, kp.Device)
    right.ep.recv(right.buffer)
    left.ep.send(left.buffer[:8], flags=kp.OpFlags.COMPLETION)
    answers: list[Any] = []
    for cq in (left.cq, right.cq):
        arg = raw.sample("CQ_READERR", cq=cq._handle)
        raw.call(device.fileno(), "CQ_READERR", arg)
        answers.append(arg)
    entry = _uapi.kfab_cq_entry()
    arg = raw.sample("CQ_READ", cq=left.cq._handle, count=1, entries=ctypes.addressof(entry))
    while raw.call(device.fileno(), "CQ_READ", arg) == -errno.EAGAIN:
        left.wait_set.wait(timeout=LIMIT)
    answers.append(entry)
    with left.domain.mr(left.buffer, access=kp.Access.REMOTE_WRITE) as region:
        assert region.iova < 1 << 47
    for answer in answers:
        for field, _ in answer._fields_:
            value = getattr(answer, field)
            assert not isinstance(value, int) or value < 1 << 63, field
