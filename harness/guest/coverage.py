# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--coverage`` in a guest: leaves the kernel's counts of executed lines for the host.

Only kernels that are built with gcov count ("debug" of vm/versions.toml), and they
remember modules that are unloaded. The counts of a guest that dies die with it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.guest.evidence import OUT

COUNTS = Path("/sys/kernel/debug/gcov")
PLACE = "coverage"
"""In what a guest leaves: the counts, below the path of the objects that they are of."""


class LeaveCounts:
    """Copies the counts when the tests of this process are done."""

    def __init__(self) -> None:
        """Raises UsageError if this kernel does not count."""
        if not COUNTS.exists():
            raise pytest.UsageError(
                "--coverage: this kernel does not count lines; --kernel debug does"
            )

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        """Leave what was counted since the guest's start."""
        leave(COUNTS, Path(os.environ[OUT]) / PLACE)


def leave(counts: Path, target: Path) -> None:
    """Copy the files with counts; the kernel's file system knows no sizes, so by reading."""
    for path in counts.rglob("*.gcda"):
        copy = target / path.relative_to(counts)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
