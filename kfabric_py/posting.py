# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Moving data: the base classes of endpoints and of the contexts of scalable ones.

These arguments are the same for every operation:

- ``context``: any object, returned with the completion. If a selective binding suppresses
  the completion of a success, it is kept until the endpoint is closed.
- ``flags``: operation flags in place of the endpoint's; ``None`` for the endpoint's.
- ``to``: the peer, by its number in an :class:`AddressVector`; ``None`` for ``peer`` of the
  endpoint. Ignored by endpoints with a connection.
- ``source``: the same for receives: the peer to receive from; :data:`~kfabric_py.ANY` for any.
- ``data``: remote CQ data, a number for the peer's completion; ``None`` for none.

Every operation raises:

- :class:`Again`: its queue is full; read completions and retry.
- :class:`BadState`: the endpoint is not enabled.
- :class:`DeviceLost`: the device is gone.

Memory that an operation names belongs to the kernel until the completion; after an
injected operation it is free at once, and a success has no completion.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable
from typing import TypeAlias

from kfabric_py import _uapi
from kfabric_py._call import u64
from kfabric_py._pending import PendingContexts
from kfabric_py.av import AddressVector
from kfabric_py.counters import Counter
from kfabric_py.enums import AtomicKind, AtomicOp, Datatype, OpFlags
from kfabric_py.errors import KfiError, NotSupported, error_for
from kfabric_py.handle import KernelObject, OpenedObject
from kfabric_py.info import Info
from kfabric_py.memory import Local, RemoteRegion, described, iov_array, segments
from kfabric_py.queues import CompletionQueue, EventQueue

#: Any peer; for an endpoint with a connection its only one.
ANY: int = _uapi.KFAB_ADDR_UNSPEC

#: One piece of a peer's memory, or several.
Remote: TypeAlias = "RemoteRegion | Iterable[RemoteRegion]"

_Post: TypeAlias = "_uapi.kfab_msg | _uapi.kfab_tmsg | _uapi.kfab_rma"

#: The first fields of all three (struct kfab_msg), filled with one call in each post.
HEAD = struct.Struct("=4I5Q")
#: struct kfab_batch_call, filled with one call.
CALL = struct.Struct("=IiQ")


class Posting(OpenedObject):
    """An object that queues and counters are bound to, and operations are posted on.

    Attributes:
        info: the info that it was opened with.
    """

    info: Info
    _sent: PendingContexts | None = None
    _received: PendingContexts | None = None
    #: Bound objects must not be collected before this object.
    _bound: tuple[KernelObject, ...] = ()

    def _bind_to(self, to: KernelObject, flags: int) -> None:
        arg = _uapi.kfab_bind(handle=self._live_handle(), to=to._live_handle(), bind_flags=flags)
        self._client(_uapi.KFAB_IOC_BIND, arg)
        self._bound = (*self._bound, to)

    def _uses(self) -> tuple[KernelObject, ...]:
        return self._bound

    def bind(
        self,
        to: CompletionQueue | EventQueue | Counter | AddressVector,
        *,
        transmit: bool = False,
        recv: bool = False,
        selective: bool = False,
        read: bool = False,
        write: bool = False,
        remote_read: bool = False,
        remote_write: bool = False,
    ) -> None:
        """Bind a queue, counter or address vector; before :meth:`enable`.

        Args:
            to: a completion queue, an event queue, a counter, or the address
                vector that names peers.
            transmit: sends; for a completion queue all operations that transmit.
            recv: receives.
            selective: (completion queue) report only the successes of
                operations that ask for it with ``OpFlags.COMPLETION``.
            read: (counter) remote reads that this side began.
            write: (counter) remote writes that this side began.
            remote_read: (counter) reads by the peer.
            remote_write: (counter) writes by the peer.

        Raises:
            KfiError: EINVAL: bound already. KFI_EDOMAIN: an object of another domain.
        """
        flags = (
            transmit * _uapi.KFAB_TRANSMIT
            | recv * _uapi.KFAB_RECV
            | selective * _uapi.KFAB_SELECTIVE_COMPLETION
            | read * _uapi.KFAB_READ
            | write * _uapi.KFAB_WRITE
            | remote_read * _uapi.KFAB_REMOTE_READ
            | remote_write * _uapi.KFAB_REMOTE_WRITE
        )
        self._bind_to(to, flags)
        if isinstance(to, CompletionQueue):
            self._sent = to._pending if transmit else self._sent
            self._received = to._pending if recv else self._received

    def enable(self) -> None:
        """Enable posting; nothing can be bound afterwards.

        Raises:
            KfiError: KFI_ENOCQ, KFI_ENOEQ, KFI_ENOAV: no such object is bound.
                EADDRINUSE: another endpoint has the address. EMFILE: the user has
                as many endpoints at the address as it may have.
        """
        arg = _uapi.kfab_control(handle=self._live_handle(), command=_uapi.KFAB_ENABLE)
        self._client(_uapi.KFAB_IOC_CONTROL, arg)

    def getopt(self, option: int, level: int = _uapi.KFAB_OPT_ENDPOINT) -> int:
        """Return the value of an option, a number of bytes or seconds.

        Raises:
            KfiError: ENOPROTOOPT: the endpoint does not have this option.
        """
        arg = _uapi.kfab_opt(handle=self._live_handle(), level=level, optname=option)
        self._client(_uapi.KFAB_IOC_GETOPT, arg)
        value: int = arg.value
        return value

    def setopt(self, option: int, value: int, level: int = _uapi.KFAB_OPT_ENDPOINT) -> None:
        """Set an option; as for :meth:`getopt`."""
        arg = _uapi.kfab_opt(
            handle=self._live_handle(), level=level, optname=option, value=u64(value, "value")
        )
        self._client(_uapi.KFAB_IOC_SETOPT, arg)

    def cancel(self, context: object) -> None:
        """Cancel the oldest operation with this context.

        It completes with ECANCELED, or normally if it was too late.

        Args:
            context: the object that the operation was posted with.

        Raises:
            NotFound: no operation with this context is posted.
            NotSupported: the provider cannot cancel on this kind of endpoint.
        """
        arg = _uapi.kfab_cancel(ep=self._live_handle())
        for pending in (self._received, self._sent):
            if pending is not None and not arg.context:
                arg.context = pending.find(self._handle, context)
        self._client(_uapi.KFAB_IOC_CANCEL, arg)

    def _post(
        self,
        request: int,
        arg: _Post,
        local: Local,
        pending: PendingContexts | None,
        context: object,
        op_flags: int,
        *,
        to: int = ANY,
        data: int | None = None,
        flags: int = 0,
    ) -> None:
        """Fill the fields that all operations but atomics begin with, and post."""
        iov = described(local)
        peer = u64(to, "peer")
        number = 0 if data is None else u64(data, "data")
        head = (ctypes.sizeof(arg), flags, self._live_handle(), len(iov), op_flags)
        # The completion can be read before the post has returned.
        cookie = 0 if context is None else self._promise(pending, context, op_flags)
        try:
            HEAD.pack_into(arg, 0, *head, cookie, number, peer, ctypes.addressof(iov))
            self._client.filled(request, arg)
        except (KfiError, struct.error):
            self._withdraw(pending, cookie)
            raise

    def _post_many(
        self,
        request: int,
        messages: Iterable[Local],
        pending: PendingContexts | None,
        contexts: Iterable[object] | None,
        op_flags: int,
        to: int,
    ) -> int:
        """Post messages in as few calls as possible; return how many were posted."""
        pieces = [described(message) for message in messages]
        chosen = [None] * len(pieces) if contexts is None else list(contexts)
        if len(chosen) != len(pieces):
            raise ValueError(f"{len(chosen)} contexts for {len(pieces)} messages")
        posted = 0
        while posted < len(pieces):
            part = slice(posted, posted + _uapi.KFAB_BATCH_MAX)
            cookies = [self._promise(pending, context, op_flags) for context in chosen[part]]
            made, error = self._post_batch(request, pieces[part], pending, cookies, op_flags, to)
            posted += made
            if error and posted:
                break
            if error:
                raise error_for(error, _uapi.CALL_NAMES[request])
        return posted

    def _post_batch(
        self,
        request: int,
        pieces: list[ctypes.Array[_uapi.kfab_iov]],
        pending: PendingContexts | None,
        cookies: list[int],
        op_flags: int,
        to: int,
    ) -> tuple[int, int]:
        """Post messages in one call; return how many, and the error number of the next."""
        size, number = ctypes.sizeof(_uapi.kfab_msg), request & 0xFFFFFFFF
        heads = (_uapi.kfab_msg * len(pieces))()
        calls = (_uapi.kfab_batch_call * len(pieces))()
        arg = _uapi.kfab_batch(posts=ctypes.addressof(calls), post_count=len(pieces))
        try:
            handle, peer = self._live_handle(), u64(to, "peer")
            for i, (iov, cookie) in enumerate(zip(pieces, cookies, strict=True)):
                head = (size, 0, handle, len(iov), op_flags, cookie, 0, peer)
                HEAD.pack_into(heads, i * size, *head, ctypes.addressof(iov))
                CALL.pack_into(calls, i * CALL.size, number, 0, ctypes.addressof(heads) + i * size)
            self._client(_uapi.KFAB_IOC_BATCH, arg)
        finally:
            for cookie in cookies[arg.posted :]:
                self._withdraw(pending, cookie)
        return arg.posted, arg.out_post_err

    def _promise(self, pending: PendingContexts | None, context: object, op_flags: int) -> int:
        """Keep the context of an operation that is about to be posted; return its number."""
        if pending is None:
            return 0
        many = op_flags & _uapi.KFAB_MULTI_RECV != 0
        return pending.add(self._handle, context, many=many)

    def _withdraw(self, pending: PendingContexts | None, cookie: int) -> None:
        if pending is not None:
            pending.take(cookie)

    def _close_self(self) -> None:
        super()._close_self()
        for pending in (self._sent, self._received):
            if pending is not None:
                pending.abandon(self._handle)


class Receiving(Posting):
    """An object that receives messages. See the module for the common arguments."""

    @property
    def min_multi_recv(self) -> int:
        """Free bytes below which a buffer for many messages is returned."""
        return self.getopt(_uapi.KFAB_OPT_MIN_MULTI_RECV)

    @min_multi_recv.setter
    def min_multi_recv(self, value: int) -> None:
        self.setopt(_uapi.KFAB_OPT_MIN_MULTI_RECV, value)

    def _rx_flags(self, flags: OpFlags | None) -> int:
        # A plain number: combining enum flags takes longer than the rest of a post.
        return int(self.info.rx_attr.op_flags if flags is None else flags)

    def recv(
        self,
        into: Local,
        *,
        source: int = ANY,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Post memory for one message (or many, with ``OpFlags.MULTI_RECV``).

        Args:
            into: memory for the message; several pieces are filled in order.
            source: as described in the module, like ``context`` and ``flags``.
        """
        bits = self._rx_flags(flags)
        arg = _uapi.kfab_msg()
        self._post(_uapi.KFAB_IOC_RECV, arg, into, self._received, context, bits, to=source)

    def recv_many(
        self,
        into: Iterable[Local],
        *,
        source: int = ANY,
        contexts: Iterable[object] | None = None,
        flags: OpFlags | None = None,
    ) -> int:
        """Post memory for several messages in one call; as several :meth:`recv`.

        Args:
            into: memory for each message.
            source: as described in the module, like ``flags``.
            contexts: one context for each message.

        Returns:
            How many receives were posted. These are fewer than were given if one was
            refused; the call for the rest raises its error.

        Raises:
            KfiError: the first one was refused.
            ValueError: the numbers of messages and contexts differ; none was posted.
        """
        bits = self._rx_flags(flags)
        return self._post_many(_uapi.KFAB_IOC_RECV, into, self._received, contexts, bits, source)

    def multi_recv(self, into: Local, *, source: int = ANY, context: object = None) -> None:
        """Post memory for many messages, which are placed one after the other.

        The ``buf`` of each completion is its message. The last one has
        ``CqFlags.MULTI_RECV``; the memory is free then.

        Args:
            into: one piece of memory.
            source: as described in the module.
            context: the same; returned with every completion.
        """
        flags = self.info.rx_attr.op_flags | OpFlags.MULTI_RECV
        self.recv(into, source=source, context=context, flags=flags)

    def trecv(
        self,
        into: Local,
        tag: int,
        *,
        ignore: int = 0,
        source: int = ANY,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Post memory for one tagged message; otherwise as :meth:`recv`.

        Args:
            into: memory for the message.
            tag: tag of the message, 64 bits at most; a provider may have fewer.
            ignore: bits of the tag that need not match.
        """
        bits = self._rx_flags(flags)
        arg = _uapi.kfab_tmsg(tag=u64(tag, "tag"), ignore=u64(ignore, "ignore"))
        self._post(_uapi.KFAB_IOC_TRECV, arg, into, self._received, context, bits, to=source)


class Sending(Posting):
    """An object that transmits: messages, remote reads and writes, atomics.

    See the module for the common arguments.

    Attributes:
        peer: the peer of operations without ``to``.
    """

    peer: int = ANY

    def _tx_flags(self, flags: OpFlags | None, data: int | None = None) -> int:
        chosen = int(self.info.tx_attr.op_flags if flags is None else flags)
        return chosen if data is None else chosen | _uapi.KFAB_REMOTE_CQ_DATA

    def send(
        self,
        data_from: Local,
        *,
        to: int | None = None,
        data: int | None = None,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Send one message.

        Args:
            data_from: the message.
            to: as described in the module, like all that follow.
        """
        arg = _uapi.kfab_msg()
        bits = self._tx_flags(flags, data)
        peer = self.peer if to is None else to
        self._post(
            _uapi.KFAB_IOC_SEND, arg, data_from, self._sent, context, bits, to=peer, data=data
        )

    def send_many(
        self,
        messages: Iterable[Local],
        *,
        to: int | None = None,
        contexts: Iterable[object] | None = None,
        flags: OpFlags | None = None,
    ) -> int:
        """Send several messages in one call; as several :meth:`send`.

        Args:
            messages: the messages.
            to: as described in the module, like ``flags``.
            contexts: one context for each message.

        Returns:
            How many were posted. These are fewer than were given if one was refused, for
            example because the queue is full; the call for the rest raises its error.

        Raises:
            KfiError: the first one was refused.
            ValueError: the numbers of messages and contexts differ; none was posted.
        """
        bits, peer = self._tx_flags(flags), self.peer if to is None else to
        return self._post_many(_uapi.KFAB_IOC_SEND, messages, self._sent, contexts, bits, peer)

    def inject(self, data_from: Local, *, to: int | None = None, data: int | None = None) -> None:
        """Send a short message, as described in the module for injected operations.

        Args:
            data_from: the message, in one piece of at most ``tx_attr.inject_size`` bytes.
        """
        self._inject(_uapi.KFAB_IOC_SEND, _uapi.kfab_msg(), data_from, to, data)

    def tsend(
        self,
        data_from: Local,
        tag: int,
        *,
        to: int | None = None,
        data: int | None = None,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Send one tagged message; otherwise as :meth:`send`."""
        arg = _uapi.kfab_tmsg(tag=u64(tag, "tag"))
        bits = self._tx_flags(flags, data)
        peer = self.peer if to is None else to
        self._post(
            _uapi.KFAB_IOC_TSEND, arg, data_from, self._sent, context, bits, to=peer, data=data
        )

    def tinject(
        self, data_from: Local, tag: int, *, to: int | None = None, data: int | None = None
    ) -> None:
        """Send a short tagged message; otherwise as :meth:`inject`."""
        arg = _uapi.kfab_tmsg(tag=u64(tag, "tag"))
        self._inject(_uapi.KFAB_IOC_TSEND, arg, data_from, to, data)

    def _inject(
        self, request: int, arg: _Post, local: Local, to: int | None, data: int | None
    ) -> None:
        bits = 0 if data is None else _uapi.KFAB_REMOTE_CQ_DATA
        peer = self.peer if to is None else to
        flags = _uapi.KFAB_POST_INJECT
        self._post(request, arg, local, None, None, bits, to=peer, data=data, flags=flags)

    def read(
        self,
        into: Local,
        remote: Remote,
        *,
        to: int | None = None,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Read from a peer's memory.

        Args:
            into: memory for the bytes.
            remote: the peer's memory.
            to: as described in the module, like all that follow.
        """
        bits = self._tx_flags(flags)
        self._post_rma(_uapi.KFAB_IOC_READ, into, remote, context, bits, to)

    def write(
        self,
        data_from: Local,
        remote: Remote,
        *,
        to: int | None = None,
        data: int | None = None,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Write to a peer's memory. With ``data`` the peer gets a completion.

        Args:
            data_from: the bytes.
            remote: the peer's memory.
            to: as described in the module, like all that follow.
        """
        bits = self._tx_flags(flags, data)
        self._post_rma(_uapi.KFAB_IOC_WRITE, data_from, remote, context, bits, to, data)

    def inject_write(
        self,
        data_from: Local,
        remote: RemoteRegion,
        *,
        to: int | None = None,
        data: int | None = None,
    ) -> None:
        """Write a short piece to a peer's memory; otherwise as :meth:`inject`.

        Args:
            data_from: the bytes.
            remote: the peer's memory, of the same length.
        """
        arg = _uapi.kfab_rma()
        array = _remote_array(arg, remote)
        self._inject(_uapi.KFAB_IOC_WRITE, arg, data_from, to, data)
        del array

    def tread(
        self,
        into: Local,
        tag: int,
        *,
        to: int | None = None,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Read from the memory of a peer's :meth:`Endpoint.trecv`, which completes.

        Args:
            into: memory for the bytes.
            tag: tag of the peer's receive.
            to: as described in the module, like all that follow.
        """
        bits = self._tx_flags(flags) | _uapi.KFAB_TAGGED
        remote = RemoteRegion(0, sum(map(len, segments(into))), tag)
        self._post_rma(_uapi.KFAB_IOC_READ, into, remote, context, bits, to)

    def twrite(
        self,
        data_from: Local,
        tag: int,
        *,
        to: int | None = None,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Write to the memory of a peer's tagged receive; otherwise as :meth:`tread`."""
        bits = self._tx_flags(flags) | _uapi.KFAB_TAGGED
        remote = RemoteRegion(0, sum(map(len, segments(data_from))), tag)
        self._post_rma(_uapi.KFAB_IOC_WRITE, data_from, remote, context, bits, to)

    def atomic(
        self,
        operand: Local,
        remote: Remote,
        op: AtomicOp,
        *,
        datatype: Datatype = Datatype.UINT64,
        to: int | None = None,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Change elements of a peer's memory, atomically with respect to other atomics.

        Args:
            operand: the operands: whole elements, in the machine's byte order.
            remote: the elements.
            op: the operation.
            datatype: type of an element.
            to: as described in the module, like all that follow.

        Raises:
            NotSupported: no such operation on this type, see :meth:`atomic_valid`.
            KfiError: EMSGSIZE: too many elements. EINVAL: not aligned.
        """
        arg = _uapi.kfab_atomic(op_flags=self._tx_flags(flags), op=op, datatype=datatype)
        self._post_atomic(_uapi.KFAB_IOC_ATOMIC, arg, operand, remote, context, to)

    def inject_atomic(
        self,
        operand: Local,
        remote: RemoteRegion,
        op: AtomicOp,
        *,
        datatype: Datatype = Datatype.UINT64,
        to: int | None = None,
    ) -> None:
        """As :meth:`atomic`, injected as described in the module."""
        arg = _uapi.kfab_atomic(flags=_uapi.KFAB_POST_INJECT, op=op, datatype=datatype)
        self._post_atomic(_uapi.KFAB_IOC_ATOMIC, arg, operand, remote, None, to)

    def fetch_atomic(
        self,
        operand: Local,
        result: Local,
        remote: Remote,
        op: AtomicOp,
        *,
        datatype: Datatype = Datatype.UINT64,
        to: int | None = None,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """As :meth:`atomic`; also returns the previous values.

        Args:
            operand: as in :meth:`atomic`; ``()`` for ``AtomicOp.READ``.
            result: memory for the previous values.
            remote: as in :meth:`atomic`, like all that follow.
        """
        arg = _uapi.kfab_atomic(op_flags=self._tx_flags(flags), op=op, datatype=datatype)
        room = _result_array(arg, result)
        self._post_atomic(_uapi.KFAB_IOC_FETCH_ATOMIC, arg, operand, remote, context, to)
        del room

    def compare_atomic(
        self,
        operand: Local,
        compare: Local,
        result: Local,
        remote: Remote,
        op: AtomicOp = AtomicOp.CSWAP,
        *,
        datatype: Datatype = Datatype.UINT64,
        to: int | None = None,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """As :meth:`fetch_atomic`, for elements that compare as ``op`` says.

        Args:
            operand: the new values.
            compare: the values to compare with.
            result: memory for the previous values.
            remote: as in :meth:`atomic`, like all that follow.
        """
        arg = _uapi.kfab_atomic(op_flags=self._tx_flags(flags), op=op, datatype=datatype)
        room = _result_array(arg, result)
        values = iov_array(segments(compare))
        arg.compare, arg.compare_count = ctypes.addressof(values), len(values)
        self._post_atomic(_uapi.KFAB_IOC_COMPARE_ATOMIC, arg, operand, remote, context, to)
        del room, values

    def atomic_valid(
        self,
        op: AtomicOp,
        *,
        kind: AtomicKind = AtomicKind.PLAIN,
        datatype: Datatype = Datatype.UINT64,
    ) -> int:
        """Return how many elements one call may have; 0 if there is no such call.

        Args:
            op: the operation.
            kind: the kind of call.
            datatype: type of an element.
        """
        arg = _uapi.kfab_atomic_valid(ep=self._live_handle(), kind=kind, datatype=datatype, op=op)
        try:
            self._client(_uapi.KFAB_IOC_ATOMIC_VALID, arg)
        except NotSupported:
            return 0
        count: int = arg.out_count
        return count

    def _post_rma(
        self,
        request: int,
        local: Local,
        remote: Remote,
        context: object,
        op_flags: int,
        to: int | None,
        data: int | None = None,
    ) -> None:
        arg = _uapi.kfab_rma()
        array = _remote_array(arg, remote)
        peer = self.peer if to is None else to
        self._post(request, arg, local, self._sent, context, op_flags, to=peer, data=data)
        del array

    def _post_atomic(
        self,
        request: int,
        arg: _uapi.kfab_atomic,
        local: Local,
        remote: Remote,
        context: object,
        to: int | None,
    ) -> None:
        array = _remote_array(arg, remote)
        iov = described(local)
        arg.ep = self._live_handle()
        arg.iov, arg.iov_count = ctypes.addressof(iov), len(iov)
        arg.addr = u64(self.peer if to is None else to, "peer")
        arg.context = self._promise(self._sent, context, arg.op_flags)
        try:
            self._client(request, arg)
        except KfiError:
            self._withdraw(self._sent, arg.context)
            raise
        del array


def _remote_array(
    arg: _uapi.kfab_rma | _uapi.kfab_atomic, remote: Remote
) -> ctypes.Array[_uapi.kfab_rma_iov]:
    """Point the structure to the peer's pieces; the caller keeps the returned array."""
    regions = (remote,) if isinstance(remote, RemoteRegion) else tuple(remote)
    array = (_uapi.kfab_rma_iov * len(regions))(
        *(
            _uapi.kfab_rma_iov(u64(r.addr, "addr"), u64(r.length, "length"), u64(r.key, "key"))
            for r in regions
        )
    )
    arg.rma_iov = ctypes.addressof(array)
    arg.rma_iov_count = len(regions)
    return array


def _result_array(arg: _uapi.kfab_atomic, result: Local) -> ctypes.Array[_uapi.kfab_iov]:
    """Point the structure to memory for previous values; the caller keeps the array."""
    room = iov_array(segments(result))
    arg.result, arg.result_count = ctypes.addressof(room), len(room)
    return room
