# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The QEMU command line, composed by small pure functions."""

import functools
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kfabric import names
from kfabric.vm.spec import Accel, Image, VmSpec

PORTS = ("kfabric.agent", "kfabric.xdist", "kfabric.heartbeat")
"""virtio-serial ports; each is a socket pair made by the host."""

NET = "wire"
"""QEMU's name for the end of an Ethernet between two guests."""
# No network boot, so QEMU needs no ROM for it.
_NET_DEVICE = ("-device", f"virtio-net-pci,netdev={NET},romfile=")

CPU = {
    Accel.TCG: "Nehalem,+rdrand",
    # Some hosts emulate KVM without the MSRs that -cpu host sets.
    Accel.KVM: "max,-arch-capabilities",
}


@dataclass(frozen=True)
class Disk:
    """The guest's root disk."""

    path: Path
    format: str = "raw"
    """QEMU's name for it."""
    keep: bool = False
    """The guest's writes stay there."""


@dataclass(frozen=True)
class Wiring:
    """The host's ends of a guest's streams and shares."""

    qmp: int
    """Descriptor of the QMP socket."""
    ports: Mapping[str, int]
    """Descriptor of each virtio-serial port's socket."""
    console: Path
    """Gets the serial console's output."""
    source: Path
    """The checkout; read-only in the guest, at the same path."""
    out: Path
    """Writable directory; at the same path in the guest."""
    disk: Disk
    thaw: int | None = None
    """Descriptor of a frozen guest's state, to resume from."""


@functools.cache
def version() -> str:
    argv = ["qemu-system-x86_64", "--version"]
    return subprocess.check_output(argv, text=True, timeout=60.0).splitlines()[0]


def major() -> int:
    """Of QEMU's version; 0 if it is not told."""
    found = re.search(r"version (\d+)\.", version())
    return int(found[1]) if found else 0


def machine(spec: VmSpec, accel: Accel) -> list[str]:
    """Board, CPU and memory; a reboot (panic=-1) ends QEMU."""
    threads = "single" if spec.icount else "multi"
    kind = f"tcg,thread={threads}" if accel is Accel.TCG else "kvm"
    return [
        *("-nodefaults", "-no-user-config", "-display", "none"),
        *("-M", "q35", "-accel", kind, "-cpu", CPU[accel]),
        *("-m", str(spec.memory_mib), "-smp", str(spec.cpus)),
        *(["-icount", "shift=0,sleep=off"] if spec.icount else []),
        *("-no-reboot", "-action", "panic=none"),
        *("-device", "pvpanic-pci"),
    ]


def disk(which: Disk) -> list[str]:
    """The root disk; the guest's writes go to an unlinked file, unless they are kept."""
    snapshot = "off" if which.keep else "on"
    drive = f"file={quote(which.path)},format={which.format},if=none,id=root,cache=unsafe"
    return ["-drive", f"{drive},snapshot={snapshot}", "-device", "virtio-blk-pci,drive=root"]


def share(tag: str, path: Path, read_only: bool) -> list[str]:
    """A host directory that the guest mounts through 9p."""
    mode = "on" if read_only else "off"
    fsdev = f"local,id={tag},path={quote(path)},security_model=none,readonly={mode}"
    return [
        *("-fsdev", f"{fsdev},multidevs=remap"),
        *("-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"),
    ]


def cable(mine: Path, other: Path) -> list[str]:
    """An Ethernet between two sockets: packets to a guest that is gone are lost."""
    local, remote = quote(mine), quote(other)
    ends = f"local.type=unix,local.path={local},remote.type=unix,remote.path={remote}"
    return ["-netdev", f"dgram,id={NET},{ends}"]


def shares(spec: VmSpec) -> list[tuple[str, Path]]:
    """The tags of the spec's directories, each after those that contain it."""
    paths = sorted({*spec.shares, *spec.live})
    return [(f"share{number}", path) for number, path in enumerate(paths)]


def kernel_modules(image: Image) -> list[tuple[str, Path, str]]:
    """The tag, the host's directory and the guest's of modules that the disk does not have."""
    place = f"/lib/modules/{image.release}"
    return [("modules", image.modules, place)] if image.modules else []


def kernel_mounts(image: Image) -> list[tuple[str, str, str]]:
    """The mounts that the image's kernel needs, like :func:`mounts`."""
    return [(tag, place, "ro,cache=loose") for tag, _, place in kernel_modules(image)]


def mounts(spec: VmSpec, source: Path, out: Path) -> list[tuple[str, str, str]]:
    """The guest's mounts, in order: tag, path, options."""
    # The files of the checkout and of shares do not change under a running guest, so they are
    # cached. A cached file would never change in the guest, so "live" directories are not. One
    # of the spec's own directories may contain the checkout, so they are mounted first.
    read_only = [
        (tag, str(path), f"ro,cache={'none' if path in spec.live else 'loose'}")
        for tag, path in [*shares(spec), ("source", source)]
    ]
    return [*read_only, ("out", str(out), "rw")]


def serial_ports(ports: Mapping[str, int]) -> list[str]:
    """One virtio-serial port for each connected socket."""
    argv = ["-device", "virtio-serial-pci"]
    for name, fd in ports.items():
        argv += ["-chardev", f"socket,id={name},fd={fd}"]
        argv += ["-device", f"virtserialport,chardev={name},name={name}"]
    return argv


def console(path: Path) -> list[str]:
    """The serial console, appended to a file."""
    chardev = f"file,id=console,path={quote(path)},append=on"
    return ["-chardev", chardev, "-serial", "chardev:console"]


def monitor(fd: int) -> list[str]:
    return ["-chardev", f"socket,id=qmp,fd={fd}", "-mon", "chardev=qmp,mode=control"]


def cmdline(spec: VmSpec) -> str:
    return " ".join(
        [
            "console=ttyS0",
            # A panic or oops ends QEMU at once; hangs become panics.
            "panic=-1",
            "oops=panic",
            "hung_task_panic=1",
            "sysctl.kernel.hung_task_timeout_secs=90",
            "softlockup_panic=1",
            # A soft lockup is twice this, and comes before the end of a silent guest. The 20 s
            # of the default are less than an emulated CPU may have to wait on a busy host.
            "watchdog_thresh=20",
            # Boot time under TCG: 1 s of crypto self-tests, and a TSC that is synchronised
            # across CPUs but not recognised as such.
            "cryptomgr.notests",
            "tsc=reliable",
            "no_timer_check",
            "mitigations=off",
            "random.trust_cpu=on",
            # While the kernel patches code, it sets a breakpoint there. QEMU before 8.1 may
            # keep it for another CPU that runs this code, which then hangs. The scheduler's
            # tracepoints are patched in before a second CPU runs; vm/init stops recording.
            "trace_event=sched:sched_switch,sched:sched_waking,sched:sched_wakeup",
            "trace_buf_size=4k",
            *spec.cmdline,
        ]
    )


def kind(spec: VmSpec, image: Image, accel: Accel) -> list[str]:
    """The arguments that decide how a guest boots, except for the number of shares."""
    return [
        *machine(spec, accel),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
        *("-append", cmdline(spec)),
        *(_NET_DEVICE if spec.wire else ()),
    ]


def argv(spec: VmSpec, image: Image, accel: Accel, wiring: Wiring) -> list[str]:
    return [
        "qemu-system-x86_64",
        *kind(spec, image, accel),
        *("-name", spec.name),
        *disk(wiring.disk),
        *share("source", wiring.source, read_only=True),
        *share("out", wiring.out, read_only=False),
        *(word for tag, path in shares(spec) for word in share(tag, path, read_only=True)),
        *(word for tag, path, _ in kernel_modules(image) for word in share(tag, path, True)),
        *serial_ports(wiring.ports),
        *console(wiring.console),
        *monitor(wiring.qmp),
        *(cable(*spec.wire) if spec.wire else []),
        *(["-incoming", f"fd:{wiring.thaw}"] if wiring.thaw is not None else []),
        *(plugin(spec.plugin, wiring.out) if spec.plugin else []),
        *spec.qemu,
    ]


def plugin(file: Path, out: Path) -> list[str]:
    """A plugin for TCG, with its file in a guest's directory."""
    return ["-plugin", f"file={quote(file)},board={quote(out / names.BOARD)}"]


def quote(path: Path) -> str:
    """A path inside a QEMU option, in which commas are doubled."""
    return str(path).replace(",", ",,")
