# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In a guest: two threads sleep, one of them forgotten; then the kernel panics.

test_postmortem.py reads what that leaves.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import kfabric_py as kp
from kfabric.demo import faults
from kfabric.guest import modules, sleeping

LIMIT = 900.0


def fall_asleep(name: str, wait: Callable[[], object]) -> None:
    """Let a thread of this name sleep in a call."""
    begun = threading.Event()
    ids: list[int] = []

    def run() -> None:
        Path("/proc/thread-self/comm").write_text(name)
        ids.append(threading.get_native_id())
        begun.set()
        wait()

    threading.Thread(target=run, daemon=True).start()
    assert begun.wait(LIMIT)
    sleeping.wait_until_asleep(ids[0], deadline=LIMIT)


def main() -> None:
    """Panic, with nothing for one thread to read, and an event that did not wake the other."""
    modules.Modules.from_environment().load()
    with contextlib.ExitStack() as stack:
        keep = stack.enter_context
        device = keep(kp.Device())
        info = device.getinfo(provider="mock")[0]
        fabric = keep(device.fabric(info))
        domain = keep(fabric.domain(info))
        quiet, wait_set = keep(domain.cq(8)), keep(fabric.wait_set())
        busy = keep(domain.cq(8, wait_set=wait_set))
        endpoint = keep(domain.endpoint(info))
        endpoint.bind(busy, recv=True, transmit=True)
        endpoint.bind(keep(fabric.eq()))
        endpoint.enable()
        fall_asleep("sleeper", lambda: quiet.sread(1, timeout=LIMIT))
        fall_asleep("forgotten", lambda: wait_set.wait(timeout=LIMIT))
        faults.command(f"fault lost {wait_set.trace_id}")
        faults.command(f"inject {endpoint.trace_id} recv 1")
        print(f"quiet {quiet.trace_id} busy {busy.trace_id} set {wait_set.trace_id}", flush=True)
        Path("/proc/sysrq-trigger").write_text("c")


if __name__ == "__main__":
    main()
