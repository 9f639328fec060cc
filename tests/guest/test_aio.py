# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""asyncio and selectors on queues, counters and wait sets."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aio_support import settled
from descriptor_support import CLASSES, readable
from guest_support import LIMIT, Call, Mock
from verbs_support import Net

import kfabric_py as kp
from kfabric_py import aio

T = TypeVar("T")
InThread = Callable[[Callable[[], object]], Call[object]]
FD = kp.WaitObj.FD


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, which must come to an end."""
    return asyncio.run(asyncio.wait_for(main, LIMIT))


async def waiting(*coroutines: Coroutine[Any, Any, T]) -> list[asyncio.Task[T]]:
    """Return tasks that have gone as far as they get without an event."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    return tasks


class CountedCalls:
    """Counts a device's calls into the kernel."""

    def __init__(self, device: kp.Device) -> None:
        self.count = 0
        self._ioctl = device._client._ioctl
        device._client._ioctl = self

    def __call__(self, *arguments: Any) -> int:
        self.count += 1
        return self._ioctl(*arguments)


@pytest.fixture
def wrapped() -> Iterator[contextlib.ExitStack]:
    """Closes the wrappers of a test before its objects."""
    with contextlib.ExitStack() as stack:
        yield stack


async def _await(obj: Any) -> object:
    """Wait for an object of any class."""
    match obj:
        case aio.AsyncCounter():
            return await obj.wait(1)
        case aio.AsyncWaitSet():
            await obj.wait()
            return None
        case queue:
            return await queue.read()


@pytest.mark.parametrize("name", CLASSES)
def test_await_returns_what_is_there(mock: Mock, wrapped: contextlib.ExitStack, name: str) -> None:
    """T3, W1: what is ready is found without an event."""
    ready = CLASSES[name](mock, FD)
    awaited = wrapped.enter_context(aio.wrap(ready.obj))
    ready.make()
    run(_await(awaited))


@pytest.mark.parametrize("name", CLASSES)
def test_event_ends_an_await(
    mock: Mock, wrapped: contextlib.ExitStack, in_thread: InThread, name: str
) -> None:
    """T3, W2: from another thread, while the loop sleeps."""
    ready = CLASSES[name](mock, FD)
    awaited = wrapped.enter_context(aio.wrap(ready.obj))

    async def main() -> None:
        (task,) = await waiting(_await(awaited))
        in_thread(ready.make)
        await task

    for _ in range(3):
        run(main())
        ready.drain()
        if isinstance(ready.obj, kp.Counter):
            ready.obj.set(0)


@pytest.mark.races
def test_every_completion_comes_out_of_one_of_many_readers(
    mock: Mock, wrapped: contextlib.ExitStack, in_thread: InThread
) -> None:
    """T3, Q3: eight coroutines, 300 completions: each has one reader, none is left over."""
    total = 300
    cq = mock.cq(1024, wait_obj=FD)
    ep = mock.endpoint(cq=cq)
    awaited = wrapped.enter_context(aio.wrap(cq))
    seen: list[int] = []
    read = threading.Semaphore(8)

    async def reader() -> None:
        while True:
            for entry in await awaited.read(1):
                seen.append(entry.data)
                read.release()

    def produce() -> None:
        for number in range(total):
            assert read.acquire(timeout=LIMIT)
            mock.inject(ep, data=number)

    async def main() -> None:
        tasks = [asyncio.ensure_future(reader()) for _ in range(8)]
        await asyncio.to_thread(produce)
        while len(seen) < total:
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended)

    run(main())
    assert sorted(seen) == list(range(total))


def test_one_event_wakes_one_reader(mock: Mock, wrapped: contextlib.ExitStack) -> None:
    """T3, B22: the other readers of a queue make no call, one event after the other."""
    cq = mock.cq(wait_obj=FD)
    ep = mock.endpoint(cq=cq)
    awaited = wrapped.enter_context(aio.wrap(cq))

    async def main() -> None:
        tasks = await waiting(*[awaited.read() for _ in range(16)])
        counted = CountedCalls(mock.device)
        for number in range(1, 17):
            mock.inject(ep)
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            assert (len(done), counted.count) == (1, number)
            tasks = [task for task in tasks if task not in done]

    run(main())


@pytest.mark.parametrize("name", ["counter", "wait set"])
def test_one_event_wakes_all_whom_it_concerns(
    mock: Mock, wrapped: contextlib.ExitStack, name: str
) -> None:
    """W3, Q6: everybody who waits for a counter or a set is woken."""
    ready = CLASSES[name](mock, FD)
    awaited: Any = wrapped.enter_context(aio.wrap(ready.obj))

    async def main() -> None:
        tasks = await waiting(*[_await(awaited) for _ in range(4)])
        ready.make()
        await asyncio.gather(*tasks)

    run(main())


def test_cancelled_reader_takes_nothing(mock: Mock, wrapped: contextlib.ExitStack) -> None:
    """V4, V6: one of two readers is cancelled when the entry is there: the other gets it."""
    cq = mock.cq(wait_obj=FD)
    ep = mock.endpoint(cq=cq)
    awaited = wrapped.enter_context(aio.wrap(cq))

    async def main() -> None:
        for number in range(50):
            first, second = await waiting(awaited.read(), awaited.read())
            mock.inject(ep, data=number)
            for _ in range(number % 3):
                await asyncio.sleep(0)
            if not first.done():
                first.cancel()
                (entry,) = await second
            else:
                (entry,) = await first
                second.cancel()
            assert entry.data == number
            await asyncio.gather(first, second, return_exceptions=True)

    run(main())


def test_timeout_of_an_await(mock: Mock, wrapped: contextlib.ExitStack) -> None:
    """W4, V4: asyncio's own timeout ends the await, and the queue goes on."""
    cq = mock.cq(wait_obj=FD)
    awaited = wrapped.enter_context(aio.wrap(cq))

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await awaited.read()
        (task,) = await waiting(awaited.read())
        mock.inject(mock.endpoint(cq=cq))
        assert len(await task) == 1

    run(main())


@pytest.mark.parametrize("who", ["object", "wrapper"])
@pytest.mark.parametrize("name", CLASSES)
def test_close_ends_every_await(
    mock: Mock, wrapped: contextlib.ExitStack, name: str, who: str
) -> None:
    """V7, W8: closing the object (in another thread), or the wrapper, is an error for all."""
    ready = CLASSES[name](mock, FD)
    awaited: Any = wrapped.enter_context(aio.wrap(ready.obj))

    async def main() -> None:
        tasks = await waiting(*[_await(awaited) for _ in range(3)])
        if who == "wrapper":
            awaited.close()
        else:
            await asyncio.to_thread(mock.stack.close)
        for end in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(end, kp.ClosedError)

    run(main())


@pytest.mark.parametrize("name", ["wait set", "cq", "counter"])
def test_device_loss_ends_every_await(mock: Mock, wrapped: contextlib.ExitStack, name: str) -> None:
    """O5, W8: first the last entry, then DeviceLost, at once and without spinning."""
    ready = CLASSES[name](mock, FD)
    awaited = wrapped.enter_context(aio.wrap(ready.obj))
    cq = ready.obj

    async def main() -> None:
        (task,) = await waiting(_await(awaited))
        mock.command("lose", mock.domain.trace_id)
        if name == "wait set":
            await task
            return
        assert isinstance(cq, kp.CompletionQueue | kp.Counter)
        with pytest.raises(kp.ErrorAvailable if name == "cq" else kp.DeviceLost):
            await task
        cq.readerr()
        with pytest.raises(kp.DeviceLost):
            await _await(awaited)
        with pytest.raises(kp.DeviceLost):
            await _await(awaited)

    run(main())


def test_device_loss_of_a_member(mock: Mock, wrapped: contextlib.ExitStack) -> None:
    """O5, W7: in a POLLFD set, where blocking calls are refused, too."""
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.POLLFD)
    cq = mock.cq(wait_set=wait_set)
    awaited = wrapped.enter_context(aio.wrap(cq))

    async def main() -> None:
        (task,) = await waiting(awaited.read())
        mock.command("lose", mock.domain.trace_id)
        with pytest.raises(kp.ErrorAvailable):
            await task
        assert awaited.readerr() is not None
        with pytest.raises(kp.DeviceLost):
            await awaited.read()

    run(main())


def test_drained_lost_wait_set(mock: Mock, wrapped: contextlib.ExitStack) -> None:
    """O5: DeviceLost once all members are dead and drained; a new member revives it."""
    wait_set = mock.wait_set(wait_obj=FD)
    cq = mock.cq(wait_set=wait_set)
    awaited = wrapped.enter_context(aio.wrap(wait_set))
    mock.command("lose", mock.domain.trace_id)
    run(awaited.wait())
    cq.readerr()
    with pytest.raises(kp.DeviceLost):
        run(awaited.wait())
    eq = mock.eq(wait_set=wait_set)
    eq.write()
    run(awaited.wait())


def test_error_entry_is_an_exception(mock: Mock, wrapped: contextlib.ExitStack) -> None:
    """Q1, V7: for everybody who awaits, until one has read it."""
    cq = mock.cq(wait_obj=FD)
    ep = mock.endpoint(cq=cq)
    awaited = wrapped.enter_context(aio.wrap(cq))

    async def main() -> None:
        tasks = await waiting(awaited.read(), awaited.read())
        mock.inject(ep, err=5)
        for task in tasks:
            with pytest.raises(kp.ErrorAvailable):
                await task
        error = awaited.readerr()
        assert error is not None and error.err == 5
        (task,) = await waiting(awaited.read())
        mock.inject(ep)
        assert len(await task) == 1

    run(main())


def test_counter_below_the_threshold_costs_its_changes_only(
    mock: Mock, wrapped: contextlib.ExitStack
) -> None:
    """B19, Q6: a counter stays readable until it is read, so each change is read, once."""
    cntr = mock.counter(wait_obj=FD)
    ep = mock.endpoint(cntr=cntr)
    awaited = wrapped.enter_context(aio.wrap(cntr))

    async def main() -> None:
        (task,) = await waiting(awaited.wait(10))
        counted = CountedCalls(mock.device)
        for number in range(1, 11):
            mock.inject(ep, entry=0)
            while readable(awaited.fileno()):
                await asyncio.sleep(0)
            await settled(lambda: counted.count)
            assert task.done() == (number == 10)
        assert await task == 10
        assert counted.count <= 2 * 10

    run(main())


def test_counter_thresholds_of_many(mock: Mock, wrapped: contextlib.ExitStack) -> None:
    """Q6: each has its own threshold, and 64 bits of it."""
    cntr = mock.counter(wait_obj=FD)
    ep = mock.endpoint(cntr=cntr)
    awaited = wrapped.enter_context(aio.wrap(cntr))

    async def main() -> None:
        low, high, highest = await waiting(*[awaited.wait(n) for n in (3, 5, 2**63)])
        mock.inject(ep, count=3, entry=0)
        assert await low == 3 and not high.done()
        mock.inject(ep, count=2, entry=0)
        assert await high == 5 and not highest.done()
        cntr.set(2**63 - 1)
        mock.inject(ep, entry=0)
        assert await highest == 2**63

    run(main())


def test_counter_error_ends_the_wait(mock: Mock, wrapped: contextlib.ExitStack) -> None:
    """Q6, V7: a change of the errors during the wait, not one of before."""
    cntr = mock.counter(wait_obj=FD)
    awaited = wrapped.enter_context(aio.wrap(cntr))
    cntr.adderr(1)

    async def main() -> None:
        tasks = await waiting(awaited.wait(1), awaited.wait(2))
        cntr.adderr(1)
        for task in tasks:
            with pytest.raises(kp.ErrorAvailable):
                await task

    run(main())


def test_queue_that_iterates_forever(mock: Mock, wrapped: contextlib.ExitStack) -> None:
    """T3: async for over completions and over events."""
    cq, eq = mock.cq(wait_obj=FD), mock.eq(wait_obj=FD)
    ep = mock.endpoint(cq=cq)
    completions = wrapped.enter_context(aio.wrap(cq))
    events = wrapped.enter_context(aio.wrap(eq))

    async def main() -> None:
        for number in range(5):
            mock.inject(ep, data=number)
            eq.write(data=number)
        got: list[int] = []
        async for entry in completions:
            got.append(entry.data)
            if len(got) == 5:
                break
        async for event in events:
            got.append(event.data)
            if len(got) == 10:
                break
        assert got == [*range(5), *range(5)]

    run(main())


def test_one_loop_at_a_time(mock: Mock, wrapped: contextlib.ExitStack) -> None:
    """T3: a second loop is refused while the first waits, and served afterwards."""
    cq = mock.cq(wait_obj=FD)
    ep = mock.endpoint(cq=cq)
    awaited = wrapped.enter_context(aio.wrap(cq))

    async def main() -> None:
        (task,) = await waiting(awaited.read())
        with pytest.raises(RuntimeError, match="another event loop"):
            await asyncio.to_thread(run, awaited.read())
        mock.inject(ep)
        await task

    run(main())
    mock.inject(ep)
    assert len(run(awaited.read())) == 1


def test_forgotten_wrapper_closes_its_descriptor(mock: Mock) -> None:
    """B49: whoever forgets to close it leaks nothing."""
    cq = mock.cq(wait_obj=FD)
    fd = aio.wrap(cq).fileno()
    assert not Path(f"/proc/self/fd/{fd}").exists()


@pytest.mark.parametrize("kind", [kp.WaitObj.UNSPEC, kp.WaitObj.QUEUE, kp.WaitObj.NONE])
def test_object_without_descriptors_cannot_be_awaited(mock: Mock, kind: kp.WaitObj) -> None:
    """T4: it says so when it is wrapped."""
    with pytest.raises(kp.KfiError):
        aio.wrap(mock.cq(wait_obj=kind))
    with pytest.raises(TypeError):
        aio.wrap(mock.domain)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "selector",
    [selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector],
)
def test_objects_themselves_in_selectors(
    mock: Mock, selector: type[selectors.BaseSelector], in_thread: InThread
) -> None:
    """T3, W8: every object is registered as it is, and reported while it is ready."""
    all_of_them = [CLASSES[name](mock, FD) for name in CLASSES]
    with selector() as watching:
        for ready in all_of_them:
            watching.register(ready.obj, selectors.EVENT_READ)
        assert watching.select(0) == []
        for ready in all_of_them:
            helper = in_thread(ready.make)
            ((key, events),) = watching.select(LIMIT)
            assert (key.fileobj, events) == (ready.obj, selectors.EVENT_READ)
            ready.drain()
            helper.result()
        for ready in all_of_them:
            watching.unregister(ready.obj)


def test_messages_over_rdma(net: Net, wrapped: contextlib.ExitStack) -> None:
    """T3, W10: connection events and completions of a real RDMA link, awaited."""
    rounds = 50

    def side(what: kp.Info | kp.ConnectionRequest) -> tuple[Any, Any, kp.Endpoint, kp.Buffer]:
        domain = wrapped.enter_context(net.fabric.domain(net.info))
        cq = wrapped.enter_context(domain.cq(64, wait_obj=FD))
        eq = wrapped.enter_context(net.fabric.eq(wait_obj=FD))
        buffer = wrapped.enter_context(net.device.buffer(4096))
        ep = wrapped.enter_context(domain.endpoint(what))
        ep.bind(cq, recv=True, transmit=True)
        ep.bind(eq)
        ep.enable()
        return (
            wrapped.enter_context(aio.wrap(cq)),
            wrapped.enter_context(aio.wrap(eq)),
            ep,
            buffer,
        )

    async def play(completions: Any, ep: kp.Endpoint, buffer: kp.Buffer, begins: bool) -> int:
        received = 0
        ep.recv(buffer[:64], context="received")
        if begins:
            ep.send(buffer[64:72], context="sent")
        async for entry in completions:
            if entry.context == "received":
                received += 1
                if received == rounds and not begins:
                    ep.send(buffer[64:72], context="last")
                    continue
                if received == rounds:
                    break
                ep.recv(buffer[:64], context="received")
                ep.send(buffer[64:72], context="sent")
            elif entry.context == "last":
                break
        return received

    async def main() -> None:
        cq, eq, ep, buffer = side(net.info)
        ep.connect()
        request = await asyncio.to_thread(net.request)
        peer_cq, peer_eq, peer_ep, peer_buffer = side(request)
        peer_ep.accept()
        for events in (eq, peer_eq):
            assert (await events.read()).event is kp.Event.CONNECTED
        played = await asyncio.gather(
            play(cq, ep, buffer, True), play(peer_cq, peer_ep, peer_buffer, False)
        )
        assert list(played) == [rounds, rounds]

    run(main())
