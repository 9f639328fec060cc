# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests that do not boot, and bridges that wait for them."""

from __future__ import annotations

import shlex
import socket
import threading
from pathlib import Path

import pytest

from kfabric.errors import BootError
from kfabric.runner.bridge import abstract
from kfabric.runner.pool import Guest, Slot

SECONDS = 30.0


class Listener(socket.socket):
    """A slot's listener that notes, when it is closed, whether the reason is known."""

    slot: Slot
    known: bool | None = None

    def close(self) -> None:
        """Note it only the first time."""
        if self.known is None:
            self.known = self.slot.life.booted.done()
        super().close()


def test_reason_is_known_before_a_bridge_learns_that_there_is_no_guest(tmp_path: Path) -> None:
    """pytest asks for the reason as soon as the bridge has ended."""
    waits = threading.Event()

    def boot(name: str, directory: Path) -> Guest:
        assert waits.wait(SECONDS)
        raise BootError("no sign of life", console="")

    slot = Slot("guest0", boot, tmp_path, tmp_path, 1.0)
    slot.listener = listener = Listener(fileno=slot.listener.detach())
    listener.slot = slot
    slot.start()
    waits.set()
    assert slot.life.booted.exception(SECONDS)
    slot.close()
    assert listener.known


def test_bridge_that_waits_already_learns_that_there_is_no_guest(tmp_path: Path) -> None:
    """A later bridge learns it, too; neither waits for its own deadline."""
    waits = threading.Event()

    def boot(name: str, directory: Path) -> Guest:
        assert waits.wait(SECONDS)
        raise BootError("no sign of life", console="")

    slot = Slot("guest0", boot, tmp_path, tmp_path, 1.0)
    slot.start()
    address = abstract(shlex.split(slot.spec.partition("python=")[2])[3])
    with socket.socket(socket.AF_UNIX) as early:
        early.connect(address)
        early.settimeout(SECONDS)
        waits.set()
        with pytest.raises(ConnectionResetError):
            early.recv(1)
    with socket.socket(socket.AF_UNIX) as late:
        assert late.connect_ex(address) != 0
    slot.close()
