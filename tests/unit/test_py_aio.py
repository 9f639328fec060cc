# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Awaiting over a fake of the kernel: who is woken, cancelled, told of an end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aio_support import settled
from fake_kernel import FakeKernel

import kfabric_py as kp
from kfabric_py import aio

T = TypeVar("T")

#: Seconds after which a test that hangs is given up.
LIMIT = 10.0


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(main, LIMIT))


async def waiting(*coroutines: Coroutine[Any, Any, T]) -> list[asyncio.Task[T]]:
    """Return tasks that have gone as far as they get without an event."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    return tasks


async def settle(kernel: FakeKernel) -> None:
    """Let everything happen that an event causes."""
    await settled(lambda: len(kernel.calls))


def reads(kernel: FakeKernel, name: str = "cq_read") -> int:
    return sum(call == name for call, _ in kernel.calls)


@pytest.fixture
def cq(domain: kp.Domain) -> kp.CompletionQueue:
    return domain.cq(wait_obj=kp.WaitObj.FD)


@pytest.fixture
def awaited(cq: kp.CompletionQueue) -> Iterator[aio.AsyncCompletionQueue]:
    with aio.wrap(cq) as awaited:
        yield awaited


def test_what_is_there_needs_no_event(
    kernel: FakeKernel, cq: kp.CompletionQueue, awaited: aio.AsyncCompletionQueue
) -> None:
    kernel.complete(cq)
    assert len(run(awaited.read())) == 1
    assert reads(kernel) == 1


def test_event_wakes_one_reader_and_costs_one_read(
    kernel: FakeKernel, cq: kp.CompletionQueue, awaited: aio.AsyncCompletionQueue
) -> None:
    """B22: the others sleep on, in the order in which they came."""

    async def main() -> None:
        tasks = await waiting(*[awaited.read() for _ in range(5)])
        before = reads(kernel)
        for number, task in enumerate(tasks, 1):
            kernel.complete(cq)
            await task
            assert reads(kernel) == before + number

    run(main())


def test_two_entries_wake_two_readers(
    kernel: FakeKernel, cq: kp.CompletionQueue, awaited: aio.AsyncCompletionQueue
) -> None:
    """V4: what the first reader leaves is told to the second."""

    async def main() -> None:
        tasks = await waiting(awaited.read(1), awaited.read(1))
        kernel.complete(cq)
        kernel.complete(cq)
        assert [len(entries) for entries in await asyncio.gather(*tasks)] == [1, 1]

    run(main())


def test_cancelled_after_it_was_woken(
    kernel: FakeKernel, cq: kp.CompletionQueue, awaited: aio.AsyncCompletionQueue
) -> None:
    """V4: woken and cancelled in one turn of the loop: the next one is woken."""

    async def main() -> None:
        first, second = await waiting(awaited.read(), awaited.read())
        kernel.complete(cq)
        awaited._wake_waiters()
        first.cancel()
        assert len(await second) == 1
        with pytest.raises(asyncio.CancelledError):
            await first

    run(main())


def test_cancelled_while_it_waits(
    kernel: FakeKernel, cq: kp.CompletionQueue, awaited: aio.AsyncCompletionQueue
) -> None:
    """V4: it leaves no trace: nobody is watched for any more, and the next await works."""

    async def main() -> None:
        (task,) = await waiting(awaited.read())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not asyncio.get_running_loop().remove_reader(awaited.fileno())
        (task,) = await waiting(awaited.read())
        kernel.complete(cq)
        assert len(await task) == 1

    run(main())


def test_somebody_else_was_faster(
    kernel: FakeKernel, cq: kp.CompletionQueue, awaited: aio.AsyncCompletionQueue
) -> None:
    """V5: woken in vain it waits on, without a turn of the loop in between."""

    async def main() -> None:
        (task,) = await waiting(awaited.read())
        kernel.complete(cq)
        awaited._wake_waiters()
        cq.read()
        before = reads(kernel)
        await settle(kernel)
        assert not task.done() and reads(kernel) == before + 1
        kernel.complete(cq)
        assert len(await task) == 1

    run(main())


def test_closing_the_wrapper_tells_everybody(awaited: aio.AsyncCompletionQueue) -> None:
    """V7: and closes its descriptor, once."""
    fd = awaited.fileno()

    async def main() -> None:
        tasks = await waiting(awaited.read(), awaited.read())
        awaited.close()
        awaited.close()
        for task in tasks:
            with pytest.raises(kp.ClosedError):
                await task

    run(main())
    assert not Path(f"/proc/self/fd/{fd}").exists()
    with pytest.raises(kp.ClosedError):
        awaited.fileno()
    with pytest.raises(kp.ClosedError):
        run(awaited.read())


def test_closing_the_object_tells_everybody(
    cq: kp.CompletionQueue, awaited: aio.AsyncCompletionQueue
) -> None:
    """V7, W8: also from another thread; the wrapper's descriptor is still there to tell."""

    async def main() -> None:
        cq.fileno()
        tasks = await waiting(awaited.read(), awaited.read())
        await asyncio.to_thread(cq.close)
        for task in tasks:
            with pytest.raises(kp.ClosedError):
                await task

    run(main())


def test_hang_up_of_an_open_object_is_device_loss(
    kernel: FakeKernel, cq: kp.CompletionQueue, awaited: aio.AsyncCompletionQueue
) -> None:
    """O5: what is left is read first; then every await says so, without spinning."""

    async def main() -> None:
        (task,) = await waiting(awaited.read())
        kernel.complete(cq)
        kernel.hang_up(cq._handle)
        assert len(await task) == 1
        for _ in range(2):
            before = reads(kernel)
            with pytest.raises(kp.DeviceLost):
                await awaited.read()
            assert reads(kernel) == before + 2

    run(main())


def test_counter_is_read_once_a_change(kernel: FakeKernel, domain: kp.Domain) -> None:
    """B19: read, so that it is readable no more; everybody looks at the value."""
    cntr = domain.counter(wait_obj=kp.WaitObj.FD)

    async def main() -> None:
        with aio.wrap(cntr) as awaited:
            low, high = await waiting(awaited.wait(2), awaited.wait(3))
            for value in (1, 2, 3):
                kernel.values[cntr._handle] = value
                kernel.make_ready(cntr._handle)
                while kernel.level(cntr._handle):
                    await asyncio.sleep(0)
                before = reads(kernel, "cntr_read")
                await settle(kernel)
                assert reads(kernel, "cntr_read") <= before + 1, "it spins"
                assert (low.done(), high.done()) == (value >= 2, value >= 3)
            assert (await low, await high) == (2, 3)

    run(main())


def test_counter_error_during_the_wait(kernel: FakeKernel, domain: kp.Domain) -> None:
    """Q6: errors of before do not count."""
    cntr = domain.counter(wait_obj=kp.WaitObj.FD)
    kernel.errors[cntr._handle] = 7

    async def main() -> None:
        with aio.wrap(cntr) as awaited:
            (task,) = await waiting(awaited.wait(2))
            kernel.values[cntr._handle] = 1
            kernel.make_ready(cntr._handle)
            await settle(kernel)
            assert not task.done()
            kernel.errors[cntr._handle] = 8
            kernel.make_ready(cntr._handle)
            with pytest.raises(kp.ErrorAvailable):
                await task

    run(main())


@pytest.mark.parametrize("who", ["await", "other wrapper", "read", "thread"])
def test_reader_of_a_counter_takes_nobodys_wake(
    kernel: FakeKernel, domain: kp.Domain, who: str
) -> None:
    """B02, V4: somebody reads the value before the one who waits for it could look."""
    cntr = domain.counter(wait_obj=kp.WaitObj.FD)

    async def main() -> None:
        with aio.wrap(cntr) as awaited, aio.wrap(cntr) as other:
            (task,) = await waiting(awaited.wait(3))
            kernel.values[cntr._handle] = 3
            kernel.make_ready(cntr._handle)
            match who:
                case "await":
                    assert await awaited.wait(3) == 3
                case "other wrapper":
                    assert await other.wait(1) == 3
                case "read":
                    cntr.read()
                case "thread":
                    await asyncio.to_thread(cntr.read)
            assert not kernel.level(cntr._handle)
            assert await task == 3

    run(main())


def test_reading_a_counter_wakes_nobody_for_what_is_known(
    kernel: FakeKernel, domain: kp.Domain
) -> None:
    """B19: those who look do not wake each other for ever."""
    cntr = domain.counter(wait_obj=kp.WaitObj.FD)

    async def main() -> None:
        with aio.wrap(cntr) as awaited:
            tasks = await waiting(*[awaited.wait(9) for _ in range(4)])
            kernel.values[cntr._handle] = 1
            kernel.make_ready(cntr._handle)
            await settle(kernel)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run(main())


def test_wait_set_wakes_all(kernel: FakeKernel, fabric: kp.Fabric) -> None:
    """W3: and consumes nothing."""
    wait_set = fabric.wait_set(wait_obj=kp.WaitObj.FD)
    kernel.waits_time_out = True

    async def main() -> None:
        with aio.wrap(wait_set) as awaited:
            tasks = await waiting(*[awaited.wait() for _ in range(3)])
            kernel.make_ready(wait_set._handle)
            await asyncio.gather(*tasks)
            await awaited.wait()

    run(main())


def test_events_are_iterated(kernel: FakeKernel, fabric: kp.Fabric) -> None:
    eq = fabric.eq(wait_obj=kp.WaitObj.FD)
    kernel.queues[eq._handle] += [(1000, 0), (1001, 0)]
    kernel.make_ready(eq._handle)

    async def main() -> list[int]:
        got: list[int] = []
        with aio.wrap(eq) as awaited:
            async for event in awaited:
                got.append(event.event)
                if len(got) == 2:
                    break
        return got

    assert run(main()) == [1000, 1001]


def test_read_of_nothing_is_refused(awaited: aio.AsyncCompletionQueue) -> None:
    """It would wait for ever, and find nothing at every turn."""
    with pytest.raises(ValueError, match="at least 1"):
        run(awaited.read(0))


def test_wrapper_serves_one_loop_after_the_other(
    kernel: FakeKernel, cq: kp.CompletionQueue, awaited: aio.AsyncCompletionQueue
) -> None:
    async def main() -> None:
        (task,) = await waiting(awaited.read())
        with pytest.raises(RuntimeError, match="another event loop"):
            await asyncio.to_thread(run, awaited.read())
        kernel.complete(cq)
        await task

    run(main())
    run(main())


def test_forgotten_wrapper_closes_its_descriptor(cq: kp.CompletionQueue) -> None:
    fd = aio.wrap(cq).fileno()
    gc.collect()
    assert not Path(f"/proc/self/fd/{fd}").exists()


def test_only_what_waits_can_be_wrapped(domain: kp.Domain) -> None:
    with pytest.raises(TypeError, match="cannot await"):
        aio.wrap(domain)  # type: ignore[call-overload]
