# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side: load the probe, drain it, and leave a recording.

Needs root, bcc (Debian's python3-bpfcc), the kernel's headers, and kfabric.ko
loaded, since its tracepoints are attached to.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import re
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import IO, Any, Self

from harness.probes import btf
from harness.probes.ring import Ring
from harness.recording import HEAD, RECORDS, records
from harness.recording.records import Losses, ObjectRecord, Record, Tally, split, unpack

HEADER = Path(records.__file__).with_name("records.h")
PROGRAM = Path(__file__).with_name("wakeups.bpf.c")
KALLSYMS = Path("/proc/kallsyms")
PID_MAX = Path("/proc/sys/kernel/pid_max")
MODULE = b"kfabric"
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
_SCHED = (b"sched_waking", b"sched_wakeup", b"sched_switch", b"sched_process_exit")
# What the program has with PREEMPT_RT alone.
_TIMERS = (b"hrtimer_expire_entry", b"hrtimer_expire_exit")

# 32 MiB: a hundred and fifty thousand waits before the reader has to come by.
_RING_PAGES = 8192
# What was drained is kept in memory up to here, and on disk beyond.
_MEMORY = 8 << 20
_LOSSES = ("ring", "waits", "queues", "unpaired")
_STACKS, _QUIET, _TEXT_START, _TEXT_END = range(4)
# What tells a CPU's context: a variable of its own, except in some kernels after
# 6.1 (6.12 is one), where it is a member of pcpu_hot, behind a pointer.
_PREEMPT_COUNT = ((b"__preempt_count", 0), (b"pcpu_hot", 8))
# Kernels that have this (7.3) count in it how often interrupts were disabled, between
# the softirqs and the interrupts.
_COUNTS_DISABLED = b"local_interrupt_disable_state"


# There with PREEMPT_RT.
REALTIME = Path("/sys/kernel/realtime")


class ProbeError(Exception):
    """The probe cannot be loaded here; the text says why."""


def context_flags(kallsyms: bytes) -> list[str]:
    """Where the kernel keeps each CPU's base address and, behind that, its context; and how.

    ``kallsyms`` is the text of /proc/kallsyms. Raises ProbeError.
    """
    bases = _address(kallsyms, b"__per_cpu_offset")
    shift = 16 if _address(kallsyms, _COUNTS_DISABLED) is None else 24
    for name, offset in _PREEMPT_COUNT:
        if (found := _address(kallsyms, name)) is not None and bases:
            return [
                f"-DPERCPU_OFFSETS={bases:#x}ULL",
                f"-DPREEMPT_COUNT={found + offset:#x}ULL",
                f"-DHARDIRQ_SHIFT={shift}",
            ]
    raise ProbeError("the kernel does not tell where its CPUs keep their context")


def _stock() -> tuple[bytes, ...]:
    """The kernel's own tracepoints that the program is attached to."""
    return (*_SCHED, *_TIMERS) if REALTIME.exists() else _SCHED


def realtime_flags() -> list[str]:
    """Where a task counts softirqs, and its state: 0 without PREEMPT_RT. Raises BtfError."""
    members = {"TASK_SOFTIRQ": b"softirq_disable_cnt", "TASK_STATE": b"__state"}
    if not REALTIME.exists():
        return [f"-D{name}=0" for name in members]
    vmlinux = Path(btf.VMLINUX).read_bytes()
    return [
        f"-D{name}={btf.member_offset(vmlinux, b'task_struct', member)}"
        for name, member in members.items()
    ]


def _address(kallsyms: bytes, name: bytes) -> int | None:
    """A symbol's address."""
    end = kallsyms.find(b" " + name + b"\n")
    if end < 0:
        return None
    start = kallsyms.rfind(b"\n", 0, end) + 1
    return int(kallsyms[start:end].split()[0], 16)


def text_of(kallsyms: bytes, module: bytes) -> tuple[int, int]:
    """From a module's first function to behind the begin of its last. Raises ProbeError."""
    found = re.findall(rb"^([0-9a-f]+) [tT] \S+\t\[" + module + rb"\]$", kallsyms, re.M)
    addresses = [int(word, 16) for word in found]
    if not any(addresses):
        raise ProbeError(f"{module.decode()} is not loaded, or its addresses are hidden")
    # How long the last function is, nobody tells; text ends on a page.
    return min(addresses), (max(addresses) | (mmap.PAGESIZE - 1)) + 1


def _of_probe(frame: str) -> bool:
    """Is this frame what a tracepoint calls, not who passed it?"""
    return frame.startswith(("bpf_", "__bpf_", "kprobe_", "ftrace_", "__traceiter"))


def _flags(context: list[str], task_pid: int) -> list[str]:
    """What the program's text leaves open, and what makes its compiler faster.

    bcc puts the kernel's headers for log2 and pages before every program, and
    asks for debug information. Without them the compiler needs 40 % less time,
    which is seconds in an emulated guest. Of both only PAGE_SIZE is used.
    """
    lean = ["-g0", "-D_LINUX_LOG2_H", "-D_ASM_X86_PAGE_H", f"-DPAGE_SIZE={mmap.PAGESIZE}"]
    return [
        *lean,
        f"-DRING_PAGES={_RING_PAGES}",
        *context,
        f"-DTASK_PID={task_pid}",
        *realtime_flags(),
        f"-DPID_MAX={int(PID_MAX.read_text())}",
    ]


@dataclass(frozen=True)
class Counters:
    """What the kernel part has counted up to one moment.

    ``strays``: by thread, wakes and sleeps outside any wait, as the kernel saw them.
    """

    losses: Losses
    tallies: dict[int, Tally]
    strays: dict[int, tuple[int, int]]


class Probe:
    """The loaded probe. A context manager; leaving it detaches everything.

    The kernel part never wakes its reader, so :meth:`drain` must be called
    often enough for the ring not to fill (once a second will do).

    :param stacks: take stacks of waits and signals that look wrong; costs more than
        all the rest.
    :param quiet: leave out what is signalled where nobody has ever waited.
    """

    def __init__(self, *, stacks: bool = False, quiet: bool = False) -> None:
        """Compile, load and attach. Raises ProbeError."""
        try:
            from bcc import BPF
        except ImportError as exc:
            raise ProbeError("python3-bpfcc is not installed") from exc
        started = time.monotonic()
        kallsyms = KALLSYMS.read_bytes()
        text = text_of(kallsyms, MODULE)
        try:
            task_pid = btf.member_offset(Path(btf.VMLINUX).read_bytes(), b"task_struct", b"pid")
            flags = _flags(context_flags(kallsyms), task_pid)
            self._bpf: Any = BPF(text=HEADER.read_bytes() + PROGRAM.read_bytes(), cflags=flags)
            self._ring = Ring(self._bpf[b"ring"].map_fd, _RING_PAGES * mmap.PAGESIZE)
        except ProbeError:
            raise
        except Exception as exc:
            raise ProbeError(f"the probe does not load: {exc}") from exc
        # Under names that bcc has made, of later versions others.
        self._kernel: tuple[bytes, ...] = tuple(self._bpf.kfunc_entry_fds)
        self._set(_STACKS, stacks)
        self._set(_QUIET, quiet)
        self._set_text(text)
        self.attached = True
        self.log: IO[bytes] = tempfile.SpooledTemporaryFile(_MEMORY)
        self.load_seconds = time.monotonic() - started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()
        self._ring.close()
        self._bpf.cleanup()

    def detach(self) -> None:
        """Let go of the module's tracepoints, which hold a reference to it."""
        if self.attached:
            for name in _RAW:
                self._bpf.detach_raw_tracepoint(name)
        self.attached = False

    def attach(self) -> None:
        """Attach again, to a module that may have been loaded anew. Raises ProbeError."""
        if self.attached:
            return
        self._set_text(text_of(KALLSYMS.read_bytes(), MODULE))
        self._forget_waits()
        for name in _RAW:
            self._bpf.attach_raw_tracepoint(tp=name, fn_name=b"raw_tracepoint__" + name)
        self.attached = True

    def _forget_waits(self) -> None:
        """Of those that go on nobody has seen whether they have ended meanwhile."""
        waits, waiters = self._bpf[b"waits"], self._bpf[b"waiters"]
        for tid in waiters.keys():
            waits[waits.Key(tid.value)] = waits.Leaf()
        waiters.clear()

    def rest(self) -> None:
        """Detach from everything, the kernel's own functions, too; it costs nothing then."""
        self.detach()
        for name in _stock():
            self._bpf.detach_raw_tracepoint(name)
        for name in self._kernel:
            self._bpf.detach_kfunc(fn_name=name)

    def resume(self) -> None:
        """Attach again after :meth:`rest`. Raises ProbeError."""
        for name in _stock():
            self._bpf.attach_raw_tracepoint(tp=name, fn_name=b"raw_tracepoint__" + name)
        for name in self._kernel:
            self._bpf.attach_kfunc(fn_name=name)
        self.attach()

    def _set(self, option: int, value: int) -> None:
        options = self._bpf[b"options"]
        options[options.Key(option)] = options.Leaf(value)

    def _set_text(self, text: tuple[int, int]) -> None:
        self._set(_TEXT_START, text[0])
        self._set(_TEXT_END, text[1])

    @property
    def fill(self) -> float:
        """How full the ring is, from 0 to 1."""
        return self._ring.fill

    def take(self) -> list[bytes]:
        """Take what is in the ring: packed records, which nobody else gets."""
        return self._ring.drain()

    def drain(self) -> None:
        """Put what is in the ring into the log."""
        self.log.write(b"".join(self.take()))

    def logged(self) -> bytes:
        """All that was drained so far."""
        self.drain()
        self.log.seek(0)
        return self.log.read()

    def records(self) -> list[Record]:
        """All records so far, drained and decoded; for looking things up, not in a loop."""
        return list(unpack(split(self.logged())))

    def objects(self, wanted: Callable[[ObjectRecord], bool]) -> list[ObjectRecord]:
        """The changes to objects so far that fulfil a condition."""
        return [
            record
            for record in self.records()
            if isinstance(record, ObjectRecord) and wanted(record)
        ]

    def pending(self) -> list[bytes]:
        """The waits that go on, as packed records."""
        waits, found = self._bpf[b"waits"], []
        for tid in self._bpf[b"waiters"].keys():
            # A thread may have gone with its place, or keep it while it does not wait.
            with contextlib.suppress(KeyError):
                wait = waits[waits.Key(tid.value)]
                if wait.kind:
                    found.append(bytes(wait))
        return found

    def counters(self) -> Counters:
        """What was counted up to now."""
        losses = self._bpf[b"losses"]
        return Counters(
            losses=Losses(**{name: losses[index].value for index, name in enumerate(_LOSSES)}),
            tallies={
                queue.value: Tally(tally.signals, tally.wakes, tally.begins, tally.ends)
                for queue, tally in self._bpf[b"tallies"].items()
            },
            strays={
                tid.value: (stray.wakes, stray.sleeps)
                for tid, stray in self._bpf[b"strays"].items()
            },
        )

    def threads(self, tids: Iterable[int] | None = None) -> dict[int, str]:
        """Names of threads; all that are known, if none are given."""
        table = self._bpf[b"threads"]
        keys = table.keys() if tids is None else map(table.Key, tids)
        found = {}
        for key in keys:
            try:
                found[int(key.value)] = table[key].text.decode(errors="replace")
            except KeyError:
                continue
        return found

    def frames(self, stacks: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The frames of stacks, innermost first, as ``symbol+0x12 [module]``."""
        table, ksym = self._bpf[b"stacks"], self._bpf.ksym
        # Modules may have come since it last read the symbols.
        type(self._bpf)._sym_caches.pop(-1, None)
        found = {}
        for number in stacks:
            names = [
                ksym(address, show_module=True, show_offset=True).decode().removesuffix(" [kernel]")
                for address in table.walk(number)
            ]
            # The probe itself is on top of each.
            found[number] = tuple(dropwhile(_of_probe, names))
        return found

    def stop(self, directory: Path) -> None:
        """Detach, and leave head and records of the recording in ``directory``."""
        self.rest()
        t_stop = time.monotonic_ns()
        blob = b"".join([self.logged(), *self.pending()])
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RECORDS).write_bytes(blob)
        (directory / HEAD).write_text(json.dumps(self._head(t_stop)), encoding="utf-8")

    def _head(self, t_stop: int) -> dict[str, Any]:
        """What the kernel part kept apart from its records."""
        told = self.counters()
        return {
            "t_stop": t_stop,
            "losses": {name: getattr(told.losses, name) for name in _LOSSES},
            "tallies": {
                queue: {name: getattr(tally, name) for name in Tally.__slots__}
                for queue, tally in told.tallies.items()
            },
            "threads": self.threads(),
            "kernel": {"strays": told.strays},
            "load_seconds": round(self.load_seconds, 3),
        }
