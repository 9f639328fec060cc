# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Completion queues and event queues.

A read that finds nothing does not raise: it returns an empty list or ``None``. A
blocking read returns the same when its deadline has passed or its queue was
signalled. An error entry at the head raises :class:`ErrorAvailable`; read it
with ``readerr()``.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kfabric_py import _uapi
from kfabric_py._call import deadline_after, u32, u64
from kfabric_py._pending import PendingContexts
from kfabric_py._waitable import Waitable, wait_choice
from kfabric_py.cm import ConnectionRequest, PassiveEndpoint
from kfabric_py.enums import CqFlags, CqFormat, Event, WaitObj
from kfabric_py.errors import Again, KfiError, error_for
from kfabric_py.handle import KernelObject
from kfabric_py.info import Info, info_from_raw
from kfabric_py.memory import Buffer, Segment
from kfabric_py.profile import Profiled
from kfabric_py.ring import ENTRY, Ring, check_machine

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from kfabric_py.channel import CompChannel
    from kfabric_py.domain import Domain
    from kfabric_py.fabric import Fabric
    from kfabric_py.sets import WaitSet


class CqEntry(NamedTuple):
    """One completed operation. Fields that the queue's format does not have are 0.

    Attributes:
        context: the context that the operation was posted with.
        flags: kind of the operation.
        len: bytes received.
        data: remote CQ data, if ``flags`` has ``REMOTE_CQ_DATA``.
        tag: tag of a tagged message.
        src_addr: the peer, from :meth:`CompletionQueue.read` with ``source``.
        buf: the message inside a buffer for many messages, else ``None``.
    """

    context: object
    flags: CqFlags
    len: int
    data: int
    tag: int
    src_addr: int
    buf: Segment | None


@dataclass(frozen=True, slots=True)
class CqError:
    """One failed operation.

    Attributes:
        context: the context that the operation was posted with.
        flags: kind of the operation.
        len: bytes that were delivered.
        olen: bytes that did not fit.
        data: remote CQ data.
        tag: tag of a tagged message.
        buf: as in :class:`CqEntry`.
        err: the error number, positive.
        prov_errno: the provider's own number for it.
        err_data: further data of the provider.
    """

    context: object
    flags: CqFlags
    len: int
    olen: int
    data: int
    tag: int
    buf: Segment | None
    err: int
    prov_errno: int
    err_data: bytes

    def exception(self) -> KfiError:
        """Return the exception for the error; the caller raises it."""
        return error_for(self.err, "operation")


@dataclass(frozen=True, slots=True)
class EqEvent:
    """One event.

    Attributes:
        event: kind of the event; a plain number for events of :meth:`EventQueue.write`.
        fid: the object that the event is about, if it is still open.
        context: that object's context; for a written event the writer's.
        data: the event's number, such as a count.
        cm_data: for a connection event the peer's private data.
        request: for ``CONNREQ`` the connection request.
    """

    event: Event | int
    fid: KernelObject | None
    context: object
    data: int = 0
    cm_data: bytes = b""
    request: ConnectionRequest | None = None


@dataclass(frozen=True, slots=True)
class EqError:
    """One failure that an event queue reports.

    Attributes:
        fid: the object that the failure is about, if it is still open.
        context: that object's context.
        data: the event's number.
        err: the error number, positive.
        prov_errno: the provider's own number for it.
        err_data: for a rejected connection the private data of the peer.
    """

    fid: KernelObject | None
    context: object
    data: int
    err: int
    prov_errno: int
    err_data: bytes

    def exception(self) -> KfiError:
        """Return the exception for the error; the caller raises it."""
        return error_for(self.err, "event")


#: Entries of a read without a count, and of the rooms that are kept for reuse.
_FEW = 16
_READ_FLAGS = _uapi.KFAB_CQ_REPORT_EMPTY

#: The fields of an entry of :meth:`CompletionQueue.read_into`, as numpy.dtype() takes them.
CQ_ENTRY_FIELDS: tuple[tuple[str, str], ...] = (
    *((name, "=u8") for name in ("context", "flags", "len", "data", "tag", "src_addr")),
    *(("buf_offset", "=u8"), ("buf", "=u4"), ("err", "=u4")),
)


class _Room:
    """The argument of a read, and the memory that it points to."""

    __slots__ = ("arg", "entries")

    def __init__(self, cq: int, count: int) -> None:
        self.entries = (_uapi.kfab_cq_entry * count)()
        self.arg = _uapi.kfab_cq_read(
            size=ctypes.sizeof(_uapi.kfab_cq_read),
            cq=cq,
            entries=ctypes.addressof(self.entries),
        )


@functools.cache
def _flags(bits: int) -> CqFlags:
    """Return the flags of a completion; cached, because making them is slow."""
    return CqFlags(bits)


class CompletionQueue(Waitable, Profiled):
    """A queue of completed operations. Iterating yields those that are there now.

    Closing a queue that has a completion channel waits until all events that were
    got of it are acknowledged, by any thread. If an exception ends a ``with``, the
    parent is closed, or the queue is forgotten, the close discards these events and
    does not wait.
    """

    #: Here, as another thread may close the object before it is opened in full.
    _ring: Ring | None = None

    def __init__(
        self,
        domain: Domain,
        *,
        size: int,
        format: CqFormat,
        wait_obj: WaitObj,
        wait_set: WaitSet | None,
        threshold: bool,
        cpu: int | None,
        channel: CompChannel | None,
        ring: bool,
        context: object,
    ) -> None:
        """Use :meth:`Domain.cq`."""
        if ring:
            check_machine()
        kind, wait_handle = wait_choice(wait_obj, wait_set)
        arg = _uapi.kfab_cq_open(
            domain=domain._live_handle(),
            format=format,
            wait_obj=kind,
            wait_set=wait_handle,
            wait_cond=_uapi.KFAB_CQ_COND_THRESHOLD if threshold else _uapi.KFAB_CQ_COND_NONE,
            signaling_vector=u32(cpu or 0, "cpu"),
            cq_flags=0 if cpu is None else _uapi.KFAB_AFFINITY,
            entries=u64(size, "size"),
        )
        self._wait_set, self._channel = wait_set, channel
        super().__init__(domain, domain._client, _uapi.KFAB_IOC_CQ_OPEN, arg, context)
        self._pending = PendingContexts(self._client)
        #: Rooms for short reads, for reuse; two reads at the same time use two.
        self._rooms: list[_Room] = []
        try:
            if ring:
                self._ring = Ring(self._client, self._handle)
            if channel is not None:
                self._join(channel)
        except BaseException:
            self.close()
            raise

    def _join(self, channel: CompChannel) -> None:
        arg = _uapi.kfab_channel_bind(cq=self._handle, channel=channel._live_handle())
        self._client(_uapi.KFAB_IOC_CHANNEL_BIND, arg)

    def _uses(self) -> tuple[KernelObject, ...]:
        return tuple(used for used in (self._wait_set, self._channel) if used is not None)

    @property
    def channel(self) -> CompChannel | None:
        """The completion channel that the queue was opened with."""
        return self._channel

    def req_notify(self, *, solicited_only: bool = False, report_missed: bool = False) -> bool:
        """Ask for one event on the queue's channel.

        The next completion makes it. Entries that are there already do not: read until
        the queue is empty after the request. A request that is not yet answered is
        replaced by a stronger one only.

        Args:
            solicited_only: only a completion that the sender marked with
                ``OpFlags.SOLICITED``, or a failed one, makes the event.
            report_missed: also report whether something can be read already.

        Returns:
            With ``report_missed``: whether something can be read that makes no event.
            Otherwise ``False``.

        Raises:
            KfiError: EINVAL: the queue has no channel. ENOBUFS: 1024 of its events
                have not been got.
        """
        kind = _uapi.KFAB_NOTIFY_SOLICITED if solicited_only else _uapi.KFAB_NOTIFY_NEXT
        arg = _uapi.kfab_req_notify(
            flags=kind | report_missed * _uapi.KFAB_NOTIFY_MISSED, cq=self._live_handle()
        )
        return bool(self._client(_uapi.KFAB_IOC_REQ_NOTIFY, arg))

    def ack_events(self, count: int = 1) -> None:
        """Acknowledge events that were got of this queue; also while it is being closed.

        Raises:
            KfiError: EINVAL: more than were got; none was acknowledged.
        """
        arg = _uapi.kfab_ack_cq_events(cq=self._live_handle(), count=u32(count, "count"))
        self._client(_uapi.KFAB_IOC_ACK_CQ_EVENTS, arg)

    def _abandon(self) -> None:
        """Have the close discard events that were got: no acknowledgement will follow."""
        self._close_flags = _uapi.KFAB_CLOSE_DISCARD_EVENTS
        if self._close_lock.acquire(blocking=False):
            self._close_lock.release()
            return
        # Another thread is closing it, and may already wait for acknowledgements.
        arg = _uapi.kfab_close(flags=_uapi.KFAB_CLOSE_DISCARD_EVENTS, handle=self._handle)
        with contextlib.suppress(KfiError):
            self._client(_uapi.KFAB_IOC_CLOSE, arg)

    def read(self, count: int = _FEW, *, source: bool = False) -> list[CqEntry]:
        """Read completions without waiting.

        Args:
            count: most entries to read; 0 only makes progress.
            source: also fill ``src_addr``.

        Returns:
            The oldest completions; fewer than ``count`` if no more were there, or an
            error comes next.

        Raises:
            ErrorAvailable: an error entry comes first.
            Overrun: the queue has overflowed, and everything before that was read.
        """
        if self._ring is not None:
            return self._read_ring(self._ring, u32(count, "count"), source)
        flags = _READ_FLAGS | _uapi.KFAB_CQ_SRC_ADDR if source else _READ_FLAGS
        return self._read(_uapi.KFAB_IOC_CQ_READ, count, flags)

    def _read_ring(self, ring: Ring, count: int, source: bool) -> list[CqEntry]:
        """Read, with a call only if nothing is there, or the kernel has long not been told."""
        pending = self._pending
        gone = pending.abandoned
        ring.begin()
        try:
            self._live_handle()
            # First, as it may raise: it finds the error that is next.
            if ring.untold > ring.entries // 2:
                self._tell(ring)
            found = ring.read(count)
            if not found:
                self._tell(ring)
                found = ring.read(count)
            entries = [self._named(source, *fields) for fields in found]
            if gone and ring.empty():
                pending.found_empty(gone)
            return entries
        except ValueError:
            # The memory of the ring is gone if another thread has closed the queue.
            self._live_handle()
            raise
        finally:
            ring.reading = False

    def _tell(self, ring: Ring) -> None:
        """Make a call, which lets the kernel see what was read, and makes progress."""
        self._read(_uapi.KFAB_IOC_CQ_READ, 0, 0)
        ring.untold = 0

    def _mark_closed(self) -> None:
        super()._mark_closed()
        if self._ring is not None:
            self._ring.close()

    def read_into(self, entries: WriteableBuffer, *, source: bool = False) -> int:
        """Read completions into memory of the caller, without waiting; makes no objects.

        Each entry has 64 bytes: eight unsigned 64-bit numbers in the machine's byte order,
        of which the last is two of 32 bits. :data:`CQ_ENTRY_FIELDS` names them.

        Args:
            entries: writable contiguous memory for as many entries as may be read: a
                ``bytearray``, a ``memoryview``, or an array of numpy, such as
                ``numpy.empty(64, list(CQ_ENTRY_FIELDS))``.
            source: also fill ``src_addr``.

        Returns:
            How many entries were written. The field ``context`` of each is 0, or a number
            for :meth:`take_context`.

        Raises:
            ErrorAvailable: an error entry comes first.
            Overrun: the queue has overflowed, and everything before that was read.
            ValueError: the memory has no room for an entry.
        """
        length = memoryview(entries).nbytes
        if length < ENTRY.size:
            raise ValueError(f"an entry has {ENTRY.size} bytes, and the memory only {length}")
        room = (ctypes.c_char * length).from_buffer(entries)
        arg = _uapi.kfab_cq_read(
            size=ctypes.sizeof(_uapi.kfab_cq_read),
            flags=_READ_FLAGS | _uapi.KFAB_CQ_SRC_ADDR if source else _READ_FLAGS,
            cq=self._live_handle(),
            count=length // ENTRY.size,
            entries=ctypes.addressof(room),
        )
        got = self._client.filled(_uapi.KFAB_IOC_CQ_READ, arg)
        return got & ~_uapi.KFAB_CQ_EMPTY

    def take_context(self, number: int, *, last: bool = True) -> object:
        """Return the context of an operation that :meth:`read_into` has read, and forget it.

        Contexts that are not taken are kept as long as the endpoint is open.

        Args:
            number: the field ``context`` of the entry.
            last: whether the entry is the last of its operation; all are, but those of a
                buffer for many messages without ``CqFlags.MULTI_RECV``.
        """
        return self._context_of(number, last=last) if number else None

    def sread(
        self,
        count: int = 1,
        *,
        timeout: float | None = None,
        threshold: int = 0,
        source: bool = False,
    ) -> list[CqEntry]:
        """Read completions, waiting for the first.

        Args:
            count: most entries to read.
            timeout: seconds; ``None`` for no limit, 0 for one check.
            threshold: entries to wait for, in a queue opened with ``threshold``. At
                the deadline fewer may be returned.
            source: also fill ``src_addr``.

        Returns:
            The oldest completions; an empty list if the deadline passed or
            :meth:`signal` was called and there are none.

        Raises:
            ErrorAvailable: an error entry comes first.
            Overrun: the queue has overflowed, and everything before that was read.
            KfiError: EINVAL: the queue has no wait object of its own, or the
                threshold is above its size.
            DeviceLost: the device is gone and every entry was read.
        """
        deadline = deadline_after(timeout)
        flags = _uapi.KFAB_CQ_SRC_ADDR if source else 0
        cond = u64(threshold, "threshold")
        return self._read(_uapi.KFAB_IOC_CQ_SREAD, count, flags, cond, deadline)

    def _read(
        self, request: int, count: int, flags: int, cond: int = 0, deadline: int = 0
    ) -> list[CqEntry]:
        """Read once."""
        handle, small = self._live_handle(), 0 <= count <= _FEW
        try:
            room = self._rooms.pop() if small else _Room(handle, u32(count, "count"))
        except IndexError:
            room = _Room(handle, _FEW)
        arg, pending = room.arg, self._pending
        arg.flags, arg.count, arg.cond, arg.deadline = flags, count, cond, deadline
        gone = pending.abandoned
        pending.readers.append(None)
        try:
            got = self._client.attempt(request, arg)
            if got is None:
                got = _uapi.KFAB_CQ_EMPTY
            number = got & ~_uapi.KFAB_CQ_EMPTY
            entries = [self._entry(room, i) for i in range(number)]
            if gone and got != number:
                pending.found_empty(gone)
        finally:
            pending.readers.pop()
            if small:
                self._rooms.append(room)
        return entries

    def _entry(self, room: _Room, number: int) -> CqEntry:
        return self._named(True, *ENTRY.unpack_from(room.entries, number * ENTRY.size))

    def _named(
        self,
        source: bool,
        cookie: int,
        bits: int,
        length: int,
        data: int,
        tag: int,
        src: int,
        offset: int,
        buf: int,
        _error: int,
    ) -> CqEntry:
        last = bits & _uapi.KFAB_MULTI_RECV != 0
        # The constructor of a named tuple takes twice as long.
        return tuple.__new__(
            CqEntry,
            (
                self._context_of(cookie, last=last) if cookie else None,
                _flags(bits),
                length,
                data,
                tag,
                src if source else 0,
                self._segment(buf, offset, length) if buf else None,
            ),
        )

    def _context_of(self, cookie: int, *, last: bool) -> object:
        """Return the context of an operation, or of a region that a peer accessed."""
        context = self._pending.take(cookie, last=last)
        if context is None:
            region = self._client.cookies.get(cookie)
            context = None if region is None else region.context
        return context

    def _segment(self, handle: int, offset: int, length: int) -> Segment | None:
        buffer = self._client.objects.get(handle)
        # A ring still names a buffer that was closed.
        if isinstance(buffer, Buffer) and not buffer.closed:
            return Segment(buffer, offset, length)
        return None

    def readerr(self, *, peek: bool = False) -> CqError | None:
        """Read the error entry at the head, without waiting.

        Args:
            peek: leave it in the queue.

        Returns:
            The entry, or ``None`` if no error comes first.

        Raises:
            Overrun: the queue has overflowed, and everything before that was read.
        """
        ring = self._ring
        if ring is None:
            return self._readerr(None, peek=peek)
        ring.begin()
        try:
            return self._readerr(ring, peek=peek)
        except ValueError:
            self._live_handle()
            raise
        finally:
            ring.reading = False

    def _readerr(self, ring: Ring | None, *, peek: bool) -> CqError | None:
        room = (ctypes.c_uint8 * _uapi.KFAB_ERR_DATA_MAX)()
        arg = _uapi.kfab_cq_readerr(
            size=ctypes.sizeof(_uapi.kfab_cq_readerr),
            cq=self._live_handle(),
            err_data_size=len(room),
            err_data=ctypes.addressof(room),
            read_flags=_uapi.KFAB_PEEK if peek else 0,
        )
        first = ring is not None and ring.at_error()
        self._pending.readers.append(None)
        try:
            got = self._client.attempt(_uapi.KFAB_IOC_CQ_READERR, arg)
            # If the kernel has none, a call that was left early has removed the first one.
            if ring is not None and (first if got is None else not peek):
                ring.passed(1)
            if got is None:
                return None
            find = self._pending.look if peek else self._pending.take
            context = find(arg.out_context)
        finally:
            self._pending.readers.pop()
        return CqError(
            context=context,
            flags=CqFlags(arg.out_flags),
            len=arg.out_len,
            olen=arg.out_olen,
            data=arg.out_data,
            tag=arg.out_tag,
            buf=self._segment(arg.out_buf, arg.out_buf_offset, arg.out_len),
            err=arg.out_err,
            prov_errno=arg.out_prov_errno,
            err_data=bytes(room[: arg.err_data_size]),
        )

    def strerror(self, error: CqError) -> str:
        """Return the provider's text for an error entry of this queue."""
        return self._strerror(error.prov_errno)

    def signal(self) -> None:
        """Wake all threads that now sleep in :meth:`sread` or in the queue's wait set."""
        self._client(_uapi.KFAB_IOC_CQ_SIGNAL, _uapi.kfab_cq_signal(cq=self._live_handle()))

    def __iter__(self) -> Iterator[CqEntry]:
        """Yield completions until none is left; waits for nothing.

        Each is read when it is asked for: a loop that ends early leaves the others in
        the queue.
        """
        while entries := self.read(1):
            yield entries[0]


class EventQueue(Waitable):
    """A queue of connection events and other control events."""

    def __init__(
        self,
        fabric: Fabric,
        *,
        size: int,
        wait_obj: WaitObj,
        wait_set: WaitSet | None,
        context: object,
    ) -> None:
        """Use :meth:`Fabric.eq`."""
        kind, wait_handle = wait_choice(wait_obj, wait_set)
        arg = _uapi.kfab_eq_open(
            fabric=fabric._live_handle(),
            wait_obj=kind,
            wait_set=wait_handle,
            entries=u64(size, "size"),
        )
        self._wait_set = wait_set
        super().__init__(fabric, fabric._client, _uapi.KFAB_IOC_EQ_OPEN, arg, context)
        self._fabric = fabric
        self._pending = PendingContexts(self._client)

    def _uses(self) -> tuple[KernelObject, ...]:
        return () if self._wait_set is None else (self._wait_set,)

    def read(self, *, peek: bool = False) -> EqEvent | None:
        """Read the oldest event without waiting.

        Args:
            peek: leave it in the queue; a connection request then has no
                ``request``.

        Returns:
            The event, or ``None`` if there is none.

        Raises:
            ErrorAvailable: an error entry comes first.
        """
        return self._read(_uapi.KFAB_IOC_EQ_READ, peek, 0)

    def sread(self, *, timeout: float | None = None, peek: bool = False) -> EqEvent | None:
        """Read the oldest event, waiting for one.

        Args:
            timeout: seconds; ``None`` for no limit, 0 for one check.
            peek: leave it in the queue.

        Returns:
            The event, or ``None`` if the deadline passed.

        Raises:
            ErrorAvailable: an error entry comes first.
            KfiError: EINVAL: the queue has no wait object of its own.
        """
        return self._read(_uapi.KFAB_IOC_EQ_SREAD, peek, deadline_after(timeout))

    def _read(self, request: int, peek: bool, deadline: int) -> EqEvent | None:
        room = (ctypes.c_uint8 * _uapi.KFAB_CM_DATA_MAX)()
        info = _uapi.kfab_info(size=ctypes.sizeof(_uapi.kfab_info))
        arg = _uapi.kfab_eq_read(
            eq=self._live_handle(),
            data_len=len(room),
            cm_data=ctypes.addressof(room),
            info=ctypes.addressof(info),
            read_flags=_uapi.KFAB_PEEK if peek else 0,
            deadline=deadline,
        )
        try:
            self._client(request, arg)
        except Again:
            return None
        return self._event(arg, info, bytes(room[: arg.data_len]), peek)

    def _event(
        self, arg: _uapi.kfab_eq_read, info: _uapi.kfab_info, cm_data: bytes, peek: bool
    ) -> EqEvent:
        known = arg.out_event in Event._value2member_map_
        request = None
        if arg.out_connreq:
            request = self._request(arg, info_from_raw(info), cm_data)
        return EqEvent(
            event=Event(arg.out_event) if known else arg.out_event,
            fid=self._client.objects.get(arg.out_handle),
            context=self._context_of(arg.out_context, peek),
            data=arg.out_data,
            cm_data=cm_data,
            request=request,
        )

    def _request(self, arg: _uapi.kfab_eq_read, info: Info, cm_data: bytes) -> ConnectionRequest:
        listener = self._client.objects.get(arg.out_handle)
        return ConnectionRequest(
            self._fabric,
            listener if isinstance(listener, PassiveEndpoint) else None,
            arg.out_connreq,
            info,
            cm_data,
        )

    def _context_of(self, cookie: int, peek: bool) -> object:
        """Return the context of the object, or of the writer of the event."""
        found = self._client.cookies.get(cookie)
        if found is not None:
            return found.context
        return self._pending.look(cookie) if peek else self._pending.take(cookie)

    def readerr(self, *, peek: bool = False) -> EqError | None:
        """Read the error entry at the head, without waiting.

        Args:
            peek: leave it in the queue.

        Returns:
            The entry, or ``None`` if no error comes first.
        """
        room = (ctypes.c_uint8 * _uapi.KFAB_ERR_DATA_MAX)()
        arg = _uapi.kfab_eq_readerr(
            eq=self._live_handle(),
            err_data_size=len(room),
            err_data=ctypes.addressof(room),
            read_flags=_uapi.KFAB_PEEK if peek else 0,
        )
        try:
            self._client(_uapi.KFAB_IOC_EQ_READERR, arg)
        except Again:
            return None
        return EqError(
            fid=self._client.objects.get(arg.out_handle),
            context=self._context_of(arg.out_context, peek),
            data=arg.out_data,
            err=arg.out_err,
            prov_errno=arg.out_prov_errno,
            err_data=bytes(room[: arg.err_data_size]),
        )

    def strerror(self, error: EqError) -> str:
        """Return the provider's text for an error entry of this queue."""
        return self._strerror(error.prov_errno)

    def write(
        self,
        event: int = Event.NOTIFY,
        *,
        fid: KernelObject | None = None,
        context: object = None,
        data: int = 0,
    ) -> None:
        """Put an event of the caller's own into the queue; it wakes like any other.

        Args:
            event: its number.
            fid: the object that it is about.
            context: returned with the event.
            data: returned with the event, 64 bits.

        Raises:
            Again: the queue is full.
        """
        arg = _uapi.kfab_eq_write(
            eq=self._live_handle(),
            event=u32(event, "event"),
            handle=0 if fid is None else fid._live_handle(),
            data=u64(data, "data"),
        )
        arg.context = self._pending.add(0, context)
        try:
            self._client(_uapi.KFAB_IOC_EQ_WRITE, arg)
        except KfiError:
            self._pending.take(arg.context)
            raise

    def __iter__(self) -> Iterator[EqEvent]:
        """Yield events until none is left; waits for nothing."""
        while event := self.read():
            yield event
