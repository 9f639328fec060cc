# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Fabrics: the parents of domains and event queues."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from kfabric_py import _uapi
from kfabric_py._waitable import Waitable
from kfabric_py.channel import CompChannel
from kfabric_py.cm import PassiveEndpoint
from kfabric_py.domain import Domain
from kfabric_py.enums import WaitObj
from kfabric_py.errors import Again
from kfabric_py.handle import OpenedObject
from kfabric_py.info import Info, info_to_raw
from kfabric_py.queues import EventQueue
from kfabric_py.sets import WaitSet

if TYPE_CHECKING:
    from kfabric_py.device import Device


class Fabric(OpenedObject):
    """A network that a provider reaches."""

    def __init__(self, device: Device, info: Info, context: object) -> None:
        """Use :meth:`Device.fabric`."""
        raw = info_to_raw(info)
        arg = _uapi.kfab_fabric_open(info=ctypes.addressof(raw))
        super().__init__(device, device._client, _uapi.KFAB_IOC_FABRIC_OPEN, arg, context)

    def domain(self, info: Info, *, context: object = None) -> Domain:
        """Open a domain.

        Args:
            info: an offer of this fabric's provider.
            context: comes back in the events about the domain.
        """
        return Domain(self, info, context)

    def eq(
        self,
        size: int = 0,
        *,
        wait_obj: WaitObj = WaitObj.UNSPEC,
        wait_set: WaitSet | None = None,
        context: object = None,
    ) -> EventQueue:
        """Open an event queue.

        Args:
            size: number of the program's own events that it holds, 0 for a default.
                Objects that are bound to it add places for their events.
            wait_obj: kind of wait object; ``NONE`` forbids blocking reads, and with
                ``FD`` the object has descriptors.
            wait_set: become a member of this set; blocking reads are refused then.
            context: the object that poll sets report for the queue; ``None`` for the
                queue itself.
        """
        return EventQueue(self, size=size, wait_obj=wait_obj, wait_set=wait_set, context=context)

    def comp_channel(self, *, blocking: bool = True, context: object = None) -> CompChannel:
        """Open a completion channel, for the queues of all domains of the fabric.

        Args:
            blocking: whether :meth:`CompChannel.get_cq_event` waits.
            context: for the program's own use.
        """
        return CompChannel(self, blocking=blocking, context=context)

    def wait_set(self, *, wait_obj: WaitObj = WaitObj.UNSPEC, context: object = None) -> WaitSet:
        """Open an empty wait set.

        Args:
            wait_obj: with ``FD`` the set has descriptors, with ``POLLFD`` its members
                have; with ``YIELD`` a wait yields the CPU instead of sleeping.
            context: for the program's own use.
        """
        return WaitSet(self, wait_obj=wait_obj, context=context)

    def trywait(self, *objects: Waitable) -> bool:
        """Return whether it is safe to block on the descriptors of these objects.

        Read until nothing is left, call this, and block only if it returns ``True``::

            if fabric.trywait(cq, eq):
                selector.select()

        Args:
            objects: wait sets, queues and counters of this fabric, 1 to 1024,
                whose wait objects are of one kind. A member of a wait set is
                judged as part of the set.

        Returns:
            ``True``: nothing can be read of any of them, and the next event makes a
            descriptor readable. ``False``: there is something to read.

        Raises:
            KfiError: EINVAL: objects of different kinds or of another fabric, or one
                without a wait object. Nothing was consumed.
            DeviceLost: nothing can be read, and the device of one of them is gone.
        """
        handles = (ctypes.c_uint32 * len(objects))(*(obj._live_handle() for obj in objects))
        arg = _uapi.kfab_trywait(
            fabric=self._live_handle(), count=len(objects), handles=ctypes.addressof(handles)
        )
        try:
            self._client(_uapi.KFAB_IOC_TRYWAIT, arg)
        except Again:
            return False
        return True

    def passive_ep(self, info: Info, *, context: object = None) -> PassiveEndpoint:
        """Open a passive endpoint.

        Args:
            info: an offer; the endpoint listens at its ``src_addr``.
            context: comes back in the events about the endpoint.
        """
        return PassiveEndpoint(self, info, context)
