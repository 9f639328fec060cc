# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In a guest: plays waits with and without faults under the monitors of kernel debug.

Prints the monitors' errors of each scene as JSON; test_monitors.py checks them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import kfabric_py as kp
from kfabric.demo import faults
from kfabric.guest import modules, sleeping

LIMIT = 900.0
TRACING = Path("/sys/kernel/tracing")
MONITORS = ("kfi_wait", "kfi_wake")
ERROR = re.compile(r"error_(\w+): (?:\d+: )?(event .+)")


class Sleeper:
    """A thread that sleeps in a call."""

    def __init__(self, wait: Callable[[], object]) -> None:
        """Start it, and return once it is asleep."""
        self._wait = wait
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._begun.wait(LIMIT)
        sleeping.wait_until_asleep(self._id, deadline=LIMIT)

    def _run(self) -> None:
        self._id = threading.get_native_id()
        self._begun.set()
        self._wait()

    def join(self) -> None:
        """Wait for the end of its call."""
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()

    def interrupt(self) -> None:
        """End its sleep by a signal."""
        assert self._thread.ident is not None
        signal.pthread_kill(self._thread.ident, signal.SIGUSR1)


class Stage:
    """A wait set with a CQ, a CQ of its own, and an endpoint for each."""

    def __init__(self, keep: contextlib.ExitStack) -> None:
        """Open them; they are closed with the stack."""
        enter = keep.enter_context
        device = enter(kp.Device())
        info = device.getinfo(provider="mock")[0]
        fabric = enter(device.fabric(info))
        domain = enter(fabric.domain(info))
        self.wait_set = enter(fabric.wait_set())
        self.member, self.own = enter(domain.cq(8, wait_set=self.wait_set)), enter(domain.cq(8))
        eq = enter(fabric.eq())
        self._endpoints = {}
        for cq in (self.member, self.own):
            endpoint = enter(domain.endpoint(info))
            endpoint.bind(cq, recv=True, transmit=True)
            endpoint.bind(eq)
            endpoint.enable()
            self._endpoints[cq] = endpoint.trace_id

    def inject(self, cq: kp.CompletionQueue) -> None:
        """Publish a completion on a CQ, from this thread."""
        faults.command(f"inject {self._endpoints[cq]} recv 1")

    def healthy(self) -> None:
        """Two threads in the wait set and one on a CQ of its own, each woken by its event."""
        sleepers = [Sleeper(lambda: self.wait_set.wait(timeout=LIMIT)) for _ in range(2)]
        self.inject(self.member)
        for sleeper in sleepers:
            sleeper.join()
        self.member.read(8)
        reader = Sleeper(lambda: self.own.sread(1, timeout=LIMIT))
        self.inject(self.own)
        reader.join()

    def lost(self) -> None:
        """A publication finds a thread asleep and leaves it; a signal ends its sleep."""
        sleeper = Sleeper(lambda: self.wait_set.wait(timeout=LIMIT))
        faults.command(f"fault lost {self.wait_set.trace_id}")
        self.inject(self.member)
        sleeper.interrupt()
        sleeper.join()
        self.member.read(8)

    def spurious(self) -> None:
        """A thread is woken although nothing was published."""
        sleeper = Sleeper(lambda: self.wait_set.wait(timeout=LIMIT))
        faults.command(f"fault spurious {self.wait_set.trace_id}")
        sleeper.join()


def enable(name: str) -> None:
    """Turn a monitor on, with its reaction and the tracepoint of its errors."""
    directory = TRACING / "rv/monitors" / name
    (directory / "reactors").write_text("printk")
    (TRACING / f"events/rv/error_{name}/enable").write_text("1")
    (directory / "enable").write_text("1")


def errors() -> list[str]:
    """The errors of the monitors since the last call, with the monitor's name."""
    trace = TRACING / "trace"
    found = ERROR.findall(trace.read_text())
    trace.write_text("")
    return [f"{name}: {text.strip()}" for name, text in found]


def play() -> dict[str, list[str]]:
    """Each scene once, the healthy one before and after; the errors by scene."""
    found = {}
    with contextlib.ExitStack() as keep:
        stage = Stage(keep)
        for name, scene in (
            ("healthy", stage.healthy),
            ("lost", stage.lost),
            ("after it", stage.healthy),
            ("spurious", stage.spurious),
            ("at last", stage.healthy),
        ):
            scene()
            found[name] = errors()
    return found


def main() -> None:
    """One monitor is on before the module comes, the other one after it; then both are."""
    signal.signal(signal.SIGUSR1, lambda *_: None)
    # A guest's trace is off.
    (TRACING / "tracing_on").write_text("1")
    # A monitor of a CPU sees nothing before the first publication there.
    os.sched_setaffinity(0, {0})
    loaded = modules.Modules.from_environment()
    enable(MONITORS[0])
    loaded.load()
    enable(MONITORS[1])
    first = play()
    loaded.unload(deadline=LIMIT)
    loaded.load()
    again = play()
    for name in MONITORS:
        (TRACING / "rv/monitors" / name / "enable").write_text("0")
    print(json.dumps({"first": first, "again": again, "off": play()}))


if __name__ == "__main__":
    main()
