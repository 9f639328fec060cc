# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Counters: every waiter has its own threshold, and all 64 bits count."""

from __future__ import annotations

import errno
import signal
import time
from collections.abc import Callable

import pytest
import uapi_support as raw
from guest_support import LIMIT, Call, Mock, handler

import kfabric_py as kp
from kfabric_py import _uapi

InThread = Callable[[Callable[[], object]], Call[object]]

TOP = 2**64 - 1


def reached(cntr: kp.Counter, threshold: int) -> bool:
    """Look once whether the counter has reached a value."""
    try:
        cntr.wait(threshold, timeout=0)
    except kp.KfiTimeout:
        return False
    return True


def test_new_counter_is_zero(mock: Mock) -> None:
    """B37: nothing of an earlier object shows."""
    cntr = mock.counter()
    assert (cntr.read(), cntr.readerr()) == (0, 0)


def test_completions_and_failures_are_counted_apart(mock: Mock) -> None:
    """Q8: every completion counts, entry or no entry."""
    cntr = mock.counter()
    ep = mock.endpoint(cntr=cntr)
    mock.inject(ep, count=3)
    mock.inject(ep, count=2, entry=0)
    mock.inject(ep, err=5)
    assert (cntr.read(), cntr.readerr()) == (5, 1)


def test_add_and_set_change_the_value(mock: Mock) -> None:
    """The user's own changes work on both values, and wrap at 64 bits."""
    cntr = mock.counter()
    cntr.set(TOP)
    cntr.add(2)
    assert cntr.read() == 1
    cntr.seterr(TOP)
    cntr.adderr(3)
    assert cntr.readerr() == 2


@pytest.mark.parametrize("change", ["add", "set", "completion"])
def test_reaching_the_threshold_ends_the_wait(mock: Mock, in_thread: InThread, change: str) -> None:
    """Q6: whatever moves the value."""
    cntr = mock.counter()
    ep = mock.endpoint(cntr=cntr)
    call = in_thread(lambda: cntr.wait(2, timeout=LIMIT)).asleep()
    match change:
        case "add":
            cntr.add(2)
        case "set":
            cntr.set(2)
        case "completion":
            mock.inject(ep, count=2, entry=0, context="softirq")
    call.result()


def test_waiter_is_not_woken_below_its_threshold(mock: Mock, in_thread: InThread) -> None:
    """Q6: the thread does not even run: its context switches stay as they are."""
    cntr = mock.counter()
    ep = mock.endpoint(cntr=cntr)
    call = in_thread(lambda: cntr.wait(497, timeout=LIMIT)).asleep()
    switches = call.switches
    for _ in range(20):
        cntr.add(1)
        mock.inject(ep, entry=0)
    assert call.asleep().switches == switches
    cntr.set(497)
    call.result()


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_wait_times_out_and_never_early(mock: Mock, timeout: float) -> None:
    """Q6, B25, B26: ETIMEDOUT, never success with too small a value."""
    cntr = mock.counter()
    cntr.set(9)
    begin = time.monotonic()
    with pytest.raises(kp.KfiTimeout):
        cntr.wait(10, timeout=timeout)
    assert time.monotonic() - begin >= timeout


def test_value_that_comes_at_the_deadline_counts(mock: Mock, in_thread: InThread) -> None:
    """Q6, B26: hook D5, the deadline has passed, then the value is reached."""
    cntr = mock.counter()
    hook = mock.hook("D5", cntr)
    call = in_thread(lambda: cntr.wait(1, timeout=0.05))
    hook.stopped()
    cntr.add(1)
    hook.go()
    call.result()


@pytest.mark.parametrize("change", ["adderr", "seterr", "failure"])
def test_error_ends_every_wait(mock: Mock, in_thread: InThread, change: str) -> None:
    """Q6, V7, B34: three threads wait, the error value changes: EAVAIL for all three."""
    cntr = mock.counter()
    ep = mock.endpoint(cntr=cntr)
    calls = [in_thread(lambda: cntr.wait(10, timeout=LIMIT)).asleep() for _ in range(3)]
    match change:
        case "adderr":
            cntr.adderr(1)
        case "seterr":
            cntr.seterr(5)
        case "failure":
            mock.inject(ep, err=5)
    for call in calls:
        with pytest.raises(kp.ErrorAvailable):
            call.result()


def test_earlier_error_does_not_end_a_new_wait(mock: Mock, in_thread: InThread) -> None:
    """Q6, B34: only a change during the wait counts."""
    cntr = mock.counter()
    cntr.adderr(1)
    call = in_thread(lambda: cntr.wait(1, timeout=LIMIT)).asleep()
    cntr.add(1)
    call.result()


def test_error_after_an_interruption_ends_the_rest_of_the_wait(
    mock: Mock, in_thread: InThread
) -> None:
    """Q6, W5: the error comes while a handler runs, and the program then repeats the call."""
    cntr = mock.counter()
    arg = raw.sample("CNTR_WAIT", cntr=cntr._handle, threshold=1, deadline=_uapi.KFAB_DEADLINE_NONE)
    wait = lambda: raw.call(mock.device.fileno(), "CNTR_WAIT", arg)  # noqa: E731
    cntr.adderr(1)
    with handler(signal.SIGUSR1, lambda: None, restart=False):
        call = in_thread(wait).asleep()
        signal.pthread_kill(call.ident, signal.SIGUSR1)
        assert call.result() == -errno.EINTR
    cntr.adderr(1)
    assert wait() == -kp.KfabricErrno.KFI_EAVAIL
    arg.deadline = _uapi.KFAB_DEADLINE_NOW
    assert wait() == -errno.ETIMEDOUT, "the next wait is a new one"


def test_reached_threshold_wins_over_an_error(mock: Mock, in_thread: InThread) -> None:
    """Q6, B34: hook D4, woken by the error, then the value is reached: success."""
    cntr = mock.counter()
    hook = mock.hook("D4", cntr)
    call = in_thread(lambda: cntr.wait(1, timeout=LIMIT)).asleep()
    cntr.adderr(1)
    hook.stopped()
    cntr.add(1)
    hook.go()
    call.result()


def test_every_waiter_has_its_own_threshold(mock: Mock, in_thread: InThread) -> None:
    """Q6, B35: after increment k exactly the threads 1 to k have returned."""
    cntr = mock.counter()
    calls = [
        in_thread(lambda wanted=wanted: cntr.wait(wanted, timeout=LIMIT)).asleep()  # type: ignore[misc]
        for wanted in range(1, 9)
    ]
    for k in range(8):
        sleeping = {call: call.switches for call in calls[k + 1 :]}
        cntr.add(1)
        calls[k].result()
        for call, switches in sleeping.items():
            assert call.asleep().switches == switches


def test_jump_reaches_all_thresholds(mock: Mock, in_thread: InThread) -> None:
    """Q6, B35: one set that passes every threshold wakes everyone."""
    cntr = mock.counter()
    calls = [
        in_thread(lambda wanted=wanted: cntr.wait(wanted, timeout=LIMIT)).asleep()  # type: ignore[misc]
        for wanted in range(1, 9)
    ]
    cntr.set(8)
    for call in calls:
        call.result()


@pytest.mark.parametrize("value", [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, TOP])
def test_thresholds_are_64_bits(mock: Mock, value: int) -> None:
    """Q6, V9, B36: value and threshold are compared as unsigned 64-bit numbers."""
    cntr = mock.counter()
    assert not reached(cntr, value)
    cntr.set(value)
    assert cntr.read() == value
    assert reached(cntr, value - 1)
    assert reached(cntr, value)
    if value < TOP:
        assert not reached(cntr, value + 1)


def test_add_carries_into_the_upper_half(mock: Mock, in_thread: InThread) -> None:
    """Q6, B36: a waiter for 2^32 is woken by the increment that gets there."""
    cntr = mock.counter()
    cntr.set(2**32 - 1)
    call = in_thread(lambda: cntr.wait(2**32, timeout=LIMIT)).asleep()
    cntr.add(1)
    call.result()
    assert cntr.read() == 2**32


def test_threshold_zero_is_always_reached(mock: Mock) -> None:
    """Q6: 0 is reached from the beginning."""
    assert reached(mock.counter(), 0)


def test_choice_of_one_counter_does_not_change_another(mock: Mock) -> None:
    """W8, B37: NONE forbids waiting on that counter only."""
    queue, none = mock.counter(), mock.counter(wait_obj=kp.WaitObj.NONE)
    queue.add(1)
    none.add(1)
    queue.wait(1, timeout=LIMIT)
    with pytest.raises(kp.KfiError, match="EINVAL"):
        none.wait(1, timeout=0)
    assert none.read() == 1


def test_counter_with_a_sleeper_does_not_close(mock: Mock, in_thread: InThread) -> None:
    """O1: EBUSY while a thread sleeps in it."""
    cntr = mock.counter()
    call = in_thread(lambda: cntr.wait(1, timeout=LIMIT)).asleep()
    with pytest.raises(kp.Busy):
        cntr.close()
    cntr.add(1)
    call.result()
    cntr.close()
