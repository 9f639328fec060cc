# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Detects a guest that hangs: a thread listens to its heartbeat."""

import socket
import threading
from collections.abc import Callable

from kfabric.errors import GuestError


class Watchdog:
    """A thread that reads the heartbeat port once it is armed; booting has its own deadline.

    Args:
        sock: connected to the ``kfabric.heartbeat`` port.
        on_silence: ends the guest and returns the reason; called at most once.
        silence: seconds without a heartbeat that mean a hang.
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
            return  # closed: the guest ended normally
