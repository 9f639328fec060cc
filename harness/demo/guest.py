# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side of the demo: link, modules, probe, the games; leaves recording and account.

    python3 -m harness.demo.guest --messages 997 [--fault lost]

Standard output is progress, one JSON object a line; see :class:`Progress`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from harness import names
from harness.demo import ulp
from harness.demo.job import MESSAGES, Account, Fault, Orders, Part
from harness.demo.referee import Referee
from harness.guest.modules import ModuleError, Modules
from harness.probes.loader import Probe, ProbeError

# The connection manager may hold a port for a while after its listener is gone.
_PORTS = (7471, 7472)


class Progress:
    """Tells the host where we are, and keeps how long each step took."""

    def __init__(self) -> None:
        """Start the clock."""
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Announce a step, and time it."""
        print(json.dumps({"step": name}), flush=True)
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 3)

    def messages(self, number: int) -> None:
        """Announce a number of messages."""
        print(json.dumps({"messages": number}), flush=True)


def main() -> int:
    """Play, and leave the account; what went wrong with the machine is told in words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--fault", type=Fault, choices=list(Fault))
    args = parser.parse_args()
    progress = Progress()
    out = Path(os.environ[names.OUT])
    try:
        with ExitStack() as stack:
            parts, threads, facts = _run(stack, args.messages, args.fault, progress, out)
    except (ModuleError, ProbeError) as error:
        print(json.dumps({"failed": type(error).__name__, "why": str(error)}), flush=True)
        return 1
    Account(parts, threads, facts | {"seconds": progress.seconds}).write(out)
    return 0


def _run(
    stack: ExitStack, messages: int, fault: Fault | None, progress: Progress, out: Path
) -> tuple[tuple[Part, ...], dict[int, str], dict[str, Any]]:
    """All steps; what they open is closed by the stack."""
    modules = Modules.from_environment()
    orders = _orders(messages, fault)
    probes: list[Probe] = []

    def tick() -> None:
        for probe in probes:
            probe.drain()

    referee = stack.enter_context(Referee(orders, tick, progress.messages))
    with progress.step("kfabric.ko"):
        modules.load(("kfabric",))
    network = stack.enter_context(_Network(modules))
    with progress.step("probes (bcc)"):
        probes.append(stack.enter_context(Probe()))
    with progress.step("modules, rxe link"):
        address = network.address()
    with progress.step("ping-pong from Python"):
        python = referee.play((address, _PORTS[0]))
    parts, names = [python], dict(referee.names)
    with progress.step("ping-pong between kernel threads"):
        parts.append(ulp.play(modules.directory, (address, _PORTS[1]), messages, tick))
    if fault is Fault.HERD:
        from harness.demo import herd  # needs the mock provider, which only this fault loads

        with progress.step("readers of one CQ"):
            names |= herd.play(fault)
            parts.append(Part(herd.TITLE, ()))
    with progress.step("recording"):
        probes[0].stop(out)
    return tuple(parts), names, _facts()


def _orders(messages: int, fault: Fault | None) -> Orders:
    """What the players are told; a herd is no matter of theirs."""
    if fault is None or fault is Fault.HERD:
        return Orders(messages)
    return Orders(messages, fault, messages // 2)


class _Network:
    """The other modules and an rxe link, made in a thread while the probe compiles."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self._stack = ExitStack()
        self._error: BaseException | None = None
        self._address = ""
        self._thread = threading.Thread(target=self._make)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._stack.close()

    def _make(self) -> None:
        try:
            # A big import, and nobody waits for it here.
            from harness.guest.topology import rxe_on_dummy

            self._modules.load()
            self._address = self._stack.enter_context(rxe_on_dummy()).address
        except BaseException as error:
            self._error = error

    def address(self) -> str:
        """The link's address, once it is there. Raises what kept it from being made."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._address


def _facts() -> dict[str, Any]:
    """Versions and memory of the guest."""
    import bcc

    memory = {
        line.split(":")[0]: int(line.split()[1])
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    }
    return {
        "versions": {
            "kernel": platform.release(),
            "kernel build": platform.version(),
            "guest python": platform.python_version(),
            "bcc": bcc.__version__,
        },
        "memory_mib": memory["MemTotal"] // 1024,
        "memory_used_mib": (memory["MemTotal"] - memory["MemAvailable"]) // 1024,
    }


if __name__ == "__main__":
    sys.exit(main())
