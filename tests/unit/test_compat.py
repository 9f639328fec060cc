# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What kernels differ in stands in one header, and nothing in the modules goes round it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

KMOD = Path(__file__).resolve().parents[2] / "kmod"
COMPAT = KMOD / "compat.h"

# On PREEMPT_RT a spin lock sleeps: with preemption or interrupts off none may be taken, and
# a CPU belongs to no thread that has not turned them off.
OFF = re.compile(
    r"\b(preempt_(?:dis|en)able\w*|local_(?:irq|bh)_\w+|get_cpu\w*|put_cpu\w*|this_cpu_\w+"
    r"|smp_processor_id|in_atomic|in_interrupt|irqs_disabled|DEFINE_PER_CPU\w*)\s*\("
)
VERSION = re.compile(r"\b(LINUX_VERSION_CODE|KERNEL_VERSION|CONFIG_PREEMPT_RT)\b")


def uses(pattern: re.Pattern[str]) -> Iterator[str]:
    """Where the modules have it, but for the one header."""
    for path in sorted(KMOD.rglob("*.[ch]")):
        if path != COMPAT:
            for found in pattern.finditer(path.read_text()):
                yield f"{path.relative_to(KMOD)}: {found[1]}"


def test_modules_turn_nothing_off_by_themselves() -> None:
    """They use kfi_preempt_off() and kfi_irqs_off(), which know PREEMPT_RT."""
    assert list(uses(OFF)) == []


def test_modules_ask_for_no_version() -> None:
    """Else a difference between kernels is found by whoever trips over it."""
    assert list(uses(VERSION)) == []
