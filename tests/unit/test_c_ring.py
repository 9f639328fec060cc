# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""examples/kfab_ring.h over memory in which a test stores the entries."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from kfabric_py import _uapi

ROOT = Path(__file__).parents[2]
ENTRIES = 4
SOURCE = """
#include "kfab_ring.h"

const struct kfab_cq_entry *first(const struct kfab_ring *ring)
{
	return kfab_ring_first(ring);
}

void next(struct kfab_ring *ring)
{
	kfab_ring_next(ring);
}

int overrun(const struct kfab_ring *ring)
{
	return kfab_ring_overrun(ring);
}
"""
ENTRY = _uapi.kfab_cq_entry


class Memory(ctypes.Structure):
    """A ring with its entries."""

    _fields_ = (("ring", _uapi.kfab_ring), ("entries", ENTRY * ENTRIES))


class Reader:
    """The functions of the header on a ring, and how a kernel stores in it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.memory = Memory()
        self.memory.ring.mask = ENTRIES - 1
        self._library = library
        library.first.restype = ctypes.POINTER(ENTRY)
        self._at = ctypes.byref(self.memory)

    def store(self, data: int) -> None:
        """Store an entry."""
        ring = self.memory.ring
        self.memory.entries[ring.tail & ring.mask].data = data
        ring.tail = (ring.tail + 1) % (1 << 32)

    def read(self) -> int | None:
        """The data of the next entry."""
        entry = self._library.first(self._at)
        if not entry:
            return None
        self._library.next(self._at)
        return int(entry.contents.data)

    def overrun(self) -> bool:
        """Whether completions were lost."""
        return bool(self._library.overrun(self._at))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The header's functions, compiled."""
    place = tmp_path_factory.mktemp("ring")
    (place / "ring.c").write_text(SOURCE)
    includes = ["-I", str(ROOT / "kmod/include/uapi"), "-I", str(ROOT / "examples")]
    flags = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    output = place / "ring.so"
    argv = ["gcc", *flags, *includes, "-o", str(output), str(place / "ring.c")]
    subprocess.run(argv, check=True)
    return ctypes.CDLL(str(output))


@pytest.fixture
def reader(library: ctypes.CDLL) -> Reader:
    """A reader of an empty ring."""
    return Reader(library)


def test_each_entry_comes_once_in_its_order(reader: Reader) -> None:
    """Q11: also where the counts of 32 bits begin again."""
    reader.memory.ring.tail = reader.memory.ring.head = (1 << 32) - 3
    assert reader.read() is None
    for turn in range(0, 6, 3):
        for data in range(turn, turn + 3):
            reader.store(data)
        assert [reader.read() for _ in range(4)] == [turn, turn + 1, turn + 2, None]
    assert reader.memory.ring.head == 3


def test_overrun_is_told_after_the_last_entry(reader: Reader) -> None:
    """Q2, Q11: what was stored before the loss is read first."""
    reader.store(7)
    assert not reader.overrun()
    reader.memory.ring.overrun = 1
    assert not reader.overrun()
    assert reader.read() == 7
    assert reader.overrun()
