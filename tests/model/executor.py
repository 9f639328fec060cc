# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs in the guest: does the steps of a program with the real module.

    python3 -m tests.model.executor

Standard input has a program a line, a JSON list of steps; standard output gets a
line with what each step did, or with what kept it from being done. The operations
are methods with the names that the model gives them.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import kfabric_py as kp
from kfabric.guest import sleeping
from kfabric.guest.modules import Modules
from kfabric.guest.waiting import Deadline
from kfabric_py import _uapi
from kfabric_py.errors import KfiError, error_name
from tests.model.steps import CHECK, MAIN, SHORT, STARTED, WORKERS, Step, actor, refusal

DEBUGFS = Path("/sys/kernel/debug")
MOCK = DEBUGFS / "kfi_mock"
EIO = 5
#: Seconds in which whoever is awake sleeps or returns; then it is stuck.
PATIENCE = 20.0
#: Seconds between two looks at a thread that runs.
PAUSE = 0.002
_TIMEOUTS = {CHECK: 0.0, SHORT: 0.001}
_SIGNALS = {
    "interrupt": signal.SIGUSR1,
    "python": signal.SIGUSR1,
    "restart": signal.SIGUSR2,
}


class Stuck(Exception):
    """A thread neither sleeps where it should nor returns."""


class Interrupted(Exception):
    """A call returned EINTR, and this once nobody goes on with it."""


class Worker(threading.Thread):
    """A thread for calls that may block."""

    def __init__(self, name: str, ended: queue.SimpleQueue[tuple[str, Any]]) -> None:
        """Start it; what its calls return goes to `ended`."""
        super().__init__(name=name, daemon=True)
        self.interrupted = False
        self._ended = ended
        self._calls: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self.start()
        self._wchan = os.open(f"/proc/self/task/{self.native_id}/wchan", os.O_RDONLY)

    def call(self, function: Callable[[], Any]) -> None:
        """Have the thread make a call."""
        self._calls.put(function)

    def run(self) -> None:
        """Make calls."""
        while True:
            self._ended.put((self.name, value_of(self._calls.get())))

    def asleep(self) -> bool:
        """Is it off its CPU, at the module's wait point?

        The kernel names that point only for a thread that sleeps and that nobody
        has woken, which is all of kfabric.guest.sleeping in one system call.
        """
        return os.pread(self._wchan, 64, 0).startswith(b"kfi_waitq_sleep")

    def where(self) -> str:
        """Describe where it is."""
        assert self.native_id is not None
        return str(sleeping.read_state(self.native_id))


def value_of(function: Callable[[], Any]) -> Any:
    """Return what a call returns or the name of the error that it raises."""
    try:
        return function()
    except Interrupted:
        return "EINTR"
    except OSError as error:
        # ENOTSUP is another name for the same number.
        name = error_name(error.errno or 0).removeprefix("KFI_")
        return "EOPNOTSUPP" if name == "ENOTSUP" else name
    except Exception as error:
        return repr(error)


def ioctl(fd: int, request: int, arg: Any) -> int:
    """Call the kernel; a thread that was told so does not go on after EINTR."""
    try:
        return _system_ioctl(fd, request, arg)
    except InterruptedError:
        thread = threading.current_thread()
        if isinstance(thread, Worker) and thread.interrupted:
            thread.interrupted = False
            raise Interrupted from None
        raise


_system_ioctl: Callable[[int, int, Any], int]


class Executor:
    """A client of the module, its objects by name, and its threads."""

    def __init__(self) -> None:
        """Open the mock provider's domain."""
        global _system_ioctl
        self.device = kp.Device()
        client = self.device._client
        _system_ioctl, client._ioctl = client._ioctl, ioctl
        self.client = client
        self.info = self.device.getinfo(provider="mock")[0]
        self.fabric = self.device.fabric(self.info)
        self.domain = self.fabric.domain(self.info)
        self.lost = False
        self.events = self.fabric.eq(64)
        self.objects: dict[str, Any] = {}
        self.busy: set[str] = set()
        self._command = os.open(MOCK / "command", os.O_WRONLY)
        self._ended: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self.workers = {name: Worker(name, self._ended) for name in WORKERS}

    def run(self, program: list[Step]) -> list[tuple[Any, dict[str, Any]]]:
        """Do all steps, the last of which is "end", and leave nothing open.

        Returns what each step returned, and the calls that ended in it.
        """
        answers = [self.step(step) for step in program]
        self._close_all()
        return answers

    def step(self, step: Step) -> tuple[Any, dict[str, Any]]:
        """Do one step, and let every thread run until it sleeps or has returned."""
        refused = refusal(step, self.objects, self.busy)
        if refused:
            return refused, {}
        return self._call(step), self._settle()

    def _call(self, step: Step) -> Any:
        method, thread = getattr(self, step[0]), actor(step)
        if thread is None:
            return value_of(lambda: method(*step[1:]))
        if thread == MAIN:
            return value_of(lambda: method(*step[2:]))
        self.busy.add(thread)
        self.workers[thread].call(lambda: method(*step[2:]))
        return STARTED

    def _settle(self) -> dict[str, Any]:
        """Wait until everybody sleeps or has returned; who has is no longer busy.

        Twice in a row, since one that was asleep may have been woken by another
        one that was still running then.
        """
        ended: dict[str, Any] = {}
        limit = Deadline(PATIENCE)
        quiet = 0
        while self.busy and quiet < min(2, len(self.busy)):
            if self._collect(ended, 0):
                quiet = 0
            elif all(self.workers[name].asleep() for name in self.busy):
                quiet += 1
            else:
                quiet = 0
                if not self._collect(ended, PAUSE) and limit.expired:
                    places = [self.workers[name].where() for name in sorted(self.busy)]
                    raise Stuck("; ".join(places))
        return ended

    def _collect(self, ended: dict[str, Any], timeout: float) -> bool:
        """Take a call that has returned."""
        try:
            name, value = self._ended.get(timeout > 0, timeout)
        except queue.Empty:
            return False
        ended[name] = value
        self.busy.discard(name)
        return True

    # Opening and closing

    def _place(self, place: str) -> dict[str, Any]:
        if place in self.objects:
            return {"wait_set": self.objects[place]}
        return {"wait_obj": kp.WaitObj[place]}

    def open_set(self, name: str, place: str, exclusive: bool) -> str:
        """Open a wait set."""
        found = self.fabric.wait_set(wait_obj=kp.WaitObj[place])
        self.objects[name] = found
        if exclusive:
            found.exclusive = True
        return "ok"

    def open_cq(self, name: str, place: str, size: int, threshold: bool) -> str:
        """Open a completion queue."""
        self.objects[name] = self.domain.cq(
            size, threshold=threshold, context=name, **self._place(place)
        )
        return "ok"

    def open_eq(self, name: str, place: str, size: int) -> str:
        """Open an event queue."""
        self.objects[name] = self.fabric.eq(size, context=name, **self._place(place))
        return "ok"

    def open_cntr(self, name: str, place: str) -> str:
        """Open a counter."""
        self.objects[name] = self.domain.counter(context=name, **self._place(place))
        return "ok"

    def open_poll(self, name: str) -> str:
        """Open a poll set."""
        self.objects[name] = self.domain.poll_set()
        return "ok"

    def open_ep(self, name: str, cq: str, cntr: str | None) -> str:
        """Open and enable an endpoint."""
        ep = self.objects[name] = self.domain.endpoint(self.info)
        ep.bind(self.objects[cq], recv=True, transmit=True)
        if cntr:
            ep.bind(self.objects[cntr], recv=True, transmit=True)
        ep.bind(self.events)
        ep.enable()
        return "ok"

    def close(self, name: str) -> str:
        """Close one object. The library would empty a poll set first; the kernel refuses."""
        found = self.objects[name]
        if isinstance(found, kp.PollSet) and len(found):
            self.client(_uapi.KFAB_IOC_CLOSE, _uapi.kfab_close(handle=found._handle))
        else:
            found.close()
        del self.objects[name]
        return "ok"

    def end(self) -> str:
        """Interrupt all calls in progress."""
        for name in sorted(self.busy):
            self.signal(name, "interrupt")
        return "ok"

    def _close_all(self) -> None:
        """Close everything: endpoints first, wait sets last. Nothing may be in use."""
        queues = (kp.CompletionQueue, kp.EventQueue, kp.Counter)
        for kind in (kp.Endpoint, kp.PollSet, queues, kp.WaitSet):
            for name, found in list(self.objects.items()):
                if isinstance(found, kind):
                    found.close()
                    del self.objects[name]
        if self.lost:
            self.domain.close()
            self.domain = self.fabric.domain(self.info)
            self.lost = False

    # What happens

    def _mock(self, *words: object) -> str:
        os.write(self._command, " ".join(map(str, words)).encode())
        return "ok"

    def lose(self) -> str:
        """Lose the device."""
        self._mock("lose", self.domain.trace_id)
        self.lost = True
        return "ok"

    def _report(self, ep: str, *words: object) -> str:
        """Report a completion, which no device does that is gone."""
        if self.lost:
            return "ENODEV"
        return self._mock("inject", self.objects[ep].trace_id, *words)

    def complete(self, ep: str, serial: int, count: int, where: str, entry: bool) -> str:
        """Report successes."""
        quiet = "" if entry else "entry=0"
        return self._report(ep, "recv", count, f"len={serial} context={where}", quiet)

    def fail(self, ep: str, serial: int, where: str) -> str:
        """Report a failure."""
        return self._report(ep, f"recv err={EIO} prov={serial} context={where}")

    def event(self, eq: str, serial: int, where: str) -> str:
        """Report an event."""
        return self._mock("event", self.objects[eq].trace_id, 0, f"data={serial} context={where}")

    def event_error(self, eq: str, serial: int, where: str) -> str:
        """Report an error event."""
        number = self.objects[eq].trace_id
        return self._mock("eqerr", number, f"err={EIO} prov={serial} context={where}")

    def eq_write(self, eq: str, serial: int) -> str:
        """Write an event."""
        self.objects[eq].write(data=serial)
        return "ok"

    def cq_signal(self, cq: str) -> str:
        """Signal a completion queue."""
        self.objects[cq].signal()
        return "ok"

    def cntr_add(self, cntr: str, value: int) -> str:
        """Add to a counter."""
        self.objects[cntr].add(value)
        return "ok"

    def cntr_set(self, cntr: str, value: int) -> str:
        """Set a counter."""
        self.objects[cntr].set(value)
        return "ok"

    def cntr_adderr(self, cntr: str, value: int) -> str:
        """Add to a counter's errors."""
        self.objects[cntr].adderr(value)
        return "ok"

    def cntr_seterr(self, cntr: str, value: int) -> str:
        """Set a counter's errors."""
        self.objects[cntr].seterr(value)
        return "ok"

    def signal(self, thread: str, kind: str) -> str:
        """Send a POSIX signal to a thread that is in a call."""
        if thread not in self.busy:
            return "idle"
        worker = self.workers[thread]
        worker.interrupted = kind == "interrupt"
        assert worker.ident is not None
        signal.pthread_kill(worker.ident, _SIGNALS[kind])
        return "ok"

    def fault(self, kind: str, name: str) -> str:
        """Make the wait core do wrong, once; the model knows nothing of it."""
        return self._mock("fault", kind, self.objects[name].trace_id)

    def crash(self) -> str:
        """Have the kernel panic, for a test of the host's side."""
        Path("/proc/sysrq-trigger").write_text("c")
        return "ok"

    # Reading and waiting

    def cq_read(self, cq: str, count: int) -> list[int]:
        """Read completions."""
        return [entry.len for entry in self.objects[cq].read(count)]

    def cq_readerr(self, cq: str, peek: bool) -> list[int]:
        """Read an error."""
        error = self.objects[cq].readerr(peek=peek)
        return [error.prov_errno] if error else []

    def cq_sread(self, cq: str, count: int, threshold: int, timeout: str) -> list[int]:
        """Read completions, waiting."""
        limit = _TIMEOUTS.get(timeout)
        got = self.objects[cq].sread(count, threshold=threshold, timeout=limit)
        return [entry.len for entry in got]

    def eq_read(self, eq: str, peek: bool) -> list[int]:
        """Read an event."""
        event = self.objects[eq].read(peek=peek)
        return [event.data] if event else []

    def eq_readerr(self, eq: str, peek: bool) -> list[int]:
        """Read an error."""
        error = self.objects[eq].readerr(peek=peek)
        return [error.prov_errno] if error else []

    def eq_sread(self, eq: str, peek: bool, timeout: str) -> list[int]:
        """Read an event, waiting."""
        event = self.objects[eq].sread(peek=peek, timeout=_TIMEOUTS.get(timeout))
        return [event.data] if event else []

    def cntr_read(self, cntr: str) -> int:
        """Read a counter."""
        return int(self.objects[cntr].read())

    def cntr_readerr(self, cntr: str) -> int:
        """Read a counter's errors."""
        return int(self.objects[cntr].readerr())

    def cntr_wait(self, cntr: str, threshold: int, timeout: str) -> str:
        """Wait for a counter."""
        self.objects[cntr].wait(threshold, timeout=_TIMEOUTS.get(timeout))
        return "ok"

    def wait(self, name: str, timeout: str) -> str:
        """Wait on a set."""
        self.objects[name].wait(timeout=_TIMEOUTS.get(timeout))
        return "ok"

    # Poll sets and wait objects

    def poll_add(self, poll: str, name: str) -> str:
        """Make an object a member."""
        self.objects[poll].add(self.objects[name])
        return "ok"

    def poll_del(self, poll: str, name: str) -> str:
        """Take a member out."""
        self.objects[poll].remove(self.objects[name])
        return "ok"

    def poll(self, poll: str, count: int) -> list[str]:
        """Ask a poll set; the order within one answer means nothing."""
        return sorted(self.objects[poll].poll(count))

    def trywait(self, names: list[str]) -> str:
        """May one block on all of them?"""
        return "ok" if self.fabric.trywait(*(self.objects[name] for name in names)) else "EAGAIN"

    def readable(self, name: str) -> list[bool]:
        """Does a new descriptor of an object poll readable, and hung up?"""
        descriptor = self.objects[name].descriptor()
        try:
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            events = sum(found for _, found in poller.poll(0))
            return [bool(events & select.POLLIN), bool(events & select.POLLHUP)]
        finally:
            os.close(descriptor)


def main(source: TextIO, sink: TextIO) -> None:
    """Do programs until there are no more."""
    Modules.from_environment().load(("kfabric", "kfi_mock", "kfabric_dev"))
    if not MOCK.is_dir():
        subprocess.run(["mount", "-t", "debugfs", "none", DEBUGFS], check=True, timeout=10)
    for number in set(_SIGNALS.values()):
        signal.signal(number, lambda *_: None)
    signal.siginterrupt(signal.SIGUSR2, False)
    executor = Executor()
    print(json.dumps("ready"), file=sink, flush=True)
    for line in source:
        try:
            answer: Any = executor.run(json.loads(line))
        except (Stuck, KfiError) as error:
            # Threads and objects are in a state that no other program expects.
            print(json.dumps({"broken": repr(error)}), file=sink, flush=True)
            os._exit(1)
        print(json.dumps(answer), file=sink, flush=True)


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
