# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Wait sets: who is ready, who is woken, and what a deadline is.

::

    injected completion, event, error ── CQ ─┐
                                         EQ ─┼─ wait set ── threads in wait()
                                       cntr ─┘
"""

from __future__ import annotations

import resource
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from guest_support import LIMIT, Call, Child, Mock, Side, handler

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest import sleeping
from kfabric.guest.waiting import Deadline, wait_until

pytestmark = pytest.mark.core

InThread = Callable[[Callable[[], object]], Call[object]]
InChild = Callable[[Callable[[Callable[[str], None]], int]], Child]


@dataclass(frozen=True)
class Members:
    """A wait set with one member of each kind, and the endpoint that feeds them."""

    wait_set: kp.WaitSet
    cq: kp.CompletionQueue
    eq: kp.EventQueue
    cntr: kp.Counter
    ep: kp.Endpoint

    def drain(self) -> None:
        """Read everything, errors included."""
        for queue in (self.cq, self.eq):
            while True:
                try:
                    if not queue.read():
                        break
                except kp.ErrorAvailable:
                    queue.readerr()
        self.cntr.read()
        self.cntr.readerr()


def _members(mock: Mock) -> Members:
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.QUEUE)
    cq, eq = mock.cq(wait_set=wait_set), mock.eq(wait_set=wait_set)
    cntr = mock.counter(wait_set=wait_set)
    return Members(wait_set, cq, eq, cntr, mock.endpoint(cq=cq, eq=eq, cntr=cntr))


@pytest.fixture
def members(mock: Mock) -> Members:
    return _members(mock)


def is_ready(wait_set: kp.WaitSet) -> bool:
    """Look at the set once."""
    try:
        wait_set.wait(timeout=0)
    except kp.KfiTimeout:
        return False
    return True


#: How each member becomes ready, by itself if the provider can do that.
MAKE_READY: dict[str, Callable[[Mock, Members], None]] = {
    "completion": lambda mock, m: mock.inject(m.ep),
    "failure": lambda mock, m: mock.inject(m.ep, err=5),
    "event": lambda mock, m: m.eq.write(context="written"),
    "event error": lambda mock, m: mock.command("eqerr", m.eq.trace_id, "err=5"),
    "count": lambda mock, m: mock.inject(m.ep, entry=0),
    "count of errors": lambda mock, m: m.cntr.adderr(1),
}

#: The call that reads what was made ready, for those that touch one member only.
READ: dict[str, Callable[[Members], object]] = {
    "event": lambda m: m.eq.read(),
    "event error": lambda m: m.eq.readerr(),
    "count": lambda m: m.cntr.read(),
    "count of errors": lambda m: m.cntr.readerr(),
}


@pytest.mark.parametrize("how", MAKE_READY)
def test_ready_member_ends_wait_and_wait_consumes_nothing(
    mock: Mock, members: Members, how: str
) -> None:
    """W1: wait returns at once, again and again, until the member was read."""
    assert not is_ready(members.wait_set)
    MAKE_READY[how](mock, members)
    assert is_ready(members.wait_set)
    assert is_ready(members.wait_set)
    members.drain()
    assert not is_ready(members.wait_set)


@pytest.mark.parametrize("how", READ)
def test_reading_the_member_makes_it_unready(mock: Mock, members: Members, how: str) -> None:
    """W1: reading that one member is enough."""
    MAKE_READY[how](mock, members)
    assert READ[how](members) is not None
    assert not is_ready(members.wait_set)


def test_counter_has_a_read_mark_for_values_and_one_for_errors(
    mock: Mock, members: Members
) -> None:
    """W1: read moves only the mark of successes, readerr only that of errors."""
    mock.inject(members.ep, entry=0)
    members.cntr.adderr(1)
    assert members.cntr.read() == 1
    assert is_ready(members.wait_set), "the error was not read"
    assert members.cntr.readerr() == 1
    assert not is_ready(members.wait_set)


@pytest.mark.parametrize("signal_it", [lambda c: c.add(1), lambda c: c.set(7)], ids=["add", "set"])
def test_counter_add_and_set_end_waits_and_leave_nothing(
    mock: Mock, members: Members, in_thread: InThread, signal_it: Callable[[kp.Counter], None]
) -> None:
    """W1, V7: the user's own add and set are signals: waits in progress end, no memory."""
    call = in_thread(lambda: members.wait_set.wait(timeout=LIMIT)).asleep()
    signal_it(members.cntr)
    call.result()
    assert not is_ready(members.wait_set)


def test_poll_set_does_not_change_what_wait_sees(mock: Mock, members: Members) -> None:
    """W1, P3, B32: what a poll set has reported plays no part in a wait set."""
    poll_set = mock.poll_set()
    poll_set.add(members.cntr)
    mock.inject(members.ep, entry=0)
    assert poll_set.poll() == [members.cntr]
    assert is_ready(members.wait_set)


def test_waiting_does_not_change_what_poll_sees(mock: Mock, members: Members) -> None:
    """V6, B32: to decide whether to sleep consumes nothing."""
    poll_set = mock.poll_set()
    poll_set.add(members.cntr)
    mock.inject(members.ep, entry=0)
    members.wait_set.wait(timeout=0)
    assert poll_set.poll() == [members.cntr]


@pytest.mark.parametrize("context", ["process", "softirq", "workqueue"])
@pytest.mark.parametrize("kind", ["completion", "failure", "event", "count"])
def test_waking_from_every_context(
    mock: Mock, members: Members, in_thread: InThread, kind: str, context: str
) -> None:
    """W10, V7: members of every kind wake a sleeper from every context."""
    call = in_thread(lambda: members.wait_set.wait(timeout=LIMIT)).asleep()
    match kind:
        case "completion":
            mock.inject(members.ep, context=context)
        case "failure":
            mock.inject(members.ep, err=5, context=context)
        case "event":
            mock.command("event", members.eq.trace_id, 0, f"context={context}")
        case "count":
            mock.inject(members.ep, entry=0, context=context)
    call.result()
    assert is_ready(members.wait_set)


def test_rdma_completion_wakes(connected_pair: tuple[Side, Side], in_thread: InThread) -> None:
    """W10, W7: a message over a real RDMA link ends a wait on the other side."""
    sender, receiver = connected_pair
    receiver.ep.recv(receiver.buffer[:64], context="first")
    call = in_thread(lambda: receiver.wait_set.wait(timeout=LIMIT)).asleep()
    sender.buffer.view[:5] = b"hello"
    sender.ep.send(sender.buffer[:5])
    call.result()
    assert receiver.cntr.read() == 1
    assert bytes(receiver.buffer[:5]) == b"hello"


def test_every_sleeper_is_woken(mock: Mock, members: Members, in_thread: InThread) -> None:
    """W3: all threads asleep in the set return, whoever reads first."""

    def wait_and_read() -> None:
        members.wait_set.wait(timeout=LIMIT)
        members.cq.read()

    calls = [in_thread(wait_and_read) for _ in range(4)]
    for call in calls:
        call.asleep()
    mock.inject(members.ep)
    for call in calls:
        call.result()


def test_event_between_check_and_sleep_is_not_lost(
    mock: Mock, members: Members, in_thread: InThread
) -> None:
    """W2, V2, B07: hook D1, the last look was in vain and the sleep has not begun."""
    hook = mock.hook("D1", members.wait_set)
    call = in_thread(lambda: members.wait_set.wait(timeout=LIMIT))
    hook.stopped()
    mock.inject(members.ep)
    hook.go()
    call.result()


def test_event_between_store_and_wake_is_seen(
    mock: Mock, members: Members, in_thread: InThread
) -> None:
    """W2, V1: hook D3, stored but nobody woken yet: a waiter that comes now sees it."""
    hook = mock.hook("D3", members.cq)
    publisher = in_thread(lambda: mock.inject(members.ep))
    hook.stopped()
    assert is_ready(members.wait_set)
    members.wait_set.wait(timeout=LIMIT)
    hook.go()
    publisher.result()


def test_second_event_before_the_woken_thread_looks_is_not_lost(
    mock: Mock, members: Members, in_thread: InThread
) -> None:
    """W2, V4: hook D4, woken for one event, another comes before it has looked."""
    hook = mock.hook("D4", members.wait_set)
    call = in_thread(lambda: members.wait_set.wait(timeout=LIMIT)).asleep()
    mock.inject(members.ep)
    hook.stopped()
    mock.inject(members.ep)
    hook.go()
    call.result()
    assert len(members.cq.read()) == 2


@pytest.mark.races
def test_no_event_of_many_is_lost(mock: Mock, in_thread: InThread) -> None:
    """W2, V5: one event a round, next round when it was read; every one ends its wait.

    A read can come between the store and the wake-up. The next wait then returns
    overtaken, with nothing to read.
    """
    rounds = 497
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    read = threading.Semaphore(1)

    def produce() -> None:
        for number in range(rounds):
            assert read.acquire(timeout=LIMIT)
            mock.inject(ep, context=("process", "softirq", "workqueue")[number % 3])

    producer = in_thread(produce)
    for _ in range(rounds):
        entries: list[object] = []
        while not entries:
            wait_set.wait(timeout=LIMIT)
            entries += cq.read()
        assert len(entries) == 1
        read.release()
    producer.result()


def test_timeout_zero_does_not_sleep(members: Members) -> None:
    """W4: nothing is ready: the answer comes without giving up the CPU."""
    checks = 20
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    for _ in range(checks):
        assert not is_ready(members.wait_set)
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before < checks


@pytest.mark.parametrize("seconds", [0.001, 0.05, 0.3])
def test_timeout_is_never_early(members: Members, seconds: float) -> None:
    """W4: the error is a TimeoutError, and not before the time has passed."""
    begin = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        members.wait_set.wait(timeout=seconds)
    assert time.monotonic() - begin >= seconds
    assert isinstance(caught.value, kp.KfiTimeout)


@pytest.mark.parametrize("timeout", [None, 1e6, 1e12])
def test_long_and_unlimited_waits_end_by_the_event(
    mock: Mock, members: Members, in_thread: InThread, timeout: float | None
) -> None:
    """W4, B24: no limit, and limits that no clock will see, do not overflow."""
    call = in_thread(lambda: members.wait_set.wait(timeout=timeout)).asleep()
    mock.inject(members.ep)
    call.result()


def test_event_at_the_deadline_is_no_timeout(
    mock: Mock, members: Members, in_thread: InThread
) -> None:
    """W4, V4, B26: hook D5, the deadline has passed, then it becomes ready."""
    hook = mock.hook("D5", members.wait_set)
    call = in_thread(lambda: members.wait_set.wait(timeout=0.05))
    hook.stopped()
    mock.inject(members.ep)
    hook.go()
    call.result()


class Attempts:
    """Counts how often a device's calls entered the kernel."""

    def __init__(self, device: kp.Device) -> None:
        self.count = 0
        self._ioctl = device._client._ioctl
        device._client._ioctl = self

    def __call__(self, *arguments: object) -> int:
        self.count += 1
        return self._ioctl(*arguments)  # type: ignore[arg-type]


def _signal_sleeper(number: int) -> Callable[[], None]:
    """Return what sends a signal to this thread once it sleeps, from another thread."""
    tid, ident = threading.get_native_id(), threading.get_ident()

    def send() -> None:
        state = sleeping.wait_until_asleep(tid, deadline=LIMIT)
        signal.pthread_kill(ident, number)
        wait_until(
            lambda: sleeping.read_state(tid).switches > state.switches,
            "the signalled thread has run",
            LIMIT,
        )
        sleeping.wait_until_asleep(tid, deadline=LIMIT)

    return send


@pytest.mark.parametrize(("restart", "attempts"), [(True, 1), (False, 2)])
def test_interrupted_wait_goes_on(
    mock: Mock, members: Members, in_thread: InThread, restart: bool, attempts: int
) -> None:
    """W5, B56: with SA_RESTART the kernel goes on, without it Python does."""
    signal_me = _signal_sleeper(signal.SIGUSR1)

    def signal_then_complete() -> None:
        signal_me()
        mock.inject(members.ep)

    counted = Attempts(mock.device)
    with handler(signal.SIGUSR1, lambda: None, restart=restart):
        helper = in_thread(signal_then_complete)
        members.wait_set.wait(timeout=LIMIT)
        helper.result()
    assert counted.count == attempts


@pytest.mark.parametrize("restart", [True, False])
def test_signals_do_not_prolong_a_wait(
    members: Members, in_thread: InThread, restart: bool
) -> None:
    """W5, V5, B23: signal after signal, and still the wait ends at its one deadline.

    The signals come as long as the wait lasts. If each made it begin anew it
    would never end.
    """
    tid, ident = threading.get_native_id(), threading.get_ident()
    over = threading.Event()
    sent: list[int] = []

    def disturb() -> None:
        limit = Deadline(LIMIT)
        while not over.is_set():
            assert not limit.expired, "the wait began anew with each signal"
            wait_until(lambda: over.is_set() or sleeping.is_asleep(tid), "asleep again", limit)
            if not over.is_set():
                signal.pthread_kill(ident, signal.SIGUSR1)
                sent.append(signal.SIGUSR1)

    with handler(signal.SIGUSR1, lambda: None, restart=restart):
        helper = in_thread(disturb)
        try:
            # A busy machine may not get round to a signal in the first of them.
            while not (sent or helper.done):
                with pytest.raises(kp.KfiTimeout):
                    members.wait_set.wait(timeout=0.5)
        finally:
            over.set()
        helper.result()
    assert sent


def test_raising_handler_ends_the_wait(members: Members, in_thread: InThread) -> None:
    """W5: Ctrl-C in a wait without limit."""

    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    tid, ident = threading.get_native_id(), threading.get_ident()

    def send() -> None:
        sleeping.wait_until_asleep(tid, deadline=LIMIT)
        signal.pthread_kill(ident, signal.SIGUSR1)

    with handler(signal.SIGUSR1, stop, restart=False):
        helper = in_thread(send)
        with pytest.raises(Stop):
            members.wait_set.wait()
        helper.result()


def test_stopped_wait_goes_on(mock: Mock, in_child: InChild) -> None:
    """W5: a stop and a continue neither end a wait nor make it begin anew."""
    child = in_child(lambda report: _wait_as_client(report, kp.WaitObj.QUEUE))
    ep = child.report()
    asleep = sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
    child.kill(signal.SIGSTOP)
    wait_until(lambda: sleeping.read_state(child.pid).state == "T", "stopped", LIMIT)
    child.kill(signal.SIGCONT)
    again = sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
    assert again.switches > asleep.switches
    mock.command("inject", ep, "recv")
    assert child.wait() == 1, "number of times that the call entered the kernel"


def test_killed_sleeper_is_gone_at_once(modules: guest_modules.Modules, in_child: InChild) -> None:
    """W5, O4: SIGKILL frees a thread in a wait without limit, and all that it had."""
    before = guest_modules.references("kfabric_dev")
    child = in_child(lambda report: _wait_as_client(report, kp.WaitObj.QUEUE))
    assert child.report()
    sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
    assert guest_modules.references("kfabric_dev") > before
    child.kill(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    guest_modules.wait_for_references("kfabric_dev", before, LIMIT)


def _wait_as_client(report: Callable[[str], None], wait_obj: kp.WaitObj) -> int:
    """Wait as a client of one's own; report the endpoint to complete on."""
    with kp.Device() as device:
        counted = Attempts(device)
        info = device.getinfo(provider="mock")[0]
        with (
            device.fabric(info) as fabric,
            fabric.domain(info) as domain,
            fabric.wait_set(wait_obj=wait_obj) as wait_set,
            domain.cq(wait_set=wait_set) as cq,
            fabric.eq() as eq,
            domain.endpoint(info) as ep,
        ):
            ep.bind(cq, recv=True, transmit=True)
            ep.bind(eq)
            ep.enable()
            counted.count = 0
            report(str(ep.trace_id))
            wait_set.wait()
            return counted.count


@pytest.mark.parametrize("kind", ["cq", "eq", "cntr"])
def test_member_refuses_blocking_calls_of_its_own(members: Members, kind: str) -> None:
    """W7, B37: who joined a set waits with the set."""
    calls: dict[str, Callable[[], object]] = {
        "cq": lambda: members.cq.sread(timeout=0),
        "eq": lambda: members.eq.sread(timeout=0),
        "cntr": lambda: members.cntr.wait(0, timeout=0),
    }
    with pytest.raises(kp.KfiError, match="EINVAL"):
        calls[kind]()


def test_member_that_joins_wakes_sleepers(
    mock: Mock, members: Members, in_thread: InThread
) -> None:
    """W7, B03: opened while a thread sleeps in the set, ready afterwards."""
    call = in_thread(lambda: members.wait_set.wait(timeout=LIMIT)).asleep()
    cq = mock.cq(wait_set=members.wait_set)
    ep = mock.endpoint(cq=cq)
    mock.inject(ep)
    call.result()
    assert len(cq.read()) == 1


def test_member_that_leaves_takes_its_readiness_along(mock: Mock, members: Members) -> None:
    """W7, W1: a ready member is closed: the set is not ready any more."""
    eq = mock.eq(wait_set=members.wait_set)
    eq.write()
    assert is_ready(members.wait_set)
    eq.close()
    assert not is_ready(members.wait_set)


def test_member_leaves_while_a_thread_sleeps(
    mock: Mock, members: Members, in_thread: InThread
) -> None:
    """W7: closing a member neither fails nor ends the wait; the others still wake."""
    extra = [mock.cq(wait_set=members.wait_set) for _ in range(3)]
    call = in_thread(lambda: members.wait_set.wait(timeout=LIMIT)).asleep()
    for cq in extra:
        cq.close()
    call.asleep()
    mock.inject(members.ep)
    call.result()


def test_set_with_members_or_sleepers_does_not_close(
    mock: Mock, members: Members, in_thread: InThread
) -> None:
    """O1, V8, B41: EBUSY, and everything works as before."""
    with pytest.raises(kp.Busy):
        members.wait_set.close()
    empty = mock.wait_set()
    call = in_thread(lambda: empty.wait(timeout=LIMIT)).asleep()
    with pytest.raises(kp.Busy):
        empty.close()
    cq = mock.cq(wait_set=empty)
    mock.inject(mock.endpoint(cq=cq))
    call.result()


def test_wait_set_tells_its_wait_object(mock: Mock) -> None:
    """W8: GETWAITOBJ names the kind that was asked for."""
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.QUEUE)
    assert wait_set.wait_obj() is kp.WaitObj.QUEUE
    assert mock.cq(wait_set=wait_set).wait_obj() is kp.WaitObj.SET
