# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Tells a guest that hangs from one that works: it listens to the heartbeat."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from harness.errors import GuestError


class Watchdog:
    """A thread that reads the heartbeat port.

    It only listens until it is armed, because a guest that boots has a deadline
    of its own.

    :param sock: connected to the ``kfabric.heartbeat`` port.
    :param on_silence: ends the guest and says why; called at most once.
    :param silence: seconds between two heartbeats that are too long.
    """

    def __init__(
        self, sock: socket.socket, on_silence: Callable[[], GuestError], silence: float
    ) -> None:
        self.verdict: GuestError | None = None
        self._sock = sock
        self._on_silence = on_silence
        self._silence = silence
        self._thread = threading.Thread(target=self._listen, name="watchdog", daemon=True)

    def arm(self) -> None:
        """Start to expect heartbeats."""
        self._sock.settimeout(self._silence)
        self._thread.start()

    def join(self) -> None:
        """Wait until the verdict is final; QEMU must have ended."""
        if self._thread.ident is not None:
            self._thread.join()

    def _listen(self) -> None:
        try:
            while self._sock.recv(4096):
                pass
        except TimeoutError:
            self.verdict = self._on_silence()
        except OSError:
            return  # closed: the guest ended in order
