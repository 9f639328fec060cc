# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""libfabric 1.17, as far as the comparison with it needs it.

The functions of libfabric's headers are calls through the tables of operations
that its objects carry; here the same is done with ctypes. TABLES and LAYOUTS say
where everything is, and a unit test compares them with the headers.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from ctypes import c_char_p, c_int, c_size_t, c_ssize_t, c_uint32, c_uint64, c_void_p
from typing import Any

from kfabric_py.errors import error_name

SONAME = "libfabric.so.1"
VERSION = 1 << 16 | 17

WAIT_OBJS = {
    "none": 0,
    "unspec": 1,
    "set": 2,
    "fd": 3,
    "mutex_cond": 4,
    "yield": 5,
    "pollfd": 6,
}
GETWAIT = 5
GETWAITOBJ = 16
ENABLE = 6
MSG = 1 << 1
RECV = 1 << 10
SEND = 1 << 11
TRANSMIT = SEND
EP_DGRAM = 2
EP_RDM = 3
AV_TABLE = 2
CQ_FORMAT_CONTEXT = 1
ADDR_UNSPEC = (1 << 64) - 1
ALL_MODES = (1 << 64) - 1
SOURCE = 1 << 57
WRITABLE = 1 << 9
BYTE = ctypes.create_string_buffer(1)

#: The operations of each kind of object in the order of their tables, which
#: begin with their size; as many as are needed.
TABLES: dict[str, tuple[str, ...]] = {
    "fi_ops": ("close", "bind", "control"),
    "fi_ops_fabric": ("domain", "passive_ep", "eq_open", "wait_open", "trywait"),
    "fi_ops_domain": (
        "av_open",
        "cq_open",
        "endpoint",
        "scalable_ep",
        "cntr_open",
        "poll_open",
    ),
    "fi_ops_av": ("insert",),
    "fi_ops_ep": ("cancel",),
    "fi_ops_cm": ("setname", "getname"),
    "fi_ops_msg": ("recv", "recvv", "recvmsg", "send"),
    "fi_ops_cq": ("read", "readfrom", "readerr", "sread", "sreadfrom", "signal"),
    "fi_ops_eq": ("read", "readerr", "write", "sread"),
    "fi_ops_cntr": ("read", "readerr", "add", "set", "wait", "adderr", "seterr"),
    "fi_ops_wait": ("wait",),
    "fi_ops_poll": ("poll", "poll_add", "poll_del"),
}


class Fid(ctypes.Structure):
    """struct fid, the beginning of every object, and the pointers behind it."""

    _fields_ = (
        ("fclass", c_size_t),
        ("context", c_void_p),
        ("ops", c_void_p),
        ("own", c_void_p),
        ("cm", c_void_p),
        ("msg", c_void_p),
    )


class WaitAttr(ctypes.Structure):
    """struct fi_wait_attr."""

    _fields_ = (("wait_obj", c_int), ("flags", c_uint64))


class PollAttr(ctypes.Structure):
    """struct fi_poll_attr."""

    _fields_ = (("flags", c_uint64),)


class CqAttr(ctypes.Structure):
    """struct fi_cq_attr."""

    _fields_ = (
        ("size", c_size_t),
        ("flags", c_uint64),
        ("format", c_int),
        ("wait_obj", c_int),
        ("signaling_vector", c_int),
        ("wait_cond", c_int),
        ("wait_set", c_void_p),
    )


class EqAttr(ctypes.Structure):
    """struct fi_eq_attr."""

    _fields_ = (
        ("size", c_size_t),
        ("flags", c_uint64),
        ("wait_obj", c_int),
        ("signaling_vector", c_int),
        ("wait_set", c_void_p),
    )


class CntrAttr(ctypes.Structure):
    """struct fi_cntr_attr."""

    _fields_ = (
        ("events", c_int),
        ("wait_obj", c_int),
        ("wait_set", c_void_p),
        ("flags", c_uint64),
    )


class AvAttr(ctypes.Structure):
    """struct fi_av_attr."""

    _fields_ = (
        ("type", c_int),
        ("rx_ctx_bits", c_int),
        ("count", c_size_t),
        ("ep_per_node", c_size_t),
        ("name", c_char_p),
        ("map_addr", c_void_p),
        ("flags", c_uint64),
    )


class EqEntry(ctypes.Structure):
    """struct fi_eq_entry."""

    _fields_ = (("fid", c_void_p), ("context", c_void_p), ("data", c_uint64))


class WaitPollfd(ctypes.Structure):
    """struct fi_wait_pollfd."""

    _fields_ = (("change_index", c_uint64), ("nfds", c_size_t), ("fd", c_void_p))


class Pollfd(ctypes.Structure):
    """struct pollfd of poll(2)."""

    _fields_ = (("fd", c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


class FabricAttr(ctypes.Structure):
    """struct fi_fabric_attr."""

    _fields_ = (
        ("fabric", c_void_p),
        ("name", c_void_p),
        ("prov_name", c_void_p),
        ("prov_version", c_uint32),
        ("api_version", c_uint32),
    )


class EpAttr(ctypes.Structure):
    """struct fi_ep_attr, its first member."""

    _fields_ = (("type", c_int),)


class Info(ctypes.Structure):
    """struct fi_info."""


Info._fields_ = (
    ("next", ctypes.POINTER(Info)),
    ("caps", c_uint64),
    ("mode", c_uint64),
    ("addr_format", c_uint32),
    ("src_addrlen", c_size_t),
    ("dest_addrlen", c_size_t),
    ("src_addr", c_void_p),
    ("dest_addr", c_void_p),
    ("handle", c_void_p),
    ("tx_attr", c_void_p),
    ("rx_attr", c_void_p),
    ("ep_attr", ctypes.POINTER(EpAttr)),
    ("domain_attr", c_void_p),
    ("fabric_attr", ctypes.POINTER(FabricAttr)),
    ("nic", c_void_p),
)

#: The structures and their names in C. Of those in PREFIXES only the beginning is here.
LAYOUTS: dict[str, type[ctypes.Structure]] = {
    "fi_wait_attr": WaitAttr,
    "fi_poll_attr": PollAttr,
    "fi_cq_attr": CqAttr,
    "fi_eq_attr": EqAttr,
    "fi_cntr_attr": CntrAttr,
    "fi_av_attr": AvAttr,
    "fi_eq_entry": EqEntry,
    "fi_wait_pollfd": WaitPollfd,
    "pollfd": Pollfd,
    "fi_fabric_attr": FabricAttr,
    "fi_ep_attr": EpAttr,
    "fi_info": Info,
}
PREFIXES = ("fi_ep_attr",)


class FiError(OSError):
    """A call that a scenario does not look at failed: the scenario cannot go on."""


def check(result: int, what: str) -> None:
    """Raise unless the call succeeded."""
    if result < 0:
        raise FiError(-result, f"{what}: {error_name(-result)}")


#: Among the arguments of Object.open(): where the new object's address goes.
OUT = object()


class Object:
    """An object of libfabric: an address, and calls through its tables."""

    def __init__(self, address: int, kind: str) -> None:
        """Take over what an open returned.

        Args:
            address: the object.
            kind: which table its own operations are in.
        """
        self.address = address
        self.kind = kind
        #: What must live as long as the object.
        self.keeps: list[object] = []

    def call(
        self,
        operation: str,
        *args: Any,
        types: Sequence[Any] = (),
        table: str = "own",
        result: Any = c_int,
    ) -> int:
        """Call one of the object's operations, without the interpreter's lock.

        Args:
            operation: its name in the table.
            args: what follows the object.
            types: their C types.
            table: the member of the object that points to the table.
            result: the C type of what it returns.
        """
        names = TABLES[self._table_name(table)]
        tables = getattr(Fid.from_address(self.address), table)
        at = tables + ctypes.sizeof(c_void_p) * (names.index(operation) + 1)
        function = c_void_p.from_address(at).value
        if not function:
            raise FiError(0, f"{self.kind} has no {operation}")
        value: int = ctypes.CFUNCTYPE(result, c_void_p, *types)(function)(self.address, *args)
        return value

    def _table_name(self, table: str) -> str:
        if table == "ops":
            return "fi_ops"
        return f"fi_ops_{self.kind if table == 'own' else table}"

    def open(self, operation: str, kind: str, *args: Any, types: Sequence[Any]) -> Object:
        """Call an operation that opens an object and writes its address to OUT.

        Raises:
            FiError: it failed.
        """
        out = c_void_p()
        given = [ctypes.addressof(out) if arg is OUT else arg for arg in args]
        check(self.call(operation, *given, types=types), operation)
        assert out.value is not None
        return Object(out.value, kind)

    def bind(self, other: Object, flags: int = 0) -> None:
        """fi_ep_bind()."""
        result = self.call("bind", other.address, flags, types=(c_void_p, c_uint64), table="ops")
        check(result, f"bind {other.kind}")

    def control(self, command: int, arg: Any) -> int:
        """fi_control()."""
        return self.call("control", command, arg, types=(c_int, c_void_p), table="ops")

    def close(self) -> int:
        """fi_close()."""
        return self.call("close", table="ops")


def load() -> None:
    """Load the library and have it look for its providers.

    It takes long, and leaves neither threads nor descriptors: to be done before a fork.

    Raises:
        FiError: there are none.
    """
    before = _descriptors()
    library = ctypes.CDLL(SONAME)
    found = ctypes.POINTER(Info)()
    arguments = (VERSION, None, None, c_uint64(0), None)
    check(library.fi_getinfo(*arguments, ctypes.byref(found)), "fi_getinfo")
    library.fi_freeinfo(found)
    # It keeps RDMA devices open, even those of providers that it is told to leave
    # out. While a device is open its link cannot be deleted: that would wait for ever.
    for fd in _descriptors() - before:
        os.close(fd)


def version() -> tuple[int, int]:
    """Return the version of the library that is installed, major and minor."""
    number = ctypes.CDLL(SONAME).fi_version()
    return number >> 16, number & 0xFFFF


def _descriptors() -> set[int]:
    """Return those that are open, without the one that lists them."""
    return {int(name) for name in os.listdir("/proc/self/fd") if _is_open(int(name))}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


class Fabric:
    """A provider's fabric and domain on the loopback address.

    Nothing is closed but what a scenario closes: each runs in a process of its own.
    """

    def __init__(self, provider: str, ep_type: int) -> None:
        """Open them.

        Args:
            provider: its name, such as ``"tcp;ofi_rxm"``.
            ep_type: EP_DGRAM or EP_RDM.

        Raises:
            FiError: the provider is not there.
        """
        self._library = ctypes.CDLL(SONAME)
        self._library.fi_dupinfo.restype = ctypes.POINTER(Info)
        hints = self._library.fi_dupinfo(None)
        name = ctypes.create_string_buffer(provider.encode())
        hints[0].caps = MSG
        hints[0].mode = ALL_MODES
        hints[0].ep_attr[0].type = ep_type
        hints[0].fabric_attr[0].prov_name = ctypes.addressof(name)
        self.info = ctypes.POINTER(Info)()
        arguments = (VERSION, b"127.0.0.1", None, c_uint64(SOURCE), hints)
        check(self._library.fi_getinfo(*arguments, ctypes.byref(self.info)), "fi_getinfo")
        hints[0].fabric_attr[0].prov_name = None
        self._library.fi_freeinfo(hints)
        fabric = c_void_p()
        attr = self.info[0].fabric_attr
        check(self._library.fi_fabric(attr, ctypes.byref(fabric), None), "fi_fabric")
        assert fabric.value is not None
        self.fabric = Object(fabric.value, "fabric")
        self.domain = self.fabric.open(
            "domain", "domain", self.info, OUT, None, types=(c_void_p,) * 3
        )
        self._av: Object | None = None

    def wait_set(self, wait_obj: str) -> Object:
        """fi_wait_open()."""
        attr = WaitAttr(wait_obj=WAIT_OBJS[wait_obj])
        return self.fabric.open(
            "wait_open", "wait", ctypes.addressof(attr), OUT, types=(c_void_p,) * 2
        )

    def poll_set(self) -> Object:
        """fi_poll_open()."""
        attr = PollAttr()
        return self.domain.open(
            "poll_open", "poll", ctypes.addressof(attr), OUT, types=(c_void_p,) * 2
        )

    def cq(self, context: int, wait_obj: str, wait_set: Object | None = None) -> Object:
        """fi_cq_open(); the context is a number."""
        attr = CqAttr(
            size=64, format=CQ_FORMAT_CONTEXT, wait_obj=WAIT_OBJS[wait_obj], wait_set=_at(wait_set)
        )
        return self._member(self.domain, "cq_open", "cq", attr, context)

    def counter(self, context: int, wait_obj: str, wait_set: Object | None = None) -> Object:
        """fi_cntr_open(); the context is a number."""
        attr = CntrAttr(wait_obj=WAIT_OBJS[wait_obj], wait_set=_at(wait_set))
        return self._member(self.domain, "cntr_open", "cntr", attr, context)

    def eq(self, context: int, wait_obj: str, wait_set: Object | None = None) -> Object:
        """fi_eq_open(), writable; the context is a number."""
        attr = EqAttr(size=64, flags=WRITABLE, wait_obj=WAIT_OBJS[wait_obj], wait_set=_at(wait_set))
        return self._member(self.fabric, "eq_open", "eq", attr, context)

    def _member(
        self, parent: Object, operation: str, kind: str, attr: ctypes.Structure, context: int
    ) -> Object:
        opened = parent.open(
            operation, kind, ctypes.addressof(attr), OUT, context, types=(c_void_p,) * 3
        )
        opened.keeps.append(attr)
        return opened

    def endpoint(self, *bound: tuple[Object, int]) -> Object:
        """Open an enabled endpoint with what is bound to it, and with which flags."""
        ep = self.domain.open("endpoint", "ep", self.info, OUT, None, types=(c_void_p,) * 3)
        ep.bind(self.av)
        for other, flags in bound:
            ep.bind(other, flags)
        check(ep.control(ENABLE, None), "enable")
        return ep

    @property
    def av(self) -> Object:
        """The address vector, shared by all endpoints."""
        if self._av is None:
            attr = AvAttr(type=AV_TABLE, count=64)
            self._av = self.domain.open(
                "av_open", "av", ctypes.addressof(attr), OUT, None, types=(c_void_p,) * 3
            )
        return self._av

    def address_of(self, ep: Object) -> int:
        """Put an endpoint's name into the address vector; return its address there."""
        name, size = ctypes.create_string_buffer(256), c_size_t(256)
        got = ep.call(
            "getname", name, ctypes.addressof(size), types=(c_void_p, c_void_p), table="cm"
        )
        check(got, "getname")
        address = c_uint64(ADDR_UNSPEC)
        types = (c_void_p, c_size_t, c_void_p, c_uint64, c_void_p)
        done = self.av.call("insert", name, 1, ctypes.addressof(address), 0, None, types=types)
        if done != 1:
            raise FiError(0, f"av_insert: {done}")
        return address.value


def _at(wait_set: Object | None) -> int | None:
    return None if wait_set is None else wait_set.address


def send(ep: Object, dest: int) -> int:
    """fi_send() of one byte."""
    types = (c_void_p, c_size_t, c_void_p, c_uint64, c_void_p)
    return ep.call("send", BYTE, 1, None, dest, None, types=types, table="msg", result=c_ssize_t)


def recv(ep: Object, context: int) -> int:
    """fi_recv() of one byte."""
    types = (c_void_p, c_size_t, c_void_p, c_uint64, c_void_p)
    return ep.call(
        "recv", BYTE, 1, None, ADDR_UNSPEC, context, types=types, table="msg", result=c_ssize_t
    )


def cancel(ep: Object, context: int) -> int:
    """fi_cancel()."""
    return ep.call("cancel", context, types=(c_void_p,), result=c_ssize_t)


def cq_read(cq: Object, count: int) -> int:
    """fi_cq_read(): the number of entries, or the error."""
    room = (c_void_p * max(count, 1))()
    types = (c_void_p, c_size_t)
    return cq.call("read", room, count, types=types, result=c_ssize_t)


def cq_sread(cq: Object, count: int, timeout: int) -> int:
    """fi_cq_sread()."""
    room = (c_void_p * max(count, 1))()
    types = (c_void_p, c_size_t, c_void_p, c_int)
    return cq.call("sread", room, count, None, timeout, types=types, result=c_ssize_t)


def eq_sread(eq: Object, timeout: int) -> int:
    """fi_eq_sread(): the size of the entry, or the error."""
    event, entry = c_uint32(), EqEntry()
    types = (c_void_p, c_void_p, c_size_t, c_int, c_uint64)
    return eq.call(
        "sread",
        ctypes.addressof(event),
        ctypes.addressof(entry),
        ctypes.sizeof(entry),
        timeout,
        0,
        types=types,
        result=c_ssize_t,
    )


def eq_write(eq: Object) -> int:
    """fi_eq_write() of FI_NOTIFY."""
    entry = EqEntry(fid=eq.address)
    types = (c_uint32, c_void_p, c_size_t, c_uint64)
    return eq.call(
        "write", 0, ctypes.addressof(entry), ctypes.sizeof(entry), 0, types=types, result=c_ssize_t
    )


def cntr_wait(cntr: Object, threshold: int, timeout: int) -> int:
    """fi_cntr_wait()."""
    return cntr.call("wait", threshold, timeout, types=(c_uint64, c_int))


def cntr_change(cntr: Object, operation: str, value: int) -> int:
    """fi_cntr_add(), _set(), _adderr() or _seterr()."""
    return cntr.call(operation, value, types=(c_uint64,))


def cntr_read(cntr: Object) -> int:
    """fi_cntr_read()."""
    return cntr.call("read", result=c_uint64)


def poll(poll_set: Object, count: int) -> list[int] | int:
    """fi_poll(): the contexts, or the error."""
    room = (c_void_p * max(count, 1))()
    got = poll_set.call("poll", room, count, types=(c_void_p, c_int))
    return got if got < 0 else [int(context or 0) for context in room[:got]]


def poll_member(poll_set: Object, operation: str, member: Object) -> int:
    """fi_poll_add() or fi_poll_del(), as poll_add or poll_del."""
    return poll_set.call(operation, member.address, 0, types=(c_void_p, c_uint64))


def trywait(fabric: Object, *objects: Object) -> int:
    """fi_trywait()."""
    fids = (c_void_p * len(objects))(*(each.address for each in objects))
    return fabric.call("trywait", fids, len(objects), types=(c_void_p, c_int))


def wait(wait_set: Object, timeout: int) -> int:
    """fi_wait()."""
    return wait_set.call("wait", timeout, types=(c_int,))
