# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""On another machine: boots one guest for the harness at the other end of an execnet channel.

Runs in a Python that execnet started through ssh; :mod:`harness.runner.far` is the other end.
Requests are ``(number, operation, argument)``, each served by a thread; answers are
``(number, value, error)``. What goes through the guest's port has the number 0, both ways.
The end of the channel is the guest's end.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness import errors
from harness.errors import KfabricError, SetupError
from harness.runner.pool import Guest
from harness.vm import prepare, ulp, versions

PORT_DATA = 0
CHUNK = 1 << 16
DRAIN_SECONDS = 5.0
#: What must be the same on both machines, of the checkout.
SAME = ("harness", "kfabric_py", "kmod", "tests", "examples", "vm")
_SHOWN = 3

Boot = Callable[[str, Path, ulp.Ulp | None], Guest]


def manifest(roots: Iterable[Path]) -> dict[str, str]:
    """A hash of each file below some directories; not of what is hidden or made."""
    found: dict[str, str] = {}
    for root in roots:
        for place, directories, names in os.walk(root):
            directories[:] = [name for name in directories if _wanted(name)]
            for path in (Path(place, name) for name in names if _wanted(name)):
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return found


def _wanted(name: str) -> bool:
    return not name.startswith((".", "__pycache__")) and name != "build"


def roots(tested: ulp.Ulp | None) -> list[Path]:
    """What both machines must have at the same path."""
    ours = [prepare.SOURCE / name for name in SAME]
    return [*ours, tested.root] if tested and tested.root != prepare.SOURCE else ours


def compare(theirs: dict[str, str], tested: ulp.Ulp | None) -> None:
    """Refuse to run tests that are not the same here.

    :raises SetupError: names some of the files that differ.
    """
    ours = manifest(roots(tested))
    wrong = sorted(
        path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path)
    )
    if wrong:
        some = ", ".join(wrong[:_SHOWN]) + (", ..." if len(wrong) > _SHOWN else "")
        what = f"{len(wrong)} files differ between the machines: {some}"
        raise SetupError(what, "copy the checkout, to the same path")


def _boot(name: str, directory: Path, tested: ulp.Ulp | None) -> Guest:
    from harness.runner import testvm

    return testvm.boot(name, directory, tested=tested)


class Farside:
    """Serves the requests that come through a channel."""

    def __init__(self, channel: Any, boot: Boot) -> None:
        self._channel = channel
        self._boot = boot
        self._guest: Guest | None = None
        self._stream: socket.socket | None = None
        self._pump: threading.Thread | None = None

    def serve(self) -> None:
        """Serve until the channel ends."""
        try:
            for number, operation, argument in self._channel:
                if number == PORT_DATA:
                    self._to_guest(argument)
                else:
                    given = (number, operation, argument)
                    threading.Thread(target=self._answer, args=given, daemon=True).start()
        finally:
            if self._guest:
                self._guest.close()

    def _answer(self, number: int, operation: str, argument: Any) -> None:
        value, error = None, None
        try:
            value = getattr(self, f"do_{operation}")(argument)
        except KfabricError as reason:
            error = describe(reason)
        except Exception as reason:
            error = describe(errors.GuestLost(repr(reason)))
        try:
            self._channel.send((number, value, error))
        except OSError:
            pass  # nobody is there any more

    @property
    def guest(self) -> Guest:
        """The guest, which has been booted."""
        assert self._guest is not None
        return self._guest

    def do_boot(self, request: dict[str, Any]) -> None:
        """Boot the guest, if this machine has what the other one has."""
        tested = ulp.from_json(request["ulp"]) if request["ulp"] else None
        if request["manifest"] is not None:
            compare(request["manifest"], tested)
        if request["kernel"]:
            os.environ[versions.ENVIRONMENT] = request["kernel"]
        self._guest = self._boot(request["name"], Path(request["directory"]), tested)

    def do_stream(self, name: str) -> None:
        """Begin to copy what comes out of the guest's port."""
        self._stream = self.guest.open_stream(name)
        self._pump = threading.Thread(target=self._from_guest, daemon=True)
        self._pump.start()

    def do_work(self, request: dict[str, Any]) -> list[Any]:
        """Run a command on the port, to its end."""
        try:
            argv, cwd, port = request["argv"], request["cwd"], request["port"]
            done = self.guest.popen(argv, cwd=cwd, port=port).wait()
        finally:
            self._drain()
        return [done.rc, done.err]

    def do_run(self, request: dict[str, Any]) -> list[Any]:
        """Run another command."""
        done = self.guest.run(request["argv"], timeout=request["timeout"])
        return [done.rc, done.err]

    def do_console(self, _: object) -> str:
        """All that the guest's console has said."""
        return self.guest.console_text()

    def do_kill(self, _: object) -> None:
        """End the guest at once."""
        self.guest.kill()

    def _to_guest(self, data: bytes) -> None:
        try:
            if self._stream:
                self._stream.sendall(data)
        except OSError:
            pass  # the guest is gone; the answer to "work" will say so

    def _from_guest(self) -> None:
        assert self._stream is not None
        try:
            while data := self._stream.recv(CHUNK):
                self._channel.send((PORT_DATA, data, None))
        except OSError:
            return  # the guest is gone, or the other machine

    def _drain(self) -> None:
        """Bring across what the guest had sent: the answer comes behind it."""
        if self._stream and self._pump:
            try:
                self._stream.shutdown(socket.SHUT_RD)
            except OSError:
                pass  # it has hung up
            self._pump.join(DRAIN_SECONDS)


def describe(error: KfabricError) -> list[str]:
    """An error as plain data."""
    known = (kind.__name__ for kind in type(error).__mro__ if kind.__name__ in vars(errors))
    return [next(known), error.what, error.hint, error.console]


def serve(channel: Any, boot: Boot = _boot) -> None:
    """Serve one guest; ends this process, and with it QEMU.

    :param boot: how to boot it.
    """
    try:
        Farside(channel, boot).serve()
    finally:
        os._exit(0)
