# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric shell` on a terminal, with typed input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pseudo_terminal import Terminal

from kfabric.root import python_path

ROOT = Path(__file__).parents[2]
SECONDS = 240.0


def shell(cwd: Path = ROOT) -> Terminal:
    """A shell in a guest."""
    env = {**os.environ, "PYTHONPATH": python_path(ROOT)}
    return Terminal([sys.executable, "-m", "kfabric.cli", "shell"], cwd, env, SECONDS)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A shell in a guest."""
    terminal = shell()
    yield terminal
    terminal.close()


def test_everything_is_loaded(terminal: Terminal) -> None:
    """The shell has modules, device and RDMA link, in the checkout; its status is the command's."""
    terminal.wait_for("exit ends it")
    terminal.wait_for("# ")
    # The terminal echoes typed text, so the shell composes the words to wait for.
    terminal.type("stat -c '%F' /dev/kfabric; rdma link; lsmod | grep -c ^kfi_; pwd; echo DO''NE")
    terminal.wait_for("DONE")
    assert "character special file" in terminal.shown
    assert "state ACTIVE" in terminal.shown
    assert str(ROOT) in terminal.shown
    terminal.type("exit 3")
    assert terminal.wait() == 3


def test_changes_in_the_current_directory_are_seen(tmp_path: Path) -> None:
    """While the shell is open: of a file's contents, and a new file."""
    (tmp_path / "word").write_text("before\n")
    terminal = shell(tmp_path)
    try:
        terminal.wait_for("# ")
        terminal.type("cat word; ls")
        terminal.wait_for("before")
        (tmp_path / "word").write_text("after it\n")
        (tmp_path / "second").touch()
        terminal.type("cat word; ls")
        terminal.wait_for("after it")
        terminal.wait_for("second")
    finally:
        terminal.close()
