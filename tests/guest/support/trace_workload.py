# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the tests of the tracer run: waits of known number, each kind on its own queue.

Run as a program of its own, since the tracer follows processes:

    python3 trace_workload.py FILE ping 499 timeout 13 spawn 31 sleeper 1

FILE gets, as JSON, who did what. It imports nothing of the checkout: to read that from 9p would
be traced, too.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Until a child process sleeps.
SECONDS = 60.0
# On x86-64, for futexes of one process.
SYS_FUTEX, FUTEX_WAIT, FUTEX_WAKE = 202, 128, 129
WAIT_NS = 100_000_000
"""Long, since a wait whose time is over before its thread sleeps is no wait."""
# Kept to the end, since freed memory could become another step's futex.
WORDS = (ctypes.c_uint32 * 3)()


@contextmanager
def in_turns(cpu: int = 0) -> Iterator[None]:
    """On one CPU, first come, first served: who runs goes on until it sleeps."""
    was = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, was)


@in_turns()
def ping(messages: int) -> dict[str, int]:
    """One pair."""
    return exchange(messages)


def exchange(messages: int) -> dict[str, int]:
    """So many messages there and back between two processes, over two pipes.

    In turns who has written goes on until it sleeps in its read, so that every read
    sleeps but the child's first one.
    """
    there, back = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        for _ in range(messages):
            os.read(there[0], 1)
            os.write(back[1], b"x")
        os._exit(0)
    began = time.monotonic()
    for _ in range(messages):
        os.write(there[1], b"x")
        os.read(back[0], 1)
    seconds = time.monotonic() - began
    os.waitpid(child, 0)
    return {"child": child, "ms": int(seconds * 1000)}


def pairs(messages: int) -> dict[str, int]:
    """Two such pairs at a time, each on a CPU of its own; as fast as they can."""
    other = os.fork()
    if other == 0:
        with in_turns(1):
            exchange(messages)
        os._exit(0)
    with in_turns(0):
        told = exchange(messages)
    os.waitpid(other, 0)
    return told


def timeout(times: int) -> dict[str, int]:
    """Wait in poll() for a pipe into which nobody writes."""
    ends = os.pipe()
    poller = select.poll()
    poller.register(ends[0], select.POLLIN)
    return {"empty": sum(not poller.poll(3) for _ in range(times))}


@in_turns()
def spawn(times: int) -> dict[str, int]:
    """Start programs by vfork(), which sleeps on a completion until the program runs."""
    for _ in range(times):
        pid = os.posix_spawn("/bin/true", ["true"], {})
        os.waitpid(pid, 0)
    return {}


def interrupted(times: int) -> dict[str, int]:
    """The same processes, each ended by a signal once it sleeps."""
    pids = sleeper(times)
    for pid in pids.values():
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
    return pids


def sleeper(count: int) -> dict[str, int]:
    """Leave processes behind that read a pipe into which nobody will ever write."""
    ends = os.pipe()
    pids = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            os.read(ends[0], 1)
            os._exit(0)
        pids.append(pid)
    deadline = time.monotonic() + SECONDS
    for pid in pids:
        while "pipe" not in Path(f"/proc/{pid}/wchan").read_text():
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {pid} does not read within {SECONDS:g} s")
            time.sleep(0.01)
    return {f"pid{number}": pid for number, pid in enumerate(pids)}


class _Timespec(ctypes.Structure):
    """The kernel's struct timespec."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _futex(word: ctypes.c_uint32, operation: int, number: int, limit_ns: int = 0) -> int:
    """The system call, without a lock of Python during it."""
    limit = ctypes.byref(_Timespec(0, limit_ns)) if limit_ns else None
    call = ctypes.CDLL(None).syscall
    return int(call(SYS_FUTEX, ctypes.byref(word), operation, number, limit))


@in_turns()
def futex(times: int) -> dict[str, int]:
    """One thread sleeps so often, and another one wakes it each time; the word stays 0.

    In turns the waker runs only while the other thread sleeps.
    """
    word = ctypes.c_uint32.from_buffer(WORDS)

    def sleep() -> None:
        for _ in range(times):
            _futex(word, FUTEX_WAIT, 0)

    thread = threading.Thread(target=sleep)
    thread.start()
    calls = woken = 0
    while woken < times:
        woken += _futex(word, FUTEX_WAKE, 1)
        calls += 1
        time.sleep(0.001)
    thread.join()
    return {"word": ctypes.addressof(word), "calls": calls}


def misdirected(times: int) -> dict[str, int]:
    """The same with a fault: the calls wake another word, so that each wait times out."""
    slept, woken = (ctypes.c_uint32.from_buffer(WORDS, 4 * number) for number in (1, 2))
    for _ in range(times):
        _futex(woken, FUTEX_WAKE, 1)
        _futex(slept, FUTEX_WAIT, 0, WAIT_NS)
    return {"slept": ctypes.addressof(slept), "woken": ctypes.addressof(woken)}


def main() -> None:
    """Do what the arguments say."""
    path, *words = sys.argv[1:]
    told = {"pid": {"pid": os.getpid()}}
    for name, number in zip(words[::2], words[1::2], strict=True):
        told[name] = globals()[name](int(number))
    Path(path).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
