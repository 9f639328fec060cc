# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Sets that nobody waits on, sets that die, what polling costs, and what a signal leaves."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from descriptor_support import readable
from guest_support import LIMIT, PATIENCE, Call, Mock

import kfabric_py as kp
from kfabric.guest.waiting import wait_until

InThread = Callable[[Callable[[], object]], Call[object]]


def _unreclaimable() -> int:
    """Return the bytes of slab memory that cannot be given back."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("SUnreclaim:"):
            return int(line.split()[1]) * 1024
    raise LookupError("no SUnreclaim")


def _times_out(wait_set: kp.WaitSet) -> bool:
    try:
        wait_set.wait(timeout=0.01)
    except kp.KfiTimeout:
        return True
    return False


MILLION = 1 << 20


def test_million_events_that_nobody_waits_on(mock: Mock) -> None:
    """W9, B20: counted in a set with no sleeper: no memory grows; one wait is 0, the next not.

    Had each of them kept as little as a list entry, it would be above the limit.
    """
    wait_set = mock.wait_set()
    cntr = mock.counter(wait_set=wait_set)
    ep = mock.endpoint(cntr=cntr)
    poll_set = mock.poll_set()
    poll_set.add(cntr)
    before = _unreclaimable()
    mock.inject(ep, count=MILLION, entry=0)
    assert _unreclaimable() - before < MILLION * 16
    wait_set.wait(timeout=LIMIT)
    assert poll_set.poll() == [cntr]
    assert poll_set.poll() == []
    assert cntr.read() == MILLION
    assert _times_out(wait_set)
    poll_set.remove(cntr)


def test_events_that_are_read_by_polling(mock: Mock) -> None:
    """W9: a queue in a set, filled and read many times over; nobody ever waits."""
    wait_set = mock.wait_set()
    cq = mock.cq(1024, wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    before = _unreclaimable()
    rounds = 30
    for _ in range(rounds):
        mock.inject(ep, count=1024, context="softirq")
        assert len(cq.read(1024)) == 1024
    assert _unreclaimable() - before < rounds * 1024 * 128
    assert _times_out(wait_set)
    mock.inject(ep)
    wait_set.wait(timeout=LIMIT)
    assert len(cq.read()) == 1
    assert _times_out(wait_set)


def test_events_of_an_unread_queue_that_nobody_waits_on(mock: Mock) -> None:
    """W9, Q2: what comes after an overrun is counted and costs nothing; the set stays ready."""
    wait_set = mock.wait_set()
    cq = mock.cq(8, wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    before = _unreclaimable()
    mock.inject(ep, count=MILLION // 8)
    assert _unreclaimable() - before < MILLION
    wait_set.wait(timeout=LIMIT)
    assert len(cq.read()) == 8
    with pytest.raises(kp.Overrun):
        cq.read()
    wait_set.wait(timeout=LIMIT)


# Device loss.


def test_set_with_living_members_goes_on(mock: Mock, in_thread: InThread) -> None:
    """O5: one of two devices goes: its last error is read, and the wait is for the other."""
    wait_set = mock.wait_set()
    with mock.fabric.domain(mock.info) as doomed, doomed.cq(8, wait_set=wait_set) as lost:
        ep = mock.endpoint(cq=mock.cq(wait_set=wait_set))
        mock.command("lose", doomed.trace_id)
        wait_set.wait(timeout=LIMIT)
        assert lost.readerr() is not None
        assert _times_out(wait_set)
        call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
        mock.inject(ep)
        call.result()


def test_dead_set_is_drained_first(mock: Mock) -> None:
    """O5: as long as something can be read the set is ready; then ENODEV, with any timeout."""
    wait_set = mock.wait_set()
    cq, cntr = mock.cq(8, wait_set=wait_set), mock.counter(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    mock.inject(ep, count=2)
    mock.command("lose", mock.domain.trace_id)
    for read in (lambda: cq.read(1), lambda: cq.read(1), cq.readerr, cntr.readerr):
        wait_set.wait(timeout=0)
        wait_set.wait()
        read()
    for timeout in (0, 0.01, None):
        with pytest.raises(kp.DeviceLost):
            wait_set.wait(timeout=timeout)


def test_dead_set_lives_again_with_a_living_member(mock: Mock, in_thread: InThread) -> None:
    """O5, W7: what joins a dead set makes it one that can become ready; closing works."""
    wait_set = mock.wait_set()
    with mock.fabric.domain(mock.info) as doomed, doomed.counter(wait_set=wait_set) as lost:
        mock.command("lose", doomed.trace_id)
        lost.readerr()
        with pytest.raises(kp.DeviceLost):
            wait_set.wait(timeout=0)
        eq = mock.eq(wait_set=wait_set)
        call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
        eq.write()
        call.result()


def test_set_without_members_is_not_dead(mock: Mock) -> None:
    """O5: it only never becomes ready: neither at first, nor when dead members have left."""
    wait_set = mock.wait_set()
    assert _times_out(wait_set)
    with mock.fabric.domain(mock.info) as doomed:
        with doomed.cq(8, wait_set=wait_set):
            mock.command("lose", doomed.trace_id)
            wait_set.wait(timeout=LIMIT)
        assert _times_out(wait_set)


@pytest.mark.parametrize("what", ["cq", "counter", "poll set", "endpoint"])
def test_nothing_opens_on_a_lost_device(mock: Mock, what: str) -> None:
    """O5: ENODEV; what was opened before can still be closed, polled and read."""
    poll_set, cq = mock.poll_set(), mock.cq()
    poll_set.add(cq)
    mock.command("lose", mock.domain.trace_id)
    opens: dict[str, Callable[[], object]] = {
        "cq": mock.domain.cq,
        "counter": mock.domain.counter,
        "poll set": mock.domain.poll_set,
        "endpoint": lambda: mock.domain.endpoint(mock.info),
    }
    with pytest.raises(kp.DeviceLost):
        opens[what]()
    assert poll_set.poll() == [cq]
    assert cq.readerr() is not None
    assert poll_set.poll() == []
    poll_set.remove(cq)


# Poll sets.


def _looks(mock: Mock) -> int:
    """Return how many members of poll sets the kernel has looked at so far."""
    state = mock.state()
    if state["build"]["test"] != "1":
        pytest.skip("needs the modules' test-option build (KFABRIC_TEST=1)")
    return int(state["poll"]["looks"])


@pytest.mark.parametrize("members", [4, 400])
def test_polling_costs_what_is_ready(mock: Mock, members: int) -> None:
    """P6: however many members are idle: a look for each that is ready, none for the others."""
    counters = [mock.counter() for _ in range(members)]
    # Closed before them, and its memberships with it.
    poll_set = mock.poll_set()
    for cntr in counters:
        poll_set.add(cntr)
    before = _looks(mock)
    for _ in range(10):
        assert poll_set.poll() == []
    assert _looks(mock) == before
    for cntr in counters[:3]:
        cntr.adderr(1)
    assert sorted(map(id, poll_set.poll())) == sorted(map(id, counters[:3]))
    assert _looks(mock) - before == 3
    assert poll_set.poll() == []
    assert _looks(mock) - before == 3


def test_polling_a_stale_member_costs_one_look(mock: Mock) -> None:
    """P6, P7: read by somebody else meanwhile: looked at once more, dropped, not reported."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    poll_set = mock.poll_set()
    poll_set.add(cq)
    mock.inject(ep)
    cq.read()
    before = _looks(mock)
    assert [poll_set.poll() for _ in range(3)] == [[], [], []]
    assert _looks(mock) - before == 1
    poll_set.remove(cq)


def test_small_array_costs_no_more(mock: Mock) -> None:
    """P6, P2: what does not fit is not looked at."""
    queues = [mock.eq() for _ in range(8)]
    poll_set = mock.poll_set()
    for queue in queues:
        poll_set.add(queue)
        queue.write()
    before = _looks(mock)
    assert len(poll_set.poll(2)) == 2
    assert _looks(mock) - before == 2


@pytest.mark.parametrize("seed", range(3))
def test_no_report_of_what_is_not_there(mock: Mock, seed: int) -> None:
    """P7, P1, P2: with one thread, each poll reports exactly what has something to report."""
    dice = random.Random(seed)
    cqs, cntrs = [mock.cq(512) for _ in range(3)], [mock.counter() for _ in range(3)]
    eps = [mock.endpoint(cq=cq, cntr=cntr) for cq, cntr in zip(cqs, cntrs, strict=True)]
    poll_set = mock.poll_set()
    members: list[kp.CompletionQueue | kp.Counter] = [*cqs, *cntrs]
    for member in members:
        poll_set.add(member)
    changed: set[int] = set()
    filled = [0, 0, 0]

    def step(which: int) -> None:
        match dice.randrange(6):
            case 0 | 1:
                mock.inject(eps[which])
                filled[which] += 1
                changed.add(id(cntrs[which]))
            case 2:
                filled[which] -= len(cqs[which].read(dice.randrange(1, 3)))
            case 3:
                cntrs[which].read()
                cntrs[which].add(5)
            case 4:
                cntrs[which].seterr(1)
                changed.add(id(cntrs[which]))
            case _:
                wanted = {id(cq) for cq, n in zip(cqs, filled, strict=True) if n} | changed
                got = [id(member) for member in poll_set.poll()]
                assert sorted(got) == sorted(wanted)
                changed.clear()

    for _ in range(400):
        step(dice.randrange(3))
    for member in members:
        poll_set.remove(member)


# What is left of the queues.


def test_signal_hides_no_entry(mock: Mock, in_thread: InThread) -> None:
    """Q5, B18: hook D4, woken for an entry and signalled before it looks: it gets the entry."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    call = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
    hook = mock.hook("D4", cq)
    mock.inject(ep)
    hook.stopped()
    cq.signal()
    hook.go()
    assert len(call.result()) == 1  # type: ignore[arg-type]


def test_signal_before_a_sleep_is_none_of_its_business(mock: Mock, in_thread: InThread) -> None:
    """Q5, B18: nobody asleep: the next sread, and the next wait in a set, sleep."""
    cq, wait_set = mock.cq(), mock.wait_set()
    member = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    other = mock.endpoint(cq=member)
    cq.signal()
    member.signal()
    assert _times_out(wait_set)
    calls = [
        in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep(),
        in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep(),
    ]
    mock.inject(ep)
    mock.inject(other)
    for call in calls:
        call.result()


@pytest.mark.parametrize("how", ["wait set", "descriptor"])
def test_threshold_is_for_sread_alone(mock: Mock, how: str) -> None:
    """Q4: one entry, far below any threshold, makes a set ready and a descriptor readable."""
    if how == "wait set":
        wait_set = mock.wait_set()
        cq = mock.cq(threshold=True, wait_set=wait_set)
        mock.inject(mock.endpoint(cq=cq))
        wait_set.wait(timeout=0)
    else:
        cq = mock.cq(threshold=True, wait_obj=kp.WaitObj.FD)
        assert not readable(cq.fileno())
        mock.inject(mock.endpoint(cq=cq))
        assert readable(cq.fileno())
        assert cq.sread(4, timeout=0.01, threshold=4) != []


def test_signal_and_loss_wake_below_the_threshold(mock: Mock, in_thread: InThread) -> None:
    """Q4, O5: both end a read that has too little; what there is comes with it."""
    cq = mock.cq(16, threshold=True)
    ep = mock.endpoint(cq=cq)
    mock.inject(ep, count=2)
    call = in_thread(lambda: cq.sread(8, timeout=LIMIT, threshold=8)).asleep()
    cq.signal()
    assert len(call.result()) == 2  # type: ignore[arg-type]
    mock.inject(ep)
    call = in_thread(lambda: cq.sread(8, timeout=LIMIT, threshold=8)).asleep()
    mock.command("lose", mock.domain.trace_id)
    assert len(call.result()) == 1  # type: ignore[arg-type]


@pytest.mark.races
@pytest.mark.parametrize("leaves", ["cq", "cntr"])
def test_members_come_and_go_while_others_look(
    mock: Mock, in_thread: InThread, leaves: str
) -> None:
    """V8, W7, P4, O1, B42, B45: opened, made ready and closed, while threads wait and poll."""
    wait_set, poll_set = mock.wait_set(), mock.poll_set()
    keeper = mock.cq(wait_set=wait_set)
    over = threading.Event()

    def wait() -> None:
        while not over.is_set():
            wait_set.wait(timeout=LIMIT)

    def poll() -> None:
        while not over.is_set():
            poll_set.poll(4)

    threads = [in_thread(wait), in_thread(wait), in_thread(poll)]
    for number in range(60):
        context = ("process", "softirq", "workqueue")[number % 3]
        with (
            mock.domain.cq(8, wait_set=wait_set) as cq,
            mock.domain.counter(wait_set=wait_set) as cntr,
            mock.fabric.eq() as eq,
            mock.domain.endpoint(mock.info) as ep,
        ):
            ep.bind(cq, recv=True, transmit=True)
            ep.bind(cntr, recv=True)
            ep.bind(eq)
            ep.enable()
            member = cq if leaves == "cq" else cntr
            poll_set.add(member)
            mock.inject(ep, context=context)
            poll_set.remove(member)
    over.set()

    def all_done() -> bool:
        # One who was about to sleep sleeps now.
        keeper.signal()
        return all(thread.done for thread in threads)

    wait_until(all_done, "the end of the threads", PATIENCE)
    for thread in threads:
        thread.result()


def test_member_that_was_removed_is_freed_late(mock: Mock, in_thread: InThread) -> None:
    """V8, P4, B42: hook D6, unlinked and not yet freed: a poll and a report do not meet it."""
    poll_set, cq = mock.poll_set(), mock.cq()
    ep = mock.endpoint(cq=cq)
    poll_set.add(cq)
    mock.inject(ep)
    hook = mock.hook("D6", poll_set)  # type: ignore[arg-type]
    call = in_thread(lambda: poll_set.remove(cq))
    hook.stopped()
    mock.inject(ep)
    hook.go()
    call.result()
    assert poll_set.poll(4) == []


def test_woken_thread_may_close_under_the_waker(mock: Mock, in_thread: InThread) -> None:
    """V8, O1, B45: whoever returns closes what woke it, as soon as the waker lets go of it."""
    for number in range(60):
        cntr = mock.domain.counter()

        def closed(cntr: kp.Counter = cntr) -> bool:
            try:
                cntr.close()
            except kp.Busy:
                return False
            return True

        def wait_and_close(cntr: kp.Counter = cntr, done: Callable[[], bool] = closed) -> None:
            cntr.wait(1, timeout=LIMIT)
            wait_until(done, "closed", PATIENCE)

        call = in_thread(wait_and_close)
        if number % 2:
            call.asleep()
        cntr.add(1)
        call.result()
