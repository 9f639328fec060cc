# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The ioctl calls, and the state that all objects of one descriptor share.

A call is a structure that begins with its own size and, on blocking calls,
holds the absolute deadline. Both are set before the first attempt, so an
attempt that a signal interrupted is repeated with the same argument.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import itertools
import math
import os
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from kfabric_py import _uapi
from kfabric_py.errors import error_for

if TYPE_CHECKING:
    from kfabric_py.handle import KernelObject

#: The signature of :func:`fcntl.ioctl`; the unit tests pass a fake.
Ioctl = Callable[[int, int, ctypes.Structure], int]

_NS = 1_000_000_000


def deadline_after(timeout: float | None) -> int:
    """Turn a timeout into the absolute deadline that the kernel takes.

    Args:
        timeout: seconds; ``None`` (or infinity) for no limit, 0 for one check
            without sleeping.

    Returns:
        Nanoseconds on the monotonic clock, or one of the two special values.

    Raises:
        ValueError: the timeout is negative or not a number.
    """
    # The kernel's clock ends 292 years after boot.
    if timeout is None or timeout * _NS >= _uapi.KFAB_DEADLINE_NONE:
        return _uapi.KFAB_DEADLINE_NONE
    if not timeout >= 0:
        raise ValueError(f"timeout must be None or at least 0, not {timeout!r}")
    if timeout == 0:
        return _uapi.KFAB_DEADLINE_NOW
    # Rounded up, because a wait must never end early.
    deadline = time.monotonic_ns() + math.ceil(timeout * _NS)
    return min(deadline, _uapi.KFAB_DEADLINE_NONE)


def u32(value: int, what: str) -> int:
    """Return ``value`` if it is an unsigned 32-bit number, see :func:`u64`."""
    if 0 <= value < 1 << 32:
        return value
    raise OverflowError(f"{what} must be an unsigned 32-bit number, not {value}")


def u64(value: int, what: str) -> int:
    """Return ``value`` if it is an unsigned 64-bit number.

    ctypes would cut a larger number off, so that a wait for 2**64 would be a wait
    for 0.

    Args:
        value: the number.
        what: its name, for the message.

    Raises:
        OverflowError: it does not fit.
    """
    if 0 <= value < 1 << 64:
        return value
    raise OverflowError(f"{what} must be an unsigned 64-bit number, not {value}")


class Client:
    """One descriptor of ``/dev/kfabric`` and the objects opened through it.

    Attributes:
        fd: the descriptor; the device owns and closes it.
        pid: the process that opened it. Handles are not used in a child that was
            forked later.
        objects: the open objects by kernel handle.
        cookies: the open objects by the number that the kernel has as their
            context.
    """

    def __init__(self, fd: int, ioctl: Ioctl = fcntl.ioctl) -> None:
        """Call on descriptor ``fd`` through ``ioctl``."""
        self.fd = fd
        self.pid = os.getpid()
        self.objects: weakref.WeakValueDictionary[int, KernelObject] = weakref.WeakValueDictionary()
        self.cookies: weakref.WeakValueDictionary[int, KernelObject] = weakref.WeakValueDictionary()
        self._ioctl = ioctl
        self._numbers = itertools.count(1)

    def new_cookie(self) -> int:
        """Return a number that was never used as a context before, and is not 0."""
        return next(self._numbers)

    def __call__(self, request: int, arg: ctypes.Structure) -> int:
        """Make one call; ``arg.size`` is filled here, outputs end up in ``arg``.

        After a signal and Python's handlers for it, the call is repeated with the
        same deadline, unless a handler raised.

        Args:
            request: the ioctl number.
            arg: the structure that belongs to it.

        Returns:
            The non-negative result of the call.

        Raises:
            KfiError: the call failed; the subclass depends on the error number.
        """
        arg.size = ctypes.sizeof(arg)
        return self.filled(request, arg)

    def filled(self, request: int, arg: ctypes.Structure) -> int:
        """Make one call like :meth:`__call__`; the caller has set ``arg.size``."""
        result = self.attempt(request, arg)
        if result is None:
            raise error_for(errno.EAGAIN, _uapi.CALL_NAMES.get(request, ""))
        return result

    def attempt(self, request: int, arg: ctypes.Structure) -> int | None:
        """Make one call like :meth:`__call__` that often finds nothing to read.

        Returns:
            The non-negative result, or ``None`` for EAGAIN. An exception would be too
            slow for a result that a polling loop gets at each turn.

        Raises:
            KfiError: for any other error number.
        """
        while True:
            try:
                return self._ioctl(self.fd, request, arg)
            except InterruptedError:
                # The interpreter runs the handlers at the jump back.
                continue
            except OSError as error:
                number = error.errno or 0
            if number == errno.EAGAIN:
                return None
            raise error_for(number, _uapi.CALL_NAMES.get(request, ""))
