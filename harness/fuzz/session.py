# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Host side: a guest that runs programs, replaced by a new one after a failure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from kfabric.errors import GuestError
from kfabric.fuzz.failure import Failure, RunResult, last_origins
from kfabric.fuzz.program import Program
from kfabric.vm.jobs import Boot, JobGuest, ServerEnded

SERVER: Final = ("python3", "-u", "-m", "kfabric.fuzz.server")
#: Longer than the guest may send no event while it runs programs: it waits for hanging threads.
SILENCE_SECONDS: Final = 600.0
#: Kinds of failures after which a guest can be used again.
_HARMLESS: Final = ("answer", "client")

Progress = Callable[[int], None]
"""Gets the calls so far, twice a second."""


@dataclass
class Answer(RunResult):
    """The result of a job."""

    distilled: dict[str, str] = field(default_factory=dict)


class Session:
    """Runs jobs, in one guest at a time; `name` is that of its guests, which are numbered."""

    def __init__(self, name: str, boot: Boot) -> None:
        self._guest = JobGuest(name, SERVER, SILENCE_SECONDS, boot)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._guest.end()

    def run(
        self,
        seed: int,
        processes: Iterable[int],
        calls: int,
        *,
        settle: bool = False,
        progress: Progress = lambda _: None,
    ) -> Answer:
        """Run the programs of some processes of a seed, until there were so many calls."""
        job = {"job": "run", "seed": seed, "processes": list(processes), "calls": calls}
        return self._do({**job, "settle": settle}, progress)

    def run_programs(
        self,
        programs: Sequence[Program] = (),
        origins: Sequence[str] = (),
        *,
        times: int = 1,
        settle: bool = False,
    ) -> Answer:
        """Run these programs, one after the other, so many times."""
        job = {
            "job": "programs",
            "programs": [str(one) for one in programs],
            "origins": list(origins),
        }
        return self._do({**job, "times": times, "settle": settle})

    def distil(self, seed: int, calls: Sequence[str]) -> dict[str, str]:
        """Find the text of a short program for each call, in which it succeeds.

        Raises:
            GuestError: the guest goes down meanwhile.
        """
        answer = self._do({"job": "distil", "seed": seed, "calls": list(calls)})
        if answer.failures:
            raise GuestError(answer.failures[0].title, console=answer.failures[0].text)
        return answer.distilled

    def _do(self, job: dict[str, Any], progress: Progress = lambda _: None) -> Answer:
        """Do a job. A guest that goes down during the job is a failure like others.

        Raises:
            GuestError: the job did not begin, or the server ended.
        """
        answer, begun = Answer(), False
        try:
            for event in self._guest.do(job):
                begun = True
                _take(answer, event, progress)
        except GuestError as error:
            if not begun or isinstance(error, ServerEnded):
                raise
            self._add(answer, "guest", f"{error.line()}\n{error.console}")
        # The console also has the reports from before, between and after the jobs.
        if all(failure.kind in ("left", "memory", *_HARMLESS) for failure in answer.failures):
            for splat in self._guest.splats():
                self._add(answer, "splat", str(splat))
        if any(failure.kind not in _HARMLESS for failure in answer.failures):
            self._guest.close()
        return answer

    def _add(self, answer: Answer, kind: str, text: str) -> None:
        answer.failures.append(Failure(kind, text, last_origins(self._guest.console())))


def _take(answer: Answer, event: dict[str, Any], progress: Progress) -> None:
    """Add an event of the guest's to the answer."""
    match event["event"]:
        case "progress":
            progress(event["calls"])
        case "failure":
            answer.failures.append(Failure.from_json(event["failure"]))
        case "distilled":
            answer.distilled[event["call"]] = event["program"]
        case "played":
            answer.totals.add(event["programs"], event["results"])
