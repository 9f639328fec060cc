# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""How many guests the host has memory for."""

from __future__ import annotations

import re
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
QEMU_MIB = 200
"""What QEMU takes besides its guest's memory, mostly for translated code."""


def available_mib() -> int | None:
    """What new processes can have without swapping; None: the host does not tell."""
    try:
        found = re.search(r"^MemAvailable: +(\d+) kB$", MEMINFO.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) >> 10 if found else None


def fitting(available: int, guest_mib: int) -> int:
    """How many guests of ``guest_mib`` each fit; one is always tried."""
    return max(1, available // (guest_mib + QEMU_MIB))
