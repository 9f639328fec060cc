# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: as much of libfabric 1.x as a poll set full of idle completion queues needs.

The library exports only a few functions. The others are inline functions of its headers that
call through tables of operations; this module calls through the same tables.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any, Final

LIBRARY: Final = "libfabric.so.1"
VERSION: Final = 1 << 16 | 17
_POINTER = ctypes.c_void_p
_SLOT = ctypes.sizeof(_POINTER)


class FabricAttr(ctypes.Structure):
    """struct fi_fabric_attr."""

    _fields_ = (
        ("fabric", _POINTER),
        ("name", ctypes.c_char_p),
        ("prov_name", _POINTER),
        ("prov_version", ctypes.c_uint32),
        ("api_version", ctypes.c_uint32),
    )


class Info(ctypes.Structure):
    """struct fi_info."""

    _fields_ = (
        ("next", _POINTER),
        *((name, ctypes.c_uint64) for name in ("caps", "mode")),
        ("addr_format", ctypes.c_uint32),
        *((name, ctypes.c_size_t) for name in ("src_addrlen", "dest_addrlen")),
        *((name, _POINTER) for name in ("src_addr", "dest_addr", "handle")),
        *((name, _POINTER) for name in ("tx_attr", "rx_attr", "ep_attr", "domain_attr")),
        ("fabric_attr", ctypes.POINTER(FabricAttr)),
        ("nic", _POINTER),
    )


class CqAttr(ctypes.Structure):
    """struct fi_cq_attr; all zeros is a queue without a wait object."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_uint64),
        *((name, ctypes.c_int) for name in ("format", "wait_obj", "signaling_vector", "wait_cond")),
        ("wait_set", _POINTER),
    )


class LibfabricError(Exception):
    """A call of libfabric failed; the text has its name and its result."""


# Places in the tables of operations, which begin with their size.
_CLOSE, _DOMAIN, _CQ_OPEN, _POLL_OPEN, _POLL, _POLL_ADD, _POLL_DEL = 1, 1, 2, 6, 1, 2, 3
# Places of an object's tables: that of struct fid, then its own.
_FID_OPS, _OPS = 2, 3


def method(obj: ctypes.c_void_p, table: int, place: int) -> int:
    """The address of an operation of an object."""
    assert obj.value is not None
    ops = _POINTER.from_address(obj.value + table * _SLOT).value
    assert ops is not None
    found = _POINTER.from_address(ops + place * _SLOT).value
    assert found is not None
    return found


def _call(obj: ctypes.c_void_p, table: int, place: int, *arguments: Any) -> int:
    types = [_POINTER] * (1 + len(arguments))
    function = ctypes.CFUNCTYPE(ctypes.c_int, *types)(method(obj, table, place))
    return int(function(obj, *arguments))


def _check(what: str, result: int) -> None:
    if result:
        raise LibfabricError(f"{what}: {result}")


class Libfabric:
    """The library, and one provider's fabric and domain."""

    def __init__(self, provider: str) -> None:
        """Open them. Raises LibfabricError, or OSError if the library is missing."""
        self._library = ctypes.CDLL(LIBRARY)
        self._library.fi_dupinfo.restype = ctypes.POINTER(Info)
        self._stack = contextlib.ExitStack()
        self._info = self._getinfo(provider)
        self._stack.callback(self._library.fi_freeinfo, self._info)
        attr = self._info.contents.fabric_attr
        self._fabric = self._open(
            "fi_fabric", lambda out: int(self._library.fi_fabric(attr, _POINTER(out), None))
        )
        self.domain = self._open(
            "fi_domain", lambda out: _call(self._fabric, _OPS, _DOMAIN, self._info, out, None)
        )

    def close(self) -> None:
        """Close everything in reverse order."""
        self._stack.close()

    def cq(self) -> ctypes.c_void_p:
        """Open a completion queue without a wait object."""
        attr = CqAttr(size=1)
        return self._open(
            "fi_cq_open",
            lambda out: _call(self.domain, _OPS, _CQ_OPEN, ctypes.addressof(attr), out, None),
        )

    def poll_set(self) -> ctypes.c_void_p:
        """Open a poll set."""
        attr = ctypes.c_uint64(0)
        return self._open(
            "fi_poll_open",
            lambda out: _call(self.domain, _OPS, _POLL_OPEN, ctypes.addressof(attr), out),
        )

    def add(self, poll_set: ctypes.c_void_p, member: ctypes.c_void_p) -> None:
        """Make a queue a member; it is removed before either is closed."""
        _check("fi_poll_add", _call(poll_set, _OPS, _POLL_ADD, member, None))
        self._stack.callback(_call, poll_set, _OPS, _POLL_DEL, member, None)

    def _getinfo(self, provider: str) -> Any:
        hints = self._library.fi_dupinfo(None)
        libc = ctypes.CDLL(None)
        libc.strdup.restype = _POINTER
        hints.contents.fabric_attr.contents.prov_name = libc.strdup(provider.encode())
        info = ctypes.POINTER(Info)()
        flags = ctypes.c_uint64(0)
        code = self._library.fi_getinfo(VERSION, None, None, flags, hints, ctypes.byref(info))
        self._library.fi_freeinfo(hints)
        _check(f"fi_getinfo, provider {provider}", code)
        return info

    def _open(self, what: str, opener: Any) -> ctypes.c_void_p:
        obj = _POINTER()
        _check(what, opener(ctypes.addressof(obj)))
        self._stack.callback(
            lambda: _check(f"closing the object of {what}", _call(obj, _FID_OPS, _CLOSE))
        )
        return obj


@contextlib.contextmanager
def idle_poll_set(provider: str, members: int) -> Iterator[tuple[int, ctypes.c_void_p]]:
    """A poll set of so many idle queues: the address of its fi_poll(), and the set."""
    library = Libfabric(provider)
    try:
        poll_set = library.poll_set()
        for _ in range(members):
            library.add(poll_set, library.cq())
        yield method(poll_set, _OPS, _POLL), poll_set
    finally:
        library.close()
