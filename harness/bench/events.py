# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: an event loop in Python over a completion channel, with kfabric and with pyverbs.

Two connected ends in one thread have their queues on the same channel. The loop sleeps in
poll(2) on the channel's descriptor, gets the event, requests the next one, reads the queue until
it is empty, posts the receive again, and sends the answer. Each side follows its manual.
"""

import contextlib
import os
import re
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kfabric_py as kp
from kfabric.bench.ends import SIZE, Pair
from kfabric.guest.rc_pingpong import gid_index
from kfabric.guest.topology import RdmaLink

_RECEIVES = 4
_POLL_MS = 30_000
_SIGNAL_EACH = 16
_AT_ONCE = 16
_SYSTEM_CALLS = Path("/sys/kernel/tracing/events/raw_syscalls/sys_enter")
_BY_THREAD = "hist:keys=common_pid"


class OfKfabric:
    """Two ends, 0 and 1, with kfabric's verbs provider through kfabric_py."""

    def __init__(self, link: RdmaLink, stack: contextlib.ExitStack) -> None:
        pair = Pair(stack.enter_context(kp.Device()), link, stack)
        self._channel = stack.enter_context(pair.fabric.comp_channel(blocking=False))
        self._ends = pair.connect(lambda domain: domain.cq(64, channel=self._channel), _RECEIVES)
        self._cqs = [end.cq for end in self._ends]
        for cq in self._cqs:
            cq.req_notify()

    def fd(self) -> int:
        """The channel's descriptor."""
        return self._channel.fileno()

    def send(self, end: int) -> None:
        """Send a message from an end."""
        self._ends[end].ep.send(self._ends[end].sent)

    def handle(self) -> int:
        """Handle the pending event; return the end whose message came, or -1."""
        event = self._channel.get_cq_event(ack=True, notify=True)
        if event is None:
            return -1
        end = self._cqs.index(event.cq)
        came = -1
        while True:
            entries = event.cq.read(_AT_ONCE)
            for _ in entries:
                self._ends[end].ep.recv(self._ends[end].received)
                came = end
            if len(entries) < _AT_ONCE:
                return came


class OfPyverbs:
    """The same with real verbs through pyverbs."""

    def __init__(self, link: RdmaLink, stack: contextlib.ExitStack) -> None:
        from pyverbs import enums
        from pyverbs.cq import CQ, CompChannel
        from pyverbs.device import Context
        from pyverbs.mr import MR
        from pyverbs.pd import PD
        from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
        from pyverbs.wr import SGE, RecvWR, SendWR

        context = stack.enter_context(Context(name=link.name))
        domain = stack.enter_context(PD(context))
        before = _event_fds()
        self._channel = stack.enter_context(CompChannel(context))
        (self._fd,) = _event_fds() - before
        os.set_blocking(self._fd, False)
        self._cqs = [CQ(context, 64, None, self._channel, 0) for _ in range(2)]
        self._sends = [CQ(context, 64, None, None, 0) for _ in range(2)]
        memory = MR(domain, 4096, enums.IBV_ACCESS_LOCAL_WRITE)
        cap = QPCap(max_send_wr=64, max_recv_wr=64)
        self._qps = [
            QP(
                domain,
                QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=sends, rcq=cq, cap=cap, sq_sig_all=0),
                QPAttr(port_num=1),
            )
            for sends, cq in zip(self._sends, self._cqs, strict=True)
        ]
        for mine, peer in (self._qps, self._qps[::-1]):
            _to_rts(context, mine, peer, gid_index(link))
        self._recv = RecvWR(sg=[SGE(memory.buf, SIZE, memory.lkey)], num_sge=1)
        out = [SGE(memory.buf + SIZE, SIZE, memory.lkey)]
        self._unsignalled = SendWR(num_sge=1, sg=out, send_flags=0)
        self._signalled = SendWR(num_sge=1, sg=out, send_flags=enums.IBV_SEND_SIGNALED)
        self._sent = [0, 0]
        self._next = 1
        for qp, cq in zip(self._qps, self._cqs, strict=True):
            for _ in range(_RECEIVES):
                qp.post_recv(self._recv)
            cq.req_notify()
        for each in (*reversed(self._sends), *reversed(self._cqs), memory, *reversed(self._qps)):
            stack.callback(each.close)

    def fd(self) -> int:
        return self._fd

    def send(self, end: int) -> None:
        self._sent[end] += 1
        # Every so often a send is signalled, so that its queue entries can be used again.
        if self._sent[end] % _SIGNAL_EACH:
            self._qps[end].post_send(self._unsignalled)
        else:
            self._sends[end].poll(1)
            self._qps[end].post_send(self._signalled)
        self._next = 1 - end

    def handle(self) -> int:
        # pyverbs needs the queue as an argument; the ends take turns.
        end = self._next
        cq = self._cqs[end]
        self._channel.get_cq_event(cq)
        cq.ack_events(1)
        cq.req_notify()
        came = -1
        while True:
            number, completions = cq.poll(_AT_ONCE)
            if not number:
                return came
            for _ in completions:
                self._qps[end].post_recv(self._recv)
                came = end


def _event_fds() -> set[int]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            if "infinibandevent" in os.readlink(f"/proc/self/fd/{name}"):
                found.add(int(name))
    return found


def _to_rts(context: Any, qp: Any, peer: Any, index: int) -> None:
    from pyverbs import enums
    from pyverbs.addr import AHAttr, GlobalRoute
    from pyverbs.qp import QPAttr

    attr = QPAttr(port_num=1)
    attr.path_mtu = enums.IBV_MTU_1024
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
    attr.min_rnr_timer, attr.timeout = 12, 14
    attr.retry_cnt = attr.rnr_retry = 7
    attr.dest_qp_num = peer.qp_num
    route = GlobalRoute(dgid=context.query_gid(1, index), sgid_index=index)
    attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
    qp.to_rts(attr)


def measure(kind: str, link: RdmaLink, rounds: int) -> dict[str, int]:
    """Measure so many round trips, after as many for warming up, whose system calls are counted."""
    with contextlib.ExitStack() as stack:
        loop = OfKfabric(link, stack) if kind == "kfabric" else OfPyverbs(link, stack)
        poll = select.poll()
        poll.register(loop.fd(), select.POLLIN)
        calls = _system_calls(lambda: _rounds(loop, poll, rounds))
        began = time.monotonic_ns()
        wrong = _rounds(loop, poll, rounds)
        return {"ns": time.monotonic_ns() - began, "calls": calls, "wrong": wrong}


def _system_calls(action: Callable[[], object]) -> int:
    """How many system calls this thread makes in an action. Raises OSError."""
    trigger = _SYSTEM_CALLS / "trigger"
    trigger.write_text(_BY_THREAD, encoding="ascii")
    try:
        # A look makes calls, too, always the same ones.
        looks = [_calls_so_far(), _calls_so_far()]
        action()
        looks.append(_calls_so_far())
    finally:
        trigger.write_text(f"!{_BY_THREAD}", encoding="ascii")
    return (looks[2] - looks[1]) - (looks[1] - looks[0])


def _calls_so_far() -> int:
    """This thread's number in the kernel's histogram."""
    found = re.search(
        rf"common_pid: +{threading.get_native_id()} .*hitcount: +(\d+)",
        (_SYSTEM_CALLS / "hist").read_text(encoding="ascii"),
    )
    return int(found[1]) if found else 0


def _rounds(loop: OfKfabric | OfPyverbs, poll: select.poll, rounds: int) -> int:
    """Make round trips; return the number of messages that did not arrive."""
    wrong = 0
    for _ in range(rounds):
        for end in (0, 1):
            loop.send(end)
            came = -1
            while came < 0:
                if not poll.poll(_POLL_MS):
                    wrong += 1
                    break
                came = loop.handle()
    return wrong
