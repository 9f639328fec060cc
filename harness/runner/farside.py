# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests on other machines: the far machine's end, which boots one guest and serves requests.

It runs in a Python that execnet started through ssh; :mod:`kfabric.runner.far` is the other
end. A request is ``(answer, operation, argument)``; a thread serves it and sends ``(value,
error)`` to the channel ``answer``. The data of the guest's port has a channel of its own. The
guest ends with the channel of the requests.
"""

import contextlib
import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kfabric import errors
from kfabric.errors import KfabricError, SetupError
from kfabric.runner.pool import Guest
from kfabric.terminal.streams import copy_socket
from kfabric.vm import asked, layer, prepare, usermodule, versions
from kfabric.vm.usermodule import UserModule

DRAIN_SECONDS = 5.0
SAME = ("harness", "kfabric_py", "kmod", "tests", "examples", "vm")
"""Directories of the checkout that must be the same on both machines."""
ENVIRONMENT = (versions.ENVIRONMENT, layer.PACKAGES, layer.MODULES, asked.ENVIRONMENT)
"""Chooses the image and the guest; as on the other machine."""
_SHOWN = 3

Boot = Callable[[str, Path, UserModule | None], Guest]


def manifest(roots: Iterable[Path]) -> dict[str, str]:
    """A hash of each file below some directories, except hidden and built files."""
    found: dict[str, str] = {}
    for root in roots:
        for place, directories, names in os.walk(root):
            directories[:] = [name for name in directories if _wanted(name)]
            for path in (Path(place, name) for name in names if _wanted(name)):
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return found


def _wanted(name: str) -> bool:
    return not name.startswith((".", "__pycache__")) and name != "build"


def roots(tested: UserModule | None) -> list[Path]:
    """The directories that both machines must have at the same path."""
    ours = [prepare.SOURCE / name for name in SAME]
    return [*ours, tested.root] if tested and tested.root != prepare.SOURCE else ours


def compare(theirs: dict[str, str], tested: UserModule | None) -> None:
    """Raise SetupError with the names of some files that differ between the machines."""
    ours = manifest(roots(tested))
    wrong = sorted(
        path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path)
    )
    if wrong:
        some = ", ".join(wrong[:_SHOWN]) + (", ..." if len(wrong) > _SHOWN else "")
        what = f"{len(wrong)} files differ between the machines: {some}"
        raise SetupError(what, "copy the checkout, to the same path")


def _boot(name: str, directory: Path, tested: UserModule | None) -> Guest:
    from kfabric.runner import testvm

    return testvm.boot(name, directory, tested=tested)


class Farside:
    """Serves the requests of one guest; ``do_*`` are the operations."""

    def __init__(self, boot: Boot) -> None:
        self._boot = boot
        self._guest: Guest | None = None
        self._stream: socket.socket | None = None
        self._to_near: threading.Thread | None = None

    def serve(self, requests: Any) -> None:
        """Serve until the channel ends."""
        try:
            for request in requests:
                threading.Thread(target=self._answer, args=request, daemon=True).start()
        finally:
            if self._guest:
                self._guest.close()

    def _answer(self, answer: Any, operation: str, argument: Any) -> None:
        value, error = None, None
        try:
            value = getattr(self, f"do_{operation}")(argument)
        except KfabricError as reason:
            error = describe(reason)
        except Exception as reason:
            error = describe(errors.GuestLost(repr(reason)))
        with contextlib.suppress(OSError):  # the other end may be gone
            answer.send((value, error))

    @property
    def guest(self) -> Guest:
        """The guest, which has been booted."""
        assert self._guest is not None
        return self._guest

    def do_boot(self, request: dict[str, Any]) -> None:
        """Boot the guest, if both machines have the same files."""
        tested = usermodule.from_json(request["module"])
        if request["manifest"] is not None:
            compare(request["manifest"], tested)
        os.environ.update({name: value for name, value in request["environment"].items() if value})
        self._guest = self._boot(request["name"], Path(request["directory"]), tested)

    def do_stream(self, request: tuple[str, Any]) -> None:
        """Connect the guest's port to a channel, in both directions."""
        name, near = request
        stream = self._stream = self.guest.open_stream(name)

        def to_guest(data: bytes) -> None:
            with contextlib.suppress(OSError):  # "work" reports that the guest is gone
                stream.sendall(data)

        near.setcallback(to_guest)
        copy = threading.Thread(target=copy_socket, args=[stream, near.send], daemon=True)
        self._to_near = copy
        copy.start()

    def do_work(self, request: dict[str, Any]) -> list[Any]:
        """Run a command on the port, to its end; its output precedes the answer."""
        try:
            argv, cwd, port = request["argv"], request["cwd"], request["port"]
            done = self.guest.popen(argv, cwd=cwd, port=port).wait()
        finally:
            if self._stream and self._to_near:
                with contextlib.suppress(OSError):  # the guest may have hung up
                    self._stream.shutdown(socket.SHUT_RD)
                self._to_near.join(DRAIN_SECONDS)
        return [done.rc, done.err]

    def do_run(self, request: dict[str, Any]) -> list[Any]:
        done = self.guest.run(request["argv"], timeout=request["timeout"])
        return [done.rc, done.err]

    def do_console(self, _: object) -> str:
        return self.guest.console_text()

    def do_lines(self, text: str) -> str:
        return self.guest.with_lines(text)

    def do_kill(self, _: object) -> None:
        self.guest.kill()


def describe(error: KfabricError) -> list[str]:
    """An error as plain data: a class of kfabric.errors, and its texts."""
    known = (kind.__name__ for kind in type(error).__mro__ if kind.__name__ in vars(errors))
    return [next(known), error.what, error.hint, error.console]


def serve(requests: Any, boot: Boot = _boot) -> None:
    """Serve one guest; ends this process, and with it QEMU."""
    try:
        Farside(boot).serve(requests)
    finally:
        os._exit(0)
