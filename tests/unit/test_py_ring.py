# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Queues that are read without a call, over memory in which a test stores the entries."""

from __future__ import annotations

import ctypes
import mmap
import platform
from typing import Any

import pytest
from fake_kernel import FakeKernel

import kfabric_py as kp
from kfabric_py import _uapi
from kfabric_py.ring import ENTRY

ENTRIES = 4


class Memory:
    """The memory of a ring, and how a kernel stores in it."""

    def __init__(self) -> None:
        self.map = mmap.mmap(-1, ctypes.sizeof(_uapi.kfab_ring) + ENTRIES * ENTRY.size)
        self.tail = 0

    def store(self, data: int, err: int = 0) -> None:
        """Store an entry in the place of an older one."""
        at = ctypes.sizeof(_uapi.kfab_ring) + self.tail % ENTRIES * ENTRY.size
        ENTRY.pack_into(self.map, at, 0, 0, 0, data, 0, 0, 0, 0, err)
        self.tail += 1
        self.map[:4] = self.tail.to_bytes(4, "little")

    @property
    def head(self) -> int:
        """What the reader has written."""
        at = _uapi.kfab_ring.head.offset  # type: ignore[attr-defined]
        return int.from_bytes(self.map[at : at + 4], "little")


@pytest.fixture
def memory(kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """The memory of the ring that is opened next."""
    memory = Memory()

    def cq_ring(arg: Any) -> None:
        buffer = _uapi.kfab_cq_open()
        kernel.open(buffer)
        arg.out_handle, arg.out_entries = buffer.out_handle, ENTRIES

    monkeypatch.setattr(kernel, "cq_ring", cq_ring, raising=False)
    monkeypatch.setattr(mmap, "mmap", lambda *_, **__: memory.map)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return memory


def calls(kernel: FakeKernel) -> int:
    """Reads that were calls."""
    return sum(name == "cq_read" for name, _ in kernel.calls)


def test_kernel_is_told_after_half_a_queue(
    kernel: FakeKernel, domain: kp.Domain, memory: Memory
) -> None:
    """Q11: and before the next read takes something, as that call may raise."""
    cq = domain.cq(ENTRIES, ring=True)
    for number in range(ENTRIES):
        memory.store(number)
    assert [entry.data for entry in cq.read(3)] == [0, 1, 2]
    assert calls(kernel) == 0
    kernel.fail["cq_read"] = _uapi.KFAB_EAVAIL
    with pytest.raises(kp.ErrorAvailable):
        cq.read()
    assert memory.head == 3
    kernel.fail.clear()
    assert [entry.data for entry in cq.read()] == [3]
    assert calls(kernel) == 2


def test_one_reader_at_a_time(
    domain: kp.Domain, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q11: another thread, or a signal handler, that reads meanwhile is refused."""
    cq = domain.cq(ENTRIES, ring=True)
    memory.store(7)
    assert cq._ring is not None
    read = cq._ring.read

    def interrupted(count: int) -> list[tuple[int, ...]]:
        for nested in (cq.read, cq.readerr):
            with pytest.raises(kp.Busy, match="one thread at a time"):
                nested()
        return read(count)

    monkeypatch.setattr(cq._ring, "read", interrupted)
    assert [entry.data for entry in cq.read()] == [7]
    monkeypatch.undo()
    memory.store(8)
    assert [entry.data for entry in cq.read()] == [8]


@pytest.mark.parametrize("method", ["read", "at_error"])
def test_reader_of_a_queue_that_is_closed_meanwhile(
    domain: kp.Domain, memory: Memory, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """O3: ClosedError, though its memory is gone."""
    cq = domain.cq(ENTRIES, ring=True)
    memory.store(1)
    real = getattr(cq._ring, method)

    def closed(*args: int) -> Any:
        cq.close()
        return real(*args)

    monkeypatch.setattr(cq._ring, method, closed)
    with pytest.raises(kp.ClosedError):
        cq.read() if method == "read" else cq.readerr()


def test_entries_that_were_overwritten_are_passed(domain: kp.Domain, memory: Memory) -> None:
    """Q2: errors that calls which were left early have removed; each entry comes once."""
    cq = domain.cq(ENTRIES, ring=True)
    memory.store(0, err=5)
    memory.store(1, err=5)
    for number in range(2, 2 + ENTRIES):
        memory.store(number)
    assert [entry.data for entry in cq.read()] == list(range(2, 2 + ENTRIES))
    assert memory.head == 2 + ENTRIES


def test_entry_that_is_overwritten_while_it_is_read_comes_in_its_turn(
    domain: kp.Domain, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q2: it takes the place of an error that a call which was left early has removed."""
    cq = domain.cq(ENTRIES, ring=True)
    memory.store(0, err=5)
    for number in range(1, ENTRIES):
        memory.store(number)
    assert cq._ring is not None
    real = cq._ring._entry

    def overwritten(number: int) -> tuple[int, ...]:
        if memory.tail == ENTRIES:
            memory.store(ENTRIES)
        return real(number)

    monkeypatch.setattr(cq._ring, "_entry", overwritten)
    assert [entry.data for entry in cq.read()] == [1, 2, 3, 4]


def test_ring_is_for_machines_that_keep_the_order_of_memory(
    kernel: FakeKernel, domain: kp.Domain, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere a reader may see the count before the entry; nothing is opened."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(kp.NotSupported, match="x86 only"):
        domain.cq(ring=True)
    assert not any(name == "cq_open" for name, _ in kernel.calls)
