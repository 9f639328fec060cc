# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Wait objects as users have them: which there are, and what a descriptor promises."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import uapi_support as raw
from descriptor_support import (
    CLASSES,
    HANGUP,
    OFFERED,
    POLLING,
    SET_KINDS,
    Kind,
    Ready,
    Waits,
    events,
    readable,
)
from guest_support import LIMIT, Call, Child, Mock

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric_py import _uapi

InThread = Callable[[Callable[[], object]], Call[object]]
InChild = Callable[[Callable[[Callable[[str], None]], int]], Child]

REFUSED = [
    ("wait set", Kind.NONE, errno.EINVAL),
    ("wait set", Kind.SET, errno.EINVAL),
    *((name, Kind.POLLFD, errno.EOPNOTSUPP) for name in ("cq", "eq", "counter")),
    *((name, Kind.SET, errno.EBADF) for name in ("cq", "eq", "counter")),
]

#: What GETWAIT says where there is no descriptor to give.
GETWAIT = {
    Kind.NONE: errno.EINVAL,
    Kind.UNSPEC: errno.EINVAL,
    Kind.QUEUE: errno.EOPNOTSUPP,
    Kind.MUTEX_COND: errno.EOPNOTSUPP,
    Kind.POLLFD: errno.EINVAL,
    Kind.YIELD: errno.EINVAL,
}

POISON = 0xA5A5A5A5A5A5A5A5


@pytest.fixture
def opened() -> Iterator[Callable[[Ready], int]]:
    """Return new descriptors, which are closed with the test."""
    with contextlib.ExitStack() as stack:

        def descriptor(ready: Ready) -> int:
            fd = ready.obj.descriptor()
            stack.callback(os.close, fd)
            return fd

        yield descriptor


Opened = Callable[[Ready], int]


def control(mock: Mock, obj: Waits, command: int) -> tuple[int, int]:
    """Return the result and the value of one CONTROL call that began with poison."""
    arg = raw.sample("CONTROL", handle=obj._handle, command=command, value=POISON)
    return raw.call(mock.device.fileno(), "CONTROL", arg), arg.value


@pytest.mark.parametrize(("name", "kind"), OFFERED)
def test_every_kind_on_every_object(mock: Mock, name: str, kind: Kind) -> None:
    """W8, T4, B39: each opens, tells its kind, and blocks unless it is NONE."""
    ready = CLASSES[name](mock, kind)
    assert control(mock, ready.obj, _uapi.KFAB_GETWAITOBJ) == (0, kind)
    assert ready.obj.wait_obj() is kind
    if kind is Kind.NONE:
        with pytest.raises(kp.KfiError) as caught:
            ready.check()
        assert caught.value.errno == errno.EINVAL
    elif name in ("wait set", "counter"):
        with pytest.raises(TimeoutError):
            ready.check()
    else:
        assert not ready.check()


@pytest.mark.parametrize(("name", "kind", "number"), REFUSED)
def test_kinds_that_make_no_sense_are_refused(
    mock: Mock, name: str, kind: Kind, number: int
) -> None:
    """W8, O2: a set waits on members, not for a set; only sets have POLLFD."""
    with pytest.raises(kp.KfiError) as caught:
        CLASSES[name](mock, kind)
    assert caught.value.errno == number


@pytest.mark.parametrize(("name", "kind"), OFFERED)
def test_no_kernel_address_reaches_a_user(mock: Mock, name: str, kind: Kind) -> None:
    """W8, T4, X1: GETWAIT gives a descriptor or fails, and then leaves its argument alone."""
    ready = CLASSES[name](mock, kind)
    result, value = control(mock, ready.obj, _uapi.KFAB_GETWAIT)
    if kind is Kind.FD:
        assert result == 0
        assert os.readlink(f"/proc/self/fd/{value}") == "anon_inode:[kfabric]"
        os.close(value)
    else:
        assert (result, value) == (-GETWAIT[kind], POISON)


@pytest.mark.parametrize("kind", SET_KINDS)
def test_member_has_a_descriptor_in_a_pollfd_set_only(mock: Mock, kind: Kind) -> None:
    """W8, T4: the wait object of a member is that of its set."""
    cq = mock.cq(wait_set=mock.wait_set(wait_obj=kind))
    assert cq.wait_obj() is Kind.SET
    if kind is Kind.POLLFD:
        os.close(cq.descriptor())
    else:
        assert control(mock, cq, _uapi.KFAB_GETWAIT) == (-errno.EINVAL, POISON)


@pytest.mark.parametrize("kind", [kind for kind in SET_KINDS if kind is not Kind.YIELD])
def test_sleepers_of_every_kind_are_woken(mock: Mock, in_thread: InThread, kind: Kind) -> None:
    """W8, W2: kfi_wait sleeps and wakes whatever the wait object is."""
    ready = CLASSES["wait set"](mock, kind)
    assert isinstance(ready.obj, kp.WaitSet)
    call = in_thread(partial(ready.obj.wait, timeout=LIMIT)).asleep()
    ready.make()
    call.result()


@pytest.mark.parametrize("name", CLASSES)
def test_yielding_wait_ends_by_the_event(mock: Mock, in_thread: InThread, name: str) -> None:
    """W8, B24: YIELD: on every kind of object a wait without limit ends by the event."""
    ready = CLASSES[name](mock, Kind.YIELD)

    def wait() -> object:
        match ready.obj:
            case kp.WaitSet() as wait_set:
                wait_set.wait(timeout=None)
            case kp.Counter() as counter:
                counter.wait(1, timeout=None)
            case queue:
                return queue.sread(timeout=None)
        return None

    call = in_thread(wait)
    ready.make()
    call.result()


@pytest.mark.parametrize("name", CLASSES)
def test_yielding_wait_honours_its_timeout(mock: Mock, name: str) -> None:
    """W8, W4: YIELD: it ends at its deadline, not before."""
    ready = CLASSES[name](mock, Kind.YIELD)
    begin = time.monotonic()
    match ready.obj:
        case kp.WaitSet() as wait_set:
            with pytest.raises(TimeoutError):
                wait_set.wait(timeout=0.05)
        case kp.Counter() as cntr:
            with pytest.raises(TimeoutError):
                cntr.wait(1, timeout=0.05)
        case queue:
            assert not queue.sread(timeout=0.05)
    assert time.monotonic() - begin >= 0.05


@pytest.mark.parametrize("name", CLASSES)
def test_each_getwait_gives_a_descriptor_of_its_own(mock: Mock, opened: Opened, name: str) -> None:
    """W8: the caller closes what it got; the other one goes on."""
    ready = CLASSES[name](mock, Kind.FD)
    kept, other = opened(ready), ready.obj.descriptor()
    assert kept != other
    os.close(other)
    ready.make()
    assert readable(kept)


@pytest.mark.parametrize("name", CLASSES)
def test_descriptor_does_not_survive_exec(mock: Mock, opened: Opened, name: str) -> None:
    """W8: close-on-exec is set, and works."""
    fd = opened(CLASSES[name](mock, Kind.FD))
    assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    look = f"import os\ntry: os.fstat({fd})\nexcept OSError: print('gone')"
    child = subprocess.run(
        [sys.executable, "-I", "-S", "-c", look],
        close_fds=False,
        check=True,
        capture_output=True,
        timeout=LIMIT,
    )
    assert child.stdout == b"gone\n"


@pytest.mark.parametrize("name", CLASSES)
def test_descriptor_is_readable_exactly_while_ready(mock: Mock, opened: Opened, name: str) -> None:
    """W8, W1, B19: readable is what the object is; reading the object is what ends it."""
    ready = CLASSES[name](mock, Kind.FD)
    before, after = opened(ready), -1
    for _ in range(3):
        assert events(before) == 0
        ready.make()
        after = opened(ready)
        assert events(before) == events(after) == select.POLLIN
        assert readable(before), "to look takes nothing away"
        ready.drain()
        assert events(before) == events(after) == 0


def test_two_entries_one_read_stays_readable(mock: Mock, opened: Opened) -> None:
    """W8, B01: the level is not cleared while something is left."""
    ready = CLASSES["cq"](mock, Kind.FD)
    fd = opened(ready)
    ready.make()
    ready.make()
    assert isinstance(ready.obj, kp.CompletionQueue)
    ready.obj.read(1)
    assert readable(fd)
    ready.obj.read(1)
    assert not readable(fd)


def test_user_signals_make_nothing_readable(mock: Mock, opened: Opened) -> None:
    """W1, Q5, B19: counter add and set, and cq_signal, leave nothing behind."""
    cntr, cq = CLASSES["counter"](mock, Kind.FD), CLASSES["cq"](mock, Kind.FD)
    fds = opened(cntr), opened(cq)
    assert isinstance(cntr.obj, kp.Counter) and isinstance(cq.obj, kp.CompletionQueue)
    cntr.obj.add(1)
    cntr.obj.set(7)
    cq.obj.signal()
    assert [events(fd) for fd in fds] == [0, 0]


@pytest.mark.parametrize("name", CLASSES)
def test_descriptor_wakes_who_sleeps_in_poll(
    mock: Mock, opened: Opened, in_thread: InThread, name: str
) -> None:
    """W8, W2: poll(2) ends by the event, for every thread and descriptor."""
    ready = CLASSES[name](mock, Kind.FD)
    fds = [opened(ready), opened(ready)]
    calls = [in_thread(partial(events, fd, LIMIT)) for fd in (*fds, fds[0])]
    for call in calls:
        call.asleep(POLLING)
    ready.make()
    assert [call.result() for call in calls] == [select.POLLIN] * 3


@pytest.mark.parametrize("context", ["process", "softirq", "workqueue"])
@pytest.mark.parametrize("name", ["wait set", "cq"])
def test_edge_triggered_epoll_sees_every_publication(mock: Mock, name: str, context: str) -> None:
    """W8, W10: one edge a publication, also on what is ready already and never read."""
    obj: kp.WaitSet | kp.CompletionQueue
    if name == "cq":
        obj = cq = mock.cq(wait_obj=Kind.FD)
    else:
        obj = mock.wait_set(wait_obj=Kind.FD)
        cq = mock.cq(wait_set=obj)
    ep = mock.endpoint(cq=cq)
    with select.epoll() as epoll:
        epoll.register(obj, select.EPOLLIN | select.EPOLLET)
        for _ in range(5):
            assert epoll.poll(0) == []
            mock.inject(ep, context=context)
            assert epoll.poll(LIMIT) == [(obj.fileno(), select.EPOLLIN)]


@pytest.mark.parametrize("name", CLASSES)
def test_closing_the_object_hangs_up(
    mock: Mock, opened: Opened, in_thread: InThread, name: str
) -> None:
    """W8, V7: ERR and HUP on every descriptor, and whoever polls one is woken."""
    ready = CLASSES[name](mock, Kind.FD)
    fds = [opened(ready), opened(ready)]
    call = in_thread(lambda: events(fds[0], LIMIT))
    call.asleep(POLLING)
    # What uses the object goes first.
    mock.stack.close()
    assert ready.obj.closed
    assert call.result() == HANGUP
    assert [events(fd) for fd in fds] == [HANGUP, HANGUP]


def test_open_descriptor_does_not_keep_the_object(mock: Mock, opened: Opened) -> None:
    """W8, O1: it pins the queue of pollers, not the object and not its fabric."""
    with mock.device.fabric(mock.info) as fabric:
        eq = fabric.eq(wait_obj=Kind.FD)
        fd = eq.descriptor()
        try:
            eq.close()
        finally:
            os.close(fd)


def test_descriptor_outlives_its_client(modules: guest_modules.Modules, in_child: InChild) -> None:
    """O4: descriptors do not keep a client alive; they hang up when it is killed."""
    here, there = socket.socketpair()

    def client(report: Callable[[str], None]) -> int:
        device = kp.Device()
        fabric = device.fabric(device.getinfo(provider="mock")[0])
        wait_set, eq = fabric.wait_set(wait_obj=Kind.FD), fabric.eq(wait_obj=Kind.FD)
        eq.write()
        socket.send_fds(there, [b"fds"], [wait_set.descriptor(), eq.descriptor()])
        report("sent")
        signal_never_comes = os.pipe()[0]
        os.read(signal_never_comes, 1)
        return 0

    with here, there:
        child = in_child(client)
        assert child.report() == "sent"
        _, fds, _, _ = socket.recv_fds(here, 16, 2)
        assert [events(fd) for fd in fds] == [0, select.POLLIN]
        child.end()
        assert [events(fd) for fd in fds] == [HANGUP, HANGUP]
        for fd in fds:
            os.close(fd)


def test_open_descriptor_keeps_the_driver(
    modules: guest_modules.Modules, in_child: InChild
) -> None:
    """O6: it is the driver's code that answers poll(2), so the driver stays."""
    with (
        kp.Device() as device,
        device.fabric(device.getinfo(provider="mock")[0]) as fabric,
        fabric.eq(wait_obj=Kind.FD) as eq,
    ):
        fd = eq.descriptor()
    try:
        unload = subprocess.run(["rmmod", "kfabric_dev"], check=False, timeout=LIMIT)
        assert unload.returncode != 0
        assert events(fd) == HANGUP
    finally:
        os.close(fd)


def test_descriptor_is_for_polling_only(mock: Mock, opened: Opened) -> None:
    """W8, T4: it is not read, written or asked by ioctl, and is no second device."""
    fd = opened(CLASSES["cq"](mock, Kind.FD))
    for use in (lambda: os.read(fd, 8), lambda: os.write(fd, b"12345678")):
        with pytest.raises(OSError) as caught:
            use()
        assert caught.value.errno in (errno.EINVAL, errno.EBADF)
    with pytest.raises(OSError) as caught:
        fcntl.ioctl(fd, _uapi.KFAB_IOC_VERSION, bytearray(64))
    assert caught.value.errno == errno.ENOTTY


def test_getwait_that_cannot_answer_leaves_no_descriptor(mock: Mock) -> None:
    """X2, B50: the answer cannot be written: EFAULT, and no descriptor is left behind."""
    ready = CLASSES["cq"](mock, Kind.FD)
    arg = raw.sample("CONTROL", handle=ready.obj._handle, command=_uapi.KFAB_GETWAIT)
    before = len(os.listdir("/proc/self/fd"))
    memory = raw.Pages.new()
    try:
        fd = mock.device.fileno()
        assert raw.with_read_only(fd, memory, "CONTROL", arg) == -errno.EFAULT
    finally:
        memory.free()
    assert len(os.listdir("/proc/self/fd")) == before


def test_fileno_is_one_descriptor_until_the_close(mock: Mock) -> None:
    """W8, B49: asking again gives the same; opening and closing leaves nothing behind."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        with mock.domain.cq(wait_obj=Kind.FD) as cq:
            assert cq.fileno() == cq.fileno()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", ["wait set", "cq", "counter"])
def test_device_loss_hangs_up(mock: Mock, opened: Opened, name: str) -> None:
    """O5, W8: the last entry can be read, then only ERR and HUP are left."""
    ready = CLASSES[name](mock, Kind.FD)
    fd = opened(ready)
    mock.command("lose", mock.domain.trace_id)
    assert events(fd) == HANGUP | select.POLLIN


def test_device_loss_wakes_who_polls_for_nothing_else(
    mock: Mock, opened: Opened, in_thread: InThread
) -> None:
    """O5, V7: ERR and HUP need not be asked for, so they wake who asked for nothing."""
    fd = opened(CLASSES["cq"](mock, Kind.FD))

    def poll_for_hangup() -> int:
        poll = select.poll()
        poll.register(fd, 0)
        return poll.poll(LIMIT * 1000)[0][1]

    call = in_thread(poll_for_hangup)
    call.asleep(POLLING)
    mock.command("lose", mock.domain.trace_id)
    assert call.result() == HANGUP


def test_wait_set_hangs_up_with_its_last_living_member(mock: Mock, opened: Opened) -> None:
    """O5, W8: a set with a living member goes on."""
    wait_set = mock.wait_set(wait_obj=Kind.FD)
    cq, eq = mock.cq(wait_set=wait_set), mock.eq(wait_set=wait_set)
    mock.command("lose", mock.domain.trace_id)
    assert events(wait_set.fileno()) == select.POLLIN
    with pytest.raises(kp.ErrorAvailable):
        cq.read()
    cq.readerr()
    assert events(wait_set.fileno()) == 0
    eq.close()
    assert events(wait_set.fileno()) == HANGUP


def test_exclusive_is_off_until_asked_for(mock: Mock) -> None:
    """W3: the flag can be set and read back, and nothing else can."""
    wait_set = mock.wait_set()
    assert not wait_set.exclusive
    wait_set.exclusive = True
    assert wait_set.exclusive
    wait_set.exclusive = False
    assert not wait_set.exclusive
    for flags in (1, _uapi.KFAB_WAIT_EXCLUSIVE | 1, 2**63):
        arg = raw.sample(
            "CONTROL", handle=wait_set._handle, command=_uapi.KFAB_SETFIDFLAG, value=flags
        )
        assert raw.call(mock.device.fileno(), "CONTROL", arg) == -errno.EINVAL
    assert not wait_set.exclusive


def test_exclusive_is_not_changed_under_a_sleeper(mock: Mock, in_thread: InThread) -> None:
    """W3: EBUSY while somebody sleeps in the set."""
    ready = CLASSES["wait set"](mock, Kind.UNSPEC)
    assert isinstance(ready.obj, kp.WaitSet)
    call = in_thread(partial(ready.obj.wait, timeout=LIMIT)).asleep()
    with pytest.raises(kp.Busy):
        ready.obj.exclusive = True
    assert not ready.obj.exclusive
    ready.make()
    call.result()


@pytest.mark.parametrize("kind", [Kind.FD, Kind.POLLFD])
def test_exclusive_set_gives_no_descriptors(mock: Mock, kind: Kind) -> None:
    """W3, T4: who polls a descriptor would keep no turn."""
    wait_set = mock.wait_set(wait_obj=kind)
    wait_set.exclusive = True
    with pytest.raises(kp.KfiError) as caught:
        wait_set.descriptor() if kind is Kind.FD else wait_set.pollfds()
    assert caught.value.errno == errno.EINVAL


def test_closing_a_member_leaves_the_others_their_wakes(mock: Mock, in_thread: InThread) -> None:
    """W7, B43: the wait object belongs to the set, not to the member that is closed."""
    wait_set = mock.wait_set(wait_obj=Kind.FD)
    eq, cntr = mock.eq(wait_set=wait_set), mock.counter(wait_set=wait_set)
    ep = mock.endpoint(cntr=cntr)
    with mock.domain.cq(wait_set=wait_set):
        pass
    for make, drain in ((eq.write, eq.read), (lambda: mock.inject(ep, entry=0), cntr.read)):
        call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
        polling = in_thread(lambda: events(wait_set.fileno(), LIMIT))
        polling.asleep(POLLING)
        make()
        call.result()
        assert polling.result() == select.POLLIN
        drain()
