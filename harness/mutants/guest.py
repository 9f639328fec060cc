# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: runs tests against one mutant after the other, in one boot.

Started by harness/mutants/run.py. Reads one job a line from standard input and writes events to
standard output, one a line; both are JSON. Slow imports happen once; each job's pytest is a
fork. The first failed test settles the verdict: the fork is killed, and the modules are unloaded
for the next job.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from kfabric import names
from kfabric.guest import checks, modules
from kfabric.guest.waiting import Deadline, DeadlineExpired, wait_until

#: Imported before the first fork; pytest reports a missing one, not this module.
WARM = ("kfabric_py", "kfabric.runner.plugin", "kfabric.guest.topology", "kfabric.guest.kmsg")
ARGUMENTS = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-q")
TEXT = 1500
LOG_TAIL = 3000
KILL_SECONDS = 10.0
UNLOAD_SECONDS = 10.0


@dataclass(frozen=True)
class Job:
    """One mutant's tests.

    Attributes:
        modules: directory of the mutant's modules.
        tests: node ids.
        limit: seconds that a test waits for an expected event.
        test_limit: seconds that one test may take.
    """

    modules: str
    tests: list[str]
    limit: float
    test_limit: float


class Reporter:
    """A pytest plugin of the fork: writes the outcome of each phase to a pipe."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report calls, and other phases that did not pass."""
        if report.when != "call" and report.passed:
            return
        event = {
            "event": "report",
            "test": report.nodeid,
            "when": report.when,
            "outcome": report.outcome,
            "text": report.longreprtext[-TEXT:],
        }
        os.write(self._pipe, json.dumps(event).encode() + b"\n")


def main() -> int:
    """Serve jobs until the input ends."""
    for name in WARM:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        serve(Job(**json.loads(line)))
    return 0


def send(**event: object) -> None:
    """Send one event to the host."""
    print(json.dumps(event), flush=True)


def serve(job: Job) -> None:
    """Run one job; the last event says whether the guest is clean afterwards."""
    taint = _taint()
    with tempfile.TemporaryFile() as log:
        readable, writable = os.pipe()
        pid = os.fork()
        if pid == 0:
            _run_pytest(job, log.fileno(), writable)
        os.close(writable)
        status = _follow(pid, readable, job.test_limit + job.limit)
        os.close(readable)
        log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL))
        tail = log.read().decode(errors="replace")
    clean = _kill(pid) and _unload(job) and _taint() == taint
    send(event="end", status=status, clean=clean, log=tail)


def _run_pytest(job: Job, log: int, pipe: int) -> NoReturn:
    status = 99
    try:
        os.setsid()
        for fd in (1, 2):
            os.dup2(log, fd)
        os.environ[names.MODULES] = job.modules
        os.environ["KFABRIC_TEST_LIMIT"] = str(job.limit)
        argv = [*ARGUMENTS, f"--timeout={job.test_limit:g}", "-x", *job.tests]
        status = int(pytest.main(argv, plugins=[Reporter(pipe)]))
        sys.stdout.flush()
    finally:
        os._exit(status)


def _follow(pid: int, pipe: int, silence: float) -> int | None:
    """Send the fork's reports to the host until one failed or the fork ended.

    Returns:
        The exit status of the fork; None if it still runs.
    """
    process = os.pidfd_open(pid)
    sources = [pipe, process]
    rest = b""
    try:
        while True:
            ready, _, _ = select.select(sources, [], [], silence)
            if pipe in ready:
                data = os.read(pipe, 1 << 16)
                # A process of the fork's may hold the pipe open after the fork has ended.
                sources = sources if data else [process]
                *lines, rest = (rest + data).split(b"\n")
                reports = [json.loads(line) for line in lines]
                for report in reports:
                    send(**report)
                if any(report["outcome"] == "failed" for report in reports):
                    return None
            elif ready:
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            else:
                return None
    finally:
        os.close(process)


def _kill(pid: int) -> bool:
    """Kill the fork's process group; return whether it is gone."""

    def gone() -> bool:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            return True
        return False

    with contextlib.suppress(DeadlineExpired):
        wait_until(gone, "the end of the tests", KILL_SECONDS)
        return True
    return False


def _unload(job: Job) -> bool:
    """Unload the mutant's modules and their users; return whether they are gone."""
    limit = Deadline(UNLOAD_SECONDS)
    try:
        states = filter(None, map(modules.state, modules.OURS))
        # Modules of tests that use ours.
        for name in {name for state in states for name in state.holders} - set(modules.OURS):
            modules.wait_for_references(name, 0, limit)
            modules.remove(name)
        modules.Modules(Path(job.modules)).unload(deadline=limit)
    except (OSError, DeadlineExpired):
        return False
    return not any(map(modules.state, modules.OURS))


def _taint() -> int:
    """The kernel's taint flags, without those for foreign modules."""
    bits = sum(1 << bit for bit in checks.TAINTS)
    return int(checks.TAINTED.read_text()) & bits


if __name__ == "__main__":
    sys.exit(main())
