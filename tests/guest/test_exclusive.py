# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""KFI_WAIT_EXCLUSIVE: a publication wakes one sleeper of a wait set, and no wake-up is lost.

::

    injected completion, event, error ── CQ ─┐
                                         EQ ─┼─ exclusive wait set ── threads in wait()
                                       cntr ─┘

Who was woken is told by the kernel: a thread that sleeps at the wait point and has not
left its CPU since was not.
"""

from __future__ import annotations

import ctypes
import fcntl
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from guest_support import LIMIT, PATIENCE, Call, Child, Mock

import kfabric_py as kp
from kfabric.guest import sleeping
from kfabric.guest.waiting import wait_until
from kfabric_py import _uapi

pytestmark = pytest.mark.core

InThread = Callable[[Callable[[], object]], Call[object]]
InChild = Callable[[Callable[[Callable[[str], None]], int]], Child]


def control(wait_set: kp.WaitSet, command: int, value: int = 0) -> int:
    """Make a kfi_control() on a wait set; return the value."""
    arg = _uapi.kfab_control(handle=wait_set._live_handle(), command=command, value=value)
    wait_set._client(_uapi.KFAB_IOC_CONTROL, arg)
    return int(arg.value)


@dataclass
class Herd:
    """An exclusive wait set with a member of each kind, and threads that sleep in it."""

    mock: Mock
    in_thread: InThread
    wait_set: kp.WaitSet
    cq: kp.CompletionQueue
    eq: kp.EventQueue
    cntr: kp.Counter
    ep: kp.Endpoint
    calls: list[Call[object]] = field(default_factory=list)
    switches: dict[int, int] = field(default_factory=dict)
    returned: list[int] = field(default_factory=list)

    def sleep(self, count: int, then: Callable[[], object] | None = None) -> list[Call[object]]:
        """Have threads wait in the set, one behind the other; ``then`` runs in the woken."""

        def body() -> object:
            self.wait_set.wait(timeout=LIMIT)
            self.returned.append(threading.get_native_id())
            return then() if then else None

        new = []
        for _ in range(count):
            call = self.in_thread(body).asleep()
            self.switches[call.tid] = call.switches
            new.append(call)
        self.calls += new
        return new

    def woken(self, count: int) -> None:
        """Exactly this many were woken and have returned; the others have not run since."""
        wait_until(
            lambda: len(self.returned) >= count,
            f"{count} threads woken",
            PATIENCE,
            seen=lambda: len(self.returned),
        )
        for call in self.calls:
            if call.tid not in self.returned:
                call.asleep()
                assert call.switches == self.switches[call.tid], "woken for nothing"
        assert len(self.returned) == count

    def release(self) -> None:
        """Have everybody return who still sleeps."""
        self.cntr.set(0)


@pytest.fixture
def herd(mock: Mock, in_thread: InThread) -> Iterator[Herd]:
    wait_set = mock.wait_set()
    wait_set.exclusive = True
    cq, eq = mock.cq(8, wait_set=wait_set), mock.eq(wait_set=wait_set)
    cntr = mock.counter(wait_set=wait_set)
    # The counter is bound to nothing: what it counts is what a test makes it count.
    herd = Herd(mock, in_thread, wait_set, cq, eq, cntr, mock.endpoint(cq=cq, eq=eq))
    yield herd
    herd.release()


def test_is_off_by_default(mock: Mock, in_thread: InThread) -> None:
    """W3: without the flag every sleeper is woken, and the flag tells which it is."""
    wait_set = mock.wait_set()
    assert control(wait_set, _uapi.KFAB_GETFIDFLAG, 0x55) == 0
    wait_set.exclusive = True
    assert control(wait_set, _uapi.KFAB_GETFIDFLAG) == _uapi.KFAB_WAIT_EXCLUSIVE
    wait_set.exclusive = False
    assert control(wait_set, _uapi.KFAB_GETFIDFLAG, 0x55) == 0
    ep = mock.endpoint(cq=mock.cq(wait_set=wait_set))
    calls = [in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep() for _ in range(3)]
    mock.inject(ep)
    for call in calls:
        call.result()


@pytest.mark.parametrize("on", [True, False])
def test_does_not_change_under_a_sleeper(mock: Mock, in_thread: InThread, on: bool) -> None:
    """W3: EBUSY, and it stays as it was."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    wait_set.exclusive = not on
    before = control(wait_set, _uapi.KFAB_GETFIDFLAG)
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    with pytest.raises(kp.Busy):
        wait_set.exclusive = on
    assert control(wait_set, _uapi.KFAB_GETFIDFLAG) == before
    cq.signal()
    call.result()
    wait_set.exclusive = on


def test_unknown_flag_is_refused(herd: Herd) -> None:
    """W3, O2: no other flag exists; the one that was set stays."""
    for flags in (1, 1 << 59, _uapi.KFAB_WAIT_EXCLUSIVE | 1, 1 << 63):
        with pytest.raises(kp.KfiError, match="EINVAL"):
            control(herd.wait_set, _uapi.KFAB_SETFIDFLAG, flags)
    assert control(herd.wait_set, _uapi.KFAB_GETFIDFLAG) == _uapi.KFAB_WAIT_EXCLUSIVE


def test_gives_no_wait_object_away(mock: Mock) -> None:
    """W3, W8: a stranger would not keep to the turns: GETWAIT is EINVAL until it is off."""
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.FD)
    wait_set.exclusive = True
    with pytest.raises(kp.KfiError, match="EINVAL"):
        control(wait_set, _uapi.KFAB_GETWAIT)


#: What is published, and how; each is one publication.
PUBLICATIONS: dict[str, Callable[[Herd], None]] = {
    "entry": lambda h: h.mock.inject(h.ep),
    "entry from a softirq": lambda h: h.mock.inject(h.ep, context="softirq"),
    "entry from a work item": lambda h: h.mock.inject(h.ep, context="workqueue"),
    "failed operation": lambda h: h.mock.inject(h.ep, err=5),
    "event": lambda h: h.eq.write(),
    "error event": lambda h: h.mock.command("eqerr", h.eq.trace_id, "err=5"),
    "error count": lambda h: h.cntr.adderr(1),
    "error count set": lambda h: h.cntr.seterr(7),
}


@pytest.mark.parametrize("what", PUBLICATIONS)
def test_each_publication_wakes_one(herd: Herd, what: str) -> None:
    """W3, B04, B22: one returns, the others never run; the next publication takes the next."""
    herd.sleep(3)
    for woken in (1, 2, 3):
        PUBLICATIONS[what](herd)
        herd.woken(woken)


#: What is for everybody.
FOR_ALL: dict[str, Callable[[Herd], None]] = {
    "signal": lambda h: h.cq.signal(),
    "add": lambda h: h.cntr.add(1),
    "set": lambda h: h.cntr.set(1),
    "overrun": lambda h: h.mock.inject(h.ep, count=9),
    "device loss": lambda h: h.mock.command("lose", h.mock.domain.trace_id),
}


@pytest.mark.parametrize("what", FOR_ALL)
def test_signals_overrun_and_device_loss_wake_all(herd: Herd, what: str) -> None:
    """W3, V7, Q5: more sleepers than publications, and all return."""
    herd.sleep(12)
    FOR_ALL[what](herd)
    herd.woken(12)


def test_waiting_again_passes_the_wake_on(herd: Herd) -> None:
    """W3, V4: who was woken and only waits again returns at once, and so does another."""
    first, *_ = herd.sleep(3, then=lambda: herd.wait_set.wait(timeout=LIMIT))
    herd.mock.inject(herd.ep)
    # Each passes it on in turn, since none of them reads.
    herd.woken(3)
    first.result()


def test_looking_again_passes_the_wake_on(herd: Herd) -> None:
    """W3: a wait with timeout 0 is a wait."""
    herd.sleep(1, then=lambda: herd.wait_set.wait(timeout=0))
    herd.sleep(2)
    herd.mock.inject(herd.ep)
    herd.woken(2)


def test_who_was_not_woken_passes_nothing_on(herd: Herd) -> None:
    """W3: a wait of somebody who has no turn, on a ready set, wakes nobody."""
    herd.sleep(3)
    herd.mock.inject(herd.ep)
    herd.woken(1)
    for _ in range(3):
        herd.wait_set.wait(timeout=LIMIT)
    herd.woken(1)


def test_reader_that_drains_wakes_nobody(herd: Herd) -> None:
    """W3: nothing is left for the others: they sleep on."""
    herd.sleep(3, then=herd.cq.read)
    herd.mock.inject(herd.ep)
    herd.woken(1)
    herd.mock.inject(herd.ep)
    herd.woken(2)


def test_read_that_leaves_entries_wakes_one_more(herd: Herd) -> None:
    """W3: fewer awake than entries remain: the second thread read something else."""
    go = threading.Event()

    def read_one_later() -> object:
        assert go.wait(LIMIT)
        return herd.cq.read(1)

    herd.sleep(1, then=read_one_later)
    herd.sleep(1, then=herd.cntr.read)
    herd.sleep(2)
    herd.mock.inject(herd.ep, count=2)
    # The second has used its turn, and the first still has one.
    herd.calls[1].result()
    herd.woken(2)
    go.set()
    herd.woken(3)


def test_read_does_not_wake_more_than_remain(herd: Herd) -> None:
    """W3: as many are awake as entries remain: the reads wake nobody."""
    go = [threading.Event() for _ in range(3)]

    def read_when_told(number: int) -> Callable[[], object]:
        def read() -> object:
            assert go[number].wait(LIMIT)
            return herd.cq.read(1)

        return read

    for number in range(3):
        herd.sleep(1, then=read_when_told(number))
    herd.sleep(2)
    herd.mock.inject(herd.ep, count=3)
    herd.woken(3)
    for number in range(3):
        go[number].set()
        herd.calls[number].result()
        herd.woken(3)


def test_what_is_left_in_another_member_wakes_one_more(mock: Mock, in_thread: InThread) -> None:
    """W3, W2, Q8: one completion wakes one thread; it reads the CQ, another gets the counter."""
    wait_set = mock.wait_set()
    wait_set.exclusive = True
    cq, eq = mock.cq(wait_set=wait_set), mock.eq(wait_set=wait_set)
    cntr = mock.counter(wait_set=wait_set)
    ep = mock.endpoint(cq=cq, eq=eq, cntr=cntr)
    herd = Herd(mock, in_thread, wait_set, cq, eq, cntr, ep)
    herd.sleep(1, then=cq.read)
    herd.sleep(2, then=lambda: (cntr.read(), cntr.readerr()))
    mock.inject(ep)
    herd.woken(2)
    herd.release()


@pytest.mark.parametrize("member", ["value", "errors"])
def test_reading_an_unchanged_counter_is_not_enough(herd: Herd, member: str) -> None:
    """W3, W2: such a read succeeds and takes nothing; what it was woken for goes to another."""
    reads: dict[str, Callable[[], object]] = {
        "value": herd.cntr.read,
        "errors": herd.cntr.readerr,
    }
    herd.sleep(1, then=reads[member])
    herd.sleep(1, then=herd.cq.read)
    herd.sleep(1)
    herd.mock.inject(herd.ep)
    herd.woken(2)


def test_thread_that_finds_it_ready_takes_no_turn(herd: Herd) -> None:
    """W3, V1: hook D3, stored and nobody woken yet: who comes now returns, one sleeper, too."""
    hook = herd.mock.hook("D3", herd.cq)
    herd.sleep(2)
    publisher = herd.in_thread(lambda: herd.mock.inject(herd.ep))
    hook.stopped()
    herd.wait_set.wait(timeout=LIMIT)
    assert len(herd.cq.read()) == 1
    hook.go()
    publisher.result()
    # Overtaken: what it was woken for has been read; it has no turn to give away.
    herd.woken(1)
    herd.mock.inject(herd.ep)
    herd.woken(2)


def test_turn_of_the_overtaken_does_not_count(herd: Herd) -> None:
    """W3, V4: one was woken for what another had read; after a wait nobody reckons with it."""
    hook = herd.mock.hook("D3", herd.cq)
    herd.sleep(1)
    herd.sleep(1, then=herd.cntr.read)
    herd.sleep(1)
    publisher = herd.in_thread(lambda: herd.mock.inject(herd.ep))
    hook.stopped()
    assert len(herd.cq.read()) == 1
    hook.go()
    publisher.result()
    herd.woken(1)
    with pytest.raises(kp.KfiTimeout):
        herd.wait_set.wait(timeout=0)
    # The second reads an unchanged counter. The first will not come for the entry.
    herd.mock.inject(herd.ep)
    herd.woken(3)


def test_wake_between_the_last_look_and_the_sleep(herd: Herd) -> None:
    """W3, W2, V2, B07: hook D1; the second publication finds the next thread."""
    hook = herd.mock.hook("D1", herd.wait_set)
    call = herd.in_thread(lambda: herd.wait_set.wait(timeout=LIMIT))
    hook.stopped()
    herd.sleep(2)
    herd.mock.inject(herd.ep, count=2)
    hook.go()
    call.result()
    herd.woken(1)


def test_second_publication_before_the_woken_one_runs(herd: Herd) -> None:
    """W3, V4, B04: hook D4; both wakes on the first sleeper would be one too few."""
    hook = herd.mock.hook("D4", herd.wait_set)
    herd.sleep(3)
    herd.mock.inject(herd.ep)
    hook.stopped()
    herd.mock.inject(herd.ep)
    wait_until(lambda: len(herd.returned) == 1, "the second woken", PATIENCE)
    hook.go()
    herd.woken(2)


def test_wake_at_the_deadline_is_a_turn(herd: Herd) -> None:
    """W3, W4, V4, B26: hook D5; the wake finds a thread whose time is up: it returns 0."""
    hook = herd.mock.hook("D5", herd.wait_set)
    late = herd.in_thread(lambda: herd.wait_set.wait(timeout=0.05))
    hook.stopped()
    herd.sleep(2)
    herd.mock.inject(herd.ep)
    hook.go()
    late.result()
    herd.woken(0)


def test_thread_that_timed_out_is_passed_by(herd: Herd) -> None:
    """W3, V4: hook D4; off the queue without a mark, so the wake goes to another thread."""
    hook = herd.mock.hook("D4", herd.wait_set)
    late = herd.in_thread(lambda: herd.wait_set.wait(timeout=0.05))
    hook.stopped()
    herd.sleep(2)
    herd.mock.inject(herd.ep)
    hook.go()
    # It looks once more when it is off the queue, and the set is ready.
    late.result()
    herd.woken(1)


def _raw_wait(fd: int, handle: int) -> int:
    """Wait by the number of a set that a forked child shares with its parent."""
    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    arg = _uapi.kfab_wait(wait=handle, deadline=_uapi.KFAB_DEADLINE_NONE)
    arg.size = ctypes.sizeof(arg)
    fcntl.ioctl(fd, _uapi.KFAB_IOC_WAIT, arg, True)
    return 0


def _sleeping_child(herd: Herd, in_child: InChild) -> Child:
    """Have a process of its own sleep in the set, before any other thread."""
    fd, handle = herd.mock.device.fileno(), herd.wait_set._live_handle()
    child = in_child(lambda report: _raw_wait(fd, handle))
    sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
    return child


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGQUIT])
def test_killed_thread_hands_its_wake_on(herd: Herd, in_child: InChild, number: int) -> None:
    """W3, V4, O4: hook D4; woken, then killed before it returns: another one is woken."""
    child = _sleeping_child(herd, in_child)
    herd.sleep(2)
    hook = herd.mock.hook("D4", herd.wait_set)
    herd.mock.inject(herd.ep)
    hook.stopped()
    herd.woken(0)
    child.kill(number)
    hook.go()
    assert child.wait() == -number
    herd.woken(1)


def test_thread_killed_in_its_sleep_takes_no_wake(herd: Herd, in_child: InChild) -> None:
    """W3, B22: killed and off the queue, not yet gone (hook D4): the wake goes to another."""
    child = _sleeping_child(herd, in_child)
    herd.sleep(2)
    hook = herd.mock.hook("D4", herd.wait_set)
    child.kill(signal.SIGKILL)
    hook.stopped()
    herd.mock.inject(herd.ep)
    herd.woken(1)
    hook.go()
    assert child.wait() == -signal.SIGKILL
    herd.woken(1)


def test_woken_thread_that_was_interrupted_returns_its_result(
    herd: Herd, in_child: InChild
) -> None:
    """W3, W5, B56: hook D4; woken and then signalled: 0 and no EINTR, and one more is woken."""
    fd, handle = herd.mock.device.fileno(), herd.wait_set._live_handle()

    def body(report: Callable[[str], None]) -> int:
        signal.signal(signal.SIGUSR1, lambda *_: None)
        return _raw_wait(fd, handle)

    child = in_child(body)
    sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
    herd.sleep(2)
    hook = herd.mock.hook("D4", herd.wait_set)
    herd.mock.inject(herd.ep)
    hook.stopped()
    child.kill(signal.SIGUSR1)
    hook.go()
    assert child.wait() == 0
    herd.woken(1)


def test_sleeper_that_a_signal_ends_hands_nothing_on(herd: Herd, in_child: InChild) -> None:
    """W3, W5: it was never woken for anything."""
    child = _sleeping_child(herd, in_child)
    herd.sleep(2)
    child.kill(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    herd.woken(0)


MANY = 70


def test_more_threads_than_turns_on_record(herd: Herd) -> None:
    """W3, B22: every publication wakes one, and everyone who waits again passes it on."""
    go = threading.Event()

    def wait_later() -> None:
        assert go.wait(LIMIT)
        herd.wait_set.wait(timeout=LIMIT)

    events = herd.mock.eq(256, wait_set=herd.wait_set)
    herd.sleep(MANY, then=wait_later)
    late = herd.sleep(3)
    for _ in range(MANY):
        events.write()
    herd.woken(MANY)
    go.set()
    for call in late:
        call.result()
    herd.woken(MANY + 3)


@pytest.mark.races
def test_nothing_is_lost_with_many_threads(herd: Herd) -> None:
    """W3, W2, B04, B22: each thread takes one entry at a time; all entries are taken."""
    rounds, threads = 40, 12
    taken: list[int] = []
    over = threading.Event()

    def consume() -> None:
        while not over.is_set():
            herd.wait_set.wait(timeout=LIMIT)
            taken.extend(entry.data for entry in herd.cq.read(1))

    calls = [herd.in_thread(consume).asleep() for _ in range(threads)]
    for number in range(rounds):
        for part in range(3):
            herd.mock.inject(herd.ep, data=number * 3 + part)
        wait_until(
            lambda wanted=(number + 1) * 3: len(taken) == wanted,  # type: ignore[misc]
            "all entries taken",
            PATIENCE,
            seen=lambda: len(taken),
        )
    over.set()

    def all_done() -> bool:
        # One who was about to sleep sleeps now.
        herd.release()
        return all(call.done for call in calls)

    wait_until(all_done, "the end of the threads", LIMIT)
    for call in calls:
        call.result()
    assert sorted(taken) == list(range(rounds * 3))


def test_members_that_leave_and_join_change_nothing(herd: Herd) -> None:
    """W3, W7: a ready member that closes under a woken thread leaves nobody behind."""
    extra = herd.mock.eq(wait_set=herd.wait_set)
    herd.sleep(3)
    extra.write()
    herd.woken(1)
    extra.close()
    herd.mock.inject(herd.ep)
    herd.woken(2)
    joined = herd.mock.eq(wait_set=herd.wait_set)
    joined.write()
    herd.woken(3)


def test_turn_for_a_member_that_is_closed_does_not_count(mock: Mock, in_thread: InThread) -> None:
    """W3, W7, Q8: one was woken for what a close took; nobody reckons with it afterwards."""
    wait_set = mock.wait_set()
    wait_set.exclusive = True
    cq, eq = mock.cq(wait_set=wait_set), mock.eq(wait_set=wait_set)
    cntr = mock.counter(wait_set=wait_set)
    ep = mock.endpoint(cq=cq, eq=eq, cntr=cntr)
    extra = mock.cq(wait_set=wait_set)
    other = mock.endpoint(cq=extra)
    herd = Herd(mock, in_thread, wait_set, cq, eq, cntr, ep)
    herd.sleep(1)
    herd.sleep(1, then=cq.read)
    herd.sleep(1)
    mock.inject(other)
    herd.woken(1)
    other.close()
    extra.close()
    # A thread that waits now would find the set drained, and end all turns.
    mock.inject(ep)
    herd.woken(3)


def test_set_closes_with_turns_out(mock: Mock, in_thread: InThread) -> None:
    """W3, O1: a sleeper is a use, a turn is none."""
    wait_set = mock.wait_set()
    wait_set.exclusive = True
    cq = mock.cq(wait_set=wait_set)
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    with pytest.raises(kp.Busy):
        wait_set.close()
    cq.signal()
    call.result()
    cq.close()
    wait_set.close()


def ring_of(herd: Herd) -> tuple[kp.CompletionQueue, kp.Endpoint]:
    """One more member: a queue with a ring, and an endpoint that reports to it."""
    cq = herd.mock.cq(8, wait_set=herd.wait_set, ring=True)
    return cq, herd.mock.endpoint(cq=cq)


def test_call_of_a_thread_with_a_turn_wakes_one_for_what_is_left(herd: Herd) -> None:
    """W3, V4, Q11: it may not be the reader, so the reader's turn may cover nothing."""
    cq, ep = ring_of(herd)
    both_have_turns, was_read = threading.Event(), threading.Event()

    def read() -> None:
        both_have_turns.wait(LIMIT)
        cq.read()
        was_read.set()

    herd.sleep(1, read)
    herd.sleep(1, lambda: (was_read.wait(LIMIT), cq.read(0)))
    herd.sleep(1)
    herd.mock.inject(ep)
    herd.woken(1)
    herd.eq.write()
    both_have_turns.set()
    herd.woken(3)


def test_call_of_another_thread_wakes_one_for_what_is_left(herd: Herd) -> None:
    """W3, W2, Q11: the kernel does not know whose turn the read of a ring has ended."""
    cq, ep = ring_of(herd)
    herd.sleep(1)
    (reader,) = herd.sleep(1, cq.read)
    herd.sleep(2)
    herd.eq.write()
    herd.woken(1)
    herd.mock.inject(ep)
    reader.result()
    herd.woken(2)
    assert cq.read() == []
    herd.woken(3)
