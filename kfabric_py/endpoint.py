# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Endpoints with a connection."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from kfabric_py import _uapi
from kfabric_py.cm import Addressed, ConnectionRequest, bytes_arg
from kfabric_py.info import Address, Info, info_to_raw, pack_address
from kfabric_py.posting import Receiving, Sending
from kfabric_py.profile import Profiled

if TYPE_CHECKING:
    from kfabric_py.domain import Domain


class Endpoint(Addressed, Receiving, Sending, Profiled):
    """One end of a connection.

    Open it, bind queues and counters, :meth:`enable` it, and :meth:`connect` or
    :meth:`accept`. Receives may be posted after :meth:`enable`, all other
    operations after the event queue has reported ``CONNECTED``.
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
        super().__init__(domain, domain._client, _uapi.KFAB_IOC_EP_OPEN, arg, context)
        if request is not None:
            request._mark_closed()

    def connect(self, addr: Address | None = None, data: bytes = b"") -> None:
        """Request a connection with a peer. The event queue reports the result.

        Args:
            addr: the peer; ``None`` for ``dest_addr`` of the info.
            data: private data for the peer, at most 256 bytes; how much of it
                arrives depends on the connection manager.

        Raises:
            Again: too many connections of the user wait for their peers.
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

    @property
    def keepalive(self) -> int:
        """Seconds without traffic until a connected peer is probed. 0 (the default) is never.

        Without an answer the connection ends and ``SHUTDOWN`` is reported. The value may be
        set at any time.
        """
        return self.getopt(_uapi.KFAB_OPT_KEEPALIVE)

    @keepalive.setter
    def keepalive(self, seconds: int) -> None:
        self.setopt(_uapi.KFAB_OPT_KEEPALIVE, seconds)

    def shutdown(self) -> None:
        """End the connection. Receives that are still posted complete with errors.

        Raises:
            Again: too many connections of the user wait for their peers; nothing has changed.
        """
        self._client(_uapi.KFAB_IOC_SHUTDOWN, _uapi.kfab_shutdown(ep=self._live_handle()))

    def getpeer(self) -> Address | None:
        """Return the peer's address."""
        return self._address(_uapi.KFAB_IOC_GETPEER)
