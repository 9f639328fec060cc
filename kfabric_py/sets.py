# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Wait sets and poll sets: waiting for many queues and counters.

A wait on a wait set sleeps until a member is ready, and does not report which one. A
poll set never sleeps and reports which members are ready.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kfabric_py import _uapi
from kfabric_py._call import deadline_after
from kfabric_py._waitable import Waitable, new_descriptor
from kfabric_py.counters import Counter
from kfabric_py.enums import WaitObj
from kfabric_py.errors import KfiError, TooSmall
from kfabric_py.handle import KernelObject, OpenedObject
from kfabric_py.profile import Profiled
from kfabric_py.queues import CompletionQueue, EventQueue

if TYPE_CHECKING:
    from kfabric_py.domain import Domain
    from kfabric_py.fabric import Fabric


@dataclass(frozen=True, slots=True)
class PollFds:
    """The descriptors of a wait set's members at one moment.

    Attributes:
        change_index: changes when a member is added or removed, and only then.
        fds: one descriptor for each member, for ``POLLIN``. The wait set owns
            them.
    """

    change_index: int
    fds: tuple[int, ...]


class WaitSet(Waitable, Profiled):
    """A set of objects; a wait sleeps until one of them is ready.

    An object becomes a member by being opened with ``wait_set=``, until it is closed.
    A CQ or EQ is ready while it holds an entry or an error, a counter while it
    has changed since it was last read.
    """

    def __init__(self, fabric: Fabric, *, wait_obj: WaitObj, context: object) -> None:
        """Use :meth:`Fabric.wait_set`."""
        self._pollfds: PollFds | None = None
        self._member_fds: dict[int, int] = {}
        arg = _uapi.kfab_wait_open(fabric=fabric._live_handle(), wait_obj=wait_obj)
        super().__init__(fabric, fabric._client, _uapi.KFAB_IOC_WAIT_OPEN, arg, context)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until a member is ready; consumes nothing.

        Args:
            timeout: seconds; ``None`` for no limit, 0 for one check.

        Raises:
            KfiTimeout: the deadline passed and nothing was ready then.
            DeviceLost: the devices of all members are gone, and nothing is left to read.
        """
        arg = _uapi.kfab_wait(wait=self._live_handle(), deadline=deadline_after(timeout))
        self._client(_uapi.KFAB_IOC_WAIT, arg)

    @property
    def exclusive(self) -> bool:
        """Whether each event wakes one sleeper only instead of all; ``False`` by default.

        In an exclusive set, a thread whose :meth:`wait` has returned has to read a
        member or wait again. If it does neither, the others sleep until the next event.
        Such a set has no descriptors. Setting this while a thread sleeps in the set
        raises :class:`Busy`.
        """
        return bool(self._flag(_uapi.KFAB_GETFIDFLAG) & _uapi.KFAB_WAIT_EXCLUSIVE)

    @exclusive.setter
    def exclusive(self, exclusive: bool) -> None:
        self._flag(_uapi.KFAB_SETFIDFLAG, _uapi.KFAB_WAIT_EXCLUSIVE if exclusive else 0)

    def _flag(self, command: int, value: int = 0) -> int:
        arg = _uapi.kfab_control(handle=self._live_handle(), command=command, value=value)
        self._client(_uapi.KFAB_IOC_CONTROL, arg)
        return arg.value

    def pollfds(self) -> PollFds:
        """Return one descriptor for each member of a set of ``WaitObj.POLLFD``.

        A member keeps its descriptor from call to call. The descriptor of a closed member
        is closed by the next call, not before: until then it shows ``POLLHUP``, and its
        number is not reused. So only the thread that polls the descriptors should call
        this. A new member does not wake that thread; it does wake a thread in
        :meth:`wait` once it is ready.

        Raises:
            KfiError: EINVAL: a set of another kind, or an exclusive one.
        """
        with self._close_lock:
            index, _ = self._members(0)
            # Members may be added and removed while their descriptors are being made.
            while self._pollfds is None or self._pollfds.change_index != index:
                index, handles = self._all_members()
                with contextlib.suppress(_MemberGone):
                    self._pollfds = PollFds(index, self._descriptors(handles))
            return self._pollfds

    def _members(self, room: int) -> tuple[int, list[int]]:
        """Return the change index and the members' handles, if they fit."""
        handles = (ctypes.c_uint32 * room)()
        arg = _uapi.kfab_pollfd(
            wait=self._live_handle(), count=room, handles=ctypes.addressof(handles)
        )
        self._client(_uapi.KFAB_IOC_POLLFD, arg)
        return arg.out_change_index, handles[: arg.count]

    def _all_members(self) -> tuple[int, list[int]]:
        room = len(self._member_fds) + 8
        while True:
            try:
                return self._members(room)
            except TooSmall:
                room *= 2

    def _descriptors(self, handles: list[int]) -> tuple[int, ...]:
        """Open missing descriptors, close those of removed members."""
        for handle in self._member_fds.keys() - set(handles):
            os.close(self._member_fds.pop(handle))
        for handle in handles:
            if handle not in self._member_fds:
                self._member_fds[handle] = self._member_descriptor(handle)
        return tuple(self._member_fds[handle] for handle in handles)

    def _member_descriptor(self, handle: int) -> int:
        try:
            return new_descriptor(self._client, handle)
        except KfiError as error:
            if error.errno == errno.EBADF:
                raise _MemberGone from None
            raise

    def _close_self(self) -> None:
        super()._close_self()
        while self._member_fds:
            os.close(self._member_fds.popitem()[1])


class _MemberGone(Exception):
    """A member was closed between the listing and the request for its descriptor."""


class PollSet(OpenedObject, Profiled):
    """A set of objects; a poll reports which are ready. An object may be in many.

    Closing removes the members first; the kernel closes only empty sets.
    """

    def __init__(self, domain: Domain, *, context: object) -> None:
        """Use :meth:`Domain.poll_set`."""
        self._members: dict[int, KernelObject] = {}
        arg = _uapi.kfab_poll_open(domain=domain._live_handle())
        super().__init__(domain, domain._client, _uapi.KFAB_IOC_POLL_OPEN, arg, context)

    def add(self, member: CompletionQueue | EventQueue | Counter) -> None:
        """Make an object a member; if it is ready, the next poll reports it.

        Raises:
            KfiError: EALREADY: it is a member. EINVAL: it belongs to another domain
                or fabric, or is of a class that cannot be a member. ENOSPC: it is a
                member of as many poll sets as it may be.
        """
        self._change(_uapi.KFAB_IOC_POLL_ADD, member)
        self._members[member._handle] = member

    def remove(self, member: CompletionQueue | EventQueue | Counter) -> None:
        """Remove a member; no poll that begins later reports it.

        Raises:
            KfiError: EINVAL: it is not a member.
        """
        self._change(_uapi.KFAB_IOC_POLL_DEL, member)
        del self._members[member._handle]

    def _change(self, request: int, member: KernelObject) -> None:
        arg = _uapi.kfab_poll_member(poll=self._live_handle(), handle=member._live_handle())
        self._client(request, arg)

    def _uses(self) -> tuple[KernelObject, ...]:
        return tuple(self._members.values())

    def _close_self(self) -> None:
        while self._members:
            handle, member = self._members.popitem()
            try:
                self._change(_uapi.KFAB_IOC_POLL_DEL, member)
            except KfiError:
                self._members[handle] = member
                raise
        super()._close_self()

    def poll(self, count: int | None = None) -> list[object]:
        """Return the contexts of members that are ready; never sleeps.

        Args:
            count: most members to report, 1 or more; ``None`` for all. The next calls
                report the others, in turn.

        Returns:
            The context of each member as given when it was opened, or the
            member itself if none was given.

        Raises:
            KfiError: EINVAL: the count is not positive.
        """
        if count is None:
            count = min(max(len(self._members), 1), _uapi.KFAB_POLL_MAX)
        return [member.context for member in self._ready(count)]

    def _ready(self, count: int) -> list[KernelObject]:
        """Report members that are ready, as :meth:`poll`."""
        entries = (_uapi.kfab_poll_entry * min(max(count, 0), _uapi.KFAB_POLL_MAX))()
        arg = _uapi.kfab_poll(
            poll=self._live_handle(), count=count, entries=ctypes.addressof(entries)
        )
        got = self._client(_uapi.KFAB_IOC_POLL, arg)
        # A member may be removed and closed by another thread in between.
        found = (self._client.cookies.get(entry.context) for entry in entries[:got])
        return [member for member in found if member is not None]

    def __iter__(self) -> Iterator[object]:
        """Yield the contexts of the members that are ready now, each queue once.

        Each is reported when it is asked for: a loop that ends early leaves the changes
        of the other counters. A counter that changes again meanwhile comes again.
        """
        queues: set[KernelObject] = set()
        while members := self._ready(1):
            member = members[0]
            # A queue that stays ready comes again after all others that are ready.
            if member in queues:
                return
            if not isinstance(member, Counter):
                queues.add(member)
            yield member.context

    def __len__(self) -> int:
        """Return the number of members."""
        return len(self._members)

    def __contains__(self, member: object) -> bool:
        """Return whether this object is a member."""
        return any(member is other for other in self._members.values())
