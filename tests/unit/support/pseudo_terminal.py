# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A command on a terminal, with typed input."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class Terminal:
    """A terminal with the command on it."""

    def __init__(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float
    ) -> None:
        """Start it in a directory; ``seconds`` limits all waits together."""
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""
        self._end = time.monotonic() + seconds

    def wait_for(self, text: str) -> None:
        """Read until the terminal shows this."""
        while text not in self.shown:
            left = self._end - time.monotonic()
            assert left > 0, f"{text!r} is not shown: {self.shown}"
            if select.select([self._ours], [], [], min(left, 1.0))[0]:
                self.shown += self._read()

    def _read(self) -> str:
        try:
            return os.read(self._ours, 65536).decode(errors="replace")
        except OSError as error:  # the command has ended
            raise AssertionError(f"nothing more is shown: {self.shown}") from error

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._ours, f"{line}\n".encode())

    def wait(self) -> int:
        """The status of the command, once it has ended."""
        return self.process.wait(max(self._end - time.monotonic(), 0.0))

    def close(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(60)
        os.close(self._ours)
