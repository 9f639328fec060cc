# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: tests against one mutant after the other, in one boot.

Started by harness/mutants/run.py. Reads a job a line from standard input, writes
events a line to standard output; all JSON. What takes long to import is imported
once; each job's pytest is a fork. As soon as a test has failed the verdict is in:
the fork is killed, and the modules are unloaded for the next one.
"""

from __future__ import annotations

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
from typing import IO, NoReturn

import pytest

from harness import names
from harness.guest import checks, modules
from harness.guest.waiting import Deadline, DeadlineExpired, wait_until

#: Imported before the first fork; a missing one is missed there, not here.
WARM = ("kfabric_py", "harness.runner.plugin", "harness.guest.topology", "harness.guest.kmsg")
ARGUMENTS = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-q")
TEXT = 1500
LOG_TAIL = 3000
KILL_SECONDS = 10.0
UNLOAD_SECONDS = 10.0


@dataclass(frozen=True)
class Job:
    """One mutant's tests.

    :param modules: directory of its modules.
    :param tests: node ids.
    :param limit: seconds that a test waits for what should have happened.
    :param test_limit: seconds that one test may take.
    """

    modules: str
    tests: list[str]
    limit: float
    test_limit: float


class Reporter:
    """pytest plugin of the fork: tells each phase's outcome through a pipe."""

    def __init__(self, pipe: int) -> None:
        """Write to a descriptor."""
        self._pipe = pipe

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell of calls, and of other phases that did not pass."""
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


def tell(**event: object) -> None:
    """Send one event to the host."""
    print(json.dumps(event), flush=True)


def serve(job: Job) -> None:
    """Run one job, and leave the guest as it was, or say that it is not."""
    taint = _taint()
    with tempfile.TemporaryFile() as log:
        readable, writable = os.pipe()
        pid = os.fork()
        if pid == 0:
            _become_pytest(job, log.fileno(), writable)
        os.close(writable)
        status = _follow(pid, readable, job.test_limit + job.limit)
        os.close(readable)
        tail = _tail(log)
    clean = _ended(pid) and _unloaded(job) and _taint() == taint
    tell(event="end", status=status, clean=clean, log=tail)


def _become_pytest(job: Job, log: int, pipe: int) -> NoReturn:
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
    """Pass on what the fork reports; its exit status, None if it had to be killed."""
    process = os.pidfd_open(pid)
    sources = [pipe, process]
    rest = b""
    try:
        while True:
            ready, _, _ = select.select(sources, [], [], silence)
            if pipe in ready:
                data = os.read(pipe, 1 << 16)
                # Its end does not mean that of the fork, nor the reverse.
                sources = sources if data else [process]
                *lines, rest = (rest + data).split(b"\n")
                if any([_passed_on(line) for line in lines]):
                    return None
            elif process in ready:
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            else:
                return None
    finally:
        os.close(process)


def _passed_on(line: bytes) -> bool:
    """Send a report to the host; whether it settles the matter."""
    report = json.loads(line)
    tell(**report)
    return bool(report["outcome"] == "failed")


def _ended(pid: int) -> bool:
    """End the fork with all that it started; whether they are gone."""

    def gone() -> bool:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            return True
        return False

    try:
        wait_until(gone, "the end of the tests", KILL_SECONDS)
    except DeadlineExpired:
        return False
    return True


def _unloaded(job: Job) -> bool:
    """Unload the mutant's modules, and those of tests that use them."""
    limit = Deadline(UNLOAD_SECONDS)
    try:
        for name in _holders():
            modules.wait_for_references(name, 0, limit)
            modules.remove(name)
        modules.Modules(Path(job.modules)).unload(deadline=limit)
    except (OSError, DeadlineExpired):
        return False
    return not any(map(modules.state, modules.OURS))


def _holders() -> set[str]:
    states = filter(None, map(modules.state, modules.OURS))
    return {name for state in states for name in state.holders} - set(modules.OURS)


def _taint() -> int:
    """What the kernel has suffered so far, apart from modules that are not its own."""
    bits = sum(1 << bit for bit in checks.TAINTS)
    return int(checks.TAINTED.read_text()) & bits


def _tail(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - LOG_TAIL))
    return log.read().decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
