# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side: make the wait core do wrong, through the mock provider's command file."""

from __future__ import annotations

from pathlib import Path

from harness.demo.job import Fault
from harness.guest.sleeping import wait_until_asleep

COMMAND = Path("/sys/kernel/debug/kfi_mock/command")
LATE_MS = 1000
"""Long enough that no busy machine explains it; below the deadline of a wait."""


def command(line: str) -> None:
    """Give the mock provider one command. Raises OSError with its errno."""
    with COMMAND.open("wb", buffering=0) as file:
        file.write(f"{line}\n".encode())


def commit(fault: Fault, tid: int, queue: int) -> None:
    """Let the next publication on a queue go wrong, once its sleeper is asleep.

    :param tid: the thread that sleeps there, or will.
    :param queue: tracing id of the wait set.
    """
    wait_until_asleep(tid)
    delay = f" {LATE_MS}" if fault is Fault.LATE else ""
    command(f"fault {fault} {queue}{delay}")
