# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""An execution: the directory with all that QEMU needs to replay a guest's run.

    about.json          what ran, and in which guest
    log.bin.zst         what came from outside, with its instruction counts
    root.qcow2.zst      the guest's memory at the beginning, and what it wrote to its root
    disk.qcow2.zst      what it had of the host
    console.log         the kernel's log
    output.log          what the commands printed
    out/                the files that they left
    modules/            those that it had loaded, with debug information

The image whose root the guest had is not in it. It must be in the cache.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from kfabric import names
from kfabric.errors import SetupError, UsageError
from kfabric.replay.qemu import DISK, LOG, ROOT, Hardware
from kfabric.vm import argv as qemu
from kfabric.vm import tools

ABOUT = "about.json"
OUT = "out"
MODULES = "modules"
_PACKED = (LOG, ROOT, DISK)
_ZST = ".zst"


@dataclass(frozen=True)
class About:
    """What ran.

    Attributes:
        what: the test, or the command.
        status: of the last command, negative for a signal; None: it did not end by itself.
        release: of the kernel.
        qemu: its version; another one may not read the files.
        image: the file of the guest's root.
    """

    what: str
    status: int | None
    release: str
    qemu: str
    image: str
    kernel: str
    initrd: str
    cmdline: str
    memory_mib: int

    @property
    def hardware(self) -> Hardware:
        """The guest's."""
        return Hardware(Path(self.kernel), Path(self.initrd), self.cmdline, self.memory_mib)

    def ended(self) -> str:
        """How it ended, in words."""
        return "no status" if self.status is None else f"status {self.status}"


@dataclass(frozen=True)
class Execution:
    """One of them."""

    directory: Path
    about: About

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read it. Raises UsageError."""
        try:
            kept = json.loads((directory / ABOUT).read_text())
            return cls(directory, About(**kept))
        except (OSError, ValueError, TypeError):
            hint = "it is a directory that kfabric test --record has left"
            raise UsageError(f"{directory} has no execution", hint) from None

    @property
    def files(self) -> list[Path]:
        """The packed ones."""
        return [self.directory / f"{name}{_ZST}" for name in _PACKED]

    def mib(self) -> float:
        """The size of the packed files."""
        return sum(path.stat().st_size for path in self.files) / 2**20

    def pack(self) -> None:
        """Write what describes it, and pack its large files."""
        (self.directory / ABOUT).write_text(json.dumps(asdict(self.about), indent=1))
        for name in _PACKED:
            _zstd("--rm", self.directory / name)

    def unpack(self, place: Path) -> None:
        """Write the large files for QEMU, which changes them. Raises SetupError."""
        self._check()
        for path in self.files:
            _zstd("-d", "-o", place / path.name.removesuffix(_ZST), path)

    def kallsyms(self) -> Path:
        """Its kernel's symbols. Raises SetupError."""
        path = self.directory / OUT / names.KALLSYMS
        if not path.exists():
            raise SetupError("it has no symbols", "no module was loaded while it was recorded")
        return path

    def _check(self) -> None:
        about = self.about
        if qemu.version() != about.qemu:
            what = f"it was recorded with another QEMU: {about.qemu}"
            raise SetupError(what, f"here is {qemu.version()}")
        for path in (about.image, about.kernel, about.initrd):
            if not Path(path).exists():
                hint = "the image that the guest had was removed, or is on another machine"
                raise SetupError(f"{path} does not exist", hint)


def _zstd(*words: str | Path) -> None:
    tools.run(["zstd", "-q", "-f", *map(str, words)], "zstd fails", "is the disk full?")
