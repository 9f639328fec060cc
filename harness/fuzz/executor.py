# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs one program in this process, and checks each answer of the kernel.

Whatever arguments a call is given, four properties hold: its error number is a documented one;
a call that failed left its structure unchanged; `size` and `flags` are never written; no answer
has a kernel address. Other faults show in the kernel's log or in leaked objects; see workers.py.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import select
import signal
import struct
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from kfabric.fuzz.calls import CALLS
from kfabric.fuzz.memory import NOWHERE, Arena, Pointers
from kfabric.fuzz.program import Program, Step
from kfabric.fuzz.syscalls import PAGE, ioctl, libc, map_memory, reserve, send_signal
from kfabric.guest import sleeping
from kfabric.guest.waiting import Deadline, patience
from kfabric_py import _uapi as u

DEVICE: Final = "/dev/kfabric"
MOCK: Final = Path("/sys/kernel/debug/kfi_mock/command")

#: Descriptors of a program: `fd=1` is a second client with its own handles.
CLIENTS: Final = 2
#: A thread that is in one step for longer is sent signals until it returns.
SIGNAL_SECONDS: Final = 0.2
#: A thread that is in one step for longer than this hangs.
HANG_SECONDS: Final = 30.0
#: Time for the steps of a forked process.
CHILD_SECONDS: Final = 0.5

_PAGE_OFFSET: Final = 0xFFFF800000000000
_LAST_ADDRESS: Final = 0xFFFFFFFFFFFFF000
"""Above it are negative numbers, error pointers among them."""
_HEAD: Final = 8
_KNOWN_ERRORS: Final = frozenset(errno.errorcode) | {
    v for k, v in vars(u).items() if k.startswith("KFAB_E") and "EVENT" not in k
}
#: These write their structure although they fail with one of these numbers.
_WRITE_ON_FAILURE: Final = {
    "POLLFD": (u.KFAB_ETOOSMALL,),
    "PROFILE_READ": (u.KFAB_ETOOSMALL,),
    "BATCH": (errno.EINTR, errno.EFAULT),
    "CNTR_WAIT": (errno.EINTR, errno.ETIMEDOUT, u.KFAB_EAVAIL, errno.ENODEV, errno.EINVAL),
}
#: What a successful call produced: fields of its structure, and the parts of its name.
_OUTPUTS: Final = ("handle", "id", "key", "iova", "offset", "connreq", "addr")


@dataclass
class Output:
    """What a step produced, by the name of the part, and the memory that it wrote."""

    parts: dict[str, int] = field(default_factory=dict)
    written: bytes = b""


@dataclass
class Result:
    """What one program did, or one thread of it.

    Attributes:
        calls: counts by call and error number; error number 0 is success.
        complaints: answers that break one of the four properties.
        hangs: threads that did not return, with their stacks.
        died: tracebacks of the executor's own threads, which are bugs in the fuzzer.
    """

    calls: Counter[tuple[str, int]] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    died: list[str] = field(default_factory=list)

    def add(self, other: Self) -> None:
        """Add the counts and lists of another result."""
        self.calls += other.calls
        self.complaints += other.complaints
        self.hangs += other.hangs
        self.died += other.died


@dataclass
class ThreadState:
    """Where one thread is in its list of steps."""

    arena: Arena
    result: Result = field(default_factory=Result)
    tid: int = 0
    step: Step | None = None
    since: float = 0.0
    """When it began the step, on the monotonic clock; 0: it is in none."""

    def describe(self) -> str:
        """The step, and the stack of the thread."""
        try:
            return f"{self.step}: {sleeping.read_state(self.tid)}"
        except OSError as error:
            return f"{self.step}: {error}"


class _Watchdog:
    """Sends signals to a thread that sleeps in a step, and detects a hang."""

    def __init__(self, thread: threading.Thread, state: ThreadState) -> None:
        self.thread = thread
        self.state = state
        self._since = 0.0
        self._limit = Deadline(HANG_SECONDS)

    def check(self) -> bool:
        """Send a signal if the thread is in a step for long; return whether it hangs."""
        since = self.state.since
        if since != self._since:
            self._since, self._limit = since, Deadline(HANG_SECONDS)
        if since and time.monotonic() - since > patience(SIGNAL_SECONDS):
            send_signal(self.state.tid, signal.SIGUSR1)
        return self._limit.expired


class Executor:
    """Runs programs one after the other; the threads' memory is reused.

    Signals go to this process's threads, so that nothing else should run in it.

    Args:
        address: IPv4 address of the RDMA link.
        infos: offers by name, see server.py.
    """

    def __init__(self, address: str, infos: Mapping[str, ctypes.Structure]) -> None:
        self.pointers = Pointers(
            infos, address, self.number, lambda name: self.output(name).written or bytes(16)
        )
        self._arenas: list[Arena] = []
        self._outputs: dict[str, Output] = {}
        self._clients: list[int] = []
        self.mappings: list[tuple[int, int]] = []
        """Address and length of the mappings to remove at the end."""
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.siginterrupt(signal.SIGUSR1, True)

    def run(self, program: Program) -> Result:
        """Run a program, and close everything that it opened."""
        self._outputs = {}
        self.mappings = []
        result = Result()
        self._clients = [os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC) for _ in range(CLIENTS)]
        try:
            self._run_threads([program.of(None)], result)
            if program.threads and not result.hangs:
                self._run_threads([program.of(n) for n in program.threads], result)
        finally:
            if not result.hangs:
                self._close()
        return result

    def _close(self) -> None:
        descriptors = [output.parts.pop("fd", -1) for output in self._outputs.values()]
        for address, length in self.mappings:
            libc.munmap(address, length)
        for fd in [*descriptors, *self._clients]:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _run_threads(self, lists: list[list[Step]], result: Result) -> None:
        """Run each list in a thread of its own, all at once, until all end or hang."""
        while len(self._arenas) < len(lists):
            self._arenas.append(Arena())
        states = [ThreadState(arena) for arena, _ in zip(self._arenas, lists, strict=False)]
        barrier = threading.Barrier(len(lists))
        threads = [
            threading.Thread(target=self._run_thread, args=(state, steps, barrier), daemon=True)
            for state, steps in zip(states, lists, strict=True)
        ]
        for thread in threads:
            thread.start()
        running = [_Watchdog(*pair) for pair in zip(threads, states, strict=True)]
        while running := [watchdog for watchdog in running if watchdog.thread.is_alive()]:
            running[0].thread.join(SIGNAL_SECONDS / 4)
            for watchdog in list(running):
                if watchdog.check() and watchdog.thread.is_alive():
                    result.hangs.append(watchdog.state.describe())
                    running.remove(watchdog)
        for state in states:
            result.add(state.result)

    def _run_thread(
        self, state: ThreadState, steps: list[Step], barrier: threading.Barrier
    ) -> None:
        state.tid = threading.get_native_id()
        barrier.wait()
        try:
            _ThreadExecutor(self, state).run(steps)
        except Exception:
            state.result.died.append(f"{state.step}\n{traceback.format_exc()}")

    # Shared by the threads; each dictionary operation is atomic.

    def client(self, step: Step) -> int:
        """The descriptor on which a step runs."""
        return self._clients[self.number(step.args.get("fd", "0")) % CLIENTS]

    def output(self, name: str) -> Output:
        """The output of the step of that name; empty if it has none yet."""
        return self._outputs.get(name) or Output()

    def keep(self, step: Step, output: Output) -> None:
        """Keep the output of a step under the step's name."""
        if step.name:
            self._outputs[step.name] = output

    def number(self, word: str) -> int:
        """The value of a word that is not an address."""
        if word[0] == "%":
            name, _, part = word[1:].partition(".")
            return self.output(name).parts.get(part or "handle", 0)
        if word[0] == "+" and word.endswith("ms"):
            return time.monotonic_ns() + int(word[1:-2]) * 1_000_000
        return int(word, 0)


class _ThreadExecutor:
    """Runs the steps of one thread in their order."""

    def __init__(self, executor: Executor, state: ThreadState) -> None:
        self._executor = executor
        self._state = state
        self._others: dict[str, Callable[[Step], None]] = {
            "IOCTL": self._unknown_ioctl,
            "DEV_READ": lambda step: self._on_client(step, lambda fd: os.read(fd, 64)),
            "DEV_WRITE": lambda step: self._on_client(step, lambda fd: os.write(fd, b"x" * 64)),
            "DEV_SEEK": lambda step: self._on_client(step, lambda fd: os.lseek(fd, 1, os.SEEK_SET)),
            "DEV_POLL": lambda step: self._on_client(step, lambda fd: _poll(fd, 0)),
            "DUP": lambda step: self._on_client(step, lambda fd: os.close(os.dup(fd))),
            "REOPEN": self._reopen,
            "MMAP": self._mmap,
            "MUNMAP": self._munmap,
            "TOUCH": self._touch,
            "FD_POLL": lambda step: self._on_fd(step, lambda fd: _poll(fd, self._ms(step))),
            # Unlike read(), pread() never blocks, should the number be a pipe's by now.
            "FD_READ": lambda step: self._on_fd(step, lambda fd: os.pread(fd, 8, 0)),
            "FD_CLOSE": self._fd_close,
            "EPOLL": lambda step: self._on_fd(step, lambda fd: _epoll(fd, self._ms(step))),
            "MOCK": lambda step: self._mock(step, step.args.get("how", "inject,recv,1")),
            "LOSE": lambda step: self._mock(step, "lose"),
        }

    def run(self, steps: list[Step]) -> None:
        """Run the steps; those that follow a FORK run in the child."""
        at = 0
        while at < len(steps):
            step = steps[at]
            at += 1
            self._state.step, self._state.since = step, time.monotonic()
            if step.op == "FORK":
                count = self._word(step, "steps")
                self._fork(step, steps[at : at + count])
                at += count
            elif step.op in CALLS:
                self._call(step)
            else:
                self._others[step.op](step)
        self._state.since = 0.0

    def _word(self, step: Step, key: str) -> int:
        return self._executor.number(step.args.get(key, "0"))

    def _ms(self, step: Step) -> int:
        """Milliseconds of a poll; few, because Python restarts a poll after a signal."""
        return max(0, min(self._word(step, "ms"), 50))

    def _count(self, step: Step, code: int) -> None:
        self._state.result.calls[step.op, code] += 1
        if code and code not in _KNOWN_ERRORS:
            self._complain(step, f"error number {code} is not documented")

    def _complain(self, step: Step, text: str) -> None:
        self._state.result.complaints.append(f"{step.op}: {text}\n{step}")

    # Ioctls.

    def _call(self, step: Step) -> None:
        number, struct_type = CALLS[step.op]
        arena = self._state.arena
        arena.reset()
        arg, written = self._structure(step, struct_type, arena)
        data = bytes(arg)
        place = step.args.get("place", "")
        displaced = bool(place) or arg.size != ctypes.sizeof(struct_type)
        if place in NOWHERE:
            address = NOWHERE[place]
        elif displaced:
            tail = (b"\xff" if "tail" in step.args else b"\0") * 64 + bytes(PAGE)
            address = arena.place(data if place else data + tail, place)
        else:
            address = ctypes.addressof(arg)
        code = max(0, -ioctl(self._executor.client(step), number, address))
        self._count(step, code)
        if displaced:
            return
        if code:
            self._check_failed(step, code, data, bytes(arg))
            return
        self._check_succeeded(step, data, bytes(arg))
        output = _output(step, arg)
        if written[1]:
            output.written = ctypes.string_at(*written)
            self._check_addresses(step, output.written, "memory", frozenset())
            if step.op == "AV_INSERT":
                output.parts["addr"] = int.from_bytes(output.written[:8], "little")
        self._executor.keep(step, output)

    def _structure(
        self, step: Step, struct_type: type[ctypes.Structure], arena: Arena
    ) -> tuple[Any, tuple[int, int]]:
        """The argument, with address and length of the memory that the call writes to."""
        arg: Any = struct_type()
        arg.size = ctypes.sizeof(struct_type)
        written = (0, 0)
        for key, word in step.args.items():
            if key in ("fd", "place", "tail"):
                continue
            if key == "size" and word[0] in "+-":
                arg.size = ctypes.sizeof(struct_type) + int(word)
            elif word[0] == "@":
                address, length = self._executor.pointers.resolve(word, arena)
                setattr(arg, key, address)
                if word.startswith("@out:") and length:
                    written = (address, length)
            else:
                setattr(arg, key, self._executor.number(word))
        return arg, written

    def _check_failed(self, step: Step, code: int, before: bytes, after: bytes) -> None:
        if before != after and code not in _WRITE_ON_FAILURE.get(step.op, ()):
            self._complain(
                step, f"failed with {code} but wrote its structure {_diff(before, after)}"
            )

    def _check_succeeded(self, step: Step, before: bytes, after: bytes) -> None:
        if before[:_HEAD] != after[:_HEAD]:
            self._complain(step, f"size and flags were written {_diff(before, after)}")
        if before != after:
            known = frozenset(struct.unpack(f"={len(before) // 8}Q", before))
            self._check_addresses(step, after, "structure", known)

    def _check_addresses(self, step: Step, data: bytes, where: str, known: frozenset[int]) -> None:
        """Complain of the first kernel address that was not among the known words before."""
        for word in struct.unpack_from(f"={len(data) // 8}Q", data):
            if _PAGE_OFFSET <= word < _LAST_ADDRESS and word not in known:
                self._complain(step, f"a kernel address in its {where}: {word:#x}")
                return

    def _unknown_ioctl(self, step: Step) -> None:
        arena = self._state.arena
        arena.reset()
        address = arena.place(bytes(256))
        number = self._word(step, "nr") & 0xFFFFFFFF
        self._count(step, max(0, -ioctl(self._executor.client(step), number, address)))

    # Descriptors and memory.

    def _on_client(self, step: Step, function: Callable[[int], object]) -> None:
        self._try(step, lambda: function(self._executor.client(step)))

    def _on_fd(self, step: Step, function: Callable[[int], object]) -> None:
        fd = self._of(step).parts.get("fd", -1)
        if fd >= 0:
            self._try(step, lambda: function(fd))

    def _try(self, step: Step, function: Callable[[], object]) -> None:
        """Count the result of a system call of Python's."""
        try:
            function()
        except OSError as error:
            self._count(step, error.errno or 0)
        else:
            self._count(step, 0)

    def _of(self, step: Step) -> Output:
        return self._executor.output(step.args.get("of", "%")[1:].partition(".")[0])

    def _reopen(self, step: Step) -> None:
        """Replace a client that other threads may be using by a new one."""

        def reopen() -> None:
            fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.dup2(fd, self._executor.client(step), inheritable=False)
            finally:
                os.close(fd)

        self._try(step, reopen)

    def _fd_close(self, step: Step) -> None:
        # Only the thread that gets the number out of the output closes it.
        fd = self._of(step).parts.pop("fd", -1)
        if fd >= 0:
            self._try(step, lambda: os.close(fd))

    def _mmap(self, step: Step) -> None:
        length = self._word(step, "length")
        offset = self._of(step).parts.get("offset", 0) + self._word(step, "at")
        prot, flags = self._word(step, "prot"), self._word(step, "flags")
        fd = self._executor.client(step)

        def run() -> None:
            address = map_memory(length, fd, offset & ~(PAGE - 1), prot, flags or mmap.MAP_SHARED)
            whole = -(-length // PAGE) * PAGE
            self._executor.mappings.append((address, whole))
            self._executor.keep(step, Output({"map": address, "length": whole, "prot": prot}))

        self._try(step, run)

    def _munmap(self, step: Step) -> None:
        """Unmap, perhaps in part; the addresses stay reserved until the program ends."""
        parts = self._of(step).parts
        base, length = parts.get("map", 0), parts.get("length", 0)
        at, wanted = self._word(step, "at") & ~(PAGE - 1), self._word(step, "length")
        if base and at < length and wanted > 0:
            reserve(base + at, min(wanted, length - at))

    def _touch(self, step: Step) -> None:
        """Let the kernel write to a mapped buffer: a page fault becomes an error number."""
        parts = self._of(step).parts
        base, at = parts.get("map", 0), self._word(step, "at")
        if not base or at >= parts.get("length", 0):
            return
        read, write = os.pipe()
        try:
            os.write(write, bytes([self._word(step, "value") % 256]))
            code = libc.readv(read, struct.pack("=QQ", base + at, 1), 1)
            self._count(step, 0 if code >= 0 else ctypes.get_errno())
        finally:
            os.close(read)
            os.close(write)

    # The mock provider, and processes.

    def _mock(self, step: Step, how: str) -> None:
        verb, *words = how.split(",")
        line = " ".join([verb, str(self._of(step).parts.get("id", 0)), *words])

        def command() -> None:
            fd = os.open(MOCK, os.O_WRONLY | os.O_CLOEXEC)
            try:
                # os.write() would repeat a command that a signal has interrupted.
                if libc.write(fd, line.encode(), len(line)) < 0:
                    raise OSError(ctypes.get_errno(), line)
            finally:
                os.close(fd)

        self._try(step, command)

    def _fork(self, step: Step, steps: list[Step]) -> None:
        """Run steps in a child that inherits the descriptors; perhaps kill it meanwhile."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                self._state.result = Result()
                self.run([one for one in steps if one.op != "FORK"])
                status = 2 if self._state.result.complaints else 0
            finally:
                os._exit(status)
        status = _reap(pid, Deadline(0.0 if step.args.get("kill") else CHILD_SECONDS))
        self._count(step, 0)
        if status == 2:
            self._complain(step, "a complaint in the child")
        elif status not in (0, -signal.SIGKILL):
            self._state.result.died.append(f"{step}\nthe child ended with status {status}")


def _output(step: Step, arg: Any) -> Output:
    """What a successful call produced."""
    fields = ((part, getattr(arg, f"out_{part}", None)) for part in _OUTPUTS)
    parts = {part: value for part, value in fields if value is not None}
    if step.op == "CONTROL" and arg.command == u.KFAB_GETWAIT:
        parts["fd"] = arg.value
    return Output(parts)


def _diff(before: bytes, after: bytes) -> str:
    first = next((n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b), -1)
    return f"at byte {first}: {after[first : first + 16].hex()}"


def _poll(fd: int, milliseconds: int) -> None:
    poll = select.poll()
    poll.register(fd)
    poll.poll(milliseconds)


def _epoll(fd: int, milliseconds: int) -> None:
    with select.epoll() as epoll:
        epoll.register(fd, select.EPOLLIN | select.EPOLLET)
        epoll.poll(milliseconds / 1000)


def _reap(pid: int, limit: Deadline) -> int:
    """Wait for a child's end, and kill it at the deadline; its status."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if limit.expired:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
