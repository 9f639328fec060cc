# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Plays one program in this process, and looks at each answer.

Whatever a call is given, these hold: its error number is one that users can have; a
call that failed left its structure as it was; ``size`` and ``flags`` are never
written; no answer has an address of the kernel. What else goes wrong the kernel says
itself, or it shows in what is left behind; see crew.py.
"""

from __future__ import annotations

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
from typing import Any, Final

from harness.fuzz.calls import CALLS
from harness.fuzz.memory import NOWHERE, Arena, Pointers
from harness.fuzz.program import Program, Step
from harness.fuzz.syscalls import PAGE, ioctl, libc, map_memory, reserve, send_signal
from harness.guest import sleeping
from harness.guest.waiting import Deadline, patience
from kfabric_py import _uapi as u

DEVICE: Final = "/dev/kfabric"
MOCK: Final = Path("/sys/kernel/debug/kfi_mock/command")

#: Descriptors of a program: `fd=1` is a client whose handles are others.
CLIENTS: Final = 2
#: A thread that has been in one step for so long is sent a signal, and again and again.
POKE_SECONDS: Final = 0.2
#: A thread that has then not come back by this time hangs.
HANG_SECONDS: Final = 30.0
#: So long a forked process may take for its steps.
CHILD_SECONDS: Final = 0.5

_PAGE_OFFSET: Final = 0xFFFF800000000000
_LAST_ADDRESS: Final = 0xFFFFFFFFFFFFF000
"""Above are negative numbers, error pointers among them."""
_HEAD: Final = 8
_KNOWN_ERRORS: Final = frozenset(
    [
        *errno.errorcode,
        *(v for k, v in vars(u).items() if k.startswith("KFAB_E") and "EVENT" not in k),
    ]
)
#: These say how much would do, though they fail.
_TELL_ALL_THE_SAME: Final = ("POLLFD", "PROFILE_READ")


@dataclass
class Slot:
    """What a step gave."""

    parts: dict[str, int] = field(default_factory=dict)
    written: bytes = b""


@dataclass
class Result:
    """What came of one program, or of many.

    :param calls: by call and error number; 0: it succeeded.
    :param complaints: answers that must not be.
    :param hangs: threads that did not come back, with their stacks.
    :param died: threads of ours that could not go on: mistakes of the player.
    """

    calls: Counter[tuple[str, int]] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    died: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        """Take over what another one has."""
        self.calls += other.calls
        self.complaints += other.complaints
        self.hangs += other.hangs
        self.died += other.died


@dataclass
class Track:
    """One thread's way through its steps."""

    arena: Arena
    result: Result = field(default_factory=Result)
    tid: int = 0
    step: Step | None = None
    since: float = 0.0
    """When it began with the step, on the monotonic clock; 0: with none."""


class _Eye:
    """Looks after one thread: signals end its sleeps, and it has to go on in time."""

    def __init__(self, thread: threading.Thread, track: Track) -> None:
        self.thread = thread
        self.track = track
        self._since = 0.0
        self._limit = Deadline(HANG_SECONDS)

    def look(self) -> bool:
        """Send a signal to one that has been in a step for long; whether it hangs."""
        since = self.track.since
        if since != self._since:
            self._since, self._limit = since, Deadline(HANG_SECONDS)
        if since and time.monotonic() - since > patience(POKE_SECONDS):
            send_signal(self.track.tid, signal.SIGUSR1)
        return self._limit.expired


class Player:
    """Plays programs, one after the other, with the same threads' memory.

    Signals go to this process's threads: nothing else should run in it.

    :param address: IPv4 address of the RDMA link.
    :param infos: offers, see :mod:`harness.fuzz.offers`.
    """

    def __init__(self, address: str, infos: Mapping[str, ctypes.Structure]) -> None:
        self._pointers = Pointers(infos, address, self._number, self._written)
        self._arenas: list[Arena] = []
        self._slots: dict[str, Slot] = {}
        self._clients: list[int] = []
        self._maps: list[tuple[int, int]] = []
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.siginterrupt(signal.SIGUSR1, True)

    def play(self, program: Program) -> Result:
        """Play a program, and close all that it opened."""
        self._slots = {}
        self._maps = []
        result = Result()
        self._clients = [os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC) for _ in range(CLIENTS)]
        try:
            self._play_threads([program.of(None)], result)
            if program.threads and not result.hangs:
                self._play_threads([program.of(n) for n in program.threads], result)
        finally:
            if not result.hangs:
                self._close()
        return result

    def _close(self) -> None:
        for slot in self._slots.values():
            if (fd := slot.parts.pop("fd", -1)) >= 0:
                _close_quietly(fd)
        for address, length in self._maps:
            libc.munmap(address, length)
        for fd in self._clients:
            _close_quietly(fd)

    def _play_threads(self, lists: list[list[Step]], result: Result) -> None:
        """Have each list played by a thread of its own, all at once; wait for their end."""
        while len(self._arenas) < len(lists):
            self._arenas.append(Arena())
        tracks = [Track(arena) for arena, _ in zip(self._arenas, lists, strict=False)]
        barrier = threading.Barrier(len(lists))
        threads = [
            threading.Thread(target=self._follow, args=(track, steps, barrier), daemon=True)
            for track, steps in zip(tracks, lists, strict=True)
        ]
        for thread in threads:
            thread.start()
        _await([_Eye(*pair) for pair in zip(threads, tracks, strict=True)], result)
        for track in tracks:
            result.add(track.result)

    def _follow(self, track: Track, steps: list[Step], barrier: threading.Barrier) -> None:
        """Do one thread's steps."""
        track.tid = threading.get_native_id()
        barrier.wait()
        try:
            _Thread(self, track).do(steps)
        except Exception:
            track.result.died.append(f"{track.step}\n{traceback.format_exc()}")

    # What the threads share; each dictionary operation is atomic.

    def client(self, step: Step) -> int:
        """The descriptor that a step is done on."""
        return self._clients[self._number(step.args.get("fd", "0")) % CLIENTS]

    def slot(self, name: str) -> Slot:
        """What a step of that name gave, or nothing."""
        return self._slots.get(name) or Slot()

    def give(self, step: Step, slot: Slot) -> None:
        """Keep what a step gave."""
        if step.name:
            self._slots[step.name] = slot

    def mapped(self, address: int, length: int) -> None:
        """Note a mapping that has to go at the end."""
        self._maps.append((address, length))

    def pointer(self, word: str, arena: Arena) -> tuple[int, int]:
        """Address and length of what a word names."""
        return self._pointers.resolve(word, arena)

    def number(self, word: str) -> int:
        """The value of a word that is no address."""
        return self._number(word)

    def _number(self, word: str) -> int:
        if word[0] == "%":
            name, _, part = word[1:].partition(".")
            return self.slot(name).parts.get(part or "handle", 0)
        if word[0] == "+" and word.endswith("ms"):
            return time.monotonic_ns() + int(word[1:-2]) * 1_000_000
        return int(word, 0)

    def _written(self, name: str) -> bytes:
        return self.slot(name).written or bytes(16)


class _Thread:
    """Does steps in the order of a list."""

    def __init__(self, player: Player, track: Track) -> None:
        self._player = player
        self._track = track
        self._own: dict[str, Callable[[Step], None]] = {
            "IOCTL": self._ioctl,
            "DEV_READ": lambda step: self._result(step, lambda fd: os.read(fd, 64)),
            "DEV_WRITE": lambda step: self._result(step, lambda fd: os.write(fd, b"x" * 64)),
            "DEV_SEEK": lambda step: self._result(step, lambda fd: os.lseek(fd, 1, os.SEEK_SET)),
            "DEV_POLL": lambda step: self._result(step, lambda fd: _poll(fd, 0)),
            "DUP": lambda step: self._result(step, lambda fd: os.close(os.dup(fd))),
            "REOPEN": self._reopen,
            "MMAP": self._mmap,
            "MUNMAP": self._munmap,
            "TOUCH": self._touch,
            "FD_POLL": lambda step: self._with_fd(
                step, lambda fd: _poll(fd, self._word(step, "ms"))
            ),
            "FD_READ": lambda step: self._with_fd(step, _read),
            "FD_CLOSE": self._fd_close,
            "EPOLL": lambda step: self._with_fd(
                step, lambda fd: _epoll(fd, self._word(step, "ms"))
            ),
            "MOCK": lambda step: self._mock(step, step.args.get("how", "inject,recv,1")),
            "LOSE": lambda step: self._mock(step, "lose"),
        }

    def do(self, steps: list[Step]) -> None:
        """Do them; those behind a fork are the child's."""
        at = 0
        while at < len(steps):
            step = steps[at]
            at += 1
            self._track.step, self._track.since = step, time.monotonic()
            if step.op == "FORK":
                count = self._word(step, "steps")
                self._fork(step, steps[at : at + count])
                at += count
            elif step.op in CALLS:
                self._call(step)
            else:
                self._own[step.op](step)
        self._track.since = 0.0

    def _word(self, step: Step, key: str) -> int:
        return self._player.number(step.args.get(key, "0"))

    def _count(self, step: Step, code: int) -> None:
        self._track.result.calls[step.op, code] += 1

    def _complain(self, step: Step, what: str) -> None:
        self._track.result.complaints.append(f"{step.op}: {what}\n{step}")

    # Ioctls.

    def _call(self, step: Step) -> None:
        number, kind = CALLS[step.op]
        arena = self._track.arena
        arena.reset()
        arg, written = self._structure(step, kind, arena)
        data = bytes(arg)
        place = step.args.get("place", "")
        odd = bool(place) or arg.size != ctypes.sizeof(kind)
        if place in NOWHERE:
            address = NOWHERE[place]
        elif odd:
            tail = (b"\xff" if "tail" in step.args else b"\0") * 64 + bytes(PAGE)
            address = arena.place(data if place else data + tail, place)
        else:
            address = ctypes.addressof(arg)
        result = ioctl(self._player.client(step), number, address)
        code = max(0, -result)
        self._count(step, code)
        self._judge_result(step, result)
        if odd:
            return
        if code:
            self._judge_failed(step, code, data, bytes(arg))
            return
        self._judge_done(step, data, bytes(arg))
        slot = _given(step, arg)
        if written[1]:
            slot.written = ctypes.string_at(*written)
            self._judge_words(step, slot.written, "memory")
            if step.op == "AV_INSERT":
                slot.parts["addr"] = int.from_bytes(slot.written[:8], "little")
        self._player.give(step, slot)

    def _structure(
        self, step: Step, kind: type[ctypes.Structure], arena: Arena
    ) -> tuple[Any, tuple[int, int]]:
        """The argument, and where the call writes besides."""
        arg: Any = kind()
        arg.size = ctypes.sizeof(kind)
        written = (0, 0)
        for key, word in step.args.items():
            if key in ("fd", "place", "tail"):
                continue
            if key == "size" and word[0] in "+-":
                arg.size = ctypes.sizeof(kind) + int(word)
            elif word[0] == "@":
                address, length = self._player.pointer(word, arena)
                setattr(arg, key, address)
                if word.startswith("@out:") and length:
                    written = (address, length)
            else:
                setattr(arg, key, self._player.number(word))
        return arg, written

    def _judge_result(self, step: Step, result: int) -> None:
        if result < 0 and -result not in _KNOWN_ERRORS:
            self._complain(step, f"error number {-result}, which no user knows")

    def _judge_failed(self, step: Step, code: int, before: bytes, after: bytes) -> None:
        if before == after:
            return
        if code == u.KFAB_ETOOSMALL and step.op in _TELL_ALL_THE_SAME:
            return
        self._complain(
            step, f"failed with {code}, and its structure is another: {_diff(before, after)}"
        )

    def _judge_done(self, step: Step, before: bytes, after: bytes) -> None:
        if before[:_HEAD] != after[:_HEAD]:
            self._complain(step, f"size and flags were written: {_diff(before, after)}")
        if before != after:
            known = set(struct.unpack(f"={len(before) // 8}Q", before))
            self._judge_words(step, after, "structure", known)

    def _judge_words(
        self, step: Step, data: bytes, what: str, known: set[int] | frozenset[int] = frozenset()
    ) -> None:
        """No address of the kernel among what was not there before?"""
        for word in struct.unpack_from(f"={len(data) // 8}Q", data):
            if _PAGE_OFFSET <= word < _LAST_ADDRESS and word not in known:
                self._complain(step, f"an address of the kernel in its {what}: {word:#x}")
                return

    def _ioctl(self, step: Step) -> None:
        """A number that is no call's."""
        arena = self._track.arena
        arena.reset()
        address = arena.place(bytes(256))
        nr = self._word(step, "nr")
        result = ioctl(self._player.client(step), nr & 0xFFFFFFFF, address)
        self._count(step, max(0, -result))
        self._judge_result(step, result)

    # Descriptors and memory.

    def _result(self, step: Step, function: Callable[[int], object]) -> None:
        self._try(step, lambda: function(self._player.client(step)))

    def _with_fd(self, step: Step, function: Callable[[int], object]) -> None:
        fd = self._of(step).parts.get("fd", -1)
        if fd >= 0:
            self._try(step, lambda: function(fd))

    def _try(self, step: Step, function: Callable[[], object]) -> None:
        """Count what comes of a call of the operating system."""
        try:
            function()
        except OSError as error:
            self._count(step, error.errno or 0)
            self._judge_result(step, -(error.errno or 0))
        else:
            self._count(step, 0)

    def _of(self, step: Step) -> Slot:
        return self._player.slot(step.args.get("of", "%")[1:].partition(".")[0])

    def _reopen(self, step: Step) -> None:
        """Put a new client in place of one that others may be using."""

        def reopen() -> None:
            fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.dup2(fd, self._player.client(step), inheritable=False)
            finally:
                os.close(fd)

        self._try(step, reopen)

    def _fd_close(self, step: Step) -> None:
        # Whoever gets the number out of the slot is the only one to close it.
        fd = self._of(step).parts.pop("fd", -1)
        if fd >= 0:
            self._try(step, lambda: os.close(fd))

    def _mmap(self, step: Step) -> None:
        buf = self._of(step)
        length = self._word(step, "length")
        offset = buf.parts.get("offset", 0) + self._word(step, "at")
        prot, flags = self._word(step, "prot"), self._word(step, "flags")
        fd = self._player.client(step)

        def run() -> None:
            address = map_memory(length, fd, offset & ~(PAGE - 1), prot, flags or mmap.MAP_SHARED)
            whole = -(-length // PAGE) * PAGE
            self._player.mapped(address, whole)
            self._player.give(step, Slot({"map": address, "length": whole, "prot": prot}))

        self._try(step, run)

    def _munmap(self, step: Step) -> None:
        """Unmap, perhaps in part; nothing else may come to lie there before the end."""
        slot = self._of(step)
        base, length = slot.parts.get("map", 0), slot.parts.get("length", 0)
        at, wanted = self._word(step, "at") & ~(PAGE - 1), self._word(step, "length")
        if base and at < length and wanted > 0:
            reserve(base + at, min(wanted, length - at))

    def _touch(self, step: Step) -> None:
        """Write to a buffer through its mapping, by the kernel: a fault is an error then."""
        slot = self._of(step)
        base, at = slot.parts.get("map", 0), self._word(step, "at")
        if not base or at >= slot.parts.get("length", 0):
            return
        read, write = os.pipe()
        try:
            os.write(write, b"y")
            iov = struct.pack("=QQ", base + at, 1)
            code = libc.readv(read, iov, 1)
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
                # Python's own would make a command again that a signal has ended.
                if libc.write(fd, line.encode(), len(line)) < 0:
                    raise OSError(ctypes.get_errno(), line)
            finally:
                os.close(fd)

        self._try(step, command)

    def _fork(self, step: Step, steps: list[Step]) -> None:
        """Have a child do steps with what it inherits; or kill it while it does."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                self._track.result = Result()
                self.do([one for one in steps if one.op != "FORK"])
                status = 2 if self._track.result.complaints else 0
            finally:
                os._exit(status)
        seconds = 0.0 if step.args.get("kill") else CHILD_SECONDS
        status = _reap(pid, Deadline(seconds))
        self._count(step, 0)
        if status == 2:
            self._complain(step, "a complaint in the child")
        elif status not in (0, -signal.SIGKILL):
            self._track.result.died.append(f"{step}\nthe child ended with status {status}")


def _await(eyes: list[_Eye], result: Result) -> None:
    """Wait until all threads have ended, or hang."""
    while eyes := [eye for eye in eyes if eye.thread.is_alive()]:
        eyes[0].thread.join(POKE_SECONDS / 4)
        for eye in list(eyes):
            if eye.look() and eye.thread.is_alive():
                result.hangs.append(_describe(eye.track))
                eyes.remove(eye)


def _given(step: Step, arg: Any) -> Slot:
    """What a call that succeeded gave."""
    parts = {}
    for key, part in (
        ("out_handle", "handle"),
        ("out_id", "id"),
        ("out_key", "key"),
        ("out_iova", "iova"),
        ("out_offset", "offset"),
        ("out_connreq", "connreq"),
        ("out_addr", "addr"),
    ):
        value = getattr(arg, key, None)
        if value is not None:
            parts[part] = value
    if step.op == "CONTROL" and arg.command == u.KFAB_GETWAIT:
        parts["fd"] = arg.value
    return Slot(parts)


def _diff(before: bytes, after: bytes) -> str:
    first = next((n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b), -1)
    return f"from byte {first} on: {after[first : first + 16].hex()}"


def _poll(fd: int, milliseconds: int) -> None:
    poll = select.poll()
    poll.register(fd)
    poll.poll(_soon(milliseconds))


def _epoll(fd: int, milliseconds: int) -> None:
    with select.epoll() as epoll:
        epoll.register(fd, select.EPOLLIN | select.EPOLLET)
        epoll.poll(_soon(milliseconds) / 1000)


def _soon(milliseconds: int) -> int:
    """No longer than a program may wait where no signal ends it: Python would begin anew."""
    return max(0, min(milliseconds, 50))


def _read(fd: int) -> None:
    """Read in a way that never blocks, should the number be a pipe's by now."""
    os.pread(fd, 8, 0)


def _close_quietly(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


def _reap(pid: int, limit: Deadline) -> int:
    """Wait for a child's end, and kill it at the deadline; its status."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if limit.expired:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def _describe(track: Track) -> str:
    """Where a thread is that does not come back."""
    try:
        state = sleeping.read_state(track.tid)
    except OSError as error:
        return f"{track.step}: {error}"
    return f"{track.step}: {state}"
