# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A kernel that the user has built: what guests need of it, and its modules.

The directory is the one that make built in: the source, or that of ``make O=DIR``. Nothing is
written there, and nothing is installed: guests mount it, and load modules from it.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from kfabric.errors import UsageError
from kfabric.vm import cache

BZIMAGE = "arch/x86/boot/bzImage"
CONFIG = ".config"
_RELEASE = "include/config/kernel.release"
_BUILT = (BZIMAGE, "vmlinux", "Module.symvers", "modules.order", "modules.builtin", _RELEASE)
_COPIED = ("modules.builtin", "modules.builtin.modinfo")

# Each has its reason in vm/kernels/guest.config.
NEEDED = tuple(
    f"CONFIG_{name}"
    for name in (
        "MODULES BLK_DEV_INITRD BINFMT_ELF BINFMT_SCRIPT DEVTMPFS TMPFS PROC_FS PROC_SYSCTL SYSFS "
        "DEBUG_FS UNIX98_PTYS INET SERIAL_8250_CONSOLE VIRTIO_PCI VIRTIO_BLK VIRTIO_CONSOLE "
        "NET_9P NET_9P_VIRTIO 9P_FS EXT4_FS"
    ).split()
)
"""A guest does not boot without these options."""
TRACING = tuple(
    f"CONFIG_{name}"
    for name in (
        "BPF_SYSCALL BPF_JIT BPF_EVENTS KPROBES KPROBE_EVENTS FUNCTION_TRACER "
        "DYNAMIC_FTRACE_WITH_DIRECT_CALLS DEBUG_INFO_BTF KALLSYMS_ALL STACKTRACE"
    ).split()
)
"""Nothing can be traced without these."""
KFABRIC = ("CONFIG_INFINIBAND", "CONFIG_INFINIBAND_ADDR_TRANS", "CONFIG_RDMA_RXE", "CONFIG_DUMMY")
"""kfabric's modules do not build, or have no device, without these."""
FORCED = "CONFIG_MODULE_SIG_FORCE"
"""The modules in a tree are not signed, nor are those that are built for it."""
CHECKS = ("CONFIG_KASAN", "CONFIG_KCSAN", "CONFIG_PROVE_LOCKING")
"""With one of them, guests need as much memory and time as on our own debug kernel."""


class NoKernelTree(UsageError, label="no kernel to boot"):
    """There is no kernel in a directory that guests can boot."""


def check(directory: Path) -> None:
    """Raise NoKernelTree, with the first reason, if no guest can boot a kernel there."""
    if not directory.is_dir():
        raise NoKernelTree(f"{directory} is no directory", "--kdir takes that of a built kernel")
    if not cache.is_plain(directory):
        what = f"kbuild cannot handle a character in {directory}"
        raise NoKernelTree(what, "use a path of letters, digits and ./+@~_-")
    if not (directory / CONFIG).exists():
        what = f"{directory} has no {CONFIG}"
        raise NoKernelTree(what, "--kdir takes the directory in which make built a kernel")
    try:
        known = options(directory)
        if "CONFIG_X86_64" not in known:
            raise NoKernelTree(f"{directory} is not configured for x86-64", "guests are")
        if missing := [name for name in NEEDED if name not in known]:
            hint = "set them and build it again; vm/kernels/guest.config has the reasons"
            raise NoKernelTree(f"{directory} lacks {', '.join(missing)}", hint)
        if FORCED in known:
            hint = "its modules are not signed"
            raise NoKernelTree(f"{directory} has {FORCED}", hint)
        for path in [*(directory / name for name in _BUILT), *(ko for _, ko in modules(directory))]:
            if not path.is_file():
                what = f"{directory} is not built: {path.relative_to(directory)} is not there"
                raise NoKernelTree(what, "run make in it")
            if not os.access(path, os.R_OK):
                raise NoKernelTree(f"{path} cannot be read", "guests run as root")
    except OSError as error:
        raise NoKernelTree(f"{error.filename} cannot be read: {error.strerror}") from None


def options(directory: Path) -> frozenset[str]:
    """The names of the options that are set, to y or m."""
    text = (directory / CONFIG).read_text(errors="replace")
    return frozenset(re.findall(r"^(CONFIG_\w+)=[ym]$", text, re.MULTILINE))


def lacks(directory: Path, names: Iterable[str]) -> list[str]:
    """Those of the options that are not set."""
    known = options(directory)
    return [name for name in names if name not in known]


def release(directory: Path) -> str:
    """As ``uname -r`` prints it."""
    return (directory / _RELEASE).read_text().strip()


def source(directory: Path) -> Path:
    """The source, if the kernel was built outside of it; otherwise the directory itself."""
    link = directory / "source"
    return link.resolve() if link.is_symlink() else directory


def environment(directory: Path) -> tuple[str, ...]:
    """Variables for make with which modules get the kernel's own compiler."""
    return ("LLVM=1",) if "CONFIG_CC_IS_CLANG" in options(directory) else ()


def modules(directory: Path) -> Iterator[tuple[str, Path]]:
    """Each module: its path below ``lib/modules/RELEASE`` once it is installed, and its file.

    Kernels differ in how modules.order names a module (6.3: by its object).
    """
    order = directory / "modules.order"
    for line in order.read_text().split() if order.exists() else ():
        name = PurePosixPath(line).with_suffix(".ko")
        yield f"kernel/{name}", directory / name


def identity(directory: Path) -> str:
    """A hash that changes when the kernel, or one of its modules, is built again."""
    parts = [Path(__file__).read_bytes(), bytes(directory), (directory / BZIMAGE).read_bytes()]
    parts += [(directory / name).read_bytes() for name in (CONFIG, _RELEASE)]
    for path in (directory / "Module.symvers", *(file for _, file in modules(directory))):
        state = path.stat()
        parts.append(f"{path} {state.st_size} {state.st_mtime_ns}".encode())
    return cache.key(parts)


def link_modules(directory: Path, target: Path) -> None:
    """Make a root directory in whose ``lib/modules/RELEASE`` are links to the tree's modules."""
    place = target / "lib/modules" / release(directory)
    place.mkdir(parents=True)
    installed = []
    for name, file in modules(directory):
        installed.append(f"{name}\n")
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).symlink_to(file)
    (place / "modules.order").write_text("".join(installed))
    for name in _COPIED:
        if (directory / name).exists():
            (place / name).write_bytes((directory / name).read_bytes())
    (place / "build").symlink_to(directory)
    (place / "source").symlink_to(source(directory))
    subprocess.run(["depmod", "-b", target, place.name], check=True)


def shares(directory: Path) -> Sequence[Path]:
    """The directories that guests mount at the same paths: the links lead there."""
    return list(dict.fromkeys((directory, source(directory))))
