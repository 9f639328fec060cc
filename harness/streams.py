# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a command writes while it runs, and what somebody tells of it in a growing file."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_LOOK_SECONDS = 0.3

Output = Iterator[tuple[bool, bytes]]
"""What a command writes, as it comes; True: to its standard output."""


def read_both(process: subprocess.Popen[bytes]) -> Output:
    """Both streams of a process to their ends."""
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


class Follower:
    """Reads a growing file of JSON lines in a thread, and hands on the newest line.

    With ``every`` it hands on all of them, the last when the block is over.
    """

    def __init__(
        self, path: Path, hand: Callable[[dict[str, Any]], None], *, every: bool = False
    ) -> None:
        """Prepare; it runs inside the with block."""
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
        """Hand on what has come since the last look."""
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
