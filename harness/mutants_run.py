# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs mutants in guests: builds here while tests run there.

The first job is no mutant: all tests that any of them names, against the modules as
they are. Only a test that passes there can kill.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import BuildError, GuestError, KfabricError
from harness.mutants import Mutant, Outcome, Verdict, judge
from harness.mutants_build import Workshop
from harness.setup import SOURCE
from harness.vm.machine import Command, Vm

SERVER = ("python3", "-u", "-m", "harness.mutants_guest")
# A guest whose tests say nothing for so long is ended; longer than any of them may take.
JOB_SECONDS = 400.0

Boot = Callable[[str], Vm]
"""Makes a guest of that name, not started yet."""


@dataclass(frozen=True)
class Limits:
    """Seconds.

    :param wait: that a test waits for what should have happened.
    :param test: that one test may take.
    """

    wait: float
    test: float


@dataclass
class Answer:
    """What a guest said about one job."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    status: int | None = None
    log: str = ""
    error: KfabricError | None = None


class Session:
    """A place for one guest at a time, which serves jobs until it is spoiled.

    :param name: of its guests, which are numbered.
    """

    def __init__(self, name: str, boot: Boot) -> None:
        self._name = name
        self._boot = boot
        self._count = 0
        self._vm: Vm | None = None
        self._events: Iterator[str] = iter(())
        self._server: Command | None = None

    def run(self, modules: Path, tests: Sequence[str], limits: Limits, spoils: bool) -> Answer:
        """Run tests against the modules of a directory."""
        answer = Answer()
        try:
            self._need_guest()
            job = {
                "modules": str(modules),
                "tests": list(tests),
                "limit": limits.wait,
                "test_limit": limits.test,
            }
            assert self._server
            self._server.send(json.dumps(job).encode() + b"\n")
            clean = self._listen(answer)
        except GuestError as error:
            answer.error, clean = error, False
        if spoils or not clean:
            self.close()
        return answer

    def close(self) -> None:
        """End the guest; the next job gets a new one. May be called from another thread."""
        vm, self._vm = self._vm, None
        if vm:
            vm.close()

    def _need_guest(self) -> None:
        if self._vm:
            return
        vm = self._boot(f"{self._name}.{self._count}")
        self._count += 1
        vm.start()
        self._vm = vm
        self._server = vm.popen(SERVER, cwd=str(SOURCE))
        self._events = self._server.lines()

    def _listen(self, answer: Answer) -> bool:
        """Collect events until the job's end; whether the guest can be used again."""
        vm = self._vm
        assert vm
        guard = threading.Timer(JOB_SECONDS, vm.kill)
        guard.start()
        try:
            for line in self._events:
                event = json.loads(line)
                if event.pop("event") == "report":
                    answer.reports.append(event)
                    continue
                answer.status, answer.log = event["status"], event["log"]
                return bool(event["clean"])
        finally:
            guard.cancel()
        raise GuestError("the test server in the guest ended", console=vm.console_tail())


Progress = Callable[[Outcome], None]


class Run:
    """One run over mutants.

    :param jobs: guests at a time.
    :param progress: gets each outcome, the original's first; any thread.
    """

    def __init__(
        self, workshop: Workshop, boot: Boot, jobs: int, limits: Limits, progress: Progress
    ) -> None:
        self._workshop = workshop
        self._limits = limits
        self._progress = progress
        self._jobs = jobs
        self._idle: queue.SimpleQueue[Session] = queue.SimpleQueue()
        self._sessions = [Session(f"mutants{n}", boot) for n in range(jobs)]
        for session in self._sessions:
            self._idle.put(session)

    def all(self, mutants: Sequence[Mutant]) -> list[Outcome]:
        """Build and try the original, then each mutant.

        :return: what became of them, in order; nothing of them if the original fails.
        :raises KfabricError: the original cannot be built, or no guest be had.
        """
        original = whole(mutants)
        with self._pool() as pool:
            first = pool.submit(self._try, original, self._workshop.original())
            futures = list(self._futures(pool, mutants, first))
            for future in as_completed([first, *futures]):
                if future is first and not passed(first):
                    pool.shutdown(wait=False, cancel_futures=True)
                    return [first.result()]
            return [future.result() for future in futures]

    def _futures(
        self, pool: ThreadPoolExecutor, mutants: Sequence[Mutant], first: Future[Outcome]
    ) -> Iterator[Future[Outcome]]:
        for mutant in mutants:
            if first.done() and not passed(first):
                return
            try:
                modules = self._workshop.mutant(mutant)
            except BuildError as error:
                yield pool.submit(self._unbuilt, mutant, error)
            else:
                yield pool.submit(self._try, mutant, modules)

    @contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        """Threads whose guests end with the block, however it ends."""
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(self._jobs))
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            for session in self._sessions:
                stack.callback(session.close)
            yield pool

    def _try(self, mutant: Mutant, modules: Path) -> Outcome:
        session = self._idle.get()
        began = time.monotonic()
        try:
            answer = session.run(modules, mutant.tests, self._limits, mutant.spoils)
        finally:
            self._idle.put(session)
        seconds = time.monotonic() - began
        outcome = judge(mutant, answer.reports, answer.status, answer.error, seconds)
        return self._tell(outcome, answer.log)

    def _unbuilt(self, mutant: Mutant, error: BuildError) -> Outcome:
        return self._tell(Outcome(mutant, Verdict.BROKEN, why=error.line()), error.console)

    def _tell(self, outcome: Outcome, log: str) -> Outcome:
        if outcome.verdict in (Verdict.BROKEN, Verdict.CRASHED):
            print(log)
        self._progress(outcome)
        return outcome


def whole(mutants: Sequence[Mutant]) -> Mutant:
    """What is no mutant: the original, with every test that the mutants name."""
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests)
    return Mutant("original", Path(), "nothing", (), tuple(sorted(tests)), ())


def passed(first: Future[Outcome]) -> bool:
    """Whether all tests pass on the original."""
    return first.result().verdict is Verdict.SURVIVED
