# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests on other machines for the same run of tests: this machine's end of the connection.

    kfabric test --tx 2*ssh=root@other tests/guest

The specification is that of pytest-xdist and execnet. Each of these guests has a slot in the
pool: the far machine boots it (:mod:`kfabric.runner.farside`), and the output of its test
process goes through ssh into this machine's bridge. Tests are distributed here, as for local
guests (:mod:`kfabric.runner.schedule`).
"""

import contextlib
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import execnet

from kfabric import errors, splats
from kfabric.errors import BootError, ExitStatus, GuestError, GuestLost, KfabricError, SetupError
from kfabric.runner import farside
from kfabric.terminal.streams import copy_socket
from kfabric.vm import usermodule
from kfabric.vm.usermodule import UserModule

SERVE = "from kfabric.runner import farside; farside.serve(channel)"
ANSWER_SECONDS = 10.0
# The far machine may have to build image and modules.
BOOT_SECONDS = 3600.0
CLOSE_SECONDS = 5.0


class FarError(KfabricError, status=ExitStatus.USAGE, label="no such machine"):
    """A specification of other machines is wrong."""


def expand(specs: Sequence[str]) -> list[execnet.XSpec]:
    """One specification for each guest: ``2*ssh=host`` means two.

    Without ``python=``, the interpreter's path is the same as here. Raises FarError for any
    kind but ``ssh=``.
    """
    found: list[execnet.XSpec] = []
    for text in specs:
        times, star, rest = text.partition("*")
        number, one = (int(times), rest) if star and times.isdigit() else (1, text)
        if not one.startswith("ssh="):
            raise FarError(text, "ssh=HOST is meant, e.g. 2*ssh=root@HOST//ssh_config=FILE")
        python = "" if "//python=" in one else f"//python={sys.executable}"
        found += [execnet.XSpec(one + python) for _ in range(number)]
    return found


def host(spec: execnet.XSpec) -> str:
    """The machine's name, valid as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", str(spec.ssh).split()[0].rpartition("@")[2])


@dataclass(frozen=True)
class Done:
    """A command that has ended in the guest."""

    rc: int
    err: bytes


@dataclass(frozen=True)
class FarCommand:
    """A command on the guest's port; ``wait`` returns its end, or raises GuestError."""

    wait: Callable[[], Done]


class FarGuest:
    """A guest of another machine: a :class:`kfabric.runner.pool.Guest`, which has the docs.

    Args:
        spec: execnet's, of a Python there that can import the harness.
        directory: gets the guest's console when it ends.
        serve: code that this Python runs.
    """

    def __init__(self, spec: execnet.XSpec, directory: Path, serve: str = SERVE) -> None:
        self._where = host(spec) if spec.ssh else str(spec)
        self._directory = directory
        self._group = execnet.Group()
        self._closing = threading.Lock()
        self._near: socket.socket | None = None
        self._console = ""
        try:
            self._gateway = self._group.makegateway(spec)
            self._requests = self._gateway.remote_exec(serve)
        except (execnet.HostNotFound, EOFError, OSError) as error:
            self._group.terminate(CLOSE_SECONDS)
            hint = f"does `ssh {spec.ssh} {spec.python} --version` work without a password?"
            raise SetupError(f"{self._where}: no Python answers: {error!r}", hint) from None

    def boot(self, name: str, tested: UserModule | None) -> None:
        """Boot it, on the kernel and image chosen here and with the same user's module.

        Raises KfabricError if it does not boot, or the machines do not have the same files.
        """
        # An earlier run may have left a console.
        (self._directory / "console.log").unlink(missing_ok=True)
        request = {
            "name": name,
            "directory": str(self._directory),
            "environment": {name: os.environ.get(name, "") for name in farside.ENVIRONMENT},
            "module": usermodule.to_json(tested) if tested else "",
            "manifest": self.manifest(tested),
        }
        try:
            self._call("boot", request, BOOT_SECONDS)
        except _NoAnswer:
            raise BootError(f"{self._where}: not within {BOOT_SECONDS:g} s") from None
        except KfabricError as error:
            raise type(error)(f"{self._where}: {error.what}", error.hint, error.console) from None

    def manifest(self, tested: UserModule | None) -> dict[str, str] | None:
        """Hashes of the files that must be the same on both machines; None: any will do."""
        return farside.manifest(farside.roots(tested))

    def popen(self, argv: Sequence[str], *, cwd: str, port: str) -> FarCommand:
        answer = self._request("work", {"argv": list(argv), "cwd": cwd, "port": port})
        return FarCommand(lambda: Done(*self._receive(answer, None)))

    def run(self, argv: Sequence[str], *, timeout: float) -> Done:
        request = {"argv": list(argv), "timeout": timeout}
        return Done(*self._call("run", request, timeout + ANSWER_SECONDS))

    def open_stream(self, name: str) -> socket.socket:
        near, here = socket.socketpair()
        self._near = near

        def to_bridge(data: bytes) -> None:
            with contextlib.suppress(OSError):  # the bridge may have ended
                near.sendall(data)

        with self._connection():
            port = self._gateway.newchannel()
            port.setcallback(to_bridge)
        threading.Thread(target=copy_socket, args=[near, port.send], daemon=True).start()
        self._call("stream", (name, port), ANSWER_SECONDS)
        return here

    def console_text(self) -> str:
        with contextlib.suppress(GuestError):
            self.splats()
        return self._console

    def console_tail(self) -> str:
        return splats.tail(self.console_text())

    def splats(self) -> list[splats.Splat]:
        self._console = self._call("console", None, ANSWER_SECONDS)
        return splats.splats(self._console)

    def with_lines(self, text: str) -> str:
        # The module was built there.
        lines: str = self._call("lines", text, ANSWER_SECONDS)
        return lines

    def kill(self) -> None:
        # This ends all waits for it, even if the other machine does not answer.
        with contextlib.suppress(GuestError):
            self._request("kill", None)
        timer = threading.Timer(CLOSE_SECONDS, self._disconnect)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        text, path = self.console_text(), self._directory / "console.log"
        if not path.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self._disconnect()
        if self._near:
            with contextlib.suppress(OSError):
                # Also ends the thread that copies from it.
                self._near.shutdown(socket.SHUT_RDWR)
            self._near.close()

    def _disconnect(self) -> None:
        with self._closing:
            self._group.terminate(CLOSE_SECONDS)

    def _call(self, operation: str, argument: object, seconds: float) -> Any:
        return self._receive(self._request(operation, argument), seconds)

    def _request(self, operation: str, argument: object) -> Any:
        """Send a request; the channel of its answer. Raises GuestLost."""
        with self._connection():
            answer = self._gateway.newchannel()
            self._requests.send((answer, operation, argument))
        return answer

    def _receive(self, answer: Any, seconds: float | None) -> Any:
        """Wait for an answer; raises the far machine's error, or GuestLost."""
        with self._connection():
            value, error = answer.receive(seconds)
        if error:
            kind, *texts = error
            raise getattr(errors, kind)(*texts)
        return value

    @contextlib.contextmanager
    def _connection(self) -> Any:
        """Raise GuestLost if the connection has ended or does not answer."""
        try:
            yield
        except execnet.TimeoutError:
            raise _NoAnswer(f"{self._where} does not answer") from None
        except (EOFError, OSError, execnet.RemoteError):
            raise GuestLost(f"the connection to {self._where} has ended") from None


class _NoAnswer(GuestLost):
    """The other machine does not answer in time."""


def boot(spec: execnet.XSpec, tested: UserModule | None, name: str, directory: Path) -> FarGuest:
    """Boot a guest on another machine; ``directory`` is used on both. Raises KfabricError."""
    guest = FarGuest(spec, directory)
    try:
        guest.boot(name, tested)
    except BaseException:
        guest.close()
        raise
    return guest
