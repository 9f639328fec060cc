# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Silence is a hang; heartbeats and a normal end are not."""

from __future__ import annotations

import socket
from typing import cast

from kfabric.errors import GuestError, GuestHang
from kfabric.vm.watchdog import Watchdog

VERDICT = GuestHang("no heartbeat")


def silence() -> GuestError:
    return VERDICT


def test_silence_is_a_hang() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        dog = Watchdog(ours, silence, silence=0.01)
        dog.arm()
        dog.join()
    assert dog.verdict is VERDICT


def test_the_end_of_qemu_is_not_a_hang() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        dog = Watchdog(ours, silence, silence=60.0)
        dog.arm()
        theirs.close()
        dog.join()
    assert dog.verdict is None


class Beats:
    """A socket on which some heartbeats arrive in time, and then none."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.timeout = 0.0

    def settimeout(self, seconds: float) -> None:
        self.timeout = seconds

    def recv(self, _size: int) -> bytes:
        if self.left == 0:
            raise TimeoutError
        self.left -= 1
        return b"."


def test_each_heartbeat_starts_the_deadline_anew() -> None:
    beats = Beats(count=5)
    dog = Watchdog(cast(socket.socket, beats), silence, silence=42.0)
    dog.arm()
    dog.join()
    assert (beats.left, beats.timeout) == (0, 42.0)
    assert dog.verdict is VERDICT


def test_nothing_is_expected_before_it_is_armed() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        dog = Watchdog(ours, silence, silence=0.0)
        dog.join()
    assert dog.verdict is None
