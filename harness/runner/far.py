# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests on other machines, for the same run of tests.

    kfabric test --tx 2*ssh=root@other tests/guest

The specification is that of pytest-xdist and execnet. Each of its guests is a slot of the
pool like any other: the far machine boots it (:mod:`harness.runner.farside`), and what its test
process says goes through ssh into this machine's bridge. Which test goes to which guest is
decided as without them, here (:mod:`harness.runner.schedule`).
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import execnet

from harness import errors, splats
from harness.errors import ExitStatus, GuestError, GuestLost, KfabricError, SetupError
from harness.runner import farside
from harness.runner.farside import CHUNK, PORT_DATA
from harness.vm import ulp, versions
from harness.vm.ulp import Ulp

SERVE = "from harness.runner import farside; farside.serve(channel)"
ANSWER_SECONDS = 10.0
# Images and modules may have to be made there.
BOOT_SECONDS = 3600.0
CLOSE_SECONDS = 5.0


class FarError(KfabricError):
    """A specification of other machines is wrong."""

    status = ExitStatus.USAGE
    label = "no such machine"


def expand(specs: Sequence[str]) -> list[execnet.XSpec]:
    """One specification for each guest: ``2*ssh=host`` means two.

    Without ``python=`` the same path is meant as here.

    :raises FarError: it is not of the kind ``ssh=``.
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
    """The machine's name, as it can be part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", str(spec.ssh).split()[0].rpartition("@")[2])


@dataclass(frozen=True)
class Done:
    """A command that has ended in the guest."""

    rc: int
    err: bytes


class FarCommand:
    """A command on the guest's port."""

    def __init__(self, ended: Future[Any]) -> None:
        self._ended = ended

    def wait(self) -> Done:
        """Collect its end. Raises GuestError if the guest ends first."""
        return Done(*self._ended.result())


class FarGuest:
    """A guest of another machine; :class:`harness.runner.pool.Guest` says what it can do.

    :param spec: execnet's, of a Python there that can import the harness.
    :param directory: gets its console, when it ends.
    :param serve: what that Python runs.
    :raises SetupError: there is no such Python to be had.
    """

    def __init__(self, spec: execnet.XSpec, directory: Path, serve: str = SERVE) -> None:
        self._where = host(spec) if spec.ssh else str(spec)
        self._directory = directory
        self._group = execnet.Group()
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Any]] = {}
        self._number = PORT_DATA
        self._lost = False
        self._near: socket.socket | None = None
        self._console = ""
        try:
            self._channel = self._group.makegateway(spec).remote_exec(serve)
        except (execnet.HostNotFound, EOFError, OSError) as error:
            self._group.terminate(CLOSE_SECONDS)
            hint = f"does `ssh {spec.ssh} {spec.python} --version` work without a password?"
            raise SetupError(f"{self._where}: no Python answers: {error!r}", hint) from None
        self._channel.setcallback(self._hear, endmarker=None)

    def boot(self, name: str, tested: Ulp | None) -> None:
        """Boot it there, on the kernel that is meant here.

        :param tested: somebody's module, which is there, too.
        :raises KfabricError: it does not boot, or the machines do not have the same files.
        """
        # What a run before this one left is not this one's.
        (self._directory / "console.log").unlink(missing_ok=True)
        request = {
            "name": name,
            "directory": str(self._directory),
            "kernel": os.environ.get(versions.ENVIRONMENT, ""),
            "ulp": ulp.to_json(tested) if tested else "",
            "manifest": self.manifest(tested),
        }
        try:
            self._ask("boot", request).result(BOOT_SECONDS)
        except KfabricError as error:
            raise type(error)(f"{self._where}: {error.what}", error.hint, error.console) from None
        except NotYet:
            raise errors.BootError(f"{self._where}: not within {BOOT_SECONDS:g} s") from None

    def manifest(self, tested: Ulp | None) -> dict[str, str] | None:
        """What the other machine must have, too. None: whatever it has will do."""
        return farside.manifest(farside.roots(tested))

    def popen(self, argv: Sequence[str], *, cwd: str, port: str) -> FarCommand:
        """Start a command on the port."""
        return FarCommand(self._ask("work", {"argv": list(argv), "cwd": cwd, "port": port}))

    def run(self, argv: Sequence[str], *, timeout: float) -> Done:
        """Run a command to its end. Raises GuestError."""
        asked = self._ask("run", {"argv": list(argv), "timeout": timeout})
        try:
            return Done(*asked.result(timeout + ANSWER_SECONDS))
        except NotYet:
            raise GuestLost(f"{self._where} does not answer") from None

    def open_stream(self, name: str) -> socket.socket:
        """This machine's end of the port. Raises GuestError."""
        self._near, here = socket.socketpair()
        threading.Thread(target=self._copy, args=[self._near], daemon=True).start()
        self._ask("stream", name).result(ANSWER_SECONDS)
        return here

    def console_text(self) -> str:
        """All that the console has said, as far as is known here."""
        with contextlib.suppress(GuestError):
            self.splats()
        # What came last is better than nothing.
        return self._console

    def console_tail(self) -> str:
        """The last lines of the console."""
        return splats.tail(self.console_text())

    def splats(self) -> list[splats.Splat]:
        """What the kernel reported about itself. Raises GuestError: nobody can tell."""
        try:
            self._console = self._ask("console", None).result(ANSWER_SECONDS)
        except NotYet:
            raise GuestLost(f"{self._where} does not answer") from None
        return splats.splats(self._console)

    def kill(self) -> None:
        """End it at once; what waits for it learns it even if the other machine is gone."""
        self._ask("kill", None)
        timer = threading.Timer(CLOSE_SECONDS, self._lose)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """End it, keep its console, and hang up. May be called again."""
        if not self._lost:
            self._keep_console()
        self._lose()
        self._group.terminate(CLOSE_SECONDS)
        if self._near:
            self._hang_up(self._near)

    def _keep_console(self) -> None:
        text, path = self.console_text(), self._directory / "console.log"
        if not path.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def _ask(self, operation: str, argument: object) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._lock:
            self._number += 1
            number = self._number
            self._waiting[number] = answer
        try:
            if self._lost:
                raise OSError
            self._channel.send((number, operation, argument))
        except OSError:
            self._lose()
        return answer

    def _hear(self, message: tuple[int, Any, list[str] | None] | None) -> None:
        """Called by execnet with each message, and with None at the end."""
        if message is None:
            self._lose()
            return
        number, value, error = message
        if number == PORT_DATA:
            self._to_bridge(value)
            return
        with self._lock:
            answer = self._waiting.pop(number, None)
        if answer is None:
            return
        if error:
            kind, *texts = error
            answer.set_exception(getattr(errors, kind)(*texts))
        else:
            answer.set_result(value)

    def _lose(self) -> None:
        """Tell all who wait that no answer will come."""
        with self._lock:
            self._lost = True
            waiting, self._waiting = list(self._waiting.values()), {}
        for answer in waiting:
            answer.set_exception(GuestLost(f"the connection to {self._where} has ended"))

    def _to_bridge(self, data: bytes) -> None:
        try:
            if self._near:
                self._near.sendall(data)
        except OSError:
            pass  # the bridge has gone

    def _copy(self, near: socket.socket) -> None:
        """Send what the bridge sends."""
        try:
            while data := near.recv(CHUNK):
                self._channel.send((PORT_DATA, "", data))
        except OSError:
            return

    def _hang_up(self, near: socket.socket) -> None:
        try:
            # Ends the thread that copies from it, too.
            near.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the bridge has, already
        near.close()


def boot(spec: execnet.XSpec, tested: Ulp | None, name: str, directory: Path) -> FarGuest:
    """Boot a guest on another machine.

    :param directory: for what it leaves, on either machine.
    :raises KfabricError: it does not boot, or there is no such machine.
    """
    guest = FarGuest(spec, directory)
    try:
        guest.boot(name, tested)
    except BaseException:
        guest.close()
        raise
    return guest
