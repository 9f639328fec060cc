# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Reads queues and threads out of a dump with drgn, which knows the kernel's types.

A kernel may panic in the middle of any operation: an unreadable object becomes a line of
`Reader.errors`, and a list without an end is cut after LIMIT entries.
"""

import contextlib
import itertools
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kfabric.errors import SetupError
from kfabric.postmortem.show import Panic, Queue, Sleeper, Thread

KERNEL = "kernel"
"""drgn's name for the kernel itself."""
KFABRIC = "kfabric"
KINDS = {
    "KFI_CLASS_WAIT": "wait set",
    "KFI_CLASS_CQ": "CQ",
    "KFI_CLASS_EQ": "EQ",
    "KFI_CLASS_CNTR": "counter",
    "KFI_CLASS_PROFILE": "profile",
}
SOURCES = ("CQ", "EQ", "counter")
CHANNEL = 24
"""KFI_CLASS_COMP_CHANNEL, a macro, which is not in the debug information."""
LIMIT = 20_000


def open_dump(core: Path, files: list[Path]) -> Any:
    """Open a dump.

    Args:
        core: the dump.
        files: with debug information: vmlinux, then modules, of which some may not be loaded.

    Raises:
        SetupError: it cannot be read, or the files are not those that ran.
    """
    try:
        import drgn
    except ImportError:
        raise SetupError("drgn is not installed", "pip install 'kfabric[post-mortem]'") from None

    # drgn warns about the order of each dump.
    logging.getLogger("drgn").setLevel(logging.ERROR)
    program = drgn.Program()
    try:
        program.set_core_dump(core)
        program.load_debug_info([str(path) for path in files])
    except Exception as error:  # drgn has no class for most of its errors
        raise SetupError(f"{core} cannot be read: {error}", "the file may be incomplete") from None
    wanted = {KERNEL, *map(module_name, files[1:])}
    lacking = [m.name for m in program.modules() if m.name in wanted and m.wants_debug_file()]
    if lacking:
        what = f"{', '.join(lacking)}: the files here are not those that ran in the guest"
        raise SetupError(what, "the sources may have changed since")
    return program


def module_name(file: Path) -> str:
    """The kernel's name for the module of a file."""
    return file.stem.replace("-", "_")


class Reader:
    """Reads one dump; `modules` are the names of those whose threads are shown."""

    def __init__(self, program: Any, modules: frozenset[str]) -> None:
        self.errors: list[str] = []
        self._program = program
        self._marks = tuple(f"[{name}]" for name in modules)
        self._kinds: dict[int, str] = {}

    def panic(self) -> Panic:
        """The panic message, and the thread that panicked."""
        from drgn.helpers.linux.panic import panic_message

        release = self._program["UTS_RELEASE"].string_().decode()
        message: bytes | None = None
        thread = None
        with self._reading("the kernel's log"):
            message = panic_message(self._program)
        with self._reading("the thread that panicked"):
            thread = self._thread(self._program.crashed_thread().object)
        return Panic(release, (message or b"?").decode(errors="replace"), thread)

    def queues(self) -> list[Queue]:
        """All queues of objects that were open, in the order of opening."""
        if KFABRIC not in (module.name for module in self._program.modules()):
            return []
        constant = self._program.constant
        self._kinds = {constant(name).value_(): kind for name, kind in KINDS.items()}
        self._kinds[CHANNEL] = "completion channel"
        found: list[Queue] = []
        for queue in self._all_queues():
            with self._reading(f"the queue at {queue.value_():#x}"):
                if not self._is_unused(queue):
                    found.append(self._queue(queue))
        return found

    def _all_queues(self) -> Iterator[Any]:
        """All queues; outside the test-option build those of listed objects, without channels."""
        from drgn import container_of

        head = None
        with contextlib.suppress(LookupError):
            head = self._program["kfi_test_queues"].address_of_()
        if head is not None:
            yield from self._entries("the list of queues", "struct kfi_waitq", head, "test_link")
            return
        for listed in self._listed():
            kind = self._kinds.get(listed.fid.fclass.value_())
            if kind in SOURCES:
                yield container_of(listed, "struct kfi_source", "listed").own.address_of_()
            elif kind == "wait set":
                yield container_of(listed, "struct kfi_wait", "listed").queue.address_of_()

    def _listed(self) -> Iterator[Any]:
        head = self._program["kfi_listed_objects"].address_of_()
        return self._entries("the list of objects", "struct kfi_listed", head, "link")

    def _is_unused(self, queue: Any) -> bool:
        """Whether it is the queue of a member of a wait set: threads sleep on the set's queue."""
        from drgn import container_of

        kind = self._kinds.get(queue.fid.fclass.value_())
        if kind not in SOURCES:
            return False
        source = container_of(queue, "struct kfi_source", "own")
        return bool(source.set.value_()) and not queue.sleepers.value_()

    def _queue(self, queue: Any) -> Queue:
        sleepers: list[Sleeper] = []
        foreign = 0
        ours = self._program["kfi_wake_function"].address_of_().value_()
        head = queue.head.head.address_of_()
        name = f"queue {queue.id.value_()}"
        for entry in self._entries(name, "struct wait_queue_entry", head, "entry"):
            if entry.func.value_() == ours:
                sleepers.append(self._sleeper(entry))
            else:
                foreign += 1
        return Queue(
            self._kinds.get(queue.fid.fclass.value_(), "object"),
            queue.id.value_(),
            queue.nready.counter.value_(),
            queue.pubs.counter.value_(),
            tuple(sleepers),
            foreign,
            tuple(self._readable(queue)),
        )

    def _sleeper(self, entry: Any) -> Sleeper:
        from drgn import cast, container_of

        waiter = container_of(entry, "struct kfi_waiter", "wqe")
        task = cast("struct task_struct *", entry.private)
        return Sleeper(self._thread(task), waiter.need.value_(), waiter.seen.value_())

    def _readable(self, queue: Any) -> Iterator[str]:
        """The members of a wait set that have something to read."""
        from drgn import container_of

        if self._kinds.get(queue.fid.fclass.value_()) != "wait set":
            return
        for listed in self._listed():
            kind = self._kinds.get(listed.fid.fclass.value_(), "")
            if kind in SOURCES:
                source = container_of(listed, "struct kfi_source", "listed")
                if source.queue.value_() == queue.value_() and source.ready.value_():
                    yield f"{kind} {source.id.value_()}"

    def threads(self, everyone: bool = False) -> Iterator[Thread]:
        """The threads with a frame in the modules, or all."""
        from drgn.helpers.linux.pid import for_each_task

        for task in self._guarded("the threads", for_each_task(self._program)):
            with self._reading(f"the thread at {task.value_():#x}"):
                thread = self._thread(task)
                if everyone or any(frame.endswith(self._marks) for frame in thread.frames):
                    yield thread

    def _thread(self, task: Any) -> Thread:
        from drgn.helpers.linux.sched import task_state_to_char

        name = task.comm.string_().decode(errors="replace")
        return Thread(task.pid.value_(), name, task_state_to_char(task), tuple(self._frames(task)))

    def _frames(self, task: Any) -> Iterator[str]:
        import drgn

        try:
            trace = self._program.stack_trace(task)
        except (drgn.FaultError, ValueError, LookupError) as error:
            yield f"(no stack: {error})"
            return
        for frame in trace:
            if not frame.pc:  # below a kernel thread's first function
                break
            module = KERNEL
            with contextlib.suppress(LookupError):
                module = str(self._program.module(frame.pc).name)
            name = frame.name or "?"
            yield name if module == KERNEL else f"{name} [{module}]"

    def _entries(self, what: str, struct: str, head: Any, member: str) -> Iterator[Any]:
        """The entries of a list of the kernel's."""
        from drgn.helpers.linux.list import list_for_each_entry

        return self._guarded(what, list_for_each_entry(struct, head, member))

    def _guarded(self, what: str, found: Iterable[Any]) -> Iterator[Any]:
        with self._reading(what):
            iterator = iter(found)
            yield from itertools.islice(iterator, LIMIT)
            if next(iterator, None) is not None:
                self.errors.append(f"{what}: no end after {LIMIT} entries")

    @contextlib.contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        import drgn

        try:
            yield
        except (drgn.FaultError, LookupError, ValueError) as error:
            self.errors.append(f"{what}: {error}")
