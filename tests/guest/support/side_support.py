# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What comparisons share: a side in a process of its own, blocking calls, results in words."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import threading
import time
from collections.abc import Callable

from guest_support import LIMIT

from kfabric.guest import sleeping
from kfabric.guest.waiting import Deadline, wait_until
from kfabric_py.errors import error_name

SLEEPS_ON = "sleeps on"

#: Seconds after which a side that has not ended says on stderr where it is.
TELL_AFTER = 40.0


#: Errors of libfabric's own; ours have numbers of Linux in user space.
_FABRIC_ERRNOS = {
    257: "ETOOSMALL",
    258: "EOPBADSTATE",
    259: "EAVAIL",
    260: "EBADFLAGS",
    261: "ENOEQ",
    262: "EDOMAIN",
    263: "ENOCQ",
    266: "ENOKEY",
    267: "ENOAV",
    268: "EOVERRUN",
}


def code(result: int) -> str:
    """Put the result of a call into words, the same for a call of libfabric's and of ours."""
    if result >= 0:
        return str(result)
    return f"-{_FABRIC_ERRNOS.get(-result) or error_name(-result).removeprefix('KFI_')}"


class Sleeper:
    """A thread in a blocking call."""

    def __init__(self, call: Callable[[], str], where: str, patience: float) -> None:
        """Start it.

        Args:
            call: what it does.
            where: the function of the kernel in which it is going to sleep.
            patience: seconds after which it is said to sleep on.
        """
        self._call, self._where, self._patience = call, where, patience
        self._result = SLEEPS_ON
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._started.wait(LIMIT)

    def _run(self) -> None:
        self._tid = threading.get_native_id()
        self._ident = threading.get_ident()
        self._started.set()
        self._result = self._call()

    @property
    def done(self) -> bool:
        """Has the call returned?"""
        return not self._thread.is_alive()

    @property
    def switches(self) -> int:
        """How often the thread has left its CPU: unchanged means never woken."""
        return sleeping.read_state(self._tid).switches

    def interrupt(self, *, restart: bool = True) -> None:
        """Have it run a signal handler, and return once it sleeps again or has returned."""
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.siginterrupt(signal.SIGUSR1, not restart)
        before = self.switches
        signal.pthread_kill(self._ident, signal.SIGUSR1)
        wait_until(lambda: self._slept_since(before), "the handler", Deadline(LIMIT))

    def _slept_since(self, before: int) -> bool:
        try:
            state = sleeping.read_state(self._tid)
        except sleeping.ThreadGone:
            return True
        return state.switches != before and state.off_cpu and state.at(self._where)

    def asleep(self) -> Sleeper:
        """Return once the thread sleeps; sleeping.ThreadGone if it has returned instead."""
        sleeping.wait_until_asleep(self._tid, self._where, LIMIT)
        return self

    def outcome(self) -> str:
        """Return what the call returned, or SLEEPS_ON."""
        return outcomes([self])[0]

    def _end(self, deadline: float) -> str:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return SLEEPS_ON if self._thread.is_alive() else self._result


def outcomes(threads: list[Sleeper]) -> list[str]:
    """Return what these calls returned, in their order; the patience is for all."""
    deadline = time.monotonic() + max(each._patience for each in threads)
    return [each._end(deadline) for each in threads]


class Run:
    """One side of a scenario in a process of its own."""

    def __init__(self, function: Callable[..., list[str]], *args: object) -> None:
        """Start it."""
        self._pipe, write_end = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.write(write_end, json.dumps(_alone(function, *args)).encode())
            finally:
                os._exit(0)
        os.close(write_end)

    def outcome(self, deadline: Deadline) -> list[str]:
        """Return its results; ``["hangs"]`` or ``["crashes"]`` if there are none."""
        try:
            ready, _, _ = select.select([self._pipe], [], [], deadline.remaining())
            if not ready:
                return ["hangs"]
            said = os.read(self._pipe, 1 << 16)
            found: list[str] = json.loads(said) if said else ["crashes"]
            return found
        finally:
            os.kill(self._pid, signal.SIGKILL)
            wait_until(
                lambda: os.waitpid(self._pid, os.WNOHANG)[0], f"end of {self._pid}", Deadline(LIMIT)
            )
            os.close(self._pipe)


def _alone(function: Callable[..., list[str]], *args: object) -> list[str]:
    """Run in the child: no core file, and who hangs says where."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.dump_traceback_later(TELL_AFTER, file=2)
    try:
        return function(*args)
    except Exception as error:
        return [f"raises {error!r}"]
