# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Telling a thread that sleeps from one that runs or is about to sleep."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator

import pytest

from kfabric.guest import sleeping
from kfabric.guest.sleeping import ThreadGone
from kfabric.guest.waiting import Deadline, DeadlineExpired, wait_until


class Thread(threading.Thread):
    """A thread whose kernel id is known once it runs."""

    def __init__(self, body) -> None:
        super().__init__(target=self._run_body, daemon=True)
        self._body = body
        self._begun = threading.Event()

    def _run_body(self) -> None:
        self.tid = threading.get_native_id()
        self._begun.set()
        self._body()

    def begin(self) -> int:
        """Start it; its kernel id."""
        self.start()
        assert self._begun.wait(10)
        return self.tid


@pytest.fixture
def reader() -> Iterator[tuple[Thread, socket.socket]]:
    """A thread that sleeps in a read of a socket, and the socket that wakes it."""
    mine, its = socket.socketpair()
    thread = Thread(lambda: its.recv(1))
    yield thread, mine
    mine.close()
    thread.join(10)
    its.close()


def test_sleeping_thread_is_found_at_its_place(reader) -> None:
    """The state names the system call and the function it sleeps in."""
    thread, _ = reader
    state = sleeping.wait_until_asleep(thread.begin(), where="^unix_stream_")
    assert state.off_cpu and state.at("^unix_stream_read_generic")
    assert "unix_stream" in str(state)


def test_sleep_elsewhere_does_not_count(reader) -> None:
    """Asleep, but not at our wait point: the failure says where it is instead."""
    thread, _ = reader
    tid = thread.begin()
    sleeping.wait_until_asleep(tid, where="^unix_stream_")
    assert not sleeping.is_asleep(tid)
    with pytest.raises(DeadlineExpired, match="unix_stream"):
        sleeping.wait_until_asleep(tid, deadline=0.2)


@pytest.fixture
def computing() -> Iterator[int]:
    """The kernel's id of a thread that computes until the test ends."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            pass

    thread = Thread(compute)
    yield thread.begin()
    stop.set()
    thread.join(10)


def test_running_thread_is_not_asleep(computing: int) -> None:
    """A thread that computes is on a CPU, or ready to be."""
    assert not any(sleeping.is_asleep(computing, where="") for _ in range(20))


def test_time_of_a_running_thread_is_described(computing: int) -> None:
    """A thread that computes spends its time in its program, once it gets a CPU."""

    def described() -> list[str]:
        first, *stacks = sleeping.awake(computing, seconds=0.2).splitlines()
        program, kernel = map(float, re.findall(r"(?:program|kernel) ([\d.]+) s", first))
        return stacks if program > kernel else []

    stacks = wait_until(described, "more time in its program than in the kernel", 30)
    assert all(" times: " in line for line in stacks)


def test_thread_that_ends_is_reported_at_once(reader) -> None:
    """Waiting for the sleep of a thread that is gone does not last until the deadline."""
    thread, mine = reader
    tid = thread.begin()
    mine.send(b"x")
    thread.join(10)
    limit = Deadline(60)
    with pytest.raises(ThreadGone):
        sleeping.wait_until_asleep(tid, deadline=limit)
    assert not limit.expired


def test_kernel_threads_are_seen_too() -> None:
    """A kthread has no system call, and still a place to sleep in."""
    (tid,) = sleeping.threads("kthreadd")
    state = sleeping.wait_until_asleep(tid, where="^kthreadd")
    assert (tid, state.name) == (2, "kthreadd")


def test_another_process_is_seen_too() -> None:
    """A child that reads from an empty pipe."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    sleeping.wait_until_asleep(pid, where="pipe")
    os.close(write)
    os.waitpid(pid, 0)
    os.close(read)


def test_deadline_counts_from_its_making() -> None:
    """One deadline covers several waits; the last look comes after it."""
    limit = Deadline(0.05)
    with pytest.raises(DeadlineExpired, match=r"^never: not within .* seen: nothing$"):
        wait_until(lambda: False, "never", limit, seen=lambda: "nothing")
    assert limit.expired
    assert wait_until(lambda: "there", "what is there already", limit) == "there"
