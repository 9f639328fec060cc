# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: batches of messages in one process, whose completions are polled.

With kfabric one call posts a batch, and both completion queues are rings, which loop.c reads
without a call. It sleeps where one is empty. With verbs ibv_flow.c posts two lists, and polls.
"""

import contextlib
import ctypes
import subprocess
import time
from pathlib import Path

import kfabric_py as kp
from kfabric.bench.ends import SIZE, End, Pair
from kfabric.bench.talk import calls, message
from kfabric.guest.rc_pingpong import gid_index
from kfabric.guest.topology import RdmaLink
from kfabric_py import _uapi

_SECONDS = 60


class _End(ctypes.Structure):
    """struct flow_end of loop.c."""

    _fields_ = (("ring", ctypes.c_void_p), ("wait", ctypes.POINTER(_uapi.kfab_batch)))


def _end(end: End, wait_set: kp.WaitSet) -> _End:
    """The ring of a queue, and a call that sleeps in its wait set."""
    ring = end.cq._ring
    assert ring is not None
    wait = _uapi.kfab_batch(
        size=ctypes.sizeof(_uapi.kfab_batch),
        wait=wait_set._live_handle(),
        deadline=time.monotonic_ns() + _SECONDS * 10**9,
    )
    address = ctypes.addressof(ctypes.c_char.from_buffer(ring._map))
    return _End(address, ctypes.pointer(wait))


def of_kfabric(loops: ctypes.CDLL, link: RdmaLink, count: int, rounds: int) -> dict[str, int]:
    """Two ends of one client."""
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(kp.Device())
        pair = Pair(device, link, stack)
        wait_sets = [stack.enter_context(pair.fabric.wait_set()) for _ in range(2)]
        sets = iter(wait_sets)
        ends = pair.connect(
            lambda domain: domain.cq(2 * count, ring=True, wait_set=next(sets)), 0, selective=False
        )
        recv, send = message(ends[1].ep, ends[1].received), message(ends[0].ep, ends[0].sent)
        posts = calls(
            *[(_uapi.KFAB_IOC_RECV, recv)] * count, *[(_uapi.KFAB_IOC_SEND, send)] * count
        )
        batch = _uapi.kfab_batch(
            size=ctypes.sizeof(_uapi.kfab_batch),
            posts=ctypes.addressof(posts),
            post_count=len(posts),
        )
        rings = [_end(*each) for each in zip(ends, wait_sets, strict=True)]

        def play(times: int) -> int:
            wrong = ctypes.c_ulong()
            loops.loop_flow(
                device.fileno(),
                ctypes.byref(batch),
                *map(ctypes.byref, rings),
                count,
                ctypes.c_ulong(times),
                ctypes.byref(wrong),
            )
            return wrong.value

        wrong = play(1)
        began = time.monotonic_ns()
        wrong += play(rounds)
        return {"ns": time.monotonic_ns() - began, "wrong": wrong}


def of_verbs(program: Path, link: RdmaLink, count: int, rounds: int) -> dict[str, int]:
    """Two queue pairs of a process."""
    argv = [str(program), link.name, *map(str, (gid_index(link), rounds, count, SIZE))]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=_SECONDS, check=False)
    told = done.stdout.strip()
    return {"ns": int(told or 0), "wrong": int(done.returncode != 0 or not told)}
