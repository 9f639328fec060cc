# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: runs the programs that the host asks for.

Reads one job a line from standard input and writes events to standard output, one a line; both
are JSON. The first event of a job is `begin`, the last one `end`.
"""

import contextlib
import ctypes
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import kfabric_py as kp
from kfabric.fuzz.executor import Executor
from kfabric.fuzz.generate import Origin, program
from kfabric.fuzz.program import Program
from kfabric.fuzz.shrink import Shrinker, unused_names_dropped
from kfabric.fuzz.workers import Environment, WorkerPool, generated
from kfabric.guest import modules, topology
from kfabric.guest.checks import KernelWatch
from kfabric.guest.memleak import MemoryWatch
from kfabric_py.info import info_to_raw

DEBUGFS = Path("/sys/kernel/debug")
#: Programs that are run in search of successful calls.
_MOST = 3000
_TRIES = 150


def main() -> int:
    """Serve jobs until the input ends."""
    with prepared() as environment:
        pool = WorkerPool(environment, KernelWatch(), MemoryWatch())
        for line in sys.stdin:
            job = json.loads(line)
            send(event="begin")
            if job["job"] == "distil":
                for op, short in distil(environment, job["seed"], job["calls"]):
                    send(event="distilled", call=op, program=str(short))
            else:
                run(pool, job)
            send(event="end")
    return 0


@contextlib.contextmanager
def prepared() -> Iterator[Environment]:
    """The modules loaded, a link, and the offers on it."""
    if not (DEBUGFS / "tracing").exists():
        subprocess.run(["mount", "-t", "debugfs", "none", DEBUGFS], check=True, timeout=10)
    modules.need()
    with modules.Modules.from_environment().loaded(), topology.rxe_on_dummy() as link:
        yield Environment(link.address, offers(link))


def offers(link: topology.RdmaLink) -> dict[str, ctypes.Structure]:
    """The providers' infos by the names in kinds.INFOS. Raises OSError if one is not offered."""
    rdm, ip = kp.EpAttr(type=kp.EpType.RDM), kp.AddrFormat.SOCKADDR_IN
    pair = kp.EpAttr(type=kp.EpType.RDM, tx_ctx_cnt=2, rx_ctx_cnt=2)
    on_link = kp.DomainAttr(name=link.name)
    manual = kp.DomainAttr(data_progress=kp.Progress.MANUAL)
    cxi = kp.Info(addr_format=kp.AddrFormat.ADDR_CXI, ep_attr=rdm, domain_attr=on_link)
    with kp.Device() as device:
        here = partial(device.getinfo, provider="verbs", source=(link.address, 0))
        found = {
            "mock": device.getinfo(provider="mock"),
            "manual": device.getinfo(provider="mock", hints=kp.Info(domain_attr=manual)),
            "msg": here(),
            "rdm": here(hints=kp.Info(addr_format=ip, ep_attr=rdm)),
            "cxi": device.getinfo(provider="verbs", hints=cxi),
            "sep": here(hints=kp.Info(addr_format=ip, ep_attr=pair)),
        }
        return {name: info_to_raw(infos[0]) for name, infos in found.items()}


def run(pool: WorkerPool, job: dict[str, Any]) -> None:
    """Run the programs of a job, and send the result."""
    with contextlib.suppress(OSError):
        (DEBUGFS / "clear_warn_once").write_text("1")
    result = pool.run(
        lists(job),
        lambda totals: send(event="progress", calls=totals.calls),
        settle=job["settle"],
    )
    for failure in result.failures:
        send(event="failure", failure=failure.to_json())
    send(event="played", programs=result.totals.programs, results=result.totals.rows())


def lists(job: dict[str, Any]) -> list[Iterable[tuple[str, Program]]]:
    """The programs of each process: of a seed, or those that the host has sent."""
    if job["job"] == "run":
        calls = -(-job["calls"] // len(job["processes"]))
        return [generated(job["seed"], process, calls) for process in job["processes"]]
    programs = [("replay", Program.parse(text)) for text in job["programs"]]
    programs += [(text, program(Origin.parse(text))) for text in job["origins"]]
    return [programs * job["times"]]


def distil(
    environment: Environment, seed: int, ops: Sequence[str]
) -> Iterator[tuple[str, Program]]:
    """Yield each call that succeeds in a program of the seed, with a short program of it.

    The programs have one thread, so that they do the same each time.
    """
    executor = Executor(environment.address, environment.infos)

    def succeeded(one: Program) -> set[str]:
        return {op for (op, code) in executor.run(one).calls if code == 0}

    left = set(ops)
    for number in range(_MOST):
        if not left:
            return
        one = program(Origin(seed, 0, number)).serial()
        steps = tuple(step for step in one.steps if step.op not in ("FORK", "REOPEN", "DUP"))
        one = replace(one, steps=steps, notes=())
        for op in sorted(left & succeeded(one)):
            left.remove(op)
            shrinker = Shrinker(lambda p, op=op: op in succeeded(p), _TRIES)  # type: ignore[misc]
            short = shrinker.shrink(one)
            yield op, Program(unused_names_dropped(short.steps), (f"succeeds: {op}",))


def send(**event: object) -> None:
    """Send one event to the host."""
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    sys.exit(main())
