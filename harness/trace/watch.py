# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs the guest's part of ``kfabric trace`` and ``kfabric top``, and shows what it prints."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kfabric.errors import SetupError
from kfabric.root import read_only
from kfabric.terminal.streams import Output, copy, read_both
from kfabric.vm.source import SOURCE

if TYPE_CHECKING:
    from rich.live import Live

    from kfabric.vm.machine import Vm

Show = Callable[[Output], None]
"""Shows a command's output to its end."""


def here(argv: Sequence[str], why: str, show: Show, rest: Show = copy) -> int:
    """Run it on this machine; its exit status.

    Args:
        argv: its command line.
        why: the reason for which only root may run it.
        show: shows its output.
        rest: shows what it prints after Ctrl-C.
    """
    if os.geteuid() != 0:
        raise SetupError("not root", why)
    env = read_only(SOURCE)
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    try:
        show(read_both(process))
    except KeyboardInterrupt:
        # The process has got the signal, too, and ends.
        rest(read_both(process))
    return process.wait()


def in_guest(vm: Vm, words: Sequence[str], timeout: float, show: Show, rest: Show = copy) -> int:
    """The same with Python's words in a guest, for at most ``timeout`` seconds."""
    remote = vm.popen(["python3", *words], timeout=timeout, cwd=str(SOURCE))
    remote.close_stdin()
    try:
        show(remote.output())
    except KeyboardInterrupt:
        # It stops, and still writes its results.
        remote.signal(signal.SIGINT)
        rest(remote.output())
    return remote.exit_status


@contextlib.contextmanager
def on_terminal(title: str) -> Iterator[Live | None]:
    """A display that is redrawn below the output; None without a terminal."""
    if not sys.stdout.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with Live(title, console=console, transient=True) as display:
        yield display


def print_above(display: Live, output: Output) -> None:
    """Print a command's output above the display, line by line."""
    from rich.text import Text

    rest = {True: b"", False: b""}
    for to_stdout, data in output:
        *lines, rest[to_stdout] = (rest[to_stdout] + data).split(b"\n")
        for line in lines:
            display.console.print(Text.from_ansi(line.decode(errors="replace")))
    for line in filter(None, rest.values()):
        display.console.print(Text.from_ansi(line.decode(errors="replace")))
