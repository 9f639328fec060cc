# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: a ping-pong between two processes without an interpreter between the messages.

Each side sleeps until a message has come: in a wait set of kfabric, by loop.c, or in a completion
channel of verbs, by ibv_rc_pingpong, or in a CQ of libfabric's verbs provider, by fi_talk.c.
"""

import contextlib
import ctypes
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import kfabric_py as kp
from kfabric.bench.ends import SIZE, End, Pair
from kfabric.guest import rc_pingpong
from kfabric.guest.topology import RdmaLink
from kfabric_py import _uapi
from kfabric_py.memory import described

_SECONDS = 60
_TIME = re.compile(r"(\d+) iters in \S+ seconds = ([\d.]+) usec/iter")


class _Turn:
    """What one side does in each turn: a receive, a message, a sleep, a read."""

    def __init__(self, end: End, wait_set: kp.WaitSet) -> None:
        posts = (_uapi.KFAB_IOC_RECV, end.received), (_uapi.KFAB_IOC_SEND, end.sent)
        self._messages = [message(end.ep, segment) for _, segment in posts]
        self._posts = calls(*zip((request for request, _ in posts), self._messages, strict=True))
        self._entry = _uapi.kfab_cq_entry()
        self._read = _uapi.kfab_cq_read(
            size=ctypes.sizeof(_uapi.kfab_cq_read),
            cq=end.cq._live_handle(),
            count=1,
            entries=ctypes.addressof(self._entry),
        )
        self._reads = calls((_uapi.KFAB_IOC_CQ_READ, self._read))
        self.batch = _uapi.kfab_batch(
            size=ctypes.sizeof(_uapi.kfab_batch),
            posts=ctypes.addressof(self._posts),
            reads=ctypes.addressof(self._reads),
            post_count=len(self._posts),
            read_count=len(self._reads),
            wait=wait_set._live_handle(),
            deadline=time.monotonic_ns() + _SECONDS * 10**9,
        )


def message(ep: kp.Endpoint, segment: kp.Segment) -> _uapi.kfab_msg:
    """The structure of a RECV or SEND."""
    return _uapi.kfab_msg(
        size=ctypes.sizeof(_uapi.kfab_msg),
        ep=ep._live_handle(),
        iov_count=1,
        iov=ctypes.addressof(described(segment)),
    )


def calls(*made: tuple[int, ctypes.Structure]) -> ctypes.Array[_uapi.kfab_batch_call]:
    """The posts or reads of a batch, whose structures the caller keeps."""
    return (_uapi.kfab_batch_call * len(made))(
        *(
            _uapi.kfab_batch_call(cmd=request & 0xFFFFFFFF, arg=ctypes.addressof(argument))
            for request, argument in made
        )
    )


def of_kfabric(loops: ctypes.CDLL, link: RdmaLink, rounds: int) -> dict[str, int]:
    """Two processes that share a client, each with an end and a wait set of its own."""
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(kp.Device())
        pair = Pair(device, link, stack)
        wait_sets = iter([stack.enter_context(pair.fabric.wait_set()) for _ in range(2)])
        sets: list[kp.WaitSet] = []

        def queue(domain: kp.Domain) -> kp.CompletionQueue:
            sets.append(next(wait_sets))
            return domain.cq(64, wait_set=sets[-1])

        ends = pair.connect(queue, 1)
        turns = [_Turn(end, each) for end, each in zip(ends, sets, strict=True)]

        def talk(side: int) -> int:
            wrong = ctypes.c_ulong()
            batch = ctypes.byref(turns[side].batch)
            loops.loop_talk(
                device.fileno(), batch, side, ctypes.c_ulong(rounds), ctypes.byref(wrong)
            )
            return wrong.value

        child = os.fork()
        if not child:
            os._exit(bool(talk(1)))
        began = time.monotonic_ns()
        wrong = talk(0)
        ns = time.monotonic_ns() - began
        _, status = os.waitpid(child, 0)
        return {"ns": ns, "wrong": wrong + bool(status)}


def of_verbs(link: RdmaLink, rounds: int) -> dict[str, int]:
    """Two ibv_rc_pingpong -e."""
    with tempfile.TemporaryFile("w+") as said:
        status = rc_pingpong.play(link, rounds, _SECONDS, SIZE, said)
        said.seek(0)
        found = _TIME.search(said.read())
    if status or found is None or int(found[1]) != rounds:
        return {"ns": 0, "wrong": 1}
    return {"ns": round(float(found[2]) * 1000 * rounds), "wrong": 0}


def of_libfabric(program: Path, link: RdmaLink, rounds: int) -> dict[str, int]:
    """Two processes with connected endpoints of libfabric."""
    argv = [str(program), link.address, str(rounds), str(SIZE)]
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, text=True, timeout=2 * _SECONDS, check=False
    )
    told = done.stdout.strip()
    return {"ns": int(told or 0), "wrong": int(done.returncode != 0 or not told)}
