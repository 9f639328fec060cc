# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Raw calls on /dev/kfabric, for what the library would never do.

The structures and numbers are the generated ones; what is passed is any address
and any size.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kfabric_py import _uapi

PAGE = mmap.PAGESIZE
MAGIC = _uapi.KFAB_IOC_MAGIC
BOTH = 3  # _IOC_READ | _IOC_WRITE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
_libc.ioctl.restype = ctypes.c_int
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.mmap.restype = ctypes.c_void_p
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

#: Every ioctl and its structure.
CALLS: dict[str, tuple[int, type[ctypes.Structure]]] = {
    name: (getattr(_uapi, f"KFAB_IOC_{name}"), struct)
    for name, struct in {
        "VERSION": _uapi.kfab_version,
        "GETINFO": _uapi.kfab_getinfo,
        "CLOSE": _uapi.kfab_close,
        "BIND": _uapi.kfab_bind,
        "CONTROL": _uapi.kfab_control,
        "STRERROR": _uapi.kfab_strerror,
        "FABRIC_OPEN": _uapi.kfab_fabric_open,
        "DOMAIN_OPEN": _uapi.kfab_domain_open,
        "EQ_OPEN": _uapi.kfab_eq_open,
        "WAIT_OPEN": _uapi.kfab_wait_open,
        "CQ_OPEN": _uapi.kfab_cq_open,
        "CNTR_OPEN": _uapi.kfab_cntr_open,
        "POLL_OPEN": _uapi.kfab_poll_open,
        "PEP_OPEN": _uapi.kfab_pep_open,
        "EP_OPEN": _uapi.kfab_ep_open,
        "BUF_ALLOC": _uapi.kfab_buf_alloc,
        "MR_REG": _uapi.kfab_mr_reg,
        "LISTEN": _uapi.kfab_listen,
        "CONNECT": _uapi.kfab_connect,
        "ACCEPT": _uapi.kfab_connect,
        "REJECT": _uapi.kfab_reject,
        "SHUTDOWN": _uapi.kfab_shutdown,
        "GETNAME": _uapi.kfab_name,
        "GETPEER": _uapi.kfab_name,
        "RECV": _uapi.kfab_msg,
        "SEND": _uapi.kfab_msg,
        "READ": _uapi.kfab_rma,
        "WRITE": _uapi.kfab_rma,
        "CQ_READ": _uapi.kfab_cq_read,
        "CQ_SREAD": _uapi.kfab_cq_read,
        "CQ_READERR": _uapi.kfab_cq_readerr,
        "CQ_SIGNAL": _uapi.kfab_cq_signal,
        "EQ_READ": _uapi.kfab_eq_read,
        "EQ_SREAD": _uapi.kfab_eq_read,
        "EQ_READERR": _uapi.kfab_eq_readerr,
        "EQ_WRITE": _uapi.kfab_eq_write,
        "CNTR_READ": _uapi.kfab_cntr,
        "CNTR_READERR": _uapi.kfab_cntr,
        "CNTR_ADD": _uapi.kfab_cntr,
        "CNTR_SET": _uapi.kfab_cntr,
        "CNTR_ADDERR": _uapi.kfab_cntr,
        "CNTR_SETERR": _uapi.kfab_cntr,
        "CNTR_WAIT": _uapi.kfab_cntr_wait,
        "WAIT": _uapi.kfab_wait,
        "POLL_ADD": _uapi.kfab_poll_member,
        "POLL_DEL": _uapi.kfab_poll_member,
        "POLL": _uapi.kfab_poll,
        "TRYWAIT": _uapi.kfab_trywait,
        "POLLFD": _uapi.kfab_pollfd,
        "GETOPT": _uapi.kfab_opt,
        "SETOPT": _uapi.kfab_opt,
        "TRECV": _uapi.kfab_tmsg,
        "TSEND": _uapi.kfab_tmsg,
        "ATOMIC": _uapi.kfab_atomic,
        "FETCH_ATOMIC": _uapi.kfab_atomic,
        "COMPARE_ATOMIC": _uapi.kfab_atomic,
        "ATOMIC_VALID": _uapi.kfab_atomic_valid,
        "AV_OPEN": _uapi.kfab_av_open,
        "AV_INSERT": _uapi.kfab_av_insert,
        "AV_INSERTSVC": _uapi.kfab_av_insertsvc,
        "AV_REMOVE": _uapi.kfab_av_remove,
        "AV_LOOKUP": _uapi.kfab_av_lookup,
        "AV_STRADDR": _uapi.kfab_av_straddr,
        "SEP_OPEN": _uapi.kfab_sep_open,
        "TX_CTX_OPEN": _uapi.kfab_ctx_open,
        "RX_CTX_OPEN": _uapi.kfab_ctx_open,
        "CANCEL": _uapi.kfab_cancel,
        "CHANNEL_OPEN": _uapi.kfab_channel_open,
        "CHANNEL_BIND": _uapi.kfab_channel_bind,
        "REQ_NOTIFY": _uapi.kfab_req_notify,
        "GET_CQ_EVENT": _uapi.kfab_cq_event,
        "ACK_CQ_EVENTS": _uapi.kfab_ack_cq_events,
        "PROFILE_OPEN": _uapi.kfab_profile_open,
        "PROFILE_QUERY": _uapi.kfab_profile_query,
        "PROFILE_READ": _uapi.kfab_profile_read,
        "PROFILE_CONTROL": _uapi.kfab_profile_control,
        "PROFILE_EVENTS": _uapi.kfab_profile_events,
    }.items()
}

#: The fields that are handles, with the classes that will do.
HANDLES: dict[str, dict[str, str]] = {
    "BIND": {"handle": "ep pep sep tx rx mr", "to": "cq eq cntr av"},
    "CONTROL": {"handle": "cq eq cntr wait channel profile"},
    "STRERROR": {"handle": "cq eq"},
    "DOMAIN_OPEN": {"fabric": "fabric"},
    "EQ_OPEN": {"fabric": "fabric"},
    "WAIT_OPEN": {"fabric": "fabric"},
    "CQ_OPEN": {"domain": "domain"},
    "CNTR_OPEN": {"domain": "domain"},
    "POLL_OPEN": {"domain": "domain"},
    "PEP_OPEN": {"fabric": "fabric"},
    "EP_OPEN": {"domain": "domain"},
    "MR_REG": {"domain": "domain"},
    "LISTEN": {"pep": "pep"},
    "CONNECT": {"ep": "ep"},
    "ACCEPT": {"ep": "ep"},
    "REJECT": {"pep": "pep"},
    "SHUTDOWN": {"ep": "ep"},
    "GETNAME": {"handle": "ep pep sep"},
    "GETPEER": {"handle": "ep"},
    "RECV": {"ep": "ep rx"},
    "SEND": {"ep": "ep tx"},
    "READ": {"ep": "ep tx"},
    "WRITE": {"ep": "ep tx"},
    "CQ_READ": {"cq": "cq"},
    "CQ_SREAD": {"cq": "cq"},
    "CQ_READERR": {"cq": "cq"},
    "CQ_SIGNAL": {"cq": "cq"},
    "EQ_READ": {"eq": "eq"},
    "EQ_SREAD": {"eq": "eq"},
    "EQ_READERR": {"eq": "eq"},
    "EQ_WRITE": {"eq": "eq"},
    "CNTR_READ": {"cntr": "cntr"},
    "CNTR_READERR": {"cntr": "cntr"},
    "CNTR_ADD": {"cntr": "cntr"},
    "CNTR_SET": {"cntr": "cntr"},
    "CNTR_ADDERR": {"cntr": "cntr"},
    "CNTR_SETERR": {"cntr": "cntr"},
    "CNTR_WAIT": {"cntr": "cntr"},
    "WAIT": {"wait": "wait"},
    "POLL_ADD": {"poll": "poll", "handle": "cq eq cntr"},
    "POLL_DEL": {"poll": "poll", "handle": "cq eq cntr"},
    "POLL": {"poll": "poll"},
    "TRYWAIT": {"fabric": "fabric"},
    "POLLFD": {"wait": "wait"},
    "GETOPT": {"handle": "ep sep tx rx"},
    "SETOPT": {"handle": "ep sep tx rx"},
    "TRECV": {"ep": "ep rx"},
    "TSEND": {"ep": "ep tx"},
    "ATOMIC": {"ep": "ep tx"},
    "FETCH_ATOMIC": {"ep": "ep tx"},
    "COMPARE_ATOMIC": {"ep": "ep tx"},
    "ATOMIC_VALID": {"ep": "ep tx"},
    "AV_OPEN": {"domain": "domain"},
    "AV_INSERT": {"av": "av"},
    "AV_INSERTSVC": {"av": "av"},
    "AV_REMOVE": {"av": "av"},
    "AV_LOOKUP": {"av": "av"},
    "AV_STRADDR": {"av": "av"},
    "SEP_OPEN": {"domain": "domain"},
    "TX_CTX_OPEN": {"sep": "sep"},
    "RX_CTX_OPEN": {"sep": "sep"},
    "CANCEL": {"ep": "ep tx rx"},
    "CHANNEL_OPEN": {"fabric": "fabric"},
    "CHANNEL_BIND": {"cq": "cq", "channel": "channel"},
    "REQ_NOTIFY": {"cq": "cq"},
    "GET_CQ_EVENT": {"channel": "channel"},
    "ACK_CQ_EVENTS": {"cq": "cq"},
    "PROFILE_QUERY": {"profile": "profile"},
    "PROFILE_READ": {"profile": "profile"},
    "PROFILE_CONTROL": {"profile": "profile"},
    "PROFILE_EVENTS": {"profile": "profile"},
}


def number(nr: int, size: int = 8, magic: int = MAGIC, direction: int = BOTH) -> int:
    """Build an ioctl number as the _IOC macro does."""
    return direction << 30 | size << 16 | magic << 8 | nr


def ioctl(fd: int, request: int, address: int) -> int:
    """Call; return the result, or the error number negated."""
    result: int = _libc.ioctl(fd, request, address)
    return result if result >= 0 else -ctypes.get_errno()


def call(fd: int, name: str, arg: ctypes.Structure) -> int:
    """Make the named call with a structure, whose size is set first."""
    arg.size = ctypes.sizeof(arg)  # type: ignore[attr-defined]
    return ioctl(fd, CALLS[name][0], ctypes.addressof(arg))


def sample(name: str, **fields: Any) -> Any:
    """Return the structure of a call with these fields and else zeros."""
    return CALLS[name][1](**fields)


def text(result: int) -> str:
    """Name a result, for failure texts."""
    return errno.errorcode.get(-result, str(result))


@dataclass
class Pages:
    """Anonymous memory whose last page is missing: what crosses its end faults."""

    address: int
    length: int

    @classmethod
    def new(cls, pages: int = 1) -> Pages:
        """Map some pages and unmap the one behind."""
        length = pages * PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        rw = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(None, length + PAGE, rw, flags, -1, 0)
        assert address not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
        assert _libc.munmap(address + length, PAGE) == 0
        return cls(address, length)

    @property
    def end(self) -> int:
        """The first address that is not there."""
        return self.address + self.length

    def put(self, data: bytes, at_end: bool = False) -> int:
        """Copy data to the front, or to the very end; return its address."""
        address = self.end - len(data) if at_end else self.address
        ctypes.memmove(address, data, len(data))
        return address

    def read_only(self) -> None:
        """Forbid writing."""
        assert _libc.mprotect(self.address, self.length, mmap.PROT_READ) == 0

    def writable(self) -> None:
        """Allow writing."""
        assert _libc.mprotect(self.address, self.length, mmap.PROT_READ | mmap.PROT_WRITE) == 0

    def free(self) -> None:
        """Unmap all."""
        _libc.munmap(self.address, self.length)


def map_shared(fd: int, length: int, offset: int) -> int:
    """Map a buffer without Python's own copy of the descriptor; return the address."""
    rw = mmap.PROT_READ | mmap.PROT_WRITE
    address = _libc.mmap(None, length, rw, mmap.MAP_SHARED, fd, offset)
    assert address not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    result: int = address
    return result


def unmap(address: int, length: int) -> None:
    """Undo map_shared()."""
    assert _libc.munmap(address, length) == 0


def pages() -> Iterator[Pages]:
    """Give memory for one test (the body of a fixture)."""
    memory = Pages.new()
    yield memory
    memory.free()


def with_read_only(fd: int, memory: Pages, name: str, arg: Any) -> int:
    """Make a call whose structure can be read but not written."""
    arg.size = ctypes.sizeof(arg)
    address = memory.put(bytes(arg))
    memory.read_only()
    try:
        return ioctl(fd, CALLS[name][0], address)
    finally:
        memory.writable()
