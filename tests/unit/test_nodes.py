# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Two guests on one wire: no other test gets guests that crashed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.errors import GuestLost, GuestPanic
from harness.runner.nodes import Node, Wire


class Broken:
    """Simulates a panicked guest: every request fails."""

    killed = False
    clean_up = Node.clean_up
    vm = SimpleNamespace(spec=SimpleNamespace(name="node0"))

    def __init__(self, error: Exception) -> None:
        self._error = error

    def plug(self, up: bool) -> None:
        """Fail."""
        raise self._error

    def ask(self, source: str) -> Any:
        """Fail."""
        raise self._error


def wire_of(directory: Path, node: Broken, end: Exception | None) -> Wire:
    """A wire with two of these, whose guests end with an error when they are closed."""
    wire = Wire(directory)
    wire._nodes = (cast(Node, node), cast(Node, node))

    def close() -> None:
        if end:
            raise end

    wire._stack.callback(close)
    return wire


def test_panic_is_what_the_test_fails_with(tmp_path: Path) -> None:
    """Not the failure to plug in its cable; other tests get new guests."""
    wire = wire_of(tmp_path, Broken(GuestLost("no QEMU")), GuestPanic("Fatal exception"))
    with pytest.raises(GuestPanic, match="Fatal exception"):
        wire.take_back()
    assert wire._nodes is None


def test_guest_that_is_gone_without_a_reason_fails_the_test(tmp_path: Path) -> None:
    """QEMU does not answer, and all guests ended normally: the first error is the only one."""
    wire = wire_of(tmp_path, Broken(GuestLost("no QEMU")), None)
    with pytest.raises(GuestLost):
        wire.take_back()
    assert wire._nodes is None


def test_guests_that_died_between_two_tests_are_not_lent_again(tmp_path: Path) -> None:
    """The test that finds them dead fails with the reason; the next one gets new guests."""
    wire = wire_of(tmp_path, Broken(EOFError()), GuestPanic("Fatal exception"))
    with pytest.raises(GuestPanic):
        wire.lend()
    assert wire._nodes is None
