# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Descriptors, POLLFD sets, exclusive sets and trywait over a fake of the kernel."""

from __future__ import annotations

import errno
import gc
import os
import selectors
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_kernel import FakeKernel

import kfabric_py as kp
from kfabric_py import _uapi


def count_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_descriptors_belong_to_the_caller(kernel: FakeKernel, domain: kp.Domain) -> None:
    """W8: each is a new one, and closing the object does not close it."""
    with domain.cq(wait_obj=kp.WaitObj.FD) as cq:
        first, second = cq.descriptor(), cq.descriptor()
        assert first != second
    for fd in (first, second):
        os.close(fd)


def test_fileno_belongs_to_the_object(kernel: FakeKernel, domain: kp.Domain) -> None:
    """W8: made once, when it is asked for first, and closed with the object."""
    cq = domain.cq(wait_obj=kp.WaitObj.FD)
    before = count_fds()
    fd = cq.fileno()
    assert cq.fileno() == fd
    assert count_fds() == before + 1
    kernel.complete(cq)
    with selectors.DefaultSelector() as selector:
        selector.register(cq, selectors.EVENT_READ)
        assert [key.fileobj for key, _ in selector.select(0)] == [cq]
    cq.close()
    assert not Path(f"/proc/self/fd/{fd}").exists()
    with pytest.raises(kp.ClosedError):
        cq.fileno()


def test_refused_close_keeps_the_fileno(kernel: FakeKernel, domain: kp.Domain) -> None:
    """O1: a close that fails changes nothing, for who polls neither."""
    cq = domain.cq(wait_obj=kp.WaitObj.FD)
    fd = cq.fileno()
    kernel.fail["close"] = errno.EBUSY
    with pytest.raises(kp.Busy):
        cq.close()
    assert cq.fileno() == fd and Path(f"/proc/self/fd/{fd}").exists()
    kernel.fail.clear()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_forgotten_objects_leave_no_descriptors(kernel: FakeKernel, domain: kp.Domain) -> None:
    before = count_fds()
    for _ in range(3):
        domain.cq(wait_obj=kp.WaitObj.FD).fileno()
    gc.collect()
    kernel.end()
    assert count_fds() <= before


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EMFILE, errno.EOPNOTSUPP])
def test_refused_descriptor_is_an_exception(
    kernel: FakeKernel, domain: kp.Domain, number: int
) -> None:
    cq = domain.cq()
    kernel.fail["control"] = number
    for call in (cq.descriptor, cq.fileno):
        with pytest.raises(kp.KfiError) as caught:
            call()
        assert caught.value.errno == number
    kernel.fail.clear()
    assert cq.fileno() >= 0, "a refusal is not remembered"


def test_exclusive_is_a_property(kernel: FakeKernel, fabric: kp.Fabric) -> None:
    """W3: it goes to the kernel and comes from there."""
    wait_set = fabric.wait_set()
    assert wait_set.exclusive is False
    wait_set.exclusive = True
    assert kernel.flags == _uapi.KFAB_WAIT_EXCLUSIVE
    assert wait_set.exclusive is True
    wait_set.exclusive = False
    assert kernel.flags == 0


@pytest.fixture
def pollfd_set(fabric: kp.Fabric) -> kp.WaitSet:
    return fabric.wait_set(wait_obj=kp.WaitObj.POLLFD)


def test_members_keep_their_descriptors(
    kernel: FakeKernel, fabric: kp.Fabric, pollfd_set: kp.WaitSet
) -> None:
    """W8, B49: one a member, asked for once; the list is made anew when one comes or goes."""
    first = fabric.eq(wait_set=pollfd_set)
    one = pollfd_set.pollfds()
    assert pollfd_set.pollfds() is one
    second = fabric.eq(wait_set=pollfd_set)
    two = pollfd_set.pollfds()
    assert two.fds[0] == one.fds[0] and len(set(two.fds)) == 2
    first.close()
    assert Path(f"/proc/self/fd/{one.fds[0]}").exists(), "its number is not to be used again"
    three = pollfd_set.pollfds()
    assert three.fds == two.fds[1:]
    assert not Path(f"/proc/self/fd/{one.fds[0]}").exists()
    second.close()
    pollfd_set.close()
    assert not Path(f"/proc/self/fd/{three.fds[0]}").exists()


@pytest.mark.parametrize("members", [1, 8, 9, 40])
def test_room_for_any_number_of_members(
    kernel: FakeKernel, fabric: kp.Fabric, pollfd_set: kp.WaitSet, members: int
) -> None:
    """W8, B49: too little room is noticed and mended."""
    queues = [fabric.eq(wait_set=pollfd_set) for _ in range(members)]
    assert len(set(pollfd_set.pollfds().fds)) == len(queues)


def test_member_that_leaves_in_between(
    kernel: FakeKernel, fabric: kp.Fabric, pollfd_set: kp.WaitSet
) -> None:
    """B47: listed, and closed before its descriptor was there: the list is made again."""
    stays, goes = fabric.eq(wait_set=pollfd_set), fabric.eq(wait_set=pollfd_set)
    control: Callable[[object], None] = kernel.control

    def close_it_first(arg: _uapi.kfab_control) -> None:
        if arg.handle == goes._handle:
            goes.close()
            raise OSError(errno.EBADF, "closed")
        control(arg)

    kernel.control = close_it_first  # type: ignore[method-assign]
    found = pollfd_set.pollfds()
    assert len(found.fds) == 1 and found.change_index == kernel.changes
    assert not stays.closed


def test_trywait_asks_for_all_at_once(
    kernel: FakeKernel, fabric: kp.Fabric, domain: kp.Domain
) -> None:
    """T1: True to block, False to read; the objects go in one call."""
    cq, eq = domain.cq(wait_obj=kp.WaitObj.FD), fabric.eq(wait_obj=kp.WaitObj.FD)
    before = len(kernel.calls)
    assert fabric.trywait(cq, eq) is True
    assert [name for name, _ in kernel.calls[before:]] == ["trywait"]
    kernel.complete(cq)
    assert fabric.trywait(eq, cq) is False
    assert fabric.trywait(eq) is True


def test_trywait_of_something_closed(fabric: kp.Fabric, domain: kp.Domain) -> None:
    """T2: nothing reaches the kernel."""
    cq = domain.cq(wait_obj=kp.WaitObj.FD)
    cq.close()
    with pytest.raises(kp.ClosedError):
        fabric.trywait(cq)


def test_timeout_of_a_wait_set_is_a_timeout_error(kernel: FakeKernel, fabric: kp.Fabric) -> None:
    """W4: as Python programs expect it."""
    kernel.waits_time_out = True
    with pytest.raises(TimeoutError):
        fabric.wait_set().wait(timeout=0)
