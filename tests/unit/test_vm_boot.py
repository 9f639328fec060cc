# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A boot that fails early, maybe by QEMU's fault, is repeated once; others are final."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kfabric.errors import BootError, GuestError, GuestLost, SetupError
from kfabric.vm import machine
from kfabric.vm.argv import Disk
from kfabric.vm.client import AgentClient, StreamEnd
from kfabric.vm.machine import EarlyBootError, Vm
from kfabric.vm.spec import Accel, Deadlines, Image, VmSpec
from kfabric.vm.versions import Stock, Version
from kfabric.vm.watchdog import Watchdog

STOCK = Version("6.1", "bookworm", Stock("linux-image-amd64", "bookworm"))
IMAGE = Image("6.1", Path("vmlinux"), Path("initrd"), Path("disk"), STOCK)
SILENT_KERNEL = "[    2.58] sched_clock: Marking stable\n"
SILENT_INIT = SILENT_KERNEL + "[    5.64] Run /init as init process\n"


class Nobody:
    """Agent and watchdog of a guest that boots, or does not.

    Args:
        end: what becomes of it: True if the agent answers, False if it is silent, else the
            status with which QEMU ends.
    """

    def __init__(self, end: bool | int) -> None:
        self._end = end

    def wait_reply(self, timeout: float) -> None:
        if self._end is False:
            raise TimeoutError
        if self._end is not True:
            raise StreamEnd

    def begin(self, name: str, mounts: list[object], pythonpath: str) -> None:
        """Do nothing."""

    def arm(self) -> None:
        """Do nothing."""


class PaperVm(Vm):
    """A guest whose boots have given ends."""

    def __init__(self, directory: Path, console: str, ends: list[bool | int], boot: float) -> None:
        spec = VmSpec(name="paper", deadlines=Deadlines(boot=boot))
        super().__init__(spec, IMAGE, cast(Accel, None), directory, Path("/"))
        self._ends = ends
        self._console = console

    def _can_freeze(self) -> bool:
        return False

    def _launch(self, disk: Disk, thaw: int | None = None) -> None:
        end = self._ends.pop(0)
        nobody = Nobody(end)
        self._qemu: Any = SimpleNamespace(returncode=end)
        self._agent = cast(AgentClient, nobody)
        self._watchdog = cast(Watchdog, nobody)
        self.console_path.write_text(self._console)

    def cause(self) -> GuestError:
        return GuestLost(f"QEMU ended with status {self._qemu.returncode}")


@pytest.fixture(autouse=True)
def _no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.bytecode, "packages", lambda *_, **__: True)


@pytest.mark.parametrize(
    ("end", "what"),
    [
        (False, "the kernel was silent for 40 s"),
        (-signal.SIGABRT, "guest lost: QEMU ended with status -6"),
    ],
)
def test_early_failure_gets_a_second_chance(
    end: bool | int, what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And a line says so."""
    vm = PaperVm(tmp_path, SILENT_KERNEL, [end, True], boot=120.0)
    vm.start()
    assert (tmp_path / "console.first.log").read_text() == SILENT_KERNEL
    line = f"kfabric: paper did not boot, and is booted once more: {what}\n"
    assert capfd.readouterr().err == line


@pytest.mark.parametrize("end", [False, -signal.SIGABRT])
def test_second_early_failure_is_final(end: bool | int, tmp_path: Path) -> None:
    vm = PaperVm(tmp_path, SILENT_KERNEL, [end, end], boot=120.0)
    with pytest.raises(EarlyBootError):
        vm.start()


@pytest.mark.parametrize(
    ("end", "console"),
    [
        pytest.param(1, "", id="QEMU refuses its arguments"),
        pytest.param(-signal.SIGKILL, SILENT_KERNEL, id="QEMU is killed"),
        pytest.param(-signal.SIGABRT, SILENT_INIT, id="QEMU aborts after our init"),
    ],
)
def test_other_end_of_qemu_is_final(end: int, console: str, tmp_path: Path) -> None:
    vm = PaperVm(tmp_path, console, [end], boot=120.0)
    with pytest.raises(BootError, match=f"QEMU ended with status {end}"):
        vm.start()


def test_guest_that_stalls_after_its_init_is_not_booted_again(tmp_path: Path) -> None:
    """An error of our own init is not random."""
    vm = PaperVm(tmp_path, SILENT_INIT, [False], boot=20.0)
    with pytest.raises(BootError, match="no sign of life after 20 s"):
        vm.start()


def test_guests_of_two_runs_have_no_directory_in_common(tmp_path: Path) -> None:
    """The second one would remove the first one's files; the directory is free afterwards."""
    first, second = (PaperVm(tmp_path, "", [True], boot=10.0) for _ in range(2))
    first.start()
    (first.out / "word").touch()
    with pytest.raises(SetupError, match="another process holds"):
        second.start()
    assert (first.out / "word").exists()
    first.close()
    second.start()
    second.close()
