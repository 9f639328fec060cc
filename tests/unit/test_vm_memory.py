# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The number of guests that fit into the host's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric.vm import memory


@pytest.mark.parametrize(
    ("available", "guest", "number"),
    [(4096, 1024, 3), (2447, 1024, 1), (2448, 1024, 2), (4096, 2560, 1), (512, 1024, 1)],
)
def test_as_many_guests_as_fit_and_one_in_any_case(available: int, guest: int, number: int) -> None:
    assert memory.fitting(available, guest) == number


def test_hosts_memory_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The available memory, which is more than the free memory."""
    told = "MemTotal:       24684420 kB\nMemFree:          100 kB\nMemAvailable:    4194304 kB\n"
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    assert memory.available_mib() is None
    memory.MEMINFO.write_text(told)
    assert memory.available_mib() == 4096
    memory.MEMINFO.write_text("MemTotal:       24684420 kB\n")
    assert memory.available_mib() is None
