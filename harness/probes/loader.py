# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side: loads the probe, drains it, and writes a recording.

Needs root, bcc (Debian's python3-bpfcc), the kernel's headers, and kfabric.ko, to whose
tracepoints it attaches.
"""

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
from typing import IO

from kfabric.probes import btf
from kfabric.probes.compiled import Source
from kfabric.probes.program import load
from kfabric.probes.ring import Ring
from kfabric.recording import HEAD, RECORDS, records
from kfabric.recording.records import (
    KernelView,
    Losses,
    ObjectRecord,
    Record,
    Recording,
    Tally,
    head_of,
    split,
    unpack,
)

HEADER = Path(records.__file__).with_name("records.h")
PROGRAM = Path(__file__).with_name("wakeups.bpf.c")
KALLSYMS = Path("/proc/kallsyms")
PID_MAX = Path("/proc/sys/kernel/pid_max")
MODULE = b"kfabric"
# bcc takes names as bytes.
_RAW = (
    *(b"wait_begin", b"wait_end", b"signal", b"wake"),
    *(b"object_new", b"object_free", b"member_add", b"member_del"),
)
_SCHED = (b"sched_waking", b"sched_wakeup", b"sched_switch", b"sched_process_exit")
# Attached only with PREEMPT_RT.
_TIMERS = (b"hrtimer_expire_entry", b"hrtimer_expire_exit")

# 32 MiB, for 140,000 waits between two reads.
_RING_PAGES = 8192
# Drained records are kept in memory up to this size, then on disk.
_MEMORY = 8 << 20
_OWN_FRAMES = ("bpf_", "__bpf_", "kprobe_", "ftrace_", "__traceiter")
_LOSSES = ("ring", "waits", "queues", "unpaired")
_STACKS, _QUIET, _TEXT_START, _TEXT_END = range(4)
# The variable with a CPU's preemption count, and the offset in it. In some kernels after
# 6.1 (6.12 is one) that is a member of pcpu_hot, after a pointer.
_PREEMPT_COUNT = ((b"__preempt_count", 0), (b"pcpu_hot", 8))
# Kernels with this symbol (7.3) also count disabled interrupts in the preemption count,
# between the bits for softirqs and those for interrupts.
_COUNTS_DISABLED = b"local_interrupt_disable_state"

# Exists only with PREEMPT_RT.
REALTIME = Path("/sys/kernel/realtime")


class ProbeError(Exception):
    """The probe cannot be loaded here."""


def context_flags(kallsyms: bytes) -> list[str]:
    """The macro for the format of each CPU's preemption count, given /proc/kallsyms."""
    shift = 16 if _address(kallsyms, _COUNTS_DISABLED) is None else 24
    return [f"-DHARDIRQ_SHIFT={shift}"]


def context_values(kallsyms: bytes) -> dict[str, int]:
    """The place of each CPU's preemption count.

    Args:
        kallsyms: The text of /proc/kallsyms.

    Raises:
        ProbeError: The kernel does not show it.
    """
    bases = _address(kallsyms, b"__per_cpu_offset")
    for name, offset in _PREEMPT_COUNT:
        if (found := _address(kallsyms, name)) is not None and bases:
            return {"PERCPU_OFFSETS": bases, "PREEMPT_COUNT": found + offset}
    raise ProbeError("the kernel does not show where its CPUs keep their context")


def _kernel_events() -> tuple[bytes, ...]:
    """The kernel's own tracepoints to which the program is attached."""
    return (*_SCHED, *_TIMERS) if REALTIME.exists() else _SCHED


def realtime_flags() -> list[str]:
    """Macros for the offsets of a task's softirq count and state; 0 without PREEMPT_RT.

    Raises:
        BtfError: The kernel's BTF does not have them.
    """
    members = {"TASK_SOFTIRQ": b"softirq_disable_cnt", "TASK_STATE": b"__state"}
    if not REALTIME.exists():
        return [f"-D{name}=0" for name in members]
    vmlinux = Path(btf.VMLINUX).read_bytes()
    return [
        f"-D{name}={btf.member_offset(vmlinux, b'task_struct', member)}"
        for name, member in members.items()
    ]


def _address(kallsyms: bytes, name: bytes) -> int | None:
    end = kallsyms.find(b" " + name + b"\n")
    if end < 0:
        return None
    start = kallsyms.rfind(b"\n", 0, end) + 1
    return int(kallsyms[start:end].split()[0], 16)


def text_of(kallsyms: bytes, module: bytes) -> tuple[int, int]:
    """The range of addresses of a module's functions. Raises ProbeError."""
    # Its symbols stand together; an emulated guest needs a second to match all lines.
    name = b"\t[" + module + b"]"
    start = kallsyms.rfind(b"\n", 0, max(kallsyms.find(name), 0)) + 1
    own = kallsyms[start : kallsyms.rfind(name) + len(name)]
    found = re.findall(rb"^([0-9a-f]+) [tT] \S+\t\[" + module + rb"\]$", own, re.M)
    addresses = [int(word, 16) for word in found]
    if not any(addresses):
        raise ProbeError(f"{module.decode()} is not loaded, or its addresses are hidden")
    # The length of the last function is unknown; text ends on a page.
    return min(addresses), (max(addresses) | (mmap.PAGESIZE - 1)) + 1


def _flags(context: list[str], vmlinux: bytes) -> list[str]:
    """The macros of the program's text, and options that make its compiler faster.

    bcc includes the kernel's headers for log2 and pages in every program, and asks for
    debug information. Without them the compiler needs 40 % less time, which is seconds
    in an emulated guest. Only PAGE_SIZE is used.
    """
    return [
        *("-g0", "-D_LINUX_LOG2_H", "-D_ASM_X86_PAGE_H", f"-DPAGE_SIZE={mmap.PAGESIZE}"),
        f"-DRING_PAGES={_RING_PAGES}",
        *context,
        f"-DTASK_PID={btf.member_offset(vmlinux, b'task_struct', b'pid')}",
        f"-DTASK_SLEEP={btf.member_offset(vmlinux, b'task_struct', b'__state')}",
        *realtime_flags(),
        f"-DPID_MAX={int(PID_MAX.read_text())}",
    ]


@dataclass(frozen=True)
class Counters:
    """The kernel part's counts at one moment.

    ``strays``: by thread, wakes and sleeps outside any wait, from the kernel's functions.
    """

    losses: Losses
    tallies: dict[int, Tally]
    strays: dict[int, tuple[int, int]]


class Probe(contextlib.AbstractContextManager["Probe"]):
    """The loaded probe. A context manager; leaving it detaches everything.

    The kernel part never wakes its reader, so :meth:`drain` must be called about once a
    second, or the ring overflows.

    Args:
        stacks: Record stacks of waits and signals that look wrong, which costs more than
            everything else together.
        quiet: Leave out signals of queues on which no thread has ever waited.

    Raises:
        ProbeError: The probe cannot be loaded here.
    """

    def __init__(self, *, stacks: bool = False, quiet: bool = False) -> None:
        started = time.monotonic()
        kallsyms = KALLSYMS.read_bytes()
        text = text_of(kallsyms, MODULE)
        try:
            vmlinux = Path(btf.VMLINUX).read_bytes()
            flags, values = _flags(context_flags(kallsyms), vmlinux), context_values(kallsyms)
            source = Source(HEADER.read_bytes() + PROGRAM.read_bytes(), tuple(flags), tuple(values))
            self._bpf = load(source, values=values)
            self.compiled = self._bpf.compiled
            """Was the compiler needed?"""
            self._ring = Ring(self._bpf[b"ring"].map_fd, _RING_PAGES * mmap.PAGESIZE)
        except ProbeError:
            raise
        except ImportError as exc:
            raise ProbeError("python3-bpfcc is not installed") from exc
        except Exception as exc:
            raise ProbeError(f"the probe does not load: {exc}") from exc
        # The names are made by bcc, and depend on its version.
        self._kernel: tuple[bytes, ...] = tuple(self._bpf.kfunc_entry_fds)
        self._set(_STACKS, stacks)
        self._set(_QUIET, quiet)
        self._set_text(text)
        self.attached = True
        self.log: IO[bytes] = tempfile.SpooledTemporaryFile(_MEMORY)
        self.load_seconds = time.monotonic() - started

    def __exit__(self, *_: object) -> None:
        self.log.close()
        self._ring.close()
        self._bpf.cleanup()

    def detach(self) -> None:
        """Detach from the module's tracepoints, which hold a reference to the module."""
        if self.attached:
            # No address is in the module then: without its events, nothing pairs with
            # the view of the kernel's functions.
            self._set_text((0, 0))
            for name in _RAW:
                self._bpf.detach_raw_tracepoint(name)
        self.attached = False

    @property
    def references(self) -> int:
        """How many references to the module it holds: one for each tracepoint."""
        return len(_RAW) if self.attached else 0

    def attach(self) -> None:
        """Attach again; the module may have been reloaded. Raises ProbeError."""
        if self.attached:
            return
        self._set_text(text_of(KALLSYMS.read_bytes(), MODULE))
        # The open waits may have ended unseen.
        waits, waiters = self._bpf[b"waits"], self._bpf[b"waiters"]
        for tid in waiters.keys():
            waits[waits.Key(tid.value)] = waits.Leaf()
        waiters.clear()
        for name in _RAW:
            self._bpf.attach_raw_tracepoint(tp=name, fn_name=b"raw_tracepoint__" + name)
        self.attached = True

    def rest(self) -> None:
        """Detach from everything, the kernel's own functions, too: the probe costs nothing then."""
        self.detach()
        for name in _kernel_events():
            self._bpf.detach_raw_tracepoint(name)
        for name in self._kernel:
            self._bpf.detach_kfunc(fn_name=name)

    def resume(self) -> None:
        """Attach again after :meth:`rest`. Raises ProbeError."""
        for name in _kernel_events():
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
        """Take the packed records out of the ring."""
        return self._ring.drain()

    def drain(self) -> None:
        """Move the records from the ring to the log."""
        self.log.write(b"".join(self.take()))

    def logged(self) -> bytes:
        """All packed records so far."""
        self.drain()
        self.log.seek(0)
        return self.log.read()

    def records(self) -> list[Record]:
        """All records so far, decoded; too slow for a loop."""
        return list(unpack(split(self.logged())))

    def objects(self, wanted: Callable[[ObjectRecord], bool]) -> list[ObjectRecord]:
        """The changes to objects so far that fulfil a condition."""
        return [r for r in self.records() if isinstance(r, ObjectRecord) and wanted(r)]

    def pending(self) -> list[bytes]:
        """The open waits, as packed records."""
        waits, found = self._bpf[b"waits"], []
        for tid in self._bpf[b"waiters"].keys():
            # The thread may have ended, or not be in a wait now.
            with contextlib.suppress(KeyError):
                wait = waits[waits.Key(tid.value)]
                if wait.kind:
                    found.append(bytes(wait))
        return found

    def counters(self) -> Counters:
        """The counts up to now."""
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
        """The names of threads (default: of all known ones)."""
        table = self._bpf[b"threads"]
        keys = table.keys() if tids is None else map(table.Key, tids)
        found = {}
        for key in keys:
            with contextlib.suppress(KeyError):
                found[int(key.value)] = table[key].text.decode(errors="replace")
        return found

    def frames(self, stacks: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The frames of stacks, innermost first, as ``symbol+0x12 [module]``."""
        from bcc import BPF  # late: few recordings have stacks, and its import takes long

        table, ksym = self._bpf[b"stacks"], BPF.ksym
        # Modules may have been loaded since bcc read the symbols.
        BPF._sym_caches.pop(-1, None)
        found = {}
        for number in stacks:
            names = [
                ksym(address, show_module=True, show_offset=True).decode().removesuffix(" [kernel]")
                for address in table.walk(number)
            ]
            # The innermost frames are the probe's own.
            found[number] = tuple(dropwhile(lambda frame: frame.startswith(_OWN_FRAMES), names))
        return found

    def stop(self, directory: Path) -> None:
        """Detach, and write head and records of the recording into ``directory``."""
        self.rest()
        t_stop = time.monotonic_ns()
        blob = b"".join([self.logged(), *self.pending()])
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RECORDS).write_bytes(blob)
        counters = self.counters()
        recording = Recording(
            records=(),
            tallies=counters.tallies,
            threads=self.threads(),
            losses=counters.losses,
            t_stop=t_stop,
            kernel=KernelView(counters.strays),
        )
        head = head_of(recording) | {"load_seconds": round(self.load_seconds, 3)}
        (directory / HEAD).write_text(json.dumps(head), encoding="utf-8")
