# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The initrd: busybox, the modules to reach the root, and vm/init.

The distribution's own initrd takes 7 s longer to unpack and run under TCG.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from harness.vm.kernel import Kernel, dependencies, select

_DIRECTORIES = ("bin", "dev", "modules", "proc", "root", "sys")


def build(kernel: Kernel, busybox: Path, init: Path, wanted: list[str]) -> bytes:
    """The initrd as an uncompressed cpio archive.

    :param wanted: names of the modules to load before the root is mounted.
    """
    files: dict[str, tuple[int, bytes]] = {
        name: (stat.S_IFDIR | 0o755, b"") for name in _DIRECTORIES
    }
    files["bin/busybox"] = (stat.S_IFREG | 0o755, busybox.read_bytes())
    files["init"] = (stat.S_IFREG | 0o755, init.read_bytes())
    paths = select(dependencies(kernel), wanted)
    for path in paths:
        data = (kernel.modules / path).read_bytes()
        files[f"modules/{Path(path).name}"] = (stat.S_IFREG | 0o644, data)
    order = "".join(f"{Path(path).name}\n" for path in paths)
    files["modules/order"] = (stat.S_IFREG | 0o644, order.encode())
    return cpio(files)


def cpio(files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """A "newc" archive of (mode, content) by path; parents must come first."""
    archive = bytearray()
    for number, (name, (mode, data)) in enumerate(files.items(), start=1):
        archive += _entry(number, name, mode, data)
    archive += _entry(0, "TRAILER!!!", 0, b"")
    return bytes(archive)


def _entry(inode: int, name: str, mode: int, data: bytes) -> bytes:
    raw = name.encode() + b"\0"
    #        ino    mode  uid gid nlink mtime size     devmajor..rdevminor, name, check
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + raw
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
