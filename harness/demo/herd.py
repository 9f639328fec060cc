# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: several threads in sread() on one CQ, and one completion.

Only sleepers on a CQ's own queue wait exclusively, so the fault "herd" needs a scenario of its
own. It uses the mock provider, which completes on command.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kfabric.demo import faults
from kfabric.demo.job import Fault
from kfabric.guest.sleeping import wait_until_asleep
from kfabric_py import CompletionQueue, Endpoint, Info
from kfabric_py.device import Device

READERS = 4
TITLE = "readers of one CQ"
_READ_SECONDS = 30.0


@contextmanager
def _mock_endpoint() -> Iterator[tuple[Endpoint, CompletionQueue]]:
    """An endpoint of the mock provider, enabled, and its CQ."""
    with ExitStack() as stack:
        enter = stack.enter_context
        device = enter(Device())
        info: Info = device.getinfo(provider="mock")[0]
        fabric = enter(device.fabric(info))
        domain = enter(fabric.domain(info))
        cq = enter(domain.cq())
        ep = enter(domain.endpoint(info))
        ep.bind(cq, transmit=True, recv=True)
        ep.enable()
        yield ep, cq


def _read(cq: CompletionQueue) -> None:
    """The body of a thread that sleeps until it has read one completion."""
    # The name that the probes record.
    Path("/proc/thread-self/comm").write_text("reader", encoding="ascii")
    cq.sread(timeout=_READ_SECONDS)


def _await_sleep(reader: threading.Thread) -> None:
    assert reader.native_id is not None
    wait_until_asleep(reader.native_id)


def run(fault: Fault) -> dict[int, str]:
    """Let readers sleep, inject the fault, complete once, then complete for the others.

    Returns:
        Names of the objects, by tracing id.
    """
    with _mock_endpoint() as (ep, cq):
        readers = [threading.Thread(target=_read, args=(cq,), daemon=True) for _ in range(READERS)]
        for reader in readers:
            reader.start()
            _await_sleep(reader)
        faults.command(f"fault {fault} {cq.trace_id}")
        for _ in readers:
            _complete(ep, readers)
        return {cq.trace_id: "the readers' CQ", ep.trace_id: "the mock endpoint"}


def _complete(ep: Endpoint, readers: list[threading.Thread]) -> None:
    """Complete once, and wait until one reader has read it and the others sleep again."""
    left = sum(reader.is_alive() for reader in readers) - 1
    faults.command(f"inject {ep.trace_id} recv")
    while sum(reader.is_alive() for reader in readers) > left:
        next(reader for reader in readers if reader.is_alive()).join(0.01)
    for reader in readers:
        if reader.is_alive():
            _await_sleep(reader)
