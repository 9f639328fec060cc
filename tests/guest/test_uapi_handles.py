# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Handles, mappings and the limits of a client."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import uapi_support as raw
from guest_support import DEVICE, Call, Child, Mock, become, open_to_all
from rdm_support import parameter

import kfabric_py as kp
from kfabric_py import _uapi

InThread = Callable[[Callable[[], Any]], Call[Any]]
FIELDS = [(name, field) for name, fields in sorted(raw.HANDLES.items()) for field in fields]


@dataclass
class Zoo:
    """One open object of each class: name of the class → handle."""

    fd: int
    handles: dict[str, int]


@pytest.fixture
def zoo(mock: Mock) -> Zoo:
    """One open object of each class that the mock provider has. Depends on: mock."""
    eq = mock.eq(wait_obj=kp.WaitObj.UNSPEC)
    cq = mock.cq(wait_obj=kp.WaitObj.UNSPEC)
    cntr = mock.counter(wait_obj=kp.WaitObj.UNSPEC)
    buffer = mock.stack.enter_context(mock.device.buffer(4096))
    profile = mock.stack.enter_context(mock.domain.profile())
    return Zoo(
        mock.device.fileno(),
        {
            "fabric": mock.fabric._handle,
            "domain": mock.domain._handle,
            "eq": eq._handle,
            "cq": cq._handle,
            "cntr": cntr._handle,
            "wait": mock.wait_set()._handle,
            "poll": mock.poll_set()._handle,
            "channel": mock.channel()._handle,
            "ep": mock.endpoint(cq=cq)._handle,
            "buf": buffer._handle,
            "profile": profile._handle,
        },
    )


def fill(zoo: Zoo, name: str) -> Any:
    """Return the structure of a call with good handles in all its fields."""
    arg = raw.sample(name)
    for field, classes in raw.HANDLES[name].items():
        good = [zoo.handles[one] for one in classes.split() if one in zoo.handles]
        setattr(arg, field, good[0] if good else zoo.handles["ep"])
    if name == "CONTROL":
        arg.command = _uapi.KFAB_GETWAITOBJ
    if name in ("STRERROR", "POLL", "CQ_SREAD"):
        arg.buf_size = arg.count = 1
    if name == "POLL":
        arg.entries = 1
    if "rma_iov_count" in dict(arg._fields_):
        arg.rma_iov_count = 1
    if name.startswith("AV_"):
        arg.count = arg.addr_len = arg.buf_size = 1
    return arg


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_handle_that_names_nothing_is_ebadf(zoo: Zoo, name: str, field: str) -> None:
    """O3: 0, one that is closed, one that is not open yet, the largest."""
    closed = raw.sample("WAIT_OPEN", fabric=zoo.handles["fabric"], wait_obj=1)
    assert raw.call(zoo.fd, "WAIT_OPEN", closed) == 0
    close = raw.sample("CLOSE", handle=closed.out_handle)
    assert raw.call(zoo.fd, "CLOSE", close) == 0
    for handle in (0, closed.out_handle, closed.out_handle + 1000, 0xFFFFFFFF):
        if name in ("STRERROR", "BATCH") and handle == 0:
            continue
        arg = fill(zoo, name)
        setattr(arg, field, handle)
        assert raw.text(raw.call(zoo.fd, name, arg)) == "EBADF"


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_handle_of_another_class_is_einval(zoo: Zoo, name: str, field: str) -> None:
    """T2, O3: an object of a class that will not do is refused, and untouched."""
    classes = raw.HANDLES[name][field].split()
    for wrong in sorted(set(zoo.handles) - set(classes)):
        arg = fill(zoo, name)
        setattr(arg, field, zoo.handles[wrong])
        assert raw.text(raw.call(zoo.fd, name, arg)) == "EINVAL", wrong


def test_buffers_and_regions_are_named_by_their_own_class(zoo: Zoo) -> None:
    """O3: in a vector, too."""
    for iov, want in (
        (_uapi.kfab_iov(buf=zoo.handles["cq"], len=8), "EINVAL"),
        (_uapi.kfab_iov(buf=0, len=8), "EBADF"),
        (_uapi.kfab_iov(buf=zoo.handles["buf"], mr=zoo.handles["cq"], len=8), "EINVAL"),
        (_uapi.kfab_iov(buf=zoo.handles["buf"], mr=0xFFFF, len=8), "EBADF"),
        (_uapi.kfab_iov(buf=zoo.handles["buf"], len=4097), "EINVAL"),
        (_uapi.kfab_iov(buf=zoo.handles["buf"], offset=4097), "EINVAL"),
        (_uapi.kfab_iov(buf=zoo.handles["buf"], offset=8, len=(1 << 64) - 1), "EINVAL"),
    ):
        arg = raw.sample("SEND", ep=zoo.handles["ep"], iov_count=1, iov=ctypes.addressof(iov))
        assert raw.text(raw.call(zoo.fd, "SEND", arg)) == want


def test_another_clients_handle_means_nothing(zoo: Zoo) -> None:
    """O3: a handle belongs to the open file that made it."""
    with kp.Device() as other:
        for handle in zoo.handles.values():
            arg = raw.sample("CLOSE", handle=handle)
            assert raw.call(other.fileno(), "CLOSE", arg) == -errno.EBADF


def test_number_is_never_given_twice(mock: Mock) -> None:
    """O3: a stale handle cannot become another object."""
    seen = set()
    for _ in range(97):
        arg = raw.sample("WAIT_OPEN", fabric=mock.fabric._handle, wait_obj=1)
        assert raw.call(mock.device.fileno(), "WAIT_OPEN", arg) == 0
        assert arg.out_handle not in seen
        seen.add(arg.out_handle)
        close = raw.sample("CLOSE", handle=arg.out_handle)
        assert raw.call(mock.device.fileno(), "CLOSE", close) == 0
        assert raw.call(mock.device.fileno(), "CLOSE", close) == -errno.EBADF


@pytest.mark.races
def test_racing_closes_have_one_winner(mock: Mock, in_thread: InThread) -> None:
    """O3: of eight closes one returns 0, the others EBADF or EBUSY."""
    for _ in range(23):
        opened = raw.sample("WAIT_OPEN", fabric=mock.fabric._handle, wait_obj=1)
        assert raw.call(mock.device.fileno(), "WAIT_OPEN", opened) == 0

        def close(handle: int = opened.out_handle) -> int:
            arg = raw.sample("CLOSE", handle=handle)
            return raw.call(mock.device.fileno(), "CLOSE", arg)

        calls = [in_thread(close) for _ in range(8)]
        results = [call.result() for call in calls]
        assert results.count(0) == 1
        assert set(results) <= {0, -errno.EBADF, -errno.EBUSY}


def test_too_many_objects_are_refused(mock: Mock) -> None:
    """X3: EMFILE at the limit, which a close makes room under; another client has its own."""
    fd, fabric = mock.device.fileno(), mock.fabric._handle
    with parameter("max_objects", mock.device.version().objects + 2, "kfabric_dev"):
        opened = [raw.sample("WAIT_OPEN", fabric=fabric, wait_obj=1) for _ in range(3)]
        results = [raw.call(fd, "WAIT_OPEN", arg) for arg in opened]
        assert results == [0, 0, -errno.EMFILE]
        with kp.Device() as other, other.fabric(mock.info) as room, room.wait_set():
            assert other.version().objects == 2
        close = raw.sample("CLOSE", handle=opened[0].out_handle)
        assert raw.call(fd, "CLOSE", close) == 0
        assert raw.call(fd, "WAIT_OPEN", opened[2]) == 0
    for arg in opened[1:]:
        close = raw.sample("CLOSE", handle=arg.out_handle)
        assert raw.call(fd, "CLOSE", close) == 0


def test_user_has_a_limit_over_all_clients(mock: Mock) -> None:
    """X3: EMFILE for another client of the user; a close of any of them makes room."""
    with kp.Device() as other, other.fabric(mock.info) as fabric:
        held = mock.device.version().objects + other.version().objects
        with parameter("max_user_objects", held + 1, "kfabric_dev"):
            arg = raw.sample("WAIT_OPEN", fabric=fabric._handle, wait_obj=1)
            with mock.fabric.wait_set():
                assert raw.call(other.fileno(), "WAIT_OPEN", arg) == -errno.EMFILE
            assert raw.call(other.fileno(), "WAIT_OPEN", arg) == 0
        close = raw.sample("CLOSE", handle=arg.out_handle)
        assert raw.call(other.fileno(), "CLOSE", close) == 0


def _of_nobody(_report: Callable[[str], None]) -> int:
    """Allocate a page in each of two clients with room for one; 0 if that was refused."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (raw.PAGE, raw.PAGE))
    become()
    first, second = (os.open(DEVICE, os.O_RDWR) for _ in range(2))
    page = [raw.sample("BUF_ALLOC", length=raw.PAGE) for _ in range(3)]
    results = [raw.call(first, "BUF_ALLOC", page[0]), raw.call(second, "BUF_ALLOC", page[1])]
    close = raw.sample("CLOSE", handle=page[0].out_handle)
    results += [raw.call(first, "CLOSE", close), raw.call(second, "BUF_ALLOC", page[2])]
    return int(results != [0, -errno.ENOBUFS, 0, 0])


@pytest.mark.usefixtures("device")
def test_buffers_are_locked_memory_of_the_user(in_child: Callable[..., Child]) -> None:
    """X3: RLIMIT_MEMLOCK holds for all clients of a user; a close of any of them makes room."""
    with open_to_all():
        assert in_child(_of_nobody).wait() == 0


def test_too_much_memory_is_refused(device: kp.Device) -> None:
    """X3: ENOBUFS at the limit, which a close makes room under; another client has its own."""
    with parameter("max_bytes", 3 * raw.PAGE, "kfabric_dev"):
        first, second = device.buffer(raw.PAGE), device.buffer(2 * raw.PAGE)
        with pytest.raises(kp.KfiError) as caught:
            device.buffer(1)
        assert caught.value.errno == errno.ENOBUFS
        with kp.Device() as other:
            other.buffer(3 * raw.PAGE).close()
        first.close()
        device.buffer(1).close()
        second.close()
    assert device.version().bytes == 0


@pytest.mark.parametrize("length", [0, _uapi.KFAB_BUF_MAX + 1, (1 << 64) - 1])
def test_length_of_a_buffer_is_checked(device: kp.Device, length: int) -> None:
    """X3: EINVAL for nothing and for more than one buffer can have."""
    arg = raw.sample("BUF_ALLOC", length=length)
    assert raw.call(device.fileno(), "BUF_ALLOC", arg) == -errno.EINVAL


def allocated(device: kp.Device, length: int) -> Any:
    """Allocate a buffer without mapping it."""
    arg = raw.sample("BUF_ALLOC", length=length)
    assert raw.call(device.fileno(), "BUF_ALLOC", arg) == 0
    return arg


def test_largest_buffer_can_be_had_and_is_zeroed(device: kp.Device) -> None:
    """X3: KFAB_BUF_MAX bytes."""
    with device.buffer(_uapi.KFAB_BUF_MAX) as buffer:
        assert buffer.view[-1] == 0
        assert bytes(buffer.view[:4096]) == bytes(4096)


@pytest.mark.parametrize(
    ("flags", "length", "shift", "want"),
    [
        (mmap.MAP_PRIVATE, raw.PAGE, 0, errno.EINVAL),
        (mmap.MAP_SHARED, 3 * raw.PAGE, 0, errno.EINVAL),
        (mmap.MAP_SHARED, 2 * raw.PAGE, raw.PAGE, errno.EINVAL),
        (mmap.MAP_SHARED, raw.PAGE, 1 << 30, errno.EBADF),
        (mmap.MAP_SHARED, raw.PAGE, 1 << 60, errno.EBADF),
    ],
)
def test_mapping_is_checked(
    device: kp.Device, flags: int, length: int, shift: int, want: int
) -> None:
    """X1: shared, within the buffer, at an offset that is a buffer's."""
    buffer = allocated(device, 2 * raw.PAGE)
    with pytest.raises(OSError) as caught:
        mmap.mmap(device.fileno(), length, flags, offset=buffer.out_offset + shift)
    assert caught.value.errno == want


def test_mapping_of_the_back_shows_the_back(device: kp.Device) -> None:
    """X1: an offset further in is that much further in."""
    buffer = allocated(device, 2 * raw.PAGE)
    whole = mmap.mmap(device.fileno(), 2 * raw.PAGE, offset=buffer.out_offset)
    back = mmap.mmap(device.fileno(), raw.PAGE, offset=buffer.out_offset + raw.PAGE)
    whole[raw.PAGE : raw.PAGE + 3] = b"497"
    assert back[:3] == b"497"
    whole.close()
    back.close()


def _neighbours(read_only: bool) -> int:
    """Map two buffers, whose offsets adjoin, side by side; 0 if their border can be read."""
    length, fd = _uapi.KFAB_BUF_MAX, os.open(DEVICE, os.O_RDWR)
    low, high = (raw.sample("BUF_ALLOC", length=length) for _ in range(2))
    assert [raw.call(fd, "BUF_ALLOC", buffer) for buffer in (low, high)] == [0, 0]
    assert high.out_offset == low.out_offset + length
    room = raw.Pages.new(2 * length // raw.PAGE)
    room.free()
    border = room.address + length
    assert raw.map_shared(fd, length, high.out_offset, border) == border
    if read_only:
        raw.Pages(border, length).read_only()
    assert raw.map_shared(fd, length, low.out_offset, room.address) == room.address
    if read_only:
        raw.Pages(border - raw.PAGE, raw.PAGE).read_only()
    return int(ctypes.string_at(border - 1, 2) != bytes(2))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("read_only", [False, True], ids=["writable", "made read-only"])
def test_mappings_of_neighbours_stay_apart(in_child: Callable[..., Child], read_only: bool) -> None:
    """X1: whatever the addresses and the access, each mapping shows its own buffer."""
    assert in_child(lambda _report: _neighbours(read_only)).wait() == 0


def test_mapping_cannot_grow(device: kp.Device) -> None:
    """X1: mremap() is EFAULT, also within the buffer."""
    buffer = allocated(device, 2 * raw.PAGE)
    address = raw.map_shared(device.fileno(), raw.PAGE, buffer.out_offset)
    assert raw.enlarge(address, raw.PAGE, 2 * raw.PAGE) == errno.EFAULT
    raw.unmap(address, raw.PAGE)


def test_mapped_memory_outlives_its_handle(device: kp.Device) -> None:
    """O1, V8: closed but mapped it is still there, and still accounted for."""
    buffer = allocated(device, raw.PAGE)
    mapping = mmap.mmap(device.fileno(), raw.PAGE, offset=buffer.out_offset)
    mapping[:3] = b"497"
    close = raw.sample("CLOSE", handle=buffer.out_handle)
    assert raw.call(device.fileno(), "CLOSE", close) == 0
    assert (device.version().objects, device.version().bytes) == (0, raw.PAGE)
    assert mapping[:3] == b"497"
    with pytest.raises(OSError) as caught:
        mmap.mmap(device.fileno(), raw.PAGE, offset=buffer.out_offset)
    assert caught.value.errno == errno.EBADF
    mapping.close()
    assert device.version().bytes == 0


def test_posted_memory_outlives_its_handle(mock: Mock) -> None:
    """V8: a pending receive keeps the memory; the endpoint's close gives it up."""
    before = mock.device.version().bytes
    ep = mock.endpoint(cq=mock.cq())
    buffer = mock.device.buffer(raw.PAGE)
    ep.recv(buffer)
    buffer.close()
    assert mock.device.version().bytes == before + raw.PAGE
    ep.close()
    assert mock.device.version().bytes == before


def ends_quietly(mock: Mock, ep: kp.Endpoint, buffer: kp.Buffer) -> None:
    """A send whose success writes no completion."""
    ep.send(buffer, flags=kp.OpFlags(0))
    buffer.close()
    mock.complete(ep, "send")


def ends_well(mock: Mock, ep: kp.Endpoint, buffer: kp.Buffer) -> None:
    """A receive that succeeds."""
    ep.recv(buffer)
    buffer.close()
    mock.complete(ep, "recv")


def fails(mock: Mock, ep: kp.Endpoint, buffer: kp.Buffer) -> None:
    """A send that fails."""
    ep.send(buffer, flags=kp.OpFlags(0))
    buffer.close()
    mock.complete(ep, "send", err=errno.EIO)


def is_cancelled(mock: Mock, ep: kp.Endpoint, buffer: kp.Buffer) -> None:
    """A receive that is cancelled."""
    ep.recv(buffer, context="mine")
    buffer.close()
    ep.cancel("mine")


def is_injected(mock: Mock, ep: kp.Endpoint, buffer: kp.Buffer) -> None:
    """A send that has read the buffer when the call returns."""
    ep.inject(buffer[:8])
    buffer.close()
    mock.complete(ep, "send")


def is_refused(mock: Mock, ep: kp.Endpoint, buffer: kp.Buffer) -> None:
    """A receive that is not posted: its flags are wrong."""
    with pytest.raises(kp.KfiError):
        ep.recv(buffer, flags=kp.OpFlags.FENCE)
    buffer.close()


@pytest.mark.parametrize(
    "operation", [ends_quietly, ends_well, fails, is_cancelled, is_injected, is_refused]
)
def test_memory_is_given_back_with_the_end_of_its_operation(
    mock: Mock, operation: Callable[[Mock, kp.Endpoint, kp.Buffer], None]
) -> None:
    """X3: a long-lived endpoint uses many times the limit, one buffer after the other."""
    before = mock.device.version().bytes
    cq = mock.cq()
    ep = mock.endpoint(cq=cq, selective=True)
    with parameter("max_bytes", before + 2 * raw.PAGE, "kfabric_dev"):
        for _ in range(20):
            operation(mock, ep, mock.device.buffer(raw.PAGE))
            assert mock.device.version().bytes == before
            with contextlib.suppress(kp.ErrorAvailable, kp.Again):
                cq.read()
            cq.readerr()


def test_memory_in_flight_is_charged(mock: Mock) -> None:
    """X3: each end gives back what its own operation has used last."""
    before = mock.device.version().bytes
    ep = mock.endpoint(cq=mock.cq())
    buffer = mock.device.buffer(2 * raw.PAGE)
    ep.recv(buffer[: raw.PAGE])
    ep.recv(buffer[raw.PAGE :])
    with mock.device.buffer(raw.PAGE) as other:
        ep.recv(other)
    buffer.close()
    assert mock.device.version().bytes == before + 3 * raw.PAGE
    for left in (3, 1, 0):
        mock.complete(ep, "recv")
        assert mock.device.version().bytes == before + left * raw.PAGE


def test_oldest_operation_of_a_number_is_cancelled(mock: Mock) -> None:
    """V4: of those that can be cancelled; a send of the same number cannot."""
    fd, cq = mock.device.fileno(), mock.cq()
    ep = mock.endpoint(cq=cq)
    with mock.device.buffer(raw.PAGE) as buffer:
        iov = _uapi.kfab_iov(buf=buffer._handle)
        for name, length in (("SEND", 1), ("RECV", 2), ("RECV", 3)):
            iov.len = length
            arg = raw.sample(name, ep=ep._handle, iov_count=1, context=497)
            arg.iov = ctypes.addressof(iov)
            assert raw.call(fd, name, arg) == 0
        cancel = raw.sample("CANCEL", ep=ep._handle, context=497)
        assert raw.call(fd, "CANCEL", cancel) == 0
        mock.complete(ep, "recv")
