# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A command, with the times at which it printed its lines: where its seconds are."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SHORT = 0.1
"""Seconds of a part that is not worth a line of its own."""


@dataclass(frozen=True, slots=True)
class Part:
    """What passed between two lines of a command.

    Attributes:
        begin: seconds after the command began.
        end: likewise.
        line: that it printed at the beginning.
    """

    begin: float
    end: float
    line: str


@dataclass(frozen=True, slots=True)
class Play:
    """A command that was played once.

    Attributes:
        status: its exit status; negative: the signal that ended it.
        seconds: until it had ended.
        lines: what it printed, with the seconds until then.
    """

    status: int
    seconds: float
    lines: tuple[tuple[float, str], ...] = ()

    def parts(self) -> list[Part]:
        """The time in parts, one for each line after which some time passed."""
        found: list[Part] = []
        began, line = 0.0, "the command"
        for at, following in (*self.lines, (self.seconds, "")):
            # What follows a short part is a part of the next one.
            if at - began >= _SHORT:
                found.append(Part(began, at, line))
                began = at
            line = following or line
        if found:
            found[-1] = Part(found[-1].begin, self.seconds, found[-1].line)
        return found

    @property
    def output(self) -> str:
        """All lines."""
        return "".join(f"{line}\n" for _, line in self.lines)


def play(argv: Sequence[str], cwd: Path, limit: float, env: Mapping[str, str]) -> Play:
    """Play a command to its end, with both outputs in one; what takes too long is killed.

    Args:
        limit: seconds.
        env: variables besides those of this process.
    """
    began = time.monotonic()
    lines: list[tuple[float, str]] = []
    with subprocess.Popen(
        argv,
        cwd=cwd,
        # A Python that writes to a pipe would keep its lines until the end.
        env={**os.environ, "PYTHONUNBUFFERED": "1", **env},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        killer = threading.Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
        killer.start()
        try:
            lines += ((time.monotonic() - began, line.rstrip("\n")) for line in process.stdout)
        finally:
            killer.cancel()
    return Play(process.returncode, time.monotonic() - began, tuple(lines))
