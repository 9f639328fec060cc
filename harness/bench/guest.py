# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The guest's part of ``make bench``: measures what it is told, line by line.

Lines come on standard input. For each one a line of JSON goes out, with the line
and its figures. Those that the kernel measures are passed on to the test module.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import kfabric_py as kp
from harness.bench import events, figures, libfabric
from harness.bench.watched import Link
from harness.guest import modules as guest_modules
from kfabric_py import _uapi

BENCH = Path("/sys/kernel/debug/kfi_bench")
LOOPS = "KFABRIC_BENCH_LOOPS"
"""Environment: the library made from loop.c."""

_LIMIT = Path("/sys/module/kfabric_dev/parameters/max_objects")
_ROOM = 16
_FILES = 65536


def in_kernel(line: str) -> dict[str, int]:
    """Have the module measure. Raises OSError."""
    fd = os.open(BENCH, os.O_RDWR)
    try:
        os.write(fd, line.encode())
        return figures.parse(os.read(fd, 4096).decode())
    finally:
        os.close(fd)


def _loops() -> ctypes.CDLL:
    library = ctypes.CDLL(os.environ[LOOPS])
    library.loop_ioctl.restype = library.loop_poll.restype = ctypes.c_uint64
    return library


def from_user_space(members: int, calls: int) -> dict[str, int]:
    """Poll a set of idle queues through /dev/kfabric."""
    wrong = ctypes.c_ulong()
    entries = (_uapi.kfab_poll_entry * _ROOM)()
    with _idle_poll_set(members) as (device, poll_set):
        arg = _uapi.kfab_poll(
            size=ctypes.sizeof(_uapi.kfab_poll),
            poll=poll_set._live_handle(),
            count=_ROOM,
            entries=ctypes.addressof(entries),
        )
        cycles = _loops().loop_ioctl(
            device.fileno(),
            ctypes.c_ulong(_uapi.KFAB_IOC_POLL),
            ctypes.byref(arg),
            0,
            ctypes.c_ulong(calls),
            ctypes.byref(wrong),
        )
    return {"cycles": cycles, "wrong": wrong.value}


@contextlib.contextmanager
def _idle_poll_set(members: int) -> Iterator[tuple[kp.Device, kp.PollSet]]:
    # The queues, and what they are opened on.
    _LIMIT.write_text(str(members + _ROOM))
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(kp.Device())
        info = device.getinfo(provider="mock")[0]
        fabric = stack.enter_context(device.fabric(info))
        domain = stack.enter_context(fabric.domain(info))
        queues = [stack.enter_context(domain.cq(1)) for _ in range(members)]
        poll_set = stack.enter_context(domain.poll_set())
        for queue in queues:
            poll_set.add(queue)
        yield device, poll_set


def of_libfabric(provider: str, members: int, calls: int) -> dict[str, int]:
    """Poll a set of idle queues of libfabric."""
    wrong = ctypes.c_ulong()
    context = (ctypes.c_void_p * _ROOM)()
    with libfabric.idle_poll_set(provider, members) as (function, poll_set):
        cycles = _loops().loop_poll(
            ctypes.c_void_p(function),
            poll_set,
            context,
            _ROOM,
            0,
            ctypes.c_ulong(calls),
            ctypes.byref(wrong),
        )
    return {"cycles": cycles, "wrong": wrong.value}


def measure(line: str, link: Link) -> dict[str, int]:
    """The figures of one line of the plan."""
    name, *words = line.split()
    if name == "rxe":
        return link.play(int(words[0]), words[1])
    if name == "events":
        return events.play(words[0], link.link, int(words[1]))
    if name == "ioctl":
        return from_user_space(*map(int, words))
    if name == "fi_poll":
        return of_libfabric(words[0], int(words[1]), int(words[2]))
    if name in figures.ON_A_LINK:
        return in_kernel(" ".join([name, link.address, *words]))
    return in_kernel(line)


def run(plan: Iterator[str], tell: Callable[[str, dict[str, int]], None]) -> None:
    """Measure everything, with the modules loaded meanwhile."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    ours = guest_modules.Modules.from_environment()
    with ours.loaded():
        guest_modules.insert(ours.file("kfi_bench"))
        # The system's own way to verbs, which pyverbs goes.
        guest_modules.need(["ib_uverbs"])
        try:
            with Link(ours) as link:
                for line in plan:
                    tell(line, measure(line, link))
        finally:
            guest_modules.remove("kfi_bench")


def main() -> int:
    """Read the plan, print the figures."""

    def tell(line: str, measured: dict[str, int]) -> None:
        print(json.dumps({"line": line, "figures": measured}), flush=True)

    run((line.strip() for line in sys.stdin), tell)
    return 0


if __name__ == "__main__":
    sys.exit(main())
