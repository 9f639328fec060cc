# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs a series of jobs on a server command in a guest, which is replaced after a failure.

    with JobGuest("guest", ["python3", "-m", "kfabric.mutants.guest"], 400.0, boot) as guest:
        for event in guest.do({"tests": [...]}):
            ...

The server reads a job a line from standard input and writes events a line to standard
output, all of them JSON objects. The event ``end`` is a job's last.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

from kfabric.errors import GuestError, GuestHang, GuestLost, hung
from kfabric.splats import Splat, splats
from kfabric.vm.machine import Command, Vm
from kfabric.vm.prepare import SOURCE

Boot = Callable[[str], Vm]
"""Makes a guest of that name, not started yet."""

END: Final = "end"
"""The last event of a job."""


class ProgramFailed(GuestError, label="the guest's part failed"):
    """A program of the harness failed, in a guest that still runs."""


class ServerEnded(GuestError, label="the server in the guest ended"):
    """The server ended in the middle of a job, in a guest that still runs."""


def events(
    vm: Vm,
    argv: Sequence[str],
    timeout: float,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    hint: str = "",
) -> Iterator[dict[str, Any]]:
    """Run a module of the harness in a guest; yield the JSON objects that it prints.

    Raises:
        ProgramFailed: it ended with an error, of which this has the last line; and ``hint``.
    """
    command = vm.popen(["python3", "-m", *argv], timeout=timeout, env=env, cwd=str(SOURCE))
    command.send(stdin.encode())
    command.close_stdin()
    other = ""
    for line in command.lines():
        if line.startswith("{"):
            yield json.loads(line)
        else:
            other += f"{line}\n"
    if command.rc:
        text = (other + command.errors.decode(errors="replace")).strip()
        what = text.rpartition("\n")[2] or f"exit status {command.rc}"
        raise ProgramFailed(what, hint, console=f"{text}\n{command.console_tail()}")


class JobGuest:
    """A place for one guest at a time; a context manager that ends the last one.

    A job boots a guest if there is none. A guest that failed, or whose server ended or hung,
    must be closed before the next job.

    Args:
        command: the server.
        silence: seconds without output that mean a hang; scaled for slow kernels.
    """

    def __init__(self, name: str, command: Sequence[str], silence: float, boot: Boot) -> None:
        self._name = name
        self._command = command
        self._silence = silence
        self._boot = boot
        self._count = 0
        self._vm: Vm | None = None
        self._last: Vm | None = None
        self._server: Command | None = None
        self._over = False
        self._lines: Iterator[str] = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def do(self, job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the events of a job as they come, including the last.

        Raises:
            ServerEnded: the server ended.
            GuestHang: the server hangs.
            GuestError: the guest ended, does not start, or :meth:`end` was called.
        """
        if not (self._vm and self._server):
            self._start()
        assert self._vm and self._server
        vm, server = self._vm, self._server
        server.send(json.dumps(job).encode() + b"\n")
        kind = ""
        while kind != END:
            event = json.loads(self._next(vm, server))
            kind = event["event"]
            yield event

    def close(self) -> None:
        """End the guest; the next job gets a new one. May be called from another thread."""
        vm, self._vm = self._vm, None
        if vm:
            vm.close()

    def end(self) -> None:
        """End the guest, and boot no other. May be called from another thread."""
        self._over = True
        self.close()

    def console(self) -> str:
        return self._last.console_text() if self._last else ""

    def splats(self) -> list[Splat]:
        return splats(self.console())

    def _start(self) -> None:
        self._refuse_if_over()
        vm = self._boot(f"{self._name}.{self._count}")
        self._count += 1
        vm.start()
        self._vm = self._last = vm
        # An end() during the boot had no guest to close.
        self._refuse_if_over()
        self._server = vm.popen(self._command, cwd=str(SOURCE))
        self._lines = self._server.lines()

    def _refuse_if_over(self) -> None:
        if self._over:
            self.close()
            raise GuestLost("no guest is wanted any more")

    def _next(self, vm: Vm, server: Command) -> str:
        """Wait for the server's next line; if it hangs, end the guest."""
        silent = threading.Event()
        seconds = self._silence * vm.image.version.slow

        def end() -> None:
            silent.set()
            vm.kill()

        guard = threading.Timer(seconds, end)
        guard.start()
        try:
            line = next(self._lines, None)
        except GuestError as error:
            if silent.is_set():
                what = f"its server has printed nothing for {seconds:g} s"
                raise GuestHang(what, hung(error.console), error.console) from None
            raise
        finally:
            guard.cancel()
        if line is None:
            errors = server.errors.decode(errors="replace").strip()
            what = errors.rpartition("\n")[2] or f"exit status {server.rc}"
            raise ServerEnded(what, console=f"{server.console_tail()}\n{errors}")
        return line
