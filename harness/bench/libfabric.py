# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: as much of libfabric 1.x as a poll set full of idle completion queues needs.

The library exports only a few functions. The others are inline functions of its headers that
call through tables of operations; this module calls through the same tables.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any, Final

LIBRARY: Final = "libfabric.so.1"
VERSION: Final = 1 << 16 | 17
_POINTER = ctypes.c_void_p
_SLOT = ctypes.sizeof(_POINTER)


class FabricAttr(ctypes.Structure):
    """struct fi_fabric_attr."""

    _fields_ = (
        *((name, _POINTER) for name in ("fabric", "name", "prov_name")),
        *((name, ctypes.c_uint32) for name in ("prov_version", "api_version")),
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


def _getinfo(library: ctypes.CDLL, provider: str) -> Any:
    """The first info of a provider."""
    hints = library.fi_dupinfo(None)
    libc = ctypes.CDLL(None)
    libc.strdup.restype = _POINTER
    hints.contents.fabric_attr.contents.prov_name = libc.strdup(provider.encode())
    info = ctypes.POINTER(Info)()
    flags = ctypes.c_uint64(0)
    code = library.fi_getinfo(VERSION, None, None, flags, hints, ctypes.byref(info))
    library.fi_freeinfo(hints)
    _check(f"fi_getinfo, provider {provider}", code)
    return info


@contextlib.contextmanager
def idle_poll_set(provider: str, members: int) -> Iterator[tuple[int, ctypes.c_void_p]]:
    """A poll set of so many idle queues: the address of its fi_poll(), and the set.

    Raises:
        OSError: the library is missing.
        LibfabricError: a call failed.
    """
    library = ctypes.CDLL(LIBRARY)
    library.fi_dupinfo.restype = ctypes.POINTER(Info)
    with contextlib.ExitStack() as stack:

        def opened(what: str, opener: Callable[[int], int]) -> ctypes.c_void_p:
            obj = _POINTER()
            _check(what, opener(ctypes.addressof(obj)))
            stack.callback(lambda: _check(f"closing {what}", _call(obj, _FID_OPS, _CLOSE)))
            return obj

        info = _getinfo(library, provider)
        stack.callback(library.fi_freeinfo, info)
        attr = info.contents.fabric_attr
        fabric = opened("fi_fabric", lambda out: library.fi_fabric(attr, _POINTER(out), None))
        domain = opened("fi_domain", lambda out: _call(fabric, _OPS, _DOMAIN, info, out, None))
        none, one = ctypes.byref(ctypes.c_uint64(0)), ctypes.byref(CqAttr(size=1))
        sets = opened("fi_poll_open", lambda out: _call(domain, _OPS, _POLL_OPEN, none, out))
        for _ in range(members):
            cq = opened("fi_cq_open", lambda out: _call(domain, _OPS, _CQ_OPEN, one, out, None))
            _check("fi_poll_add", _call(sets, _OPS, _POLL_ADD, cq, None))
            # Runs before either is closed.
            stack.callback(_call, sets, _OPS, _POLL_DEL, cq, None)
        yield method(sets, _OPS, _POLL), sets
