# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Computes how many guests fit into the host's memory."""

import re
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
QEMU_MIB = 200
"""QEMU's memory besides its guest's, mostly for translated code."""


def available_mib() -> int | None:
    """Memory for new processes without swapping; None: unknown."""
    try:
        found = re.search(r"^MemAvailable: +(\d+) kB$", MEMINFO.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) >> 10 if found else None


def fitting(available: int, guest_mib: int) -> int:
    """How many guests of ``guest_mib`` each fit, at least one."""
    return max(1, available // (guest_mib + QEMU_MIB))
