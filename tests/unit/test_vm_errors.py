# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Errors of a guest: the host's load is in their line, the command's own messages above it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kfabric import names
from kfabric.errors import BootError, CommandTimeout, GuestError, KfabricError
from kfabric.runner.bridge import SILENT
from kfabric.runner.pool import Guest, Slot
from kfabric.vm import machine
from kfabric.vm.machine import Command, Vm
from kfabric.vm.spec import Accel, Deadlines, Image, VmSpec
from kfabric.vm.versions import Stock, Version

STOCK = Version("6.1", "bookworm", Stock("linux-image-amd64", "bookworm"))
IMAGE = Image("6.1", Path("vmlinux"), Path("initrd"), Path("disk"), STOCK)
BUSY = "; the host's load was 9.1 on 2 CPUs: the guest may have been starved"
BOOT = "[    1.000000] Run /init as init process\n"


class Job:
    """A command that is never done."""

    argv = ("insmod", "my_mod.ko")

    def __init__(self) -> None:
        self.send = self.close_stdin = self.signal = self.resize = lambda *_: None

    def frames(self, _deadline: float | None) -> Iterator[object]:
        """Wait for the deadline."""
        raise TimeoutError
        yield


class SilentVm(Vm):
    """A guest that never answers, and whose console has the text of a boot."""

    def __init__(self, directory: Path) -> None:
        spec = VmSpec(name="silent", deadlines=Deadlines(boot=60.0, silence=30.0))
        super().__init__(spec, IMAGE, cast(Accel, None), directory, Path("/"))
        agent: Any = SimpleNamespace(start=lambda _: Job(), wait_reply=self._no_reply)
        qmp: Any = SimpleNamespace(execute=lambda *_, **__: None, panicked=False)
        self._agent, self._qmp = agent, qmp
        self._dump: Any = SimpleNamespace(wait=lambda: False, outcome="")
        self._qemu: Any = SimpleNamespace(kill=lambda: None)
        self.console_path.write_text(BOOT)
        (directory / "qemu.log").touch()

    def _no_reply(self, _seconds: float) -> None:
        raise TimeoutError

    def insmod(self) -> Command:
        """Begin to load a module."""
        return self.popen(Job.argv, timeout=60.0)


@pytest.fixture
def vm(tmp_path: Path) -> SilentVm:
    """A guest that never answers."""
    return SilentVm(tmp_path)


def no_boot(vm: SilentVm) -> KfabricError:
    with pytest.raises(BootError) as caught:
        vm._wait_reply(0.0)
    return caught.value


def stalled_boot(vm: SilentVm) -> KfabricError:
    vm.console_path.write_text("")
    with pytest.raises(BootError) as caught:
        vm._wait_hello(float("inf"))
    return caught.value


def slow_command(vm: SilentVm) -> KfabricError:
    with pytest.raises(CommandTimeout) as caught:
        vm.insmod().wait()
    return caught.value


def no_heartbeat(vm: SilentVm) -> GuestError:
    return vm._on_silence()


def dead_qemu(vm: SilentVm) -> GuestError:
    return vm._autopsy(-9)


def soft_lockup(vm: SilentVm) -> GuestError:
    """The guest's CPU may have had no time for a while."""
    title = "watchdog: BUG: soft lockup - CPU#1 stuck for 41s! [cat:9]"
    end = "Kernel panic - not syncing: softlockup: hung tasks"
    vm.console_path.write_text(f"{BOOT}[   61.000000] {title}\n[   61.000009] {end}\n")
    return vm._autopsy(0)


def silent_tests(vm: SilentVm) -> KfabricError:
    """The pool ends a guest whose tests print nothing."""

    def boot(name: str, directory: Path) -> Guest:
        raise BootError("not needed")

    guest: Any = SimpleNamespace(run=lambda *_, **__: None, console_tail=lambda: "")
    slot = Slot("guest0", boot, vm.directory, vm.directory, 150.0)
    slot.start()
    pool, bridge = socket.socketpair()
    with pool, bridge:
        bridge.sendall(SILENT)
        slot.life._watch_silence(pool, guest)
    slot.close()
    assert slot.life._hang is not None
    return slot.life._hang


ENDS: Mapping[Callable[[SilentVm], KfabricError], str] = {
    no_boot: "guest did not boot: no sign of life after 60 s",
    stalled_boot: "guest did not boot: the kernel was silent for 40 s",
    slow_command: "command timed out: insmod my_mod.ko: not done after 60 s",
    no_heartbeat: "guest hangs: no heartbeat for 30 s, QEMU does not answer either",
    dead_qemu: "guest lost: QEMU ended with status -9",
    soft_lockup: "guest kernel panic: softlockup: hung tasks "
    "(watchdog: BUG: soft lockup - CPU#1 stuck for 41s! [cat:9])",
    silent_tests: "guest hangs: the tests printed nothing for 150 s",
}


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
@pytest.mark.parametrize(("load", "remark"), [(9.1, BUSY), (2.0, "")])
def test_error_of_a_busy_host_shows_its_load(
    vm: SilentVm,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[SilentVm], KfabricError],
    load: float,
    remark: str,
) -> None:
    """In the same line; on a host that has a CPU for each process, nothing is added."""
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert end(vm).line() == ENDS[end] + remark


def test_panic_of_the_kernels_own_doing_shows_no_load(
    vm: SilentVm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy host does not cause an oops."""
    monkeypatch.setattr(os, "getloadavg", lambda: (9.1, 0.0, 0.0))
    vm.console_path.write_text("[    9.000000] Kernel panic - not syncing: Fatal exception\n")
    assert vm._autopsy(0).line() == "guest kernel panic: Fatal exception"


SHOWN: Mapping[str, Callable[[Vm], str]] = {
    "a panic": lambda vm: vm._autopsy(0).console,
    "a splat": lambda vm: vm.splats()[0].text,
    "the console's end": lambda vm: vm.console_tail(),
}


@pytest.mark.parametrize("what", SHOWN)
def test_frames_of_the_users_module_have_lines_of_source(
    vm: SilentVm, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The file console.log stays as the kernel wrote it."""
    frame = "RIP: 0010:f+0x1/0x10 [mine]"
    report = f"[ 1.0] BUG: x\n[ 1.1] Call Trace:\n[ 1.2] {frame}\n"
    text = f"{report}[ 1.3] Kernel panic - not syncing: x\n"
    vm.console_path.write_text(text)
    assert SHOWN[what](vm).count(f"{frame}\n") == 1, "it has no module of a user"
    vm.spec = replace(vm.spec, env={names.MODULE_DIR: "/built"})

    def add(text: str, built: Path) -> str:
        return text.replace(frame, f"{frame} ({built})")

    monkeypatch.setattr(machine.sourcelines, "add", add)
    assert f"{frame} (/built)\n" in SHOWN[what](vm)
    assert vm.console_path.read_text() == text


def test_failed_command_shows_the_console_since_it_began(vm: SilentVm) -> None:
    """Not the messages of the boot."""
    command = vm.insmod()
    with vm.console_path.open("a") as console:
        console.write("[    9.000000] my_mod: waits for its device\r\n")
    with pytest.raises(CommandTimeout) as caught:
        command.wait()
    assert caught.value.console == "[    9.000000] my_mod: waits for its device"


def test_failed_command_without_messages_shows_none(vm: SilentVm) -> None:
    """The messages before it would be taken for its own."""
    assert slow_command(vm).console == ""


def test_hang_below_the_handler_of_breakpoints_is_explained(vm: SilentVm) -> None:
    """QEMU before 8.1 may keep a breakpoint that the kernel has removed: no matter of the load."""
    vm.console_path.write_text(f"{BOOT}[   47.588034]  asm_exc_int3+0x35/0x40\n")
    hint = vm._on_silence().hint
    assert hint == 'a CPU takes breakpoints: see "A guest that stands still" in docs/guests.md'
