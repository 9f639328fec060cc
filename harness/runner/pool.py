# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The pool of guests for test workers: each slot has one guest after another.

pytest-xdist knows a slot by a fixed command (the bridge), so the worker that replaces a
crashed one finds the slot's next guest. Every guest ends in an :class:`Ending`, which
separates a normal end, the exit of the test process and the kernel's reports.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import socket
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kfabric.errors import GuestError, GuestHang, GuestLost, GuestPanic, KfabricError, hung, starved
from kfabric.names import RETIRED
from kfabric.runner.bridge import SILENT, abstract
from kfabric.splats import Splat

BRIDGE = Path(__file__).with_name("bridge.py")
PORT = "kfabric.xdist"
# The command that execnet would have given the interpreter, after the imports that take
# long: other guests boot at the same time.
BOOTSTRAP = "import execnet, pytest, sys; exec(eval(sys.stdin.readline()))"
WORKER = ("python3", "-u", "-c", BOOTSTRAP)
ABORT_SECONDS = 30.0
_UCRED = struct.Struct("3i")  # SO_PEERCRED: process, user, group
# Prints blocked tasks, then the stacks of all CPUs, on the console.
SHOW_STATE = ("sh", "-c", "echo w > /proc/sysrq-trigger; echo l > /proc/sysrq-trigger")
SHOW_STATE_SECONDS = 5.0


class Finished(Protocol):
    """A command that has ended in the guest."""

    @property
    def rc(self) -> int:
        """Exit status; negative: the signal."""

    @property
    def err(self) -> bytes:
        """Its standard error."""


class Running(Protocol):
    """A command that runs in the guest."""

    def wait(self) -> Finished:
        """Wait for its end; GuestError if the guest ends first."""


class Guest(Protocol):
    """The part of a guest that the pool uses; kfabric.vm.machine.Vm is one."""

    def popen(self, argv: Sequence[str], *, cwd: str, port: str) -> Running:
        """Start a command on a port."""

    def run(self, argv: Sequence[str], *, timeout: float) -> Finished:
        """Run a command to its end."""

    def open_stream(self, name: str) -> socket.socket:
        """The host's end of a port."""

    def console_text(self) -> str:
        """All output of the console."""

    def console_tail(self) -> str:
        """The last lines of the console."""

    def splats(self) -> list[Splat]:
        """The kernel's reports about itself; GuestError if they are not known."""

    def with_lines(self, text: str) -> str:
        """The same part of the kernel log with lines of source; GuestError if that fails."""

    def kill(self) -> None:
        """End it at once."""

    def close(self) -> None:
        """Free everything; may be called again."""


Boot = Callable[[str, Path], Guest]
"""Boots a guest, given its name and directory; raises KfabricError."""


@dataclass(frozen=True)
class Ending:
    """How a guest ended, or why it did not boot."""

    name: str
    error: KfabricError | None = None
    worker_status: int | None = None
    """Exit status of the test process; None: it did not end by itself."""
    stderr: str = ""
    console: str = ""
    splats: tuple[Splat, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether guest and test process ended normally and the kernel reported nothing."""
        normal = self.worker_status == 0 or self.retired
        return self.error is None and normal and not self.splats

    @property
    def retired(self) -> bool:
        """Whether it was discarded, with tests left to run, because a test had harmed it."""
        return self.error is None and self.worker_status == RETIRED

    @property
    def _worker_failed(self) -> bool:
        """Whether the test process's status is the news; a retired guest's splats say more."""
        return bool(self.worker_status) and not (self.retired and self.splats)

    def reason(self) -> str:
        """What happened, in one line."""
        text = f"kernel splat: {self.splats[0].title}" if self.splats else "ended in order"
        if self.error:
            text = self.error.line()
        elif self._worker_failed:
            status = self.worker_status or 0
            end = f"signal {-status}" if status < 0 else f"status {status}"
            text = f"the test process ended with {end}"
        return f"{self.name}: {text}"

    def evidence(self) -> list[str]:
        """Texts to show: the console's end, or the splats if the guest did not fail."""
        if self.error or self._worker_failed:
            return [text for text in (self.stderr, self.console) if text]
        return [splat.text for splat in self.splats]


class Slot:
    """A place for one guest at a time.

    Args:
        directory: gets a directory for each guest.
        cwd: working directory of the test process, in the guest as well.
        silence: seconds without output from the tests that mean a hang.
    """

    def __init__(self, name: str, boot: Boot, directory: Path, cwd: Path, silence: float) -> None:
        self.name = name
        self.boot = boot
        self.directory = directory
        self.cwd = cwd
        self.silence = silence
        self._address = f"kfabric-{os.getpid()}-{secrets.token_hex(8)}-{name}"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(abstract(self._address))
        self.listener.listen()
        self._lives: list[Life] = []

    @property
    def spec(self) -> str:
        """The execnet specification of a gateway into this slot's guest."""
        words = [sys.executable, "-S", str(BRIDGE), self._address, f"{self.silence:g}"]
        return f"popen//python={shlex.join(words)}"

    @property
    def life(self) -> Life:
        return self._lives[-1]

    def start(self) -> None:
        """Start to boot the next guest, in the background."""
        self._lives.append(Life(f"{self.name}.{len(self._lives)}", self))

    def abort(self) -> None:
        if self._lives:
            self.life.abort()

    def close(self) -> None:
        """End the present guest, and accept no more bridges."""
        with contextlib.suppress(OSError):
            # Ends an accept() that waits in another thread.
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.abort()
        if self._lives:
            self.life.join()


class Life:
    """One guest of a slot from boot to end, followed by a thread of its own."""

    def __init__(self, name: str, slot: Slot) -> None:
        self.name = name
        self.booted: Future[None] = Future()
        """Done when the guest has booted or failed to; then it has the error."""
        self.ending: Future[Ending] = Future()
        self.used = False
        """Whether a bridge has connected."""
        self.idle = False
        """Whether its tests have ended, so that silence is no hang."""
        self._slot = slot
        self._guest: Guest | None = None
        self._hang: GuestHang | None = None
        self._aborted = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=name, daemon=True)
        self._thread.start()

    def finish(self, deadline: float) -> Ending:
        """Wait for the end, at most `deadline` seconds; then kill it."""
        try:
            return self.ending.result(deadline)
        except NotYet:
            what = f"the test process did not end within {deadline:g} s"
            tail = self._guest.console_tail() if self._guest else ""
            self._kill_hung(GuestHang(what, hung(tail), tail))
        return self.ending.result(ABORT_SECONDS)

    def abort(self) -> None:
        """End the guest at once, even while it boots."""
        self._aborted.set()
        if self._guest:
            self._guest.kill()

    def with_lines(self, text: str) -> str:
        """The same text with lines of source for the frames of the user's modules, if it can be."""
        with contextlib.suppress(GuestError):
            return self._guest.with_lines(text) if self._guest else text
        return text

    def join(self) -> None:
        """Wait until everything is freed; it must have been aborted or have ended.

        A guest that still boots is not waited for: it cannot be used any more, and ends with
        this process.
        """
        if self.booted.done():
            self._thread.join(ABORT_SECONDS)

    def _follow(self) -> None:
        try:
            self._guest = self._slot.boot(self.name, self._slot.directory / self.name)
        except BaseException as error:
            cause = error if isinstance(error, KfabricError) else GuestLost(repr(error), starved())
            self.ending.set_result(Ending(self.name, cause, console=cause.console))
            self.booted.set_exception(cause)
            # Neither a bridge (a waiting one notices only the close) nor pytest may wait. When
            # pytest sees the bridge's end, it asks for the reason.
            self._slot.listener.close()
            return
        self.booted.set_result(None)
        try:
            self.ending.set_result(self._serve(self._guest))
        finally:
            self._guest.close()

    def _serve(self, guest: Guest) -> Ending:
        """Run the test process for one bridge; its ending."""
        try:
            if self._aborted.is_set():
                raise OSError
            control = _accept(self._slot.listener)
        except OSError:
            return Ending(self.name, GuestLost("given up"))
        self.used = True
        with control:
            with guest.open_stream(PORT) as port:
                socket.send_fds(control, [b"port"], [port.fileno()])
            threading.Thread(target=self._watch_silence, args=(control, guest), daemon=True).start()
            ending = self._work(guest)
            # Hanging up ends the bridge, after it has drained the port.
            control.shutdown(socket.SHUT_RDWR)
        return ending

    def _work(self, guest: Guest) -> Ending:
        try:
            done = guest.popen(WORKER, cwd=str(self._slot.cwd), port=PORT).wait()
            splats = guest.splats()
        except GuestError as error:
            # A panicked guest may be silent because QEMU dumps its memory.
            cause = error if isinstance(error, GuestPanic) else self._hang or error
            splats = []
            with contextlib.suppress(GuestError):
                splats = guest.splats()
            console = cause.console or guest.console_tail()
            return Ending(self.name, cause, console=console, splats=tuple(splats))
        stderr = done.err.decode(errors="replace")
        return Ending(self.name, None, done.rc, stderr, guest.console_tail(), tuple(splats))

    def _watch_silence(self, control: socket.socket, guest: Guest) -> None:
        """Kill the guest if the bridge reports silence; ignore the bridge's end."""
        try:
            if control.recv(len(SILENT)) != SILENT or self.idle:
                return
        except OSError:
            return
        with contextlib.suppress(GuestError):
            guest.run(SHOW_STATE, timeout=SHOW_STATE_SECONDS)
        what = f"the tests printed nothing for {self._slot.silence:g} s"
        tail = guest.console_tail()
        self._kill_hung(GuestHang(what, hung(tail), tail))

    def _kill_hung(self, hang: GuestHang) -> None:
        self._hang = hang
        if self._guest:
            self._guest.kill()


def _accept(listener: socket.socket) -> socket.socket:
    """Accept the next bridge; other users' processes can connect too, and are rejected."""
    while True:
        connection, _ = listener.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        _, user, _ = _UCRED.unpack(credentials)
        if user == os.getuid():
            return connection
        connection.close()


class Pool:
    """All slots of a run; ``boots`` has a suffix of each slot's name, and boots its guests."""

    def __init__(
        self, boots: Sequence[tuple[str, Boot]], directory: Path, cwd: Path, silence: float
    ) -> None:
        self.slots = [
            Slot(f"guest{number}{where}", boot, directory, cwd, silence)
            for number, (where, boot) in enumerate(boots)
        ]

    def of_spec(self, python: str) -> Slot:
        """The slot whose gateway specification has this `python`."""
        return next(slot for slot in self.slots if slot.spec == f"popen//python={python}")

    def start(self) -> None:
        """Boot a guest in each slot, all in parallel, and wait for them; raises KfabricError."""
        for slot in self.slots:
            slot.start()
        for slot in self.slots:
            slot.life.booted.result()

    def failure_to_boot(self) -> KfabricError | None:
        """Why a slot's guest failed to boot, if one did."""
        for slot in self.slots:
            if slot.life.booted.done() and (error := slot.life.booted.exception()):
                return error if isinstance(error, KfabricError) else GuestLost(repr(error))
        return None

    def abort(self) -> None:
        """End all guests at once, and so all waits for them."""
        for slot in self.slots:
            slot.abort()

    def close(self) -> None:
        """End all guests. May be called again."""
        for slot in self.slots:
            slot.close()
