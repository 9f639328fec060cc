# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the probe's loader finds out before it compiles."""

from __future__ import annotations

import pytest

from harness.probes.loader import ProbeError, context_addresses

OLD = b"""0000000000000000 A fixed_percpu_data
000000000001fb98 A __preempt_count
000000000001fba0 A __preempt_count_more
ffffffff82a01000 D __per_cpu_offset
"""
NEW = OLD.replace(b"__preempt_count\n", b"pcpu_hot\n")


@pytest.mark.parametrize(
    ("kallsyms", "expected"),
    [(OLD, (0xFFFFFFFF82A01000, 0x1FB98)), (NEW, (0xFFFFFFFF82A01000, 0x1FB98 + 8))],
)
def test_context_is_found_on_old_and_new_kernels(
    kallsyms: bytes, expected: tuple[int, int]
) -> None:
    """The counter moved into a structure and out again; only whole names match."""
    assert context_addresses(kallsyms) == expected


@pytest.mark.parametrize("missing", [b"__per_cpu_offset", b" __preempt_count\n"])
def test_kernel_without_the_symbols_is_refused(missing: bytes) -> None:
    """Better no probe than one that reads anything."""
    with pytest.raises(ProbeError):
        context_addresses(OLD.replace(missing, b" x\n"))


def test_hidden_addresses_are_refused() -> None:
    """To a user without the right to see them all addresses are 0."""
    with pytest.raises(ProbeError):
        context_addresses(OLD.replace(b"ffffffff82a01000", b"0000000000000000"))
