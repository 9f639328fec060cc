# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A guest that plays programs, and a new one when it is spoiled or gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.errors import GuestError
from harness.fuzz.failure import Failure, Totals, last_origins
from harness.fuzz.program import Program
from harness.vm.jobs import Boot, JobGuest, ServerEnded

SERVER: Final = ("python3", "-u", "-m", "harness.fuzz.server")
#: Longer than a guest may say nothing while it plays: hanging threads are waited for.
SILENCE_SECONDS: Final = 600.0
#: After these a guest goes on as if nothing had been.
_HARMLESS: Final = ("answer", "client")

Progress = Callable[[int], None]
"""Gets the calls so far, twice a second."""


def _silent(calls: int) -> None:
    """Show no progress."""


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
        self._guest = JobGuest(name, SERVER, SILENCE_SECONDS, boot)

    def __enter__(self) -> Session:
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
        progress: Progress = _silent,
    ) -> Answer:
        """Play the programs of some processes of a seed, until there were so many calls."""
        job = {
            "job": "run",
            "seed": seed,
            "processes": list(processes),
            "calls": calls,
            "settle": settle,
        }
        return self._do(job, progress)

    def play(
        self,
        programs: Sequence[Program] = (),
        origins: Sequence[str] = (),
        *,
        times: int = 1,
        settle: bool = False,
    ) -> Answer:
        """Play these, one after the other, so many times."""
        job = {
            "job": "play",
            "programs": [str(one) for one in programs],
            "origins": list(origins),
            "times": times,
            "settle": settle,
        }
        return self._do(job, _silent)

    def distil(self, seed: int, calls: Sequence[str]) -> dict[str, str]:
        """Find a short program for each call, in which it succeeds: their texts.

        :raises GuestError: the guest goes down meanwhile.
        """
        answer = self._do({"job": "distil", "seed": seed, "calls": list(calls)}, _silent)
        if answer.failures:
            raise GuestError(answer.failures[0].title, console=answer.failures[0].text)
        return answer.distilled

    def _do(self, job: dict[str, Any], progress: Progress) -> Answer:
        """Do a job. A guest that goes down is a failure like others.

        :raises GuestError: there is no guest in which it could be done.
        """
        answer, begun = Answer(), False
        try:
            for event in self._guest.do(job):
                begun = True
                _take(answer, event, progress)
        except GuestError as error:
            if not begun or isinstance(error, ServerEnded):
                raise
            text = f"{error.line()}\n{error.console}"
            answer.failures.append(Failure("guest", text, self._latest()))
        self._add_splats(answer)
        if any(failure.kind not in _HARMLESS for failure in answer.failures):
            self._guest.close()
        return answer

    def _add_splats(self, answer: Answer) -> None:
        """Add what the kernel said while nobody in the guest listened.

        That is: before the first job, between two, and behind the last one's last look.
        """
        if all(failure.kind in ("left", "memory", *_HARMLESS) for failure in answer.failures):
            for splat in self._guest.splats():
                answer.failures.append(Failure("splat", str(splat), self._latest()))

    def _latest(self) -> tuple[str, ...]:
        return last_origins(self._guest.console())


def _take(answer: Answer, event: dict[str, Any], progress: Progress) -> None:
    """Add what the guest tells."""
    match event["event"]:
        case "progress":
            progress(event["calls"])
        case "failure":
            answer.failures.append(Failure.from_json(event["failure"]))
        case "distilled":
            answer.distilled[event["call"]] = event["program"]
        case "played":
            answer.totals.add(event["programs"], event["results"])
