# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric run`: standard input, and the current directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kfabric.errors import ExitStatus
from kfabric.root import ROOT
from tests.vm.commands import kfabric

RUN = [sys.executable, "-m", "kfabric.cli", "run"]
SECONDS = 240.0


def test_standard_input_reaches_the_command() -> None:
    """And its end."""
    done = subprocess.run(
        [*RUN, "--", "cat"],
        input=b"hello\n",
        stdout=subprocess.PIPE,
        cwd=ROOT,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (ExitStatus.OK, b"hello\n")


def test_command_that_does_not_read_its_input_ends_in_time() -> None:
    """More input than the agent keeps for a command, without an end."""
    with open("/dev/zero", "rb") as endless:
        done = subprocess.run(
            [*RUN, "--timeout", "2", "--", "sleep", "1000"],
            stdin=endless,
            cwd=ROOT,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == ExitStatus.TIMEOUT


def test_command_runs_in_the_current_directory(tmp_path: Path) -> None:
    """Which it can only read."""
    (tmp_path / "word").write_text("hello\n")
    words = ["run", "--", "sh", "-c", "pwd; cat word; touch new"]
    done = kfabric(*words, seconds=SECONDS, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, f"{tmp_path}\nhello\n")
    assert "Read-only file system" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["word"]
