# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The wait objects of wait sets, queues, counters, channels and profiles."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from kfabric_py import _uapi
from kfabric_py.enums import WaitObj
from kfabric_py.handle import OpenedObject

if TYPE_CHECKING:
    from kfabric_py._call import Client
    from kfabric_py.sets import WaitSet


def wait_choice(wait_obj: WaitObj, wait_set: WaitSet | None) -> tuple[int, int]:
    """Return the wait object and the handle of the wait set for an open."""
    if wait_set is None:
        return wait_obj, 0
    return WaitObj.SET, wait_set._live_handle()


def new_descriptor(client: Client, handle: int) -> int:
    """Return a new descriptor of an object, see :meth:`Waitable.descriptor`."""
    arg = _uapi.kfab_control(handle=handle, command=_uapi.KFAB_GETWAIT)
    client(_uapi.KFAB_IOC_CONTROL, arg)
    return arg.value


class Waitable(OpenedObject):
    """An object that threads can wait for, and its descriptors.

    An object that was opened with ``WaitObj.FD``, and every member of a set of
    ``WaitObj.POLLFD``, has descriptors for :mod:`select`, :mod:`selectors` and
    :mod:`asyncio`. A descriptor is readable exactly while something can be read
    of its object (for a wait set: of a member), and shows ``POLLERR`` and
    ``POLLHUP`` once the object is closed or its device is gone.
    """

    _fileno: int | None = None

    def wait_obj(self) -> WaitObj:
        """Return the kind of wait object, as it was chosen at the open."""
        arg = _uapi.kfab_control(handle=self._live_handle(), command=_uapi.KFAB_GETWAITOBJ)
        self._client(_uapi.KFAB_IOC_CONTROL, arg)
        return WaitObj(arg.value)

    def descriptor(self) -> int:
        """Return a new descriptor, which the caller closes with :func:`os.close`.

        It is closed at ``exec``. It keeps neither the object nor the device open, and
        stays valid when these are closed. The driver cannot be unloaded while the
        descriptor is open.

        Raises:
            KfiError: EINVAL: neither of ``WaitObj.FD`` nor in a set of
                ``WaitObj.POLLFD``, or an exclusive set.
            NotSupported: a wait object for code in the kernel.
        """
        return new_descriptor(self._client, self._live_handle())

    def fileno(self) -> int:
        """Return a descriptor that belongs to the object, always the same.

        With it :mod:`selectors` accept the object itself. It is closed with the object:
        remove the object from selectors and event loops before, or use a
        :meth:`descriptor`, which reports the close.

        Raises:
            KfiError: as :meth:`descriptor`.
        """
        with self._close_lock:
            self._check_open()
            if self._fileno is None:
                self._fileno = self.descriptor()
            return self._fileno

    def _close_self(self) -> None:
        super()._close_self()
        # After the object: a thread that polls the descriptor sees its hang-up.
        if self._fileno is not None:
            os.close(self._fileno)
            self._fileno = None

    def _strerror(self, prov_errno: int) -> str:
        text = ctypes.create_string_buffer(256)
        arg = _uapi.kfab_strerror(
            handle=self._live_handle(),
            err=prov_errno,
            buf=ctypes.addressof(text),
            buf_size=len(text),
        )
        self._client(_uapi.KFAB_IOC_STRERROR, arg)
        return text.value.decode(errors="replace")
