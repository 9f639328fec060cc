# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Events of profiles for users: kept in order, read by blocking, by descriptor, by asyncio."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uapi_support as raw
from guest_support import LIMIT, Call, Mock, handler
from keeper_support import Keeper

import kfabric_py as kp
from kfabric_py import _uapi, aio

InThread = Callable[[Callable[[], Any]], Call[Any]]
RECVD, MATCHED = "unexp_msg_recvd", "unexp_msg_matched"
EVENT = ctypes.sizeof(_uapi.kfab_profile_event)


@pytest.fixture
def memory() -> Iterator[raw.Pages]:
    """A page whose successor is missing."""
    yield from raw.pages()


@pytest.fixture
def profile(keeper: Keeper) -> Iterator[kp.Profile]:
    """A keeper's profile, with all events kept."""
    with keeper.ep.profile() as profile:
        profile.keep()
        yield profile


def told(events: list[kp.ProfileEvent]) -> list[tuple[str, int]]:
    """Name and length of the message of each."""
    assert all(isinstance(event.data, kp.Message) for event in events)
    return [(e.name, e.data.len) for e in events if isinstance(e.data, kp.Message)]


def test_events_are_listed(keeper: Keeper) -> None:
    """F2, F5, F6: two on an endpoint that keeps messages, none on a CQ; others are refused."""
    with keeper.ep.profile() as profile, keeper.cq.profile() as other:
        assert set(profile.kinds) == {RECVD, MATCHED}
        assert all(kind.description for kind in profile.kinds.values())
        assert not other.kinds
        with pytest.raises(KeyError):
            profile.keep("unexp_msg_cnt")
        arg = raw.sample(
            "PROFILE_CONTROL", profile=other._handle, command=_uapi.KFAB_PROFILE_KEEP, id=0
        )
        assert raw.call(keeper.device.fileno(), "PROFILE_CONTROL", arg) == -errno.EINVAL


@pytest.mark.parametrize("keeper", ["process"], indirect=True)
def test_device_loss_ends_the_wait_for_events(
    mock: Mock, keeper: Keeper, profile: kp.Profile, in_thread: InThread
) -> None:
    """O5, F6: no event can come any more: sleepers learn it, and so does a descriptor."""
    call = in_thread(lambda: profile.read(timeout=LIMIT)).asleep()
    poller = select.poll()
    poller.register(profile, select.POLLIN)
    mock.command("lose", mock.domain.trace_id)
    with pytest.raises(kp.DeviceLost):
        call.result()
    assert [mask for _, mask in poller.poll(0)] == [select.POLLERR | select.POLLHUP]
    with keeper.ep.profile() as late:
        late.keep()
        with pytest.raises(kp.DeviceLost):
            late.read(timeout=LIMIT)


@pytest.mark.parametrize("keeper", ["process"], indirect=True)
def test_events_before_the_loss_can_be_read(
    mock: Mock, keeper: Keeper, profile: kp.Profile
) -> None:
    """O5, F6: what was kept comes first, then the loss."""
    keeper.arrive(3)
    mock.command("lose", mock.domain.trace_id)
    assert told(profile.read(timeout=LIMIT)) == [(RECVD, 3)]
    with pytest.raises(kp.DeviceLost):
        profile.read(timeout=LIMIT)


@pytest.mark.parametrize("keeper", ["process", "softirq", "workqueue", "rdm"], indirect=True)
def test_events_come_in_order_with_their_messages(keeper: Keeper, profile: kp.Profile) -> None:
    """F5, F6, W10: received, received, matched: what happened, in the order in which it did."""
    keeper.arrive(3, 5)
    keeper.receive()
    keeper.arrive(7)
    keeper.receive()
    events = profile.read()
    assert told(events) == [(RECVD, 3), (RECVD, 5), (MATCHED, 3), (RECVD, 7), (MATCHED, 5)]
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]
    assert profile.read() == []
    # A message that finds a receive is none of these.
    keeper.receive()
    profile.read()
    keeper.post()
    keeper.arrive(9)
    assert profile.read() == []


def test_only_what_was_asked_for_is_kept(keeper: Keeper) -> None:
    """F6: by kind, from keep to discard; each profile for itself."""
    with keeper.ep.profile() as first, keeper.ep.profile() as second:
        first.keep(MATCHED)
        keeper.arrive(3, 4)
        second.keep(RECVD)
        keeper.arrive(5)
        keeper.receive()
        second.discard()
        keeper.arrive(6)
        assert told(first.read()) == [(MATCHED, 3)]
        assert told(second.read()) == [(RECVD, 5)]


def test_what_finds_no_room_is_counted(keeper: Keeper, profile: kp.Profile) -> None:
    """F6: the oldest stay; a count of the others, and a gap in the numbers."""
    kept = _uapi.KFAB_PROFILE_KEPT
    keeper.arrive(*range(kept + 41))
    first = profile.read(100)
    assert [event.seq for event in first] == list(range(1, len(first) + 1))
    keeper.arrive(4000)
    rest: list[kp.ProfileEvent] = []
    while some := profile.read(100):
        rest += some
    assert [event.seq for event in rest] == [*range(len(first) + 1, kept + 1), kept + 42]
    assert profile.dropped == 41


def test_blocking_read_is_woken(keeper: Keeper, profile: kp.Profile, in_thread: InThread) -> None:
    """F6, W2, V5: an event ends it; a deadline returns nothing."""
    assert profile.read(timeout=0.01) == []
    for length in (3, 5):
        call = in_thread(lambda: profile.read(timeout=LIMIT)).asleep()
        keeper.arrive(length)
        assert told(call.result()) == [(RECVD, length)]


def test_each_event_is_read_once(keeper: Keeper, profile: kp.Profile, in_thread: InThread) -> None:
    """F6, X2: several readers; none gets what another has, none is left asleep for ever."""
    calls = [in_thread(lambda: profile.read(1, timeout=LIMIT)).asleep() for _ in range(3)]
    keeper.arrive(3, 5, 7)
    found = [entry for call in calls for entry in told(call.result())]
    assert sorted(found) == [(RECVD, 3), (RECVD, 5), (RECVD, 7)]


def test_close_is_refused_under_a_reader(
    keeper: Keeper, profile: kp.Profile, in_thread: InThread
) -> None:
    """O1, F6: a thread asleep in it uses it."""
    call = in_thread(lambda: profile.read(timeout=LIMIT)).asleep()
    with pytest.raises(kp.Busy):
        profile.close()
    keeper.arrive(3)
    assert len(call.result()) == 1


def test_interrupted_read_is_eintr(
    keeper: Keeper, profile: kp.Profile, in_thread: InThread
) -> None:
    """W5, F6: a handler without SA_RESTART."""
    main = threading.main_thread().ident
    assert main is not None
    room = (_uapi.kfab_profile_event * 4)()
    arg = raw.sample(
        "PROFILE_EVENTS",
        profile=profile._handle,
        count=4,
        events=ctypes.addressof(room),
        deadline=_uapi.KFAB_DEADLINE_NONE,
    )
    with handler(signal.SIGUSR1, lambda: None, restart=False):
        timer = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGUSR1))
        timer.start()
        assert raw.call(keeper.device.fileno(), "PROFILE_EVENTS", arg) == -errno.EINTR
        timer.join()


def test_fault_loses_no_event(keeper: Keeper, profile: kp.Profile, memory: raw.Pages) -> None:
    """X2, V6, F6: what could not be copied out, the entries or the answer, was not read."""
    keeper.arrive(*range(5))
    for room in (0, 1, 4):
        arg = raw.sample(
            "PROFILE_EVENTS",
            profile=profile._handle,
            count=5,
            events=memory.end - room * EVENT,
        )
        assert raw.call(keeper.device.fileno(), "PROFILE_EVENTS", arg) == -errno.EFAULT
    kept = (_uapi.kfab_profile_event * 5)()
    arg = raw.sample(
        "PROFILE_EVENTS", profile=profile._handle, count=5, events=ctypes.addressof(kept)
    )
    assert (
        raw.with_read_only(keeper.device.fileno(), memory, "PROFILE_EVENTS", arg) == -errno.EFAULT
    )
    assert told(profile.read()) == [(RECVD, length) for length in range(5)]


def test_arguments_that_make_no_sense(keeper: Keeper, profile: kp.Profile) -> None:
    """O2, F6: no room is EINVAL, and so is a time before the clock's start."""
    for fields in (
        {"count": 0, "events": 8},
        {"count": 1},
        {"count": 1, "events": 8, "deadline": -1},
    ):
        arg = raw.sample("PROFILE_EVENTS", profile=profile._handle, **fields)
        assert raw.call(keeper.device.fileno(), "PROFILE_EVENTS", arg) == -errno.EINVAL


def polled(fd: int) -> int:
    """What poll(2) says now."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return dict(poll.poll(0)).get(fd, 0)


def test_descriptor_is_readable_while_something_is_kept(
    keeper: Keeper, profile: kp.Profile
) -> None:
    """F6, W8: exactly while; and it shows the end of the profile, and outlives it."""
    fd = profile.descriptor()
    assert polled(fd) == polled(profile.fileno()) == 0
    keeper.arrive(3, 5)
    assert polled(fd) == select.POLLIN
    profile.read(1)
    assert polled(fd) == select.POLLIN
    profile.read(1)
    assert polled(fd) == 0
    profile.close()
    assert polled(fd) == select.POLLERR | select.POLLHUP
    os.close(fd)


def test_event_wakes_a_poller(keeper: Keeper, profile: kp.Profile, in_thread: InThread) -> None:
    """F6, W2: asleep in poll(2) on the descriptor."""
    poll = select.poll()
    poll.register(profile.fileno(), select.POLLIN)
    call = in_thread(lambda: poll.poll(LIMIT * 1000))
    keeper.arrive(3)
    assert call.result() == [(profile.fileno(), select.POLLIN)]


def test_events_by_iteration(keeper: Keeper, profile: kp.Profile, in_thread: InThread) -> None:
    """F6: a loop over them, as they come."""

    def three() -> list[kp.ProfileEvent]:
        events = profile.events(timeout=LIMIT)
        return [next(events) for _ in range(3)]

    call = in_thread(three).asleep()
    keeper.arrive(3, 5, 7)
    assert told(call.result()) == [(RECVD, 3), (RECVD, 5), (RECVD, 7)]
    assert list(profile.events(timeout=0)) == []


def test_events_by_asyncio(keeper: Keeper, profile: kp.Profile, in_thread: InThread) -> None:
    """F6, T3: ``async for``, woken from another thread; the close ends the await."""

    async def main() -> list[kp.ProfileEvent]:
        found: list[kp.ProfileEvent] = []
        with aio.wrap(profile) as events:
            call = in_thread(lambda: keeper.arrive(*range(97)))
            async for event in events:
                found.append(event)
                if len(found) == 97:
                    break
            call.result()
            task = asyncio.ensure_future(events.read())
            await asyncio.sleep(0)
            profile.close()
            with pytest.raises(kp.KfiError):
                await task
        return found

    events = asyncio.run(asyncio.wait_for(main(), LIMIT))
    assert told(events) == [(RECVD, length) for length in range(97)]


def test_profile_without_events_has_none_to_wait_for(mock: Mock) -> None:
    """F6, O5: EINVAL, since nothing would end the wait, not even the loss of the device."""
    with mock.cq().profile() as profile:
        with pytest.raises(kp.KfiError) as error:
            next(profile.events(timeout=LIMIT))
        assert error.value.errno == errno.EINVAL


def test_profile_without_events_gives_no_descriptor(mock: Mock) -> None:
    """F6, T4: EINVAL for one that would never be ready; its wait object is NONE."""
    with mock.cq().profile() as profile:
        assert profile.wait_obj() is kp.WaitObj.NONE
        with pytest.raises(kp.KfiError) as error:
            profile.descriptor()
        assert error.value.errno == errno.EINVAL
