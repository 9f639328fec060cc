# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The bridge: execnet starts it instead of a Python interpreter; it connects to one in a guest.

    python -S bridge.py ADDRESS SILENCE [arguments for an interpreter, ignored]

It gets the guest's port from the pool (harness/runner/pool.py) at ADDRESS, and copies bytes
between it and its own stdin and stdout until the pool hangs up. If the guest sends nothing
for SILENCE seconds, it reports that to the pool once; the pool decides what to do. It is a
plain script: importing the package would only take time.
"""

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
    """The address in Linux's abstract namespace, which needs no clean-up."""
    return f"\0{address}"


class Bridge:
    """Copies in a thread for each direction, so that neither can block the other."""

    def __init__(self, control: socket.socket, port: socket.socket, silence: float) -> None:
        self._control = control
        self._port = port
        self._silence = silence
        self._heard = time.monotonic()

    def run(self) -> None:
        """Copy until the pool hangs up, then copy the rest of the guest's data."""
        to_host = threading.Thread(target=self._copy_to_host, daemon=True)
        threading.Thread(target=self._copy_to_guest, daemon=True).start()
        to_host.start()
        self._wait_for_pool()
        # The socket's buffer can still be read; an end of file follows.
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
                view = memoryview(data)
                while view:
                    view = view[os.write(1, view) :]
        except OSError:
            return  # pytest is gone

    def _wait_for_pool(self) -> None:
        """Return when the pool hangs up; report silence meanwhile."""
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


def main(argv: list[str]) -> int:
    """Bridge to the guest at the address argv[0]; 1 if there is none."""
    # Ctrl-C is pytest's: it ends the guests, and with them this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as control:
        try:
            control.connect(abstract(argv[0]))
            control.settimeout(PORT_SECONDS)
            # The pool sends the guest's port once the guest runs, or hangs up without it.
            _, descriptors, _, _ = socket.recv_fds(control, CHUNK, 1)
            port = socket.socket(fileno=descriptors[0])
        except (OSError, IndexError):
            return 1
        with port:
            Bridge(control, port, float(argv[1])).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
