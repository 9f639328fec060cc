# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Two guests on one wire: tests share them until one of the tests has failed or harmed them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kfabric.errors import GuestLost, GuestPanic
from kfabric.guest import nodewatch
from kfabric.runner import nodes
from kfabric.runner.nodes import Node, Wire
from tests.wire import conftest
from tests.wire.wire_support import state

NETEM = "qdisc netem 8001: dev eth1 root refcnt 2 limit 1000 loss 3%"
#: A program in the place of tc(8).
TC = f"""#!/bin/sh
echo "qdisc noqueue 0: dev lo root refcnt 2"
echo "{NETEM}"
echo "qdisc pfifo_fast 0: dev eth0 root refcnt 2 bands 3"
"""


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


class Sound:
    """Simulates a guest that answers; its leftovers are those that a test adds."""

    killed = False

    def __init__(self, name: str) -> None:
        self.vm = SimpleNamespace(spec=SimpleNamespace(name=name), popen=self._popen)
        self.left: list[str] = []
        self.clean_up = lambda: self.left
        self.ask = lambda source: None

    def _popen(self, argv: list[str], timeout: float) -> SimpleNamespace:
        return SimpleNamespace(lines=self._lines)

    def _lines(self) -> Iterator[str]:
        yield f"queue pairs of {self.vm.spec.name}"
        raise GuestLost("no more")


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wire:
    """A wire between two of these."""
    boot = lambda _: contextlib.nullcontext((Sound("near"), Sound("far")))  # noqa: E731
    monkeypatch.setattr(nodes, "two", boot)
    return Wire(tmp_path)


def test_clean_guests_are_lent_again(wire: Wire) -> None:
    """All tests share them."""
    pair = wire.lend()
    assert wire.take_back() == []
    assert wire.lend() is pair


def test_guests_of_a_failed_test_are_not_lent_again(wire: Wire) -> None:
    """Even if they look clean."""
    pair = wire.lend()
    assert wire.condemn() == [*pair]
    assert wire.take_back() == []
    assert wire.lend() is not pair


def test_guests_with_leftovers_can_be_looked_at_but_are_not_lent_again(wire: Wire) -> None:
    """They stay until the next test needs guests."""
    pair = wire.lend()
    cast(Sound, pair[0]).left.append("kfabric is still loaded")
    assert wire.take_back() == ["kfabric is still loaded"]
    assert wire.condemn() == [*pair]
    assert wire.lend() is not pair


def test_state_of_a_guest_has_what_it_could_still_tell() -> None:
    """Then the reason why there is no more."""
    assert state(cast(Node, Sound("near"))) == "queue pairs of near\nguest lost: no more"


@pytest.mark.parametrize("failed", [True, False])
def test_report_of_a_failure_has_the_state_of_the_guests(wire: Wire, failed: bool) -> None:
    """Not of one that the test has killed."""
    cast(Sound, wire.lend()[1]).killed = True
    item = cast(pytest.Function, SimpleNamespace(funcargs={"wire": wire}))
    report = SimpleNamespace(failed=failed, sections=[])
    step = conftest.pytest_runtest_makereport(item)
    next(step)
    with pytest.raises(StopIteration):
        step.send(cast(pytest.TestReport, report))
    assert [title for title, _ in report.sections] == ["state of near"] * failed


def test_netem_on_a_device_is_a_leftover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other queueing disciplines are there without a test."""
    (tmp_path / "tc").write_text(TC)
    (tmp_path / "tc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert nodewatch.disturbances() == [NETEM]
