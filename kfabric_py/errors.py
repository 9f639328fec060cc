# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Errors as exceptions.

Every failed call of this package raises a :class:`KfiError`. It is an
:class:`OSError` whose ``errno`` is the number that the kernel returned. For
errors that only kfabric has, :class:`KfabricErrno` has a name. Failures that
callers usually distinguish have a subclass to catch; some of them are also
the built-in exception that Python programs expect (:class:`TimeoutError`,
:class:`BlockingIOError`).
"""

from __future__ import annotations

import enum
import errno as _errno
import os


class KfabricErrno(enum.IntEnum):
    """What kfabric's own errors are as numbers of Linux, named as in ``kfi_errno.h``."""

    KFI_ETOOSMALL = _errno.ERANGE
    KFI_EOPBADSTATE = _errno.EBADFD
    KFI_EAVAIL = _errno.EBADMSG
    KFI_EBADFLAGS = _errno.EBADRQC
    KFI_ENOEQ = _errno.EUNATCH
    KFI_ENOCQ = _errno.ENOSR
    KFI_ENOAV = _errno.EDESTADDRREQ
    KFI_EDOMAIN = _errno.EXDEV
    KFI_ENOKEY = _errno.ENOKEY
    KFI_EOVERRUN = _errno.EOVERFLOW


_TEXT = {
    KfabricErrno.KFI_ETOOSMALL: "the space given is too small",
    KfabricErrno.KFI_EOPBADSTATE: "the object is not in a state that allows this",
    KfabricErrno.KFI_EAVAIL: "an error entry is waiting to be read with readerr()",
    KfabricErrno.KFI_EBADFLAGS: "flag not supported",
    KfabricErrno.KFI_ENOEQ: "an event queue has to be bound first",
    KfabricErrno.KFI_EDOMAIN: "the objects belong to different domains",
    KfabricErrno.KFI_ENOCQ: "a completion queue has to be bound first",
    KfabricErrno.KFI_ENOKEY: "the key is missing or already in use",
    KfabricErrno.KFI_ENOAV: "an address vector has to be bound first",
    KfabricErrno.KFI_EOVERRUN: "the queue has overrun, completions were lost",
}


def error_name(number: int) -> str:
    """Return the symbol of a positive error number, such as ``"KFI_EAVAIL"``.

    A number that stands for an error of kfabric's has that error's name, others have
    their Linux name (``"EBUSY"``), unknown ones ``"errno N"``.
    """
    try:
        return KfabricErrno(number).name
    except ValueError:
        return _errno.errorcode.get(number, f"errno {number}")


def error_text(number: int) -> str:
    """Return one phrase that explains a positive error number."""
    try:
        return _TEXT[KfabricErrno(number)]
    except ValueError:
        return os.strerror(number)


class KfiError(OSError):
    """A call of kfabric failed.

    Attributes:
        errno: the positive error number (never ``None`` here).
        strerror: symbol and explanation.
        call: the call that failed, such as ``"CQ_READ"``, or ``""``.
    """

    errno: int
    call: str = ""

    @property
    def name(self) -> str:
        """Symbol of the error number, such as ``"KFI_EAVAIL"`` or ``"EBUSY"``."""
        return error_name(self.errno)


class Again(KfiError, BlockingIOError):
    """EAGAIN: a queue is full, or there is nothing to read."""


class KfiTimeout(KfiError, TimeoutError):
    """ETIMEDOUT: the deadline passed and the condition did not hold then."""


class ErrorAvailable(KfiError):
    """KFI_EAVAIL: an error entry is next; read it with ``readerr()``."""


class Overrun(KfiError):
    """KFI_EOVERRUN: the queue was full and lost entries. Only closing it helps."""


class Busy(KfiError):
    """EBUSY: another object or a blocking call uses the object. Nothing was changed."""


class TooSmall(KfiError):
    """KFI_ETOOSMALL: the answer does not fit. Nothing was consumed."""


class BadState(KfiError):
    """KFI_EOPBADSTATE: not enabled yet, already enabled, already connected."""


class DeviceLost(KfiError):
    """ENODEV: the device of the object is gone. Closing still works."""


class NoMatch(KfiError):
    """ENODATA: no provider has a matching offer."""


class NotSupported(KfiError):
    """EOPNOTSUPP or ENOSYS: a known call or value that this provider or object does not have."""


class ConnectionRefused(KfiError, ConnectionRefusedError):
    """ECONNREFUSED: the peer rejected the connection, or does not listen."""


class NotFound(KfiError, FileNotFoundError):
    """ENOENT: no such device node; the driver's module is not loaded."""


class PermissionDenied(KfiError, PermissionError):
    """EACCES or EPERM: only root may do this."""


class ClosedError(KfiError, ValueError):
    """EBADF: the object was closed before, or by another thread during the call."""


_CLASSES: dict[int, type[KfiError]] = {
    _errno.EAGAIN: Again,
    _errno.ETIMEDOUT: KfiTimeout,
    _errno.EBUSY: Busy,
    _errno.ENODEV: DeviceLost,
    _errno.EBADF: ClosedError,
    _errno.ENODATA: NoMatch,
    _errno.EOPNOTSUPP: NotSupported,
    _errno.ENOSYS: NotSupported,
    _errno.ECONNREFUSED: ConnectionRefused,
    _errno.ENOENT: NotFound,
    _errno.EACCES: PermissionDenied,
    _errno.EPERM: PermissionDenied,
    KfabricErrno.KFI_EAVAIL: ErrorAvailable,
    KfabricErrno.KFI_EOVERRUN: Overrun,
    KfabricErrno.KFI_ETOOSMALL: TooSmall,
    KfabricErrno.KFI_EOPBADSTATE: BadState,
}


def error_for(number: int, call: str = "", detail: str = "") -> KfiError:
    """Make the exception for a positive error number; the caller raises it.

    Args:
        number: the error number, positive.
        call: the call that failed, for the message.
        detail: what else the message has, at its end.
    """
    text = f"{error_name(number)}: {error_text(number)}"
    if call:
        text = f"{call}: {text}"
    if detail:
        text += f"; {detail}"
    error = _CLASSES.get(number, KfiError)(number, text)
    error.call = call
    return error
