# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: injects faults into the wait core, through the mock provider's command file."""

from pathlib import Path

from kfabric.demo.job import Fault
from kfabric.guest.sleeping import wait_until_asleep

COMMAND = Path("/sys/kernel/debug/kfi_mock/command")
LATE_MS = 1000
"""Longer than any delay by a busy host; below the deadline of a wait."""


def command(line: str) -> None:
    """Give the mock provider one command. Raises OSError."""
    with COMMAND.open("wb", buffering=0) as file:
        file.write(f"{line}\n".encode())


def inject(fault: Fault, tid: int, queue: int) -> None:
    """Inject a fault into the next publication on a queue, once its waiter sleeps.

    Args:
        fault: the fault.
        tid: the waiter's thread id.
        queue: tracing id of the wait set.
    """
    wait_until_asleep(tid)
    delay = f" {LATE_MS}" if fault is Fault.LATE else ""
    command(f"fault {fault} {queue}{delay}")
