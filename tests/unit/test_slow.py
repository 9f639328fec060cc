# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A step that takes long is shown; a quick one leaves no line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from slow_steps import Log, impatient

from kfabric import names
from kfabric.errors import BootError
from kfabric.terminal.slow import Running, Slow
from kfabric.vm import layer, options, prepare, usermodule
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


class Ending(threading.Event):
    """The end of a step that goes on until the fourth line is due."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """No time passes; true: it has ended."""
        self.waits.append(timeout)
        return len(self.waits) == 4


def test_step_of_minutes_shows_how_long_it_has_run() -> None:
    """In lines that become rarer."""
    lines: list[str] = []
    running = Running("make", lines.append)
    ending = running._ended = Ending()
    with running:
        pass
    assert lines == [f"make has run for {seconds} s" for seconds in (20, 40, 80)]
    assert ending.waits == [20, 20, 40, 80]


def test_step_of_minutes_shows_how_much_is_done() -> None:
    """As it is when the line is printed."""
    lines: list[str] = []
    counts = iter(["1 of 9 files", "4 of 9 files", ""])
    running = Running("make", lines.append, lambda: next(counts))
    running._ended = Ending()
    with running:
        pass
    assert lines == [
        "make has run for 20 s: 1 of 9 files",
        "make has run for 40 s: 4 of 9 files",
        "make has run for 80 s",
    ]


def test_quick_step_of_minutes_leaves_neither_line_nor_thread() -> None:
    """Its end does not wait for the time of the line."""
    lines: list[str] = []
    with Running("make", lines.append) as running:
        pass
    assert lines == [] and not running._thread.is_alive()


def test_image_that_takes_long_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps have lines of their own, and each takes most of a minute, or more."""
    log = Log(monkeypatch)
    monkeypatch.setattr(prepare.os, "geteuid", lambda: 0)
    monkeypatch.setattr(prepare.image, "ensure", lambda *_: None)
    monkeypatch.setattr(
        layer, "ensure", lambda *_: log.wait("the build of the image has run for 0 s")
    )
    assert prepare.guest_image(log)


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
