# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Every test can be collected without a guest, so that a slip in an import shows in seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("part", ["tests/guest", "tests/wire", "tests/debug", "tests/vm"])
def test_every_test_can_be_collected(part: str) -> None:
    """No file misses a name: a guest would find that out after minutes, and run the others."""
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", part]
    run = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert not run.returncode, run.stdout[-3000:] + run.stderr[-3000:]
