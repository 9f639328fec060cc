# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A guest that plays programs, and a new one when it is spoiled or gone."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.errors import GuestError
from harness.fuzz.failure import Failure, Totals, last_origins
from harness.fuzz.program import Program
from harness.setup import SOURCE
from harness.vm.machine import Command, Vm

SERVER: Final = ("python3", "-u", "-m", "harness.fuzz.server")
#: Longer than a guest may say nothing while it plays: hanging threads are waited for.
SILENCE_SECONDS: Final = 300.0
#: After these a guest goes on as if nothing had been.
_HARMLESS: Final = ("answer", "client")

Boot = Callable[[str], Vm]
"""Makes a guest of that name, not started yet."""
Progress = Callable[[int, int], None]
"""Gets calls and programs so far."""


def _silent(calls: int, programs: int) -> None:
    """Show no progress."""


class ServerFailed(GuestError):
    """The part in the guest ended, without a failure of the kernel."""

    label = "programs cannot be played"


@dataclass
class Answer:
    """What came of a job."""

    totals: Totals = field(default_factory=Totals)
    failures: list[Failure] = field(default_factory=list)
    distilled: dict[str, str] = field(default_factory=dict)


class Session:
    """A place for one guest at a time.

    :param name: of its guests, which are numbered.
    """

    def __init__(self, name: str, boot: Boot) -> None:
        self._name = name
        self._boot = boot
        self._count = 0
        self._vm: Vm | None = None
        self._server: Command | None = None
        self._lines: Iterator[str] = iter(())
        self._errors = ""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        seed: int,
        processes: int,
        calls: int,
        *,
        first: int = 0,
        settle: bool = False,
        progress: Progress = _silent,
    ) -> Answer:
        """Play the programs of a seed until there were so many calls."""
        job = {
            "job": "run",
            "seed": seed,
            "processes": processes,
            "calls": calls,
            "first": first,
            "settle": settle,
        }
        return self._do(job, progress)

    def play(
        self,
        programs: Sequence[Program] = (),
        origins: Sequence[str] = (),
        *,
        times: int = 1,
        together: bool = False,
        settle: bool = False,
    ) -> Answer:
        """Play these, one after the other, so many times; or together, in a process each."""
        job = {
            "job": "play",
            "programs": [str(one) for one in programs],
            "origins": list(origins),
            "times": times,
            "together": together,
            "settle": settle,
        }
        return self._do(job, _silent)

    def distil(self, seed: int, calls: Sequence[str]) -> dict[str, str]:
        """Find a short program for each call, in which it succeeds: their texts."""
        answer = self._do({"job": "distil", "seed": seed, "calls": list(calls)}, _silent)
        if answer.failures:
            raise ServerFailed(answer.failures[0].title, console=answer.failures[0].text)
        return answer.distilled

    def close(self) -> None:
        """End the guest; the next job gets a new one."""
        vm, self._vm = self._vm, None
        if vm:
            vm.close()

    def _do(self, job: dict[str, Any], progress: Progress) -> Answer:
        """Do a job. A guest that goes down is a failure like others.

        :raises GuestError: there is no guest in which it could be done.
        """
        vm = self._ready()
        answer = Answer()
        try:
            assert self._server
            self._server.send(json.dumps(job).encode() + b"\n")
            self._listen(vm, answer, progress)
        except ServerFailed:
            self.close()
            raise
        except GuestError as error:
            text = f"{error.line()}\n{error.console}"
            origins = last_origins(vm.console_text())
            answer.failures.append(Failure("guest", text, origins))
        if any(failure.kind not in _HARMLESS for failure in answer.failures):
            self.close()
        return answer

    def _ready(self) -> Vm:
        if self._vm is None:
            vm = self._boot(f"{self._name}.{self._count}")
            self._count += 1
            vm.start()
            self._vm = vm
            self._server = vm.popen(SERVER, cwd=str(SOURCE))
            self._lines = self._server.lines()
            for _ in self._events(vm, "ready"):
                pass
        return self._vm

    def _listen(self, vm: Vm, answer: Answer, progress: Progress) -> None:
        for event in self._events(vm, "end"):
            match event["event"]:
                case "progress":
                    progress(event["calls"], event["programs"])
                case "failure":
                    answer.failures.append(Failure.from_json(event["failure"]))
                case "distilled":
                    answer.distilled[event["call"]] = event["program"]
                case "played":
                    answer.totals.add(event["programs"], event["results"])

    def _events(self, vm: Vm, last: str) -> Iterator[dict[str, Any]]:
        """What the server says, up to an event of this kind."""
        seconds = SILENCE_SECONDS * vm.image.version.slow
        while True:
            guard = threading.Timer(seconds, vm.kill)
            guard.start()
            try:
                line = next(self._lines, None)
            finally:
                guard.cancel()
            if line is None:
                raise ServerFailed("the server in the guest ended", console=vm.console_tail())
            event = json.loads(line)
            if event["event"] == last:
                return
            yield event
