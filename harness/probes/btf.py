# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Looks up offsets of members of kernel structures in the running kernel's BTF.

A program could include ``linux/sched.h`` instead, but then its compilation takes twice as
long. To find a member the types are not walked: an entry is found by a search for its name.
"""

import struct
from collections.abc import Iterator

VMLINUX = "/sys/kernel/btf/vmlinux"
_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")
_MAGIC = 0xEB9F
_KIND_STRUCT = 4
_KIND_FUNCTION = 12
# The bytes of a type after its head, by its kind: how many, and how many for each element.
_REST = {
    1: (4, 0),  # integer
    3: (12, 0),  # array
    4: (0, 12),  # structure
    5: (0, 12),  # union
    6: (0, 8),  # enumeration
    13: (0, 8),  # prototype of a function
    14: (4, 0),  # variable
    15: (0, 12),  # section
    17: (4, 0),  # tag
    19: (0, 12),  # enumeration of 64 bits
}


class BtfError(ValueError):
    """The BTF has no such member."""


def member_offset(btf: bytes, name: bytes, member: bytes) -> int:
    """The offset of ``member`` in ``struct name``, in bytes. Raises BtfError."""
    for _, members in _structures(btf, name):
        if member in members:
            return members[member]
    raise BtfError(f"no member {member.decode()} in struct {name.decode()}")


def struct_size(btf: bytes, name: bytes) -> int:
    """The size of ``struct name``, in bytes. Raises BtfError."""
    for found, _ in _structures(btf, name):
        return found
    raise BtfError(f"no struct {name.decode()}")


def _structures(btf: bytes, name: bytes) -> Iterator[tuple[int, dict[bytes, int]]]:
    """The structures of a name: the size of each, and the offsets of its members."""
    magic, _, _, header, types_at, types_size, strings_at, strings_size = _HEADER.unpack_from(btf)
    if magic != _MAGIC:
        raise BtfError("not BTF, or of another byte order")
    types = btf[header + types_at : header + types_at + types_size]
    strings = btf[header + strings_at : header + strings_at + strings_size]
    number = strings.find(b"\0" + name + b"\0") + 1
    at = types.find(struct.pack("<I", number)) if number else -1
    while 0 <= at <= len(types) - _TYPE.size:
        _, info, length = _TYPE.unpack_from(types, at)
        if at % 4 == 0 and info >> 24 & 0x1F == _KIND_STRUCT:
            members = {}
            for index in range(info & 0xFFFF):
                text, _, bits = _TYPE.unpack_from(types, at + _TYPE.size * (index + 1))
                # In structures with bit fields the upper eight bits are a width.
                offset = int(bits & 0xFFFFFF if info >> 31 else bits) // 8
                members[strings[text : strings.find(b"\0", text)]] = offset
            yield length, members
        at = types.find(struct.pack("<I", number), at + 1)


def function_id(btf: bytes, name: bytes) -> int:
    """The id of a function. Raises BtfError.

    An id is the number of a type, so all types before it are walked.
    """
    _, _, _, header, types_at, types_size, strings_at, strings_size = _HEADER.unpack_from(btf)
    strings = btf[header + strings_at : header + strings_at + strings_size]
    wanted = strings.find(b"\0" + name + b"\0") + 1
    at, end, number = header + types_at, header + types_at + types_size, 0
    while at < end:
        text, info, _ = _TYPE.unpack_from(btf, at)
        number += 1
        kind = info >> 24 & 0x1F
        if kind == _KIND_FUNCTION and text == wanted:
            return number
        rest, each = _REST.get(kind, (0, 0))
        at += _TYPE.size + rest + each * (info & 0xFFFF)
    raise BtfError(f"no function {name.decode()}")
