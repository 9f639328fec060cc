# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In a recorded guest: a thread that comes to a chosen point gives way to the others for a while.

    python3 -m kfabric.guest.giveway SEED MODULE:FUNCTION+0xOFFSET...

A recorded guest has one CPU. So a race shows only if a thread loses the CPU at the right place. A
kprobe event at each point wakes a process of ours with a real-time priority, which takes the CPU
from the thread at once. For a while three priorities are above that of the thread:

    _OURS_FIRST    this process, which ends the while
    _OTHERS        all threads but that one
    _NOBODY        a process of ours that computes if none of them wants to run

To raise a thread takes half a millisecond in an emulated guest. So the threads that the kernel has
already are raised once, and stay so.

All this takes at most half of the time, but for SPARE_SECONDS. The command returns once it is
prepared, and what it has prepared goes on until the guest ends. Each time that a thread gave way is
a line of the file GAVE_WAY, with the number of the visit.
"""

import os
import random
import re
import select
import struct
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kfabric import names

TRACING = Path("/sys/kernel/tracing")
RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
PREEMPTION = Path("/sys/kernel/debug/sched/preempt")
OURS = "kfabric_giveway"
"""Both the group of the events and the instance that gets them."""
ONE_VISIT_OF = (4, 1, 16, 2, 8)
"""A thread gives way at one visit of so many; a seed takes one of these."""
LONGEST_SECONDS = 0.004
SPARE_SECONDS = 0.5
"""A recorded guest is fast by its own clock, so hundreds of rounds of a test may take 10 ms."""
_MOST_BYTES = 4096
_NOBODY, _OTHERS, _OURS_FIRST = map(os.sched_param, (1, 2, 3))
_FAIR = (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE)
_SECONDS = struct.Struct("<d")
# "mail_writer-155     [000] d..2.    12.345678: p0: (mail_play+0x125/0x200 [lost_mail])"
_LINE = re.compile(r"-(\d+)\s+\[\d+\].*: (p\d+): \(")


def main() -> int:
    """Prepare it; the status is UNPREPARED, with the reason printed, if that is not possible."""
    seed, *points = sys.argv[1:]
    if not _preemptible():
        return _refuse("the kernel does not take the CPU from a thread in its code")
    try:
        events = dict(_define(points))
        if not events:
            return _refuse("no point is left")
        visits = _listen(events)
    except OSError as error:
        return _refuse(str(error))
    ready, begun = os.pipe()
    if os.fork() == 0:
        os.setsid()
        _serve(visits, events, int(seed), begun)
    os.close(begun)
    return 0 if os.read(ready, 1) else _refuse("its process has ended")


def _refuse(why: str) -> int:
    print(f"no thread can give way: {why}", file=sys.stderr)
    return names.UNPREPARED


def _preemptible() -> bool:
    """Whether a thread can lose the CPU anywhere in the kernel."""
    if PREEMPTION.exists():
        return "(full)" in PREEMPTION.read_text()
    return not {"PREEMPT", "PREEMPT_RT"}.isdisjoint(os.uname().version.split())


def _define(points: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Define an event for each point; its name and the point.

    The kernel refuses places that it may patch itself; a line says so. If a module is not loaded,
    it looks for the point when it is. Raises OSError.
    """
    # Without O_APPEND all other events would be removed. Python's mode "a" seeks, which is refused.
    file = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)
    for number, point in enumerate(points):
        try:
            os.write(file, f"p:{OURS}/p{number} {point}\n".encode())
        except OSError as error:
            print(f"{names.REFUSED}{point}: {error.strerror}", file=sys.stderr, flush=True)
        else:
            yield f"p{number}", point
    os.close(file)


def _listen(events: Iterable[str]) -> int:
    """Enable the events; a descriptor with a line for each visit. Raises OSError."""
    # Otherwise a thread that gives way gets a twentieth of each second.
    RUNTIME.write_text("-1")
    instance = TRACING / "instances" / OURS
    instance.mkdir()
    # By default a reader is woken once the buffer is half full.
    (instance / "buffer_percent").write_text("0")
    for name in events:
        (instance / "events" / OURS / name / "enable").write_text("1")
    return os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)


def _serve(visits: int, points: dict[str, str], seed: int, begun: int) -> None:
    """Write to a pipe once it has begun; then let threads give way, until the guest ends."""
    draw = random.Random(seed)
    one_visit_of = ONE_VISIT_OF[(seed - 1) % len(ONE_VISIT_OF)]
    work, computing = _child(_compute, begun)
    moments, noting = _child(_note, begun)
    nobody = (0, os.getpid(), computing, noting)
    os.sched_setscheduler(0, os.SCHED_FIFO, _OURS_FIRST)
    raised = frozenset(_raise_kernel_threads())
    # The first time is slow in an emulated guest.
    with _others_first(os.getpid(), raised):
        pass
    os.write(begun, b".")
    spare, rested = SPARE_SECONDS, time.monotonic()
    while True:
        select.select([visits], [], [])
        woken = time.monotonic()
        spare = min(spare + woken - rested, SPARE_SECONDS)
        # The first one of them is that of the thread from which we have taken the CPU.
        found = _LINE.findall(_read(visits))
        pid, event = (int(found[0][0]), found[0][1]) if found else (0, "")
        gives_way = pid not in nobody and (pid in raised or _is_fair(pid))
        if gives_way and not draw.randrange(one_visit_of):
            seconds = draw.uniform(0, LONGEST_SECONDS)
            number = _visits_of(event) - [one[1] for one in found[1:]].count(event)
            # Without its module, so that kfabric replay takes the words before the colon.
            moment = f"visit {number} of {points[event].rpartition(':')[2]}"
            with _others_first(pid, raised):
                line = f"{moment}: thread {_name(pid)}/{pid}, {seconds * 1e3:.3f} ms\n"
                os.write(moments, line.encode())
                os.write(work, _SECONDS.pack(time.monotonic() + seconds))
                time.sleep(seconds)
            # Visits of others meanwhile: those threads are elsewhere by now.
            _read(visits)
        rested = time.monotonic()
        spare -= rested - woken
        if spare < 0:
            _rest(visits, -spare)


def _child(work: Callable[[int], None], begun: int) -> tuple[int, int]:
    """A process that does what is written to a pipe: the pipe's end, and its id."""
    here, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(begun)
        os.close(end)
        work(here)
        os._exit(0)
    os.close(here)
    return end, pid


def _rest(visits: int, seconds: float) -> None:
    """Leave the guest to itself for some time."""
    recording = TRACING / "instances" / OURS / "tracing_on"
    recording.write_text("0")
    time.sleep(seconds)
    _read(visits)
    recording.write_text("1")


def _is_fair(thread: int) -> bool:
    """Whether a thread has no real-time priority; also if it has ended."""
    with suppress(ProcessLookupError):
        return os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK in _FAIR
    return True


def _name(thread: int) -> str:
    """The name of a thread; the trace has it only of those that have run with an event before."""
    with suppress(OSError):
        return Path(f"/proc/{thread}/comm").read_text().strip()
    return "?"


def _visits_of(event: str) -> int:
    """How often an event's point was passed so far."""
    profile = (TRACING / "kprobe_profile").read_text()
    return next(
        int(hits) for name, hits, _ in map(str.split, profile.splitlines()) if name == event
    )


def _read(visits: int) -> str:
    """All lines that are there."""
    text = b""
    with suppress(BlockingIOError):
        while more := os.read(visits, _MOST_BYTES):
            text += more
    return text.decode(errors="replace")


def _raise_kernel_threads() -> Iterator[int]:
    """Let them come before all others that have no real-time priority; their ids."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        # The kernel's threads have no program.
        if not os.access(f"/proc/{pid}/exe", os.F_OK) and _is_fair(pid):
            _raise(pid)
            yield pid


def _raise(thread: int) -> None:
    with suppress(ProcessLookupError):
        os.sched_setscheduler(thread, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, _OTHERS)


def _lower(thread: int, policy: int) -> None:
    with suppress(ProcessLookupError):
        os.sched_setscheduler(thread, policy, os.sched_param(0))


@contextmanager
def _others_first(thread: int, raised: Container[int]) -> Iterator[None]:
    """All other threads come before this one; those of these processes do already."""
    before = []
    try:
        if thread in raised:
            _lower(thread, os.SCHED_OTHER)
        for tid in _threads(raised):
            with suppress(ProcessLookupError):
                policy = os.sched_getscheduler(tid)
                if tid != thread and _is_fair(tid):
                    before.append((tid, policy))
                    _raise(tid)
        yield
    finally:
        if thread in raised:
            _raise(thread)
        for tid, policy in before:
            _lower(tid, policy)


def _threads(but: Container[int]) -> Iterator[int]:
    """The ids of all threads of all processes but these."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(FileNotFoundError, ProcessLookupError):
            if pid not in but:
                yield from map(int, os.listdir(f"/proc/{pid}/task"))


def _note(moments: int) -> None:
    """Write each line to the file at once, as the guest may panic soon.

    Whoever writes to it sleeps, and in that time the thread would go on that gives way.
    """
    os.sched_setscheduler(0, os.SCHED_FIFO, _OTHERS)
    with (Path(os.environ[names.OUT]) / names.GAVE_WAY).open("ab", buffering=0) as log:
        while data := os.read(moments, _MOST_BYTES):
            log.write(data)
            os.fdatasync(log.fileno())


def _compute(requests: int) -> None:
    """Use the CPU until each time that is requested, if no other thread wants it."""
    os.sched_setscheduler(0, os.SCHED_FIFO, _NOBODY)
    while data := os.read(requests, _SECONDS.size):
        while time.monotonic() < _SECONDS.unpack(data)[0]:
            pass


if __name__ == "__main__":
    sys.exit(main())
