# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A kernel's headers, and the Debian userland that has the matching compiler."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# The mounts are in a namespace of their own and disappear when the command ends.
_INSIDE = """
root=$1; shared=$2; shift 2
mkdir -p "$root$shared" "$root/proc"
mount --bind "$shared" "$root$shared"
mount -t proc proc "$root/proc"
exec chroot "$root" "$@"
"""


@dataclass(frozen=True)
class Headers:
    """Headers to build kernel modules with."""

    build: Path
    """The directory for ``make -C``, as seen inside ``root``."""
    root: Path = Path("/")
    """A Debian userland with a compiler; ``/`` is the host."""
    environment: tuple[str, ...] = ()
    """Variables for make, as NAME=VALUE."""

    @property
    def at_home(self) -> bool:
        """Whether the host's own compiler matches the headers."""
        return self.root == Path("/")

    def command(self, argv: Sequence[str], shared: Path) -> list[str]:
        """The command that runs ``argv`` in the userland, which sees ``shared`` at its path."""
        if self.at_home:
            return ["env", *self.environment, *argv] if self.environment else list(argv)
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        return [*unshare, "sh", "-euc", _INSIDE, "sh", str(self.root), str(shared), *argv]

    def install(self, release: str, root: Path) -> None:
        """Copy the headers that bcc's compiler reads into a root directory.

        Only the includes are copied: the package itself would pull gcc into the guest.
        """
        makefile = self._outside(self.build / "Makefile").read_text()
        found = re.search(r"^include +(/\S+)/Makefile$", makefile, re.MULTILINE)
        common = Path(found[1]) if found else self.build  # shared by the kernel's flavours
        for tree in dict.fromkeys((self.build, common)):
            for part in ("include", "arch/x86/include"):
                target = root / tree.relative_to("/") / part
                unused = shutil.ignore_patterns("dt-bindings")
                shutil.copytree(self._outside(tree / part), target, symlinks=True, ignore=unused)
        links = root / "lib/modules" / release
        (links / "build").symlink_to(self.build)
        (links / "source").symlink_to(common)

    def _outside(self, path: Path) -> Path:
        return self.root / path.relative_to("/")
