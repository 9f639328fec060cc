# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""No call gives away an address of the kernel: all that calls write is looked through."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from guest_support import LIMIT, Mock
from rdm_support import Links
from verbs_support import REMOTE

import kfabric_py as kp
from kfabric_py import _uapi
from kfabric_py._call import Client

#: Memory, and the kernel with its modules. What is between them are also two numbers of
#: 32 bits whose second is negative.
RANGES = (
    range(0xFFFF_8000_0000_0000, 0xFFFF_F000_0000_0000),
    range(0xFFFF_FFFF_8000_0000, 0xFFFF_FFFF_FFFF_0000),
)

#: Where else than into its structure a call writes, and how many bytes may be there.
ARRAYS: dict[str, tuple[str, Callable[[Any], int]]] = {
    "GETINFO": ("infos", lambda arg: arg.info_size * arg.count),
    "STRERROR": ("buf", lambda arg: arg.buf_size),
    "GETNAME": ("addr", lambda arg: arg.addr_len),
    "GETPEER": ("addr", lambda arg: arg.addr_len),
    "CQ_READ": ("entries", lambda arg: ctypes.sizeof(_uapi.kfab_cq_entry) * arg.count),
    "CQ_SREAD": ("entries", lambda arg: ctypes.sizeof(_uapi.kfab_cq_entry) * arg.count),
    "CQ_READERR": ("err_data", lambda arg: arg.err_data_size),
    "EQ_READ": ("info", lambda arg: ctypes.sizeof(_uapi.kfab_info)),
    "EQ_SREAD": ("info", lambda arg: ctypes.sizeof(_uapi.kfab_info)),
    "EQ_READERR": ("err_data", lambda arg: arg.err_data_size),
    "POLL": ("entries", lambda arg: ctypes.sizeof(_uapi.kfab_poll_entry) * arg.count),
    "AV_LOOKUP": ("addr", lambda arg: arg.addr_len),
    "AV_STRADDR": ("buf", lambda arg: arg.buf_size),
    "PROFILE_QUERY": ("descs", lambda arg: arg.desc_size * arg.count),
    "PROFILE_READ": ("buf", lambda arg: arg.buf_size),
    "PROFILE_EVENTS": ("events", lambda arg: ctypes.sizeof(_uapi.kfab_profile_event) * arg.count),
}


def addresses(data: bytes) -> list[str]:
    """The kernel's addresses in some bytes, at any place that is a multiple of 4."""
    words = (struct.unpack_from("=Q", data, at)[0] for at in range(0, len(data) - 7, 4))
    return [f"{word:#x}" for word in words if any(word in each for each in RANGES)]


class Watch:
    """Stands before the calls of a client, and looks at what they have written."""

    def __init__(self, client: Client) -> None:
        self.found: list[tuple[str, list[str]]] = []
        self.seen: set[str] = set()
        self._ioctl = client._ioctl
        client._ioctl = self

    def __call__(self, fd: int, request: int, arg: ctypes.Structure) -> int:
        """Make the call; note what is in its outputs, also after an error."""
        name = _uapi.CALL_NAMES[request]
        where, size = self._array(name, arg)
        try:
            return self._ioctl(fd, request, arg)
        finally:
            self.seen.add(name)
            written = bytes(arg) + (ctypes.string_at(where, size) if where else b"")
            if found := addresses(written):
                self.found.append((name, found))

    @staticmethod
    def _array(name: str, arg: Any) -> tuple[int, int]:
        if name not in ARRAYS:
            return 0, 0
        field, size = ARRAYS[name]
        return getattr(arg, field), size(arg)


@pytest.fixture
def watch(device: kp.Device) -> Iterator[Watch]:
    """Look at every call of the device; at the end nothing may have been found."""
    watch = Watch(device._client)
    yield watch
    assert watch.found == []


def look_at_profile(of: Any) -> None:
    """Read what a profile lists, with the names."""
    with of.profile() as profile:
        assert profile.snapshot()


def test_objects_of_the_mock_provider(watch: Watch, mock: Mock) -> None:
    """X1: entries and errors, events, members of sets, profiles, events of a channel."""
    channel = mock.stack.enter_context(mock.fabric.comp_channel(blocking=False))
    wait_set = mock.stack.enter_context(mock.fabric.wait_set())
    cq = mock.cq(wait_set=wait_set)
    told = mock.cq(channel=channel)
    eq = mock.eq()
    told.req_notify()
    mock.inject(mock.endpoint(cq=told))
    ep = mock.endpoint(cq=cq)
    mock.inject(ep, data=1)
    mock.inject(ep, err=5)
    wait_set.wait(timeout=LIMIT)
    with mock.stack.enter_context(mock.domain.poll_set()) as poll_set:
        poll_set.add(cq)
        assert poll_set.poll()
        poll_set.remove(cq)
    assert channel.get_cq_event(ack=True) is not None
    assert len(cq.read()) == len(told.read()) == 1
    error = cq.readerr()
    assert error is not None
    assert cq.strerror(error)
    eq.write(kp.Event.NOTIFY, data=5)
    assert eq.read() is not None
    for each in (cq, wait_set, mock.domain, ep):
        look_at_profile(each)
    assert {"CQ_READ", "CQ_READERR", "EQ_READ", "GET_CQ_EVENT", "POLL", "PROFILE_QUERY"} <= (
        watch.seen
    )


def test_endpoints_on_a_device(watch: Watch, links: Links) -> None:
    """X1: offers, names, registered memory and its keys, entries of messages and of reads."""
    a, b = links.connect()
    b.ep.recv(b.buffer[:64])
    a.ep.send(a.buffer[:64])
    assert [a.entry().len, b.entry().len] == [0, 64]
    region = links.region(b, b.buffer[:], REMOTE)
    a.ep.read(a.buffer[:64], region.remote(0, 64))
    assert a.entry().len == 0
    assert a.ep.getname() is not None
    assert {"GETINFO", "MR_REG", "BUF_ALLOC", "GETNAME", "CQ_SREAD"} <= watch.seen


def test_watch_finds_an_address() -> None:
    """X1: the check of this file can fail."""

    def leak(fd: int, request: int, arg: Any) -> int:
        arg.out_bytes = 0xFFFF_8880_1234_5678
        return 0

    client = Client(-1, leak)
    watch = Watch(client)
    client(_uapi.KFAB_IOC_VERSION, _uapi.kfab_version())
    assert watch.found == [("VERSION", ["0xffff888012345678"])]
