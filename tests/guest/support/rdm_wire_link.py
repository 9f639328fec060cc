# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Connections of a node that speaks docs/rdm-wire.md, without the rules: any bytes can be sent."""

from __future__ import annotations

import contextlib
import ctypes
import select
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from guest_support import LIMIT
from pyverbs import enums
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
from rdm_wire_cm import Broken, Channel, Event, Kind, Path, Refused
from rdm_wire_format import EAGER, HEADER, PORT, READS, RECEIVES, Hello, Segment

from kfabric.guest.topology import RdmaLink
from kfabric.guest.waiting import Deadline, DeadlineExpired

T = TypeVar("T")

#: Places for messages to be sent; they may be longer than is allowed.
SENDS, LONGEST = 16, 8192
#: Bytes for RDMA, in both directions.
RDMA_BYTES = 1 << 20

_SLOT = HEADER + EAGER
_SEND_AT = RECEIVES * _SLOT
_RDMA_AT = _SEND_AT + SENDS * LONGEST
# Places of receives are numbers below all these.
_SEND_ID, _RDMA_ID = 1 << 10, 1 << 11
_RNR_TIMER = 12
_AT_ONCE = 64
_PAUSE_MS = 1
_RTR = 2
_ACCESS = (
    enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_READ | enums.IBV_ACCESS_REMOTE_WRITE
)


@contextlib.contextmanager
def opened(link: RdmaLink, address: str) -> Iterator[Node]:
    """A node during the block."""
    node = Node(link, address)
    try:
        yield node
    finally:
        node.close()


class Memory:
    """Registered memory of one connection: places for messages, and a window for RDMA."""

    def __init__(self, domain: PD) -> None:
        self.mr = MR(domain, _RDMA_AT + RDMA_BYTES, _ACCESS)
        self.base = self.mr.buf + _RDMA_AT
        self.receives = [
            RecvWR(wr_id=i, num_sge=1, sg=[SGE(self.mr.buf + i * _SLOT, _SLOT, self.mr.lkey)])
            for i in range(RECEIVES)
        ]
        # pyverbs never frees the parts of a work request, so each is made once.
        self._sends: dict[tuple[int, int, int], Any] = {}

    def message(self, place: int, length: int) -> bytes:
        """Return a message that was received."""
        return ctypes.string_at(self.mr.buf + place * _SLOT, length)

    def send(self, place: int, message: bytes, opcode: int) -> Any:
        """Return the work request that sends a message, which is copied to a place."""
        at, length = self.mr.buf + _SEND_AT + place * LONGEST, len(message)
        ctypes.memmove(at, message, length)
        request = self._sends.get((place, length, opcode))
        if request is None:
            sge = SGE(at, length, self.mr.lkey)
            request = SendWR(wr_id=_SEND_ID + place, opcode=opcode, num_sge=1, sg=[sge])
            self._sends[place, length, opcode] = request
        return request

    def rdma(self, opcode: int, segment: Segment, at: int) -> Any:
        """Return a work request that moves data between the window and the peer's segment."""
        sge = SGE(self.base + at, segment.len, self.mr.lkey)
        request = SendWR(wr_id=_RDMA_ID, opcode=opcode, num_sge=1, sg=[sge])
        request.set_wr_rdma(segment.rkey, segment.addr)
        return request

    def segment(self, at: int, length: int) -> Segment:
        """Name a part of the window."""
        return Segment(self.base + at, self.mr.rkey, length)

    def fill(self, at: int, data: bytes) -> None:
        """Write to the window."""
        ctypes.memmove(self.base + at, data, len(data))

    def data(self, at: int, length: int) -> bytes:
        """Read from the window."""
        return ctypes.string_at(self.base + at, length)


class Node:
    """An address of an RDMA link, with its listener and its connections.

    Everything is closed with it.
    """

    def __init__(self, link: RdmaLink, address: str) -> None:
        self.address = address
        self._stack = contextlib.ExitStack()
        self.context = Context(name=link.name)
        self._stack.callback(self.context.close)
        self.domain = PD(self.context)
        self._stack.callback(self.domain.close)
        self.channel = Channel()
        self._stack.callback(self.channel.close)
        self._poll = select.poll()
        self._poll.register(self.channel.fd, select.POLLIN)
        self._spare: list[Memory] = []
        self._events: deque[Event] = deque()
        self.wires: dict[int, Wire] = {}

    def close(self) -> None:
        """End all connections and close everything."""
        for wire in list(self.wires.values()):
            wire.close()
        for event in self._events:
            if event.kind is Kind.CONNECT_REQUEST:
                self.channel.destroy(event.id)
        for memory in self._spare:
            memory.mr.close()
        self._stack.close()

    def take_memory(self) -> Memory:
        """Return memory for a connection; registering it anew each time would take long."""
        return self._spare.pop() if self._spare else Memory(self.domain)

    def give_back(self, memory: Memory) -> None:
        """Take back the memory of a connection without a queue pair."""
        self._spare.append(memory)

    def progress(self) -> bool:
        """Handle events and completions; were there any?"""
        found = False
        while event := self.channel.next():
            found = True
            wire = self.wires.get(event.id)
            if wire is None or not wire.happened(event):
                self._events.append(event)
        for wire in list(self.wires.values()):
            found |= wire.poll()
        return found

    def wait(self, state: Callable[[], T | None], what: str) -> T:
        """Make progress until `state` returns a true value, and return that.

        Raises:
            DeadlineExpired: It did not come.
        """
        deadline = Deadline(LIMIT)
        while not (found := state()):
            if deadline.expired:
                raise DeadlineExpired(f"{what}: not within {deadline.seconds:g} s")
            if not self.progress():
                self.rest()
        return found

    def rest(self) -> None:
        """Let other threads run, until the next event or for a moment."""
        self._poll.poll(_PAUSE_MS)

    def listen(self, port: int = PORT) -> None:
        """Listen for connect requests."""
        id = self.channel.create()
        self._stack.callback(self.channel.destroy, id)
        self.channel.listen(id, self.address, port)

    def connect(
        self,
        remote: str,
        hello: bytes = Hello().pack(),
        reads: int = READS,
        receives: int = RECEIVES,
        port: int = PORT,
        path: Path | None = None,
        retries: int = 6,
    ) -> Wire:
        """Begin a connection.

        Args:
            path: the route; None: that which RDMA CM finds.
            retries: of the peer, if this side does not answer.

        Raises:
            Refused: The peer has rejected the request.
        """
        id = self.channel.create()
        wire: Wire | None = None
        try:
            self.channel.resolve_addr(id, self.address, remote, port)
            self._expect(id, Kind.ADDR_RESOLVED)
            if path:
                self.channel.set_path(id, path)
            else:
                self.channel.resolve_route(id)
            self._expect(id, Kind.ROUTE_RESOLVED)
            wire = Wire(self, id, receives)
            self.channel.connect(id, wire.qpn, hello, reads, retries)
            wire.answer = self._expect(id, Kind.CONNECT_RESPONSE)
            wire.to_rts(reads)
            self.channel.establish(id)
        except BaseException:
            if wire is None:
                self.channel.destroy(id)
            else:
                wire.close()
            raise
        wire.up = True
        self.wires[id] = wire
        return wire

    def request(self) -> Event:
        """Wait for a connect request of a peer."""
        return self.wait(lambda: self._taken(Kind.CONNECT_REQUEST), "a connect request")

    def accept(
        self,
        request: Event,
        hello: bytes = Hello().pack(),
        reads: int = READS,
        receives: int = RECEIVES,
    ) -> Wire:
        """Accept a request. The connection is up with ESTABLISHED, or with the first message."""
        wire = Wire(self, request.id, receives)
        self.wires[request.id] = wire
        wire.answer = request
        wire.to_rts(reads)
        self.channel.accept(request.id, wire.qpn, hello, reads)
        return wire

    def reject(self, request: Event, private: bytes) -> None:
        """Reject a request."""
        self.channel.reject(request.id, private)
        self.channel.destroy(request.id)

    def _taken(self, kind: Kind) -> Event | None:
        for event in self._events:
            if event.kind is kind:
                self._events.remove(event)
                return event
        return None

    def _expect(self, id: int, kind: Kind) -> Event:
        def of_id() -> Event | None:
            return next((event for event in self._events if event.id == id), None)

        event = self.wait(of_id, kind.name)
        self._events.remove(event)
        if event.kind is not kind:
            raise Refused(event)
        return event


class Wire:
    """A connection.

    Attributes:
        answer: the peer's request or reply, with its private data.
        up: this side may send.
        ended: the reason of its end, or "".
        inbox: messages that have arrived.
        deaf: receives are not posted again.
    """

    answer: Event

    def __init__(self, node: Node, id: int, receives: int = RECEIVES) -> None:
        """Make the queue pair, and post receives."""
        self.node, self.id = node, id
        self.up, self.ended, self.deaf = False, "", False
        self.inbox: deque[bytes] = deque()
        self._unposted: list[int] = []
        self.memory = node.take_memory()
        self._free = deque(range(SENDS))
        self._moving = 0
        self._cq = CQ(node.context, RECEIVES + 2 * SENDS, None, None, 0)
        cap = QPCap(max_send_wr=2 * SENDS, max_recv_wr=RECEIVES)
        init = QPInitAttr(
            qp_type=enums.IBV_QPT_RC, scq=self._cq, rcq=self._cq, cap=cap, sq_sig_all=1
        )
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = _ACCESS
        self._qp = QP(node.domain, init, attr)
        self.qpn: int = self._qp.qp_num
        for request in self.memory.receives[:receives]:
            self._qp.post_recv(request)

    def to_rts(self, reads: int) -> None:
        """Let the queue pair send, with the attributes that RDMA CM has for it."""
        raw = self.node.channel.qp_attr(self.id, _RTR)
        rts = self.node.channel.qp_attr(self.id, _RTR + 1)
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = _ACCESS
        attr.path_mtu, attr.dest_qp_num, attr.rq_psn = raw.path_mtu, raw.dest_qp_num, raw.rq_psn
        attr.max_dest_rd_atomic = attr.max_rd_atomic = reads
        attr.min_rnr_timer = _RNR_TIMER
        attr.sq_psn, attr.timeout = rts.sq_psn, rts.timeout
        attr.retry_cnt, attr.rnr_retry = rts.retry_cnt, 7
        gid = GID(raw.dgid.hex(":", 2))
        route = GlobalRoute(dgid=gid, sgid_index=raw.sgid_index)
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        self._qp.to_rts(attr)

    def happened(self, event: Event) -> bool:
        """Take an event of the connection's identifier; is it for the connection?"""
        if event.kind is Kind.ESTABLISHED:
            self.up = True
        elif event.kind is Kind.DISCONNECTED:
            self.ended = self.ended or event.kind.name
        elif event.kind is not Kind.TIMEWAIT_EXIT:
            self.ended = self.ended or f"{event.kind.name} {event.status}"
        return True

    def poll(self) -> bool:
        """Handle completions; were there any?"""
        _, completions = self._cq.poll(_AT_ONCE)
        for done in completions or ():
            if done.status:
                self.ended = self.ended or f"completion status {done.status}"
            elif done.wr_id < _SEND_ID:
                self.up = True
                self.inbox.append(self.memory.message(done.wr_id, done.byte_len))
                self._unposted.append(done.wr_id)
                if not self.deaf:
                    self.hear()
            elif done.wr_id < _RDMA_ID:
                self._free.append(done.wr_id - _SEND_ID)
            else:
                self._moving -= 1
        return bool(completions)

    def hear(self) -> None:
        """Post the receives that have got a message again."""
        self.deaf = False
        for place in self._unposted:
            self._qp.post_recv(self.memory.receives[place])
        self._unposted.clear()

    def post(self, message: bytes, *, immediate: bool = False) -> None:
        """Send a message, once there is a place for it, with immediate data if wanted.

        Raises:
            Broken: The connection has ended.
        """
        self._wait(lambda: self._free and self.up, "a place to send")
        place = self._free.popleft()
        opcode = enums.IBV_WR_SEND_WITH_IMM if immediate else enums.IBV_WR_SEND
        self._qp.post_send(self.memory.send(place, message, opcode))

    def fetch(self, segments: Sequence[Segment], at: int = 0) -> bytes:
        """Read segments of the peer into the window, and return the data."""
        length = self._move(enums.IBV_WR_RDMA_READ, segments, at)
        return self.memory.data(at, length)

    def put(self, segments: Sequence[Segment], data: bytes, at: int = 0) -> None:
        """Write data, by way of the window, to segments of the peer."""
        self.memory.fill(at, data)
        self._move(enums.IBV_WR_RDMA_WRITE, segments, at)

    def _move(self, opcode: int, segments: Sequence[Segment], at: int) -> int:
        length = 0
        for segment in segments:
            self._moving += 1
            self._qp.post_send(self.memory.rdma(opcode, segment, at + length))
            length += segment.len
        self._wait(lambda: not self._moving, "the end of RDMA")
        return length

    def next(self) -> bytes:
        """Wait for the next message.

        Raises:
            Broken: The connection has ended.
        """
        self._wait(lambda: bool(self.inbox), "a message")
        return self.inbox.popleft()

    def wait_for_end(self) -> str:
        """Wait until the connection has ended; return the reason."""
        return self.node.wait(lambda: self.ended, "the end of the connection")

    def _wait(self, state: Callable[[], object], what: str) -> None:
        self.node.wait(lambda: bool(state()) or bool(self.ended), what)
        if not state():
            raise Broken(self.ended)

    def die(self) -> None:
        """Be a machine that is gone: nothing answers any more, and nothing says so."""
        self._qp.close()

    def close(self) -> None:
        """End the connection and free everything of it."""
        with contextlib.suppress(OSError):
            self.node.channel.disconnect(self.id)
        self._qp.close()
        self._cq.close()
        self.node.wires.pop(self.id, None)
        self.node.channel.destroy(self.id)
        self.node.give_back(self.memory)
        self.ended = self.ended or "closed"
