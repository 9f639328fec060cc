# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The guest's kernel: a stock Debian package, taken apart."""

from __future__ import annotations

import lzma
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.errors import SetupError
from harness.vm import apt

META_PACKAGE = "linux-image-amd64"
_PREFIX = "linux-image-"
_XZ = b"\xfd7zXZ\x00"


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel package.

    :param release: as ``uname -r`` prints it.
    :param tree: directory with ``boot/`` and ``lib/modules/``.
    :param vmlinux: the uncompressed kernel.
    """

    release: str
    tree: Path
    vmlinux: Path

    @property
    def modules(self) -> Path:
        """The package's module directory."""
        return self.tree / "lib/modules" / self.release


def candidate() -> str:
    """Release of the kernel that apt would install now.

    :raises SetupError: there is none.
    """
    for name in apt.depends(META_PACKAGE):
        if name.startswith(_PREFIX) and name != META_PACKAGE:
            return name.removeprefix(_PREFIX)
    raise SetupError(f"apt knows no {META_PACKAGE}", apt.HINT)


def fetch(release: str, scratch: Path) -> Kernel:
    """Download and unpack a kernel package into ``scratch``."""
    package = apt.download(_PREFIX + release, scratch)
    tree = scratch / "kernel"
    subprocess.run(["dpkg-deb", "-x", package, tree], check=True)
    package.unlink()
    subprocess.run(["depmod", "-b", tree, release], check=True)
    vmlinux = tree / "vmlinux"
    vmlinux.write_bytes(uncompress((tree / f"boot/vmlinuz-{release}").read_bytes()))
    return Kernel(release, tree, vmlinux)


def headers(release: str) -> Path:
    """Directory to build modules in for a release; installs it if missing.

    :raises SetupError: the archive has no headers for that kernel (any more).
    """
    directory = Path(f"/usr/src/linux-headers-{release}")
    if not (directory / "Module.symvers").exists():
        try:
            apt.install([f"linux-headers-{release}"])
        except SetupError as err:
            what = f"no headers for the guest's kernel {release}"
            hint = "run apt-get update, then 'kfabric vm clean' to take a newer kernel"
            raise SetupError(what, hint, err.console) from None
    return directory


def uncompress(bzimage: bytes) -> bytes:
    """The ELF kernel inside an xz-compressed bzImage.

    QEMU enters it directly (PVH), which saves 5 s of decompression under TCG.

    :raises ValueError: there is none.
    """
    at = bzimage.find(_XZ)
    while at >= 0:
        try:
            image = lzma.LZMADecompressor().decompress(bzimage[at:])
        except lzma.LZMAError:
            image = b""
        if image.startswith(b"\x7fELF"):
            return image
        at = bzimage.find(_XZ, at + 1)
    raise ValueError("no xz-compressed ELF kernel inside")


def dependencies(kernel: Kernel) -> dict[str, list[str]]:
    """Each module file with all that it needs, as modules.dep has it.

    A list is ordered so that loading it from its end to its start works.
    """
    table = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        name, _, needs = line.partition(":")
        table[name] = needs.split()
    return table


def select(table: dict[str, list[str]], wanted: list[str]) -> list[str]:
    """Module files for ``wanted``, in loading order.

    :param wanted: module names, or directories of the kernel tree that end in /.
    :raises SetupError: one of them matches nothing.
    """
    order: dict[str, None] = {}
    for want in wanted:
        matches = [path for path in sorted(table) if _matches(path, want)]
        if not matches:
            raise SetupError(f"the kernel has no module {want}", "see vm/modules-*.txt")
        for path in matches:
            order.update(dict.fromkeys([*reversed(table[path]), path]))
    return list(order)


def _matches(path: str, want: str) -> bool:
    if want.endswith("/"):
        return path.startswith(f"kernel/{want}")
    return Path(path).stem.replace("-", "_") == want.replace("-", "_")


def install_modules(kernel: Kernel, root: Path, wanted: list[str]) -> None:
    """Copy modules and what they need into a root directory."""
    target = root / "lib/modules" / kernel.release
    for path in select(dependencies(kernel), wanted):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kernel.modules / path, target / path)
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copyfile(kernel.modules / name, target / name)
    subprocess.run(["depmod", "-b", root, kernel.release], check=True)


def install_headers(release: str, root: Path) -> None:
    """Copy the headers that bcc's compiler reads into a root directory.

    Only the includes: the package itself would pull gcc into the guest.
    """
    build = headers(release)
    common = Path(str(build).removesuffix("amd64") + "common")
    for tree in (build, common):
        for part in ("include", "arch/x86/include"):
            target = root / tree.relative_to("/") / part
            unused = shutil.ignore_patterns("dt-bindings")
            shutil.copytree(tree / part, target, symlinks=True, ignore=unused)
    links = root / "lib/modules" / release
    (links / "build").symlink_to(build)
    (links / "source").symlink_to(common)
