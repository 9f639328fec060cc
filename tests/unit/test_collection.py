# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""All files of the tests: each can be collected without a guest, and its functions have types."""

from __future__ import annotations

import ast
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


def test_every_function_of_the_tests_has_a_return_type() -> None:
    """Where the type is missing, mypy assumes Any and does not check the use of the result."""
    missing = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is None
    ]
    assert missing == []
