# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side: load the probe, drain it, and leave a recording.

Needs root, bcc (Debian's python3-bpfcc), the kernel's headers, and kfabric.ko
loaded, since its tracepoints are attached to.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from harness.probes.records import ObjectRecord, Record, unpack

HEADER = Path(__file__).with_name("records.h")
PROGRAM = Path(__file__).with_name("wakeups.bpf.c")
# bcc takes names as bytes.
_RAW = (
    b"wait_begin",
    b"wait_end",
    b"signal",
    b"wake",
    b"object_new",
    b"object_free",
    b"member_add",
    b"member_del",
)
_SCHED = (b"sched:sched_waking", b"sched:sched_wakeup", b"sched:sched_switch")
HEAD, RECORDS = "recording.json", "recording.bin"

# 4 MiB: thirty thousand waits before the reader has to come by.
_RING_PAGES = 1024
_LOSSES = ("ring", "waits", "queues", "unpaired")
# What tells a CPU's context: a variable of its own, except in some kernels after
# 6.1 (6.12 is one), where it is a member of pcpu_hot, behind a pointer.
_PREEMPT_COUNT = ((b"__preempt_count", 0), (b"pcpu_hot", 8))


class ProbeError(Exception):
    """The probe cannot be loaded here; the text says why."""


def context_addresses(kallsyms: bytes) -> tuple[int, int]:
    """Where the kernel keeps each CPU's base address and, behind that, its context.

    ``kallsyms`` is the text of /proc/kallsyms. Raises ProbeError.
    """
    bases = _address(kallsyms, b"__per_cpu_offset")
    for name, offset in _PREEMPT_COUNT:
        if (found := _address(kallsyms, name)) is not None and bases:
            return bases, found + offset
    raise ProbeError("the kernel does not tell where its CPUs keep their context")


def _address(kallsyms: bytes, name: bytes) -> int | None:
    """A symbol's address."""
    end = kallsyms.find(b" " + name + b"\n")
    if end < 0:
        return None
    start = kallsyms.rfind(b"\n", 0, end) + 1
    return int(kallsyms[start:end].split()[0], 16)


def _flags(bases: int, preempt_count: int) -> list[str]:
    """What the program's text leaves open, and what makes its compiler faster.

    bcc puts the kernel's headers for log2 and pages before every program, and
    asks for debug information. Without them the compiler needs 40 % less time,
    which is seconds in an emulated guest. Of both only PAGE_SIZE is used.
    """
    lean = ["-g0", "-D_LINUX_LOG2_H", "-D_ASM_X86_PAGE_H", f"-DPAGE_SIZE={mmap.PAGESIZE}"]
    return [
        *lean,
        f"-DRING_PAGES={_RING_PAGES}",
        f"-DPERCPU_OFFSETS={bases:#x}ULL",
        f"-DPREEMPT_COUNT={preempt_count:#x}ULL",
    ]


class Probe:
    """The loaded probe. A context manager; leaving it detaches everything.

    The kernel part never wakes its reader, so :meth:`drain` must be called
    often enough for the ring not to fill (a few times a second will do).
    """

    def __init__(self) -> None:
        """Compile, load and attach. Raises ProbeError."""
        try:
            from bcc import BPF
        except ImportError as exc:
            raise ProbeError("python3-bpfcc is not installed") from exc
        started = time.monotonic()
        flags = _flags(*context_addresses(Path("/proc/kallsyms").read_bytes()))
        try:
            self._bpf: Any = BPF(text=HEADER.read_bytes() + PROGRAM.read_bytes(), cflags=flags)
        except Exception as exc:
            raise ProbeError(f"the probe does not load: {exc}") from exc
        self._chunks: list[bytes] = []
        self._bpf[b"ring"].open_ring_buffer(self._keep)
        self.load_seconds = time.monotonic() - started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bpf.cleanup()

    def _keep(self, _context: object, data: int, size: int) -> None:
        self._chunks.append(ctypes.string_at(data, size))

    def drain(self) -> None:
        """Take what is in the ring."""
        self._bpf.ring_buffer_consume()

    def records(self) -> list[Record]:
        """All records so far, drained and decoded; for looking things up, not in a loop."""
        self.drain()
        return list(unpack(self._chunks))

    def objects(self, wanted: Callable[[ObjectRecord], bool]) -> list[ObjectRecord]:
        """The changes to objects so far that fulfil a condition."""
        return [
            record
            for record in self.records()
            if isinstance(record, ObjectRecord) and wanted(record)
        ]

    def stop(self, directory: Path) -> None:
        """Detach, and leave head and records of the recording in ``directory``."""
        for name in _RAW:
            self._bpf.detach_raw_tracepoint(name)
        for name in _SCHED:
            self._bpf.detach_tracepoint(name)
        t_stop = time.monotonic_ns()
        self.drain()
        pending = [bytes(wait) for wait in self._bpf[b"waits"].values()]
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RECORDS).write_bytes(b"".join(self._chunks + pending))
        (directory / HEAD).write_text(json.dumps(self._head(t_stop)), encoding="utf-8")

    def _head(self, t_stop: int) -> dict[str, Any]:
        """What the kernel part kept apart from its records."""
        counters = self._bpf[b"losses"]
        return {
            "t_stop": t_stop,
            "losses": {name: counters[index].value for index, name in enumerate(_LOSSES)},
            "tallies": {
                queue.value: {name: getattr(tally, name) for name, _ in tally._fields_}
                for queue, tally in self._bpf[b"tallies"].items()
            },
            "threads": {
                tid.value: comm.text.decode(errors="replace")
                for tid, comm in self._bpf[b"threads"].items()
            },
            "load_seconds": round(self.load_seconds, 3),
        }
