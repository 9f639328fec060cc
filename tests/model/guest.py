# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The host's end of the executor: a guest that does programs, replaced if it breaks."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from kfabric.errors import GuestSplat
from kfabric.runner import testvm
from kfabric.vm import prepare
from kfabric.vm.machine import Command, Vm
from tests.model.steps import Outcome, Step

_ARGV = ["python3", "-u", "-m", "tests.model.executor"]
_PORT = "kfabric.xdist"
_ANSWER_SECONDS = 90.0


class Broken(AssertionError):
    """The program left the guest in a state in which no other one can run."""


class ModelGuest:
    """A guest with an executor in it; boots when it is first needed.

    Args:
        directory: for the console and what else a guest leaves.
    """

    def __init__(self, directory: Path) -> None:
        """Prepare; nothing is booted yet."""
        self._directory = directory
        self._vm: Vm | None = None
        self._command: Command | None = None
        self._port: socket.socket | None = None
        self._lines: TextIO | None = None
        self.boots = 0
        self.steps = 0

    def run(self, program: list[Step]) -> list[Outcome]:
        """Do a program.

        Raises:
            Broken: a thread is stuck, or something could not be closed.
            GuestError: the guest did not survive.
        """
        try:
            answer = self._ask(program)
        except BaseException:
            self.close()
            raise
        if isinstance(answer, dict):
            self.close()
            raise Broken(answer["broken"])
        self.steps += len(program)
        return [Outcome(result, ended) for result, ended in answer]

    def close(self) -> None:
        """End the guest; the next program boots another."""
        vm, self._vm = self._vm, None
        if vm is not None:
            vm.close()

    def _ask(self, program: list[Step]) -> Any:
        if self._vm is None:
            self._boot()
        assert self._vm and self._port
        self._port.sendall(json.dumps(program).encode() + b"\n")
        answer = self._answer()
        # A warning does not end the guest; the program is to blame all the same.
        if splats := self._vm.splats():
            raise GuestSplat(splats[0].title, console=splats[0].text)
        return answer

    def _boot(self) -> None:
        self.boots += 1
        self._vm = testvm.boot("model", self._directory / f"guest{self.boots}")
        self._port = self._vm.open_stream(_PORT)
        self._port.settimeout(_ANSWER_SECONDS)
        self._command = self._vm.popen(_ARGV, cwd=str(prepare.SOURCE), port=_PORT)
        self._lines = self._port.makefile("r", encoding="utf-8")
        assert self._answer() == "ready"

    def _answer(self) -> Any:
        """Read one line; if there is none, say why."""
        assert self._vm and self._lines and self._command
        try:
            line = self._lines.readline()
        except TimeoutError:
            raise Broken(f"no answer within {_ANSWER_SECONDS:g} s") from None
        if line:
            return json.loads(line)
        if self._vm.alive and self._command.rc is not None:
            raise Broken(self._command.wait().err.decode(errors="replace"))
        raise self._vm.cause()


@contextmanager
def model_guest(directory: Path) -> Iterator[ModelGuest]:
    """Have a guest for the length of a block."""
    guest = ModelGuest(directory)
    try:
        yield guest
    finally:
        guest.close()
