# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Several descriptors of one object, each in an epoll instance of its own."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import uapi_support as raw
from descriptor_support import HANGUP, POLLING, events
from guest_support import LIMIT, Call, Mock

import kfabric_py as kp
from kfabric_py import _uapi

InThread = Callable[[Callable[[], object]], Call[object]]


#: More entries of pollers than the kernel wakes with interrupts off.
MANY = 80


@pytest.fixture(params=[4, MANY], ids=["few", "many"])
def epolls(mock: Mock, request: pytest.FixtureRequest) -> Iterator[list[select.epoll]]:
    """Epoll instances, closed with the test."""
    made = [select.epoll() for _ in range(request.param)]
    yield made
    for epoll in made:
        epoll.close()


@pytest.mark.parametrize("end", ["event", "close", "loss"])
def test_exclusive_epolls_keep_nothing_from_each_other(
    mock: Mock, in_thread: InThread, epolls: list[select.epoll], end: str
) -> None:
    """W8, V7: EPOLLEXCLUSIVE is about one descriptor; each of the others is woken, too."""
    cq = mock.cq(wait_obj=kp.WaitObj.FD)
    ep = mock.endpoint(cq=cq)
    own = [cq.descriptor() for _ in range(4)]
    fds = own + [os.dup(own[0]) for _ in epolls[len(own) :]]
    for fd, epoll in zip(fds, epolls, strict=True):
        mock.stack.callback(os.close, fd)
        epoll.register(fd, select.EPOLLIN | select.EPOLLEXCLUSIVE)
    seen: list[int] = []

    def poll_one(epoll: select.epoll) -> None:
        [(_, events)] = epoll.poll(LIMIT)
        seen.append(events)

    calls = [in_thread(partial(poll_one, epoll)) for epoll in epolls[:4]]
    for call in calls:
        call.asleep(POLLING)
    if end == "event":
        mock.inject(ep)
    elif end == "loss":
        mock.command("lose", mock.domain.trace_id)
    else:
        ep.close()
        cq.close()
    for call in calls:
        call.result()
    for epoll in epolls[4:]:
        poll_one(epoll)
    wanted = select.EPOLLIN if end == "event" else HANGUP
    assert [bool(events & wanted) for events in seen] == [True] * len(epolls)


@pytest.mark.parametrize("epolls", [MANY], indirect=True)
def test_loss_wakes_many_that_wait_for_nothing_else(
    mock: Mock, in_thread: InThread, epolls: list[select.epoll]
) -> None:
    """O5, V7: they have asked for no event, and get the hang-up."""
    cq = mock.cq(wait_obj=kp.WaitObj.FD)
    fd = cq.descriptor()
    mock.stack.callback(os.close, fd)
    for epoll in epolls:
        epoll.register(fd, 0)
    seen: list[int] = []

    def poll_one() -> None:
        [(_, shown)] = epolls[0].poll(LIMIT)
        seen.append(shown)

    call = in_thread(poll_one)
    call.asleep(POLLING)
    mock.command("lose", mock.domain.trace_id)
    call.result()
    assert seen[0] & HANGUP


#: Descriptors that an object may have.
FILES = 16


def test_object_has_few_descriptors(mock: Mock) -> None:
    """X3: EMFILE beyond, until one is closed with all its copies."""
    cq = mock.cq(wait_obj=kp.WaitObj.FD)
    fds = [cq.descriptor() for _ in range(FILES)]
    copy = os.dup(fds[0])
    for fd in [*fds[1:], copy]:
        mock.stack.callback(os.close, fd)
    os.close(fds[0])
    with pytest.raises(OSError) as refused:
        cq.descriptor()
    assert refused.value.errno == errno.EMFILE
    os.dup2(fds[1], copy)
    mock.stack.callback(os.close, cq.descriptor())


def test_dead_member_keeps_nobody_spinning(mock: Mock) -> None:
    """T3, O5: its descriptor stays readable for its hang-up; trywait says ENODEV, not 'block'."""
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.POLLFD)
    mock.eq(wait_set=wait_set)
    cq = mock.cq(wait_set=wait_set)
    fds = wait_set.pollfds().fds
    assert mock.fabric.trywait(wait_set)
    mock.command("lose", mock.domain.trace_id)
    assert not mock.fabric.trywait(wait_set)
    assert cq.readerr()
    assert any(events(fd) & HANGUP for fd in fds)
    for objects in ([wait_set], [cq]):
        with pytest.raises(kp.DeviceLost):
            mock.fabric.trywait(*objects)


def test_exclusive_set_gives_no_descriptor_of_a_member(mock: Mock) -> None:
    """W3, W8: GETWAIT on an exclusive set is refused, through its members too."""
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.POLLFD)
    eq = mock.eq(wait_set=wait_set)
    wait_set.exclusive = True
    arg = raw.sample("CONTROL", handle=eq._handle, command=_uapi.KFAB_GETWAIT)
    assert raw.call(mock.device.fileno(), "CONTROL", arg) == -errno.EINVAL
