# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""KVM or TCG: decided by what a guest does, not by what /dev/kvm says.

On some hosts /dev/kvm opens and creates a VM, and then QEMU aborts or the guest
hangs in its first code. So a probe guest has to print its kernel's banner within
a deadline; the result holds until the host boots again.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.vm import cache
from harness.vm.argv import CPU
from harness.vm.spec import Accel, Image

DEVICE = Path("/dev/kvm")
PROBE_SECONDS = 10.0
BANNER = b"Linux version "


@dataclass(frozen=True)
class Choice:
    """An accelerator and, in a few words, why it."""

    accel: Accel
    why: str

    def line(self) -> str:
        """What the user is told."""
        return f"accelerator: {self.accel.name} ({self.why})"


def choose(image: Image, probe: Callable[[Image], str] | None = None) -> Choice:
    """Decide for this host; the probe runs at most once per host boot and QEMU.

    :param probe: boots a guest with KVM; returns why that failed, or "".
    """
    if reason := _unusable(DEVICE):
        return Choice(Accel.TCG, reason)
    memory = cache.root() / "kvm.json"
    now = _identity()
    known = _recall(memory)
    if known is None or known.get("identity") != now:
        known = {"identity": now, "failure": (probe or probe_kvm)(image)}
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps(known))
    return decide(known["failure"])


def decide(failure: str) -> Choice:
    """The choice that follows from the probe's result."""
    if failure:
        return Choice(Accel.TCG, f"KVM: {failure}")
    return Choice(Accel.KVM, "a probe guest booted with it")


def probe_kvm(image: Image) -> str:
    """Boot a kernel with KVM until its banner; why that failed, or ""."""
    argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"]
    argv += ["-M", "q35", "-accel", "kvm", "-cpu", CPU[Accel.KVM], "-m", "256", "-no-reboot"]
    argv += ["-kernel", str(image.kernel), "-serial", "stdio"]
    argv += ["-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1"]
    with subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as qemu:
        try:
            return _await_banner(qemu, time.monotonic() + PROBE_SECONDS)
        finally:
            qemu.kill()


def _await_banner(qemu: subprocess.Popen[bytes], end: float) -> str:
    assert qemu.stdout is not None
    seen = b""
    while (left := end - time.monotonic()) > 0:
        if not select.select([qemu.stdout], [], [], left)[0]:
            break
        data = os.read(qemu.stdout.fileno(), 4096)
        if not data:
            return _last_words(seen) or "QEMU ended without a word"
        seen += data
        if BANNER in seen:
            return ""
    return f"a probe guest printed no banner in {PROBE_SECONDS:g} s"


def _last_words(seen: bytes) -> str:
    lines = [line for line in seen.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:120] if lines else ""


def _unusable(device: Path) -> str:
    if not device.exists():
        return f"there is no {device}"
    if not os.access(device, os.R_OK | os.W_OK):
        return f"{device} may not be opened"
    return ""


def _identity() -> str:
    """What the probe's result depends on: this boot of the host, and QEMU."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    argv = ["qemu-system-x86_64", "--version"]
    version = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return f"{boot} {version.splitlines()[0]}"


def _recall(path: Path) -> dict[str, str] | None:
    try:
        known: dict[str, str] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return known
