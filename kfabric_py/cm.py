# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Connection management: passive endpoints and connection requests."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from kfabric_py import _uapi
from kfabric_py.handle import KernelObject, OpenedObject
from kfabric_py.info import Address, Info, info_to_raw, unpack_address

if TYPE_CHECKING:
    from kfabric_py.fabric import Fabric
    from kfabric_py.queues import EventQueue


def bytes_arg(data: bytes) -> tuple[ctypes.Array[ctypes.c_char] | None, int]:
    """Return memory that holds the bytes, which the caller keeps, and its address."""
    if not data:
        return None, 0
    memory = ctypes.create_string_buffer(data, len(data))
    return memory, ctypes.addressof(memory)


class Addressed(OpenedObject):
    """An object with an address of its own."""

    def _address(self, request: int) -> Address | None:
        room = (ctypes.c_uint8 * _uapi.KFAB_ADDR_MAX)()
        arg = _uapi.kfab_name(
            handle=self._live_handle(), addr_len=len(room), addr=ctypes.addressof(room)
        )
        self._client(request, arg)
        return unpack_address(bytes(room[: arg.addr_len]))

    def getname(self) -> Address | None:
        """Return the local address."""
        return self._address(_uapi.KFAB_IOC_GETNAME)

    def _bind(self, to: KernelObject, flags: int) -> None:
        arg = _uapi.kfab_bind(handle=self._live_handle(), to=to._live_handle(), bind_flags=flags)
        self._client(_uapi.KFAB_IOC_BIND, arg)


class ConnectionRequest(KernelObject):
    """A connection request of a peer.

    Pass it to :meth:`Domain.endpoint` and accept there, or :meth:`reject` it.
    Closing it also rejects it.

    Attributes:
        info: the attributes for an endpoint that accepts it, with the peer's address.
        cm_data: the peer's private data. The connection manager may have
            padded it with zeros.
    """

    def __init__(
        self,
        fabric: Fabric,
        listener: PassiveEndpoint | None,
        handle: int,
        info: Info,
        cm_data: bytes,
    ) -> None:
        """Made by :meth:`EventQueue.read`."""
        super().__init__(listener or fabric, fabric._client, handle)
        self._listener = listener
        self.info = info
        self.cm_data = cm_data

    def reject(self, data: bytes = b"") -> None:
        """Reject the request.

        Args:
            data: private data for the peer, at most 256 bytes; how much of it
                arrives depends on the connection manager.
        """
        memory, address = bytes_arg(data)
        arg = _uapi.kfab_reject(
            pep=0 if self._listener is None else self._listener._live_handle(),
            connreq=self._live_handle(),
            param=address,
            param_len=len(data),
        )
        self._client(_uapi.KFAB_IOC_REJECT, arg)
        del memory
        self._mark_closed()


class PassiveEndpoint(Addressed):
    """Listens for connection requests."""

    def __init__(self, fabric: Fabric, info: Info, context: object) -> None:
        """Use :meth:`Fabric.passive_ep`."""
        raw = info_to_raw(info)
        arg = _uapi.kfab_pep_open(fabric=fabric._live_handle(), info=ctypes.addressof(raw))
        super().__init__(fabric, fabric._client, _uapi.KFAB_IOC_PEP_OPEN, arg, context)
        self._eq: EventQueue | None = None

    def bind(self, eq: EventQueue) -> None:
        """Have connection requests reported to an event queue."""
        self._bind(eq, 0)
        self._eq = eq

    def listen(self) -> None:
        """Begin to accept connection requests.

        Raises:
            KfiError: EADDRINUSE: the address is in use. KFI_ENOEQ: no event queue is
                bound.
        """
        self._client(_uapi.KFAB_IOC_LISTEN, _uapi.kfab_listen(pep=self._live_handle()))
