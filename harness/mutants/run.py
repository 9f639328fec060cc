# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Host side: builds mutants while their tests run in guests.

The first job runs all named tests against the unchanged modules: a test can kill a mutant only if
it passes there.
"""

import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kfabric.errors import BuildError, GuestError
from kfabric.mutants.build import Builder
from kfabric.mutants.catalogue import Mutant, Outcome, Verdict, judge
from kfabric.vm.jobs import Boot, JobGuest

SERVER = ("python3", "-u", "-m", "kfabric.mutants.guest")
# A guest that sends no event for longer is ended; no test may take so long.
SILENCE_SECONDS = 400.0
# More than the deadlines of the test modules: a test that reports one must not be cut off.
TEST_SECONDS = 60.0


Event = dict[str, Any]
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
        self._idle: queue.SimpleQueue[JobGuest] = queue.SimpleQueue()
        self._places = [JobGuest(f"mutants{n}", SERVER, SILENCE_SECONDS, boot) for n in range(jobs)]
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
        """Play it, and once more if no test could judge it: the machine may have stood still."""
        outcome, log = self._play(mutant, modules)
        if outcome.verdict is Verdict.CRASHED:
            print(f"{log}\n{mutant.name}: {outcome.why}; a second try begins")
            outcome, log = self._play(mutant, modules)
        return self._report(outcome, log)

    def _play(self, mutant: Mutant, modules: Path) -> tuple[Outcome, str]:
        guest = self._idle.get()
        job = {"modules": str(modules), "tests": list(mutant.tests), "limit": self._limit}
        job["test_limit"] = max(TEST_SECONDS, 2 * self._limit)
        began = time.monotonic()
        try:
            reports, end, error = ask(guest, job)
            if mutant.spoils or not end["clean"]:
                guest.close()
        finally:
            self._idle.put(guest)
        seconds = time.monotonic() - began
        return judge(mutant, reports, end["status"], error, seconds), end["log"]

    def _report(self, outcome: Outcome, log: str) -> Outcome:
        if outcome.verdict in (Verdict.BROKEN, Verdict.CRASHED):
            print(log)
        self._progress(outcome)
        return outcome


def ask(guest: JobGuest, job: Mapping[str, Any]) -> tuple[list[Event], Event, GuestError | None]:
    """Have a guest run the tests of a job: their reports, its end, and the error that ended it."""
    reports: list[Event] = []
    end: Event = {"status": None, "clean": False, "log": ""}
    try:
        for event in guest.do(job):
            if event["event"] == "report":
                reports.append(event)
            else:
                end = event
    except GuestError as error:
        return reports, end, error
    return reports, end, None


def original(mutants: Sequence[Mutant]) -> Mutant:
    """A mutant without changes, with every test that the mutants name."""
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests)
    return Mutant("original", Path(), "nothing", (), tuple(sorted(tests)), ())


def passed(first: Future[Outcome]) -> bool:
    """Whether all tests pass on the original."""
    return first.result().verdict is Verdict.SURVIVED
