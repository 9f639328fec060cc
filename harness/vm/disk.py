# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Reads an image's file system (ext4) without mounting it on the host, with debugfs."""

import os
import re
import subprocess
from pathlib import Path

from kfabric.errors import SetupError
from kfabric.vm import tools

# An entry of debugfs' "ls -p": /inode/mode/uid/gid/name/size/, where the mode has a type's two
# digits, three special bits and the nine others.
_ENTRY = re.compile(r"/\d+/\d\d([1-7]\d{3})/\d+/\d+/(.+)/\d*/")
_LISTED = 'ls -p "'


def read(disk: Path, path: str) -> str:
    """The text of a file. Raises SetupError."""
    return _debugfs(disk, "-R", f'cat "{path}"')


def copy(disk: Path, path: str, target: Path) -> None:
    """Copy a directory, with its name, into an existing one; raises SetupError."""
    _debugfs(disk, "-R", f'rdump "{path}" "{target}"')


def unpack(disk: Path, root: Path) -> None:
    """Copy all files into a new directory; raises SetupError.

    Device nodes are left out, and hard links become files of their own.
    """
    root.mkdir()
    _debugfs(disk, "-R", f'rdump / "{root}"')
    (root / "lost+found").rmdir()
    _restore_bits(disk, root)


def _restore_bits(disk: Path, root: Path) -> None:
    """Set what rdump loses: set-user-ID, set-group-ID and sticky bits."""
    places = [Path(place).relative_to(root) for place, _, _ in os.walk(root)]
    script = root.with_name(f"{root.name}.debugfs")
    script.write_text("".join(f'{_LISTED}/{place}"\n' for place in places))
    listing = _debugfs(disk, "-f", str(script))
    script.unlink()
    place = root
    for line in listing.splitlines():
        _, command, path = line.partition(_LISTED)
        if command:
            place = root / path.rstrip('"').removeprefix("/")
        elif entry := _ENTRY.fullmatch(line):
            (place / entry[2]).chmod(int(entry[1], 8))


def _debugfs(disk: Path, *command: str) -> str:
    """What a command of debugfs prints; raises SetupError if it reports an error."""
    argv = [*tools.END_WITH_US, "debugfs", *command, str(disk)]
    done = subprocess.run(argv, check=False, capture_output=True, timeout=tools.SECONDS)
    _, *errors = done.stderr.decode(errors="replace").splitlines() or [""]  # its version
    if done.returncode or errors:
        what = f"debugfs cannot read {disk}"
        raise SetupError(
            what, "make room, or run kfabric vm clean", console="\n".join(errors[-20:])
        )
    return done.stdout.decode(errors="replace")
