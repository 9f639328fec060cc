# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Where a structure's member is, and which id a function has, from BTF."""

from __future__ import annotations

import struct

import pytest

from kfabric.probes.btf import BtfError, function_id, member_offset, struct_size

STRINGS = b"\0int\0task_struct\0state\0pid\0tgid\0"
INT, ARRAY, STRUCT, ENUM, FUNCTION, PROTOTYPE = 1, 3, 4, 6, 12, 13


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


def test_size_of_a_structure_is_found() -> None:
    """That of the structure, and not of an integer with its name."""
    assert struct_size(made(), b"task_struct") == 9000
    for other in (b"int", b"unknown"):
        with pytest.raises(BtfError):
            struct_size(made(), other)


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


def test_function_is_found_after_types_of_all_lengths() -> None:
    """Its id is its number, and only a function has it: not the integer of the same name."""
    types = [
        struct.pack("<IIII", name(b"tgid"), INT << 24, 4, 0x01000020),
        struct.pack("<IIIIII", 0, ARRAY << 24, 0, 1, 1, 5),
        struct.pack("<IIIIIII", 0, ENUM << 24 | 2, 4, name(b"pid"), 0, name(b"int"), 1),
        struct.pack("<IIIII", 0, PROTOTYPE << 24 | 1, 1, name(b"pid"), 1),
        struct.pack("<III", name(b"state"), FUNCTION << 24, 4),
        struct.pack("<III", name(b"tgid"), FUNCTION << 24, 4),
    ]
    text = b"".join(types)
    sizes = (0, len(text), len(text), len(STRINGS))
    data = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, *sizes) + text + STRINGS
    assert function_id(data, b"state") == 5
    assert function_id(data, b"tgid") == 6
    for other in (b"pid", b"task_struct", b"unknown"):
        with pytest.raises(BtfError):
            function_id(data, other)
