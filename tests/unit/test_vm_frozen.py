# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Frozen guests: one for each kind, and discarded if it does not thaw."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from kfabric import names
from kfabric.errors import BootError, SetupError
from kfabric.vm import frozen, machine
from kfabric.vm.argv import Disk
from kfabric.vm.client import AgentClient
from kfabric.vm.frozen import FreezeError, Frozen
from kfabric.vm.machine import Vm
from kfabric.vm.qmp import QmpLink
from kfabric.vm.spec import Accel, Image, VmSpec
from kfabric.vm.versions import Stock, Version

STOCK = Version("6.1", "bookworm", Stock("linux-image-amd64", "bookworm"))


def make(target: Frozen) -> None:
    """Write the files of a frozen guest."""
    target.state.write_text("state")
    target.console.write_text("[    0.00] Linux version 6.1\n")


def test_each_kind_is_frozen_once(tmp_path: Path) -> None:
    first = frozen.ensure(tmp_path, "small", make)
    assert first.state.read_text() == "state"

    def again(target: Frozen) -> None:
        raise AssertionError("it is there already")

    assert frozen.ensure(tmp_path, "small", again).directory == first.directory
    assert frozen.ensure(tmp_path, "large", make).directory != first.directory


def test_one_that_cannot_be_frozen_leaves_nothing(tmp_path: Path) -> None:
    def fail(target: Frozen) -> None:
        target.state.write_text("half")
        raise BootError("no sign of life after 1 s")

    with pytest.raises(BootError):
        frozen.ensure(tmp_path, "small", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_unused_ones_are_removed(tmp_path: Path) -> None:
    """Each takes hundreds of megabytes; recently used ones stay."""
    for number in range(frozen.KEPT):
        old = frozen.ensure(tmp_path, f"kind{number}", make)
        os.utime(old.directory, (number, number))
    frozen.ensure(tmp_path, "kind0", make)
    frozen.ensure(tmp_path, "new", make)
    assert (tmp_path / "kind0").exists()
    assert not (tmp_path / "kind1").exists()
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == frozen.KEPT


class PaperVm(Vm):
    """A guest that starts as given, and records how it was started."""

    def __init__(self, directory: Path, spec: VmSpec, thaws: bool) -> None:
        image = Image("6.1", Path("vmlinux"), Path("initrd"), directory / "root.img", STOCK)
        super().__init__(spec, image, Accel.TCG, directory / "guest", Path("/"))
        self._thaws = thaws
        self.launches: list[tuple[str, bool]] = []

    def _freeze(self, target: Frozen) -> None:
        make(target)

    def _launch(self, disk: Disk, thaw: int | None = None) -> None:
        self.launches.append((disk.path.name, thaw is not None))

    def _wait_hello(self, deadline: float) -> None:
        assert deadline > time.monotonic()

    def _begin(self) -> None:
        if self.launches[-1][1] and not self._thaws:
            raise BootError("no sign of life after 1 s")


@pytest.fixture(autouse=True)
def _no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.bytecode, "packages", lambda *_, **__: True)


def test_guest_goes_on_from_where_its_kind_was_frozen(tmp_path: Path) -> None:
    vm = PaperVm(tmp_path, VmSpec(), thaws=True)
    vm.start()
    assert vm.launches == [("disk.qcow2", True)]
    assert "Linux version" in vm.console_text(), "its console begins with the boot"


def test_layer_has_frozen_guests_of_its_own(tmp_path: Path) -> None:
    """Kernel, initrd and parameters are those of the image that it is a layer of."""
    vm = PaperVm(tmp_path, VmSpec(), thaws=True)
    vm.image = replace(vm.image, disk=tmp_path / "layers/1234/root.img")
    vm.start()
    assert not (tmp_path / "frozen").exists()
    assert vm.launches == [("disk.qcow2", True)]
    assert (tmp_path / "layers/1234/frozen").is_dir()


def test_guest_that_does_not_thaw_boots(tmp_path: Path) -> None:
    """And the frozen guest is removed, so that the next guest does not try it."""
    vm = PaperVm(tmp_path, VmSpec(), thaws=False)
    vm.start()
    assert vm.launches == [("disk.qcow2", True), ("root.img", False)]
    assert vm.console_text() == ""
    assert not any(path.is_dir() for path in (tmp_path / "frozen").iterdir())


def complain(target: Frozen) -> None:
    """Freeze a guest whose kernel had reported a problem."""
    make(target)
    target.console.write_text("[ 0.1] BUG: workqueue lockup - pool cpus=0\n")


def lose(target: Frozen) -> None:
    """Freeze a guest that has lost a file."""
    make(target)
    target.console.unlink()


@pytest.mark.parametrize("freeze", [complain, lose])
def test_guest_that_is_none_to_keep_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, freeze: Callable[[Frozen], None]
) -> None:
    """Otherwise each later guest would have its report on the console, or not start."""
    vm = PaperVm(tmp_path, VmSpec(), thaws=True)
    monkeypatch.setattr(vm, "_freeze", freeze)
    vm.start()
    assert vm.launches == [("root.img", False)]
    assert vm.console_text() == ""
    assert not any(path.is_dir() for path in (tmp_path / "frozen").iterdir())


def failing(error: BaseException) -> Callable[[Frozen], None]:
    """Freeze no guest."""

    def freeze(target: Frozen) -> None:
        raise error

    return freeze


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (SetupError("no room", "make some"), "set-up failed: no room; make some"),
        (FreezeError("QEMU refuses to save it"), "not saved: QEMU refuses to save it"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (subprocess.CalledProcessError(1, "qemu-img"), "'qemu-img' returned non-zero exit status"),
    ],
)
def test_guest_that_cannot_be_frozen_boots(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    why: str,
) -> None:
    """And prints the reason in one line, because freezing only saves time."""
    vm = PaperVm(tmp_path, VmSpec(), thaws=True)
    monkeypatch.setattr(vm, "_freeze", failing(error))
    vm.start()
    assert vm.launches == [("root.img", False)]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kfabric: kfabric boots, since it cannot be saved for later guests: ")
    assert why in line


@pytest.mark.parametrize("error", [BootError("no sign of life after 1 s"), KeyboardInterrupt()])
def test_kernel_that_does_not_boot_is_not_waited_for_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Nor does a guest boot after Ctrl-C."""
    vm = PaperVm(tmp_path, VmSpec(), thaws=True)
    monkeypatch.setattr(vm, "_freeze", failing(error))
    with pytest.raises(type(error)):
        vm.start()
    assert vm.launches == []


def test_guest_that_boots_to_be_saved_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It takes long, in the place of a start that takes a second."""

    def show(vm: Vm, disk: Disk) -> None:
        (line,) = capsys.readouterr().err.splitlines()
        assert line == "kfabric: no guest of this kind is saved: booting one, to save it"
        raise BootError("it has shown the line")

    monkeypatch.delenv(names.QUIET, raising=False)
    monkeypatch.setattr(frozen, "make_disk", lambda *_: None)
    monkeypatch.setattr(Vm, "_boot", show)
    target = Frozen(tmp_path / "kind")
    target.directory.mkdir()
    with pytest.raises(BootError, match="has shown"):
        Vm._freeze(PaperVm(tmp_path, VmSpec(), thaws=True), target)


class Nobody:
    """An agent that does not answer."""

    def prepare(self, code: str) -> None:
        """Do nothing."""


class Refusal:
    """A QEMU that refuses every command."""

    def execute(self, command: str, deadline: float, **arguments: object) -> None:
        """Return no answer."""


def test_save_that_is_refused_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.time, "sleep", lambda seconds: pytest.fail("it waits"))
    monkeypatch.setattr(Vm, "alive", True)
    vm = PaperVm(tmp_path, VmSpec(), thaws=True)
    vm._qmp = cast(QmpLink, Refusal())
    with pytest.raises(FreezeError, match="refuses"):
        vm._save(tmp_path / "state")


def test_guest_that_boots_and_does_not_prepare_cannot_be_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel boots, so the guest itself can."""

    def die(vm: Vm, deadline: float) -> None:
        raise BootError("no sign of life after 1 s")

    monkeypatch.setattr(PaperVm, "_wait_reply", die)
    vm = PaperVm(tmp_path, VmSpec(), thaws=True)
    vm._agent = cast(AgentClient, Nobody())
    with pytest.raises(FreezeError, match="no sign of life"):
        vm._prepare()


@pytest.mark.parametrize(
    "spec", [VmSpec(qemu=("-netdev", "user,id=net")), VmSpec(cpus=1, icount=True)]
)
def test_guest_with_more_devices_or_counted_instructions_boots(
    tmp_path: Path, spec: VmSpec
) -> None:
    """A device that connects one guest to another cannot be frozen."""
    vm = PaperVm(tmp_path, spec, thaws=True)
    vm.start()
    assert vm.launches == [("root.img", False)]


def test_accelerator_is_part_of_the_kind() -> None:
    """KVM cannot read TCG's state."""
    tcg, kvm = (frozen.key(["-accel", word.value]) for word in Accel)
    assert tcg != kvm
