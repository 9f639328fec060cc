# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Counters: numbers of operations that completed and that failed."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Protocol

from kfabric_py import _uapi
from kfabric_py._call import deadline_after, u64
from kfabric_py._waitable import Waitable, wait_choice
from kfabric_py.enums import WaitObj
from kfabric_py.handle import KernelObject

if TYPE_CHECKING:
    from kfabric_py.domain import Domain
    from kfabric_py.sets import WaitSet


class ReadListener(Protocol):
    """An object that waits for a counter by a descriptor."""

    def counter_was_read(self) -> None:
        """Look at the counter again; called by any thread."""


class Counter(Waitable):
    """Counts completions and errors, 64 bits each."""

    def __init__(
        self,
        domain: Domain,
        *,
        wait_obj: WaitObj,
        wait_set: WaitSet | None,
        context: object,
    ) -> None:
        """Use :meth:`Domain.counter`."""
        kind, wait_handle = wait_choice(wait_obj, wait_set)
        arg = _uapi.kfab_cntr_open(
            domain=domain._live_handle(),
            events=_uapi.KFAB_CNTR_EVENTS_COMP,
            wait_obj=kind,
            wait_set=wait_handle,
        )
        self._wait_set = wait_set
        super().__init__(domain, domain._client, _uapi.KFAB_IOC_CNTR_OPEN, arg, context)
        self._seen = {_uapi.KFAB_IOC_CNTR_READ: 0, _uapi.KFAB_IOC_CNTR_READERR: 0}
        self._listeners: tuple[weakref.ref[ReadListener], ...] = ()

    def _uses(self) -> tuple[KernelObject, ...]:
        return () if self._wait_set is None else (self._wait_set,)

    def _value(self, request: int, value: int = 0) -> int:
        arg = _uapi.kfab_cntr(cntr=self._live_handle(), value=u64(value, "value"))
        self._client(request, arg)
        return arg.value

    def _look(self, request: int) -> int:
        """Read one of the counts.

        Afterwards no descriptor is readable, although another thread may wait for the
        same change with one. So all listeners are called.
        """
        value = self._value(request)
        if self._seen[request] != value:
            self._seen[request] = value
            for reference in self._listeners:
                listener = reference()
                if listener is not None:
                    listener.counter_was_read()
        return value

    def _listen(self, listener: ReadListener) -> None:
        """Call ``listener``, as long as it exists, after a read of values not read before."""
        # Never altered in place: other threads may be iterating over it.
        alive = tuple(reference for reference in self._listeners if reference() is not None)
        self._listeners = (*alive, weakref.ref(listener))

    def read(self) -> int:
        """Return the number of successes; a wait set sees the counter as read then."""
        return self._look(_uapi.KFAB_IOC_CNTR_READ)

    def readerr(self) -> int:
        """Return the number of errors; a wait set sees the errors as read then."""
        return self._look(_uapi.KFAB_IOC_CNTR_READERR)

    def add(self, value: int) -> None:
        """Add to the number of successes; wakes waiting threads."""
        self._value(_uapi.KFAB_IOC_CNTR_ADD, value)

    def set(self, value: int) -> None:
        """Set the number of successes; wakes waiting threads."""
        self._value(_uapi.KFAB_IOC_CNTR_SET, value)

    def adderr(self, value: int) -> None:
        """Add to the number of errors; ends every :meth:`wait` in progress."""
        self._value(_uapi.KFAB_IOC_CNTR_ADDERR, value)

    def seterr(self, value: int) -> None:
        """Set the number of errors; ends every :meth:`wait` in progress."""
        self._value(_uapi.KFAB_IOC_CNTR_SETERR, value)

    def wait(self, threshold: int, timeout: float | None = None) -> None:
        """Wait until the number of successes has reached a value.

        Args:
            threshold: the value, 64 bits.
            timeout: seconds; ``None`` for no limit, 0 for one check.

        Raises:
            KfiTimeout: the deadline passed and the value was lower then.
            ErrorAvailable: the number of errors changed during the wait.
            KfiError: EINVAL: the counter has no wait object of its own.
            DeviceLost: the device is gone.
        """
        arg = _uapi.kfab_cntr_wait(
            cntr=self._live_handle(),
            threshold=u64(threshold, "threshold"),
            deadline=deadline_after(timeout),
        )
        self._client(_uapi.KFAB_IOC_CNTR_WAIT, arg)
