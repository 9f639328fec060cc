# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Profiles over a fake of the kernel: names, types, snapshots, events."""

from __future__ import annotations

import asyncio
import ctypes
import errno
from typing import Any

import pytest
from fake_kernel import FakeKernel

import kfabric_py as kp
from kfabric_py import _uapi, aio

PRIMITIVE = (_uapi.KFAB_PRIMITIVE_TYPE, _uapi.KFAB_UINT64)
MESSAGE = (_uapi.KFAB_DEFINED_TYPE, _uapi.KFAB_TYPE_CQ_ERR_ENTRY)
MSG = ctypes.sizeof(_uapi.kfab_profile_msg)

# id, name, type, flags, size
VARS = [
    (7, "signals", PRIMITIVE, _uapi.KFAB_PROFILE_RESETS, 8),
    (9, "latency", PRIMITIVE, 0, 24),
    (1, "unexp_msg_queue", MESSAGE, _uapi.KFAB_PROFILE_LIST, MSG),
]
EVENTS = [(5, "unexp_msg_recvd", MESSAGE, 0, MSG), (6, "level", PRIMITIVE, 0, 8)]


def fill(array: Any, text: str) -> None:
    """Copy a string into an array of bytes."""
    ctypes.memmove(array, text.encode() + b"\0", len(text) + 1)


class FakeProfile:
    """The kernel's side: values, what is kept, and what was asked for."""

    def __init__(self, kernel: FakeKernel) -> None:
        self.kernel = kernel
        self.values: dict[int, bytes] = {
            7: (497).to_bytes(8, "little"),
            9: b"".join(n.to_bytes(8, "little") for n in (3, 5, 7)),
            1: b"",
        }
        self.commands: list[tuple[int, int]] = []
        self.kept: list[_uapi.kfab_profile_event] = []
        self.dropped = 0
        for name in ("query", "read", "control", "events"):
            setattr(kernel, f"profile_{name}", getattr(self, name))

    def query(self, arg: Any) -> int:
        listed = EVENTS if arg.what == _uapi.KFAB_PROFILE_EVENTS else VARS
        room, arg.count = arg.count, len(listed)
        if not arg.descs:
            return 0
        descs = (_uapi.kfab_profile_desc * room).from_address(arg.descs)
        for desc, (number, name, kind, flags, size) in zip(descs, listed, strict=False):
            desc.id, desc.var_flags, desc.var_size = number, flags, size
            desc.datatype_sel, desc.datatype = kind
            fill(desc.name, name)
            fill(desc.desc, f"what {name} is")
        return min(room, len(listed))

    def read(self, arg: Any) -> None:
        value = self.values[arg.id]
        room, arg.buf_size = arg.buf_size, len(value)
        if room < len(value):
            raise OSError(_uapi.KFAB_ETOOSMALL, "too small")
        ctypes.memmove(arg.buf, value, len(value))

    def control(self, arg: Any) -> None:
        self.commands.append((arg.command, arg.id))

    def events(self, arg: Any) -> int:
        arg.out_dropped = self.dropped
        if not self.kept:
            raise BlockingIOError(errno.EAGAIN, "none")
        took = self.kept[: arg.count]
        del self.kept[: arg.count]
        room = (_uapi.kfab_profile_event * arg.count).from_address(arg.events)
        for entry, event in zip(room, took, strict=False):
            ctypes.memmove(ctypes.addressof(entry), ctypes.addressof(event), ctypes.sizeof(event))
        if not self.kept:
            self.kernel.unready(arg.profile)
        return len(took)

    def happen(self, profile: kp.Profile, seq: int, value: int) -> None:
        event = _uapi.kfab_profile_event(seq=seq, id=6, data_size=8)
        event.datatype_sel, event.datatype = PRIMITIVE
        event.data.value = value
        self.kept.append(event)
        self.kernel.make_ready(profile._handle)


@pytest.fixture
def fake(kernel: FakeKernel) -> FakeProfile:
    """A kernel with a profile of three variables and two events."""
    return FakeProfile(kernel)


@pytest.fixture
def profile(fake: FakeProfile, domain: kp.Domain) -> kp.Profile:
    """An open profile of a domain."""
    return domain.profile()


def test_profile_is_a_mapping_of_names(profile: kp.Profile) -> None:
    """F2: names, in the kernel's order, with what they mean."""
    assert list(profile) == ["signals", "latency", "unexp_msg_queue"]
    assert len(profile) == 3 and "latency" in profile and "level" not in profile
    assert profile.variables["signals"].resets and not profile.variables["latency"].resets
    assert profile.kinds["level"].description == "what level is"
    with pytest.raises(KeyError):
        profile["level"]


def test_values_have_the_types_that_are_declared(profile: kp.Profile) -> None:
    """F3: a number, an array, a list."""
    assert profile["signals"] == profile.number("signals") == 497
    assert profile["latency"] == (3, 5, 7)
    assert profile["unexp_msg_queue"] == ()
    with pytest.raises(TypeError):
        profile.number("latency")


def test_list_that_is_longer_than_the_room_is_read_again(
    fake: FakeProfile, profile: kp.Profile
) -> None:
    """F3: ETOOSMALL tells how much there is."""
    messages = [_uapi.kfab_profile_msg(msg_flags=2, len=n, tag=n + 1) for n in range(97)]
    fake.values[1] = b"".join(map(bytes, messages))
    queue = profile["unexp_msg_queue"]
    assert isinstance(queue, tuple) and len(queue) == 97
    assert queue[41] == kp.Message(kp.CqFlags.MSG, 41, 0, 42)


def test_wrong_size_of_a_number_is_an_error(fake: FakeProfile, profile: kp.Profile) -> None:
    """F3: a kernel of another mind is not tried again for ever."""
    fake.values[7] = bytes(16)
    with pytest.raises(kp.TooSmall):
        profile["signals"]


def test_snapshot_is_between_start_and_end(fake: FakeProfile, profile: kp.Profile) -> None:
    """F4: also if a read fails."""
    assert profile.snapshot() == {"signals": 497, "latency": (3, 5, 7), "unexp_msg_queue": ()}
    del fake.values[9]
    with pytest.raises(KeyError):
        profile.snapshot()
    both = [(_uapi.KFAB_PROFILE_START_READS, 0), (_uapi.KFAB_PROFILE_END_READS, 0)]
    assert fake.commands == both * 2


def test_events_are_asked_for_by_name(fake: FakeProfile, profile: kp.Profile) -> None:
    """F6: some, or all; an unknown one asks for nothing."""
    profile.keep("level")
    profile.discard()
    with pytest.raises(KeyError):
        profile.keep("nonsense")
    profile.reset()
    assert fake.commands == [
        (_uapi.KFAB_PROFILE_KEEP, 6),
        (_uapi.KFAB_PROFILE_DISCARD, 5),
        (_uapi.KFAB_PROFILE_DISCARD, 6),
        (_uapi.KFAB_PROFILE_RESET, 0),
    ]


def test_events_come_with_their_data(fake: FakeProfile, profile: kp.Profile) -> None:
    """F6: a number, a message, nothing; and how many were dropped."""
    fake.happen(profile, 1, 41)
    message = _uapi.kfab_profile_event(seq=3, id=5, data_size=MSG)
    message.datatype_sel, message.datatype = MESSAGE
    message.data.msg.len = 997
    fake.kept += [message, _uapi.kfab_profile_event(seq=4, id=5)]
    fake.dropped = 1
    assert [(event.name, event.seq, event.data) for event in profile.events(timeout=0)] == [
        ("level", 1, 41),
        ("unexp_msg_recvd", 3, kp.Message(kp.CqFlags(0), 997, 0, 0)),
        ("unexp_msg_recvd", 4, None),
    ]
    assert profile.dropped == 1
    assert profile.read() == []


def test_events_by_asyncio(fake: FakeProfile, profile: kp.Profile) -> None:
    """F6: each once, in order, from the descriptor."""

    async def main() -> list[object]:
        found: list[object] = []
        with aio.wrap(profile) as events:
            asyncio.get_running_loop().call_soon(fake.happen, profile, 1, 3)
            async for event in events:
                found.append(event.data)
                if len(found) == 3:
                    break
                fake.happen(profile, len(found) + 1, 2 * len(found) + 3)
        return found

    assert asyncio.run(asyncio.wait_for(main(), 10)) == [3, 5, 7]


def test_profile_is_closed_before_its_object(
    kernel: FakeKernel, fake: FakeProfile, domain: kp.Domain
) -> None:
    """F1: the library closes in an order that works."""
    cq = domain.cq()
    profiles = [cq.profile(), cq.profile()]
    cq.close()
    order = [kernel.closed.index(one._handle) for one in (*profiles, cq)]
    assert order[2] == max(order)
    assert all(one.closed for one in profiles)
