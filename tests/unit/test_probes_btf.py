# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Where a structure's member is, from BTF."""

from __future__ import annotations

import struct

import pytest

from harness.probes.btf import BtfError, member_offset

STRINGS = b"\0int\0task_struct\0state\0pid\0tgid\0"
INT, STRUCT = 1, 4


def name(text: bytes) -> int:
    """A name's place among the strings."""
    return STRINGS.index(b"\0" + text + b"\0") + 1


def made(kind_flag: int = 0, kind: int = STRUCT) -> bytes:
    """BTF of an int and of a struct with three members."""
    members = [(b"state", 0), (b"pid", 2416 * 8), (b"tgid", 2420 * 8)]
    types = struct.pack("<IIII", name(b"int"), INT << 24, 4, 0x01000020)
    types += struct.pack("<III", name(b"task_struct"), kind_flag << 31 | kind << 24 | 3, 9000)
    for text, bits in members:
        types += struct.pack("<III", name(text), 1, bits | kind_flag << 29)
    sizes = (0, len(types), len(types), len(STRINGS))
    return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, *sizes) + types + STRINGS


@pytest.mark.parametrize("kind_flag", [0, 1])
def test_member_is_found(kind_flag: int) -> None:
    """With and without bit fields in the structure."""
    assert member_offset(made(kind_flag), b"task_struct", b"pid") == 2416
    assert member_offset(made(kind_flag), b"task_struct", b"tgid") == 2420


@pytest.mark.parametrize(
    ("data", "struct_name", "member"),
    [
        (made(), b"task_struct", b"comm"),
        (made(), b"task", b"pid"),
        (made(kind=5), b"task_struct", b"pid"),
        (bytes(100), b"task_struct", b"pid"),
    ],
)
def test_what_is_not_there_is_an_error(data: bytes, struct_name: bytes, member: bytes) -> None:
    """No guess: a wrong place would count wakes of the wrong threads."""
    with pytest.raises(BtfError):
        member_offset(data, struct_name, member)
