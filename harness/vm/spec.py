# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a guest is made of: plain data, decided before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from harness.vm.versions import Version

SLOW = "KFABRIC_SLOW"
"""Environment in a guest: how many times as long as usual everything may take."""


class Accel(Enum):
    """How QEMU runs guest code."""

    TCG = "tcg"
    KVM = "kvm"


class Variant(Enum):
    """Which build of the kernel modules the guest gets."""

    PROD = "prod"
    TEST = "test"
    """With delay hooks and fault points (``KFABRIC_TEST=1``)."""


@dataclass(frozen=True)
class Image:
    """A guest image in the cache; see :mod:`harness.vm.image`.

    :param release: of the kernel, e.g. ``6.1.0-56-amd64``.
    :param kernel: the file that QEMU boots.
    :param initrd: loads the few modules needed to mount the root.
    :param disk: the root file system, ext4, raw.
    :param version: what the kernel is called here.
    """

    release: str
    kernel: Path
    initrd: Path
    disk: Path
    version: Version


@dataclass(frozen=True)
class Deadlines:
    """Seconds after which the watchdog ends a guest."""

    boot: float = 120.0
    """From the start of QEMU to the agent's first word."""
    silence: float = 60.0
    """Between two heartbeats."""
    quit: float = 10.0
    """From asking QEMU to end to killing it."""

    def times(self, factor: float) -> Deadlines:
        """The same for a guest in which everything takes longer."""
        return Deadlines(self.boot * factor, self.silence * factor, self.quit)


@dataclass(frozen=True)
class VmSpec:
    """One guest.

    :param name: for messages; also the guest's host name.
    :param kernel: its name in vm/versions.toml; empty: the one that is meant by default.
    :param memory_mib: guest memory.
    :param cpus: virtual CPUs.
    :param variant: build of the modules that ``$KFABRIC_MODULES`` names in the
        guest; None: no modules are built.
    :param cmdline: more kernel parameters.
    :param env: environment of every command in the guest.
    :param shares: directories of the host that the guest sees at the same paths,
        read-only, besides the checkout.
    :param qemu: more QEMU arguments, e.g. a second network device.
    :param icount: count instructions: the guest's TSC counts one an instruction, and
        so does its clock, one nanosecond each. TCG and one virtual CPU only.
    :param vmcore: a panic leaves the guest's memory, as ``vmcore`` beside the console.
    """

    name: str = "kfabric"
    kernel: str = ""
    memory_mib: int = 1024
    cpus: int = 2
    variant: Variant | None = None
    cmdline: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    shares: tuple[Path, ...] = ()
    qemu: tuple[str, ...] = ()
    icount: bool = False
    vmcore: bool = False
    deadlines: Deadlines = Deadlines()

    def on(self, version: Version) -> VmSpec:
        """The same guest with what this kernel needs: memory, patience, parameters."""
        slow = {SLOW: f"{version.slow:g}"} if version.slow != 1.0 else {}
        return replace(
            self,
            memory_mib=max(self.memory_mib, version.memory_mib),
            cmdline=(*version.append, *self.cmdline),
            env={**slow, **self.env},
            deadlines=self.deadlines.times(version.slow),
        )
