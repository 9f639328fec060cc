# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--coverage`` in a guest: leaves the kernel's counts of executed lines for the host.

Only kernels that are built with gcov count ("debug" of vm/versions.toml), and they
remember modules that are unloaded. A guest that dies takes along what it counted since it
left them last.
"""

from __future__ import annotations

import io
import os
import tarfile
import time
from pathlib import Path

import pytest

from harness import names

COUNTS = Path("/sys/kernel/debug/gcov")
EVERY_SECONDS = 300.0
"""To read them takes ten."""


class LeaveCounts:
    """Leaves the counts behind a file of tests now and then, and behind the last test."""

    def __init__(self) -> None:
        """Raises UsageError if this kernel does not count."""
        if not COUNTS.exists():
            raise pytest.UsageError(
                "--coverage: this kernel does not count lines; --kernel debug does"
            )
        self._left = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Leave what was counted since the guest's start, if that was not done lately."""
        ends = nextitem is not None and nextitem.path != item.path
        if ends and time.monotonic() - self._left >= EVERY_SECONDS:
            self._leave()

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        """Leave what was counted since the guest's start."""
        self._leave()

    def _leave(self) -> None:
        leave(COUNTS, Path(os.environ[names.OUT]) / names.COVERAGE)
        self._left = time.monotonic()


def leave(counts: Path, target: Path) -> None:
    """Pack the files with counts, all or nothing.

    By reading, since the kernel's file system knows no sizes; and into one file, since the
    host's directory takes seconds for hundreds.
    """
    part = target.with_suffix(".part")
    with tarfile.open(part, "w") as archive:
        for path in counts.rglob("*.gcda"):
            data = path.read_bytes()
            entry = tarfile.TarInfo(str(path.relative_to(counts)))
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    part.rename(target)
