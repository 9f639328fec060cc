# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Chooses KVM or TCG by booting a probe guest: an openable /dev/kvm is not enough.

On some hosts /dev/kvm opens and creates a VM, and then QEMU aborts or the guest hangs in
its first code. The probe guest must print its kernel's banner within a deadline. The result
holds until the host reboots.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kfabric.vm import argv as qemu
from kfabric.vm import cache, tools
from kfabric.vm.spec import Accel, Image

DEVICE = Path("/dev/kvm")
PROBE_SECONDS = 10.0
BANNER = b"Linux version "


@dataclass(frozen=True)
class Choice:
    """An accelerator and, in a few words, the reason.

    Attributes:
        new: whether it was found out now; otherwise an earlier command has printed it.
    """

    accel: Accel
    why: str
    new: bool = False

    def line(self) -> str:
        """The message for the user."""
        return f"accelerator: {self.accel.name} ({self.why})"


def choose(image: Image, probe: Callable[[Image], str] | None = None) -> Choice:
    """Choose for this host; the probe runs at most once per host boot and QEMU version.

    The probe boots a guest with KVM, and returns the reason of a failure or "".
    """
    obstacle = _obstacle()
    memory = cache.root() / "kvm.json"
    now = obstacle or _identity()
    try:
        known: dict[str, str] = json.loads(memory.read_text())
    except (FileNotFoundError, ValueError):
        known = {}
    new = known.get("identity") != now
    if new:
        known = {"identity": now, "failure": obstacle or (probe or probe_kvm)(image)}
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps(known))
    if known["failure"]:
        return Choice(Accel.TCG, f"KVM: {known['failure']}", new)
    return Choice(Accel.KVM, "a probe guest booted with it", new)


def _obstacle() -> str:
    """Why KVM cannot even be tried, or ""."""
    if not DEVICE.exists():
        return f"there is no {DEVICE}"
    return "" if os.access(DEVICE, os.R_OK | os.W_OK) else f"{DEVICE} may not be opened"


def probe_kvm(image: Image) -> str:
    """Boot a kernel with KVM until its banner; the reason of a failure, or ""."""
    argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"]
    argv += ["-M", "q35", "-accel", "kvm", "-cpu", qemu.CPU[Accel.KVM], "-m", "256", "-no-reboot"]
    argv += ["-kernel", str(image.kernel), "-serial", "stdio"]
    argv += ["-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1"]
    with subprocess.Popen(
        [*tools.END_WITH_US, *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            return _await_banner(process, time.monotonic() + PROBE_SECONDS)
        finally:
            process.kill()


def _await_banner(process: subprocess.Popen[bytes], end: float) -> str:
    assert process.stdout is not None
    seen = b""
    while (left := end - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left)[0]:
            break
        data = os.read(process.stdout.fileno(), 4096)
        if not data:
            lines = [line for line in seen.decode(errors="replace").splitlines() if line.strip()]
            return lines[-1].strip()[:120] if lines else "QEMU ended without output"
        seen += data
        if BANNER in seen:
            return ""
    return f"a probe guest printed no banner in {PROBE_SECONDS:g} s"


def _identity() -> str:
    """This boot of the host, and QEMU: the probe's result depends on both."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {qemu.version()}"
