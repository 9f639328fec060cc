# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--coverage`` in a guest: copies the kernel's counts of executed lines to the host.

Only kernels that are built with gcov count ("debug" of vm/versions.toml). They keep the
counts of unloaded modules. If a guest crashes, the counts since the last copy are lost.
"""

import io
import os
import tarfile
import time
from pathlib import Path

import pytest

from kfabric import names

COUNTS = Path("/sys/kernel/debug/gcov")
EVERY_SECONDS = 300.0
"""The time between copies; a copy takes ten seconds."""


class LeaveCounts:
    """Copies the counts after some test files, and after the last test.

    Raises:
        UsageError: This kernel does not count.
    """

    def __init__(self) -> None:
        if not COUNTS.exists():
            raise pytest.UsageError(
                "--coverage: this kernel does not count lines; --kernel debug does"
            )
        self._left = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Copy the counts after a file, unless that was done recently."""
        ends = nextitem is not None and nextitem.path != item.path
        if ends and time.monotonic() - self._left >= EVERY_SECONDS:
            self._leave()

    def pytest_sessionfinish(self) -> None:
        """Copy the counts at the end."""
        self._leave()

    def _leave(self) -> None:
        leave(COUNTS, Path(os.environ[names.OUT]) / names.COVERAGE)
        self._left = time.monotonic()


def leave(counts: Path, target: Path) -> None:
    """Pack the files with counts into one file, which appears complete or not at all.

    The files are read first, since debugfs reports no sizes; and packed, since hundreds of
    files take seconds to write to the host's directory.
    """
    part = target.with_suffix(".part")
    with tarfile.open(part, "w") as archive:
        for path in counts.rglob("*.gcda"):
            data = path.read_bytes()
            entry = tarfile.TarInfo(str(path.relative_to(counts)))
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    part.rename(target)
