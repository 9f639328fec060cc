# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Who is woken when: the orders of storing, numbering, waking and leaving, forced.

Each of these was written because a mutant (tests/mutants) got past all other tests.
A hook stops a thread by having it spin, so with two processors there is one hook at
a time; what else has to be late is a wake-up that the fault "late" holds back.
"""

from __future__ import annotations

import ctypes
import errno
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import uapi_support as raw
from channel_support import Told
from guest_support import LIMIT, PATIENCE, Call, Child, Mock, handler

import kfabric_py as kp
from kfabric.guest import sleeping
from kfabric.guest.waiting import Deadline
from kfabric_py import _uapi

InThread = Callable[[Callable[[], object]], Call[object]]

#: Milliseconds for which a wake-up is held back; nothing is asserted of it.
HELD_BACK = 1000


def entries(result: object) -> int:
    """How many completions a read has returned."""
    assert isinstance(result, list)
    return len(result)


def is_ready(wait_set: kp.WaitSet) -> bool:
    """Look at the set once."""
    try:
        wait_set.wait(timeout=0)
    except kp.KfiTimeout:
        return False
    return True


@pytest.mark.wrong_wakeups("late", reason="a fault point makes it")
def test_publication_numbered_after_the_look_is_not_lost(mock: Mock, in_thread: InThread) -> None:
    """W2, V1, V2, B07: hook D1: stored and numbered behind the last look, woken after the sleep."""
    wait_set = mock.wait_set()
    ep = mock.endpoint(cq=mock.cq(wait_set=wait_set))
    hook = mock.hook("D1", wait_set)
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT))
    hook.stopped()
    mock.command("fault", "late", wait_set.trace_id, HELD_BACK)
    mock.inject(ep)
    hook.go()
    call.result()


def test_wake_for_what_was_read_before_reaches_nobody(mock: Mock, in_thread: InThread) -> None:
    """W3, V5: hook D3: numbered, read by another thread; who comes now is not woken for it."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    hook = mock.hook("D3", cq)
    publisher = in_thread(lambda: mock.inject(ep))
    hook.stopped()
    assert len(cq.read()) == 1
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    switches = call.switches
    hook.go()
    publisher.result()
    assert call.asleep().switches == switches, "woken for nothing"
    mock.inject(ep)
    call.result()


def test_one_entry_wakes_one_reader(mock: Mock, in_thread: InThread) -> None:
    """Q3, B22: of three readers one gets it, and the others do not even run."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    first, *others = [in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep() for _ in range(3)]
    switches = [call.switches for call in others]
    mock.inject(ep)
    assert entries(first.result()) == 1
    assert [call.asleep().switches for call in others] == switches
    mock.inject(ep, count=2)
    assert [entries(call.result()) for call in others] == [1, 1]


def test_wake_wins_over_a_signal(mock: Mock, in_thread: InThread) -> None:
    """W5, V4, B56: hook D1: signal and event before it sleeps: the result, and no EINTR."""
    wait_set = mock.wait_set()
    ep = mock.endpoint(cq=mock.cq(wait_set=wait_set))
    arg = raw.sample("WAIT", wait=wait_set._handle, deadline=_uapi.KFAB_DEADLINE_NONE)
    ident: list[int] = []

    def wait() -> int:
        ident.append(threading.get_ident())
        return raw.call(mock.device.fileno(), "WAIT", arg)

    with handler(signal.SIGUSR1, lambda: None, restart=False):
        hook = mock.hook("D1", wait_set)
        call = in_thread(wait)
        hook.stopped()
        mock.inject(ep)
        signal.pthread_kill(ident[0], signal.SIGUSR1)
        hook.go()
        assert call.result() == 0


def test_last_living_member_that_leaves_ends_the_waits(mock: Mock, in_thread: InThread) -> None:
    """O5, W7: what is left are lost devices, all read: nobody sleeps on them."""
    wait_set = mock.wait_set()
    with mock.fabric.domain(mock.info) as doomed, doomed.cq(8, wait_set=wait_set) as lost:
        living = mock.cq(wait_set=wait_set)
        mock.command("lose", doomed.trace_id)
        assert lost.readerr() is not None
        call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
        living.close()
        with pytest.raises(kp.DeviceLost):
            call.result()
        with pytest.raises(kp.DeviceLost):
            wait_set.wait(timeout=LIMIT)


def test_lost_set_is_ready_until_it_is_read(mock: Mock) -> None:
    """O5, V6: what a lost device has left comes first, and only then that it is lost."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    mock.inject(mock.endpoint(cq=cq))
    mock.command("lose", mock.domain.trace_id)
    wait_set.wait(timeout=LIMIT)
    assert len(cq.read(1)) == 1
    wait_set.wait(timeout=0)
    assert cq.readerr() is not None
    for timeout in (0, LIMIT):
        with pytest.raises(kp.DeviceLost):
            wait_set.wait(timeout=timeout)


def test_completion_of_two_members_wakes_one(mock: Mock, in_thread: InThread) -> None:
    """Q8, W3, B22: CQ and counter in one exclusive set: one publication, one thread."""
    wait_set = mock.wait_set()
    wait_set.exclusive = True
    cntr = mock.counter(wait_set=wait_set)
    ep = mock.endpoint(cq=mock.cq(wait_set=wait_set), cntr=cntr)
    first, other = [in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep() for _ in range(2)]
    switches = other.switches
    mock.inject(ep)
    first.result()
    assert other.asleep().switches == switches
    cntr.set(0)
    other.result()


def test_every_target_has_stored_before_the_first_wake(mock: Mock, in_thread: InThread) -> None:
    """Q8, V1: hook D3 of the first target: the other one has it, too."""
    cq, cntr = mock.cq(), mock.counter()
    ep = mock.endpoint(cq=cq, cntr=cntr)
    hook = mock.hook("D3", cq)
    publisher = in_thread(lambda: mock.inject(ep))
    hook.stopped()
    found = entries(cq.read()), cntr.read()
    hook.go()
    publisher.result()
    assert found == (1, 1)


def test_one_overrun_ends_every_wait(mock: Mock, in_thread: InThread) -> None:
    """V7, Q2: hook D4: the eighth entry wakes one, the ninth finds no room and wakes the others."""
    cq = mock.cq(8, threshold=True)
    ep = mock.endpoint(cq=cq)
    calls = [in_thread(lambda: cq.sread(8, threshold=8, timeout=LIMIT)).asleep() for _ in range(5)]
    hook = mock.hook("D4", cq)
    mock.inject(ep, count=8)
    hook.stopped()
    mock.inject(ep)
    hook.go()
    got = 0
    for call in calls:
        try:
            got += entries(call.result())
        except kp.Overrun:
            continue
    assert got == 8


def test_nothing_is_stored_behind_an_overrun(mock: Mock) -> None:
    """Q2: room or not, what comes later is not stored, and the queue stays overrun."""
    cq = mock.cq(8)
    ep = mock.endpoint(cq=cq)
    mock.inject(ep, count=9)
    assert len(cq.read(3)) == 3
    mock.inject(ep, count=2)
    assert len(cq.read(64)) == 5
    for _ in range(2):
        with pytest.raises(kp.Overrun):
            cq.read(64)
        mock.inject(ep)


@pytest.mark.wrong_wakeups("late", reason="a fault point makes it")
def test_wake_goes_on_to_who_needs_less(mock: Mock, in_thread: InThread) -> None:
    """V4, Q3, Q4: hook D4: woken for two, finds one: a reader who needs one gets it.

    The first has been woken for entry 1 and stands there. Entry 2 makes two, for
    which the second is woken; meanwhile the first takes its one.
    """
    cq = mock.cq(threshold=True)
    ep = mock.endpoint(cq=cq)
    needs = {"first": 1, "second": 2, "third": 1}
    hook = mock.hook("D4", cq)
    calls = {
        name: in_thread(
            lambda need=need: cq.sread(need, threshold=need, timeout=LIMIT)  # type: ignore[misc]
        ).asleep()
        for name, need in needs.items()
    }
    mock.inject(ep)
    hook.stopped()
    mock.command("fault", "late", cq.trace_id, HELD_BACK)
    mock.inject(ep)
    hook.go()
    assert entries(calls["first"].result()) == 1
    assert entries(calls["third"].result()) == 1
    calls["second"].asleep()
    mock.inject(ep, count=2)
    assert entries(calls["second"].result()) == 2


def test_read_with_a_threshold_takes_enough_or_nothing(mock: Mock, in_thread: InThread) -> None:
    """Q4, V5: hook D7: another reader takes one between the look and the take of two.

    The other reader stands at the hook with an entry that it has not removed. So the reader with
    the threshold sees two, does not sleep, and waits for the readers' mutex.
    """
    cq = mock.cq(threshold=True)
    ep = mock.endpoint(cq=cq)
    mock.inject(ep, count=2)
    hook = mock.hook("D7", cq)
    other = in_thread(lambda: cq.read(1))
    hook.stopped()
    call = in_thread(lambda: cq.sread(8, threshold=2, timeout=LIMIT))
    call.asleep("^kfd_cq_take")
    hook.go()
    assert entries(other.result()) == 1
    call.asleep()
    mock.inject(ep)
    assert entries(call.result()) == 2


@dataclass(frozen=True)
class Shared:
    """An object on which two processes block that share the open file.

    Attributes:
        of: the object.
        fields: of the raw call.
        read: the same call by the library.
        publish: makes what both wait for, once.
    """

    of: kp.CompletionQueue | kp.EventQueue | kp.CompChannel
    fields: dict[str, int]
    read: Callable[[], object]
    publish: Callable[[], None]

    @classmethod
    def open(cls, mock: Mock, name: str, room: _uapi.kfab_cq_entry) -> Shared:
        """Open what the ioctl of that name reads."""
        if name == "EQ_SREAD":
            eq = mock.eq()
            fields = {"eq": eq._live_handle()}
            return cls(eq, fields, lambda: eq.sread(timeout=LIMIT), lambda: eq.write(data=497))
        told = Told.new(mock)
        if name == "GET_CQ_EVENT":
            told.cq.req_notify()
            fields = {"channel": told.channel._live_handle()}
            return cls(told.channel, fields, partial(_acked, told.channel), told.inject)
        fields = {"cq": told.cq._live_handle(), "count": 1, "entries": ctypes.addressof(room)}
        return cls(told.cq, fields, lambda: told.cq.sread(1, timeout=LIMIT), told.inject)


def _acked(channel: kp.CompChannel) -> kp.CqEvent | None:
    return channel.get_cq_event(timeout=LIMIT, ack=True)


@pytest.mark.parametrize("name", ["CQ_SREAD", "EQ_SREAD", "GET_CQ_EVENT"])
def test_killed_reader_leaves_its_entry_to_the_next(
    mock: Mock, in_thread: InThread, in_child: Callable[..., Child], name: str
) -> None:
    """V4, V6, O4: hook D4: woken, then killed before it takes: another reader gets the entry."""
    room = _uapi.kfab_cq_entry()
    shared, fd = Shared.open(mock, name, room), mock.device.fileno()
    arg = raw.sample(name, deadline=_uapi.KFAB_DEADLINE_NONE, **shared.fields)
    child = in_child(lambda report: raw.call(fd, name, arg))
    sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
    call = in_thread(shared.read).asleep()
    hook = mock.hook("D4", shared.of)
    shared.publish()
    hook.stopped()
    child.kill(signal.SIGKILL)
    hook.go()
    assert child.wait() == -signal.SIGKILL
    assert call.result()


@pytest.mark.wrong_wakeups("spurious", reason="a fault point makes it")
def test_wakes_for_nothing_do_not_prolong_a_read(mock: Mock, in_thread: InThread) -> None:
    """V5, B16, B23: woken again and again, and still it ends at its one deadline."""
    cq = mock.cq()
    call = in_thread(lambda: cq.sread(1, timeout=0.3)).asleep()
    limit = Deadline(PATIENCE)
    while not call.done:
        assert not limit.expired, "each wake-up made the read begin anew"
        mock.command("fault", "spurious", cq.trace_id)
    assert call.result() == []


def test_peek_passes_the_wake_on(mock: Mock, in_thread: InThread) -> None:
    """V4, Q3, Q7: who only peeks leaves the event to the next sleeper, who is told."""
    eq = mock.eq()
    calls = [in_thread(lambda: eq.sread(timeout=LIMIT, peek=True)).asleep() for _ in range(3)]
    eq.write(data=497)
    for call in calls:
        event = call.result()
        assert isinstance(event, kp.EqEvent) and event.data == 497
    assert eq.read() is not None


def test_queue_is_unready_when_its_last_event_was_taken_back(mock: Mock) -> None:
    """W1, V8: an endpoint that closes takes its unread events along, and the readiness."""
    wait_set = mock.wait_set()
    eq = mock.eq(wait_set=wait_set)
    ep = mock.endpoint(eq=eq)
    mock.command("event", ep.trace_id, int(kp.Event.CONNECTED))
    assert is_ready(wait_set)
    ep.close()
    assert eq.read() is None
    assert not is_ready(wait_set)


def test_value_that_was_reached_counts_after_it_was_set_back(
    mock: Mock, in_thread: InThread
) -> None:
    """Q6, V4: hook D4: woken by the value; set back before it looks again: 0."""
    cntr = mock.counter()
    hook = mock.hook("D4", cntr)
    call = in_thread(lambda: cntr.wait(1, timeout=LIMIT)).asleep()
    cntr.add(1)
    hook.stopped()
    cntr.set(0)
    hook.go()
    call.result()


def test_owed_and_changed_again_is_one_report(mock: Mock) -> None:
    """X2, P2: a report that could not be copied out, and a new change: once in one call."""
    counters = [mock.counter() for _ in range(2)]
    endpoints = [mock.endpoint(cntr=cntr) for cntr in counters]
    poll_set = mock.poll_set()
    for cntr, ep in zip(counters, endpoints, strict=True):
        poll_set.add(cntr)
        mock.inject(ep)
    arg = raw.sample("POLL", poll=poll_set._handle, count=8, entries=1 << 46)
    assert raw.call(mock.device.fileno(), "POLL", arg) == -errno.EFAULT
    mock.inject(endpoints[1])
    got = poll_set.poll(8)
    assert sorted(map(id, got)) == sorted(map(id, counters))
    assert poll_set.poll(8) == []
