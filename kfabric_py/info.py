# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Offers of providers, and hints for them: :class:`Info`.

The classes mirror the kernel's ``struct kfi_info`` and its attributes, field by
field. As hints, a field that is 0, empty or ``None`` matches anything. Lengths
are in bytes, counts and queue sizes in entries.
"""

from __future__ import annotations

import ctypes
import enum
import ipaddress
import socket
import struct
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from kfabric_py import _uapi
from kfabric_py.enums import (
    AddrFormat,
    AvType,
    Caps,
    EpType,
    Mode,
    MrMode,
    OpFlags,
    Order,
    Progress,
    Protocol,
    ResourceMgmt,
    Threading,
)

#: A numeric host (``"10.0.0.1"``, ``"fe80::1%eth0"``) and port; or, for formats
#: without a tuple in Python, the raw bytes.
Address = tuple[str, int] | bytes

_T = TypeVar("_T")

_NO_CAPS = Caps(0)
_NO_MODE = Mode(0)
_NO_FLAGS = OpFlags(0)
_NO_ORDER = Order(0)
_NO_MR_MODE = MrMode(0)


@dataclass(frozen=True, slots=True)
class TxAttr:
    """Transmit side of an endpoint (``struct kfi_tx_attr``)."""

    caps: Caps = _NO_CAPS
    mode: Mode = _NO_MODE
    op_flags: OpFlags = _NO_FLAGS
    msg_order: Order = _NO_ORDER
    comp_order: Order = _NO_ORDER
    inject_size: int = 0
    size: int = 0
    iov_limit: int = 0
    rma_iov_limit: int = 0
    tclass: int = 0


@dataclass(frozen=True, slots=True)
class RxAttr:
    """Receive side of an endpoint (``struct kfi_rx_attr``)."""

    caps: Caps = _NO_CAPS
    mode: Mode = _NO_MODE
    op_flags: OpFlags = _NO_FLAGS
    msg_order: Order = _NO_ORDER
    comp_order: Order = _NO_ORDER
    total_buffered_recv: int = 0
    size: int = 0
    iov_limit: int = 0


@dataclass(frozen=True, slots=True)
class EpAttr:
    """Endpoint as a whole (``struct kfi_ep_attr``)."""

    type: EpType = EpType.UNSPEC
    protocol: Protocol = Protocol.UNSPEC
    protocol_version: int = 0
    max_msg_size: int = 0
    msg_prefix_size: int = 0
    max_order_raw_size: int = 0
    max_order_war_size: int = 0
    max_order_waw_size: int = 0
    mem_tag_format: int = 0
    tx_ctx_cnt: int = 0
    rx_ctx_cnt: int = 0


@dataclass(frozen=True, slots=True)
class DomainAttr:
    """Domain: usually one device (``struct kfi_domain_attr``)."""

    name: str = ""
    threading: Threading = Threading.UNSPEC
    control_progress: Progress = Progress.UNSPEC
    data_progress: Progress = Progress.UNSPEC
    resource_mgmt: ResourceMgmt = ResourceMgmt.UNSPEC
    av_type: AvType = AvType.UNSPEC
    mr_mode: MrMode = _NO_MR_MODE
    mr_key_size: int = 0
    cq_data_size: int = 0
    cq_cnt: int = 0
    ep_cnt: int = 0
    tx_ctx_cnt: int = 0
    rx_ctx_cnt: int = 0
    max_ep_tx_ctx: int = 0
    max_ep_rx_ctx: int = 0
    cntr_cnt: int = 0
    mr_iov_limit: int = 0
    caps: Caps = _NO_CAPS
    mode: Mode = _NO_MODE
    max_err_data: int = 0
    mr_cnt: int = 0


@dataclass(frozen=True, slots=True)
class FabricAttr:
    """Fabric and its provider (``struct kfi_fabric_attr``)."""

    name: str = ""
    prov_name: str = ""
    prov_version: int = 0
    api_version: int = 0


@dataclass(frozen=True, slots=True)
class Info:
    """One offer of a provider (``struct kfi_info``).

    :func:`dataclasses.replace` makes a changed copy, for hints or to open an
    endpoint with other attributes than those offered.
    """

    caps: Caps = _NO_CAPS
    mode: Mode = _NO_MODE
    addr_format: AddrFormat = AddrFormat.UNSPEC
    src_addr: Address | None = None
    dest_addr: Address | None = None
    tx_attr: TxAttr = field(default_factory=TxAttr)
    rx_attr: RxAttr = field(default_factory=RxAttr)
    ep_attr: EpAttr = field(default_factory=EpAttr)
    domain_attr: DomainAttr = field(default_factory=DomainAttr)
    fabric_attr: FabricAttr = field(default_factory=FabricAttr)


def pack_address(address: Address) -> bytes:
    """Return an address in the form that the kernel takes.

    Raises:
        ValueError: the host is not numeric, the port is out of range, or the
            bytes are too many.
    """
    if isinstance(address, bytes):
        if len(address) > _uapi.KFAB_ADDR_MAX:
            raise ValueError(f"an address has at most {_uapi.KFAB_ADDR_MAX} bytes")
        return address
    host, port = address
    if not 0 <= port <= 0xFFFF:
        raise ValueError(f"port must be between 0 and 65535, not {port}")
    ip = ipaddress.ip_address(host)
    if isinstance(ip, ipaddress.IPv4Address):
        return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, ip.packed)
    head = struct.pack("=H", socket.AF_INET6) + struct.pack("!HI16s", port, 0, ip.packed)
    return head + struct.pack("=I", _scope(ip.scope_id))


def _scope(scope: str | None) -> int:
    if scope is None:
        return 0
    return int(scope) if scope.isdigit() else socket.if_nametoindex(scope)


def unpack_address(raw: bytes) -> Address | None:
    """Return the address in ``raw``: a tuple where Python has one, else the bytes."""
    if not raw:
        return None
    family = struct.unpack_from("=H", raw)[0] if len(raw) >= 2 else None
    # Addresses of other kinds are shorter, and may begin with anything.
    if family == socket.AF_INET and len(raw) >= 16:
        port, packed = struct.unpack_from("!H4s", raw, 2)
        return str(ipaddress.IPv4Address(packed)), port
    if family == socket.AF_INET6 and len(raw) >= 28:
        port, packed = struct.unpack_from("!H4x16s", raw, 2)
        scope = struct.unpack_from("=I", raw, 24)[0]
        return str(ipaddress.IPv6Address(packed)) + (f"%{scope}" if scope else ""), port
    return raw


def _raw_name(raw: _uapi.kfab_info, part: str, name: str) -> str:
    """Find the flat structure's field for ``name`` of the attribute ``part``."""
    prefixed = part.removesuffix("attr") + name
    return prefixed if hasattr(raw, prefixed) else name


def _to_python(kind: Any, value: Any) -> Any:
    """Turn one field of the flat structure into a value of the dataclass."""
    if kind is str:
        return bytes(value).split(b"\0", 1)[0].decode(errors="replace")
    if isinstance(kind, type) and issubclass(kind, enum.IntFlag):
        return kind(value)
    if isinstance(kind, type) and issubclass(kind, enum.IntEnum):
        # A newer kernel may have values unknown here; the number is still right.
        return kind(value) if value in kind._value2member_map_ else value
    return value


def _read(cls: Callable[..., _T], raw: _uapi.kfab_info, part: str = "") -> _T:
    kinds = typing.get_type_hints(cls)
    names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    return cls(**{n: _to_python(kinds[n], getattr(raw, _raw_name(raw, part, n))) for n in names})


def info_from_raw(raw: _uapi.kfab_info) -> Info:
    """Make an :class:`Info` of the flat structure that the kernel wrote."""
    return Info(
        caps=Caps(raw.caps),
        mode=Mode(raw.mode),
        addr_format=_to_python(AddrFormat, raw.addr_format),
        src_addr=unpack_address(bytes(raw.src_addr[: raw.src_addrlen])),
        dest_addr=unpack_address(bytes(raw.dest_addr[: raw.dest_addrlen])),
        tx_attr=_read(TxAttr, raw, "tx_attr"),
        rx_attr=_read(RxAttr, raw, "rx_attr"),
        ep_attr=_read(EpAttr, raw, "ep_attr"),
        domain_attr=_read(DomainAttr, raw, "domain_attr"),
        fabric_attr=_read(FabricAttr, raw, "fabric_attr"),
    )


def _write(part: Any, raw: _uapi.kfab_info, name: str = "") -> None:
    for f in fields(part):
        value = getattr(part, f.name)
        if isinstance(value, str):
            value = _string(value, f.name)
        raw_name = _raw_name(raw, name, f.name)
        setattr(raw, raw_name, value)
        # ctypes would cut a longer value off without an error.
        if isinstance(value, int) and getattr(raw, raw_name) != value:
            raise OverflowError(f"{f.name} does not fit: {value}")


def _string(text: str, what: str) -> ctypes.Array[ctypes.c_uint8]:
    data = text.encode()
    if len(data) >= _uapi.KFAB_NAME_MAX:
        raise ValueError(f"{what} is longer than {_uapi.KFAB_NAME_MAX - 1} bytes")
    return (ctypes.c_uint8 * _uapi.KFAB_NAME_MAX)(*data)


def info_to_raw(info: Info) -> _uapi.kfab_info:
    """Make the flat structure that the kernel reads.

    Raises:
        ValueError: an address or a name does not fit.
        OverflowError: a number does not fit.
    """
    raw = _uapi.kfab_info(size=ctypes.sizeof(_uapi.kfab_info))
    raw.caps, raw.mode, raw.addr_format = info.caps, info.mode, info.addr_format
    for name in ("src_addr", "dest_addr"):
        address = getattr(info, name)
        packed = b"" if address is None else pack_address(address)
        setattr(raw, name + "len", len(packed))
        setattr(raw, name, (ctypes.c_uint8 * _uapi.KFAB_ADDR_MAX)(*packed))
    for name in ("tx_attr", "rx_attr", "ep_attr", "domain_attr", "fabric_attr"):
        _write(getattr(info, name), raw, name)
    return raw
