# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Completion queues: blocking reads, formats, order, errors, overrun, threshold."""

from __future__ import annotations

import ctypes
import errno
import signal
import threading
import time
from collections.abc import Callable

import pytest
import uapi_support as raw
from guest_support import LIMIT, Call, Mock, handler

import kfabric_py as kp
from kfabric_py import _uapi

pytestmark = pytest.mark.core

InThread = Callable[[Callable[[], object]], Call[object]]


def inject_numbered(mock: Mock, ep: kp.Endpoint, numbers: range) -> None:
    """Report one receive for each number, which its entry carries as data."""
    for number in numbers:
        mock.inject(ep, data=number)


def test_sread_returns_what_is_there(mock: Mock) -> None:
    """Q1: entries are returned at once, the oldest first, at most as many as asked for."""
    cq = mock.cq()
    inject_numbered(mock, mock.endpoint(cq=cq), range(5))
    assert [entry.data for entry in cq.sread(3, timeout=LIMIT)] == [0, 1, 2]
    assert [entry.data for entry in cq.sread(3, timeout=LIMIT)] == [3, 4]


@pytest.mark.parametrize("context", ["process", "softirq", "workqueue"])
def test_entry_wakes_sread(mock: Mock, in_thread: InThread, context: str) -> None:
    """Q1, W10: a thread asleep in sread gets the entry."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    call = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
    mock.inject(ep, data=497, context=context)
    entries = call.result()
    assert isinstance(entries, list)
    assert [entry.data for entry in entries] == [497]


def test_entry_that_comes_before_the_sleep_is_not_lost(mock: Mock, in_thread: InThread) -> None:
    """Q1, V2: hook D1, between the last look and the sleep."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    hook = mock.hook("D1", cq)
    call = in_thread(lambda: cq.sread(1, timeout=LIMIT))
    hook.stopped()
    mock.inject(ep)
    hook.go()
    assert len(call.result()) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_sread_comes_back_empty_at_its_deadline(mock: Mock, timeout: float) -> None:
    """Q1, B16, B25: EAGAIN (here: no entries) when the time has passed, and not earlier."""
    cq = mock.cq()
    begin = time.monotonic()
    assert cq.sread(1, timeout=timeout) == []
    assert time.monotonic() - begin >= timeout


def test_sread_goes_on_after_a_wake_for_somebody_else(mock: Mock, in_thread: InThread) -> None:
    """V5, B16: one entry, two sleepers: the one that gets nothing sleeps on."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    calls = [in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep() for _ in range(2)]
    mock.inject(ep)
    mock.inject(ep)
    got = [call.result() for call in calls]
    assert [len(entries) for entries in got] == [1, 1]  # type: ignore[arg-type]


def test_each_entry_wakes_another_sleeper(mock: Mock, in_thread: InThread) -> None:
    """Q3, B04: as many entries as sleepers, all at once: all return with one."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    calls = [in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep() for _ in range(6)]
    mock.inject(ep, count=6)
    assert [len(call.result()) for call in calls] == [1] * 6  # type: ignore[arg-type]


def test_signal_frees_all_sleepers_and_is_not_remembered(mock: Mock, in_thread: InThread) -> None:
    """Q5, B18: everyone asleep returns with nothing; who comes later waits."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    calls = [in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep() for _ in range(4)]
    cq.signal()
    assert [call.result() for call in calls] == [[]] * 4
    later = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
    mock.inject(ep)
    assert len(later.result()) == 1  # type: ignore[arg-type]


def test_signal_frees_a_thread_that_waits_for_another_reader(
    mock: Mock, in_thread: InThread
) -> None:
    """Q5, W5: hook D7: an entry has woken it, and a POSIX signal interrupts it then."""
    cq = mock.cq(threshold=True)
    ep = mock.endpoint(cq=cq)
    room = (_uapi.kfab_cq_entry * 2)()
    arg = raw.sample("CQ_SREAD", cq=cq._handle, count=2, cond=2)
    arg.entries, arg.deadline = ctypes.addressof(room), _uapi.KFAB_DEADLINE_NONE
    with handler(signal.SIGUSR1, lambda: None, restart=True):
        call = in_thread(lambda: raw.call(mock.device.fileno(), "CQ_SREAD", arg)).asleep()
        mock.inject(ep)
        hook = mock.hook("D7", cq)
        reader = in_thread(lambda: cq.read(1))
        hook.stopped()
        mock.inject(ep)
        call.asleep(r"^kfd_read_lock\b")
        cq.signal()
        signal.pthread_kill(call.ident, signal.SIGUSR1)
        assert call.result() == -errno.EAGAIN
        hook.go()
        assert len(reader.result()) == 1  # type: ignore[arg-type]
    assert len(cq.read(2)) == 1


def test_error_is_read_with_readerr_once(mock: Mock) -> None:
    """Q1, B29: EAVAIL from every read while the error is at the head; readerr gets it once."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq), err=5, prov=77, len=3, olen=4)
    for _ in range(2):
        with pytest.raises(kp.ErrorAvailable):
            cq.read()
        with pytest.raises(kp.ErrorAvailable):
            cq.sread(1, timeout=LIMIT)
    error = cq.readerr()
    assert error is not None
    assert (error.err, error.prov_errno, error.len, error.olen) == (5, 77, 3, 4)
    assert error.flags == kp.CqFlags.MSG | kp.CqFlags.RECV
    assert cq.readerr() is None
    assert cq.read() == []


def test_peek_leaves_the_error(mock: Mock) -> None:
    """Q7, B29: peek twice, then read: the same entry each time."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq), err=5)
    assert cq.readerr(peek=True) == cq.readerr(peek=True) == cq.readerr()
    assert cq.readerr() is None


def test_error_wakes_sread(mock: Mock, in_thread: InThread) -> None:
    """Q1, V7, B27, B28: asleep, then an error: EAVAIL."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    call = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
    mock.inject(ep, err=5)
    with pytest.raises(kp.ErrorAvailable):
        call.result()
    assert cq.readerr() is not None


def test_one_error_goes_to_one_thread(mock: Mock, in_thread: InThread) -> None:
    """Q1, B29: eight threads see EAVAIL, exactly one gets the entry."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq), err=5)
    together = threading.Barrier(8)

    def read() -> kp.CqError | None:
        together.wait(LIMIT)
        return cq.readerr()

    calls = [in_thread(read) for _ in range(8)]
    got = [call.result() for call in calls]
    assert len([error for error in got if error is not None]) == 1


def test_errors_and_entries_keep_their_order(mock: Mock) -> None:
    """Q2, B28: three entries, an error, two entries, as they happened."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    inject_numbered(mock, ep, range(3))
    mock.inject(ep, err=5)
    inject_numbered(mock, ep, range(3, 5))
    assert [entry.data for entry in cq.read()] == [0, 1, 2]
    with pytest.raises(kp.ErrorAvailable):
        cq.read()
    assert cq.readerr() is not None
    assert [entry.data for entry in cq.read()] == [3, 4]


def test_order_holds_around_the_ring(mock: Mock) -> None:
    """Q2: many times the queue's size, in changing portions."""
    cq = mock.cq(8)
    ep = mock.endpoint(cq=cq)
    seen: list[int] = []
    for number in range(97):
        mock.inject(ep, data=number)
        if number % 5 == 4:
            seen += [entry.data for entry in cq.read(3)]
            seen += [entry.data for entry in cq.read(8)]
    seen += [entry.data for entry in cq]
    assert seen == list(range(97))


@pytest.mark.parametrize(
    ("format", "fields"),
    [
        (kp.CqFormat.CONTEXT, set()),
        (kp.CqFormat.MSG, {"flags", "len"}),
        (kp.CqFormat.DATA, {"flags", "len", "data"}),
        (kp.CqFormat.TAGGED, {"flags", "len", "data"}),
    ],
)
def test_format_decides_which_fields_are_filled(
    mock: Mock, device: kp.Device, format: kp.CqFormat, fields: set[str]
) -> None:
    """The entry has what its format carries, and 0 for the rest; the context always."""
    cq = mock.cq(format=format)
    ep = mock.endpoint(cq=cq)
    context = object()
    with device.buffer(100) as buffer:
        ep.recv(buffer, context=context)
        mock.complete(ep, "recv", len=42, data=0x1122334455667788)
        (entry,) = cq.read()
    assert entry.context is context
    # A message without its data is not said to have some.
    flags = kp.CqFlags.MSG | kp.CqFlags.RECV
    if "data" in fields:
        flags |= kp.CqFlags.REMOTE_CQ_DATA
    full = {"flags": flags, "len": 42, "data": 0x1122334455667788}
    for name, value in full.items():
        assert getattr(entry, name) == (value if name in fields else 0), name
    assert (entry.tag, entry.src_addr, entry.buf) == (0, 0, None)


def test_contexts_come_back_in_order(mock: Mock, device: kp.Device) -> None:
    """Any Python object may be a context, also one that was given twice."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    contexts = [object(), "text", 3, None, ("a", 1)]
    contexts.append(contexts[0])
    with device.buffer(64) as buffer:
        for context in contexts:
            ep.recv(buffer, context=context)
        mock.complete(ep, "recv", len(contexts))
        assert [entry.context for entry in cq.read()] == contexts


def test_selective_completion_reports_what_was_asked_for(mock: Mock, device: kp.Device) -> None:
    """A success is reported only with COMPLETION, a failure always; the counter has all."""
    cq, cntr = mock.cq(), mock.counter()
    ep = mock.endpoint(cq=cq, cntr=cntr, selective=True)
    with device.buffer(64) as buffer:
        ep.send(buffer, context="quiet", flags=kp.OpFlags(0))
        ep.send(buffer, context="asked", flags=kp.OpFlags.COMPLETION)
        ep.send(buffer, context="fails", flags=kp.OpFlags(0))
        mock.complete(ep, "send", 2)
        mock.complete(ep, "send", err=5)
        assert [entry.context for entry in cq.read()] == ["asked"]
        error = cq.readerr()
    assert error is not None and error.context == "fails"
    assert (cntr.read(), cntr.readerr()) == (2, 1)


def test_completion_is_in_queue_and_counter_when_the_sleeper_wakes(
    mock: Mock, in_thread: InThread
) -> None:
    """Q8, V1: neither suppresses the other, and who was woken sees both."""
    wait_set = mock.wait_set()
    cq, cntr = mock.cq(wait_set=wait_set), mock.counter(wait_set=wait_set)
    ep = mock.endpoint(cq=cq, cntr=cntr)

    def wait_and_look() -> tuple[int, int]:
        wait_set.wait(timeout=LIMIT)
        return len(cq.read()), cntr.read()

    for _ in range(20):
        before = cntr.read()
        call = in_thread(wait_and_look).asleep()
        mock.inject(ep, context="softirq")
        assert call.result() == (1, before + 1)


def fill(mock: Mock, size: int = 8) -> tuple[kp.CompletionQueue, int]:
    """Return a queue that has overrun, and how many were reported to it."""
    cq = mock.cq(size)
    ep = mock.endpoint(cq=cq)
    # The size is a least one: a queue may hold more than was asked for.
    count = 64 * size
    inject_numbered(mock, ep, range(count))
    return cq, count


def test_overrun_comes_behind_what_was_stored_and_stays(mock: Mock) -> None:
    """Q2: the stored entries in order, then EOVERRUN for ever."""
    cq, count = fill(mock)
    seen: list[int] = []
    with pytest.raises(kp.Overrun):
        while entries := cq.read(3):
            seen += [entry.data for entry in entries]
    assert 8 <= len(seen) < count
    assert seen == list(range(len(seen)))
    for read in (cq.read, cq.readerr, lambda: cq.sread(1, timeout=LIMIT)):
        with pytest.raises(kp.Overrun):
            read()


def test_overrun_ends_the_sleep_of_everyone(mock: Mock, in_thread: InThread) -> None:
    """Q2, V7: threads whose threshold was never met are woken by the overrun, too."""
    cq = mock.cq(8, threshold=True)
    ep = mock.endpoint(cq=cq)
    calls = [in_thread(lambda: cq.sread(8, threshold=8, timeout=LIMIT)).asleep() for _ in range(3)]
    mock.inject(ep, count=1024)
    outcomes = []
    for call in calls:
        try:
            outcomes.append(bool(call.result()))
        except kp.Overrun:
            outcomes.append(True)
    assert outcomes == [True] * 3


def test_threshold_holds_sleepers_back(mock: Mock, in_thread: InThread) -> None:
    """Q4: nobody is woken below the threshold; at it all come at once."""
    cq = mock.cq(threshold=True)
    ep = mock.endpoint(cq=cq)
    call = in_thread(lambda: cq.sread(8, threshold=3, timeout=LIMIT)).asleep()
    switches = call.switches
    mock.inject(ep, count=2)
    assert call.asleep().switches == switches, "woken below its threshold"
    mock.inject(ep)
    assert len(call.result()) == 3  # type: ignore[arg-type]


def test_threshold_at_the_deadline_gives_what_is_there(mock: Mock) -> None:
    """Q4: too few, but the time has passed."""
    cq = mock.cq(threshold=True)
    mock.inject(mock.endpoint(cq=cq), count=2)
    assert len(cq.sread(8, threshold=3, timeout=0.05)) == 2
    assert cq.sread(8, threshold=3, timeout=0) == []


def test_error_wakes_below_the_threshold(mock: Mock, in_thread: InThread) -> None:
    """Q4, V7: an error is not held back."""
    cq = mock.cq(threshold=True)
    ep = mock.endpoint(cq=cq)
    call = in_thread(lambda: cq.sread(8, threshold=3, timeout=LIMIT)).asleep()
    mock.inject(ep, err=5)
    with pytest.raises(kp.ErrorAvailable):
        call.result()


def test_threshold_above_the_size_is_refused(mock: Mock) -> None:
    """Q4: it could never be met."""
    cq = mock.cq(8, threshold=True)
    with pytest.raises(kp.KfiError, match="EINVAL"):
        cq.sread(8, threshold=1 << 40, timeout=0)


def test_queue_without_wait_object_refuses_to_block(mock: Mock) -> None:
    """W8: NONE forbids blocking calls; reading works."""
    cq = mock.cq(wait_obj=kp.WaitObj.NONE)
    mock.inject(mock.endpoint(cq=cq))
    with pytest.raises(kp.KfiError, match="EINVAL"):
        cq.sread(1, timeout=0)
    assert len(cq.read()) == 1
    assert cq.wait_obj() is kp.WaitObj.NONE


def test_read_of_nothing_consumes_nothing(mock: Mock) -> None:
    """Q7: count 0 makes progress only."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq))
    assert cq.read(0) == []
    assert len(cq.read()) == 1


def test_entries_after_a_loop_that_ends_early_are_there_for_all(mock: Mock) -> None:
    """V6, W1, P1: the wait set and a poll set see them, and the next read gets them."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    poll_set = mock.poll_set()
    poll_set.add(cq)
    inject_numbered(mock, mock.endpoint(cq=cq), range(3))
    for entry in cq:
        assert entry.data == 0
        break
    wait_set.wait(timeout=0)
    assert poll_set.poll() == [cq]
    assert [entry.data for entry in cq.read()] == [1, 2]


def _told(cq: kp.CompletionQueue, count: int, call: int = _uapi.KFAB_IOC_CQ_READ) -> int:
    """What CQ_READ returns that is to tell whether the queue is empty; room for 16."""
    room = (_uapi.kfab_cq_entry * 16)()
    arg = _uapi.kfab_cq_read(
        flags=_uapi.KFAB_CQ_REPORT_EMPTY,
        cq=cq._handle,
        count=count,
        entries=ctypes.addressof(room),
    )
    return cq._client(call, arg)


def test_reader_is_told_that_the_queue_is_empty(mock: Mock) -> None:
    """E1, Q1: in place of EAGAIN, and behind entries if the queue was seen empty there."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    assert _told(cq, 16) == _told(cq, 0) == _uapi.KFAB_CQ_EMPTY
    inject_numbered(mock, ep, range(5))
    assert _told(cq, 3) == 3
    assert _told(cq, 16) == 2 | _uapi.KFAB_CQ_EMPTY


def test_queue_with_an_error_is_not_empty(mock: Mock) -> None:
    """E1, Q2: who reads until it is told so meets the error behind the entries."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    inject_numbered(mock, ep, range(2))
    mock.inject(ep, err=5)
    assert _told(cq, 16) == 2
    with pytest.raises(kp.ErrorAvailable):
        _told(cq, 16)
    inject_numbered(mock, ep, range(2))
    assert cq.readerr() is not None
    mock.inject(ep, err=5)
    got: list[object] = []
    with pytest.raises(kp.ErrorAvailable):
        got.extend(entry.data for entry in cq)
    assert got == [0, 1]


@pytest.mark.parametrize(
    ("call", "count"),
    [(_uapi.KFAB_IOC_CQ_SREAD, 1), (_uapi.KFAB_IOC_CQ_READ, _uapi.KFAB_CQ_EMPTY)],
)
def test_empty_is_told_by_plain_reads_of_few(mock: Mock, call: int, count: int) -> None:
    """X1: a blocking read does not know the flag; a number has to leave room for it."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq))
    with pytest.raises(kp.KfiError, match="EINVAL"):
        _told(cq, count, call)
    assert len(cq.read()) == 1


def test_bound_queue_does_not_close(mock: Mock) -> None:
    """O1: EBUSY while an endpoint is bound, and it works as before."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    with pytest.raises(kp.Busy):
        cq.close()
    mock.inject(ep)
    assert len(cq.read()) == 1


def test_queue_with_a_sleeper_does_not_close(mock: Mock, in_thread: InThread) -> None:
    """O1: EBUSY while a thread sleeps in it."""
    cq = mock.cq()
    call = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
    with pytest.raises(kp.Busy):
        cq.close()
    cq.signal()
    assert call.result() == []
    cq.close()
