# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The parameter rdm_keep: nothing is kept, and a message without a receive fails in time."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest
from rdm_support import RECEIVED, SENT, TRECEIVED, TSENT, RdmNet, parameter

import kfabric_py as kp

#: KFI_VERBS_ERR_NO_RECEIVE in kfi_verbs_ext.h.
NO_RECEIVE = 1006
TIMEOUT = "rdm_match_timeout_ms"
#: Longer than any test may take.
LONG_MS = 600_000


@pytest.fixture
def unready(device: kp.Device) -> Iterator[None]:
    """Contexts keep nothing, and messages wait for a long time."""
    with parameter("rdm_keep", 0), parameter(TIMEOUT, LONG_MS):
        yield


@pytest.mark.parametrize("length", [0, 64, 4096, 100_000])
def test_message_without_a_receive_fails_at_its_sender(
    unready: None, rdm: RdmNet, length: int
) -> None:
    """EREMOTEIO, with a prov_errno of its own and the sender's context; the next one arrives."""
    a, b = rdm.connect(length=1 << 17)
    with parameter(TIMEOUT, 1):
        a.ep.send(a.buffer[:length], context="s")
        error = a.error()
    assert (error.context, error.err, error.prov_errno) == ("s", errno.EREMOTEIO, NO_RECEIVE)
    assert a.cq.strerror(error) == "the peer has not posted a receive in time"
    data = a.write_pattern(a.buffer[:64])
    b.ep.recv(b.buffer, context="r")
    a.ep.send(a.buffer[:64])
    entry = b.entry()
    assert (entry.context, entry.flags, entry.len) == ("r", RECEIVED, 64)
    assert bytes(b.buffer.view[:64]) == data
    assert a.entry().flags == SENT


def test_only_what_found_no_receive_fails(unready: None, rdm: RdmNet) -> None:
    """A tag that nobody receives, among others that somebody does."""
    a, b = rdm.connect()
    for tag in range(8):
        if tag % 2:
            b.ep.trecv(b.buffer[:8], tag=tag)
        a.ep.tsend(a.buffer[:8], tag=tag, context=tag)
    got = [b.entry() for _ in range(4)]
    assert sorted(entry.tag for entry in got) == [1, 3, 5, 7]
    assert {entry.flags for entry in got} == {TRECEIVED}
    assert [a.entry().flags for _ in range(4)] == [TSENT] * 4
    with parameter(TIMEOUT, 1):
        failed = [a.error() for _ in range(4)]
    assert {error.context for error in failed} == {0, 2, 4, 6}
    assert {error.prov_errno for error in failed} == {NO_RECEIVE}


@pytest.mark.parametrize("length", [8, 100_000])
def test_receive_that_is_posted_in_time_matches(unready: None, rdm: RdmNet, length: int) -> None:
    """After its message was sent: each of them arrives once."""
    a, b = rdm.connect(length=1 << 17)
    for number in range(8):
        a.ep.send(a.buffer[:length], data=number)
    got = []
    for _ in range(8):
        b.ep.recv(b.buffer)
        got.append(b.entry())
    assert sorted(entry.data for entry in got) == list(range(8))
    assert {entry.len for entry in got} == {length}
    assert [a.entry().flags for _ in range(8)] == [SENT] * 8
    assert b.cq.read() == []


def test_sender_that_closes_has_no_error(unready: None, rdm: RdmNet) -> None:
    """A context that closes takes its refused messages back; nobody else notices."""
    a, b = rdm.connect()
    for _ in range(8):
        a.ep.send(a.buffer[:8])
    a.ep.close()
    assert a.cq.read() == [] and b.cq.read() == []


def test_offers_say_that_nothing_is_kept(unready: None, rdm: RdmNet) -> None:
    """total_buffered_recv is 0, whatever the hints ask for."""
    for wish in (0, 4096):
        info = rdm.ask(rx_attr=kp.RxAttr(total_buffered_recv=wish))
        assert info.rx_attr.total_buffered_recv == 0
