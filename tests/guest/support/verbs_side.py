# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The other side of the comparison of completion channels: real verbs.

Everything goes through pyverbs but getting events, acknowledging and destroying: pyverbs
lets no other thread run meanwhile, wants to be told which queue an event will be about,
and acknowledges by itself. These are calls on its own objects in libibverbs.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from typing import Any, ClassVar

from channel_sides import SIZE, Queue, Side
from pyverbs import enums
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
from side_support import code

from kfabric.guest import topology
from kfabric.guest.rc_pingpong import gid_index

_pointer = ctypes.c_void_p
_lib = ctypes.CDLL("libibverbs.so.1", use_errno=True)
_lib.ibv_get_cq_event.argtypes = [_pointer, ctypes.POINTER(_pointer), ctypes.POINTER(_pointer)]
_lib.ibv_ack_cq_events.argtypes = [_pointer, ctypes.c_uint]
_lib.ibv_ack_cq_events.restype = None
_lib.ibv_destroy_cq.argtypes = [_pointer]
_lib.ibv_destroy_comp_channel.argtypes = [_pointer]
_read = ctypes.CDLL(None, use_errno=True).read
_read.argtypes = [ctypes.c_int, _pointer, ctypes.c_size_t]

#: What the kernel writes for an event: the queue's address in this process.
EVENT_SIZE = 8


class _Queue(ctypes.Structure):
    """How struct ibv_cq begins: part of the library's binary interface."""

    _fields_ = [("context", _pointer), ("channel", _pointer)]


def event_fds() -> set[int]:
    """Return the descriptors of this process's completion channels."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            if "infinibandevent" in os.readlink(f"/proc/self/fd/{name}"):
                found.add(int(name))
    return found


class Verbs(Side):
    """Real verbs on the link's device."""

    # A thread that waits for the interpreter is in a futex, too: a destroy may not have
    # begun yet when its thread is said to sleep. What it answers is the same then.
    sleeps_in: ClassVar = {"wait": r"^ib_uverbs_(comp_)?event_read", "destroy": r"^futex_wait"}

    def __init__(self, link: topology.RdmaLink, patience: float) -> None:
        """Open the link's device."""
        super().__init__(patience)
        self._gid_index = gid_index(link)
        self._context = Context(name=link.name)
        self._pd = PD(self._context)
        before = event_fds()
        self._channel = CompChannel(self._context)
        (self._fd,) = event_fds() - before
        self._address = 0
        self._names: dict[int, str] = {}
        self._keep: list[Any] = []

    def open(self, name: str) -> None:
        # Nobody reads the others: they have room for all that a scenario does.
        cq, other, peers = (
            CQ(self._context, size, None, channel, 0)
            for size, channel in ((64, self._channel), (1024, None), (1024, None))
        )
        queue = Queue(name, cq, None)
        mine = self._qp(other, cq) if queue.receives else self._qp(cq, other)
        queue.ends = mine, self._qp(peers, peers)
        for qp, peer in (queue.ends, queue.ends[::-1]):
            self._connect(qp, peer)
        memory = MR(self._pd, 4096, enums.IBV_ACCESS_LOCAL_WRITE)
        self._place = SGE(memory.buf, SIZE, memory.lkey)
        self._keep += [other, peers, memory]
        self.queues[name] = queue
        self._learn(queue)

    def _qp(self, send_cq: CQ, recv_cq: CQ) -> QP:
        cap = QPCap(max_send_wr=64, max_recv_wr=64)
        init = QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=send_cq, rcq=recv_cq, cap=cap)
        return QP(self._pd, init, QPAttr(port_num=1))

    def _connect(self, qp: QP, peer: QP) -> None:
        attr = QPAttr(port_num=1)
        attr.path_mtu = enums.IBV_MTU_1024
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
        attr.min_rnr_timer, attr.timeout = 12, 14
        attr.retry_cnt = attr.rnr_retry = 7
        attr.dest_qp_num = peer.qp_num
        gid = self._context.query_gid(1, self._gid_index)
        route = GlobalRoute(dgid=gid, sgid_index=self._gid_index)
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        qp.to_rts(attr)

    def _learn(self, queue: Queue) -> None:
        """Make an event, which has the address of the queue, which has the channel's."""
        self.arm(queue, False)
        self.complete(queue, False)
        assert self.poll() == "readable"
        pointer = int.from_bytes(os.read(self._fd, EVENT_SIZE), "little")
        self._names[pointer] = queue.name
        self._address = _Queue.from_address(pointer).channel
        _lib.ibv_ack_cq_events(pointer, 1)
        self.drain(queue)

    def _of(self, queue: Queue) -> int:
        return next(pointer for pointer, name in self._names.items() if name == queue.name)

    def arm(self, queue: Queue, solicited: bool) -> None:
        queue.cq.req_notify(solicited)

    def transfer(self, queue: Queue, solicited: bool) -> None:
        to, from_ = queue.ends if queue.receives else queue.ends[::-1]
        self._recv(to)
        self._send(from_, solicited)

    def _recv(self, qp: QP) -> None:
        qp.post_recv(RecvWR(sg=[self._place], num_sge=1))

    def _send(self, qp: QP, solicited: bool) -> None:
        flags = enums.IBV_SEND_SIGNALED | (enums.IBV_SEND_SOLICITED if solicited else 0)
        qp.post_send(SendWR(num_sge=1, sg=[self._place], send_flags=flags))

    def break_(self, queue: Queue) -> None:
        mine = queue.ends[0]
        if queue.receives:
            self._recv(mine)
        else:
            # The peer has no place for it, so it stays under way.
            self._send(mine, False)
        mine.modify(QPAttr(qp_state=enums.IBV_QPS_ERR), enums.IBV_QP_STATE)

    def read(self, queue: Queue) -> list[int]:
        found: list[int] = []
        while True:
            number, completions = queue.cq.poll(16)
            if not number:
                return found
            found += [int(each.status != enums.IBV_WC_SUCCESS) for each in completions]

    def fd(self) -> int:
        return self._fd

    def _get(self) -> str:
        cq, context = _pointer(), _pointer()
        if _lib.ibv_get_cq_event(self._address, ctypes.byref(cq), ctypes.byref(context)):
            return code(-ctypes.get_errno())
        return self._names[cq.value or 0]

    def wait(self) -> str:
        os.set_blocking(self._fd, True)
        return self._get()

    def try_(self) -> str:
        os.set_blocking(self._fd, False)
        return self._get()

    def fault(self) -> str:
        os.set_blocking(self._fd, False)
        result = _read(self._fd, EVENT_SIZE, EVENT_SIZE)
        return code(result if result >= 0 else -(ctypes.get_errno() or errno.EIO))

    def ack(self, queue: Queue, count: int) -> str:
        _lib.ibv_ack_cq_events(self._of(queue), count)
        return "0"

    def hang_up(self, queue: Queue) -> None:
        for qp in queue.ends:
            qp.close()

    def destroy(self, queue: Queue) -> str:
        return code(-_lib.ibv_destroy_cq(self._of(queue)))

    def destroy_channel(self) -> str:
        return code(-_lib.ibv_destroy_comp_channel(self._address))
