# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Reading the ring buffer's memory, on a file that is laid out like it."""

from __future__ import annotations

import mmap
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.probes.ring import Ring

SIZE = mmap.PAGESIZE
BUSY, DISCARDED = 1 << 31, 1 << 30


class Kernel:
    """The producer. Unlike the kernel it has to write what wraps around twice."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(2 * mmap.PAGESIZE + 2 * SIZE))
        self.file = path.open("r+b")
        self.position = 0

    def put(self, record: bytes, flags: int = 0) -> int:
        """Append a record; where its header is."""
        framed = struct.pack("<II", len(record) | flags, 0) + record
        framed += bytes(-len(framed) % 8)
        at = self.position % SIZE
        for place in (at, at + SIZE, at - SIZE):
            self._write(place, framed)
        self.position += len(framed)
        self.file.seek(mmap.PAGESIZE)
        self.file.write(struct.pack("<Q", self.position))
        self.file.flush()
        return at

    def commit(self, at: int, size: int) -> None:
        """Take the busy flag from a record."""
        self._write(at, struct.pack("<I", size))
        self.file.flush()

    def fill(self, record: bytes) -> None:
        """Have one and the same everywhere, not to be written any more."""
        self._write(0, record * (2 * SIZE // len(record)))
        self.file.flush()

    def _write(self, place: int, data: bytes) -> None:
        skip = max(0, -place)
        self.file.seek(2 * mmap.PAGESIZE + place + skip)
        self.file.write(data[skip : max(skip, 2 * SIZE - place)])


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    """An empty ring."""
    kernel = Kernel(tmp_path / "ring")
    with kernel.file:
        yield kernel


def test_records_come_out_once_and_in_order(kernel: Kernel) -> None:
    """Lengths that are no multiple of eight are padded."""
    ring = Ring(kernel.file.fileno(), SIZE)
    kernel.put(b"first")
    kernel.put(b"second, longer")
    assert ring.drain() == [b"first", b"second, longer"]
    assert ring.drain() == [] and ring.fill == 0


def test_ring_is_read_round_and_round(kernel: Kernel) -> None:
    """Many times its size comes through; a record at its end is whole."""
    ring = Ring(kernel.file.fileno(), SIZE)
    for number in range(100):
        records = [b"%d-%d" % (number, index) * 20 for index in range(7)]
        for record in records:
            kernel.put(record)
        assert ring.drain() == records
    assert kernel.position > 10 * SIZE


def test_record_that_is_being_written_stops_the_reader(kernel: Kernel) -> None:
    """Later records wait, too, until it is complete."""
    ring = Ring(kernel.file.fileno(), SIZE)
    kernel.put(b"one")
    at = kernel.put(b"two", BUSY)
    kernel.put(b"three")
    assert ring.drain() == [b"one"]
    assert ring.fill > 0
    kernel.commit(at, 3)
    assert ring.drain() == [b"two", b"three"]


def test_discarded_record_is_skipped(kernel: Kernel) -> None:
    """The kernel part reserved it and thought better of it."""
    ring = Ring(kernel.file.fileno(), SIZE)
    kernel.put(b"one", DISCARDED)
    kernel.put(b"two")
    assert ring.drain() == [b"two"]


WATCH = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    position = memoryview(mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ)).cast("Q")
print("watching", flush=True)
last, end = 0, int(sys.argv[2])
while last < end:
    now = position[0]
    if now < last:
        sys.exit(f"{now} after {last}")
    last = now
"""


def test_the_kernel_never_sees_the_consumers_position_go_back(
    kernel: Kernel, tmp_path: Path
) -> None:
    """A position of less than it was is a ring that seems full: records would be lost."""
    kernel.fill(struct.pack("<II", DISCARDED, 0))
    ring = Ring(kernel.file.fileno(), SIZE)
    rounds = 300_000
    command = [sys.executable, "-c", WATCH, str(tmp_path / "ring"), str(8 * rounds)]
    pages = mmap.mmap(kernel.file.fileno(), 2 * mmap.PAGESIZE)
    position = memoryview(pages).cast("Q")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watcher:
        assert watcher.stdout is not None and watcher.stderr is not None
        assert watcher.stdout.readline() == b"watching\n"
        for n in range(1, rounds + 1):
            position[mmap.PAGESIZE // 8] = 8 * n
            ring.drain()
        assert watcher.wait(60) == 0, watcher.stderr.read()
