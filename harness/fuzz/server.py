# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: plays what the host asks for.

Reads a job a line from standard input, writes events a line to standard output; all
JSON. The first event of a job is ``begin``, the last one ``end``.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.fuzz.crew import Crew, Round, Stage, generated
from harness.fuzz.distil import distil
from harness.fuzz.failure import Totals
from harness.fuzz.generate import Origin, program
from harness.fuzz.offers import offers
from harness.fuzz.program import Program
from harness.guest import modules, topology
from harness.guest.checks import KernelWatch
from harness.guest.memleak import MemoryWatch

DEBUGFS = Path("/sys/kernel/debug")


def main() -> int:
    """Serve jobs until the input ends."""
    with stage() as ground:
        crew = Crew(ground, KernelWatch(), MemoryWatch())
        for line in sys.stdin:
            job = json.loads(line)
            tell(event="begin")
            if job["job"] == "distil":
                for op, short in distil(ground, job["seed"], job["calls"]):
                    tell(event="distilled", call=op, program=str(short))
            else:
                serve(crew, job)
            tell(event="end")
    return 0


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """The modules loaded, a link, and what is offered on it."""
    if not (DEBUGFS / "tracing").exists():
        subprocess.run(["mount", "-t", "debugfs", "none", DEBUGFS], check=True, timeout=10)
    modules.need()
    with modules.Modules.from_environment().loaded(), topology.rxe_on_dummy() as link:
        yield Stage(link.address, offers(link))


def serve(crew: Crew, job: dict[str, Any]) -> None:
    """Do one job."""
    _forget_warnings()
    if job["job"] == "run":
        _tell_round(crew.play(_own(job), _tell_progress, settle=job["settle"]))
    else:
        _tell_round(crew.play([_given(job)], _tell_progress, settle=job["settle"]))


def _own(job: dict[str, Any]) -> list[Iterator[tuple[str, Program]]]:
    """What each process plays in a run."""
    calls = -(-job["calls"] // len(job["processes"]))
    return [generated(job["seed"], process, calls) for process in job["processes"]]


def _given(job: dict[str, Any]) -> list[tuple[str, Program]]:
    """What one process plays of what the host has sent."""
    programs = [("replay", Program.parse(text)) for text in job["programs"]]
    programs += [(text, program(Origin.parse(text))) for text in job["origins"]]
    times: int = job["times"]
    return programs * times


def _forget_warnings() -> None:
    """Let what the kernel warns of only once be told again."""
    with contextlib.suppress(OSError):
        (DEBUGFS / "clear_warn_once").write_text("1")


def _tell_progress(totals: Totals) -> None:
    tell(event="progress", calls=totals.calls)


def _tell_round(played: Round) -> None:
    for failure in played.failures:
        tell(event="failure", failure=failure.to_json())
    tell(event="played", programs=played.totals.programs, results=played.totals.rows())


def tell(**event: object) -> None:
    """Send one event to the host."""
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    sys.exit(main())
