# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""RDMA CM through its device file: identifiers, events and their private data.

pyverbs.cmid has no private data. librdmacm, below it, keeps a context of the device until the
process ends, and a device with a context cannot be removed. Hence the kernel's own interface,
<rdma/rdma_user_cm.h>. Queue pairs are pyverbs' own; their user moves them to their states.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
import os
import socket
import struct
from dataclasses import dataclass

from kfabric.guest import modules as guest_modules

DEVICE = "/dev/infiniband/rdma_cm"
PS_TCP, RC = 0x0106, 2
BACKLOG = 16
RESOLVE_MS = 5000
_CONSUMER_DEFINED = 28

_HEAD = struct.Struct("=IHH")
#: rdma_ucm_conn_param: qp_num, qkey, private data and its length, srq, responder resources,
#: initiator depth, flow control, retries, retries without a receive, valid.
_PARAM = struct.Struct("=II256sBBBBBBBB")
#: rdma_ucm_event_resp up to its union, and all of it.
_EVENT = struct.Struct("=QIIi")
_EVENT_SIZE = 336
_QP_ATTR_SIZE = 144
_OPTION_IB, _OPTION_IB_PATH = 1, 1
#: Primary, in both directions, and for RDMA CM's own messages as well.
_PATH_FLAGS = 0x2B
#: Of a path record: one reversible path; the selector "exactly"; 10 Gbit/s; routers on the way.
_REVERSIBLE, _EXACTLY, _RATE, _HOPS = 0x81, 0x80, 3, 64


class Command(enum.IntEnum):
    """Commands of the device file."""

    CREATE_ID = 0
    DESTROY_ID = 1
    RESOLVE_ROUTE = 4
    CONNECT = 6
    LISTEN = 7
    ACCEPT = 8
    REJECT = 9
    DISCONNECT = 10
    INIT_QP_ATTR = 11
    GET_EVENT = 12
    SET_OPTION = 14
    BIND = 20
    RESOLVE_ADDR = 21


class Kind(enum.IntEnum):
    """Kinds of events."""

    ADDR_RESOLVED = 0
    ADDR_ERROR = 1
    ROUTE_RESOLVED = 2
    ROUTE_ERROR = 3
    CONNECT_REQUEST = 4
    CONNECT_RESPONSE = 5
    CONNECT_ERROR = 6
    UNREACHABLE = 7
    REJECTED = 8
    ESTABLISHED = 9
    DISCONNECTED = 10
    DEVICE_REMOVAL = 11
    MULTICAST_JOIN = 12
    MULTICAST_ERROR = 13
    ADDR_CHANGE = 14
    TIMEWAIT_EXIT = 15


@dataclass(frozen=True)
class Event:
    """An event.

    Attributes:
        id: the identifier; that of the new connection if it is a request.
        private: the peer's private data, padded with zeros by RDMA CM.
    """

    kind: Kind
    id: int
    status: int
    private: bytes
    responder_resources: int
    initiator_depth: int


@dataclass(frozen=True)
class QpAttr:
    """What RDMA CM knows of a connection's queue pair."""

    path_mtu: int
    rq_psn: int
    sq_psn: int
    dest_qp_num: int
    dgid: bytes
    sgid_index: int
    timeout: int
    retry_cnt: int

    @classmethod
    def unpack(cls, raw: bytes) -> QpAttr:
        """Read it from struct ib_uverbs_qp_attr."""
        path_mtu, rq_psn, sq_psn, dest_qp_num = struct.unpack_from("=12xI8xIII", raw)
        return cls(path_mtu, rq_psn, sq_psn, dest_qp_num, raw[40:56], raw[60], raw[134], raw[135])


#: Codes of path MTUs that there are not, below and above the others.
NO_MTUS = (0, 6, 63)


@dataclass(frozen=True)
class Path:
    """A route between two IPv4 addresses over RoCE, as a connect request has it.

    Attributes:
        mtu: its code: 1 is 256 bytes, 5 is 4096.
        life: packets live 2^life times 4.096 µs, which decides about the peer's ack timeout.
    """

    source: str
    remote: str
    mtu: int = 3
    life: int = 16

    def pack(self) -> bytes:
        """struct ib_path_rec_data: flags, and a path record of the subnet administration."""
        gids = b"".join(
            bytes(10) + b"\xff\xff" + socket.inet_aton(ip) for ip in (self.remote, self.source)
        )
        # No lids, flow or class; the key of the default partition.
        middle = bytes(4) + bytes([0, 0, 0, _HOPS, 0, _REVERSIBLE, 0xFF, 0xFF, 0, 0])
        exact = bytes(_EXACTLY | code for code in (self.mtu, _RATE, self.life))
        record = bytes(8) + gids + middle + exact
        return struct.pack("=I4x64s", _PATH_FLAGS, record)


class Broken(ConnectionError):
    """The connection has ended."""


class Refused(ConnectionError):
    """The connect request was rejected; `private` is the private data, if there was any."""

    def __init__(self, event: Event) -> None:
        super().__init__(f"{event.kind.name} {event.status}")
        self.private = event.private


def _sockaddr(ip: str, port: int) -> bytes:
    inet = struct.pack("!H4s", port, socket.inet_aton(ip))
    return struct.pack("=H126s", socket.AF_INET, inet)


_SOCKADDR_IN_SIZE = 16


class Channel:
    """An open device file, and the calls on its identifiers, which are plain numbers."""

    def __init__(self) -> None:
        guest_modules.need(["rdma_ucm"])
        self.fd = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        # Without one, an identifier gets no events.
        self._uids = itertools.count(1)

    def close(self) -> None:
        """Close it, which destroys its identifiers."""
        os.close(self.fd)

    def next(self) -> Event | None:
        """Return the next event, or None."""
        try:
            raw = self._ask(Command.GET_EVENT, b"", _EVENT_SIZE)
        except BlockingIOError:
            return None
        _, id, kind, status = _EVENT.unpack_from(raw)
        _, _, private, length, _, resources, depth, *_ = _PARAM.unpack_from(raw, _EVENT.size)
        return Event(Kind(kind), id, status, private[:length], resources, depth)

    def create(self) -> int:
        """Create an identifier."""
        tail = struct.pack("=HB5x", PS_TCP, RC)
        raw = self._ask(Command.CREATE_ID, tail, 4, struct.pack("=Q", next(self._uids)))
        return int.from_bytes(raw, "little")

    def destroy(self, id: int) -> None:
        """Destroy an identifier, which disconnects it."""
        self._ask(Command.DESTROY_ID, struct.pack("=II", id, 0), 4)

    def listen(self, id: int, ip: str, port: int) -> None:
        """Listen at an address."""
        head = struct.pack("=IHH", id, _SOCKADDR_IN_SIZE, 0)
        self._do(Command.BIND, head + _sockaddr(ip, port))
        self._do(Command.LISTEN, struct.pack("=II", id, BACKLOG))

    def resolve_addr(self, id: int, source: str, ip: str, port: int) -> None:
        """Begin to resolve an address."""
        sizes = _SOCKADDR_IN_SIZE, _SOCKADDR_IN_SIZE
        head = struct.pack("=IIHHI", id, RESOLVE_MS, *sizes, 0)
        self._do(Command.RESOLVE_ADDR, head + _sockaddr(source, 0) + _sockaddr(ip, port))

    def resolve_route(self, id: int) -> None:
        """Begin to resolve the route."""
        self._do(Command.RESOLVE_ROUTE, struct.pack("=II", id, RESOLVE_MS))

    def set_path(self, id: int, path: Path) -> None:
        """Give the route instead of having it resolved; ROUTE_RESOLVED comes all the same."""
        record = path.pack()
        memory = ctypes.create_string_buffer(record, len(record))
        where = ctypes.addressof(memory)
        option = struct.pack("=QIIII", where, id, _OPTION_IB, _OPTION_IB_PATH, len(record))
        self._do(Command.SET_OPTION, option)

    def connect(self, id: int, qpn: int, private: bytes, reads: int, retries: int = 6) -> None:
        """Send a connect request."""
        tail = struct.pack("=II8x", id, 0)
        self._do(Command.CONNECT, self._param(qpn, private, reads, retries) + tail)

    def establish(self, id: int) -> None:
        """Complete a connection after CONNECT_RESPONSE."""
        tail = struct.pack("=II8x", id, 0)
        self._do(Command.ACCEPT, bytes(8 + _PARAM.size) + tail)

    def accept(self, id: int, qpn: int, private: bytes, reads: int) -> None:
        """Accept a request."""
        head, tail = struct.pack("=Q", next(self._uids)), struct.pack("=II8x", id, 0)
        self._do(Command.ACCEPT, head + self._param(qpn, private, reads) + tail)

    def reject(self, id: int, private: bytes) -> None:
        """Reject a request."""
        head = struct.pack("=IBB2x256s", id, len(private), _CONSUMER_DEFINED, private)
        self._do(Command.REJECT, head)

    def disconnect(self, id: int) -> None:
        """End a connection."""
        self._do(Command.DISCONNECT, struct.pack("=I", id))

    def qp_attr(self, id: int, state: int) -> QpAttr:
        """Return the attributes with which the queue pair of a connection enters a state."""
        raw = self._ask(Command.INIT_QP_ATTR, struct.pack("=II", id, state), _QP_ATTR_SIZE)
        return QpAttr.unpack(raw)

    @staticmethod
    def _param(qpn: int, private: bytes, reads: int, retries: int = 6) -> bytes:
        return _PARAM.pack(qpn, 0, private, len(private), 0, reads, reads, 0, retries, 7, 1)

    def _do(self, command: Command, data: bytes) -> None:
        os.write(self.fd, _HEAD.pack(command, len(data), 0) + data)

    def _ask(self, command: Command, data: bytes, size: int, before: bytes = b"") -> bytes:
        """A command with a response, whose address follows `before`."""
        memory = ctypes.create_string_buffer(size)
        whole = before + struct.pack("=Q", ctypes.addressof(memory)) + data
        os.write(self.fd, _HEAD.pack(command, len(whole), size) + whole)
        return memory.raw
