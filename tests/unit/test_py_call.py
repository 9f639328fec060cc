# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""How calls are made: size, deadline, errors and interrupted calls."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import signal
import time
from collections.abc import Callable

import pytest

from kfabric_py import _uapi
from kfabric_py._call import Client, deadline_after
from kfabric_py.errors import Again, KfiTimeout

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("timeout", "deadline"),
    [
        (None, _uapi.KFAB_DEADLINE_NONE),
        (math.inf, _uapi.KFAB_DEADLINE_NONE),
        (1e300, _uapi.KFAB_DEADLINE_NONE),
        (0, _uapi.KFAB_DEADLINE_NOW),
        (0.0, _uapi.KFAB_DEADLINE_NOW),
    ],
)
def test_special_timeouts(timeout: float | None, deadline: int) -> None:
    assert deadline_after(timeout) == deadline


@pytest.mark.parametrize("timeout", [5e-324, 1e-9, 0.25, 3, 1e6])
def test_deadline_is_absolute_and_never_early(timeout: float) -> None:
    before = time.monotonic_ns()
    deadline = deadline_after(timeout)
    after = time.monotonic_ns()
    assert before + timeout * SECOND <= deadline <= after + timeout * SECOND + 1


@pytest.mark.parametrize("timeout", [-1, -0.001, math.nan, -math.inf])
def test_senseless_timeouts_are_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        deadline_after(timeout)


Fake = Callable[[int, int, ctypes.Structure], int]


def _failing(number: int) -> Fake:
    def ioctl(fd: int, request: int, arg: ctypes.Structure) -> int:
        raise OSError(number, os.strerror(number))

    return ioctl


def test_call_fills_the_size_and_returns_the_result() -> None:
    seen: list[tuple[int, int, int]] = []

    def ioctl(fd: int, request: int, arg: ctypes.Structure) -> int:
        seen.append((fd, request, arg.size))
        return 7

    client = Client(42, ioctl)
    assert client(_uapi.KFAB_IOC_WAIT, _uapi.kfab_wait(wait=1)) == 7
    assert seen == [(42, _uapi.KFAB_IOC_WAIT, ctypes.sizeof(_uapi.kfab_wait))]


@pytest.mark.parametrize(("number", "kind"), [(errno.ETIMEDOUT, KfiTimeout), (errno.EAGAIN, Again)])
def test_failed_call_raises_our_exception(number: int, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^\[Errno \d+\] WAIT: ") as caught:
        Client(0, _failing(number))(_uapi.KFAB_IOC_WAIT, _uapi.kfab_wait())
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == number
    assert caught.value.__context__ is None


class Interrupted:
    """An ioctl that a signal interrupts some times before it succeeds."""

    def __init__(self, times: int, on_interrupt: Callable[[], None] = lambda: None) -> None:
        self.times = times
        self.on_interrupt = on_interrupt
        self.deadlines: list[int] = []

    def __call__(self, fd: int, request: int, arg: ctypes.Structure) -> int:
        self.deadlines.append(arg.deadline)
        if len(self.deadlines) <= self.times:
            self.on_interrupt()
            raise InterruptedError(errno.EINTR, "interrupted")
        return 0


def test_interrupted_call_goes_on_with_the_same_deadline() -> None:
    """W5: one absolute deadline, however often a handler runs in between."""
    ioctl = Interrupted(3)
    arg = _uapi.kfab_wait(wait=1, deadline=deadline_after(5))
    Client(0, ioctl)(_uapi.KFAB_IOC_WAIT, arg)
    assert ioctl.deadlines == [arg.deadline] * 4


def test_signal_handler_runs_before_the_call_goes_on() -> None:
    """W5: a Python handler is not put off until the wait has ended."""
    ran: list[int] = []
    attempts_at_handler: list[int] = []

    def handler(number: int, frame: object) -> None:
        ran.append(number)
        attempts_at_handler.append(len(ioctl.deadlines))

    ioctl = Interrupted(1, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    old = signal.signal(signal.SIGUSR1, handler)
    try:
        Client(0, ioctl)(_uapi.KFAB_IOC_WAIT, _uapi.kfab_wait(deadline=1))
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert ran == [signal.SIGUSR1]
    assert attempts_at_handler == [1]


def test_raising_signal_handler_ends_the_call() -> None:
    """W5: Ctrl-C in a wait without limit is a KeyboardInterrupt."""

    def handler(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    ioctl = Interrupted(1_000_000, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    old = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Client(0, ioctl)(_uapi.KFAB_IOC_WAIT, _uapi.kfab_wait(deadline=1))
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert len(ioctl.deadlines) == 1


def test_real_ioctl_of_a_wrong_descriptor_is_an_error_of_ours() -> None:
    read_end, write_end = os.pipe()
    try:
        with pytest.raises(OSError, match="VERSION: ENOTTY") as caught:
            Client(read_end)(_uapi.KFAB_IOC_VERSION, _uapi.kfab_version())
        assert caught.value.errno == errno.ENOTTY
    finally:
        os.close(read_end)
        os.close(write_end)
