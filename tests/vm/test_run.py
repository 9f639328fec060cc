# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric run` and its standard input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kfabric.errors import ExitStatus

ROOT = Path(__file__).parents[2]
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
