# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests without a kernel: local processes on a socket pair, that can "panic".

A plugin for nested pytest runs. A test in the nested run writes a line to
$FAKE_CONSOLE and kills its process group to end its guest in the way of a panic.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kfabric import splats
from kfabric.errors import BootError, GuestLost, GuestPanic
from kfabric.runner.pool import Finished


@dataclass(frozen=True)
class Done:
    """The end of a local process."""

    rc: int
    err: bytes


class FakeCommand:
    """A local process that acts as a guest's command."""

    def __init__(self, guest: FakeGuest, process: subprocess.Popen[bytes]) -> None:
        self._guest = guest
        self._process = process

    def wait(self) -> Finished:
        """Wait for its end; a killed guest has killed it."""
        _, err = self._process.communicate()
        title = splats.panic_title(self._guest.console_text())
        if title:
            raise GuestPanic(title, console=self._guest.console_tail())
        if self._guest.killed:
            raise GuestLost("killed")
        return Done(self._process.returncode, err)


class FakeGuest:
    """One "guest": a directory with a console, and a port."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.killed = False
        self._console = directory / "console.log"
        self._console.touch()
        self._host, self._guest = socket.socketpair()
        self._processes: list[subprocess.Popen[bytes]] = []

    def popen(self, argv: Sequence[str], *, cwd: str, port: str) -> FakeCommand:
        """Start the host's own interpreter on the port."""
        if self.killed:
            raise GuestLost("killed")
        process = subprocess.Popen(
            [sys.executable, *argv[1:]],
            stdin=self._guest.fileno(),
            stdout=self._guest.fileno(),
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, "FAKE_CONSOLE": str(self._console)},
            start_new_session=True,
        )
        self._guest.close()
        self._processes.append(process)
        return FakeCommand(self, process)

    def run(self, argv: Sequence[str], *, timeout: float) -> Done:
        """Record the command on the console."""
        with self._console.open("a") as file:
            file.write(f"ran {' '.join(argv)}\n")
        return Done(0, b"")

    def open_stream(self, name: str) -> socket.socket:
        """The host's end of the port."""
        return self._host

    def console_text(self) -> str:
        """All of the console."""
        return self._console.read_text()

    def console_tail(self) -> str:
        """Its last lines."""
        return splats.tail(self.console_text())

    def splats(self) -> list[splats.Splat]:
        """The "kernel's" reports."""
        return splats.splats(self.console_text())

    def with_lines(self, text: str) -> str:
        """Its module has one line."""
        return text.replace("[mine]", "[mine] (mine.c:7)")

    def kill(self) -> None:
        """End all of its processes."""
        self.killed = True
        for process in self._processes:
            # It may end at any moment, and the thread that waits for it reaps it.
            with contextlib.suppress(ProcessLookupError):
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End all of its processes and reap them."""
        self.kill()
        for process in self._processes:
            process.wait()
        self._host.close()
        self._guest.close()


def boot(name: str, directory: Path, tested: object = None) -> FakeGuest:
    """Boot one on "another machine" (harness/runner/farside.py); "never" does not boot."""
    if name == "never":
        raise BootError("no sign of life after 60 s", console="the last words of init")
    return FakeGuest(directory)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of guests that boot before one fails."""
    parser.addoption("--fake-boots", type=int, default=1000)


def pytest_configure(config: pytest.Config) -> None:
    """Store how many may still boot."""
    config.stash[_BOOTS] = [config.option.fake_boots]


@pytest.hookimpl
def pytest_kfabric_boot(config: pytest.Config, name: str, directory: Path) -> FakeGuest:
    """Boot a fake instead of QEMU."""
    left = config.stash[_BOOTS]
    left[0] -= 1
    if left[0] < 0:
        raise BootError("no sign of life after 60 s", console="the last words of init")
    return FakeGuest(directory)


_BOOTS = pytest.StashKey[list[int]]()
