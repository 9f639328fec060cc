# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""kfabric from Python, through ``/dev/kfabric``.

Open a :class:`Device`, list the offers of the providers with
:meth:`Device.getinfo`, and open a fabric, a domain, queues and endpoints from
there. Every object is a context manager. Timeouts are in seconds, ``None`` means
no limit::

    with kfabric_py.Device() as dev:
        info = dev.getinfo(provider="verbs", dest=("10.77.0.1", 7471))[0]
        with dev.fabric(info) as fabric, fabric.domain(info) as domain:
            ...
"""

from kfabric_py.av import AddressVector
from kfabric_py.channel import CompChannel, CqEvent
from kfabric_py.cm import ConnectionRequest, PassiveEndpoint
from kfabric_py.counters import Counter
from kfabric_py.device import Device, Version
from kfabric_py.domain import Domain
from kfabric_py.endpoint import Endpoint
from kfabric_py.enums import (
    Access,
    AddrFormat,
    AtomicKind,
    AtomicOp,
    AvType,
    Caps,
    CqFlags,
    CqFormat,
    Datatype,
    EpType,
    Event,
    Mode,
    MrMode,
    OpFlags,
    Order,
    Progress,
    Protocol,
    ResourceMgmt,
    Threading,
    WaitObj,
)
from kfabric_py.errors import (
    Again,
    BadState,
    Busy,
    ClosedError,
    ConnectionRefused,
    DeviceLost,
    ErrorAvailable,
    KfabricErrno,
    KfiError,
    KfiTimeout,
    NoMatch,
    NotFound,
    NotSupported,
    Overrun,
    PermissionDenied,
    TooSmall,
    error_name,
)
from kfabric_py.fabric import Fabric
from kfabric_py.info import (
    Address,
    DomainAttr,
    EpAttr,
    FabricAttr,
    Info,
    RxAttr,
    TxAttr,
)
from kfabric_py.memory import Buffer, MemoryRegion, RemoteRegion, Segment
from kfabric_py.posting import ANY
from kfabric_py.profile import Message, Profile, ProfileEvent, Variable
from kfabric_py.queues import (
    CQ_ENTRY_FIELDS,
    CompletionQueue,
    CqEntry,
    CqError,
    EqError,
    EqEvent,
    EventQueue,
)
from kfabric_py.rdm import RdmEndpoint, ReceiveContext, ScalableEndpoint, TransmitContext
from kfabric_py.sets import PollFds, PollSet, WaitSet

__all__ = [
    "ANY",
    "CQ_ENTRY_FIELDS",
    "Access",
    "AddrFormat",
    "Address",
    "AddressVector",
    "Again",
    "AtomicKind",
    "AtomicOp",
    "AvType",
    "BadState",
    "Buffer",
    "Busy",
    "Caps",
    "ClosedError",
    "CompChannel",
    "CompletionQueue",
    "ConnectionRefused",
    "ConnectionRequest",
    "Counter",
    "CqEntry",
    "CqError",
    "CqEvent",
    "CqFlags",
    "CqFormat",
    "Datatype",
    "Device",
    "DeviceLost",
    "Domain",
    "DomainAttr",
    "Endpoint",
    "EpAttr",
    "EpType",
    "EqError",
    "EqEvent",
    "ErrorAvailable",
    "Event",
    "EventQueue",
    "Fabric",
    "FabricAttr",
    "Info",
    "KfabricErrno",
    "KfiError",
    "KfiTimeout",
    "MemoryRegion",
    "Message",
    "Mode",
    "MrMode",
    "NoMatch",
    "NotFound",
    "NotSupported",
    "OpFlags",
    "Order",
    "Overrun",
    "PassiveEndpoint",
    "PermissionDenied",
    "PollFds",
    "PollSet",
    "Profile",
    "ProfileEvent",
    "Progress",
    "Protocol",
    "RdmEndpoint",
    "ReceiveContext",
    "RemoteRegion",
    "ResourceMgmt",
    "RxAttr",
    "ScalableEndpoint",
    "Segment",
    "Threading",
    "TooSmall",
    "TransmitContext",
    "TxAttr",
    "Variable",
    "Version",
    "WaitObj",
    "WaitSet",
    "error_name",
]
