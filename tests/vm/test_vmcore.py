# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Dumps of panicked guests; tests/debug reads one."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus, GuestPanic
from kfabric.guest.waiting import Deadline, wait_until
from kfabric.runner import testvm
from kfabric.vm import vmcore
from kfabric.vm.machine import Vm
from tests.vm.commands import kfabric

RUN_SECONDS = 400.0
SIZE = 1 << 30  # of a guest's memory
CRASH = "echo c >/proc/sysrq-trigger"
LAST = "Kernel Offset: "  # the last words of a panic that reboots


def test_panic_leaves_the_memory_beside_the_console() -> None:
    """As a dump in kdump's format, with the kernel's release; the user gets a message."""
    done = kfabric("run", "--vmcore", "--", "sh", "-c", CRASH, seconds=RUN_SECONDS)
    assert done.returncode == ExitStatus.PANIC
    found = re.search(r"console and more: (\S+)", done.stderr)
    assert found is not None
    left = Path(found[1])
    try:
        core = left / "vmcore"
        assert f"its memory: {core} (" in done.stderr
        assert 1 << 20 < core.stat().st_size < SIZE / 2, "pages of zeros take room"
        with core.open("rb") as file:
            assert file.read(5) == b"KDUMP"
        assert vmcore.about(core).release in (left / "console.log").read_text(errors="replace")
    finally:
        shutil.rmtree(left)


@pytest.fixture
def devices() -> tuple[str, ...]:
    """None: it resumes from a frozen guest."""
    return ()


@pytest.fixture
def guest(devices: tuple[str, ...], tmp_path: Path) -> Iterator[Vm]:
    """A guest with a dump."""
    started = testvm.boot("vmcore", tmp_path / "guest", qemu=devices, vmcore=True)
    with contextlib.closing(started) as vm:
        yield vm


@pytest.mark.parametrize("devices", [(), ("-device", "virtio-rng-pci")], ids=["thawed", "booted"])
def test_console_is_complete_after_a_dump(guest: Vm, tmp_path: Path) -> None:
    """It is paused in its panic, and continues when its memory is written."""
    with pytest.raises(GuestPanic) as panic:
        guest.run(["sh", "-c", CRASH], timeout=RUN_SECONDS)
    assert LAST in guest.console_text()
    assert f"its memory: {tmp_path}/guest/vmcore (" in panic.value.console
    assert vmcore.about(tmp_path / "guest/vmcore").modules


def test_guest_that_is_ended_meanwhile_leaves_nothing(guest: Vm, tmp_path: Path) -> None:
    """Or a complete one, if that was quick; a partial dump is useless."""
    guest.popen(["sh", "-c", CRASH])
    core = tmp_path / "guest/vmcore"
    wait_until(
        lambda: any(core.parent.glob("vmcore*")), "a dump that has begun", Deadline(RUN_SECONDS)
    )
    guest.close()
    left = {path.name for path in core.parent.glob("vmcore*")}
    assert left in (set(), {core.name, vmcore.ABOUT})
