# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The part of protobuf's wire format that a trace needs.

The protobuf package is not available to Debian's own Python, which writes traces next to
bcc. The unit tests decode the output with the real package.
"""

from functools import lru_cache

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_NEGATIVE = 1 << 64
_SMALL = 1 << 12


def varint(value: int) -> bytes:
    """A number, seven bits a byte; negative ones as 64 bits in two's complement."""
    if 0 <= value < 0x80:
        return bytes((value,))
    rest = value if value >= 0 else value + _NEGATIVE
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


@lru_cache(maxsize=1024)
def _tag(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def integer(number: int, value: int) -> bytes:
    """A field of an integer or enum type."""
    if 0 <= value < _SMALL:
        return _small(number, value)
    return _tag(number, _VARINT) + varint(value)


@lru_cache(maxsize=1 << 14)
def _small(number: int, value: int) -> bytes:
    return _tag(number, _VARINT) + varint(value)


def fixed64(number: int, value: int) -> bytes:
    """A field of type fixed64."""
    return _tag(number, _FIXED64) + value.to_bytes(8, "little")


def message(number: int, *parts: bytes) -> bytes:
    """A field that is a message of these fields."""
    body = b"".join(parts)
    return _tag(number, _BYTES) + varint(len(body)) + body


@lru_cache(maxsize=8192)
def text(number: int, value: str) -> bytes:
    """A field that is a string; characters that UTF-8 cannot encode are replaced."""
    return message(number, value.encode("utf-8", "replace"))
