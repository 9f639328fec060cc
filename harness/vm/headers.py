# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A kernel's headers, and the Debian userland whose compiler goes with them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Mounted where nobody else sees it, and gone when make is.
_INSIDE = """
root=$1; shared=$2; shift 2
mkdir -p "$root$shared" "$root/proc"
mount --bind "$shared" "$root$shared"
mount -t proc proc "$root/proc"
exec chroot "$root" "$@"
"""


@dataclass(frozen=True)
class Headers:
    """What modules are built with.

    :param build: the directory that ``make -C`` takes, as seen inside ``root``.
    :param root: a Debian userland with a compiler; ``/`` is the host.
    """

    build: Path
    root: Path = Path("/")

    @property
    def at_home(self) -> bool:
        """Whether the host's own tools go with them."""
        return self.root == Path("/")

    def command(self, argv: Sequence[str], shared: Path) -> list[str]:
        """Run a command in that userland.

        :param shared: a directory of the host, which the command finds at the same path.
        """
        if self.at_home:
            return list(argv)
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        return [*unshare, "sh", "-euc", _INSIDE, "sh", str(self.root), str(shared), *argv]

    def trees(self) -> tuple[Path, Path]:
        """The kernel's own headers and those that its flavours share, as seen inside."""
        text = self._outside(self.build / "Makefile").read_text()
        found = re.search(r"^include +(/\S+)/Makefile$", text, re.MULTILINE)
        return self.build, Path(found[1]) if found else self.build

    def install(self, release: str, root: Path) -> None:
        """Copy the headers that bcc's compiler reads into a root directory.

        Only the includes: the package itself would pull gcc into the guest.
        """
        build, common = self.trees()
        for tree in dict.fromkeys((build, common)):
            for part in ("include", "arch/x86/include"):
                target = root / tree.relative_to("/") / part
                unused = shutil.ignore_patterns("dt-bindings")
                shutil.copytree(self._outside(tree / part), target, symlinks=True, ignore=unused)
        links = root / "lib/modules" / release
        (links / "build").symlink_to(build)
        (links / "source").symlink_to(common)

    def _outside(self, path: Path) -> Path:
        return self.root / path.relative_to("/")
