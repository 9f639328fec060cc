# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""KVM is used only where a guest has booted with it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kfabric.vm import accel
from kfabric.vm.spec import Accel, Image
from kfabric.vm.versions import Stock, Version

VERSION = Version("6.1", "bookworm", Stock("linux-image-amd64", "bookworm"))
IMAGE = Image("6.1.0-1-amd64", Path("/k"), Path("/i"), Path("/d"), VERSION)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a /dev/kvm that opens."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(accel, "DEVICE", device)
    monkeypatch.setattr(accel, "_identity", lambda: "boot-1 qemu-7")
    return device


def never(_image: Image) -> str:
    raise AssertionError("probed")


def test_a_probe_that_booted_means_kvm(host: Path) -> None:
    assert accel.choose(IMAGE, lambda _: "").accel is Accel.KVM


def test_a_failed_probe_means_tcg_with_a_reason(host: Path) -> None:
    choice = accel.choose(IMAGE, lambda _: "failed to set MSR 0x10a")
    assert choice.accel is Accel.TCG
    assert "failed to set MSR 0x10a" in choice.line()


def test_without_a_device_nothing_is_probed(host: Path) -> None:
    host.unlink()
    choice = accel.choose(IMAGE, never)
    assert choice.accel is Accel.TCG
    assert str(host) in choice.why


def test_the_result_is_remembered(host: Path) -> None:
    accel.choose(IMAGE, lambda _: "no banner")
    assert accel.choose(IMAGE, never).accel is Accel.TCG


def test_result_is_new_only_once(host: Path) -> None:
    """Later commands do not print it again."""
    assert accel.choose(IMAGE, lambda _: "no banner").new
    assert not accel.choose(IMAGE, never).new
    host.unlink()
    assert accel.choose(IMAGE, never).new
    assert not accel.choose(IMAGE, never).new


def test_another_boot_of_the_host_probes_again(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accel.choose(IMAGE, lambda _: "no banner")
    monkeypatch.setattr(accel, "_identity", lambda: "boot-2 qemu-7")
    assert accel.choose(IMAGE, lambda _: "").accel is Accel.KVM


def test_a_damaged_memory_is_as_none(host: Path, tmp_path: Path) -> None:
    (tmp_path / "kfabric").mkdir()
    (tmp_path / "kfabric/kvm.json").write_text("{")
    assert accel.choose(IMAGE, lambda _: "").accel is Accel.KVM


def await_banner(code: str, seconds: float) -> str:
    """The probe's result for a QEMU that behaves like this."""
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as qemu:
        try:
            return accel._await_banner(qemu, time.monotonic() + seconds)
        finally:
            qemu.kill()


def test_the_banner_is_a_success_at_once() -> None:
    code = "import time; print('[0.0] Linux version 6.1', flush=True); time.sleep(1000)"
    assert await_banner(code, 60.0) == ""


def test_a_qemu_that_aborts_is_quoted() -> None:
    assert await_banner("print('qemu: error: failed to set MSR')", 60.0).endswith("MSR")


def test_a_silent_qemu_is_abandoned() -> None:
    assert "no banner" in await_banner("import time; time.sleep(1000)", 0.1)
