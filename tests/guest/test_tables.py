# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Every blocking call on every kind of wait object: how long it blocks and what it returns.

The calls are raw, so that a code is what the kernel returned: the library would turn
EAGAIN into an empty list, and go on after EINTR. The commands that make something
happen are the mock provider's.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import uapi_support as raw
from guest_support import LIMIT, Call, Child, Mock, handler

import kfabric_py as kp
from kfabric.guest import sleeping
from kfabric.guest.waiting import wait_until
from kfabric_py import _uapi

InThread = Callable[[Callable[[], object]], Call[object]]
InChild = Callable[[Callable[[Callable[[str], None]], int]], Child]
Kind = kp.WaitObj

EAVAIL, EOVERRUN = kp.KfabricErrno.KFI_EAVAIL, kp.KfabricErrno.KFI_EOVERRUN
NOW, NONE = _uapi.KFAB_DEADLINE_NOW, _uapi.KFAB_DEADLINE_NONE
MS = 1_000_000


@dataclass(frozen=True)
class Blocking:
    """One blocking call on an object of one kind.

    Attributes:
        name: of the ioctl.
        fields: of its structure, without the deadline.
        keep: what the structure points to.
        event: the command that ends it with success.
        error: the command that ends it with an error.
        drain: reads what these two have left.
    """

    mock: Mock
    name: str
    fields: dict[str, int]
    event: str
    error: str
    drain: Callable[[], object]
    keep: object = None

    def call(self, deadline: int) -> int:
        """Make the call; return its result, an error number negated."""
        arg = raw.sample(self.name, deadline=deadline, **self.fields)
        return raw.call(self.mock.device.fileno(), self.name, arg)


def _drain(queue: kp.CompletionQueue | kp.EventQueue) -> None:
    while True:
        try:
            if not queue.read():
                return
        except kp.ErrorAvailable:
            queue.readerr()


def _on_wait_set(mock: Mock, kind: Kind) -> Blocking:
    wait_set = mock.wait_set(wait_obj=kind)
    cq = mock.cq(4, wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    inject = f"inject {ep.trace_id} recv"
    fields = {"wait": wait_set._handle}
    return Blocking(mock, "WAIT", fields, inject, f"{inject} err=5", lambda: _drain(cq), ep)


def _on_cq(mock: Mock, kind: Kind) -> Blocking:
    cq = mock.cq(4, wait_obj=kind)
    ep = mock.endpoint(cq=cq)
    inject = f"inject {ep.trace_id} recv"
    entry = _uapi.kfab_cq_entry()
    fields = {"cq": cq._handle, "count": 1, "entries": ctypes.addressof(entry)}
    keep = (ep, entry)
    return Blocking(mock, "CQ_SREAD", fields, inject, f"{inject} err=5", lambda: _drain(cq), keep)


def _on_eq(mock: Mock, kind: Kind) -> Blocking:
    eq = mock.eq(4, wait_obj=kind)
    fields = {"eq": eq._handle}
    event, error = f"event {eq.trace_id} 497", f"eqerr {eq.trace_id} err=5"
    return Blocking(mock, "EQ_SREAD", fields, event, error, lambda: _drain(eq), eq)


def _on_counter(mock: Mock, kind: Kind) -> Blocking:
    cntr = mock.counter(wait_obj=kind)
    ep = mock.endpoint(cntr=cntr)
    inject = f"inject {ep.trace_id} recv"
    fields = {"cntr": cntr._handle, "threshold": 1}
    drain = lambda: cntr.set(0)  # noqa: E731
    return Blocking(mock, "CNTR_WAIT", fields, inject, f"{inject} err=5", drain, (ep, cntr))


def _on_channel(mock: Mock, kind: Kind) -> Blocking:
    """A channel has one kind of wait object only, whatever ``kind`` says."""
    channel = mock.channel()
    cq = mock.cq(64, channel=channel)
    ep = mock.endpoint(cq=cq)
    cq.req_notify()

    def drain() -> None:
        cq.req_notify()
        _drain(cq)
        while channel.get_cq_event(timeout=0, ack=True):
            pass

    inject = f"inject {ep.trace_id} recv"
    fields = {"channel": channel._handle, "flags": _uapi.KFAB_EVENT_ACK}
    return Blocking(mock, "GET_CQ_EVENT", fields, inject, f"{inject} err=5", drain, (ep, cq))


@dataclass(frozen=True)
class Batched(Blocking):
    """A batch whose post is made once, however often the call is interrupted or restarted."""

    def call(self, deadline: int) -> int:
        """Make the call; return the error of its wait, negated, or its own result."""
        arg = raw.sample(self.name, deadline=deadline, **self.fields)
        result = raw.call(self.mock.device.fileno(), self.name, arg)
        assert (arg.posted, arg.out_post_err) == (1, 0)
        self.mock.complete(self.ep, "recv")
        with pytest.raises(OSError, match=os.strerror(errno.ENODATA)):
            self.mock.complete(self.ep, "recv")
        return result or -arg.out_wait_err

    @property
    def ep(self) -> kp.Endpoint:
        """The endpoint of the post."""
        assert isinstance(self.keep, tuple) and isinstance(self.keep[0], kp.Endpoint)
        return self.keep[0]


def _on_batch(mock: Mock, kind: Kind) -> Blocking:
    wait = _on_wait_set(mock, kind)
    ep = mock.endpoint(cq=mock.cq())
    post = raw.sample("RECV", size=ctypes.sizeof(_uapi.kfab_msg), ep=ep._handle)
    call = _uapi.kfab_batch_call(cmd=_uapi.KFAB_IOC_RECV, arg=ctypes.addressof(post))
    fields = {**wait.fields, "posts": ctypes.addressof(call), "post_count": 1}
    keep = (ep, wait.keep, post, call)
    return Batched(mock, "BATCH", fields, wait.event, wait.error, wait.drain, keep)


#: The calls, and what each returns when its time is up.
CALLS: dict[str, tuple[Callable[[Mock, Kind], Blocking], int]] = {
    "wait": (_on_wait_set, -errno.ETIMEDOUT),
    "cq_sread": (_on_cq, -errno.EAGAIN),
    "eq_sread": (_on_eq, -errno.EAGAIN),
    "cntr_wait": (_on_counter, -errno.ETIMEDOUT),
    "get_cq_event": (_on_channel, -errno.EAGAIN),
    "batch": (_on_batch, -errno.ETIMEDOUT),
}

#: Wait objects on which one can block. Only sets have POLLFD.
BLOCKS = (Kind.UNSPEC, Kind.QUEUE, Kind.MUTEX_COND, Kind.FD, Kind.YIELD)
CELLS = [(call, kind) for call in CALLS if call != "get_cq_event" for kind in BLOCKS]
CELLS += [("wait", Kind.POLLFD), ("get_cq_event", Kind.FD), ("batch", Kind.POLLFD)]

cells = pytest.mark.parametrize(
    ("what", "kind"), CELLS, ids=[f"{call}-{kind.name}" for call, kind in CELLS]
)


def _deadlines() -> Iterator[int]:
    """Yield every sort of deadline: none, one check, past, soon, late, the end of the clock."""
    yield from (NONE, NOW, 1)
    for milliseconds in (1, 10, 30_000, 2**31 - 1):
        yield time.monotonic_ns() + milliseconds * MS
    yield from (NONE - 1, 1 << 62)


@cells
def test_ready_ends_every_wait_at_once(mock: Mock, what: str, kind: Kind) -> None:
    """W4, Q1, Q6, B24, B26: what is there is returned, whatever the deadline, past ones too."""
    call = CALLS[what][0](mock, kind)
    for deadline in _deadlines():
        mock.command(call.event)
        assert call.call(deadline) >= 0, deadline
        call.drain()


@cells
def test_event_ends_every_long_wait(mock: Mock, in_thread: InThread, what: str, kind: Kind) -> None:
    """W4, W2, B24: no limit, and limits that overflow nothing: the event ends the wait."""
    call = CALLS[what][0](mock, kind)
    for deadline in (NONE, NONE - 1, 1 << 62, time.monotonic_ns() + (2**31 - 1) * MS):
        thread = in_thread(lambda deadline=deadline: call.call(deadline))  # type: ignore[misc]
        if kind is not Kind.YIELD:
            thread.asleep()
        mock.command(call.event)
        result = thread.result()
        assert isinstance(result, int) and result >= 0
        call.drain()


@cells
def test_wait_for_nothing_ends_at_its_deadline(mock: Mock, what: str, kind: Kind) -> None:
    """W4, Q1, B23, B24, B25: the documented code and no other, and never early."""
    open_call, code = CALLS[what]
    call = open_call(mock, kind)
    assert [call.call(NOW), call.call(1)] == [code, code]
    for milliseconds in (0, 1, 10, 40):
        deadline = time.monotonic_ns() + milliseconds * MS
        assert call.call(deadline) == code
        assert time.monotonic_ns() >= deadline


@cells
def test_error_ends_every_wait(mock: Mock, in_thread: InThread, what: str, kind: Kind) -> None:
    """V7, Q1, Q6, B25, B27, B28, B34: EAVAIL, for a set 0, also from a wait already begun."""
    call = CALLS[what][0](mock, kind)
    wanted = 0 if what in ("wait", "get_cq_event", "batch") else -EAVAIL
    thread = in_thread(lambda: call.call(NONE))
    if kind is not Kind.YIELD:
        thread.asleep()
    mock.command(call.error)
    # One that yields cannot be seen to have begun: an earlier error ends no counter's wait.
    while kind is Kind.YIELD and not thread.done:
        with contextlib.suppress(OSError):
            mock.command(call.error)
    assert thread.result() == wanted


def test_signals_have_the_codes_of_a_wait_that_found_nothing(
    mock: Mock, in_thread: InThread
) -> None:
    """Q5, W1, B18, B25: cq_signal is EAGAIN, not ECANCELED; in a set, as an add and a set, 0."""
    cq = mock.cq(4)
    wait_set = mock.wait_set()
    member, counter = mock.cq(4, wait_set=wait_set), mock.counter(wait_set=wait_set)
    fd = mock.device.fileno()
    entry = _uapi.kfab_cq_entry()
    sread = raw.sample(
        "CQ_SREAD", cq=cq._handle, count=1, entries=ctypes.addressof(entry), deadline=NONE
    )
    wait = raw.sample("WAIT", wait=wait_set._handle, deadline=NONE)
    cases: list[tuple[str, object, Callable[[], None], int]] = [
        ("CQ_SREAD", sread, cq.signal, -errno.EAGAIN),
        ("WAIT", wait, member.signal, 0),
        ("WAIT", wait, lambda: counter.add(1), 0),
        ("WAIT", wait, lambda: counter.set(7), 0),
    ]
    for name, arg, act, code in cases:
        thread = in_thread(lambda name=name, arg=arg: raw.call(fd, name, arg)).asleep()  # type: ignore[misc]
        act()
        assert thread.result() == code


def test_overrun_has_a_code_of_its_own(mock: Mock) -> None:
    """Q2, Q10, B25: a CQ has it behind what was stored, for ever; an EQ refuses, and has none."""
    cq = _on_cq(mock, Kind.QUEUE)
    for _ in range(5):
        mock.command(cq.event)
    cq_codes = [cq.call(NONE) for _ in range(7)]
    assert cq_codes == [1] * 4 + [-EOVERRUN] * 3
    eq = _on_eq(mock, Kind.QUEUE)
    for _ in range(4):
        mock.command(eq.event)
    with pytest.raises(BlockingIOError):
        mock.command(eq.event)
    codes = [eq.call(NOW) for _ in range(7)]
    assert [code < 0 for code in codes] == [False] * 4 + [True] * 3
    assert codes[4:] == [-errno.EAGAIN] * 3
    wait = _on_wait_set(mock, Kind.QUEUE)
    for _ in range(5):
        mock.command(wait.event)
    with pytest.raises(kp.Overrun):
        wait.drain()
    assert [wait.call(NONE), wait.call(NOW)] == [0, 0]


@pytest.mark.parametrize("what", ["wait", "cq_sread", "cntr_wait"])
def test_loss_has_a_code_of_its_own(mock: Mock, in_thread: InThread, what: str) -> None:
    """O5, B25: first the last error by the ordinary code, then ENODEV, however long one waits."""
    call = CALLS[what][0](mock, Kind.QUEUE)
    thread = in_thread(lambda: call.call(NONE)).asleep()
    mock.command("lose", mock.domain.trace_id)
    assert thread.result() == (0 if what == "wait" else -EAVAIL)
    if what != "cntr_wait":
        with contextlib.suppress(kp.DeviceLost):
            call.drain()
    assert [call.call(NONE), call.call(NOW)] == [-errno.ENODEV] * 2


@pytest.mark.parametrize("what", CALLS)
def test_interrupted_call_is_eintr_and_nothing_else(
    mock: Mock, in_thread: InThread, what: str
) -> None:
    """W5, B56: a handler without SA_RESTART: EINTR, no number above; nothing is consumed."""
    call = CALLS[what][0](mock, Kind.QUEUE)
    ident: list[int] = []

    def body() -> int:
        ident.append(threading.get_ident())
        return call.call(NONE)

    with handler(signal.SIGUSR1, lambda: None, restart=False):
        thread = in_thread(body).asleep()
        signal.pthread_kill(ident[0], signal.SIGUSR1)
        assert thread.result() == -errno.EINTR
    mock.command(call.event)
    assert call.call(NOW) >= 0


@pytest.mark.parametrize("what", CALLS)
def test_restarted_call_keeps_its_deadline(mock: Mock, in_thread: InThread, what: str) -> None:
    """W5, V5, B23, B56: with SA_RESTART one call sleeps on, until its event or its one deadline."""
    open_call, code = CALLS[what]
    call = open_call(mock, Kind.QUEUE)
    ident: list[int] = []
    deadline = NONE

    def body() -> int:
        ident[:] = [threading.get_ident()]
        return call.call(deadline)

    def disturb(thread: Call[object]) -> None:
        switches = thread.asleep().switches
        signal.pthread_kill(ident[0], signal.SIGUSR1)
        wait_until(lambda: thread.done or thread.switches > switches, "it has run", LIMIT)

    with handler(signal.SIGUSR1, lambda: None, restart=True):
        thread = in_thread(body)
        for _ in range(3):
            disturb(thread)
        thread.asleep()
        mock.command(call.event)
        result = thread.result()
        assert isinstance(result, int) and result >= 0
        call.drain()
        deadline = time.monotonic_ns() + 700 * MS
        thread = in_thread(body)
        # A slow machine may come too late, which proves less and breaks nothing.
        with contextlib.suppress(sleeping.ThreadGone):
            disturb(thread)
        assert thread.result() == code
        assert time.monotonic_ns() >= deadline


PTRACE_ATTACH, PTRACE_DETACH = 16, 17
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def _stop(child: Child) -> None:
    child.kill(signal.SIGSTOP)
    wait_until(lambda: sleeping.read_state(child.pid).state == "T", "stopped", LIMIT)
    child.kill(signal.SIGCONT)


def _trace(child: Child) -> None:
    assert _libc.ptrace(PTRACE_ATTACH, child.pid, None, None) == 0
    pid, status = os.waitpid(child.pid, os.WUNTRACED)
    assert pid == child.pid and os.WIFSTOPPED(status)
    assert _libc.ptrace(PTRACE_DETACH, child.pid, None, None) == 0


def _call_as_client(report: Callable[[str], None], what: str) -> int:
    """Make a blocking call as a client of one's own; 0: it succeeded, in one piece."""
    with kp.Device() as device, contextlib.ExitStack() as stack:
        info = device.getinfo(provider="mock")[0]
        fabric = stack.enter_context(device.fabric(info))
        domain = stack.enter_context(fabric.domain(info))
        call = CALLS[what][0](Mock(device, info, fabric, domain, stack), Kind.QUEUE)
        report(call.event)
        return 0 if call.call(NONE) >= 0 else 1


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("disturb", [_stop, _trace], ids=["stop", "trace"])
def test_stopped_or_traced_call_goes_on(
    mock: Mock, in_child: InChild, what: str, disturb: Callable[[Child], None]
) -> None:
    """W5, B56: neither a stop nor a debugger that comes and goes ends the call."""
    child = in_child(lambda report: _call_as_client(report, what))
    event = child.report()
    before = sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
    disturb(child)
    again = sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
    assert again.switches > before.switches
    mock.command(event)
    assert child.wait() == 0


def test_error_during_a_stop_ends_the_call(mock: Mock, in_child: InChild) -> None:
    """Q6, W5: the counter's error comes while the thread is not on its queue."""
    child = in_child(lambda report: _call_as_client(report, "cntr_wait"))
    event = child.report()
    sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
    child.kill(signal.SIGSTOP)
    wait_until(lambda: sleeping.read_state(child.pid).state == "T", "stopped", LIMIT)
    mock.command(f"{event} err=5")
    child.kill(signal.SIGCONT)
    assert child.wait() == 1, "the exit status after an error"


@pytest.mark.usefixtures("mock")
@pytest.mark.parametrize("what", CALLS)
def test_killed_call_ends_at_once(in_child: InChild, what: str) -> None:
    """W5, O4, B56: SIGKILL ends every blocking call without limit."""
    child = in_child(lambda report: _call_as_client(report, what))
    assert child.report()
    sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
    child.kill(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


@pytest.fixture
def wall_clock() -> Iterator[Callable[[float], None]]:
    """Move the wall clock by some seconds; it is put right at the end of the test."""
    offset = time.time() - time.monotonic()

    def move(seconds: float) -> None:
        time.clock_settime(time.CLOCK_REALTIME, time.time() + seconds)

    yield move
    time.clock_settime(time.CLOCK_REALTIME, time.monotonic() + offset)


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("hours", [-1, 1])
def test_wall_clock_does_not_matter(
    mock: Mock,
    in_thread: InThread,
    wall_clock: Callable[[float], None],
    what: str,
    hours: int,
) -> None:
    """W4, B24: an hour more or less on the wall during a wait: it ends, and not early."""
    open_call, code = CALLS[what]
    call = open_call(mock, Kind.QUEUE)
    deadline = time.monotonic_ns() + 500 * MS
    thread = in_thread(lambda: call.call(deadline))
    wall_clock(hours * 3600)
    assert thread.result() == code
    assert time.monotonic_ns() >= deadline


#
# Which call each kind of wait object allows (B39).
#

FD = 0  # GETWAIT gives a descriptor

#: kind: GETWAIT, the object's own blocking call with nothing there, trywait, cq_signal.
SOURCE_CODES: dict[Kind, tuple[int, str, int, int]] = {
    Kind.NONE: (-errno.EINVAL, "refused", -errno.EINVAL, -errno.EINVAL),
    Kind.UNSPEC: (-errno.EINVAL, "empty", 0, 0),
    Kind.SET: (-errno.EINVAL, "refused", 0, 0),
    Kind.QUEUE: (-errno.EOPNOTSUPP, "empty", 0, 0),
    Kind.MUTEX_COND: (-errno.EOPNOTSUPP, "empty", 0, 0),
    Kind.FD: (FD, "empty", 0, 0),
    Kind.YIELD: (-errno.EINVAL, "empty", 0, 0),
}

#: kind: GETWAIT, the open itself, POLLFD, exclusive waiting on.
SET_CODES: dict[Kind, tuple[int, int, int]] = {
    Kind.UNSPEC: (-errno.EINVAL, -errno.EINVAL, 0),
    Kind.QUEUE: (-errno.EOPNOTSUPP, -errno.EINVAL, 0),
    Kind.MUTEX_COND: (-errno.EOPNOTSUPP, -errno.EINVAL, 0),
    Kind.FD: (FD, -errno.EINVAL, 0),
    Kind.POLLFD: (-errno.EINVAL, 0, 0),
    Kind.YIELD: (-errno.EINVAL, -errno.EINVAL, 0),
}


def _control(mock: Mock, handle: int, command: int, value: int = 0) -> tuple[int, int]:
    """Make a control; return its code and the value. A descriptor is closed."""
    arg = raw.sample("CONTROL", handle=handle, command=command, value=value)
    code = raw.call(mock.device.fileno(), "CONTROL", arg)
    if command == _uapi.KFAB_GETWAIT and code == 0:
        os.close(arg.value)
    return code, arg.value


def _trywait(mock: Mock, *handles: int) -> int:
    array = (ctypes.c_uint32 * len(handles))(*handles)
    arg = raw.sample(
        "TRYWAIT",
        fabric=mock.fabric._handle,
        count=len(handles),
        handles=ctypes.addressof(array),
    )
    return raw.call(mock.device.fileno(), "TRYWAIT", arg)


@pytest.mark.parametrize("kind", SOURCE_CODES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("class_", ["cq", "eq", "counter"])
def test_calls_that_a_kind_of_wait_object_allows(mock: Mock, class_: str, kind: Kind) -> None:
    """W8, W7, T4, Q5, B18, B37, B39: a documented code from each; no other object is changed."""
    opens = {"cq": mock.cq, "eq": mock.eq, "counter": mock.counter}
    waits = {"wait_set": mock.wait_set()} if kind is Kind.SET else {"wait_obj": kind}
    obj = opens[class_](**waits)  # type: ignore[operator]
    getwait, blocking, trywait, signalled = SOURCE_CODES[kind]
    handle, fd = obj._handle, mock.device.fileno()
    assert _control(mock, handle, _uapi.KFAB_GETWAIT)[0] == getwait
    assert _control(mock, handle, _uapi.KFAB_GETWAITOBJ) == (0, kind)
    for command in (_uapi.KFAB_GETFIDFLAG, _uapi.KFAB_SETFIDFLAG):
        assert _control(mock, handle, command)[0] == -errno.EOPNOTSUPP
    assert _trywait(mock, handle) == trywait
    entry = _uapi.kfab_cq_entry()
    name, fields, empty = {
        "cq": (
            "CQ_SREAD",
            {"cq": handle, "count": 1, "entries": ctypes.addressof(entry)},
            errno.EAGAIN,
        ),
        "eq": ("EQ_SREAD", {"eq": handle}, errno.EAGAIN),
        "counter": ("CNTR_WAIT", {"cntr": handle, "threshold": 1}, errno.ETIMEDOUT),
    }[class_]
    wanted = errno.EINVAL if blocking == "refused" else empty
    assert raw.call(fd, name, raw.sample(name, deadline=NOW, **fields)) == -wanted
    assert raw.call(fd, name, raw.sample(name, deadline=1, **fields)) == -wanted
    if class_ == "cq":
        arg = raw.sample("CQ_SIGNAL", cq=handle)
        assert raw.call(fd, "CQ_SIGNAL", arg) == signalled


@pytest.mark.parametrize("kind", SET_CODES, ids=lambda kind: kind.name)
def test_calls_that_a_kind_of_wait_set_allows(mock: Mock, kind: Kind) -> None:
    """W8, W3, T4, B39: a documented code from each, exclusive or not."""
    getwait, pollfd, exclusive = SET_CODES[kind]
    handle, fd = mock.wait_set(wait_obj=kind)._handle, mock.device.fileno()
    assert _control(mock, handle, _uapi.KFAB_GETWAIT)[0] == getwait
    assert _control(mock, handle, _uapi.KFAB_GETWAITOBJ) == (0, kind)
    assert raw.call(fd, "POLLFD", raw.sample("POLLFD", wait=handle)) == pollfd
    assert _trywait(mock, handle) == 0
    assert raw.call(fd, "WAIT", raw.sample("WAIT", wait=handle, deadline=NOW)) == -errno.ETIMEDOUT
    on = _uapi.KFAB_WAIT_EXCLUSIVE
    assert _control(mock, handle, _uapi.KFAB_SETFIDFLAG, on)[0] == exclusive
    assert _control(mock, handle, _uapi.KFAB_GETFIDFLAG) == (0, on)
    refused = -errno.EINVAL if getwait == FD else getwait
    assert _control(mock, handle, _uapi.KFAB_GETWAIT)[0] == refused
    if kind is Kind.POLLFD:
        assert raw.call(fd, "POLLFD", raw.sample("POLLFD", wait=handle)) == -errno.EINVAL


def test_kinds_that_an_object_cannot_have(mock: Mock) -> None:
    """W8, O2, B39: a set has no NONE and is in no other; only a set is a POLLFD."""
    fd, fabric, domain = mock.device.fileno(), mock.fabric._handle, mock.domain._handle
    for kind in (Kind.NONE, Kind.SET):
        arg = raw.sample("WAIT_OPEN", fabric=fabric, wait_obj=kind)
        assert raw.call(fd, "WAIT_OPEN", arg) == -errno.EINVAL
    for name, parent in (
        ("CQ_OPEN", {"domain": domain}),
        ("EQ_OPEN", {"fabric": fabric}),
        ("CNTR_OPEN", {"domain": domain}),
    ):
        arg = raw.sample(name, wait_obj=Kind.POLLFD, **parent)
        assert raw.call(fd, name, arg) == -errno.EOPNOTSUPP, name


#: The calls of this file, with the field that is a handle.
HANDLED = {
    "CQ_SREAD": "cq",
    "EQ_SREAD": "eq",
    "CNTR_WAIT": "cntr",
    "WAIT": "wait",
    "CQ_SIGNAL": "cq",
    "POLLFD": "wait",
}
COMMANDS = ("GETWAIT", "GETWAITOBJ", "GETFIDFLAG", "SETFIDFLAG")


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("ep", errno.EINVAL),
        ("domain", errno.EINVAL),
        ("fabric", errno.EINVAL),
        ("poll set", errno.EINVAL),
        ("closed", errno.EBADF),
        ("none", errno.EBADF),
    ],
)
def test_what_nobody_can_wait_on(mock: Mock, what: str, code: int) -> None:
    """O3, T2, T4, B39: another class is EINVAL, a handle that names nothing EBADF."""
    gone = mock.cq()
    closed = gone._handle
    gone.close()
    handle = {
        "ep": mock.endpoint()._handle,
        "domain": mock.domain._handle,
        "fabric": mock.fabric._handle,
        "poll set": mock.poll_set()._handle,
        "closed": closed,
        "none": 0,
    }[what]
    fd = mock.device.fileno()
    entry = _uapi.kfab_cq_entry()
    for name, field in HANDLED.items():
        arg = raw.sample(name, **{field: handle})
        if name == "CQ_SREAD":
            arg.count, arg.entries = 1, ctypes.addressof(entry)
        assert raw.call(fd, name, arg) == -code, name
    for command in COMMANDS:
        got = _control(mock, handle, getattr(_uapi, f"KFAB_{command}"))[0]
        assert got == -code, command
    assert _trywait(mock, handle) == -code
    good = mock.cq()._handle
    assert _trywait(mock, good, handle) == -code
    assert _trywait(mock, good) == 0


def test_processor_of_a_queue_must_be_there(mock: Mock) -> None:
    """O2, B39: signaling_vector: the last one will do, the one behind it and -1 will not."""
    cpus = os.cpu_count() or 1
    mock.cq(cpu=cpus - 1)
    for cpu in (cpus, 0xFFFFFFFF, 0x7FFFFFFF):
        with pytest.raises(kp.KfiError, match="EINVAL"):
            mock.cq(cpu=cpu)
