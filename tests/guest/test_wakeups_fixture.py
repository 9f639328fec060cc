# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The fixture ``wakeups``: healthy blocks pass, and each fault fails with its story."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guest_support import LIMIT, Call, Child, Mock

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest import sleeping
from kfabric.guest.waiting import Deadline, wait_until
from kfabric.guest.wakeups import Block
from kfabric.recording.records import Context, FClass

InThread = Callable[[Callable[[], Any]], Call[Any]]
Wakeups = Callable[..., Block]

# Seconds: long enough for the fault to happen first, and no longer.
SHORT = 2
LATE_MS = 900


def read_one(cq: kp.CompletionQueue, timeout: float = LIMIT) -> Callable[[], Any]:
    """A blocking read of one entry."""
    return lambda: cq.sread(1, timeout=timeout)


def failure(check: Callable[[], object]) -> str:
    """The text of the AssertionError that a check raises."""
    with pytest.raises(AssertionError) as caught:
        check()
    return str(caught.value)


def test_healthy_block_passes_every_assertion(
    wakeups: Wakeups, mock: Mock, in_thread: InThread
) -> None:
    """Each wait is ended by its own event, in time, alone."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    with wakeups() as rec:
        for context in ("process", "softirq", "workqueue"):
            call = in_thread(read_one(cq)).asleep()
            mock.inject(ep, context=context)
            assert len(call.result()) == 1
    rec.assert_each_wait_ended_by(cq)
    rec.woken_once()
    rec.no_lost()
    rec.no_spurious()
    rec.no_late()
    rec.no_herd()
    rec.verified()
    assert rec.verdict.matched == 3
    assert 0 < rec.latency(p=50) <= rec.latency(p=99)
    assert rec.ledger.queues[cq.trace_id].fclass == FClass.CQ


def test_what_happens_outside_the_block_is_not_in_it(
    wakeups: Wakeups, mock: Mock, in_thread: InThread
) -> None:
    """A wait from before the block ends in it, and one goes on behind it."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    early = in_thread(read_one(cq)).asleep()
    with wakeups() as rec:
        mock.inject(ep)
        early.result()
        late = in_thread(read_one(cq)).asleep()
    mock.inject(ep)
    late.result()
    rec.verified()
    queue = rec.ledger.queues[cq.trace_id]
    assert [wait.finished for wait in queue.waits] == [True, False]
    assert len(queue.signals) == 1


def test_stop_at_a_hook_is_no_sleep_of_the_wait(
    wakeups: Wakeups, mock: Mock, in_thread: InThread
) -> None:
    """Hook D7: the reader has found its entry; its stop there is ended by a timer.

    The timer ends each of its short sleeps at the hook; an entry that comes meanwhile must
    not seem to be what the reader slept for.
    """
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    mock.inject(ep)
    hook = mock.hook("D7", cq)
    with wakeups() as rec:
        call = in_thread(read_one(cq))
        hook.stopped()
        switches = sleeping.read_state(call.tid).switches
        # Too short to be seen in the middle of one.
        wait_until(
            lambda: sleeping.read_state(call.tid).switches > switches,
            "a short sleep at the hook",
            Deadline(LIMIT),
        )
        mock.inject(ep)
        hook.go()
        assert len(call.result()) == 1
    (wait,) = rec.ledger.queues[cq.trace_id].waits
    assert not wait.slept and not wait.record.foreign
    rec.verified()


def test_publisher_that_is_held_at_a_hook_is_not_judged(
    wakeups: Wakeups, mock: Mock, in_thread: InThread
) -> None:
    """Hook D3: the entry is stored, and announced only after the reader's deadline."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    hook = mock.hook("D3", cq)
    with wakeups() as rec:
        call = in_thread(read_one(cq, SHORT)).asleep()
        publisher = in_thread(lambda: mock.inject(ep))
        hook.stopped()
        assert len(call.result()) == 1
    hook.go()
    publisher.result()
    rec.verified()
    (note,) = rec.verdict.notes
    assert note.text.endswith("(not judged: a publisher was held at hook D3)")


@pytest.mark.wrong_wakeups("lost", reason="a fault point makes it")
def test_lost_wake_up_fails_with_its_story(
    wakeups: Wakeups, mock: Mock, in_thread: InThread
) -> None:
    """Who slept where, which event came, whom it should have woken; both stacks; a trace."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    with wakeups(names={cq: "the reader's CQ"}) as rec:
        call = in_thread(read_one(cq, SHORT)).asleep()
        mock.command("fault", "lost", cq.trace_id)
        mock.inject(ep, context="softirq")
        call.result()
    text = failure(rec.no_lost)
    name = f"CQ {cq.trace_id} (the reader's CQ)"
    assert text.startswith(f"LOST: wait 1 of thread python3/{call.tid} on {name} ")
    assert f"should have been ended by publication 1 (event on {name})" in text
    assert f"thread python3/{call.tid} sleeps there" in text
    assert "in softirq context" in text
    assert f"finds 1 asleep, wakes nobody; should have woken thread python3/{call.tid}" in text
    assert f"thread python3/{call.tid} slept in:" in text and "kfi_cq_wait_take" in text
    assert "published from:" in text and "kfi_waitq_wake_locked" in text
    assert failure(rec.woken_once) and failure(lambda: rec.assert_each_wait_ended_by(cq))
    directory = Path(text.rpartition("trace: ")[2])
    assert directory.is_relative_to(os.environ["KFABRIC_OUT"])
    left = {path.name for path in directory.iterdir()}
    assert left >= {"recording.json", "recording.bin", "timeline.json", "story.txt"}


@pytest.mark.wrong_wakeups("lost", reason="a fault point makes it")
def test_lost_wake_up_of_a_sleeper_is_told_while_it_sleeps(
    wakeups: Wakeups, mock: Mock, in_thread: InThread
) -> None:
    """The wait has not ended; the story has its stack all the same."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    with wakeups() as rec:
        call = in_thread(read_one(cq)).asleep()
        mock.command("fault", "lost", cq.trace_id)
        mock.inject(ep)
    cq.signal()
    call.result()
    text = failure(rec.no_lost)
    assert "it never returned" in text and "is still in its wait" in text
    assert "slept in:" in text and "kfi_waitq_sleep" in text


@pytest.mark.wrong_wakeups("spurious", reason="a fault point makes it")
def test_spurious_wake_up_fails_with_its_story(
    wakeups: Wakeups, mock: Mock, in_thread: InThread
) -> None:
    """Nothing was published: the story tells who woke it all the same."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    with wakeups() as rec:
        call = in_thread(read_one(cq)).asleep()
        mock.command("fault", "spurious", cq.trace_id)
        call.asleep()
        mock.inject(ep)
        call.result()
    text = failure(rec.no_spurious)
    assert f"SPURIOUS: wait 1 of thread python3/{call.tid} on CQ {cq.trace_id} was woken" in text
    assert "for nothing that was published" in text
    assert "was woken from:" in text and "kfi_test_fault_arm" in text
    assert "woken 2 times" in failure(rec.woken_once)
    rec.no_lost()


@pytest.mark.wrong_wakeups("late", reason="a fault point makes it")
def test_late_wake_up_fails_with_its_story(
    wakeups: Wakeups, mock: Mock, in_thread: InThread
) -> None:
    """The story tells how late, and that a timer sent it."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    with wakeups() as rec:
        call = in_thread(read_one(cq)).asleep()
        mock.command("fault", "late", cq.trace_id, LATE_MS)
        mock.inject(ep)
        call.result()
    text = failure(rec.no_late)
    assert f"LATE: wait 1 of thread python3/{call.tid} on CQ {cq.trace_id} was woken" in text
    assert "was woken from:" in text and "kfi_test_late" in text
    rec.no_lost()
    rec.no_herd()


@pytest.mark.wrong_wakeups("herd", reason="a fault point makes it")
def test_herd_fails_with_its_story(wakeups: Wakeups, mock: Mock, in_thread: InThread) -> None:
    """One entry wakes three readers, of whom two find nothing."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    with wakeups() as rec:
        calls = [in_thread(read_one(cq)).asleep() for _ in range(3)]
        mock.command("fault", "herd", cq.trace_id)
        mock.inject(ep)
        assert sum(call.done for call in calls) <= 1
        mock.inject(ep, count=2)
        for call in calls:
            call.result()
    text = failure(rec.no_herd)
    assert f"HERD: publication 1 (event on CQ {cq.trace_id})" in text and "woke 3" in text
    for call in calls:
        assert f"thread python3/{call.tid}" in text
    rec.no_herd(max=3)


def test_set_wakes_all_and_no_more_than_told(
    wakeups: Wakeups, mock: Mock, in_thread: InThread
) -> None:
    """W3: all sleepers of an ordinary set return, which is no fault; no_herd() counts them."""
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.QUEUE)
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    with wakeups() as rec:
        calls = [in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep() for _ in range(2)]
        mock.inject(ep)
        for call in calls:
            call.result()
    rec.verified()
    rec.assert_each_wait_ended_by(cq)
    rec.no_herd(max=2)
    assert "one event woke 2 threads" in failure(rec.no_herd)


def test_wrong_object_ends_the_wait(wakeups: Wakeups, mock: Mock, in_thread: InThread) -> None:
    """A set's wait may be ended by any member, unless the test says by which."""
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.QUEUE)
    wanted, other = (mock.cq(wait_set=wait_set) for _ in range(2))
    ep = mock.endpoint(cq=other)
    with wakeups() as rec:
        call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
        mock.inject(ep)
        call.result()
    rec.assert_each_wait_ended_by(other)
    rec.assert_each_wait_ended_by(wanted, other)
    text = failure(lambda: rec.assert_each_wait_ended_by(wanted))
    assert f"should have been ended by CQ {wanted.trace_id}; CQ {other.trace_id} ended it" in text


def test_waker_in_wrong_context_fails(wakeups: Wakeups, mock: Mock, in_thread: InThread) -> None:
    """W10 lets a waker run anywhere; a test may know better."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    with wakeups(contexts={cq: [Context.PROCESS]}) as rec:
        for context in ("process", "softirq"):
            call = in_thread(read_one(cq)).asleep()
            mock.inject(ep, context=context)
            call.result()
    text = failure(rec.verified)
    assert "WAKER IN WRONG CONTEXT: publication 2" in text and "in softirq context" in text


def test_block_without_sleepers_has_no_latency(wakeups: Wakeups, mock: Mock) -> None:
    """A number that nobody measured would pass every limit."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq))
    with wakeups() as rec:
        assert len(cq.sread(1, timeout=LIMIT)) == 1
    assert "there is no latency" in failure(rec.latency)
    rec.assert_each_wait_ended_by(cq)


def test_signal_call_is_a_wake_up_too(wakeups: Wakeups, mock: Mock, in_thread: InThread) -> None:
    """Q5: what cq_signal ends is neither lost nor spurious."""
    cq = mock.cq()
    with wakeups() as rec:
        calls = [in_thread(read_one(cq)).asleep() for _ in range(2)]
        cq.signal()
        for call in calls:
            call.result()
    rec.verified()
    rec.assert_each_wait_ended_by(cq)
    rec.no_herd()


def test_module_is_let_go_of_and_watched_again(
    wakeups: Wakeups, modules: guest_modules.Modules, in_thread: InThread
) -> None:
    """O6: the probe is no user that keeps a module; the next block sees the new one."""
    modules.unload()
    modules.load()
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(kp.Device())
        info = device.getinfo(provider="mock")[0]
        fabric = stack.enter_context(device.fabric(info))
        domain = stack.enter_context(fabric.domain(info))
        mock = Mock(device, info, fabric, domain, stack.enter_context(contextlib.ExitStack()))
        cq = mock.cq()
        ep = mock.endpoint(cq=cq)
        with wakeups() as rec:
            call = in_thread(read_one(cq)).asleep()
            mock.inject(ep)
            call.result()
    rec.verified()
    rec.assert_each_wait_ended_by(cq)
    assert rec.ledger.queues[cq.trace_id].waits[0].record.kernel_wakes == 1


def test_forked_child_does_not_keep_the_module_watched(
    wakeups: Wakeups, modules: guest_modules.Modules, in_child: Callable[..., Child]
) -> None:
    """O6: the module can go while the child lives."""

    def live_on(report: Callable[[str], None]) -> int:
        report("alive")
        signal.pause()
        return 0

    child = in_child(live_on)
    assert child.report() == "alive"
    modules.unload()
    modules.load()


def test_block_in_which_the_module_goes_is_not_verified(
    wakeups: Wakeups, modules: guest_modules.Modules
) -> None:
    """The probe had to let go of it, and has not seen what came then."""
    with wakeups() as rec:
        modules.unload()
        modules.load()
    assert "NOT VERIFIED: the module was unloaded in this block" in failure(rec.verified)
