# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The values that the probe's loader finds before it compiles."""

from __future__ import annotations

import pytest

from kfabric.probes.loader import ProbeError, context_flags, context_values, text_of

OLD = b"""0000000000000000 A fixed_percpu_data
000000000001fb98 A __preempt_count
000000000001fba0 A __preempt_count_more
ffffffff82a01000 D __per_cpu_offset
"""
MOVED = OLD.replace(b"__preempt_count\n", b"pcpu_hot\n")
NEW = OLD + b"ffffffff83f51cb8 D local_interrupt_disable_state\n"


@pytest.mark.parametrize(
    ("kallsyms", "place", "shift"),
    [(OLD, 0x1FB98, 16), (MOVED, 0x1FB98 + 8, 16), (NEW, 0x1FB98, 24)],
)
def test_context_is_found_on_old_and_new_kernels(kallsyms: bytes, place: int, shift: int) -> None:
    """The counter moved into a structure and out again, and was divided; whole names match."""
    where = {"PERCPU_OFFSETS": 0xFFFFFFFF82A01000, "PREEMPT_COUNT": place}
    assert context_values(kallsyms) == where
    assert context_flags(kallsyms) == [f"-DHARDIRQ_SHIFT={shift}"]


@pytest.mark.parametrize("missing", [b"__per_cpu_offset", b" __preempt_count\n"])
def test_kernel_without_the_symbols_is_refused(missing: bytes) -> None:
    """Better no probe than one that reads anything."""
    with pytest.raises(ProbeError):
        context_values(OLD.replace(missing, b" x\n"))


def test_hidden_addresses_are_refused() -> None:
    """To a user without the right to see them all addresses are 0."""
    with pytest.raises(ProbeError):
        context_values(OLD.replace(b"ffffffff82a01000", b"0000000000000000"))


MODULES = (
    OLD
    + b"ffffffffc0a01000 t kfi_a\t[kfabric]\n"
    + b"ffffffffc0a03fe0 T kfi_b\t[kfabric]\n"
    + b"ffffffffc0a05000 d kfi_data\t[kfabric]\n"
    + b"ffffffffc0b01000 t kfd_a\t[kfabric_dev]\n"
)


def test_text_of_a_module_is_its_functions() -> None:
    """From the first function to the end of the last one's page; no data, no other module."""
    assert text_of(MODULES, b"kfabric") == (0xFFFFFFFFC0A01000, 0xFFFFFFFFC0A04000)


def test_module_that_is_not_loaded_has_no_text() -> None:
    """No second view is better than a view of another module."""
    with pytest.raises(ProbeError, match="kfi_mock is not loaded"):
        text_of(MODULES, b"kfi_mock")
