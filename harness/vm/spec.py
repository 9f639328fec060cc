# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Specification of a guest: plain data, decided before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from kfabric.vm import cache, kerneltree
from kfabric.vm.versions import Tree, Version

SLOW = "KFABRIC_SLOW"
"""Environment in a guest: the factor for all time limits."""


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
    """A guest image in the cache; see :mod:`kfabric.vm.image`."""

    release: str
    """The kernel's, e.g. ``6.1.0-56-amd64``."""
    kernel: Path
    """The file that QEMU boots."""
    initrd: Path
    """Loads the few modules needed to mount the root."""
    disk: Path
    """The root file system, ext4, raw."""
    version: Version
    modules: Path | None = None
    """Directory that guests mount as ``/lib/modules/RELEASE``; None: the disk has one."""

    @property
    def builds(self) -> str:
        """The name of directories with modules that are built for its kernel.

        Trees of a user may have the same release.
        """
        origin = self.version.origin
        if isinstance(origin, Tree):
            return f"{self.release}-{cache.key([bytes(origin.directory)])}"
        return self.release


@dataclass(frozen=True)
class Extras:
    """What a guest's image has in addition; see :mod:`kfabric.vm.layer`."""

    packages: tuple[str, ...] = ()
    """Debian's names."""
    modules: tuple[str, ...] = ()
    """Kernel modules, as a line of vm/modules-guest.txt names them."""

    def __bool__(self) -> bool:
        return bool(self.packages or self.modules)

    def __or__(self, other: Extras) -> Extras:
        return Extras(self.packages + other.packages, self.modules + other.modules)

    def __str__(self) -> str:
        return " ".join((*self.packages, *self.modules))


@dataclass(frozen=True)
class Deadlines:
    """Seconds after which the watchdog ends a guest."""

    boot: float = 120.0
    """From the start of QEMU to the agent's first message."""
    silence: float = 60.0
    """Between two heartbeats."""
    quit: float = 10.0
    """From asking QEMU to end to killing it."""

    def times(self, factor: float) -> Deadlines:
        return Deadlines(self.boot * factor, self.silence * factor, self.quit)


@dataclass(frozen=True)
class VmSpec:
    """One guest."""

    name: str = "kfabric"
    """For messages; also the guest's host name."""
    kernel: str = ""
    """Its name in vm/versions.toml, or the directory of its tree; empty: the default."""
    extras: Extras = Extras()
    memory_mib: int = 1280
    """A tracer whose program the guest compiles takes 600 of them for as long as it runs."""
    cpus: int = 2
    variant: Variant | None = None
    """Build of the modules in ``$KFABRIC_MODULES``; None: no modules are built."""
    core: bool = False
    """Build only kfabric's own modules, not those of examples and tests."""
    cmdline: tuple[str, ...] = ()
    """More kernel parameters."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment of every command in the guest."""
    shares: tuple[Path, ...] = ()
    """Host directories, besides the checkout, mounted read-only at the same paths."""
    live: tuple[Path, ...] = ()
    """The same for directories whose files may change while the guest runs."""
    here: Path | None = None
    """Where the user's commands run; None: in the checkout."""
    wire: tuple[Path, Path] | None = None
    """Sockets of the guest's end and of the other end of an Ethernet; None: it has none."""
    qemu: tuple[str, ...] = ()
    """More QEMU arguments."""
    plugin: Path | None = None
    """A plugin for QEMU's TCG, which is told the file BOARD of the guest's OUT. The guest does not
    see it: it may be thawed."""
    icount: bool = False
    """Clock and TSC count instructions, one nanosecond each. TCG and one virtual CPU only."""
    vmcore: bool = False
    """On a panic, save the guest's memory as ``vmcore`` next to the console."""
    deadlines: Deadlines = Deadlines()

    def on(self, version: Version) -> VmSpec:
        """The same guest with what this kernel needs: memory, time, parameters, directories."""
        tree = version.origin.directory if isinstance(version.origin, Tree) else None
        slow = {SLOW: f"{version.slow:g}"} if version.slow != 1.0 else {}
        return replace(
            self,
            memory_mib=max(self.memory_mib, version.memory_mib),
            cmdline=(*version.append, *self.cmdline),
            env={**slow, **self.env},
            shares=(*self.shares, *(kerneltree.shares(tree) if tree else ())),
            deadlines=self.deadlines.times(version.slow),
        )
