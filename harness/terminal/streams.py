# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Reads a running command's output, and a growing file of JSON lines."""

import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_LOOK_SECONDS = 0.3

Output = Iterator[tuple[bool, bytes]]
"""A command's output as it comes; True: standard output."""


def read_both(process: subprocess.Popen[bytes]) -> Output:
    """Read both streams of a process to their ends."""
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            if stream is not None and not stream.closed:
                selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, 65536)
                if data:
                    yield key.fileobj is process.stdout, data
                else:
                    selector.unregister(key.fileobj)


def copy(output: Output) -> None:
    """Write a command's output to our own streams as it comes."""
    for to_stdout, data in output:
        stream = sys.stdout if to_stdout else sys.stderr
        stream.buffer.write(data)
        stream.flush()


@contextlib.contextmanager
def of_children_into(file: Path) -> Iterator[None]:
    """Let processes that are started meanwhile print into a file; our own output stays.

    What the file had before is lost.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(file.open("wb"))
        for number, ours in ((1, contextlib.redirect_stdout), (2, contextlib.redirect_stderr)):
            kept = stack.enter_context(os.fdopen(os.dup(number), "w", buffering=1))
            stack.callback(os.dup2, kept.fileno(), number)
            os.dup2(target.fileno(), number)
            stack.enter_context(ours(kept))
        yield


def feed(send: Callable[[bytes], object], close: Callable[[], object]) -> None:
    """Pass our standard input on, in a thread; a terminal's is not read.

    Args:
        send: takes what comes.
        close: called at its end, or at once if there is none.
    """
    try:
        source = None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.fileno()
    except (OSError, ValueError):  # it is closed
        source = None
    if source is None:
        close()
    else:
        # A daemon, because a read of a pipe cannot be cancelled.
        threading.Thread(target=_feed, args=[source, send, close], daemon=True).start()


def _feed(source: int, send: Callable[[bytes], object], close: Callable[[], object]) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(source, 65536):
            send(data)
    close()


def copy_socket(sock: socket.socket, send: Callable[[bytes], object]) -> None:
    """Pass a socket's data to ``send`` until either end is gone."""
    with contextlib.suppress(OSError):
        while data := sock.recv(65536):
            send(data)


class Follower:
    """Reads a growing file of JSON lines in a thread during the with block.

    ``hand`` gets the newest line of each look or, with ``every``, all lines.
    """

    def __init__(
        self, path: Path, hand: Callable[[dict[str, Any]], None], *, every: bool = False
    ) -> None:
        self._path = path
        self._hand = hand
        self._every = every
        self._place = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._every:
            self._look()

    def _run(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._place)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data.rfind(b"\n") + 1
        self._place += whole
        lines = data[:whole].splitlines()
        for line in lines if self._every else lines[-1:]:
            self._hand(json.loads(line))
