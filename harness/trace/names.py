# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The names of traced queues, and of the functions in their stacks."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kfabric.probes.program import Program
from kfabric.trace.keyed import Key, futex_name, key_name, process_of_futex
from kfabric.trace.symbols import History, Symbols, below_tracepoint, place, queue_name
from kfabric.verdict.ledger import class_name

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
_THREAD, _FLUSH, _RCU, WORK = range(32, 36)
_SEVERAL_OBJECTS = 0xFFFFFFFF


class Names:
    """Names things by the symbols of the kernel and of its modules, also those that are gone.

    Args:
        program: The loaded kernel part, which has the stacks and the threads.
        symbols: The symbols at the beginning.
        tracing: Are the probes set? To read stacks and threads would disturb them.
    """

    def __init__(self, program: Program, symbols: Symbols, tracing: Callable[[], bool]) -> None:
        self._bpf = program
        self._history = History(symbols)
        self._tracing = tracing
        self._known: dict[tuple[int, int, int], str] = {}
        # By queue: names that were certain before a module went away.
        self._variables: dict[int, str] = {}

    def add(self, symbols: Symbols, queues: dict[int, Any]) -> None:
        """Other modules are there: keep the names that the queues have had so far."""
        for number, queue in queues.items():
            if name := self._history.variable(queue.address):
                self._variables.setdefault(number, name)
        self._history.add(symbols)

    def forget(self) -> None:
        """Look all names of queues up again, since :attr:`tracing` has changed."""
        self._known.clear()

    def address(self, address: int) -> str:
        """The name of an address of code."""
        return self._history.name(address)

    def queue(self, number: int, queue: Any) -> str:
        """A queue's name, which is looked up once for each stack."""
        known = number, queue.stack, queue.slept_on
        if known not in self._known:
            self._known[known] = self._find(number, queue)
        return self._known[known]

    def _find(self, number: int, queue: Any) -> str:
        if queue.object not in (0, _SEVERAL_OBJECTS):
            return self._object_name(queue)
        # Reading a stack disturbs the probes: while they are set, the caller must suffice.
        frames = () if self._tracing() else self.frames(queue.stack)
        slept_on = frames if queue.slept_on else ()
        if queue.site and not slept_on:
            slept_on = (self._history.name(queue.site),)
        if queue.kind in (_FLUSH, WORK):
            item = f"work item {self._history.name(queue.site)}"
            return item if queue.kind == WORK else f"flush of {item}"
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
            if not self._tracing():
                return str(threads[threads.Key(tid)].text.decode(errors="replace"))
        return ""

    def frames(self, stack: int) -> tuple[str, ...]:
        """The functions of a kernel stack, the innermost first; empty without one."""
        if stack < 0:
            return ()
        names = tuple(map(self._history.name, self._bpf[b"stacks"].walk(stack)))
        return below_tracepoint(names)
