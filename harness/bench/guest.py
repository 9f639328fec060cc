# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: measures the lines of the bench's plan.

Lines come on standard input. For each one a line of JSON with its figures goes to standard
output. Kernel-side measurements are passed on to the test module.
"""

import contextlib
import ctypes
import json
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import kfabric_py as kp
from kfabric.bench import crowd, dead_peers, events, figures, flow, libfabric, plans, talk
from kfabric.bench.rxe import Link
from kfabric.guest import modules as guest_modules
from kfabric_py import _uapi

BENCH = Path("/sys/kernel/debug/kfi_bench")
LOOPS = "KFABRIC_BENCH_LOOPS"
"""Environment: the library made from loop.c."""
FI_TALK, IBV_FLOW = "fi_talk", "ibv_flow"
"""The programs made from fi_talk.c and ibv_flow.c, beside that library."""

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
    return ctypes.CDLL(os.environ[LOOPS])


def _timed(function: str, calls: int, *arguments: object) -> dict[str, int]:
    """Run a loop of loop.c; each call has to return 0."""
    wrong = ctypes.c_ulong()
    loop = getattr(_loops(), function)
    loop.restype = ctypes.c_uint64
    cycles = loop(*arguments, 0, ctypes.c_ulong(calls), ctypes.byref(wrong))
    return {"cycles": cycles, "wrong": wrong.value}


def from_user_space(members: int, calls: int) -> dict[str, int]:
    """Poll a set of idle queues through /dev/kfabric."""
    entries = (_uapi.kfab_poll_entry * _ROOM)()
    with _idle_poll_set(members) as (device, poll_set):
        arg = _uapi.kfab_poll(
            size=ctypes.sizeof(_uapi.kfab_poll),
            poll=poll_set._live_handle(),
            count=_ROOM,
            entries=ctypes.addressof(entries),
        )
        request = ctypes.c_ulong(_uapi.KFAB_IOC_POLL)
        return _timed("loop_ioctl", calls, device.fileno(), request, ctypes.byref(arg))


@contextlib.contextmanager
def _idle_poll_set(members: int) -> Iterator[tuple[kp.Device, kp.PollSet]]:
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
    context = (ctypes.c_void_p * _ROOM)()
    with libfabric.idle_poll_set(provider, members) as (function, poll_set):
        address = ctypes.c_void_p(function)
        return _timed("loop_poll", calls, address, poll_set, context, _ROOM)


def measure(line: str, link: Link) -> dict[str, int]:
    """The figures of one line of the plan."""
    name, *words = line.split()
    if name == "rxe":
        return link.measure(int(words[0]), words[1])
    if name == "events":
        return events.measure(words[0], link.link, int(words[1]))
    if name == "talk":
        rounds = int(words[1])
        if words[0] == plans.VERBS:
            return talk.of_verbs(link.link, rounds)
        if words[0] == plans.LIBFABRIC:
            program = Path(os.environ[LOOPS]).with_name(FI_TALK)
            return talk.of_libfabric(program, link.link, rounds)
        return talk.of_kfabric(_loops(), link.link, rounds)
    if name == "flow":
        count, rounds = map(int, words[1:])
        if words[0] == plans.VERBS:
            program = Path(os.environ[LOOPS]).with_name(IBV_FLOW)
            return flow.of_verbs(program, link.link, count, rounds)
        return flow.of_kfabric(_loops(), link.link, count, rounds)
    if name == "epoll":
        return crowd.measure(*map(int, words))
    if name == "exit":
        return dead_peers.measure(link.link, int(words[0]))
    if name == "ioctl":
        return from_user_space(*map(int, words))
    if name == "fi_poll":
        return of_libfabric(words[0], int(words[1]), int(words[2]))
    if name in plans.ON_A_LINK:
        return in_kernel(" ".join([name, link.address, *words]))
    return in_kernel(line)


def main() -> int:
    """Read the plan, and print the figures of each line, while the modules are loaded."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
    ours = guest_modules.Modules.from_environment()
    with ours.loaded():
        guest_modules.insert(ours.file("kfi_bench"))
        # pyverbs uses the system's own verbs device.
        guest_modules.need(["ib_uverbs"])
        try:
            with Link(ours) as link:
                for line in map(str.strip, sys.stdin):
                    print(json.dumps({"line": line, "figures": measure(line, link)}), flush=True)
        finally:
            guest_modules.remove("kfi_bench")
    return 0


if __name__ == "__main__":
    sys.exit(main())
