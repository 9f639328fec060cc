# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""RDMA netlink messages without a kernel: our requests, and answers as the kernel sends them."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable

import pytest

from kfabric.guest import rdma_nl
from kfabric.guest.rdma_msg import Command, request
from kfabric.guest.rdma_nl import RdmaNetlink, RdmaNetlinkError

NLDEV = 5 << 10
ACK, DUMP, REQUEST = 0x4, 0x300, 0x1


def attribute(number: int, payload: bytes) -> bytes:
    """One attribute, padded as netlink does."""
    length = 4 + len(payload)
    return struct.pack("=HH", length, number) + payload + bytes(-length % 4)


def message(kind: int, payload: bytes, sequence: int = 1, flags: int = 0) -> bytes:
    """One message to the socket with the port 0."""
    return struct.pack("=IHHII", 16 + len(payload), kind, flags, sequence, 0) + payload


def refusal(code: int, echoed: bytes, text: str = "", sequence: int = 1) -> bytes:
    """A negative acknowledgement: error number, the request, and perhaps words."""
    words = attribute(1, text.encode() + b"\0") if text else b""
    return message(2, struct.pack("=i", -code) + echoed + words, sequence)


class Kernel:
    """Answers with what it was given, in the place of a netlink socket."""

    def __init__(self, *reads: bytes) -> None:
        self.reads = list(reads)
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def recv(self, _size: int) -> bytes:
        if not self.reads:
            raise TimeoutError
        return self.reads.pop(0)

    def setsockopt(self, *_: object) -> None: ...
    def settimeout(self, _: float) -> None: ...
    def bind(self, _: object) -> None: ...
    def close(self) -> None: ...


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[RdmaNetlink, Kernel]]:
    """Open an RdmaNetlink whose kernel gives these answers."""

    def answering(*reads: bytes) -> tuple[RdmaNetlink, Kernel]:
        fake = Kernel(*reads)
        monkeypatch.setattr(rdma_nl.socket, "socket", lambda *_: fake)
        return RdmaNetlink(), fake

    monkeypatch.setattr(rdma_nl.socket, "AF_NETLINK", getattr(socket, "AF_NETLINK", 16))
    return answering


def device(index: int, name: str, sequence: int = 1) -> bytes:
    """A device in an answer to GET."""
    payload = attribute(1, struct.pack("=I", index)) + attribute(2, name.encode() + b"\0")
    payload += attribute(3, struct.pack("=I", 1)) + attribute(6, struct.pack("=Q", 0xABC))
    return message(NLDEV | 1, payload + attribute(67, b"roce\0"), sequence, flags=2)


def done(sequence: int = 1, code: int = 0) -> bytes:
    """The end of a list."""
    return message(3, struct.pack("=i", -code), sequence, flags=2)


def test_request_is_what_the_kernel_expects() -> None:
    """NEWLINK with the three attributes that it needs, in wire format."""
    data = request(
        Command.NEWLINK, REQUEST | ACK, 7, dev_name="rxe0", link_type="rxe", ndev_name="d0"
    )
    head, body = struct.unpack("=IHHII", data[:16]), data[16:]
    assert head == (len(data), NLDEV | 3, REQUEST | ACK, 7, 0)
    assert body == attribute(2, b"rxe0\0") + attribute(65, b"rxe\0") + attribute(51, b"d0\0")


def test_list_is_read_up_to_its_end_mark(kernel) -> None:
    """Over as many reads as it takes."""
    rdma, fake = kernel(device(0, "rxe0") + device(1, "rxe1"), device(2, "rxe2"), done())
    assert [(one.index, one.name) for one in rdma.devices()] == [
        (0, "rxe0"),
        (1, "rxe1"),
        (2, "rxe2"),
    ]
    assert struct.unpack_from("=H", fake.sent[0], 6)[0] == REQUEST | DUMP


def test_error_at_the_end_of_a_list_is_raised(kernel) -> None:
    """A dump fails in its end mark, not in an acknowledgement."""
    rdma, _ = kernel(done(code=errno.EPERM))
    with pytest.raises(RdmaNetlinkError) as caught:
        rdma.devices()
    assert caught.value.errno == errno.EPERM


def test_refusal_carries_the_kernels_words(kernel) -> None:
    """The text follows the echoed request."""
    echoed = request(Command.NEWLINK, REQUEST | ACK, 1, dev_name="x")
    rdma, _ = kernel(refusal(errno.EINVAL, echoed, "no such link type"))
    with pytest.raises(RdmaNetlinkError, match="no such link type") as caught:
        rdma.add_link("x", "d0")
    assert (caught.value.errno, caught.value.extack) == (errno.EINVAL, "no such link type")


def test_refusal_without_words(kernel) -> None:
    """Most of them say nothing but a number."""
    echoed = request(Command.NEWLINK, REQUEST | ACK, 1, dev_name="x")
    rdma, _ = kernel(refusal(errno.ENODEV, echoed))
    with pytest.raises(RdmaNetlinkError, match="add rxe link x on d0") as caught:
        rdma.add_link("x", "d0")
    assert caught.value.extack is None


def test_late_answers_are_skipped(kernel) -> None:
    """The answer to a request that was given up does not answer the next one."""
    rdma, _ = kernel(device(9, "old", sequence=0) + device(0, "rxe0"), done(0), done(1))
    assert [one.name for one in rdma.devices()] == ["rxe0"]


def test_silence_is_a_timeout(kernel) -> None:
    """No answer within the socket's time-out."""
    rdma, _ = kernel()
    with pytest.raises(RdmaNetlinkError) as caught:
        rdma.devices()
    assert caught.value.errno == errno.ETIMEDOUT


def test_broken_length_is_refused(kernel) -> None:
    """A message that is longer than what was read ends the exchange."""
    rdma, _ = kernel(device(0, "rxe0")[:-8])
    with pytest.raises(RdmaNetlinkError) as caught:
        rdma.devices()
    assert caught.value.errno == errno.EPROTO


def test_counts_come_from_the_summary(kernel) -> None:
    """A table of entries, each with a name and a number."""
    entries = b"".join(
        attribute(16, attribute(17, name + b"\0") + attribute(18, struct.pack("=Q", count)))
        for name, count in ((b"qp", 2), (b"cm_id", 0))
    )
    answer = message(NLDEV | 9, attribute(15, entries), sequence=2) + message(2, bytes(4), 2)
    rdma, _ = kernel(device(0, "rxe0") + done(), answer)
    assert rdma.counts("rxe0") == {"qp": 2, "cm_id": 0}


def test_unknown_attributes_are_no_obstacle(kernel) -> None:
    """A newer kernel says more than we know."""
    answer = device(0, "rxe0")
    extended = message(NLDEV | 1, answer[16:] + attribute(900, b"new!"), flags=2)
    rdma, _ = kernel(extended + done())
    assert [one.name for one in rdma.devices()] == ["rxe0"]
