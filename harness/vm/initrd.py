# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The guest's initrd: busybox, the modules that reach the root disk, vm/init and the agent.

Debian's own initrd takes 7 s longer to unpack and run under TCG.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from kfabric.errors import SetupError
from kfabric.vm import cache
from kfabric.vm.kernel import Kernel, built_in, copy, dependencies, plain, select

_AGENT = (
    "__init__.py",
    "vm/__init__.py",
    "vm/agent.py",
    "vm/errand.py",
    "vm/warmup.py",
    "vm/wire.py",
)
"""The files of agent and errand, in the package kfabric."""
_DIRECTORIES = ("bin", "dev", "modules", "proc", "root", "sys")


def collect(kernel: Kernel, busybox: Path, stages: Mapping[str, list[str]], target: Path) -> None:
    """Collect the initrd's files, except init and agent; a stage of vm/init loads its modules."""
    (target / "modules").mkdir(parents=True)
    shutil.copyfile(busybox, target / "busybox")
    for stage, paths in order(dependencies(kernel), stages, built_in(kernel)).items():
        names = [plain(path).name for path in paths]
        (target / f"modules/stage{stage}").write_text("".join(f"{name}\n" for name in names))
        for path, name in zip(paths, names, strict=True):
            copy(kernel.modules / path, target / "modules" / name)


def order(
    table: dict[str, list[str]], stages: Mapping[str, list[str]], built_in: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Each stage's module files in loading order, without built-in modules.

    Raises SetupError if two stages that run at the same time share a module.
    """
    first, *others = [
        (stage, select(table, names, built_in)) for stage, names in sorted(stages.items())
    ]
    result = dict([first])
    for stage, paths in others:
        result[stage] = [path for path in paths if path not in first[1]]
    rest = [path for stage, _ in others for path in result[stage]]
    if shared := {plain(path).stem for path in rest if rest.count(path) > 1}:
        raise SetupError(f"stage 1 must load {', '.join(shared)}", "see vm/modules-initrd.txt")
    return result


def ensure(parts: Path, init: Path, harness: Path) -> Path:
    """The initrd with this init and agent, built next to the collected parts if missing."""
    agent = {f"kfabric/kfabric/{name}": (harness / name).read_bytes() for name in _AGENT}
    text = init.read_bytes()
    target = parts.with_name(f"initrd-{cache.key([text, *agent.values()])}.cpio")
    if not target.exists():
        # A temporary name, because another process may be building the same file.
        with tempfile.NamedTemporaryFile(dir=parts.parent, delete=False) as file:
            file.write(build(parts, text, agent))
        os.replace(file.name, target)
    return target


def build(parts: Path, init: bytes, agent: Mapping[str, bytes]) -> bytes:
    """The initrd as an uncompressed cpio archive; ``agent`` has its files by path."""
    directories = {str(up) for name in agent for up in PurePath(name).parents} - {"."}
    files: dict[str, tuple[int, bytes]] = {
        name: (stat.S_IFDIR | 0o755, b"") for name in sorted({*_DIRECTORIES, *directories})
    }
    for name, text in agent.items():
        files[name] = (stat.S_IFREG | 0o644, text)
    files["init"] = (stat.S_IFREG | 0o755, init)
    files["bin/busybox"] = (stat.S_IFREG | 0o755, (parts / "busybox").read_bytes())
    for path in sorted((parts / "modules").iterdir()):
        files[f"modules/{path.name}"] = (stat.S_IFREG | 0o644, path.read_bytes())
    return cpio(files)


def cpio(files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """A "newc" archive of (mode, content) by path; parents must come first."""
    entries = [
        _entry(number, name, mode, data)
        for number, (name, (mode, data)) in enumerate(files.items(), start=1)
    ]
    return b"".join([*entries, _entry(0, "TRAILER!!!", 0, b"")])


def _entry(inode: int, name: str, mode: int, data: bytes) -> bytes:
    raw = name.encode() + b"\0"
    #        ino    mode  uid gid nlink mtime size     devmajor..rdevminor, name, check
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + raw
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
