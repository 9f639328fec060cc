# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The kernel part of the tracer: its files, its probes, and its numbers on this kernel."""

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from kfabric.probes.compiled import Source
from kfabric.probes.loader import (
    HEADER,
    REALTIME,
    ProbeError,
    context_flags,
    context_values,
    realtime_flags,
)
from kfabric.probes.program import Program, load
from kfabric.trace.offsets import offsets
from kfabric.trace.scope import Scope
from kfabric.trace.symbols import Symbols

_FILES = tuple(
    Path(__file__).with_name(f"{name}.bpf.c")
    for name in (
        *("state", "keyed", "queues", "aims", "waits", "wakes", "works"),
        *("locks", "scheduler", "marks"),
    )
)
"""One program in several files, after records.h. Each file depends on those before it."""
MAX_QUEUES = 4096
"""Further queues are counted as losses."""
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
    "WAIT_EVENT": "prepare_to_wait_event",
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
HEAD_BYTES = 16
"""A probe of a function is at most so far behind its beginning: FUNCTION_HEAD in the program."""
_BOOKMARKS = "__wake_up_locked_key_bookmark"
_FORK = "raw_tracepoint__sched_process_fork"
CONTENTION = ("raw_tracepoint__contention_begin", "raw_tracepoint__contention_end")
_MODULE_LOAD = "raw_tracepoint__module_load"


class KernelPart:
    """The program of the tracer for one scope on the running kernel.

    Args:
        scope: The queues to trace.
        kallsyms: The text of /proc/kallsyms.
        symbols: The same, to search in.
    """

    def __init__(self, scope: Scope, kallsyms: bytes, symbols: Symbols) -> None:
        self.scope = scope
        self.symbols = symbols
        self._kallsyms = kallsyms

    def load(self, *, cpus: int, ring_bytes: int, compiling: Callable[[], None]) -> Program:
        """Load it, compiled or from the cache. Raises ProbeError, BpfError, ImportError."""
        text = b"".join(path.read_bytes() for path in (HEADER, *_FILES))
        values, unwanted = self._values(), self._unwanted()
        return load(
            Source(text, tuple(self._flags()), tuple(values)),
            values=values,
            sizes={"ring": ring_bytes, "rings": cpus},
            inner={"rings": "ring"},
            wanted=lambda name: name not in unwanted,
            compiling=compiling,
        )

    def probes(self) -> Iterator[tuple[str, int, str]]:
        """Each traced function of the kernel, its address, and the program for it."""
        unwanted = self._unwanted()
        for function, program in _FUNCTIONS.items():
            if self._has(function) and program not in unwanted:
                yield function, self._needed(function), program

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
            names.update(CONTENTION)
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
            f"-DMAX_QUEUES={MAX_QUEUES}",
            *offsets(),
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
            "COMPLETION_END": max(completions) + HEAD_BYTES,
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
