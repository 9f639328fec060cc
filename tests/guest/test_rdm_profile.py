# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What profiles show of RDM endpoints alone; test_profile.py has what holds for all keepers."""

from __future__ import annotations

from guest_support import LIMIT
from rdm_support import RECEIVED, TRECEIVED, RdmNet

import kfabric_py as kp
from kfabric.guest.waiting import wait_until

RECVD, MATCHED = "unexp_msg_recvd", "unexp_msg_matched"
LARGE = 100_000


def queue(profile: kp.Profile) -> list[tuple[kp.CqFlags, int, int]]:
    """Flags, length and tag of the messages that wait."""
    found = profile["unexp_msg_queue"]
    assert isinstance(found, tuple)
    return [(m.flags, m.len, m.tag) for m in found if isinstance(m, kp.Message)]


def names(profile: kp.Profile) -> list[str]:
    """The events so far."""
    return [event.name for event in profile.read(64)]


def test_messages_with_and_without_tags_are_one_queue(rdm: RdmNet) -> None:
    """F5: oldest first, whatever receives look for them; what one took leaves a gap."""
    a, b = rdm.connect()
    with b.ep.profile() as profile:
        profile.keep()
        for number in range(3):
            a.ep.send(a.buffer[: 10 + number])
            a.ep.tsend(a.buffer[: 20 + number], 7 + number)
        for _ in range(6):
            a.entry()
        plain = [(RECEIVED, 10 + number, 0) for number in range(3)]
        tagged = [(TRECEIVED, 20 + number, 7 + number) for number in range(3)]
        mixed = [one for pair in zip(plain, tagged, strict=True) for one in pair]
        assert queue(profile) == mixed
        b.ep.trecv(b.buffer[:64], 8)
        assert b.entry().len == 21
        mixed.remove(tagged[1])
        assert queue(profile) == mixed
        b.ep.recv(b.buffer[:64])
        assert b.entry().len == 10
        assert queue(profile) == mixed[1:]
        assert profile.number("unexp_msg_cnt") == 4
        assert names(profile) == [RECVD] * 6 + [MATCHED] * 2


def test_large_message_waits_like_a_short_one(rdm: RdmNet) -> None:
    """F5: its data is still at the sender; it is counted, listed and matched."""
    a, b = rdm.connect(length=LARGE)
    with b.ep.profile() as profile:
        profile.keep()
        a.ep.send(a.buffer[:LARGE])
        wait_until(lambda: profile.number("unexp_msg_cnt") == 1, "it waits", LIMIT)
        assert queue(profile) == [(RECEIVED, LARGE, 0)]
        b.ep.recv(b.buffer[:LARGE])
        assert profile.number("unexp_msg_cnt") == 0
        assert names(profile) == [RECVD, MATCHED]
        assert b.entry().len == LARGE


def test_message_of_a_sender_that_closes_is_not_matched(rdm: RdmNet) -> None:
    """F5: what nobody can have any more leaves the queue, without an event."""
    a, b = rdm.connect(length=LARGE)
    with b.ep.profile() as profile:
        profile.keep()
        a.ep.send(a.buffer[:LARGE])
        wait_until(lambda: profile.number("unexp_msg_cnt") == 1, "it waits", LIMIT)
        a.ep.close()
        wait_until(lambda: profile.number("unexp_msg_cnt") == 0, "it is gone", LIMIT)
        assert queue(profile) == []
        assert names(profile) == [RECVD]


def test_each_receive_context_has_a_queue_of_its_own(rdm: RdmNet) -> None:
    """F1, F5: a context's profile shows its messages; the domain adds them up."""
    a, b = rdm.scalable(2), rdm.scalable(2)
    name = b.sep.getname()
    assert name is not None
    to = a.av.insert_one(name)
    sender = a.contexts[0]
    with b.contexts[0].rx.profile() as first, b.contexts[1].rx.profile() as second:
        assert set(second.kinds) == {RECVD, MATCHED}
        for index in (0, 1, 1):
            sender.tx.send(a.buffer[:8], to=a.av.rx_addr(to, index))
            sender.tx_cq.sread(1, timeout=LIMIT)
        assert [one["unexp_msg_cnt"] for one in (first, second)] == [1, 2]
        with b.domain.profile() as domain:
            assert domain["unexp_msg_cnt"] == 3
            b.contexts[1].rx.recv(b.buffer[:8])
            assert domain["unexp_msg_cnt"] == 2


def test_transmit_context_counts_what_it_has_reported(rdm: RdmNet) -> None:
    """F1, F3: it keeps no messages, so the core's variables are all that it has."""
    a = rdm.scalable(1)
    with a.contexts[0].tx.profile() as profile:
        assert set(profile) == {"completions", "errors"}
        assert not profile.kinds


def test_endpoint_that_is_not_enabled_keeps_nothing(rdm: RdmNet) -> None:
    """F3: its variables can be read; what opens the profile need not wait for enable."""
    a = rdm.peer(enable=False)
    b = rdm.peer()
    with a.ep.profile() as profile:
        assert (profile["unexp_msg_cnt"], profile["unexp_msg_queue"]) == (0, ())
        profile.keep()
        a.ep.enable()
        b.meet(a)
        b.ep.send(b.buffer[:8])
        b.entry()
        assert names(profile) == [RECVD]
