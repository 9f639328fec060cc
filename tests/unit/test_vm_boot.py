# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A boot that stalls in the kernel is repeated once; any other failure is final."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from kfabric.errors import BootError, SetupError
from kfabric.vm import machine
from kfabric.vm.argv import Disk
from kfabric.vm.client import AgentClient
from kfabric.vm.machine import BootStall, Vm
from kfabric.vm.spec import Accel, Deadlines, Image, VmSpec
from kfabric.vm.versions import Stock, Version
from kfabric.vm.watchdog import Watchdog

STOCK = Version("6.1", "bookworm", Stock("linux-image-amd64", "bookworm"))
IMAGE = Image("6.1", Path("vmlinux"), Path("initrd"), Path("disk"), STOCK)
SILENT_KERNEL = "[    2.58] sched_clock: Marking stable\n"
SILENT_INIT = SILENT_KERNEL + "[    5.64] Run /init as init process\n"


class Nobody:
    """Agent and watchdog of a guest that boots, or does not."""

    def __init__(self, answers: bool) -> None:
        self._answers = answers

    def wait_reply(self, timeout: float) -> None:
        if not self._answers:
            raise TimeoutError

    def begin(self, name: str, mounts: list[object], pythonpath: str) -> None:
        """Do nothing."""

    def arm(self) -> None:
        """Do nothing."""


class PaperVm(Vm):
    """A guest whose boots have given results."""

    def __init__(self, directory: Path, console: str, answers: list[bool], boot: float) -> None:
        spec = VmSpec(name="paper", deadlines=Deadlines(boot=boot))
        super().__init__(spec, IMAGE, cast(Accel, None), directory, Path("/"))
        self._answers = answers
        self._console = console

    def _can_freeze(self) -> bool:
        return False

    def _launch(self, disk: Disk, thaw: int | None = None) -> None:
        nobody = Nobody(self._answers.pop(0))
        self._agent = cast(AgentClient, nobody)
        self._watchdog = cast(Watchdog, nobody)
        self.console_path.write_text(self._console)


@pytest.fixture(autouse=True)
def _no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.bytecode, "packages", lambda *_, **__: True)


def test_stalled_kernel_gets_a_second_chance(tmp_path: Path) -> None:
    vm = PaperVm(tmp_path, SILENT_KERNEL, [False, True], boot=120.0)
    vm.start()
    assert (tmp_path / "console.stalled.log").read_text() == SILENT_KERNEL


def test_second_stall_is_final(tmp_path: Path) -> None:
    vm = PaperVm(tmp_path, SILENT_KERNEL, [False, False], boot=120.0)
    with pytest.raises(BootStall, match="silent for 40 s"):
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
