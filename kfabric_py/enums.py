# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""kfabric's flags and enumerations, by their kfabric names in Python's case.

``KFI_EP_MSG`` is :attr:`EpType.MSG`. The C interface gives one bit several
meanings in different calls. Here each kind of call has a class of its own, so that
a flag for another call is a type error.
"""

from __future__ import annotations

import enum

from kfabric_py import _uapi


class Caps(enum.IntFlag):
    """Capabilities of a provider or endpoint (``caps``)."""

    MSG = _uapi.KFAB_MSG
    RMA = _uapi.KFAB_RMA
    TAGGED = _uapi.KFAB_TAGGED
    ATOMIC = _uapi.KFAB_ATOMIC
    MULTICAST = _uapi.KFAB_MULTICAST
    TAGGED_RMA = _uapi.KFAB_TAGGED_RMA
    READ = _uapi.KFAB_READ
    WRITE = _uapi.KFAB_WRITE
    RECV = _uapi.KFAB_RECV
    SEND = _uapi.KFAB_SEND
    REMOTE_READ = _uapi.KFAB_REMOTE_READ
    REMOTE_WRITE = _uapi.KFAB_REMOTE_WRITE
    MULTI_RECV = _uapi.KFAB_MULTI_RECV
    LOCAL_COMM = _uapi.KFAB_LOCAL_COMM
    REMOTE_COMM = _uapi.KFAB_REMOTE_COMM
    SHARED_AV = _uapi.KFAB_SHARED_AV
    RMA_EVENT = _uapi.KFAB_RMA_EVENT
    SOURCE = _uapi.KFAB_SOURCE
    NAMED_RX_CTX = _uapi.KFAB_NAMED_RX_CTX
    DIRECTED_RECV = _uapi.KFAB_DIRECTED_RECV


class Mode(enum.IntFlag):
    """Requirements of a provider on its callers (``mode``)."""

    RESTRICTED_COMP = _uapi.KFAB_RESTRICTED_COMP
    NOTIFY_FLAGS_ONLY = _uapi.KFAB_NOTIFY_FLAGS_ONLY
    LOCAL_MR = _uapi.KFAB_LOCAL_MR
    RX_CQ_DATA = _uapi.KFAB_RX_CQ_DATA
    ASYNC_IOV = _uapi.KFAB_ASYNC_IOV
    MSG_PREFIX = _uapi.KFAB_MSG_PREFIX
    CONTEXT = _uapi.KFAB_CONTEXT


class OpFlags(enum.IntFlag):
    """Flags of one operation (``flags`` of a post, ``op_flags``)."""

    TAGGED = _uapi.KFAB_TAGGED
    MULTI_RECV = _uapi.KFAB_MULTI_RECV
    MORE = _uapi.KFAB_MORE
    FENCE = _uapi.KFAB_FENCE
    COMPLETION = _uapi.KFAB_COMPLETION
    INJECT = _uapi.KFAB_INJECT
    INJECT_COMPLETE = _uapi.KFAB_INJECT_COMPLETE
    TRANSMIT_COMPLETE = _uapi.KFAB_TRANSMIT_COMPLETE
    DELIVERY_COMPLETE = _uapi.KFAB_DELIVERY_COMPLETE
    COMMIT_COMPLETE = _uapi.KFAB_COMMIT_COMPLETE
    SOLICITED = _uapi.KFAB_SOLICITED


class CqFlags(enum.IntFlag):
    """Kind of a completed operation (``flags`` of a CQ entry)."""

    MSG = _uapi.KFAB_MSG
    RMA = _uapi.KFAB_RMA
    TAGGED = _uapi.KFAB_TAGGED
    ATOMIC = _uapi.KFAB_ATOMIC
    READ = _uapi.KFAB_READ
    WRITE = _uapi.KFAB_WRITE
    RECV = _uapi.KFAB_RECV
    SEND = _uapi.KFAB_SEND
    REMOTE_READ = _uapi.KFAB_REMOTE_READ
    REMOTE_WRITE = _uapi.KFAB_REMOTE_WRITE
    MULTI_RECV = _uapi.KFAB_MULTI_RECV
    REMOTE_CQ_DATA = _uapi.KFAB_REMOTE_CQ_DATA


class Access(enum.IntFlag):
    """Operations that may use a memory region."""

    SEND = _uapi.KFAB_SEND
    RECV = _uapi.KFAB_RECV
    READ = _uapi.KFAB_READ
    WRITE = _uapi.KFAB_WRITE
    REMOTE_READ = _uapi.KFAB_REMOTE_READ
    REMOTE_WRITE = _uapi.KFAB_REMOTE_WRITE


class MrMode(enum.IntFlag):
    """Requirements on memory registration (``mr_mode``)."""

    LOCAL = _uapi.KFAB_MR_LOCAL
    RAW = _uapi.KFAB_MR_RAW
    VIRT_ADDR = _uapi.KFAB_MR_VIRT_ADDR
    PROV_KEY = _uapi.KFAB_MR_PROV_KEY
    RMA_EVENT = _uapi.KFAB_MR_RMA_EVENT
    ENDPOINT = _uapi.KFAB_MR_ENDPOINT


class Order(enum.IntFlag):
    """Operations that keep their order: R read, W write, S send; first after second."""

    RAR = _uapi.KFAB_ORDER_RAR
    RAW = _uapi.KFAB_ORDER_RAW
    RAS = _uapi.KFAB_ORDER_RAS
    WAR = _uapi.KFAB_ORDER_WAR
    WAW = _uapi.KFAB_ORDER_WAW
    WAS = _uapi.KFAB_ORDER_WAS
    SAR = _uapi.KFAB_ORDER_SAR
    SAW = _uapi.KFAB_ORDER_SAW
    SAS = _uapi.KFAB_ORDER_SAS
    DATA = _uapi.KFAB_ORDER_DATA


class AddrFormat(enum.IntEnum):
    """Format of addresses (``addr_format``)."""

    UNSPEC = _uapi.KFAB_FORMAT_UNSPEC
    SOCKADDR = _uapi.KFAB_SOCKADDR
    SOCKADDR_IN = _uapi.KFAB_SOCKADDR_IN
    SOCKADDR_IN6 = _uapi.KFAB_SOCKADDR_IN6
    SOCKADDR_IB = _uapi.KFAB_SOCKADDR_IB
    ADDR_GNI = _uapi.KFAB_ADDR_GNI
    ADDR_CXI = _uapi.KFAB_ADDR_CXI


class EpType(enum.IntEnum):
    """Kind of endpoint: connected, datagram, reliable datagram."""

    UNSPEC = _uapi.KFAB_EP_UNSPEC
    MSG = _uapi.KFAB_EP_MSG
    DGRAM = _uapi.KFAB_EP_DGRAM
    RDM = _uapi.KFAB_EP_RDM


class Protocol(enum.IntEnum):
    """Wire protocol of an endpoint."""

    UNSPEC = _uapi.KFAB_PROTO_UNSPEC
    RDMA_CM_IB_RC = _uapi.KFAB_PROTO_RDMA_CM_IB_RC
    IWARP = _uapi.KFAB_PROTO_IWARP


class Threading(enum.IntEnum):
    """Calls that may be made at the same time."""

    UNSPEC = _uapi.KFAB_THREAD_UNSPEC
    SAFE = _uapi.KFAB_THREAD_SAFE
    FID = _uapi.KFAB_THREAD_FID
    DOMAIN = _uapi.KFAB_THREAD_DOMAIN
    COMPLETION = _uapi.KFAB_THREAD_COMPLETION
    ENDPOINT = _uapi.KFAB_THREAD_ENDPOINT


class Progress(enum.IntEnum):
    """Progress of operations: by the provider, or by the caller's reads and polls."""

    UNSPEC = _uapi.KFAB_PROGRESS_UNSPEC
    AUTO = _uapi.KFAB_PROGRESS_AUTO
    MANUAL = _uapi.KFAB_PROGRESS_MANUAL


class ResourceMgmt(enum.IntEnum):
    """Whether the provider guards queues against overrun."""

    UNSPEC = _uapi.KFAB_RM_UNSPEC
    DISABLED = _uapi.KFAB_RM_DISABLED
    ENABLED = _uapi.KFAB_RM_ENABLED


class AvType(enum.IntEnum):
    """Kind of address vector."""

    UNSPEC = _uapi.KFAB_AV_UNSPEC
    MAP = _uapi.KFAB_AV_MAP
    TABLE = _uapi.KFAB_AV_TABLE


class Datatype(enum.IntEnum):
    """Type of the elements of an atomic."""

    INT8 = _uapi.KFAB_INT8
    UINT8 = _uapi.KFAB_UINT8
    INT16 = _uapi.KFAB_INT16
    UINT16 = _uapi.KFAB_UINT16
    INT32 = _uapi.KFAB_INT32
    UINT32 = _uapi.KFAB_UINT32
    INT64 = _uapi.KFAB_INT64
    UINT64 = _uapi.KFAB_UINT64
    FLOAT = _uapi.KFAB_FLOAT
    DOUBLE = _uapi.KFAB_DOUBLE
    FLOAT_COMPLEX = _uapi.KFAB_FLOAT_COMPLEX
    DOUBLE_COMPLEX = _uapi.KFAB_DOUBLE_COMPLEX
    LONG_DOUBLE = _uapi.KFAB_LONG_DOUBLE
    LONG_DOUBLE_COMPLEX = _uapi.KFAB_LONG_DOUBLE_COMPLEX


class AtomicOp(enum.IntEnum):
    """Operation of an atomic on each element (L: logical, B: bitwise)."""

    MIN = _uapi.KFAB_MIN
    MAX = _uapi.KFAB_MAX
    SUM = _uapi.KFAB_SUM
    PROD = _uapi.KFAB_PROD
    LOR = _uapi.KFAB_LOR
    LAND = _uapi.KFAB_LAND
    BOR = _uapi.KFAB_BOR
    BAND = _uapi.KFAB_BAND
    LXOR = _uapi.KFAB_LXOR
    BXOR = _uapi.KFAB_BXOR
    READ = _uapi.KFAB_ATOMIC_READ
    WRITE = _uapi.KFAB_ATOMIC_WRITE
    CSWAP = _uapi.KFAB_CSWAP
    CSWAP_NE = _uapi.KFAB_CSWAP_NE
    CSWAP_LE = _uapi.KFAB_CSWAP_LE
    CSWAP_LT = _uapi.KFAB_CSWAP_LT
    CSWAP_GE = _uapi.KFAB_CSWAP_GE
    CSWAP_GT = _uapi.KFAB_CSWAP_GT
    MSWAP = _uapi.KFAB_MSWAP


class AtomicKind(enum.IntEnum):
    """The three kinds of atomic calls."""

    PLAIN = _uapi.KFAB_ATOMIC_PLAIN
    FETCH = _uapi.KFAB_ATOMIC_FETCH
    COMPARE = _uapi.KFAB_ATOMIC_COMPARE


class WaitObj(enum.IntEnum):
    """Kind of wait object of an object or a wait set.

    Blocking calls work with all but ``NONE`` and, on the members of a wait set,
    ``SET``. They differ in the descriptors: with ``FD`` the object has descriptors,
    with ``POLLFD`` (wait sets only) each member has one. ``YIELD`` never sleeps, but
    yields the CPU at every turn. ``QUEUE``
    and ``MUTEX_COND`` are for code in the kernel.
    """

    NONE = _uapi.KFAB_WAIT_NONE
    UNSPEC = _uapi.KFAB_WAIT_UNSPEC
    SET = _uapi.KFAB_WAIT_SET
    QUEUE = _uapi.KFAB_WAIT_QUEUE
    MUTEX_COND = _uapi.KFAB_WAIT_MUTEX_COND
    FD = _uapi.KFAB_WAIT_FD
    POLLFD = _uapi.KFAB_WAIT_POLLFD
    YIELD = _uapi.KFAB_WAIT_YIELD


class CqFormat(enum.IntEnum):
    """Fields of the entries of a CQ; each format adds some to the one before."""

    UNSPEC = _uapi.KFAB_CQ_FORMAT_UNSPEC
    CONTEXT = _uapi.KFAB_CQ_FORMAT_CONTEXT
    MSG = _uapi.KFAB_CQ_FORMAT_MSG
    DATA = _uapi.KFAB_CQ_FORMAT_DATA
    TAGGED = _uapi.KFAB_CQ_FORMAT_TAGGED


class Event(enum.IntEnum):
    """Kind of an event (``event`` of an EQ entry)."""

    NOTIFY = _uapi.KFAB_NOTIFY
    CONNREQ = _uapi.KFAB_CONNREQ
    CONNECTED = _uapi.KFAB_CONNECTED
    SHUTDOWN = _uapi.KFAB_SHUTDOWN
    MR_COMPLETE = _uapi.KFAB_MR_COMPLETE
    AV_COMPLETE = _uapi.KFAB_AV_COMPLETE
    JOIN_COMPLETE = _uapi.KFAB_JOIN_COMPLETE
