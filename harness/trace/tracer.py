# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Loads the kernel part, drains it to a file, and summarises its counts.

    with Tracer(Scope(modules=("rdma_rxe",)), directory) as tracer:
        ...                 # now and then: tracer.drain()
        tracer.stop()       # leaves recording.json, recording.bin, summary.json

Needs root, bcc (Debian's python3-bpfcc) and the kernel's headers, but none of the
project's modules and no other packages.
"""

import json
import mmap
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.probes import bpf, btf
from harness.probes.compiled import Source
from harness.probes.loader import (
    HEADER,
    REALTIME,
    ProbeError,
    context_flags,
    context_values,
    realtime_flags,
)
from harness.probes.program import Program, load
from harness.probes.ring import Ring
from harness.recording import HEAD, RECORDS
from harness.recording.records import EnderRecord, StackRecord, WaitRecord, split, unpack
from harness.trace.bpf import create_ring, mapped, ring_bytes
from harness.trace.keyed import Key, futex_name, key_name, process_of_futex
from harness.trace.kprobes import KprobeError, Kprobes
from harness.trace.scope import Scope
from harness.trace.summary import SUMMARY, Row, Summary, sleeping_stack, spread, stuck
from harness.trace.symbols import History, Symbols, below_tracepoint, place, queue_name
from harness.trace.userstacks import UserStacks
from harness.verdict.ledger import class_name

PROGRAM = tuple(
    Path(__file__).with_name(f"{name}.bpf.c")
    for name in (
        *("state", "keyed", "queues", "aims", "waits", "wakes", "works"),
        *("locks", "scheduler", "marks"),
    )
)
"""One program in several files, after records.h. Each file depends on those before it."""
_KALLSYMS, _MODULES = Path("/proc/kallsyms"), Path("/proc/modules")
_LOSSES = ("ring", "waits", "queues", "unpaired")
# The words for the program's kinds of queues.
_KINDS = {
    1: "queue",
    2: "completion",
    3: "mutex",
    4: "rw_semaphore",
    5: "rt_mutex",
    6: "rw_semaphore",
    7: "percpu_rw_semaphore",
    8: "semaphore",
    16: "swait queue",
}
_BIT, _FOLIO, _FUTEX = 17, 18, 20
_THREAD, _FLUSH, _RCU, _WORK = range(32, 36)
# About a microsecond each, while another CPU writes to the ring.
_RING_TRIES = 500

# All functions that sleep on a completion; their code is in one piece of the kernel's text.
_COMPLETIONS = tuple(
    f"wait_for_completion{suffix}"
    for suffix in (
        *("", "_timeout", "_interruptible", "_interruptible_timeout", "_killable"),
        *("_killable_timeout", "_state", "_io", "_io_timeout"),
    )
)

# Takes from a completion, and never sleeps.
_TRY_WAIT = "try_wait_for_completion"

# The kernel's functions, by our programs.
_FUNCTIONS = {
    function: program
    for program, functions in {
        "on_enqueue": (
            *("prepare_to_wait", "prepare_to_wait_exclusive", "prepare_to_wait_event"),
            *("add_wait_queue", "add_wait_queue_exclusive", *_COMPLETIONS, _TRY_WAIT),
            *("prepare_to_swait_exclusive", "prepare_to_swait_event"),
            *("folio_wait_bit", "folio_wait_bit_killable", "folio_put_wait_locked"),
            *("__folio_lock", "__folio_lock_killable", "__wait_on_bit", "__wait_on_bit_lock"),
            *(f"out_of_line_wait_on_bit{suffix}" for suffix in ("", "_timeout", "_lock")),
            *("futex_wait_queue", "futex_do_wait"),
        ),
        "on_finish": ("finish_wait", "remove_wait_queue", "finish_swait"),
        "on_wake": (
            *("__wake_up_common", "complete", "complete_all", "wake_up_bit", "wake_up_var"),
            *("swake_up_one", "swake_up_all", "swake_up_locked", "futex_wake"),
        ),
        "on_wake_function": ("default_wake_function",),
        "on_pollwake": ("pollwake",),
        "on_aim": (
            *("kthread_stop", "kthread_park", "__flush_work", "__wait_rcu_gp"),
            *("__synchronize_srcu", "synchronize_rcu_normal"),
            # The compiler may have moved the part that sleeps.
            *("__synchronize_srcu.part.0", "synchronize_rcu_normal.part.0"),
        ),
        "on_delay": ("__queue_delayed_work",),
        "on_grab": ("try_to_grab_pending",),
        "on_timer": ("process_timeout", "hrtimer_wakeup"),
        "on_signal": ("signal_wake_up_state",),
    }.items()
    for function in functions
}
# Futexes are a matter of processes: no module and no address in the kernel selects them.
_FUTEXES = frozenset(("futex_wait_queue", "futex_do_wait", "futex_wake"))
# Without these no trace is possible. Of the others those are traced that the kernel has.
_NEEDED = frozenset(
    (
        *("prepare_to_wait", "prepare_to_wait_exclusive", "prepare_to_wait_event"),
        *("add_wait_queue", "add_wait_queue_exclusive", "finish_wait", "remove_wait_queue"),
        *("__wake_up_common", "default_wake_function", "wait_for_completion"),
        *("complete", "complete_all", "process_timeout", "hrtimer_wakeup"),
        "signal_wake_up_state",
    )
)
# Functions and variables that the program knows by their addresses, which are 0 if the
# kernel does not have them.
_ADDRESSES = {
    "WAKE_UP_COMMON": "__wake_up_common",
    "COMPLETE_ALL": "complete_all",
    "SWAIT_EXCLUSIVE": "prepare_to_swait_exclusive",
    "SWAIT_EVENT": "prepare_to_swait_event",
    "SWAKE_ONE": "swake_up_one",
    "SWAKE_ALL": "swake_up_all",
    "SWAKE_LOCKED": "swake_up_locked",
    "FOLIO_BIT": "folio_wait_bit",
    "FOLIO_BIT_KILLABLE": "folio_wait_bit_killable",
    "FOLIO_LOCK": "__folio_lock",
    "FOLIO_LOCK_KILLABLE": "__folio_lock_killable",
    "FOLIO_PUT": "folio_put_wait_locked",
    "WAIT_ON_BIT": "__wait_on_bit",
    "WAIT_ON_BIT_LOCK": "__wait_on_bit_lock",
    "OUT_OF_LINE": "out_of_line_wait_on_bit",
    "OUT_OF_LINE_TIMEOUT": "out_of_line_wait_on_bit_timeout",
    "OUT_OF_LINE_LOCK": "out_of_line_wait_on_bit_lock",
    "NOTE_BIT": "wake_up_bit",
    "NOTE_VARIABLE": "wake_up_var",
    "FUTEX_QUEUE": "futex_wait_queue",
    "FUTEX_DO": "futex_do_wait",
    "FUTEX_WAKE": "futex_wake",
    "WAKE_BIT": "wake_bit_function",
    "WAKE_VARIABLE": "var_wake_function",
}
# The kernel's functions that call swake_up_locked() themselves.
_SWAKERS = ("swake_up_one", "swake_up_all_locked", "complete", "complete_all")
# Variables, and functions to the end of their code.
_SPANS = {
    "BIT_TABLE": "bit_wait_table",
    "FOLIO_TABLE": "folio_wait_table",
    "RCU_STATE": "rcu_state",
    "KTHREAD_STOP": "kthread_stop",
    "KTHREAD_PARK": "kthread_park",
    "FLUSH_WORK": "__flush_work",
    "WAIT_RCU": "__wait_rcu_gp",
    "WAIT_SRCU": "__synchronize_srcu",
    "WAIT_SRCU_PART": "__synchronize_srcu.part.0",
    "WAIT_RCU_NORMAL": "synchronize_rcu_normal",
    "WAIT_RCU_PART": "synchronize_rcu_normal.part.0",
}
# The programs of works.bpf.c.
_WORKS = frozenset(
    (
        *("on_delay", "on_grab"),
        *(
            f"raw_tracepoint__{event}"
            for event in (
                *("workqueue_queue_work", "workqueue_execute_start", "workqueue_execute_end"),
                *("timer_start", "timer_cancel"),
            )
        ),
    )
)
_WITH_STACKS = WaitRecord.FORMAT.size + StackRecord.FORMAT.size
# Numbers of a module's parts since 6.4.
_PARTS = {"MODULE_TEXT": 0, "MODULE_DATA": 1, "MODULE_INIT": 4}
_HEAD_BYTES = 16  # FUNCTION_HEAD in the program
# Fields of a row that have the same name in struct stats.
_SAME = "address waits slept wakes found spurious timeouts interrupted deepest".split()
_BOOKMARKS = "__wake_up_locked_key_bookmark"
_FORK = "raw_tracepoint__sched_process_fork"
_CONTENTION = ("raw_tracepoint__contention_begin", "raw_tracepoint__contention_end")
# LOCK_ENTRY (its upper half) and LOCK_LOOK in the program.
_LOCK_ENTRY, _LOOK = 1, 1 << 16
_SEVERAL_OBJECTS = 0xFFFFFFFF
# Of kfabric: the wake function of its sleepers, and where a queue has its owner.
_KFABRIC = ("kfi_wake_function", "kfi_waitq_layout")
_MODULE_LOAD = "raw_tracepoint__module_load"


class Tracer(AbstractContextManager["Tracer"]):
    """The loaded tracer. A context manager; leaving it removes all probes.

    The kernel part never wakes its reader, so :meth:`drain` must be called a few times a
    second, or the ring overflows.

    Args:
        scope: The queues to trace.
        directory: The directory for the recording; created if need be.
        ring_mib: The memory of all CPUs' rings together, in MiB.
        max_queues: The highest number of queues; further ones are counted as losses.

    Raises:
        ProbeError: The tracer cannot be loaded here.
    """

    def __init__(
        self, scope: Scope, directory: Path, *, ring_mib: float = 32, max_queues: int = 4096
    ) -> None:
        began = time.monotonic()
        self.scope = scope
        self.directory = directory
        self.seconds: dict[str, float] = {}
        self._cpus = os.cpu_count() or 1
        self._ring_bytes = ring_bytes(ring_mib, self._cpus)
        self._max_queues = max_queues
        self._stopped = False
        self._last_modules = ""
        self._kallsyms = _KALLSYMS.read_bytes()
        self.symbols = Symbols(self._kallsyms, _MODULES.read_text(encoding="ascii"))
        self._history = History(self.symbols)
        self._note("symbols", began)
        try:
            self._bpf = self._load()
        except ImportError as error:
            raise ProbeError("python3-bpfcc is not installed") from error
        except ProbeError:
            raise
        except Exception as error:
            raise ProbeError(f"the tracer does not load: {error}") from error
        self._note("compile and load" if self._bpf.compiled else "load", began)
        self._stats = mapped(self._bpf[b"stats"], max_queues)
        self._switches = mapped(self._bpf[b"switches"], 1)
        self._losses = mapped(self._bpf[b"losses"], len(_LOSSES))
        self._names: dict[tuple[int, int, int], str] = {}
        self._users = UserStacks()
        # By queue: names that were certain before a module went away.
        self._variables: dict[int, str] = {}
        self._ranges: dict[str, bool] = {}
        self._marked: dict[str, str] = {}
        """The module of each marked function; empty for the kernel."""
        self._late: dict[str, dict[str, int]] = {}
        self._found: set[str] = set()
        self._addresses: dict[str, list[int]] = {}
        self._open(began)

    def _open(self, began: float) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._file = (self.directory / RECORDS).open("wb")
        self._rings = self._make_rings()
        self._kprobes = Kprobes()
        numbers = self._bpf[b"module_numbers"]
        for number, name in enumerate(self.scope.modules):
            numbers[numbers.Key(name.encode())] = numbers.Leaf(number)
        try:
            self.refresh()
            if self.scope.pid:
                self.follow(self.scope.pid)
            unwanted = self._unwanted()
            for function, program in _FUNCTIONS.items():
                if self._has(function) and program not in unwanted:
                    self._probe(function, self._needed(function), program)
        except BaseException:
            self.close()
            raise
        self._note("attach", began)
        self.load_seconds = time.monotonic() - began
        self.t_start = time.monotonic_ns()
        self._switches[0] = 1

    def _make_rings(self) -> list[Ring]:
        """Make one ring for each CPU; the map "ring" is the first CPU's."""
        rings, table = [], self._bpf[b"rings"]
        for cpu in range(self._cpus):
            fd = create_ring(self._ring_bytes) if cpu else self._bpf[b"ring"].map_fd
            table[table.Key(cpu)] = table.Leaf(fd)
            rings.append(Ring(fd, self._ring_bytes))
            if cpu:
                os.close(fd)
        return rings

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the probes. May be called again."""
        self._kprobes.close()
        self._file.close()
        if not self._stopped:
            self._stopped = True
            for ring in self._rings:
                ring.close()
            self._bpf.cleanup()

    def _note(self, step: str, began: float) -> None:
        spent = sum(self.seconds.values())
        self.seconds[step] = round(time.monotonic() - began - spent, 3)

    def _load(self) -> Program:
        text = b"".join(path.read_bytes() for path in (HEADER, *PROGRAM))
        values, unwanted = self._values(), self._unwanted()
        return load(
            Source(text, tuple(self._flags()), tuple(values)),
            values=values,
            sizes={"ring": self._ring_bytes, "rings": self._cpus},
            inner={"rings": "ring"},
            wanted=lambda name: name not in unwanted,
        )

    def _unwanted(self) -> set[str]:
        """The program's functions that this trace or this kernel does not need."""
        scope = self.scope
        here = {name for function, name in _FUNCTIONS.items() if self._has(function)}
        names = {*_FUNCTIONS.values()} - here
        names |= set() if scope.publish else {"on_publish"}
        names |= set() if scope.take else {"on_take"}
        # Unless it is seen that items are cancelled, they would seem to be pending.
        names |= _WORKS if scope.queue or not self._has("try_to_grab_pending") else set()
        # Kernels before 5.19 do not have them.
        if self.symbols.address("__traceiter_contention_begin") is None:
            names.update(_CONTENTION)
        names |= set() if scope.publish or scope.take else {"on_return"}
        names |= set() if scope.modules else {_MODULE_LOAD}
        return names | (set() if scope.by_tree or scope.pid else {_FORK})

    def _has(self, function: str) -> bool:
        if function in _FUTEXES and not self.scope.by_tree:
            return False
        return function in _NEEDED or self.symbols.address(function) is not None

    def _flags(self) -> list[str]:
        """The macros of the program's text, and options that make its compiler faster."""
        return [
            # See harness/probes/loader.py. bcc optimizes the compiler's output itself.
            *("-O1", "-g0", "-D_LINUX_LOG2_H", "-D_ASM_X86_PAGE_H", f"-DPAGE_SIZE={mmap.PAGESIZE}"),
            "-DRING_PAGES=1",
            f"-DRING_TRIES={_RING_TRIES}",
            *context_flags(self._kallsyms),
            f"-DMAX_QUEUES={self._max_queues}",
            *_offsets(),
            *realtime_flags(),
            f"-DBOOKMARKS={int(self.symbols.address(_BOOKMARKS) is not None)}",
            f"-DBY_THREAD={int(REALTIME.exists())}",
        ]

    def _values(self) -> dict[str, int]:
        """The program's numbers that are not compiled in: addresses, and the scope."""
        scope = self.scope
        completions = [self.symbols.address(name) or 0 for name in _COMPLETIONS if self._has(name)]
        return {
            **context_values(self._kallsyms),
            "OWN_TGID": os.getpid(),
            "WITH_STACKS": int(scope.stacks),
            "WITH_USER_STACKS": int(scope.user_stacks),
            "COMPLETION_BEGIN": min(completions),
            "COMPLETION_END": max(completions) + _HEAD_BYTES,
            "TRY_WAIT": self._needed(_TRY_WAIT),
            "PROG_ACTIVE": self._needed("bpf_prog_active"),
            "CURRENT_KPROBE": self._needed("current_kprobe"),
            **self._section("ENTRY_TEXT", "__entry_text"),
            **self._section("SOFTIRQ_TEXT", "__softirqentry_text"),
            **self._section("SCHED_TEXT", "__sched_text"),
            **{value: self.symbols.address(name) or 0 for value, name in _ADDRESSES.items()},
            **self._spans(),
            "BY_MODULE": int(bool(scope.modules)),
            "BY_TREE": int(scope.by_tree),
            "BY_QUEUE": self._queue_address(),
            "ONLY_TREE": int(bool(scope.pid and not scope.by_tree)),
        }

    def _needed(self, name: str) -> int:
        """A symbol's address. Raises ProbeError."""
        found = self.symbols.address(name)
        if found is None:
            raise ProbeError(f"this kernel has no symbol {name}, or hides its address")
        return found

    def _section(self, value: str, name: str) -> dict[str, int]:
        """The bounds of a section of the kernel's text; empty if they are unknown."""
        start, end = (self.symbols.address(f"{name}_{edge}") or 0 for edge in ("start", "end"))
        return {value: start, f"{value}_END": end}

    def _spans(self) -> dict[str, int]:
        """The addresses and sizes of variables and pieces of text; 0 if they are unknown."""
        names = {value: (name,) for value, name in _SPANS.items()} | {"SWAKERS": _SWAKERS}
        values: dict[str, int] = {}
        for value, symbols in names.items():
            spans = [span for name in symbols if (span := self.symbols.span(name))]
            start = min((first for first, _ in spans), default=0)
            end = max((after for _, after in spans), default=0)
            values |= {value: start, f"{value}_SIZE": end - start}
        return values

    def _queue_address(self) -> int:
        wanted = self.scope.queue
        if not wanted:
            return 0
        if self.scope.address is not None:
            return self.scope.address
        base, _, offset = wanted.partition("+")
        return self._needed(base) + (int(offset, 0) if offset else 0)

    def _probe(self, function: str, address: int, program: str) -> None:
        try:
            self._kprobes.attach(function, address, self._bpf.function(program))
        except KprobeError as error:
            raise ProbeError(str(error)) from error

    def _mark(self, function: str, address: int, program: str) -> None:
        """Run a program when a function begins, and on_return when it returns."""
        probes = self._probes_of_marks()
        try:
            # First, so that no call is seen without its return.
            probes.attach_return(function, address, self._bpf.function("on_return"))
            probes.attach(function, address, self._bpf.function(program))
        except KprobeError as error:
            raise ProbeError(str(error)) from error

    def _probes_of_marks(self) -> Kprobes:
        return self._kprobes

    def follow(self, pid: int) -> None:
        """Trace a process, and those that it forks from now on."""
        tree = self._bpf[b"tree"]
        tree[tree.Key(pid)] = tree.Leaf(1)

    def refresh(self) -> None:
        """Look for modules that were loaded or that are gone, and for their functions."""
        loaded = _MODULES.read_text(encoding="ascii")
        if loaded == self._last_modules:
            return
        self._last_modules = loaded
        self._read_symbols(loaded)
        for name in self.scope.modules:
            self._ranges[name] = self._set_ranges(name)
        self._found |= {name for name, found in self._ranges.items() if found}
        self._find_kfabric()
        gone = {*self._marked.values()} - {"", *self.symbols.modules}
        for name in [name for name, module in self._marked.items() if module in gone]:
            del self._marked[name]
        for names, program in ((self.scope.publish, "on_publish"), (self.scope.take, "on_take")):
            for name in names:
                address = self.symbols.address(name)
                if name not in self._marked and address is not None:
                    self._mark_now(name, address, program)

    def _mark_now(self, name: str, address: int, program: str) -> None:
        """Mark a function; during the trace its module may go at this moment."""
        try:
            self._mark(name, address, program)
        except ProbeError:
            if self._switches[0]:
                return
            raise
        self._note_mark(name, address)

    def _read_symbols(self, loaded: str) -> None:
        """Read the symbols again if there are other modules, and keep the names so far."""
        fresh = Symbols(b"", loaded).modules
        if fresh == self.symbols.modules:
            return
        for number, queue in self._queues().items():
            if name := self._history.variable(queue.address):
                self._variables.setdefault(number, name)
        self._kallsyms = _KALLSYMS.read_bytes()
        self.symbols = Symbols(self._kallsyms, loaded)
        self._history.add(self.symbols)

    def _find_kfabric(self) -> None:
        """Pass the addresses by which the kernel part knows the queues of kfabric."""
        table = self._bpf[b"kfabric"]
        found = [self.symbols.address(name, "kfabric") or 0 for name in _KFABRIC]
        loaded = "kfabric" in self.symbols.modules and all(found)
        table[table.Key(0)] = table.Leaf(*(found if loaded else (0, 0)))

    def _note_mark(self, name: str, address: int) -> None:
        """Remember a mark, and how late it is if the trace had begun."""
        self._found.add(name)
        self._addresses.setdefault(name, []).append(address)
        symbol = self.symbols.find(address)
        module = self._marked[name] = symbol.module if symbol else ""
        if not self._switches[0]:
            return
        coming = 0
        if module in self.scope.modules:
            coming = self._bpf[b"comings"][self.scope.modules.index(module)].value
        self._late[name] = {"coming": coming, "attached": time.monotonic_ns()}

    def _calls(self) -> dict[str, int]:
        """How often each marked function was called."""
        if not self._addresses:
            return {}
        called = {key.value: count.value for key, count in self._bpf[b"mark_counts"].items()}
        return {
            name: sum(n for at, n in called.items() if any(0 <= at - a < _HEAD_BYTES for a in mine))
            for name, mine in self._addresses.items()
        }

    def _set_ranges(self, name: str) -> bool:
        """Pass a module's address ranges to the kernel part. False: it is not loaded."""
        index = self.scope.modules.index(name)
        text, data = (self.symbols.range_of(name, code=code) for code in (True, False))
        table = self._bpf[b"modules"]
        places = table[table.Key(0)]
        for ranges, found in ((places.text, text), (places.data, data)):
            ranges[index].start, ranges[index].end = found or (0, 0)
        if not self.symbols.is_loading(name):
            places.init[index].start = places.init[index].end = 0
        table[table.Key(0)] = places
        return text is not None

    @property
    def missing(self) -> list[str]:
        """Modules and functions that have not been found."""
        marks = {*self.scope.publish, *self.scope.take} - {*self._marked}
        return sorted({name for name, found in self._ranges.items() if name and not found} | marks)

    def _never_found(self) -> tuple[str, ...]:
        """Those that have never been there, also not for a while."""
        return tuple(name for name in self.missing if name not in self._found)

    def drain(self) -> int:
        """Move the rings' records to the file; return how many."""
        count = 0
        for ring in self._rings:
            records = ring.drain()
            self._file.write(b"".join(records))
            # A wait and its stacks are written together.
            stacked = [record for record in records if len(record) == _WITH_STACKS]
            count += len(records) + len(stacked)
            if self.scope.user_stacks:
                self._meet(stacked)
        return count

    def _meet(self, stacked: Iterable[bytes]) -> None:
        """Pass on the user stacks of waits while their threads are still there."""
        for record in stacked:
            wait, stacks = unpack(split(record))
            assert isinstance(wait, WaitRecord) and isinstance(stacks, StackRecord)
            self._users.meet(stacks.user_sleeper, wait.tid)
            self._users.meet(stacks.user_waker, wait.waker)

    def rows(self) -> list[Row]:
        """The counts of each traced queue, the busiest first."""
        return self._rows(self._queues())

    def _queues(self) -> dict[int, Any]:
        return {number: queue for number, queue in enumerate(self._stats) if queue.wanted}

    def _rows(self, queues: dict[int, Any]) -> list[Row]:
        rows = []
        for number, s in queues.items():
            if not (s.waits or s.seq or s.depth):
                continue
            rows.append(
                Row(
                    number=number,
                    name=self._queue_name(number, s),
                    calls=s.seq,
                    latency=spread(s.latency),
                    **{field: getattr(s, field) for field in _SAME},
                )
            )
        return sorted(rows, key=lambda row: (row.waits, row.calls), reverse=True)

    def _queue_name(self, number: int, queue: Any) -> str:
        """A queue's name, which is looked up once for each stack."""
        known = number, queue.stack, queue.slept_on
        if known not in self._names:
            self._names[known] = self._find_name(number, queue)
        return self._names[known]

    def _find_name(self, number: int, queue: Any) -> str:
        if queue.object not in (0, _SEVERAL_OBJECTS):
            return self._object_name(queue)
        # Reading a stack disturbs the probes: while they are set, the caller must suffice.
        frames = () if self._switches[0] else self._frames(queue.stack)
        slept_on = frames if queue.slept_on else ()
        if queue.site and not slept_on:
            slept_on = (self._history.name(queue.site),)
        if queue.kind in (_FLUSH, _WORK):
            item = f"work item {self._history.name(queue.site)}"
            return item if queue.kind == _WORK else f"flush of {item}"
        if queue.kind == _RCU:
            return "RCU grace period"
        if queue.kind == _THREAD:
            return f"end of a thread's work, waited for in {place(slept_on)}"
        if queue.kind == _FUTEX:
            process = process_of_futex(queue.address)
            return futex_name(queue.site, process, self._comm(process))
        if queue.kind in (_BIT, _FOLIO):
            key = Key.of(queue.address)
            variable = self._history.variable(key.word)
            return key_name(key, variable, slept_on, frames, folio=queue.kind == _FOLIO)
        return queue_name(
            self._variables.get(number) or self._history.variable(queue.address),
            slept_on,
            frames,
            kind=_KINDS.get(queue.kind, "queue"),
            on_stack=bool(queue.on_stack),
        )

    def _object_name(self, queue: Any) -> str:
        """The name of a queue of kfabric, with the first thread that slept on it."""
        name = f"{class_name(queue.fclass)} {queue.object}"
        comm = self._comm(queue.owner_tid) if queue.owner_tid else ""
        return f"{name} ({comm})" if comm else name

    def _comm(self, tid: int) -> str:
        """A thread's name; empty while the probes are set, which a look-up disturbs."""
        threads = self._bpf[b"threads"]
        with suppress(KeyError):
            if not self._switches[0]:
                return str(threads[threads.Key(tid)].text.decode(errors="replace"))
        return ""

    def _frames(self, stack: int) -> tuple[str, ...]:
        if stack < 0:
            return ()
        names = tuple(map(self._history.name, self._bpf[b"stacks"].walk(stack)))
        return below_tracepoint(names)

    def losses(self) -> dict[str, int]:
        """The counts of lost events, by kind."""
        return dict(zip(_LOSSES, self._losses, strict=True))

    def stop(self) -> Summary:
        """Remove the probes and write the recording; to be called once.

        Open waits are recorded with the stacks of their threads, so call it before the
        threads end.
        """
        self._switches[0] = 0
        t_stop = time.monotonic_ns()
        works = self._pending_works()
        asleep = self._look_at_holders(t_stop) | self._asleep(works)
        for event in list(self._bpf.raw_tracepoint_fds):
            self._bpf.detach_raw_tracepoint(event)
        self._kprobes.close()
        while self.drain():
            pass
        queues = self._queues()
        pending = list(self._pending_waits(queues))
        self._file.write(b"".join(bytes(each.r) for each in (*pending, *works)))
        self._file.close()
        self._read_symbols(_MODULES.read_text(encoding="ascii"))
        self._names.clear()
        rows = self._rows(queues)
        names = {number: self._queue_name(number, queue) for number, queue in queues.items()}
        threads = {
            tid.value: comm.text.decode(errors="replace")
            for tid, comm in self._bpf[b"threads"].items()
        }
        summary = Summary(
            rows=tuple(rows),
            stuck=tuple(
                stuck(
                    wait.r, names[wait.r.queue], threads, self._frames(wait.stack.sleeper), t_stop
                )
                for wait in pending
            ),
            losses=self.losses(),
            load_seconds=round(self.load_seconds, 3),
            seconds=round((t_stop - self.t_start) / 1e9, 3),
            steps=self.seconds,
            unstacked=self._bpf[b"unstacked"][0].value,
            missing=self._never_found(),
            late={
                name: late["attached"] - late["coming"] if late["coming"] else 0
                for name, late in self._late.items()
            },
        )
        self._leave(summary, rows, names, threads, pending, asleep, t_stop)
        return summary

    def _pending_works(self) -> list[Any]:
        """The traced work items that are pending, each with a worker that is busy instead."""
        works = [work for work in self._bpf[b"works"].values() if work.wanted]
        busy = {pwq.value: runner for pwq, runner in self._bpf[b"busy"].items()} if works else {}
        for work in works:
            if runner := busy.get(work.pwq):
                known = work.r.busy == runner.tid
                work.r.busy, work.r.t_busy = runner.tid, time.monotonic_ns()
                work.r.busy_queue = work.r.busy_queue if known else 0
        return works

    def _asleep(self, works: list[Any]) -> dict[int, tuple[str, ...]]:
        """Where threads sleep that keep others waiting, or work items from running."""
        tids = {wait.ender for wait in self._bpf[b"open_waits"].values()}
        tids |= {work.r.busy for work in works}
        found = {tid: sleeping_stack(tid) for tid in tids if tid}
        return {tid: frames for tid, frames in found.items() if frames}

    def _items(self, names: dict[int, str]) -> dict[int, str]:
        """The names of the functions of work items, by number."""
        queues = self._queues().items()
        return {number: names[number] for number, queue in queues if queue.kind == _WORK}

    def _look_at_holders(self, now: int) -> dict[int, tuple[str, ...]]:
        """Note which threads hold the locks that others wait for; return where those sleep."""
        waiting = [
            key.value for key in self._bpf[b"open_waits"].keys() if key.value >> 32 == _LOCK_ENTRY
        ]
        for entry in waiting:
            bpf.run(self._bpf.function(_CONTENTION[0]), entry & 0xFFFFFFFF, _LOOK)
        holders: set[int] = set()
        for ring in self._rings if waiting else ():
            records = ring.drain()
            self._file.write(b"".join(records))
            found = unpack(record for record in records if record[0] == EnderRecord.KIND)
            holders |= {r.ender for r in found if isinstance(r, EnderRecord) and r.t >= now}
        return {tid: frames for tid in holders if (frames := sleeping_stack(tid))}

    def _pending_waits(self, queues: dict[int, Any]) -> Iterator[Any]:
        """The open waits on queues."""
        for wait in self._bpf[b"open_waits"].values():
            if wait.r.queue in queues and wait.r.tgid != os.getpid():
                self._complete(wait)
                # The bit was clear if the thread did not sleep, so the wait is over.
                if wait.kind not in (_BIT, _FUTEX) or wait.r.sleeps:
                    yield wait

    def _complete(self, wait: Any) -> None:
        """Fill in the sleeps of an open wait, which are kept with its thread until its end."""
        sleepers = self._bpf[b"sleepers"]
        with suppress(KeyError):
            sleeper = sleepers[sleepers.Key(wait.r.tid)]
            wait.r.sleeps = min(sleeper.sleeps - wait.sleeps_before, 255)
            if wait.r.sleeps:
                wait.r.t_slept, wait.r.state = sleeper.t_slept, sleeper.state
            else:
                wait.r.t_slept = 0

    def _leave(
        self,
        summary: Summary,
        rows: list[Row],
        names: dict[int, str],
        threads: dict[int, str],
        pending: list[Any],
        asleep: dict[int, tuple[str, ...]],
        t_stop: int,
    ) -> None:
        waiting: dict[int, list[Any]] = {}
        for wait in pending:
            waiting.setdefault(wait.r.queue, []).append(wait.r)
        head = {
            "t_stop": t_stop,
            "losses": summary.losses,
            "tallies": {
                row.number: _tally(self._stats[row.number], waiting.get(row.number, []))
                for row in rows
            },
            "threads": threads,
            "queues": {row.number: names[row.number] for row in rows} | self._items(names),
            "stacks": self._all_stacks(),
            "asleep": asleep,
            "marks": self._calls(),
            "take_marked": bool(self.scope.take),
            "missing": summary.missing,
            "late": self._late,
            "load_seconds": summary.load_seconds,
        }
        (self.directory / HEAD).write_text(json.dumps(head), encoding="utf-8")
        text = json.dumps(asdict(summary), indent=1)
        (self.directory / SUMMARY).write_text(text, encoding="utf-8")

    def _all_stacks(self) -> dict[int, tuple[str, ...]]:
        if not (self.scope.stacks or self.scope.publish or self.scope.take):
            return {}
        table = self._bpf[b"stacks"]
        names: dict[int, str] = {}
        found = {}
        for key in table.keys():
            addresses = list(table.walk(key.value))
            if self._users.knows(key.value):
                found[key.value] = self._users.frames(key.value, addresses)
                continue
            for address in addresses:
                if address not in names:
                    names[address] = self._history.name(address)
            found[key.value] = below_tracepoint([names[address] for address in addresses])
        return found


def _tally(stats: Any, pending: list[Any]) -> dict[str, int]:
    """The counts of one queue, for comparison with its records."""
    return {
        "signals": stats.seq,
        "wakes": stats.earlier + stats.ended_wakes + sum(bool(rec.t_wake) for rec in pending),
        "begins": stats.waits + len(pending),
        "ends": stats.waits,
    }


def _offsets() -> Iterator[str]:
    """The offsets of a task's id, and of the sleepers in a queue, as macros."""
    vmlinux = Path(btf.VMLINUX).read_bytes()
    for macro, name, member in (
        ("TASK_PID", b"task_struct", b"pid"),
        ("TASK_COMM", b"task_struct", b"comm"),
        ("TASK_LEADER", b"task_struct", b"group_leader"),
        ("WORK_FUNCTION", b"work_struct", b"func"),
        ("WORK_TIMER", b"delayed_work", b"timer"),
        ("TASK_EXIT_STATE", b"task_struct", b"exit_state"),
        ("TASK_SLEEP", b"task_struct", b"__state"),
        ("TASK_PENDING", b"task_struct", b"pending"),
        ("TASK_BLOCKED", b"task_struct", b"blocked"),
        ("TASK_SIGNAL", b"task_struct", b"signal"),
        ("SIGNAL_SHARED", b"signal_struct", b"shared_pending"),
        ("SIGPENDING_SET", b"sigpending", b"signal"),
        ("QUEUE_LIST", b"wait_queue_head", b"head"),
        ("SWAITS_LIST", b"swait_queue_head", b"task_list"),
    ):
        yield f"-D{macro}={btf.member_offset(vmlinux, name, member)}"
    yield f"-DQUEUE_BYTES={btf.struct_size(vmlinux, b'wait_queue_head')}"
    # Without PREEMPT_RT there is no rwbase_rt, and with it the first two have other members.
    for macro, name, member in (
        ("FUTEX_KEY", b"futex_q", b"key"),
        ("MUTEX_OWNER", b"mutex", b"owner"),
        ("RWSEM_OWNER", b"rw_semaphore", b"owner"),
        ("RT_MUTEX_OWNER", b"rt_mutex_base", b"owner"),
        ("RT_RWSEM_MUTEX", b"rwbase_rt", b"rtmutex"),
    ):
        offset = 0
        with suppress(btf.BtfError):
            offset = btf.member_offset(vmlinux, name, member)
        yield f"-D{macro}={offset}"
    for macro, offset in _module_offsets(vmlinux).items():
        yield f"-D{macro}={offset}"


def _module_offsets(vmlinux: bytes) -> dict[str, int]:
    """The offsets of a module's name, and of the places of its code and variables."""
    places = {"MODULE_NAME": btf.member_offset(vmlinux, b"module", b"name"), "MODULE_DATA_FROM": 0}
    try:
        parts = btf.member_offset(vmlinux, b"module", b"mem")
    except btf.BtfError:
        # Before 6.4: code, constants and variables are in one piece.
        core, init = (
            btf.member_offset(vmlinux, b"module", name) for name in (b"core_layout", b"init_layout")
        )
        base, text, size = (
            btf.member_offset(vmlinux, b"module_layout", name)
            for name in (b"base", b"text_size", b"size")
        )
        return places | {
            "MODULE_TEXT": core + base,
            "MODULE_TEXT_SIZE": core + text,
            "MODULE_DATA": core + base,
            "MODULE_DATA_FROM": core + text,
            "MODULE_DATA_SIZE": core + size,
            "MODULE_INIT": init + base,
            "MODULE_INIT_SIZE": init + text,
        }
    each = btf.struct_size(vmlinux, b"module_memory")
    base, size = (btf.member_offset(vmlinux, b"module_memory", name) for name in (b"base", b"size"))
    for name, number in _PARTS.items():
        places[name] = parts + number * each + base
        places[f"{name}_SIZE"] = parts + number * each + size
    return places
