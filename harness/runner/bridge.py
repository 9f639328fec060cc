# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What execnet starts in place of a Python interpreter: a bridge to one in a guest.

    python -S bridge.py ADDRESS SILENCE [arguments for an interpreter, ignored]

Gets the guest's port from the pool (harness/runner/pool.py) at ADDRESS and copies bytes
between it and its own stdin and stdout until the pool hangs up. When the guest
sends nothing for SILENCE seconds, it says so to the pool, once; the pool decides.
Run as a plain script: importing the package would only cost time.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

CHUNK = 1 << 16
PORT_SECONDS = 600.0
DRAIN_SECONDS = 5.0
SILENT = b"silent"


def abstract(address: str) -> str:
    """The address in Linux's namespace that is no file system: nobody has to clean up."""
    return f"\0{address}"


def receive_port(control: socket.socket) -> socket.socket:
    """Take the guest's port from the pool, which sends it once the guest runs.

    :raises EOFError: the pool hung up: there will be no guest.
    """
    control.settimeout(PORT_SECONDS)
    message, descriptors, _, _ = socket.recv_fds(control, CHUNK, 1)
    if not message or not descriptors:
        raise EOFError
    return socket.socket(fileno=descriptors[0])


class Bridge:
    """Copies both ways, each in its own thread, so that neither can block the other."""

    def __init__(self, control: socket.socket, port: socket.socket, silence: float) -> None:
        self._control = control
        self._port = port
        self._silence = silence
        self._heard = time.monotonic()

    def run(self) -> None:
        """Copy until the pool hangs up, then bring across what the guest had sent."""
        to_host = threading.Thread(target=self._copy_to_host, daemon=True)
        threading.Thread(target=self._copy_to_guest, daemon=True).start()
        to_host.start()
        self._wait_for_pool()
        # What is in the socket's buffer is still read; behind it comes the end.
        self._port.shutdown(socket.SHUT_RD)
        to_host.join(DRAIN_SECONDS)

    def _copy_to_guest(self) -> None:
        try:
            while data := os.read(0, CHUNK):
                self._port.sendall(data)
        except OSError:
            return  # the guest is gone; the pool knows

    def _copy_to_host(self) -> None:
        try:
            while data := self._port.recv(CHUNK):
                self._heard = time.monotonic()
                write_all(1, data)
        except OSError:
            return  # pytest is gone

    def _wait_for_pool(self) -> None:
        """Return when the pool hangs up; report a silence on the way."""
        reported = False
        while True:
            quiet = time.monotonic() - self._heard
            if quiet >= self._silence and not reported:
                self._control.sendall(SILENT)
                reported = True
            self._control.settimeout(None if reported else max(0.001, self._silence - quiet))
            try:
                if not self._control.recv(CHUNK):
                    return
            except TimeoutError:
                continue
            except OSError:
                return


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data` to a descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def main(argv: list[str]) -> int:
    """Bridge to the guest behind the address argv[0]; 1 if there is none."""
    # Ctrl-C is pytest's: it ends the guests, and with them this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as control:
        try:
            control.connect(abstract(argv[0]))
            port = receive_port(control)
        except (OSError, EOFError):
            return 1
        with port:
            Bridge(control, port, float(argv[1])).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
