# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests for test workers: one after the other in each slot of the pool.

A slot outlives its guests. pytest-xdist knows it by a fixed command (the
bridge), so that the worker that replaces a crashed one finds the slot's next
guest. Every guest ends in an Ending, which tells apart what went well, what the
test process did and what the kernel did.
"""

from __future__ import annotations

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

from harness.errors import GuestError, GuestHang, GuestLost, GuestPanic, KfabricError
from harness.names import RETIRED
from harness.runner.bridge import SILENT, abstract
from harness.splats import Splat

BRIDGE = Path(__file__).with_name("bridge.py")
PORT = "kfabric.xdist"
# What execnet would have made the interpreter run, after the imports that take
# long: while they go on, the other guests still boot.
BOOTSTRAP = "import execnet, pytest, sys; exec(eval(sys.stdin.readline()))"
WORKER = ("python3", "-u", "-c", BOOTSTRAP)
ABORT_SECONDS = 30.0
_UCRED = struct.Struct("3i")  # what SO_PEERCRED gives: process, user, group
# Blocked tasks, then all CPUs' stacks, onto the console.
SHOW_STATE = ("sh", "-c", "echo w > /proc/sysrq-trigger; echo l > /proc/sysrq-trigger")
SHOW_STATE_SECONDS = 5.0


class Finished(Protocol):
    """A command that has ended in the guest."""

    @property
    def rc(self) -> int:
        """Exit status; negative: the signal."""

    @property
    def err(self) -> bytes:
        """What it wrote to standard error."""


class Running(Protocol):
    """A command that runs in the guest."""

    def wait(self) -> Finished:
        """Collect its end; GuestError if the guest ends first."""


class Guest(Protocol):
    """What the pool needs of a guest; harness.vm.machine.Vm is one."""

    def popen(self, argv: Sequence[str], *, cwd: str, port: str) -> Running:
        """Start a command on a port."""

    def run(self, argv: Sequence[str], *, timeout: float) -> Finished:
        """Run a command to its end."""

    def open_stream(self, name: str) -> socket.socket:
        """The host's end of a port."""

    def console_text(self) -> str:
        """All that the console has said."""

    def console_tail(self) -> str:
        """The last lines of the console."""

    def splats(self) -> list[Splat]:
        """What the kernel reported about itself; GuestError: nobody can tell."""

    def kill(self) -> None:
        """End it at once."""

    def close(self) -> None:
        """Free everything; may be called again."""


Boot = Callable[[str, Path], Guest]
"""Boots a guest, given its name and the directory for what it leaves; raises KfabricError."""


@dataclass(frozen=True)
class Ending:
    """How a guest ended, or why it never began."""

    name: str
    error: KfabricError | None = None
    worker_status: int | None = None
    """Exit status of the test process; None: it did not come to one."""
    stderr: str = ""
    console: str = ""
    splats: tuple[Splat, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether guest and test process ended in order and the kernel had no complaint."""
        in_order = self.worker_status == 0 or self.retired
        return self.error is None and in_order and not self.splats

    @property
    def retired(self) -> bool:
        """Whether it was given up behind a test that had harmed it, with tests left to run."""
        return self.error is None and self.worker_status == RETIRED

    @property
    def _told_by_kernel(self) -> bool:
        """Whether its reports say more than that it was given up."""
        return self.retired and bool(self.splats)

    def reason(self) -> str:
        """What happened, in one line."""
        if self.error:
            return f"{self.name}: {self.error.line()}"
        if self.worker_status and not self._told_by_kernel:
            return f"{self.name}: the test process ended with {_status(self.worker_status)}"
        if self.splats:
            return f"{self.name}: kernel splat: {self.splats[0].title}"
        return f"{self.name}: ended in order"

    def evidence(self) -> list[str]:
        """What is worth reading: the console's end, or the splats if the guest lived on."""
        if self.error or (self.worker_status and not self._told_by_kernel):
            return [text for text in (self.stderr, self.console) if text]
        return [splat.text for splat in self.splats]


def _status(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"


class Slot:
    """A place for one guest at a time.

    :param name: for messages and directories.
    :param directory: gets a directory for each guest, with what it left.
    :param cwd: working directory of the test process; the guest must have it.
    :param silence: seconds without a word from the tests that mean a hang.
    """

    def __init__(self, name: str, boot: Boot, directory: Path, cwd: Path, silence: float) -> None:
        self.name = name
        self._boot = boot
        self._directory = directory
        self._cwd = cwd
        self._silence = silence
        self._address = f"kfabric-{os.getpid()}-{secrets.token_hex(8)}-{name}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(abstract(self._address))
        self._listener.listen()
        self._lives: list[Life] = []

    @property
    def spec(self) -> str:
        """The execnet specification of a gateway into this slot's guest."""
        words = [sys.executable, "-S", str(BRIDGE), self._address, f"{self._silence:g}"]
        return f"popen//python={shlex.join(words)}"

    @property
    def life(self) -> Life:
        """The present guest's life."""
        return self._lives[-1]

    @property
    def endings(self) -> list[Ending]:
        """How the guests that have ended so far did so."""
        return [life.ending.result() for life in self._lives if life.ending.done()]

    def start(self) -> None:
        """Begin to boot the next guest, in the background."""
        name = f"{self.name}.{len(self._lives)}"
        life = Life(name, self._boot, self._directory / name, self._cwd, self._listener)
        self._lives.append(life)
        life.begin()

    def abort(self) -> None:
        """End the present guest at once."""
        if self._lives:
            self.life.abort()

    def close(self) -> None:
        """End the present guest, and take no bridge any more."""
        self._hang_up()
        if self._lives:
            self.life.abort()
            self.life.join()

    def _hang_up(self) -> None:
        try:
            # Ends an accept() that waits in another thread.
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()


class Life:
    """One guest from boot to end, followed by a thread of its own."""

    def __init__(
        self, name: str, boot: Boot, directory: Path, cwd: Path, listener: socket.socket
    ) -> None:
        self.name = name
        self.booted: Future[None] = Future()
        """Done when the guest has booted, or has failed to (then it holds the error)."""
        self.ending: Future[Ending] = Future()
        self.used = False
        """Whether a bridge has come for it."""
        self.resting = False
        """Whether its tests have ended: it is silent by right while others go on."""
        self._boot = boot
        self._directory = directory
        self._cwd = cwd
        self._listener = listener
        self._guest: Guest | None = None
        self._hang: GuestHang | None = None
        self._aborted = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=name, daemon=True)

    def begin(self) -> None:
        """Boot it."""
        self._thread.start()

    def finish(self, deadline: float) -> Ending:
        """Wait for the end, at most `deadline` seconds; then make it end."""
        try:
            return self.ending.result(deadline)
        except NotYet:
            what = f"the test process did not end within {deadline:g} s"
            self._give_up(GuestHang(what, console=self._tail()))
        return self.ending.result(ABORT_SECONDS)

    def abort(self) -> None:
        """End the guest at once, however far it is."""
        self._aborted.set()
        if self._guest:
            self._guest.kill()

    def join(self) -> None:
        """Wait until nothing of it is left; it must have been aborted or have ended.

        One that still boots is left to itself: nobody can use it any more, and it
        ends with this process.
        """
        if self.booted.done():
            self._thread.join(ABORT_SECONDS)

    def _follow(self) -> None:
        try:
            self._guest = self._boot(self.name, self._directory)
        except BaseException as error:
            # Nobody may wait for this guest for ever: neither a bridge nor pytest.
            self._refuse_bridges()
            cause = error if isinstance(error, KfabricError) else GuestLost(repr(error))
            self.ending.set_result(Ending(self.name, cause, console=cause.console))
            self.booted.set_exception(cause)
            return
        self.booted.set_result(None)
        try:
            self.ending.set_result(self._serve(self._guest))
        finally:
            self._guest.close()

    def _serve(self, guest: Guest) -> Ending:
        """Run the test process for one bridge, and judge how it ended."""
        if self._aborted.is_set():
            return Ending(self.name, GuestLost("given up"))
        try:
            control = _accept(self._listener)
        except OSError:
            return Ending(self.name, GuestLost("given up"))
        self.used = True
        with control:
            with guest.open_stream(PORT) as port:
                socket.send_fds(control, [b"port"], [port.fileno()])
            threading.Thread(target=self._listen, args=(control, guest), daemon=True).start()
            ending = self._work(guest)
            # Hanging up is what ends the bridge, once it has drained the port.
            control.shutdown(socket.SHUT_RDWR)
        return ending

    def _work(self, guest: Guest) -> Ending:
        try:
            done = guest.popen(WORKER, cwd=str(self._cwd), port=PORT).wait()
            splats = tuple(guest.splats())
        except GuestError as error:
            # One that has panicked may be silent because its memory is being written.
            cause = error if isinstance(error, GuestPanic) else self._hang or error
            console = cause.console or guest.console_tail()
            return Ending(self.name, cause, console=console, splats=_known_splats(guest))
        stderr = done.err.decode(errors="replace")
        return Ending(self.name, None, done.rc, stderr, guest.console_tail(), splats)

    def _listen(self, control: socket.socket, guest: Guest) -> None:
        """Hear whether the bridge reports silence; its hanging up means nothing by itself."""
        try:
            if control.recv(len(SILENT)) != SILENT:
                return
        except OSError:
            return
        if self.resting:
            return
        try:
            guest.run(SHOW_STATE, timeout=SHOW_STATE_SECONDS)
        except GuestError:
            pass  # it says even less than we hoped for
        what = "the tests said nothing for too long"
        self._give_up(GuestHang(what, console=guest.console_tail()))

    def _give_up(self, hang: GuestHang) -> None:
        self._hang = hang
        if self._guest:
            self._guest.kill()

    def _tail(self) -> str:
        return self._guest.console_tail() if self._guest else ""

    def _refuse_bridges(self) -> None:
        """Also those that wait already: only closing tells them."""
        self._listener.close()


def _known_splats(guest: Guest) -> tuple[Splat, ...]:
    """The kernel's reports, as far as a guest that is lost can tell."""
    try:
        return tuple(guest.splats())
    except GuestError:
        return ()


def _accept(listener: socket.socket) -> socket.socket:
    """Take the next bridge; strangers find the address too, and are sent away."""
    while True:
        connection, _ = listener.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        _, user, _ = _UCRED.unpack(credentials)
        if user == os.getuid():
            return connection
        connection.close()


class Pool:
    """Some slots.

    :param boots: how to boot the guests of each slot; its name is what is behind
        ``guestN`` in the slot's.
    :param directory: gets what the guests leave, a directory each.
    """

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
        """Boot a guest in each slot, all at the same time, and wait for all of them.

        :raises KfabricError: one did not boot.
        """
        for slot in self.slots:
            slot.start()
        for slot in self.slots:
            slot.life.booted.result()

    def failure_to_boot(self) -> KfabricError | None:
        """Why a slot has no guest, if one failed to boot."""
        for slot in self.slots:
            if slot.life.booted.done() and (error := slot.life.booted.exception()):
                return error if isinstance(error, KfabricError) else GuestLost(repr(error))
        return None

    def abort(self) -> None:
        """End all guests at once; what waits for one learns it."""
        for slot in self.slots:
            slot.abort()

    def close(self) -> None:
        """End all guests. May be called again."""
        for slot in self.slots:
            slot.close()
