# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Loops over objects, over a fake of the kernel: a loop that ends early loses nothing."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Callable, Iterator
from typing import Any

import pytest
from fake_kernel import FakeKernel

import kfabric_py as kp
from kfabric_py import aio

#: Entries in each object before the loops.
THERE = 5


def with_completions(kernel: FakeKernel, domain: kp.Domain) -> kp.CompletionQueue:
    """Open a completion queue with completions."""
    cq = domain.cq(wait_obj=kp.WaitObj.FD)
    for _ in range(THERE):
        kernel.complete(cq)
    return cq


def with_events(kernel: FakeKernel, domain: kp.Domain) -> kp.EventQueue:
    """Open an event queue with events."""
    assert isinstance(domain._parent, kp.Fabric)
    eq = domain._parent.eq(wait_obj=kp.WaitObj.FD)
    kernel.queues[eq._handle] += [(1000 + number, 0) for number in range(THERE)]
    kernel.make_ready(eq._handle)
    return eq


def with_notices(kernel: FakeKernel, domain: kp.Domain) -> kp.CompChannel:
    """Open a completion channel with an event of each of its queues."""
    assert isinstance(domain._parent, kp.Fabric)
    channel = domain._parent.comp_channel()
    for _ in range(THERE):
        cq = domain.cq(channel=channel)
        kernel.kept.append(cq)
        cq.req_notify()
        kernel.complete(cq)
    return channel


def with_counters(kernel: FakeKernel, domain: kp.Domain) -> kp.PollSet:
    """Open a poll set of counters that have changed."""
    poll_set = domain.poll_set()
    for _ in range(THERE):
        poll_set.add(domain.counter())
    return poll_set


def with_kept(kernel: FakeKernel, domain: kp.Domain) -> kp.Profile:
    """Open a profile that has kept events."""
    profile = domain.profile()
    kernel.queues[profile._handle] += [(0, number) for number in range(THERE)]
    kernel.make_ready(profile._handle)
    profile._names = {0: "event"}
    return profile


Source = Callable[[FakeKernel, kp.Domain], Any]

LOOPS: dict[str, tuple[Source, Callable[[Any], Iterator[object]]]] = {
    "CompletionQueue.__iter__": (with_completions, iter),
    "EventQueue.__iter__": (with_events, iter),
    "CompChannel.__iter__": (with_notices, iter),
    "PollSet.__iter__": (with_counters, iter),
    "Profile.events": (with_kept, lambda profile: profile.events(timeout=0)),
}
ASYNC_LOOPS: dict[str, Source] = {
    "AsyncCompletionQueue.__aiter__": with_completions,
    "AsyncEventQueue.__aiter__": with_events,
    "AsyncCompChannel.__aiter__": with_notices,
    "AsyncProfile.__aiter__": with_kept,
}


@pytest.mark.parametrize("name", LOOPS)
def test_loop_that_ends_early_loses_nothing(
    kernel: FakeKernel, domain: kp.Domain, name: str
) -> None:
    """V6: what was not yielded is there for the next loop."""
    make, loop = LOOPS[name]
    source = make(kernel, domain)
    for _ in loop(source):
        break
    assert len(list(loop(source))) == THERE - 1


@pytest.mark.parametrize("name", ASYNC_LOOPS)
def test_async_loop_that_ends_early_loses_nothing(
    kernel: FakeKernel, domain: kp.Domain, name: str
) -> None:
    """V6: what was not yielded is there for the next loop."""

    async def first(entries: AsyncIterable[object], count: int) -> int:
        found = 0
        async for _ in entries:
            found += 1
            if found == count:
                break
        return found

    async def main() -> None:
        source = ASYNC_LOOPS[name](kernel, domain)
        with aio.wrap(source) as awaited:
            await first(awaited, 1)
            assert await first(awaited, THERE - 1) == THERE - 1

    asyncio.run(asyncio.wait_for(main(), 10))


def test_every_loop_is_left_early_here() -> None:
    """The tests above cover all iterators of the package."""
    classes = [
        found
        for module in (kp, aio)
        for _, found in inspect.getmembers(module, inspect.isclass)
        if found.__module__.startswith("kfabric_py")
    ]
    loops = {
        f"{found.__name__}.{name}"
        for found in classes
        for name, member in vars(found).items()
        if name in ("__iter__", "__aiter__")
        or (inspect.isgeneratorfunction(member) and not name.startswith("_"))
    }
    # This one yields names of variables and reads nothing.
    assert loops - {"Profile.__iter__"} == LOOPS.keys() | ASYNC_LOOPS.keys()


def test_loop_over_a_poll_set_yields_each_queue_once(domain: kp.Domain) -> None:
    """P2: a queue that stays ready does not keep the loop going."""
    poll_set = domain.poll_set()
    members: list[kp.CompletionQueue | kp.Counter]
    members = [domain.cq(), domain.counter(), domain.cq()]
    for member in members:
        poll_set.add(member)
    assert list(poll_set) == members
    again = list(poll_set)
    assert len(again) == 2 and {*again} == {members[0], members[2]}
