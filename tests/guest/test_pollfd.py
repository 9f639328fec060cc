# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Wait sets of KFI_WAIT_POLLFD: one descriptor a member, and who keeps it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import select
from collections.abc import Callable

import pytest
import uapi_support as raw
from descriptor_support import HANGUP, events, readable
from guest_support import LIMIT, Call, Mock

import kfabric_py as kp
from kfabric_py import _uapi

InThread = Callable[[Callable[[], object]], Call[object]]

#: Stands in every place that a call must not write.
GUARD = 0xDEADBEEF


def listing(mock: Mock, wait_set: kp.WaitSet, room: int) -> tuple[int, int, int, list[int]]:
    """Ask for the members; return result, count, change index and all that was written."""
    handles = (ctypes.c_uint32 * 32)(*[GUARD] * 32)
    arg = raw.sample(
        "POLLFD",
        wait=wait_set._handle,
        count=room,
        handles=ctypes.addressof(handles),
        out_change_index=GUARD,
    )
    result = raw.call(mock.device.fileno(), "POLLFD", arg)
    written = [handle for handle in handles if handle != GUARD]
    assert list(handles)[: len(written)] == written, "written behind the end"
    return result, arg.count, arg.out_change_index, written


@pytest.fixture
def wait_set(mock: Mock) -> kp.WaitSet:
    """An empty POLLFD set. Depends on: mock."""
    return mock.wait_set(wait_obj=kp.WaitObj.POLLFD)


@pytest.fixture
def three(mock: Mock, wait_set: kp.WaitSet) -> list[kp.EventQueue]:
    """Three members of the set. Depends on: mock, wait_set."""
    return [mock.eq(wait_set=wait_set) for _ in range(3)]


def ready_numbers(found: kp.PollFds) -> list[int]:
    """Return the places of those that are readable."""
    return [place for place, fd in enumerate(found.fds) if readable(fd)]


def test_too_small_an_array(mock: Mock, wait_set: kp.WaitSet, three: list[kp.EventQueue]) -> None:
    """W8, B49: nfds 0, need-1, need, need+5: the need is told, a part is never written."""
    handles = [eq._handle for eq in three]
    index = wait_set.pollfds().change_index
    assert listing(mock, wait_set, 0) == (0, 3, index, [])
    assert listing(mock, wait_set, 2) == (-_uapi.KFAB_ETOOSMALL, 3, index, [])
    assert listing(mock, wait_set, 3) == (0, 3, index, handles)
    assert listing(mock, wait_set, 8) == (0, 3, index, handles)


def test_array_for_every_object_that_there_can_be(
    mock: Mock, wait_set: kp.WaitSet, three: list[kp.EventQueue]
) -> None:
    """W8: a big room is no error, and a set of any size can be listed."""
    room = (ctypes.c_uint32 * 5000)()
    arg = raw.sample(
        "POLLFD", wait=wait_set._handle, count=len(room), handles=ctypes.addressof(room)
    )
    assert raw.call(mock.device.fileno(), "POLLFD", arg) == 0
    assert room[: arg.count] == [eq._handle for eq in three]


def test_fault_writes_no_answer(mock: Mock, wait_set: kp.WaitSet, three: object) -> None:
    """X2: an array that cannot be written: EFAULT, and the structure is as it was."""
    memory = raw.Pages.new()
    try:
        arg = raw.sample("POLLFD", wait=wait_set._handle, count=3, handles=memory.end - 8)
        before = bytes(arg)[4:]
        assert raw.call(mock.device.fileno(), "POLLFD", arg) == -errno.EFAULT
        assert bytes(arg)[4:] == before
    finally:
        memory.free()


@pytest.mark.parametrize("kind", set(kp.WaitObj) - {kp.WaitObj.POLLFD})
def test_other_kinds_have_no_list(mock: Mock, kind: kp.WaitObj) -> None:
    """W8: POLLFD is for POLLFD sets, whatever else is open."""
    if kind in (kp.WaitObj.NONE, kp.WaitObj.SET):
        obj: kp.WaitSet | kp.EventQueue = mock.eq(wait_obj=kp.WaitObj.FD)
    else:
        obj = mock.wait_set(wait_obj=kind)
    arg = raw.sample("POLLFD", wait=obj._handle)
    assert raw.call(mock.device.fileno(), "POLLFD", arg) == -errno.EINVAL


def test_change_index_moves_with_the_members_only(
    mock: Mock, wait_set: kp.WaitSet, three: list[kp.EventQueue], in_thread: InThread
) -> None:
    """W8, B49: events, waits and calls leave it alone; a member more or less moves it."""

    def index() -> int:
        return listing(mock, wait_set, 0)[2]

    before = index()
    for _ in range(20):
        call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
        three[1].write()
        call.result()
        wait_set.pollfds()
        assert mock.fabric.trywait(wait_set) is False
        three[1].read()
    assert index() == before
    with pytest.raises(kp.Busy):
        wait_set.close()
    stranger = mock.eq()
    assert index() == before, "not a member"
    stranger.close()
    with mock.fabric.eq(wait_set=wait_set):
        added = index()
        assert added != before
    assert index() not in (before, added)


def test_member_is_listed_at_once(mock: Mock, wait_set: kp.WaitSet) -> None:
    """B03: the next look has it, without any wait in between, and as ready as it is."""
    assert wait_set.pollfds().fds == ()
    eq = mock.eq(wait_set=wait_set)
    assert len(wait_set.pollfds().fds) == 1
    eq.write()
    other = mock.eq(wait_set=wait_set)
    other.write()
    assert ready_numbers(wait_set.pollfds()) == [0, 1]


@pytest.mark.parametrize("leaver", [0, 1, 2])
def test_member_that_leaves_takes_only_its_own_descriptor(
    wait_set: kp.WaitSet, three: list[kp.EventQueue], leaver: int
) -> None:
    """W8, B47: of three one goes: the others keep theirs, and each is reported once."""
    before = wait_set.pollfds()
    three[leaver].close()
    assert events(before.fds[leaver]) == HANGUP, "until the next look it hangs up"
    after = wait_set.pollfds()
    rest = [fd for place, fd in enumerate(before.fds) if place != leaver]
    assert list(after.fds) == rest
    assert after.change_index != before.change_index
    assert not os.path.exists(f"/proc/self/fd/{before.fds[leaver]}")
    for place, eq in enumerate(eq for eq in three if not eq.closed):
        eq.write()
        assert ready_numbers(after) == [place]
        eq.read()


def test_number_of_a_member_that_left_is_not_used_again(
    wait_set: kp.WaitSet, three: list[kp.EventQueue]
) -> None:
    """B47: whoever still polls the old list meets a hang-up and no other file."""
    found = wait_set.pollfds()
    three[1].close()
    with open("/dev/null") as other:
        assert other.fileno() not in found.fds
    assert events(found.fds[1]) == HANGUP
    assert len(wait_set.pollfds().fds) == 2


def test_set_keeps_its_descriptors_from_call_to_call(
    wait_set: kp.WaitSet, three: list[kp.EventQueue]
) -> None:
    """W8, B49: the same list, no descriptor more, until the set is closed."""
    before = len(os.listdir("/proc/self/fd"))
    found = wait_set.pollfds()
    assert [wait_set.pollfds() for _ in range(10)] == [found] * 10
    assert len(os.listdir("/proc/self/fd")) == before + 3
    for eq in three:
        eq.close()
    wait_set.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_opening_and_closing_sets_leaves_no_descriptor(mock: Mock) -> None:
    """B49: 100 sets with a member each: the number of descriptors is constant."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        with mock.fabric.wait_set(wait_obj=kp.WaitObj.POLLFD) as wait_set:
            with mock.fabric.eq(wait_set=wait_set) as eq:
                eq.fileno()
                wait_set.pollfds()
    assert len(os.listdir("/proc/self/fd")) == before


def test_polling_sleeps_until_any_member_is_ready(
    wait_set: kp.WaitSet, three: list[kp.EventQueue], in_thread: InThread
) -> None:
    """W8, W2: one poll(2) over all descriptors ends by each member's event."""
    found = wait_set.pollfds()

    def poll() -> list[tuple[int, int]]:
        poller = select.poll()
        for fd in found.fds:
            poller.register(fd, select.POLLIN)
        return poller.poll(LIMIT * 1000)

    for eq, fd in zip(three, found.fds, strict=True):
        call = in_thread(poll)
        eq.write()
        assert call.result() == [(fd, select.POLLIN)]
        eq.read()


def test_members_come_and_go_under_a_blocked_wait(
    mock: Mock, wait_set: kp.WaitSet, in_thread: InThread
) -> None:
    """W7, B03, B47: 200 come, 150 go in random order; then each of the rest is seen once."""
    chance = random.Random(497)
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    with contextlib.ExitStack() as stack:
        alive: list[kp.EventQueue] = []
        steps = ["come"] * 200 + ["go"] * 150
        chance.shuffle(steps)
        owed = 0
        for step in steps:
            owed += step == "go"
            if step == "come":
                alive.append(stack.enter_context(mock.fabric.eq(wait_set=wait_set)))
            while owed and alive:
                alive.pop(chance.randrange(len(alive))).close()
                owed -= 1
            if chance.random() < 0.1:
                assert len(wait_set.pollfds().fds) == len(alive)
        assert len(alive) == 50 and not call.done
        found = wait_set.pollfds()
        assert len(set(found.fds)) == 50
        seen: list[int] = []
        for eq in alive:
            eq.write()
            seen += ready_numbers(found)
            eq.read()
        assert sorted(seen) == list(range(50))
        call.result()


def test_lists_and_closes_at_the_same_time(
    mock: Mock, wait_set: kp.WaitSet, in_thread: InThread
) -> None:
    """B47, X3: a member that goes while its descriptor is being made is no error."""
    rounds = 100

    def come_and_go() -> None:
        for _ in range(rounds):
            eq = mock.fabric.eq(wait_set=wait_set)
            while not eq.closed:
                # A call that makes a descriptor of it uses it.
                with contextlib.suppress(kp.Busy):
                    eq.close()

    before = len(os.listdir("/proc/self/fd"))
    call = in_thread(come_and_go)
    while not call.done:
        assert len(wait_set.pollfds().fds) <= 1
    call.result()
    assert wait_set.pollfds().fds == ()
    assert len(os.listdir("/proc/self/fd")) == before
