# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Messages that break docs/rdm-wire.md, from a seed.

A message begins as an honest one of its kind, for the state of its connection. Then fields get
values at and beyond their bounds. Most of these break no rule that ends the connection, so that
the next message finds a state to break.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rdm_wire_format import (
    AUTH,
    EAGER,
    HEADER,
    MSG_MAX,
    REQUESTS,
    SEGS,
    VERSION,
    WRAP,
    Flag,
    Header,
    Op,
    Segment,
    Status,
)

#: How many of 1000 messages are spoiled in a way that ends the connection, and in others.
DEADLY, SPOILED = 15, 400
#: How many of 1000 segments name memory that is not this side's.
FOREIGN = 5

EDGES_16 = (0, 1, 2, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF)
EDGES_32 = (0, 1, 2, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF)
EDGES_64 = (0, 1, 4095, 4096, 4097, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1)
LENGTHS = (0, 1, 15, 16, 64, 4095, EAGER)
#: Also beyond what a message may be long; the last ones have segments.
LONG = (*LENGTHS, EAGER + 1, 8191, 65536, 300_000)
TAGS = (0, 1, 2, 3, (1 << 64) - 1)

#: Values of fields that break no rule for every kind of message.
HARMLESS: Mapping[str, Sequence[int]] = {
    "src": EDGES_16,
    "dst": EDGES_16,
    "rx": EDGES_16,
    "epoch": EDGES_16,
    "auth": (AUTH, *EDGES_32),
    "over": EDGES_32,
    "tag": (*TAGS, *EDGES_64),
    "data": EDGES_64,
    "offset": EDGES_64,
    "status": tuple(Status),
    "flags": tuple(range(32)),
}
#: Values that nearly always do.
LETHAL: Mapping[str, Sequence[int]] = {
    "version": (0, VERSION - 1, VERSION + 1, 255),
    "op": (0, Op.LEAVE + 1, 128, 255),
    "flags": (32, 64, 128, 255),
    "nsegs": (1, SEGS, SEGS + 1, 255),
    "seq": EDGES_32,
    "ack": EDGES_32,
    "count": EDGES_32,
    "status": (len(Status), *EDGES_32),
    "len": (*LONG, MSG_MAX, MSG_MAX + 1, *EDGES_32),
}


@dataclass
class View:
    """The state of a connection, as far as messages refer to it.

    Attributes:
        window: memory of this side that the other side may read and write.
        targets: numbers of the other side's endpoints, and keys of their regions.
        asked: requests of the other side, the last ones.
        heard: the last number of the other side.
        epoch: of the last RESUME.
        refused: requests of the other side that NAK was sent for, the last ones.
    """

    window: Segment
    targets: Sequence[int]
    keys: Sequence[int]
    count: int = 0
    number: int = 0
    ids: int = 0
    heard: int = 0
    epoch: int = 0
    asked: deque[Header] = field(default_factory=lambda: deque(maxlen=64))
    refused: deque[Header] = field(default_factory=lambda: deque(maxlen=64))

    def sent(self, message: bytes) -> None:
        """A message is on the wire: the next one goes on from it."""
        if len(message) < HEADER:
            return
        header = Header.unpack(message)
        if header.op in REQUESTS:
            self.count = header.count
            if header.numbered:
                self.number = header.seq

    def came(self, message: bytes) -> None:
        """A message of the other side has arrived."""
        header = Header.unpack(message)
        if header.op in REQUESTS:
            self.asked.append(header)
            if header.numbered:
                self.heard = header.seq
        elif header.op == Op.RESUME:
            self.epoch = header.epoch


Kind = Callable[[random.Random, View], tuple[Header, bytes]]


def kind(rng: random.Random) -> Kind:
    """Choose a kind of message."""
    return rng.choice(_KINDS)


def message(rng: random.Random, view: View, kind: Kind) -> bytes:
    """Make a message of a kind for a state."""
    header, payload = kind(rng, view)
    header = replace(header, ack=view.heard)
    luck = rng.randrange(1000)
    if luck < DEADLY:
        return _deadly(rng, header, payload)
    if luck < DEADLY + SPOILED:
        header = _spoiled(rng, header, HARMLESS, rng.choice((1, 1, 2, 4)))
        header, payload = _repaired(header, payload, view)
    return header.pack() + payload


def _spoiled(
    rng: random.Random, header: Header, values: Mapping[str, Sequence[int]], count: int
) -> Header:
    names = rng.sample(sorted(values), count)
    return replace(header, **{name: rng.choice(values[name]) for name in names})


def _repaired(header: Header, payload: bytes, view: View) -> tuple[Header, bytes]:
    """With TAGGED set or cleared a write changes between number and id, and so do its fields."""
    if header.op != Op.WRITE or header.nsegs:
        return header, payload
    if header.numbered:
        return _numbered(header, view, payload)
    return replace(header, len=0), b""


def _deadly(rng: random.Random, header: Header, payload: bytes) -> bytes:
    if rng.randrange(3):
        return _spoiled(rng, header, LETHAL, rng.choice((1, 1, 1, 3))).pack() + payload
    whole = header.pack() + payload
    cut = rng.choice((1, 8, HEADER - 1, HEADER, len(whole) - 1))
    longer = whole + bytes(rng.choice((1, 16, EAGER + 1)))
    return rng.choice((whole[: max(cut, 1)], longer[:8192], rng.randbytes(HEADER)))


def _request(rng: random.Random, view: View, op: Op, flags: int) -> Header:
    flags |= Flag.DATA if rng.randrange(4) == 0 else 0
    flags |= Flag.PULLED if rng.randrange(16) == 0 else 0
    return Header(
        op=op,
        flags=flags,
        src=77,
        dst=rng.choice(view.targets),
        epoch=view.epoch,
        count=(view.count + 1) % WRAP,
        data=rng.choice(EDGES_64),
    )


def _numbered(header: Header, view: View, data: bytes) -> tuple[Header, bytes]:
    return replace(header, seq=(view.number + 1) % WRAP, len=len(data)), data


def _with_id(rng: random.Random, header: Header, view: View) -> tuple[Header, bytes]:
    view.ids = (view.ids + 1) % WRAP
    # An id that is in use breaks a rule that no receiver can check.
    seq = view.ids if rng.randrange(16) else rng.choice(EDGES_32)
    memory = _segments(rng, view)
    length = sum(segment.len for segment in memory)
    header = replace(header, seq=seq, nsegs=len(memory), len=length)
    return header, b"".join(map(Segment.pack, memory))


def _segments(rng: random.Random, view: View) -> list[Segment]:
    found = []
    for _ in range(rng.choice((0, 1, 1, 1, 2, SEGS))):
        length = rng.choice((0, *LONG)) % (view.window.len // SEGS)
        at = rng.randrange(view.window.len - length)
        segment = Segment(view.window.addr + at, view.window.rkey, length)
        if rng.randrange(1000) < FOREIGN:
            rkey, addr = rng.choice((segment.rkey ^ 1, 0)), rng.choice(EDGES_64)
            segment = rng.choice((replace(segment, rkey=rkey), replace(segment, addr=addr)))
        found.append(segment)
    return found


def _eager(rng: random.Random, view: View) -> tuple[Header, bytes]:
    header = _request(rng, view, Op.EAGER, rng.choice((0, Flag.TAGGED)))
    header = replace(header, tag=rng.choice(TAGS))
    return _numbered(header, view, rng.randbytes(rng.choice(LENGTHS)))


def _rts(rng: random.Random, view: View) -> tuple[Header, bytes]:
    header = _request(rng, view, Op.RTS, rng.choice((0, Flag.TAGGED)))
    return _with_id(rng, replace(header, tag=rng.choice(TAGS)), view)


def _rma(rng: random.Random, view: View) -> tuple[Header, bytes]:
    op = rng.choice((Op.READ, Op.WRITE, Op.WRITE))
    tagged = rng.randrange(4) == 0
    header = _request(rng, view, op, Flag.TAGGED if tagged else 0)
    header = replace(
        header,
        tag=rng.choice(TAGS if tagged else view.keys),
        offset=rng.choice((0, 1, 64, 4096, 65536)),
    )
    if op is Op.WRITE and not tagged and rng.randrange(2):
        return _numbered(header, view, rng.randbytes(rng.choice(LENGTHS)))
    return _with_id(rng, header, view)


def _reply(rng: random.Random, view: View) -> tuple[Header, bytes]:
    """A reply to a request of the other side; any other message, if there is none."""
    if not view.asked:
        return _control(rng, view)
    asked = rng.choice(view.asked)
    normal = Op.ERR if asked.numbered else Op.FIN
    op = rng.choice((normal, normal, Op.NAK))
    header = _answer(asked, op)
    if op is Op.NAK:
        view.refused.append(asked)
    else:
        status = rng.choice((Status.OK, *Status))
        lengths = {"len": rng.choice((asked.len, *EDGES_32)), "over": rng.choice(EDGES_32)}
        header = replace(header, status=status, **lengths)
    return header, b""


def _answer(asked: Header, op: Op) -> Header:
    flags = (0 if asked.numbered else Flag.ID) | (Flag.RMA if asked.by_key else 0)
    return Header(
        op=op,
        flags=flags,
        src=asked.dst,
        dst=asked.src,
        rx=asked.rx,
        epoch=asked.epoch,
        auth=asked.auth,
        seq=asked.seq,
    )


def _control(rng: random.Random, view: View) -> tuple[Header, bytes]:
    op = rng.choice((Op.ACK, Op.ACK, Op.CANCEL, Op.WANT, Op.LEAVE))
    header = Header(op=op, src=77, dst=rng.choice(view.targets))
    if op is Op.CANCEL:
        back = rng.choice((0, 0, 1, 2, 100))
        header = replace(header, seq=(view.ids - back) % WRAP, flags=Flag.ID)
    elif op is Op.WANT:
        flags = rng.choice((0, Flag.TAGGED))
        ignore = rng.choice((0, 1, (1 << 64) - 1))
        header = replace(header, flags=flags, tag=rng.choice(TAGS), data=ignore, dst=0)
    elif op is Op.LEAVE:
        header = replace(header, count=rng.choice((0, 1, *EDGES_32)))
    return header, b""


def _resume(rng: random.Random, view: View) -> tuple[Header, bytes]:
    """RESUME for a flow that was refused, or seldom for another one."""
    flows = view.asked if rng.randrange(32) == 0 else view.refused
    if not flows:
        return _control(rng, view)
    asked = rng.choice(flows)
    header = replace(_answer(asked, Op.RESUME), epoch=rng.choice((asked.epoch + 1, 0)) & 0xFFFF)
    return replace(header, count=asked.count, seq=0), b""


_KINDS: Sequence[Kind] = (
    _eager,
    _eager,
    _rts,
    _rma,
    _rma,
    _reply,
    _reply,
    _reply,
    _control,
    _resume,
)
