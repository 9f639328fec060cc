# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Plays many programs in several processes, and looks at what is left of them.

A process that plays is a fork: it may hang, and be killed. The kernel's log says
before each program which one it is, so that it can be found even if the guest goes
down. The kernel's complaints are looked for while they play; what is left behind
when all have ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ctypes import Structure
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NoReturn

from harness.fuzz.failure import MARK, Failure, Totals
from harness.fuzz.generate import Origin, program
from harness.fuzz.player import HANG_SECONDS, Player, Result
from harness.fuzz.program import Program
from harness.guest import kmsg, leaks
from harness.guest.checks import KernelWatch
from harness.guest.memleak import MemoryWatch
from harness.guest.waiting import Deadline, DeadlineExpired, wait_until

#: How often the kernel's log is looked at.
LOOK_SECONDS: Final = 0.5
#: Programs of one process that may have been played since it was last looked at.
RECENT: Final = 4
#: A process that says nothing for so long is stuck in a way that it cannot tell.
SILENCE_SECONDS: Final = 8 * HANG_SECONDS
_KILL_SECONDS: Final = 20.0

Tell = Callable[[Totals], None]
"""Gets the totals so far, twice a second."""


@dataclass(frozen=True)
class Stage:
    """What programs are played on.

    :param address: IPv4 address of an RDMA link.
    :param infos: offers, see :mod:`harness.fuzz.offers`.
    """

    address: str
    infos: Mapping[str, Structure]


@dataclass
class Round:
    """What came of a round."""

    totals: Totals = field(default_factory=Totals)
    failures: list[Failure] = field(default_factory=list)


class Worker:
    """A process that plays programs, and tells of each."""

    def __init__(self, stage: Stage, programs: Iterable[tuple[str, Program]]) -> None:
        """Fork it; the programs come with what they are called in the kernel's log."""
        self._pipe, write = os.pipe()
        #: The programs that it has begun.
        self.history: list[str] = []
        self._rest = b""
        self.heard = Deadline(SILENCE_SECONDS)
        self.pid = os.fork()
        # Both do it, so that it is done whoever comes first.
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(self.pid, self.pid)
        if self.pid == 0:
            os.close(self._pipe)
            _play(stage, programs, write)
        os.close(write)

    def fileno(self) -> int:
        """The end of the pipe that becomes readable."""
        return self._pipe

    def events(self) -> list[dict[str, Any]] | None:
        """What it has told since; None: it has ended.

        ``begin`` names the program that what comes next is about.
        """
        data = os.read(self._pipe, 1 << 16)
        if not data:
            return None
        self.heard = Deadline(SILENCE_SECONDS)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self, kill: bool = False) -> int | None:
        """Wait for its end; its status, None if it cannot even be killed.

        :param kill: it, and what it has forked.
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
            wait_until(gone, "the end of a playing process", _KILL_SECONDS)
        except DeadlineExpired:
            return None
        finally:
            os.close(self._pipe)
        return statuses[0]


def _play(stage: Stage, programs: Iterable[tuple[str, Program]], pipe: int) -> NoReturn:
    """Be a worker."""
    status = 1
    try:
        player = Player(stage.address, stage.infos)
        for name, one in programs:
            kmsg.mark(f"{MARK} {name}")
            _write(pipe, {"begin": name})
            result = player.play(one)
            _write(pipe, _described(result))
            if result.hangs:
                os._exit(0)
        status = 0
    except BaseException:
        _write(pipe, {"results": [], "died": [traceback.format_exc()]})
    finally:
        os._exit(status)


def _described(result: Result) -> dict[str, Any]:
    return {
        "results": [[op, code, n] for (op, code), n in result.calls.items()],
        "complaints": result.complaints,
        "hangs": result.hangs,
        "died": result.died,
    }


def _write(pipe: int, event: dict[str, Any]) -> None:
    data = json.dumps(event).encode() + b"\n"
    while data:
        data = data[os.write(pipe, data) :]


class Crew:
    """Several workers at once, and the eye that is kept on them and on the kernel."""

    def __init__(self, stage: Stage, watch: KernelWatch, memory: MemoryWatch) -> None:
        self._stage = stage
        self._watch = watch
        self._memory = memory
        self._round = Round()
        self._last_origins: tuple[str, ...] = ()

    def play(
        self,
        lists: Sequence[Iterable[tuple[str, Program]]],
        tell: Tell = lambda _: None,
        settle: bool = False,
    ) -> Round:
        """Have each list played by a worker of its own; stop at the first failure.

        :param settle: look for the youngest leaked memory, too, which takes seconds.
        """
        self._round = Round()
        self._watch.complaints()
        before = leaks.take()
        workers = [Worker(self._stage, programs) for programs in lists]
        everybody = list(workers)
        told = time.monotonic()
        while workers and not self._round.failures:
            for worker in self._ready(workers):
                if not self._hear(worker):
                    workers.remove(worker)
            if time.monotonic() - told > LOOK_SECONDS:
                told = time.monotonic()
                tell(self._round.totals)
                self._look(everybody)
        for worker in workers:
            if worker.end(kill=True) is None:
                self._fail("hang", "a process cannot be killed", [worker])
        self._look(everybody)
        self._judge_rest(before, everybody, settle)
        return self._round

    def _ready(self, workers: list[Worker]) -> list[Worker]:
        ready, _, _ = select.select(workers, [], [], LOOK_SECONDS)
        for worker in workers:
            if worker.heard.expired and worker not in ready:
                self._fail("hang", "a process says nothing any more", [worker])
        return ready

    def _hear(self, worker: Worker) -> bool:
        """Take what a worker tells; whether it goes on."""
        events = worker.events()
        if events is None:
            status = worker.end()
            if status:
                self._fail("client", f"a playing process ended with status {status}", [worker])
            return False
        for event in events:
            if "begin" in event:
                worker.history.append(event["begin"])
            else:
                self._judge(worker, event)
        return True

    def _judge(self, worker: Worker, event: dict[str, Any]) -> None:
        """Take what came of the program that a worker began last."""
        self._round.totals.add(1, event["results"])
        for text in event.get("complaints", ()):
            self._fail("answer", text, [worker], 1)
        for text in event.get("hangs", ()):
            self._fail("hang", f"a thread does not come back\n{text}", [worker], 1)
        for text in event.get("died", ()):
            last = text.strip().splitlines()[-1]
            self._fail("client", f"{last}\n{text}", [worker], 1)

    def _look(self, workers: Sequence[Worker]) -> None:
        for text in self._watch.complaints():
            self._fail("splat", text, workers)

    def _judge_rest(self, before: leaks.Census, workers: Sequence[Worker], settle: bool) -> None:
        """What have they left, when all are gone?"""
        if left := leaks.since(before):
            self._fail("left", "left behind: " + "; ".join(left), workers, 0)
        for leak in self._memory.leaks(settle=settle):
            self._fail("memory", f"{leak.line()}\n{leak.text}", workers, 0)
        self._look(workers)

    def _fail(self, kind: str, text: str, workers: Sequence[Worker], last: int = RECENT) -> None:
        """Note a failure; suspected are the last programs of these workers, 0: all of them."""
        histories = [worker.history[-last:] for worker in workers]
        suspects = [name for names in zip_latest(histories) for name in names]
        self._round.failures.append(Failure(kind, text, tuple(suspects)))


def zip_latest(histories: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """The last of each, then the one before of each, and so on."""
    for back in range(1, max(map(len, histories), default=0) + 1):
        yield [history[-back] for history in histories if len(history) >= back]


def generated(seed: int, process: int, calls: int) -> Iterator[tuple[str, Program]]:
    """The programs of one process of a run, until they have so many steps."""
    steps = 0
    for number in count():
        if steps >= calls:
            return
        origin = Origin(seed, process, number)
        one = program(origin)
        steps += len(one.steps)
        yield str(origin), one
