# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric shell` on a terminal, with typed input."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.root import python_path

ROOT = Path(__file__).parents[2]
SECONDS = 240.0


class Terminal:
    """A terminal with the command on it."""

    def __init__(self, *argv: str, cwd: Path = ROOT) -> None:
        """Start it in a directory."""
        self._ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "kfabric.cli", *argv]
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": python_path(ROOT)},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""
        self._end = time.monotonic() + SECONDS

    def wait_for(self, text: str) -> None:
        """Read until the terminal shows this."""
        while text not in self.shown:
            left = self._end - time.monotonic()
            assert left > 0, f"{text!r} is not shown: {self.shown}"
            if select.select([self._ours], [], [], min(left, 1.0))[0]:
                self.shown += os.read(self._ours, 65536).decode(errors="replace")

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._ours, f"{line}\n".encode())

    def close(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(SECONDS)
        os.close(self._ours)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A shell in a guest."""
    terminal = Terminal("shell")
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
    assert terminal.process.wait(SECONDS) == 3


def test_changes_in_the_current_directory_are_seen(tmp_path: Path) -> None:
    """While the shell is open: of a file's contents, and a new file."""
    (tmp_path / "word").write_text("before\n")
    terminal = Terminal("shell", cwd=tmp_path)
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
