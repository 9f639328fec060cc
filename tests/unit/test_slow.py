# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A step that takes long is shown; a quick one leaves no line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from slow_steps import impatient

from kfabric import names
from kfabric.errors import BootError
from kfabric.terminal.slow import Slow
from kfabric.vm import options, usermodule
from kfabric.vm.machine import Vm

NEVER = 1e6


def test_step_that_takes_long_is_shown_while_it_runs() -> None:
    """The line comes before the step has ended."""
    lines: list[str] = []
    came = threading.Event()

    def show(line: str) -> None:
        lines.append(line)
        came.set()

    with Slow("building", show, seconds=0):
        assert came.wait(60)
    assert lines == ["building"]


@pytest.mark.parametrize("cancel", [False, True])
def test_quick_step_leaves_neither_line_nor_thread(cancel: bool) -> None:
    """Its end does not wait for the time of the line."""
    lines: list[str] = []
    with Slow("building", lines.append, seconds=NEVER) as slow:
        if cancel:
            slow.cancel()
    assert lines == [] and not slow._timer.is_alive()


class SlowVm:
    """A guest that boots once ``booting`` has returned."""

    def __init__(self, directory: Path, booting: Callable[[], object]) -> None:
        self.directory = directory
        self.events: list[str] = []
        self._booting = booting

    def __enter__(self) -> SlowVm:
        self._booting()
        return self

    def __exit__(self, *_: object) -> None:
        self.events.append("closed")


def test_boot_that_takes_long_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By kfabric run, shell, trace and top: on a busy host a guest boots for a minute."""
    monkeypatch.delenv(names.QUIET, raising=False)
    vm = SlowVm(tmp_path, impatient(monkeypatch, options))
    with options.disposable(cast(Vm, vm)) as running:
        assert running is cast(Vm, vm) and vm.events == []
        assert capsys.readouterr().err == "kfabric: booting a guest\n"
    assert vm.events == ["closed"]


def test_load_of_the_users_module_that_takes_long_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It follows the boot."""
    monkeypatch.delenv(names.QUIET, raising=False)
    shown = impatient(monkeypatch, options)
    monkeypatch.setattr(usermodule, "load", lambda *_: shown())
    tested = usermodule.UserModule(None, tmp_path, modprobe=("ifb",))
    with options.disposable(cast(Vm, SlowVm(tmp_path, shown)), tested):
        assert capsys.readouterr().err.endswith("kfabric: loading ifb\n")


def test_boot_that_fails_keeps_the_guests_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the console; the line with its place is printed."""

    def fail() -> None:
        raise BootError("it did not")

    with pytest.raises(BootError), options.disposable(cast(Vm, SlowVm(tmp_path, fail))):
        pass
    assert tmp_path.exists()
    assert capsys.readouterr().err == f"kfabric: console and more: {tmp_path}\n"
