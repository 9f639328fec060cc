# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs many programs in several processes, and checks the kernel meanwhile and afterwards.

Each worker is a fork, because it may hang and have to be killed. Before each program its name
is written to the kernel's log, so that it can be found even if the guest goes down. Kernel
reports are checked while the workers run; leaks after all of them have ended.
"""

import contextlib
import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ctypes import Structure
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, NoReturn

from kfabric.fuzz.executor import HANG_SECONDS, Executor
from kfabric.fuzz.failure import MARK, Failure, RunResult, Totals
from kfabric.fuzz.generate import Origin, program
from kfabric.fuzz.program import Program
from kfabric.guest import kmsg, leaks
from kfabric.guest.checks import KernelWatch
from kfabric.guest.memleak import MemoryWatch
from kfabric.guest.waiting import Deadline, DeadlineExpired, wait_until

#: Interval of the checks of the kernel's log.
CHECK_SECONDS: Final = 0.5
#: Programs of one worker that may have run since the last check.
RECENT: Final = 4
#: A worker that writes nothing for longer is stuck in a way that it cannot report itself.
SILENCE_SECONDS: Final = 8 * HANG_SECONDS
_KILL_SECONDS: Final = 20.0

Progress = Callable[[Totals], None]
"""Gets the totals so far, twice a second."""


@dataclass(frozen=True)
class Environment:
    """What programs run on.

    Attributes:
        address: IPv4 address of an RDMA link.
        infos: offers by name, see server.py.
    """

    address: str
    infos: Mapping[str, Structure]


class Worker:
    """A forked process that runs programs and reports on each."""

    def __init__(self, environment: Environment, programs: Iterable[tuple[str, Program]]) -> None:
        """Fork it; each program comes with its name in the kernel's log."""
        self._pipe, write = os.pipe()
        #: Names of the programs that it has begun.
        self.history: list[str] = []
        self._rest = b""
        self.silence = Deadline(SILENCE_SECONDS)
        self.pid = os.fork()
        # Parent and child both do it, so that it is done whichever runs first.
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(self.pid, self.pid)
        if self.pid == 0:
            os.close(self._pipe)
            _work(environment, programs, write)
        os.close(write)

    def fileno(self) -> int:
        """The end of the pipe that becomes readable."""
        return self._pipe

    def events(self) -> list[dict[str, Any]] | None:
        """New events; None when the worker has ended.

        An event `begin` names the program that the next events are about.
        """
        data = os.read(self._pipe, 1 << 16)
        if not data:
            return None
        self.silence = Deadline(SILENCE_SECONDS)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self, kill: bool = False) -> int | None:
        """Wait for its end, and with `kill` kill its process group first.

        Returns:
            The exit status; None if it does not even end when killed.
        """
        if kill:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        statuses: list[int] = []

        def gone() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                statuses.append(os.waitstatus_to_exitcode(status))
            return bool(statuses)

        try:
            wait_until(gone, "the end of a worker", _KILL_SECONDS)
        except DeadlineExpired:
            return None
        finally:
            os.close(self._pipe)
        return statuses[0]


def _work(environment: Environment, programs: Iterable[tuple[str, Program]], pipe: int) -> NoReturn:
    """The body of a worker."""
    status = 1
    try:
        executor = Executor(environment.address, environment.infos)
        for name, one in programs:
            kmsg.mark(f"{MARK} {name}")
            _write(pipe, {"begin": name})
            result = executor.run(one)
            results = [[op, code, n] for (op, code), n in result.calls.items()]
            _write(pipe, {**vars(result), "calls": results})
            if result.hangs:
                os._exit(0)
        status = 0
    except BaseException:
        _write(pipe, {"calls": [], "died": [traceback.format_exc()]})
    finally:
        os._exit(status)


def _write(pipe: int, event: dict[str, Any]) -> None:
    data = json.dumps(event).encode() + b"\n"
    while data:
        data = data[os.write(pipe, data) :]


class WorkerPool:
    """Several workers at once, with checks of the workers and of the kernel."""

    def __init__(self, environment: Environment, watch: KernelWatch, memory: MemoryWatch) -> None:
        self._environment = environment
        self._watch = watch
        self._memory = memory
        self._result = RunResult()

    def run(
        self,
        lists: Sequence[Iterable[tuple[str, Program]]],
        progress: Progress = lambda _: None,
        settle: bool = False,
    ) -> RunResult:
        """Run each list in a worker of its own; stop at the first failure.

        Args:
            lists: named programs.
            progress: gets the totals twice a second.
            settle: also find the youngest leaked memory, which takes seconds.
        """
        self._result = RunResult()
        self._watch.complaints()
        before = leaks.take()
        workers = [Worker(self._environment, programs) for programs in lists]
        everyone = list(workers)
        checked = time.monotonic()
        while workers and not self._result.failures:
            for worker in self._ready(workers):
                if not self._receive(worker):
                    workers.remove(worker)
            if time.monotonic() - checked > CHECK_SECONDS:
                checked = time.monotonic()
                progress(self._result.totals)
                self._check_log(everyone)
        for worker in workers:
            if worker.end(kill=True) is None:
                self._fail("hang", "a worker cannot be killed", [worker])
        self._check_log(everyone)
        self._check_leaks(before, everyone, settle)
        return self._result

    def _ready(self, workers: list[Worker]) -> list[Worker]:
        ready, _, _ = select.select(workers, [], [], CHECK_SECONDS)
        for worker in workers:
            if worker.silence.expired and worker not in ready:
                self._fail("hang", "a worker writes nothing any more", [worker])
        return ready

    def _receive(self, worker: Worker) -> bool:
        """Take a worker's events; return whether it still runs."""
        events = worker.events()
        if events is None:
            if status := worker.end():
                self._fail("client", f"a worker ended with status {status}", [worker])
            return False
        for event in events:
            if "begin" in event:
                worker.history.append(event["begin"])
            else:
                self._take_result(worker, event)
        return True

    def _take_result(self, worker: Worker, event: dict[str, Any]) -> None:
        """Take the result of the program that a worker began last."""
        self._result.totals.add(1, event["calls"])
        for text in event.get("complaints", ()):
            self._fail("answer", text, [worker], 1)
        for text in event.get("hangs", ()):
            self._fail("hang", f"a thread does not return\n{text}", [worker], 1)
        for text in event.get("died", ()):
            self._fail("client", f"{text.strip().splitlines()[-1]}\n{text}", [worker], 1)

    def _check_log(self, workers: Sequence[Worker]) -> None:
        for text in self._watch.complaints():
            self._fail("splat", text, workers)

    def _check_leaks(self, before: leaks.Census, workers: Sequence[Worker], settle: bool) -> None:
        if left := leaks.since(before):
            self._fail("left", "left behind: " + "; ".join(left), workers, 0)
        for leak in self._memory.leaks(settle=settle):
            self._fail("memory", f"{leak.line()}\n{leak.text}", workers, 0)
        self._check_log(workers)

    def _fail(self, kind: str, text: str, workers: Sequence[Worker], last: int = RECENT) -> None:
        """Note a failure; the last programs of these workers are suspects, with 0 all of them."""
        histories = [worker.history[-last:] for worker in workers]
        suspects = [name for names in zip_latest(histories) for name in names]
        self._result.failures.append(Failure(kind, text, tuple(suspects)))


def zip_latest(histories: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """The last item of each history, then the one before it of each, and so on."""
    for back in range(1, max(map(len, histories), default=0) + 1):
        yield [history[-back] for history in histories if len(history) >= back]


def generated(seed: int, process: int, calls: int) -> Iterator[tuple[str, Program]]:
    """The programs of one process of a run, until they have that many steps."""
    steps = 0
    for number in count():
        if steps >= calls:
            return
        origin = Origin(seed, process, number)
        one = program(origin)
        steps += len(one.steps)
        yield str(origin), one
