# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Info, addresses and their flat form in the ioctl interface."""

from __future__ import annotations

import ctypes
import dataclasses
import random
import socket
from typing import Any

import pytest

from kfabric_py import _uapi
from kfabric_py.enums import Caps, EpType, OpFlags
from kfabric_py.info import (
    Address,
    DomainAttr,
    EpAttr,
    FabricAttr,
    Info,
    RxAttr,
    TxAttr,
    info_from_raw,
    info_to_raw,
    pack_address,
    unpack_address,
)


def _filled(part: Any, number: random.Random) -> Any:
    """Return a copy of a part with every number and flag field set to something."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if type(value) is int:
            changes[field.name] = number.randrange(1, 2**31)
        elif isinstance(value, str):
            changes[field.name] = f"name{number.randrange(1000)}"
    return dataclasses.replace(part, **changes)


def test_info_survives_the_flat_form() -> None:
    seed = 497
    number = random.Random(seed)
    info = Info(
        caps=Caps.MSG | Caps.RMA,
        src_addr=("10.77.0.1", 7471),
        dest_addr=("fe80::2%3", 1),
        tx_attr=dataclasses.replace(_filled(TxAttr(), number), op_flags=OpFlags.COMPLETION),
        rx_attr=_filled(RxAttr(), number),
        ep_attr=dataclasses.replace(_filled(EpAttr(), number), type=EpType.MSG),
        domain_attr=_filled(DomainAttr(), number),
        fabric_attr=_filled(FabricAttr(), number),
    )
    raw = info_to_raw(info)
    assert raw.size == ctypes.sizeof(raw)
    assert info_from_raw(raw) == info, f"seed {seed}"


def test_every_flat_field_is_covered() -> None:
    """A field that the header gains must not be forgotten here."""
    raw = _uapi.kfab_info()
    ctypes.memset(ctypes.addressof(raw), 0x01, ctypes.sizeof(raw))
    raw.src_addrlen = raw.dest_addrlen = 16
    for name in ("domain_name", "fabric_name", "prov_name"):
        getattr(raw, name)[-1] = 0
    known = ("size", "flags", "__reserved")
    again = info_to_raw(info_from_raw(raw))
    for name, *_ in _uapi.kfab_info._fields_:
        value, expected = getattr(again, name), getattr(raw, name)
        if isinstance(value, ctypes.Array):
            # Addresses are cut to their length, names keep room for the zero.
            assert bytes(value)[:16] == bytes(expected)[:16], name
        elif name not in known:
            assert value == expected, name


@pytest.mark.parametrize(
    ("address", "size"),
    [
        (("127.0.0.1", 0), 16),
        (("10.77.0.1", 65535), 16),
        (("::1", 7471), 28),
        (("fe80::1%5", 7471), 28),
    ],
)
def test_addresses_survive_packing(address: Address, size: int) -> None:
    packed = pack_address(address)
    assert len(packed) == size
    assert unpack_address(packed) == address


def test_packed_address_is_what_the_system_uses() -> None:
    packed = pack_address(("127.0.0.1", 7471))
    assert packed[:2] == socket.AF_INET.to_bytes(2, "little")
    assert packed[2:8] == bytes([0x1D, 0x2F, 127, 0, 0, 1])


def test_unknown_addresses_stay_bytes() -> None:
    assert unpack_address(b"") is None
    assert unpack_address(b"\x01") == b"\x01"
    assert unpack_address(b"\xff\xff" + bytes(20)) == b"\xff\xff" + bytes(20)
    assert pack_address(b"raw") == b"raw"


@pytest.mark.parametrize(
    "address", [("localhost", 1), ("10.0.0.1", -1), ("10.0.0.1", 65536), bytes(129)]
)
def test_senseless_addresses_are_refused(address: Address) -> None:
    with pytest.raises(ValueError, match=r"address|port|does not appear"):
        pack_address(address)


def test_name_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="63"):
        info_to_raw(Info(fabric_attr=FabricAttr(prov_name="x" * 64)))


def test_unknown_enumerators_stay_numbers() -> None:
    """A newer kernel may offer what this library has no name for."""
    raw = info_to_raw(Info())
    raw.ep_protocol = 77
    assert info_from_raw(raw).ep_attr.protocol == 77
