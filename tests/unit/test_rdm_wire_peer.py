# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The peer of tests/guest/test_rdm_wire_peer.py: two of them talk, and each finds every violation.

The connection between them is a pair of lists.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import rdm_wire_hostile as hostile
from rdm_wire_format import (
    EAGER,
    HEADER,
    MSG_MAX,
    REQUESTS,
    SEGS,
    VERSION,
    Flag,
    Header,
    Op,
    Segment,
    Status,
)
from rdm_wire_peer import PLENTY, Peer, Violation


class Memory:
    """A window whose addresses are its offsets."""

    def __init__(self) -> None:
        self.bytes = bytearray(1 << 20)

    def segment(self, at: int, length: int) -> Segment:
        """Name a part."""
        return Segment(at, 1, length)

    def fill(self, at: int, data: bytes) -> None:
        """Write to it."""
        self.bytes[at : at + len(data)] = data

    def data(self, at: int, length: int) -> bytes:
        """Read from it."""
        return bytes(self.bytes[at : at + length])


class Wire:
    """One end of a connection."""

    other: Wire

    def __init__(self) -> None:
        self.inbox: deque[bytes] = deque()
        self.memory = Memory()

    def post(self, message: bytes) -> None:
        """Send a message."""
        self.other.inbox.append(message)

    def next(self) -> bytes:
        """Take a message, which must be there."""
        return self.inbox.popleft()

    def fetch(self, segments: Sequence[Segment]) -> bytes:
        """Read from the other end."""
        return b"".join(self.other.memory.data(each.addr, each.len) for each in segments)

    def put(self, segments: Sequence[Segment], data: bytes) -> None:
        """Write to the other end."""
        for each in segments:
            self.other.memory.fill(each.addr, data[: each.len])
            data = data[each.len :]


def peers() -> tuple[Peer, Peer]:
    """Two peers that are connected."""
    wires = Wire(), Wire()
    wires[0].other, wires[1].other = wires[::-1]
    first, second = (Peer(cast(Any, wire), number) for number, wire in enumerate(wires, 1))
    return first, second


def settle(*both: Peer) -> None:
    """Let both handle what has arrived, until nothing is left."""
    while any(peer.wire.inbox for peer in both):
        for peer in both:
            if peer.wire.inbox:
                peer.handle_one()


@pytest.mark.parametrize("length", [0, EAGER, EAGER + 1])
def test_message_arrives(length: int) -> None:
    """Short and long, both ways."""
    a, b = peers()
    data = bytes(range(251)) * (length // 251) + bytes(length % 251)
    requests = a.send(2, data, tag=5), b.send(1, data)
    settle(a, b)
    assert [request.status for request in requests if request.done] == [Status.OK] * 2
    assert a.receive().data == b.receive().data == data


@pytest.mark.parametrize("segments", [0, 1, SEGS])
def test_region_is_written_and_read(segments: int) -> None:
    """With the data in the message or in segments; outside of the region it fails."""
    a, b = peers()
    b.regions[3] = bytearray(2000)
    for offset, data, status in ((7, b"x" * 997, Status.OK), (1999, b"xy", Status.RANGE)):
        written = a.write(2, 3, offset, data, segments)
        settle(a, b)
        assert written.status is status
    assert b.regions[3] == bytes(7) + b"x" * 997 + bytes(996)
    read = a.read(2, 3, 6, 998, max(segments, 1))
    settle(a, b)
    assert (read.status, a.own_data(998)) == (Status.OK, b"\0" + b"x" * 997)


def test_refused_messages_come_again_in_order() -> None:
    """After RESUME; the wanted one comes before."""
    a, b = peers()
    b.flows[False].room = 1
    requests = [a.send(2, bytes([tag]) * (EAGER + tag % 2), tag=tag) for tag in range(6)]
    settle(a, b)
    assert [request.done for request in requests] == [True] + [False] * 5
    b.want(3)
    settle(a, b)
    assert [message.header.tag for message in b.received] == [0, 3]
    b.resume(PLENTY)
    settle(a, b)
    assert [message.header.tag for message in b.received] == [0, 3, 1, 2, 4, 5]
    assert all(request.done for request in requests)


def test_message_that_crosses_resume_comes_once() -> None:
    """It is refused as one of the old epoch, and the reply names a number that it no longer has."""
    a, b = peers()
    b.flows[False].room = 1
    refused = [a.send(2, b"", tag=tag) for tag in range(2)]
    settle(a, b)
    under_way = a.send(2, b"", tag=2)
    b.resume(PLENTY)
    settle(a, b)
    assert [message.header.tag for message in b.received] == [0, 1, 2]
    assert refused[1].done and under_way.done


def test_held_message_is_cancelled() -> None:
    """CANCEL gets FIN."""
    a, b = peers()
    b.hold = True
    request = a.send(2, bytes(EAGER + 1))
    settle(a, b)
    a.cancel(request)
    settle(a, b)
    assert (request.status, b.held) == (Status.CANCELED, [])


SANE = Header(op=Op.EAGER, count=1, seq=1, src=2, dst=1)
VIOLATIONS = {
    "half a header": SANE.pack()[:32],
    "version": replace(SANE, version=VERSION + 1).pack(),
    "unknown kind": replace(SANE, op=Op.LEAVE + 1).pack(),
    "unknown flag": replace(SANE, flags=32).pack(),
    "too long": replace(SANE, op=Op.RTS, len=MSG_MAX + 1).pack(),
    "too many segments": replace(SANE, op=Op.RTS, nsegs=SEGS + 1).pack() + bytes(16 * (SEGS + 1)),
    "payload": replace(SANE, len=5).pack() + b"four",
    "segments": replace(SANE, op=Op.RTS, nsegs=1, len=5).pack() + bytes(16),
    "count": replace(SANE, count=2).pack(),
    "number": replace(SANE, seq=2).pack(),
    "acknowledgement": Header(ack=1).pack(),
    "FIN of nothing": Header(op=Op.FIN, seq=1).pack(),
    "ERR of nothing": Header(op=Op.ERR, seq=1).pack(),
}


@pytest.mark.parametrize("message", VIOLATIONS.values(), ids=VIOLATIONS)
def test_violation_is_found(message: bytes) -> None:
    """By the first message that breaks a rule."""
    a, b = peers()
    b.wire.post(message)
    with pytest.raises(Violation):
        a.handle_one()


def test_reply_of_another_context_is_a_violation() -> None:
    """A reply repeats the names of its request."""
    a, b = peers()
    request = a.send(2, bytes(EAGER + 1)).header
    b.wire.post(Header(op=Op.FIN, seq=request.seq, src=2, dst=1, rx=1).pack())
    with pytest.raises(Violation):
        a.handle_one()


def hostile_messages(seed: int, count: int) -> list[bytes]:
    """Messages of a seed on a connection whose other side sends a request now and then."""
    view = hostile.View(Segment(1 << 20, 1, 1 << 20), [1], [1, 2])
    found = []
    for number in range(count):
        rng = random.Random(f"{seed}.{number}")
        found.append(hostile.message(rng, view, hostile.kind(rng)))
        view.sent(found[-1])
        if number % 4 == 0:
            view.came(Header(op=sorted(REQUESTS)[number // 4 % 4], seq=number, src=1).pack())
    return found


def test_hostile_messages_follow_from_the_seed() -> None:
    """The same ones again; another seed has others."""
    assert hostile_messages(1, 300) == hostile_messages(1, 300) != hostile_messages(2, 300)


def test_hostile_messages_are_of_all_kinds() -> None:
    """Most keep the connection; others are too short, too long, or of no kind."""
    messages = hostile_messages(1, 10_000)
    whole = [Header.unpack(message) for message in messages if len(message) >= HEADER]
    assert {header.op for header in whole} > set(Op)
    assert len(whole) < len(messages)
    assert any(len(message) > HEADER + EAGER for message in messages)
    known = [h for h in whole if h.op in set(Op) and not h.flags & ~sum(Flag)]
    assert 0.95 * len(messages) < len(known) < len(messages)
