# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""asyncio: reading queues, waiting for counters and wait sets, with ``await``.

::

    cq = domain.cq(64, wait_obj=WaitObj.FD)
    with aio.wrap(cq) as completions:
        async for entry in completions:
            ...

A wrapped object must have descriptors: opened with ``WaitObj.FD``, or a member of
a set of ``WaitObj.POLLFD``. The wrapper has a descriptor of its own, so that a close
of the object wakes the waiting coroutines. The wrapper belongs to one event loop at
a time. Use and close it in that loop's thread; any thread may use and close the
object itself.

An iteration reads each entry when it is asked for: a loop that ends early leaves the
others in the object.

Any number of coroutines may wait for one object. An event wakes one
coroutine that waits to read a queue, and all that wait for a counter or a wait set.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar, overload

from kfabric_py._waitable import Waitable
from kfabric_py.channel import CompChannel, CqEvent
from kfabric_py.counters import Counter
from kfabric_py.errors import ClosedError, KfabricErrno, KfiTimeout, error_for
from kfabric_py.profile import Profile, ProfileEvent
from kfabric_py.queues import CompletionQueue, CqEntry, CqError, EqError, EqEvent, EventQueue
from kfabric_py.sets import WaitSet

W = TypeVar("W", bound=Waitable)
T = TypeVar("T")


class Awaited(Generic[W]):
    """An object that coroutines wait for; the base of the classes below.

    Attributes:
        object: what was wrapped.
    """

    #: Whether an event wakes every coroutine, and not only one that reads it.
    _wakes_all = False

    def __init__(self, obj: W) -> None:
        """Use :func:`wrap`."""
        self.object = obj
        self._fd = obj.descriptor()
        # A waiting coroutine keeps the wrapper alive, so no loop watches it here.
        self._closer = weakref.finalize(self, os.close, self._fd)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._armed = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def fileno(self) -> int:
        """Return the wrapper's descriptor.

        Raises:
            ClosedError: the wrapper is closed.
        """
        self._check_open()
        return self._fd

    def close(self) -> None:
        """Close the wrapper, not the object; waiting coroutines get :class:`ClosedError`."""
        self._disarm()
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._closer()

    def __enter__(self) -> Self:
        """Return the wrapper itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the wrapper."""
        self.close()

    def _check_open(self) -> None:
        if not self._closer.alive:
            raise ClosedError(errno.EBADF, f"{type(self).__name__} is closed")

    async def _until(self, look: Callable[[], T | None]) -> T:
        """Return the result of ``look`` once it is not ``None``.

        ``look`` is called at first and after each event. If the object had hung up
        before a look that finds nothing, no later look can find anything.
        """
        loop = asyncio.get_running_loop()
        self._bind(loop)
        hung_up = False
        while True:
            self._check_open()
            found = look()
            if found is not None:
                return found
            if hung_up:
                raise error_for(errno.ENODEV, type(self.object).__name__)
            await self._event(loop)
            hung_up = self._hung_up()

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting and self._loop is not loop:
            raise RuntimeError(f"{self.object!r} is awaited in another event loop")
        self._loop = loop

    async def _event(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until the descriptor was seen readable, or the wrapper is closed."""
        self._bind(loop)
        self._arm()
        future = loop.create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            self._leave(future)

    def _leave(self, future: asyncio.Future[None]) -> None:
        """End a wait, also a cancelled one; pass its wake-up on to the next coroutine."""
        self._waiting.remove(future)
        if not self._waiting:
            self._disarm()
        elif self._closer.alive:
            self._arm()

    def _arm(self) -> None:
        if not self._armed and self._loop is not None:
            self._loop.add_reader(self._fd, self._wake_waiters)
            self._armed = True

    def _disarm(self) -> None:
        if self._armed and self._loop is not None:
            self._loop.remove_reader(self._fd)
            self._armed = False

    def _wake_waiters(self) -> None:
        """Wake the coroutines; watch the descriptor again after they have looked.

        The descriptor stays readable until then, and the loop would call this again
        and wake every coroutine in turn.
        """
        self._disarm()
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
                if not self._wakes_all:
                    break

    def _hung_up(self) -> bool:
        """Return whether the object is closed or its device gone."""
        if not self._closer.alive:
            return False
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return any(events & select.POLLHUP for _, events in poll.poll(0))


class AsyncCompletionQueue(Awaited[CompletionQueue]):
    """A completion queue to await. ``async for`` yields its completions, without end."""

    async def read(self, count: int = 16, *, source: bool = False) -> list[CqEntry]:
        """Read completions, waiting for the first.

        Args:
            count: most entries to read, 1 or more.
            source: also fill ``src_addr``.

        Returns:
            The oldest completions, at least one.

        Raises:
            ErrorAvailable: an error entry comes first.
            Overrun: the queue has overflowed, and everything before that was read.
            DeviceLost: the device is gone and every entry was read.
            ClosedError: the queue or the wrapper is closed.
        """
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        return await self._until(lambda: self.object.read(count, source=source) or None)

    def readerr(self) -> CqError | None:
        """Read the error entry at the head, if there is one."""
        return self.object.readerr()

    async def __aiter__(self) -> AsyncIterator[CqEntry]:
        """Yield completions as they come."""
        while True:
            yield (await self.read(1))[0]


class AsyncEventQueue(Awaited[EventQueue]):
    """An event queue to await. ``async for`` yields its events, without end."""

    async def read(self) -> EqEvent:
        """Read the oldest event, waiting for one.

        Raises:
            ErrorAvailable: an error entry comes first.
            ClosedError: the queue or the wrapper is closed.
        """
        return await self._until(self.object.read)

    def readerr(self) -> EqError | None:
        """Read the error entry at the head, if there is one."""
        return self.object.readerr()

    async def __aiter__(self) -> AsyncIterator[EqEvent]:
        """Yield events as they come."""
        while True:
            yield await self.read()


class AsyncCounter(Awaited[Counter]):
    """A counter to await."""

    _wakes_all = True

    def __init__(self, obj: Counter) -> None:
        """Use :func:`wrap`."""
        super().__init__(obj)
        obj._listen(self)

    def counter_was_read(self) -> None:
        """Make the waiting coroutines look: a count that was read leaves nothing readable."""
        loop = self._loop
        if loop is None:
            return
        try:
            here = asyncio.get_running_loop() is loop
        except RuntimeError:
            here = False
        if here:
            self._wake_waiters()
            return
        # A loop that is closed has no waiting coroutines.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._wake_waiters)

    async def wait(self, threshold: int) -> int:
        """Wait until completions have brought the counter to a value.

        It reads both counts after each change, so a wait set sees them as read. Any
        thread may read them as well. The program's own :meth:`Counter.add` and
        :meth:`Counter.set` are not changes and end no ``await``; they end a
        :meth:`Counter.wait` in a thread.

        Args:
            threshold: the number of successes to wait for, 64 bits.

        Returns:
            The number of successes, at least the threshold.

        Raises:
            ErrorAvailable: the number of errors changed during the wait.
            DeviceLost: the device is gone.
            ClosedError: the counter or the wrapper is closed.
        """
        before: int | None = None

        def look() -> int | None:
            nonlocal before
            value, errors = self.object.read(), self.object.readerr()
            if value >= threshold:
                return value
            if before is not None and errors != before:
                raise error_for(KfabricErrno.KFI_EAVAIL, type(self.object).__name__)
            before = errors
            return None

        return await self._until(look)


class AsyncWaitSet(Awaited[WaitSet]):
    """A wait set to await."""

    _wakes_all = True

    async def wait(self) -> None:
        """Wait until a member is ready; consumes nothing.

        Raises:
            DeviceLost: the devices of all members are gone, and nothing is left to read.
            ClosedError: the wait set or the wrapper is closed.
        """

        def look() -> bool | None:
            try:
                self.object.wait(timeout=0)
            except KfiTimeout:
                return None
            return True

        await self._until(look)

    def _hung_up(self) -> bool:
        # The look itself reports that, and a new member may have changed it since.
        return False


class AsyncCompChannel(Awaited[CompChannel]):
    """A completion channel to await. ``async for`` yields its events, without end."""

    async def get_cq_event(self, *, ack: bool = False, notify: bool = False) -> CqEvent:
        """Wait for the next event; the arguments are those of the channel's own call.

        Raises:
            DeviceLost: the devices of all its queues are gone, no event is left.
            ClosedError: the channel or the wrapper is closed.
        """
        return await self._until(
            lambda: self.object.get_cq_event(timeout=0, ack=ack, notify=notify)
        )

    async def __aiter__(self) -> AsyncIterator[CqEvent]:
        """Yield events as they come; each has to be acknowledged."""
        while True:
            yield await self.get_cq_event()

    def _hung_up(self) -> bool:
        # The look itself reports that, and a new queue may have changed it since.
        return False


class AsyncProfile(Awaited[Profile]):
    """A profile to await. ``async for`` yields its events, without end.

    These are the events that :meth:`Profile.keep` selected.
    """

    async def read(self, count: int = 16) -> list[ProfileEvent]:
        """Read events that were kept, waiting for the first.

        Args:
            count: most entries to read, 1 or more.

        Raises:
            ClosedError: the profile or the wrapper is closed.
        """
        return await self._until(lambda: self.object.read(count) or None)

    async def __aiter__(self) -> AsyncIterator[ProfileEvent]:
        """Yield events as they come."""
        while True:
            yield (await self.read(1))[0]


@overload
def wrap(obj: CompletionQueue) -> AsyncCompletionQueue: ...
@overload
def wrap(obj: CompChannel) -> AsyncCompChannel: ...
@overload
def wrap(obj: EventQueue) -> AsyncEventQueue: ...
@overload
def wrap(obj: Counter) -> AsyncCounter: ...
@overload
def wrap(obj: WaitSet) -> AsyncWaitSet: ...
@overload
def wrap(obj: Profile) -> AsyncProfile: ...


def wrap(
    obj: CompletionQueue | EventQueue | Counter | WaitSet | CompChannel | Profile,
) -> (
    AsyncCompletionQueue
    | AsyncEventQueue
    | AsyncCounter
    | AsyncWaitSet
    | AsyncCompChannel
    | AsyncProfile
):
    """Return the asynchronous wrapper of an object that has descriptors.

    Raises:
        KfiError: EINVAL: it has none, see :meth:`WaitSet.descriptor`.
        TypeError: an object of a class without a wrapper.
    """
    match obj:
        case CompletionQueue():
            return AsyncCompletionQueue(obj)
        case CompChannel():
            return AsyncCompChannel(obj)
        case EventQueue():
            return AsyncEventQueue(obj)
        case Counter():
            return AsyncCounter(obj)
        case WaitSet():
            return AsyncWaitSet(obj)
        case Profile():
            return AsyncProfile(obj)
    raise TypeError(f"cannot await {obj!r}")


__all__ = [
    "AsyncCompChannel",
    "AsyncCompletionQueue",
    "AsyncCounter",
    "AsyncEventQueue",
    "AsyncProfile",
    "AsyncWaitSet",
    "wrap",
]
