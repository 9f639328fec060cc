# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A thread that comes to a chosen point gives way to the others (kfabric.guest.giveway)."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kfabric import names
from kfabric.guest import giveway
from kfabric.guest.waiting import wait_until

POINT = "proc_do_uuid"
"""A function of the kernel that nobody else calls here."""
EVERY_VISIT = "2"
"""The seed under which each visit counts."""
VISITS = 8
KTHREADD = 2
"""The process that all threads of the kernel come from."""

CODE = """
import sys
from kfabric.guest import giveway
giveway.LONGEST_SECONDS = 0.5
sys.exit(giveway.main())
"""
"""The command, with times that are longer than all else that a visit takes on a slow guest."""


def visit() -> None:
    """Come to the point, once."""
    file = os.open("/proc/sys/kernel/random/uuid", os.O_RDONLY)
    os.read(file, 64)
    os.close(file)


def raised() -> list[int]:
    """The processes with the priority of those that come before a thread that gives way."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(ProcessLookupError):
            if os.sched_getparam(pid) == giveway._OTHERS:
                found.append(pid)
    return found


@pytest.fixture
def tracing() -> Iterator[None]:
    """Removes the events afterwards; the real-time limit and the priorities are as before."""
    limit = giveway.RUNTIME.read_text()
    yield
    giveway.RUNTIME.write_text(limit)
    for pid in raised():
        os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
    instance = giveway.TRACING / "instances" / giveway.OURS
    with suppress(FileNotFoundError):
        (instance / "events" / giveway.OURS / "enable").write_text("0")
    if instance.exists():
        wait_until(lambda: _removed(instance), "nobody uses the instance of tracefs")
    events = os.open(giveway.TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)
    with suppress(FileNotFoundError):
        os.write(events, f"-:{giveway.OURS}/p0\n".encode())
    os.close(events)


def _removed(instance: Path) -> bool:
    try:
        instance.rmdir()
    except OSError:
        return False
    return True


@pytest.fixture
def preemptible() -> Iterator[None]:
    """The kernel can take the CPU from a thread anywhere, as in a recorded guest."""
    if not giveway.PREEMPTION.exists():
        yield
        return
    before = re.findall(r"\((\w+)\)", giveway.PREEMPTION.read_text())[0]
    giveway.PREEMPTION.write_text("full")
    yield
    giveway.PREEMPTION.write_text(before)


def test_a_visit_has_its_thread_and_its_point(tracing: None) -> None:
    events = dict(giveway._define([POINT]))
    assert events == {"p0": POINT}
    visits = giveway._listen(events)
    visit()
    assert select.select([visits], [], [], 10)[0]
    found = giveway._LINE.search(giveway._read(visits))
    os.close(visits)
    assert found and found.groups() == (str(threading.get_native_id()), "p0")


def test_point_inside_an_instruction_is_refused(
    tracing: None, preemptible: None, tmp_path: Path
) -> None:
    """With one line that names it, and, if no other is left, a status that no test has."""
    status, error = command(tmp_path, f"{POINT}+0x1")
    first, second = error.splitlines()
    assert status == names.UNPREPARED
    assert first.startswith(f"{names.REFUSED}{POINT}+0x1: ")
    assert second == "no thread can give way: no point is left"


def test_kernel_that_is_not_preemptible_is_refused(tracing: None, tmp_path: Path) -> None:
    """A thread would give way behind the point."""
    if giveway._preemptible():
        pytest.skip("this kernel takes the CPU from a thread in its code")
    status, error = command(tmp_path, POINT)
    assert status == names.UNPREPARED and error.endswith("from a thread in its code\n")


def test_all_threads_but_one_come_first() -> None:
    """And have their policies back afterwards."""
    ours = threading.get_native_id()
    with giveway._others_first(ours, ()):
        assert os.sched_getscheduler(ours) == os.SCHED_OTHER
        assert os.sched_getscheduler(1) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO
    assert os.sched_getscheduler(1) == os.SCHED_OTHER


def test_threads_of_the_kernel_come_first_all_the_time(
    tracing: None, preemptible: None, tmp_path: Path
) -> None:
    """To raise them each time would leave the tests few moments to give way in."""
    try:
        assert command(tmp_path, POINT) == (0, "")
        kernel = raised()
        assert KTHREADD in kernel and not {1, os.getpid()} & set(kernel)
        with giveway._others_first(threading.get_native_id(), kernel):
            assert 1 in raised()
        with giveway._others_first(KTHREADD, kernel):
            assert 1 in raised() and KTHREADD not in raised()
        assert raised() == kernel
    finally:
        subprocess.run(["pkill", "-f", "giveway.main"], timeout=60, check=False)


def test_thread_gets_no_time_while_it_gives_way(
    tracing: None, preemptible: None, tmp_path: Path
) -> None:
    """On the CPU that it shares with us: its visits take as long as all times that were noted."""
    whole = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(whole)})
    try:
        assert command(tmp_path, POINT) == (0, "")
        before = time.monotonic()
        for _ in range(VISITS):
            visit()
        took = time.monotonic() - before
        lines = (tmp_path / names.GAVE_WAY).read_text().splitlines()
    finally:
        subprocess.run(["pkill", "-f", "giveway.main"], timeout=60, check=False)
        os.sched_setaffinity(0, whole)
    thread = f"{Path('/proc/thread-self/comm').read_text().strip()}/{threading.get_native_id()}"
    pattern = rf"visit (\d+) of {POINT}: thread {re.escape(thread)}, ([\d.]+) ms"
    noted = [re.fullmatch(pattern, line) for line in lines]
    assert noted and all(noted)
    numbers = [int(one[1]) for one in noted if one]
    assert numbers == sorted(set(numbers)) and numbers[-1] <= VISITS
    assert took * 1e3 >= sum(float(one[2]) for one in noted if one) > 0


def command(out: Path, point: str) -> tuple[int, str]:
    """Have threads give way at a point; the command's status and error."""
    # Not a pipe: what it leaves behind keeps its end open.
    with (out / "errors").open("w") as errors:
        done = subprocess.run(
            [sys.executable, "-c", CODE, EVERY_VISIT, point],
            env={**os.environ, names.OUT: str(out)},
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            timeout=60,
            check=False,
        )
    return done.returncode, (out / "errors").read_text()
