# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Host side: builds mutants while their tests run in guests.

The first job runs all named tests against the unchanged modules: a test can kill a mutant only if
it passes there.
"""

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import BuildError, GuestError, KfabricError
from harness.mutants.build import Builder
from harness.mutants.catalogue import Mutant, Outcome, Verdict, judge
from harness.vm.jobs import Boot, JobGuest

SERVER = ("python3", "-u", "-m", "harness.mutants.guest")
# A guest that sends no event for longer is ended; no test may take so long.
SILENCE_SECONDS = 400.0
TEST_SECONDS = 30.0


@dataclass
class Answer:
    """The result of one job."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    status: int | None = None
    log: str = ""
    error: KfabricError | None = None


class Tests:
    """Runs tests in one guest after the other; `name` is that of its guests."""

    def __init__(self, name: str, boot: Boot) -> None:
        self._guest = JobGuest(name, SERVER, SILENCE_SECONDS, boot)

    def run(self, modules: Path, tests: Sequence[str], limit: float, spoils: bool) -> Answer:
        """Run tests against the modules of a directory; `spoils`: then end the guest."""
        job = {"modules": str(modules), "tests": list(tests), "limit": limit}
        job["test_limit"] = max(TEST_SECONDS, 2 * limit)
        answer, clean = Answer(), False
        try:
            for event in self._guest.do(job):
                if event.pop("event") == "report":
                    answer.reports.append(event)
                else:
                    answer.status, answer.log = event["status"], event["log"]
                    clean = event["clean"]
        except GuestError as error:
            answer.error = error
        if spoils or not clean:
            self._guest.close()
        return answer

    def end(self) -> None:
        """End the guest for good; may be called from another thread."""
        self._guest.end()


Progress = Callable[[Outcome], None]


class Run:
    """One run over mutants.

    Args:
        builder: builds the mutants.
        boot: makes a guest.
        jobs: guests at a time.
        limit: seconds that a test waits for an expected event.
        progress: gets each outcome, the original's first; called from any thread.
    """

    def __init__(
        self, builder: Builder, boot: Boot, jobs: int, limit: float, progress: Progress
    ) -> None:
        self._builder = builder
        self._limit = limit
        self._progress = progress
        self._jobs = jobs
        self._idle: queue.SimpleQueue[Tests] = queue.SimpleQueue()
        self._places = [Tests(f"mutants{n}", boot) for n in range(jobs)]
        for place in self._places:
            self._idle.put(place)

    def all(self, mutants: Sequence[Mutant]) -> list[Outcome]:
        """Build and try the original, then each mutant.

        Returns:
            The outcomes in order; that of the original alone if it fails.

        Raises:
            KfabricError: the original does not build, or no guest starts.
        """
        with self._pool() as pool:
            first = pool.submit(self._try, original(mutants), self._builder.original())
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
                modules = self._builder.mutant(mutant)
            except BuildError as error:
                outcome = Outcome(mutant, Verdict.BROKEN, why=error.line())
                yield pool.submit(self._report, outcome, error.console)
            else:
                yield pool.submit(self._try, mutant, modules)

    @contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        """Threads whose guests end with the block."""
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(self._jobs))
            for place in self._places:
                stack.callback(place.end)
            # Runs first: a thread whose guest ends would take the next mutant.
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            yield pool

    def _try(self, mutant: Mutant, modules: Path) -> Outcome:
        place = self._idle.get()
        began = time.monotonic()
        try:
            answer = place.run(modules, mutant.tests, self._limit, mutant.spoils)
        finally:
            self._idle.put(place)
        seconds = time.monotonic() - began
        outcome = judge(mutant, answer.reports, answer.status, answer.error, seconds)
        return self._report(outcome, answer.log)

    def _report(self, outcome: Outcome, log: str) -> Outcome:
        if outcome.verdict in (Verdict.BROKEN, Verdict.CRASHED):
            print(log)
        self._progress(outcome)
        return outcome


def original(mutants: Sequence[Mutant]) -> Mutant:
    """A mutant without changes, with every test that the mutants name."""
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests)
    return Mutant("original", Path(), "nothing", (), tuple(sorted(tests)), ())


def passed(first: Future[Outcome]) -> bool:
    """Whether all tests pass on the original."""
    return first.result().verdict is Verdict.SURVIVED
