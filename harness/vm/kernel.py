# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The guest's kernel: unpacks Debian's packages and selects modules."""

import lzma
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kfabric.errors import SetupError
from kfabric.vm import apt
from kfabric.vm.headers import Headers

FILE = "linux"
"""Name of the kernel file in a guest's image."""
TREE = "kernel"
"""Directory next to it for the unpacked kernel."""

_PREFIX = "linux-image-"
_XZ = b"\xfd7zXZ\x00"
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel."""

    release: str
    """As ``uname -r`` prints it."""
    tree: Path
    """Directory with ``boot/`` and ``lib/modules/``."""
    boot: Path
    """The file that QEMU boots; uncompressed if the kernel can start that way."""

    @property
    def modules(self) -> Path:
        return self.tree / "lib/modules" / self.release

    @classmethod
    def of(cls, tree: Path, release: str, scratch: Path) -> Self:
        """The kernel in a tree; the file to boot is written to ``scratch``."""
        # Since 7.3, Debian's packages install it next to the modules.
        places = (tree / f"boot/vmlinuz-{release}", tree / f"lib/modules/{release}/vmlinuz")
        bzimage = next(path for path in places if path.exists())
        boot = scratch / FILE
        boot.write_bytes(uncompress(bzimage.read_bytes()))
        return cls(release, tree, boot)


def candidate(meta: str) -> str:
    """Release of the kernel that apt would install for a meta-package; raises SetupError."""
    for name in apt.depends(meta):
        if name.startswith(_PREFIX) and name != meta:
            return name.removeprefix(_PREFIX)
    raise SetupError(f"apt knows no {meta}", apt.HINT)


def fetch(release: str, scratch: Path) -> Kernel:
    """Download and unpack a kernel package of the host's suite into ``scratch``."""
    package = apt.download(_PREFIX + release, scratch)
    tree = scratch / TREE
    unpack(package, tree)
    package.unlink()
    subprocess.run(["depmod", "-b", tree, release], check=True)
    return Kernel.of(tree, release, scratch)


def unpack(package: Path, tree: Path) -> None:
    """Extract a package's files into a directory, without running its scripts."""
    subprocess.run(["dpkg-deb", "-x", package, tree], check=True)


def headers(release: str) -> Headers:
    """The host's headers for a release, installed if missing; raises SetupError."""
    directory = Path(f"/usr/src/linux-headers-{release}")
    if not (directory / "Module.symvers").exists():
        try:
            apt.install([f"linux-headers-{release}"])
        except SetupError as err:
            what = f"no headers for the guest's kernel {release}"
            hint = "run apt-get update, then 'kfabric vm clean' to take a newer kernel"
            raise SetupError(what, hint, err.console) from None
    return Headers(directory)


def uncompress(bzimage: bytes) -> bytes:
    """The ELF kernel inside a bzImage that is compressed with xz or zstd.

    QEMU enters an ELF kernel directly (PVH), which saves 5 s of decompression under TCG.
    Raises ValueError if there is none.
    """
    for magic, unpack_from in ((_XZ, _unxz), (_ZSTD, _unzstd)):
        at = bzimage.find(magic)
        while at >= 0:
            if (image := unpack_from(bzimage[at:])).startswith(b"\x7fELF"):
                return image
            at = bzimage.find(magic, at + 1)
    raise ValueError("no compressed ELF kernel inside")


def _unxz(data: bytes) -> bytes:
    """The uncompressed data, or nothing if it is not xz; other data may follow it."""
    try:
        return lzma.LZMADecompressor().decompress(data)
    except lzma.LZMAError:
        return b""


def _unzstd(data: bytes) -> bytes:
    # zstd fails on the data that follows the kernel, after it has written everything.
    return subprocess.run(["zstd", "-dcq"], input=data, capture_output=True, check=False).stdout


def dependencies(kernel: Kernel) -> dict[str, list[str]]:
    """The dependencies of each module file, from modules.dep.

    Loading a list from its end to its start satisfies all dependencies.
    """
    table = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        name, _, needs = line.partition(":")
        table[name] = needs.split()
    return table


def built_in(kernel: Kernel) -> list[str]:
    """Paths of the built-in modules, which have no file."""
    return (kernel.modules / "modules.builtin").read_text().split()


def select(
    table: dict[str, list[str]], wanted: list[str], built_in: Sequence[str] = ()
) -> list[str]:
    """Module files for ``wanted``, in loading order; a name that matches nothing is an error.

    A name is that of a module, or a directory of the kernel tree that ends in /. If it ends in
    a question mark, the kernel need not have it.
    """
    order: dict[str, None] = {}
    for want in wanted:
        name = want.removesuffix("?")
        matches = [path for path in sorted(table) if _matches(path, name)]
        if not (matches or name != want or any(_matches(path, name) for path in built_in)):
            raise SetupError(f"the kernel has no module {want}", "see vm/modules-*.txt")
        for path in matches:
            order.update(dict.fromkeys([*reversed(table[path]), path]))
    return list(order)


def _matches(path: str, want: str) -> bool:
    if want.endswith("/"):
        return path.startswith(f"kernel/{want}")
    return plain(path).stem.replace("-", "_") == want.replace("-", "_")


def plain(path: str) -> Path:
    """A module file's path after :func:`copy` has uncompressed it."""
    return Path(path.removesuffix(".xz"))


def copy(module: Path, target: Path) -> None:
    """Copy a module file, uncompressed: the guest would take long to uncompress it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if module.suffix == ".xz":
        target.write_bytes(lzma.decompress(module.read_bytes()))
    elif module.is_symlink():
        # Into a user's tree, whose modules have debug information.
        subprocess.run(["strip", "-g", "-o", target, module], check=True)
    else:
        shutil.copyfile(module, target)


def install_modules(kernel: Kernel, root: Path, wanted: list[str]) -> None:
    """Copy modules and their dependencies into a root directory."""
    target = root / "lib/modules" / kernel.release
    for path in select(dependencies(kernel), wanted, built_in(kernel)):
        copy(kernel.modules / path, target / plain(path))
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copyfile(kernel.modules / name, target / name)
    subprocess.run(["depmod", "-b", root, kernel.release], check=True)
