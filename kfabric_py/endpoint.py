# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Endpoints: what connects and moves data."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kfabric_py import _uapi
from kfabric_py._call import u64
from kfabric_py._pending import PendingContexts
from kfabric_py.cm import Addressed, ConnectionRequest, bytes_arg
from kfabric_py.counters import Counter
from kfabric_py.enums import OpFlags
from kfabric_py.errors import KfiError
from kfabric_py.handle import KernelObject
from kfabric_py.info import Address, Info, info_to_raw, pack_address
from kfabric_py.memory import Local, RemoteRegion, Segment, iov_array, segments
from kfabric_py.queues import CompletionQueue, EventQueue

if TYPE_CHECKING:
    from kfabric_py.domain import Domain


class Endpoint(Addressed):
    """One end of a connection.

    Open it, bind queues and counters, :meth:`enable` it, and :meth:`connect` or
    :meth:`accept`. Receives may be posted from then on, everything else once
    the event queue has reported ``CONNECTED``.

    Every operation takes a ``context``, any object, which comes back in its
    completion. ``flags`` replaces the endpoint's own operation flags.
    """

    def __init__(
        self,
        domain: Domain,
        info: Info,
        request: ConnectionRequest | None,
        context: object,
    ) -> None:
        """Use :meth:`Domain.endpoint`."""
        raw = info_to_raw(info)
        arg = _uapi.kfab_ep_open(
            domain=domain._live_handle(),
            connreq=0 if request is None else request._live_handle(),
            info=ctypes.addressof(raw) if request is None else 0,
        )
        self.info = info
        self._bound: list[KernelObject] = []
        self._sent: PendingContexts | None = None
        self._received: PendingContexts | None = None
        super().__init__(domain, domain._client, _uapi.KFAB_IOC_EP_OPEN, arg, context)
        if request is not None:
            request._mark_closed()

    def bind(
        self,
        to: CompletionQueue | EventQueue | Counter,
        *,
        transmit: bool = False,
        recv: bool = False,
        selective: bool = False,
        read: bool = False,
        write: bool = False,
        remote_read: bool = False,
        remote_write: bool = False,
    ) -> None:
        """Have something reported to a queue, or counted; before :meth:`enable`.

        Args:
            to: a completion queue, the event queue, or a counter.
            transmit: sends; for a completion queue, everything that transmits.
            recv: receives.
            selective: (completion queue) report only the successes of
                operations that ask for it with ``OpFlags.COMPLETION``.
            read: (counter) remote reads that this side began.
            write: (counter) remote writes that this side began.
            remote_read: (counter) reads by the peer.
            remote_write: (counter) writes by the peer.

        Raises:
            KfiError: EINVAL: bound already, or another domain's.
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
        self._bind(to, flags)
        self._bound.append(to)
        if isinstance(to, CompletionQueue):
            self._sent = to._pending if transmit else self._sent
            self._received = to._pending if recv else self._received

    def enable(self) -> None:
        """Make the endpoint ready; what is bound is final from here on.

        Raises:
            KfiError: KFI_ENOCQ, KFI_ENOEQ: something has to be bound first.
        """
        arg = _uapi.kfab_control(handle=self._live_handle(), command=_uapi.KFAB_ENABLE)
        self._client(_uapi.KFAB_IOC_CONTROL, arg)

    def connect(self, addr: Address | None = None, data: bytes = b"") -> None:
        """Ask a peer for a connection. The event queue reports how it went.

        Args:
            addr: the peer; ``None`` for ``dest_addr`` of the info.
            data: private data for the peer, at most 256 bytes; how much of it
                arrives depends on the connection manager.
        """
        self._connect(_uapi.KFAB_IOC_CONNECT, b"" if addr is None else pack_address(addr), data)

    def accept(self, data: bytes = b"") -> None:
        """Accept the connection request that the endpoint was opened for.

        Args:
            data: private data for the peer, as in :meth:`connect`.
        """
        self._connect(_uapi.KFAB_IOC_ACCEPT, b"", data)

    def _connect(self, request: int, addr: bytes, data: bytes) -> None:
        addr_memory, addr_address = bytes_arg(addr)
        data_memory, data_address = bytes_arg(data)
        arg = _uapi.kfab_connect(
            ep=self._live_handle(),
            addr=addr_address,
            addr_len=len(addr),
            param=data_address,
            param_len=len(data),
        )
        self._client(request, arg)
        del addr_memory, data_memory

    def shutdown(self) -> None:
        """End the connection. Receives still posted come back as errors."""
        self._client(_uapi.KFAB_IOC_SHUTDOWN, _uapi.kfab_shutdown(ep=self._live_handle()))

    def getpeer(self) -> Address | None:
        """Return the peer's address."""
        return self._address(_uapi.KFAB_IOC_GETPEER)

    def recv(self, into: Local, *, context: object = None, flags: OpFlags | None = None) -> None:
        """Offer memory for one message (or many, with ``OpFlags.MULTI_RECV``).

        Args:
            into: where the message goes; several pieces are filled in order.
            context: comes back in the completion.
            flags: ``None`` for the endpoint's own.

        Raises:
            Again: the receive queue is full.
        """
        chosen = self.info.rx_attr.op_flags if flags is None else flags
        arg = _uapi.kfab_msg(op_flags=chosen)
        many = OpFlags.MULTI_RECV in chosen
        self._post(_uapi.KFAB_IOC_RECV, arg, into, self._received, context, many=many)

    def send(
        self,
        data_from: Local,
        *,
        data: int | None = None,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Send one message. The memory is the kernel's until the completion.

        Args:
            data_from: what to send.
            data: remote CQ data: a number for the peer's completion.
            context: comes back in the completion. If the completion of a
                success is not wanted (selective binding), it is kept until the
                endpoint is closed.
            flags: ``None`` for the endpoint's own.

        Raises:
            Again: the transmit queue is full; read completions and retry.
            BadState: not connected.
        """
        arg = _uapi.kfab_msg(op_flags=self._tx_flags(flags, data), data=u64(data or 0, "data"))
        self._post(_uapi.KFAB_IOC_SEND, arg, data_from, self._sent, context)

    def inject(self, data_from: Local, *, data: int | None = None) -> None:
        """Send a short message; the memory is free at once, no success is reported.

        Args:
            data_from: what to send, in one piece of at most
                ``tx_attr.inject_size`` bytes.
            data: remote CQ data.

        Raises:
            Again: the transmit queue is full.
        """
        flags = 0 if data is None else _uapi.KFAB_REMOTE_CQ_DATA
        arg = _uapi.kfab_msg(
            flags=_uapi.KFAB_POST_INJECT, op_flags=flags, data=u64(data or 0, "data")
        )
        self._post(_uapi.KFAB_IOC_SEND, arg, data_from, None, None)

    def read(
        self,
        into: Local,
        remote: RemoteRegion | Iterable[RemoteRegion],
        *,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Read from a peer's memory.

        Args:
            into: where the bytes go.
            remote: where they are.
            context: comes back in the completion.
            flags: ``None`` for the endpoint's own.

        Raises:
            Again: the transmit queue is full.
        """
        arg = _uapi.kfab_rma(op_flags=self._tx_flags(flags, None))
        self._post_rma(_uapi.KFAB_IOC_READ, arg, into, remote, context)

    def write(
        self,
        data_from: Local,
        remote: RemoteRegion | Iterable[RemoteRegion],
        *,
        data: int | None = None,
        context: object = None,
        flags: OpFlags | None = None,
    ) -> None:
        """Write to a peer's memory.

        Args:
            data_from: what to write.
            remote: where it goes.
            data: remote CQ data: the peer gets a completion with this number.
            context: comes back in the completion.
            flags: ``None`` for the endpoint's own.

        Raises:
            Again: the transmit queue is full.
        """
        arg = _uapi.kfab_rma(op_flags=self._tx_flags(flags, data), data=u64(data or 0, "data"))
        self._post_rma(_uapi.KFAB_IOC_WRITE, arg, data_from, remote, context)

    def _tx_flags(self, flags: OpFlags | None, data: int | None) -> int:
        chosen = self.info.tx_attr.op_flags if flags is None else flags
        return chosen | (0 if data is None else _uapi.KFAB_REMOTE_CQ_DATA)

    def _post_rma(
        self,
        request: int,
        arg: _uapi.kfab_rma,
        local: Local,
        remote: RemoteRegion | Iterable[RemoteRegion],
        context: object,
    ) -> None:
        regions = (remote,) if isinstance(remote, RemoteRegion) else tuple(remote)
        array = (_uapi.kfab_rma_iov * len(regions))(
            *(
                _uapi.kfab_rma_iov(u64(r.addr, "addr"), u64(r.length, "length"), u64(r.key, "key"))
                for r in regions
            )
        )
        arg.rma_iov = ctypes.addressof(array)
        arg.rma_iov_count = len(regions)
        self._post(request, arg, local, self._sent, context)

    def _post(
        self,
        request: int,
        arg: _uapi.kfab_msg | _uapi.kfab_rma,
        local: Local,
        pending: PendingContexts | None,
        context: object,
        *,
        many: bool = False,
    ) -> None:
        pieces: tuple[Segment, ...] = segments(local)
        iov = iov_array(pieces)
        arg.ep = self._live_handle()
        arg.iov = ctypes.addressof(iov)
        arg.iov_count = len(pieces)
        arg.addr = _uapi.KFAB_ADDR_UNSPEC
        if pending is None:
            self._client(request, arg)
            return
        # The completion can be read before the post has returned.
        arg.context = pending.add(self._handle, context, many=many)
        try:
            self._client(request, arg)
        except KfiError:
            pending.take(arg.context)
            raise

    def _close_self(self) -> None:
        super()._close_self()
        for pending in (self._sent, self._received):
            if pending is not None:
                pending.abandon(self._handle)
