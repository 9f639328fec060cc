# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The structures and numbers of docs/rdm-wire.md in Python.

They follow that page; tests/unit/test_rdm_wire.py compares them with it.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import ClassVar, Self

VERSION = 3
MAGIC = 0x4B465244
EAGER = 4096
SEGS = 4
MSG_MAX = 4194304
IDS = 128
ACK_EVERY = 16
WINDOW = 128
PEER_CONNS = 4
PORT = 7473
#: How many RDMA reads a side offers in each direction.
READS = 16
#: The authorisation key of an endpoint that was opened without one.
AUTH = 255
WRAP = 1 << 32
#: Receives that this side posts, for all that the other one may have on the way: a window, long
#: messages and replies. If one is missing, rxe repeats packets, and with them registrations, which
#: fails (docs/rdm.md).
RECEIVES = WINDOW + IDS + 64


class Refusal(enum.IntEnum):
    """Why a connect request was rejected."""

    VERSION = 0
    FULL = 1


class Op(enum.IntEnum):
    """Kinds of messages."""

    ACK = 1
    EAGER = 2
    RTS = 3
    READ = 4
    WRITE = 5
    FIN = 6
    ERR = 7
    NAK = 8
    RESUME = 9
    CANCEL = 10
    WANT = 11
    LEAVE = 12


REQUESTS = frozenset({Op.EAGER, Op.RTS, Op.READ, Op.WRITE})


class Flag(enum.IntFlag):
    """Flags of a message."""

    TAGGED = 1
    DATA = 2
    ID = 4
    PULLED = 8
    RMA = 16


class Status(enum.IntEnum):
    """Results in FIN and ERR."""

    OK = 0
    NO_ENDPOINT = 1
    TOO_LONG = 2
    NO_KEY = 3
    RANGE = 4
    ACCESS = 5
    NO_MATCH = 6
    CANCELED = 7
    NO_MEMORY = 8
    IO = 9


class Packed:
    """A structure of little-endian numbers without holes."""

    LAYOUT: ClassVar[struct.Struct]

    def pack(self) -> bytes:
        """Return the structure's bytes."""
        return self.LAYOUT.pack(*vars(self).values())

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Read the structure from the beginning of some bytes.

        Raises:
            struct.error: There are too few bytes.
        """
        return cls(*cls.LAYOUT.unpack_from(data))


@dataclass(frozen=True)
class Hello(Packed):
    """Private data of RDMA CM's messages."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<IHHQII")

    magic: int = MAGIC
    version: int = VERSION
    refusal: int = 0
    cookie: int = 0
    eager: int = EAGER
    reserved: int = 0


@dataclass(frozen=True)
class Header(Packed):
    """What each message begins with."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<BBBBHHHHIIIIIIIQQQ")

    version: int = VERSION
    op: int = Op.ACK
    flags: int = 0
    nsegs: int = 0
    src: int = 0
    dst: int = 0
    rx: int = 0
    epoch: int = 0
    seq: int = 0
    ack: int = 0
    status: int = 0
    auth: int = AUTH
    len: int = 0
    over: int = 0
    count: int = 0
    tag: int = 0
    data: int = 0
    offset: int = 0

    @property
    def numbered(self) -> bool:
        """A request that is acknowledged together with others?"""
        plain_write = self.op == Op.WRITE and not self.nsegs and not self.flags & Flag.TAGGED
        return self.op == Op.EAGER or plain_write

    @property
    def by_key(self) -> bool:
        """RMA to a region?"""
        return self.op in (Op.READ, Op.WRITE) and not self.flags & Flag.TAGGED

    @property
    def flow(self) -> tuple[int, int, int, bool]:
        """Which flow of its connection a request belongs to."""
        return self.dst, self.rx, self.auth, self.by_key


@dataclass(frozen=True)
class Segment(Packed):
    """Memory of the requesting side."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<QII")

    addr: int
    rkey: int
    len: int


HEADER = Header.LAYOUT.size
SEGMENT = Segment.LAYOUT.size


def segments(payload: bytes, count: int) -> list[Segment]:
    """Read the segments of a request."""
    return [Segment.unpack(payload[SEGMENT * i :]) for i in range(count)]


def covers(ack: int, number: int) -> bool:
    """Does an acknowledgement cover a number? Both wrap."""
    return (ack - number) % WRAP < WRAP // 2
