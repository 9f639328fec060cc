# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Domains: one device and the objects that are opened on it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from kfabric_py import _uapi
from kfabric_py.av import AddressVector
from kfabric_py.channel import CompChannel
from kfabric_py.cm import ConnectionRequest
from kfabric_py.counters import Counter
from kfabric_py.endpoint import Endpoint
from kfabric_py.enums import Access, AvType, CqFormat, WaitObj
from kfabric_py.handle import OpenedObject
from kfabric_py.info import Info, info_to_raw
from kfabric_py.memory import Local, MemoryRegion, segments
from kfabric_py.profile import Profiled
from kfabric_py.queues import CompletionQueue
from kfabric_py.rdm import RdmEndpoint, ScalableEndpoint
from kfabric_py.sets import PollSet, WaitSet

if TYPE_CHECKING:
    from kfabric_py.fabric import Fabric


class Domain(OpenedObject, Profiled):
    """A device, and the parent of its queues, endpoints and memory.

    Attributes:
        info: the info that it was opened with.
    """

    def __init__(self, fabric: Fabric, info: Info, context: object) -> None:
        """Use :meth:`Fabric.domain`."""
        raw = info_to_raw(info)
        arg = _uapi.kfab_domain_open(fabric=fabric._live_handle(), info=ctypes.addressof(raw))
        super().__init__(fabric, fabric._client, _uapi.KFAB_IOC_DOMAIN_OPEN, arg, context)
        self.info = info

    def cq(
        self,
        size: int = 0,
        *,
        format: CqFormat = CqFormat.DATA,
        wait_obj: WaitObj = WaitObj.UNSPEC,
        wait_set: WaitSet | None = None,
        threshold: bool = False,
        cpu: int | None = None,
        channel: CompChannel | None = None,
        ring: bool = False,
        context: object = None,
    ) -> CompletionQueue:
        """Open a completion queue.

        Args:
            size: least number of completions that it holds, 0 for a default.
            format: which fields its entries carry.
            wait_obj: kind of wait object; ``NONE`` forbids blocking reads, and with
                ``FD`` the object has descriptors.
            wait_set: become a member of this set; blocking reads are refused then.
            threshold: whether blocking reads take a number of entries to wait for.
            cpu: the CPU that is to handle completions, ``None`` for any.
            channel: the channel for the events of
                :meth:`CompletionQueue.req_notify`, of the domain's fabric.
            ring: whether :meth:`CompletionQueue.read` is to read from mapped memory,
                without a call unless the queue is empty, or more than half of its size was
                read since the last call. Only one thread at a time may read then, errors
                too, else ``Busy`` is raised. The queue has no ``sread`` and no
                ``read_into``. On x86 only, else ``NotSupported`` is raised.
            context: the object that poll sets report for the queue; ``None`` for the
                queue itself.
        """
        return CompletionQueue(
            self,
            size=size,
            format=format,
            wait_obj=wait_obj,
            wait_set=wait_set,
            threshold=threshold,
            cpu=cpu,
            channel=channel,
            ring=ring,
            context=context,
        )

    def counter(
        self,
        *,
        wait_obj: WaitObj = WaitObj.UNSPEC,
        wait_set: WaitSet | None = None,
        context: object = None,
    ) -> Counter:
        """Open a counter, at 0; the arguments are those of :meth:`cq`."""
        return Counter(self, wait_obj=wait_obj, wait_set=wait_set, context=context)

    def poll_set(self, *, context: object = None) -> PollSet:
        """Open an empty poll set."""
        return PollSet(self, context=context)

    def endpoint(self, what: Info | ConnectionRequest, *, context: object = None) -> Endpoint:
        """Open an endpoint.

        Args:
            what: an info, to connect; or a connection request, to accept. If the
                call succeeds, it consumes the request.
            context: comes back in the events about the endpoint; the endpoint
                itself if ``None``.
        """
        if isinstance(what, ConnectionRequest):
            return Endpoint(self, what.info, what, context)
        return Endpoint(self, what, None, context)

    def av(
        self,
        *,
        type: AvType = AvType.UNSPEC,
        count: int = 0,
        rx_ctx_bits: int = 0,
        context: object = None,
    ) -> AddressVector:
        """Open an address vector.

        Args:
            type: ``TABLE`` numbers addresses from 0; ``UNSPEC`` is the choice of the
                provider.
            count: addresses to expect, 0 for a default.
            rx_ctx_bits: how many top bits of a number select a receive context.
            context: as for the other objects.
        """
        return AddressVector(self, type=type, count=count, rx_ctx_bits=rx_ctx_bits, context=context)

    def rdm_endpoint(self, info: Info, *, context: object = None) -> RdmEndpoint:
        """Open an endpoint without a connection.

        Args:
            info: an offer whose endpoint type is ``EpType.RDM``.
            context: as for the other objects.
        """
        return RdmEndpoint(self, info, context)

    def scalable_endpoint(self, info: Info, *, context: object = None) -> ScalableEndpoint:
        """Open an endpoint with contexts; as :meth:`rdm_endpoint`."""
        return ScalableEndpoint(self, info, context)

    def mr(
        self, memory: Local, access: Access, *, key: int = 0, context: object = None
    ) -> MemoryRegion:
        """Register memory. Its buffers cannot be closed before the region.

        Args:
            memory: buffers or pieces of them.
            access: the operations that may use it.
            key: the key, unless the provider chooses it (``MrMode.PROV_KEY``).
            context: as for the other objects.

        Raises:
            KfiError: E2BIG: more pages than the device can map.
        """
        return MemoryRegion(self, segments(memory), access, key, context)
