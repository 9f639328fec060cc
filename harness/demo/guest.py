# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: link, modules, probes and ping-pongs of the demo; leaves recording and report.

    python3 -m kfabric.demo.guest --messages 997 [--fault lost]

Standard output has one JSON object a line: {"step": name}, {"messages": number}, or
{"failed": exception, "why": text}.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kfabric import names
from kfabric.demo import ulp
from kfabric.demo.coordinator import Coordinator
from kfabric.demo.job import MESSAGES, Fault, GuestReport, PingPong, Scenario
from kfabric.guest.modules import ModuleError, Modules
from kfabric.probes.loader import Probe, ProbeError

# The connection manager may hold a port for a while after its listener is closed.
_PORTS = (7471, 7472)


def _print(**event: object) -> None:
    print(json.dumps(event), flush=True)


def main() -> int:
    """Run the demo, and leave the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--fault", type=Fault, choices=list(Fault))
    args = parser.parse_args()
    out = Path(os.environ[names.OUT])
    try:
        with ExitStack() as stack:
            report = _run(stack, args.messages, args.fault, out)
    except (ModuleError, ProbeError) as error:
        _print(failed=type(error).__name__, why=str(error))
        return 1
    report.write(out)
    return 0


def _run(stack: ExitStack, messages: int, fault: Fault | None, out: Path) -> GuestReport:
    """All steps; the stack closes what they open."""
    modules = Modules.from_environment()
    # The herd has a scenario of its own.
    in_pingpong = fault if fault is not Fault.HERD else None
    parameters = PingPong(messages, in_pingpong, messages // 2 if in_pingpong else 0)
    probes: list[Probe] = []
    seconds: dict[str, float] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        _print(step=name)
        began = time.monotonic()
        yield
        seconds[name] = round(time.monotonic() - began, 3)

    def tick() -> None:
        for probe in probes:
            probe.drain()

    coordinator = Coordinator(parameters, tick, lambda number: _print(messages=number))
    stack.enter_context(coordinator)
    with step("kfabric.ko"):
        modules.load(("kfabric",))
    # The network is made while the probes compile.
    network = stack.enter_context(ExitStack())
    pool = stack.enter_context(ThreadPoolExecutor(1))
    address_later = pool.submit(_make_network, modules, network)
    with step("probes (bcc)"):
        probes.append(stack.enter_context(Probe()))
    with step("modules, rxe link"):
        address = address_later.result()
    with step("ping-pong from Python"):
        scenarios = [coordinator.run((address, _PORTS[0]))]
    names = dict(coordinator.names)
    with step("ping-pong between kernel threads"):
        scenarios.append(ulp.run(modules.directory, (address, _PORTS[1]), messages, tick))
    if fault is Fault.HERD:
        from kfabric.demo import herd  # needs the mock provider, which only this fault loads

        with step(herd.TITLE):
            names |= herd.run(fault)
            scenarios.append(Scenario(herd.TITLE, ()))
    with step("recording"):
        probes[0].stop(out)
    return GuestReport(tuple(scenarios), names, _facts() | {"seconds": seconds})


def _make_network(modules: Modules, stack: ExitStack) -> str:
    """Load the other modules and make an rxe link; return its address."""
    from kfabric.guest.topology import rxe_on_dummy  # a slow import

    modules.load()
    return stack.enter_context(rxe_on_dummy()).address


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
