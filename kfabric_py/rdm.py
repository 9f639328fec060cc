# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Endpoints without a connection: plain ones, and scalable ones with contexts.

An address vector has to be bound to an endpoint before it is enabled; it names
the peers. A scalable endpoint has one address. It moves no data itself; its contexts do,
each with queues of its own::

    with domain.av(rx_ctx_bits=4) as av, domain.scalable_endpoint(info) as sep:
        sep.bind(av)
        sep.enable()
        with sep.transmit(0) as tx, sep.receive(0) as rx:
            tx.bind(cq, transmit=True)
            rx.bind(cq, recv=True)
            tx.enable()
            rx.enable()
            rx.trecv(buffer[:64], tag=7)
            tx.tsend(buffer[64:128], 7, to=av.rx_addr(peer, 0))
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from kfabric_py import _uapi
from kfabric_py._call import u32
from kfabric_py.cm import Addressed
from kfabric_py.info import Info, info_to_raw
from kfabric_py.posting import Posting, Receiving, Sending
from kfabric_py.profile import Profiled

if TYPE_CHECKING:
    from kfabric_py.domain import Domain


class RdmEndpoint(Addressed, Receiving, Sending, Profiled):
    """An endpoint for all peers that an address vector names.

    Open it, bind queues, counters and an :class:`AddressVector`, and
    :meth:`enable` it. Then peers insert the result of :meth:`getname`.
    """

    def __init__(self, domain: Domain, info: Info, context: object) -> None:
        """Use :meth:`Domain.rdm_endpoint`."""
        raw = info_to_raw(info)
        arg = _uapi.kfab_ep_open(domain=domain._live_handle(), info=ctypes.addressof(raw))
        self.info = info
        super().__init__(domain, domain._client, _uapi.KFAB_IOC_EP_OPEN, arg, context)


class ScalableEndpoint(Addressed, Posting):
    """One address for many transmit and receive contexts."""

    def __init__(self, domain: Domain, info: Info, context: object) -> None:
        """Use :meth:`Domain.scalable_endpoint`."""
        raw = info_to_raw(info)
        arg = _uapi.kfab_sep_open(domain=domain._live_handle(), info=ctypes.addressof(raw))
        self.info = info
        super().__init__(domain, domain._client, _uapi.KFAB_IOC_SEP_OPEN, arg, context)

    def transmit(
        self, index: int, info: Info | None = None, *, context: object = None
    ) -> TransmitContext:
        """Open a transmit context.

        Args:
            index: number of the context, from 0.
            info: its ``tx_attr`` is used; ``None`` for that of the endpoint.
            context: as for the other objects.

        Raises:
            KfiError: EINVAL: there is no such index, or it is open.
        """
        return TransmitContext(self, index, info, context)

    def receive(
        self, index: int, info: Info | None = None, *, context: object = None
    ) -> ReceiveContext:
        """Open a receive context; as :meth:`transmit`, with ``rx_attr``."""
        return ReceiveContext(self, index, info, context)


def _ctx_arg(
    sep: ScalableEndpoint, index: int, info: Info | None
) -> tuple[_uapi.kfab_ctx_open, _uapi.kfab_info | None]:
    """Return the structure, and the memory that it points to, which the caller keeps."""
    raw = None if info is None else info_to_raw(info)
    arg = _uapi.kfab_ctx_open(
        sep=sep._live_handle(),
        index=u32(index, "index"),
        info=0 if raw is None else ctypes.addressof(raw),
    )
    return arg, raw


class TransmitContext(Sending, Profiled):
    """A transmit context of a scalable endpoint."""

    def __init__(
        self, sep: ScalableEndpoint, index: int, info: Info | None, context: object
    ) -> None:
        """Use :meth:`ScalableEndpoint.transmit`."""
        arg, raw = _ctx_arg(sep, index, info)
        self.info = info or sep.info
        super().__init__(sep, sep._client, _uapi.KFAB_IOC_TX_CTX_OPEN, arg, context)
        del raw


class ReceiveContext(Receiving, Profiled):
    """A receive context of a scalable endpoint."""

    def __init__(
        self, sep: ScalableEndpoint, index: int, info: Info | None, context: object
    ) -> None:
        """Use :meth:`ScalableEndpoint.receive`."""
        arg, raw = _ctx_arg(sep, index, info)
        self.info = info or sep.info
        super().__init__(sep, sep._client, _uapi.KFAB_IOC_RX_CTX_OPEN, arg, context)
        del raw
