# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""An honest RDM endpoint on a connection of docs/rdm-wire.md.

It keeps every rule of that page, and raises :class:`Violation` if the other side does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rdm_wire_format import (
    AUTH,
    EAGER,
    HEADER,
    IDS,
    MSG_MAX,
    REQUESTS,
    SEGMENT,
    SEGS,
    VERSION,
    WINDOW,
    WRAP,
    Flag,
    Header,
    Op,
    Segment,
    Status,
    covers,
    segments,
)

if TYPE_CHECKING:
    from rdm_wire_link import Wire

KNOWN_FLAGS = sum(Flag)
#: Requests that a peer takes without being asked to.
PLENTY = 1 << 30
#: Where in the window requests of this side have their data; what it fetches begins at 0.
OWN_DATA = 1 << 19

FlowKey = tuple[int, int, int, bool]


class Violation(AssertionError):
    """The other side has broken a rule of the page."""


@dataclass
class Request:
    """A request of this side.

    Attributes:
        sent: it is on the wire, and neither parked nor done.
        reply: FIN or ERR.
        done: it has ended.
        naks: how often it was refused for now.
    """

    header: Header
    payload: bytes
    sent: bool = False
    done: bool = False
    reply: Header | None = None
    naks: int = 0

    @property
    def status(self) -> Status:
        """The result; OK also if an acknowledgement was the reply."""
        return Status(self.reply.status) if self.reply else Status.OK


@dataclass
class Outgoing:
    """A flow of requests of this side; `parked` is in the order of submission."""

    epoch: int = 0
    parked: list[Request] = field(default_factory=list)


@dataclass
class Incoming:
    """A flow of requests to this side.

    Attributes:
        room: how many more requests it takes.
        epoch: the one that it accepts; None: any.
    """

    room: int = PLENTY
    blocked: bool = False
    epoch: int | None = None


@dataclass(frozen=True)
class Message:
    """A message that has arrived."""

    header: Header
    data: bytes


class Peer:
    """One endpoint with one context, alone on its connection.

    Attributes:
        aliases: further numbers of the endpoint.
        received: messages, in the order of arrival.
        held: requests with an id that wait for a reply, while `hold` is set.
        silent: this side acknowledges nothing more.
        regions: memory for RMA by key.
        log: headers of all messages that have arrived.
    """

    def __init__(self, wire: Wire, number: int = 77, auth: int = AUTH) -> None:
        self.wire, self.number, self.auth = wire, number, auth
        self.aliases: set[int] = set()
        self.received: list[Message] = []
        self.regions: dict[int, bytearray] = {}
        self.hold = self.silent = False
        self.held: list[tuple[Header, bytes]] = []
        self.log: list[Header] = []
        self.requests: list[Request] = []
        self._outgoing: dict[FlowKey, Outgoing] = {}
        self.flows = {by_key: Incoming() for by_key in (False, True)}
        self._epochs = 0
        self._sent_count = self._sent_number = self._last_id = 0
        self._handled_count = self._handled_number = self._acked = self._confirmed = 0

    # Requests of this side.

    def send(
        self, to: int, data: bytes, *, tag: int | None = None, cq_data: int | None = None
    ) -> Request:
        """Send a message to an endpoint."""
        flags = (0 if tag is None else Flag.TAGGED) | (0 if cq_data is None else Flag.DATA)
        op, memory = (Op.RTS, self.own(data)) if len(data) > EAGER else (Op.EAGER, [])
        return self.request(
            op, to, data, memory=memory, flags=flags, tag=tag or 0, data=cq_data or 0
        )

    def write(self, to: int, key: int, offset: int, data: bytes, segments: int = 0) -> Request:
        """Write to a region; with segments, or with the data in the message."""
        memory = self.own(data, segments) if segments else ()
        return self.request(Op.WRITE, to, data, memory=memory, tag=key, offset=offset)

    def read(self, to: int, key: int, offset: int, length: int, segments: int = 1) -> Request:
        """Read from a region to this side's own data."""
        memory = self.own(bytes(length), segments) if length else ()
        return self.request(Op.READ, to, bytes(length), memory=memory, tag=key, offset=offset)

    def own_data(self, length: int) -> bytes:
        """Return this side's own data, which reads write to."""
        return self.wire.memory.data(OWN_DATA, length)

    def request(
        self, op: Op, to: int, data: bytes, /, *, memory: Sequence[Segment] = (), **fields: int
    ) -> Request:
        """Send a request; its data is in segments if there are any."""
        header = Header(op=op, src=self.number, dst=to, auth=self.auth, len=len(data))
        header = replace(header, nsegs=len(memory), **fields)
        payload = b"".join(map(Segment.pack, memory)) if memory or not header.numbered else data
        request = Request(header, payload)
        if not header.numbered:
            assert sum(not (each.header.numbered or each.done) for each in self.requests) < IDS
            self._last_id += 1
            request.header = replace(header, seq=self._last_id)
        self.requests.append(request)
        self._transmit(request)
        return request

    def cancel(self, request: Request) -> None:
        """Ask for the end of a request with an id."""
        header = request.header
        names = {name: getattr(header, name) for name in ("src", "dst", "rx", "auth", "seq")}
        self._post(Header(op=Op.CANCEL, flags=Flag.ID, **names))

    def finish(self, request: Request) -> Status:
        """Wait for the end of a request."""
        while not request.done:
            self.handle_one()
        return request.status

    def own(self, data: bytes, count: int = 1) -> list[Segment]:
        """Make this side's own data; return the segments that it is in."""
        self.wire.memory.fill(OWN_DATA, data)
        size = -(-len(data) // count)
        starts = range(0, len(data), size)
        segment = self.wire.memory.segment
        return [segment(OWN_DATA + at, min(size, len(data) - at)) for at in starts]

    def _transmit(self, request: Request, extra: int = 0) -> None:
        while request.header.numbered and (self._sent_number - self._confirmed) % WRAP >= WINDOW:
            self.handle_one()
        flow = self._outgoing.setdefault(request.header.flow, Outgoing())
        self._sent_count = (self._sent_count + 1) % WRAP
        fields = {"count": self._sent_count, "epoch": flow.epoch}
        if request.header.numbered:
            self._sent_number = (self._sent_number + 1) % WRAP
            fields["seq"] = self._sent_number
        flags = request.header.flags & ~Flag.PULLED | extra
        request.header = replace(request.header, flags=flags, **fields)
        request.sent = True
        self._post(request.header, request.payload)

    def _post(self, header: Header, payload: bytes = b"") -> None:
        if not self.silent:
            self._acked = self._handled_number
        self.wire.post(replace(header, ack=self._acked).pack() + payload)

    # Messages of the other side.

    def handle_one(self) -> Header:
        """Wait for a message and handle it."""
        raw = self.wire.next()
        if len(raw) < HEADER:
            raise Violation(f"a message of {len(raw)} bytes")
        header, payload = Header.unpack(raw), raw[HEADER:]
        if header.version != VERSION or header.flags & ~KNOWN_FLAGS:
            raise Violation(f"version or flags: {header}")
        self.log.append(header)
        if header.op in REQUESTS:
            self._take_ack(header)
            self._take_request(header, payload)
        else:
            self._take_control(header)
            self._take_ack(header)
        self.acknowledge()
        return header

    def acknowledge(self) -> None:
        """Acknowledge what is handled: after each message, which is allowed."""
        if self._acked != self._handled_number and not self.silent:
            self._post(Header())

    def handle_until(self, op: Op) -> Header:
        """Handle messages up to the first one of a kind."""
        while (header := self.handle_one()).op != op:
            pass
        return header

    def receive(self) -> Message:
        """Wait for a message and take it."""
        while not self.received:
            self.handle_one()
        return self.received.pop(0)

    def _take_ack(self, header: Header) -> None:
        if not covers(self._sent_number, header.ack):
            raise Violation(f"{header.ack} is acknowledged, {self._sent_number} was sent")
        if covers(header.ack, self._confirmed):
            self._confirmed = header.ack
        for request in self.requests:
            if request.header.numbered and request.sent and covers(header.ack, request.header.seq):
                request.sent, request.done = False, True

    def _take_control(self, header: Header) -> None:
        if header.op in (Op.FIN, Op.ERR):
            self._take_reply(header)
        elif header.op == Op.NAK:
            self._take_nak(header)
        elif header.op == Op.RESUME:
            self._take_resume(header)
        elif header.op == Op.CANCEL:
            self._take_cancel(header)
        elif header.op == Op.WANT:
            self._take_want(header)
        # This side ends its connections itself, so it lets LEAVE wait.
        elif header.op not in (Op.ACK, Op.LEAVE):
            raise Violation(f"unknown kind: {header}")

    def _of_reply(self, header: Header, by_id: bool) -> Request | None:
        """The request that a reply is for, unless the reply is stale."""
        for request in self.requests:
            mine = request.header
            if mine.numbered != by_id and mine.seq == header.seq:
                same = (mine.src, mine.dst, mine.rx, mine.auth)
                if same != (header.dst, header.src, header.rx, header.auth):
                    raise Violation(f"{header} is no reply to {mine}")
                return request if request.sent and mine.epoch == header.epoch else None
        # RESUME has sent the request again, with another number, before this reply came.
        if not by_id and covers(self._sent_number, header.seq):
            return None
        raise Violation(f"no request: {header}")

    def _take_reply(self, header: Header) -> None:
        Status(header.status)
        request = self._of_reply(header, header.op == Op.FIN)
        if request is not None:
            request.reply, request.sent, request.done = header, False, True

    def _take_nak(self, header: Header) -> None:
        request = self._of_reply(header, bool(header.flags & Flag.ID))
        if request is not None:
            request.naks += 1
            self._park(request)

    def _park(self, request: Request) -> None:
        request.sent = False
        parked = self._outgoing[request.header.flow].parked
        parked.append(request)
        parked.sort(key=self.requests.index)

    def _take_resume(self, header: Header) -> None:
        key = header.src, header.rx, header.auth, bool(header.flags & Flag.RMA)
        flow = self._outgoing.get(key)
        if flow is None:
            return
        for request in self.requests:
            mine = request.header
            late = not covers(header.count, mine.count)
            if mine.flow == key and request.sent and late and not mine.flags & Flag.PULLED:
                self._park(request)
        flow.epoch = header.epoch
        parked, flow.parked = flow.parked, []
        for request in parked:
            self._transmit(request)

    def _take_want(self, header: Header) -> None:
        flow = self._outgoing.get((header.src, header.rx, header.auth, False))
        for request in flow.parked if flow else ():
            mine = request.header
            same_kind = (mine.flags ^ header.flags) & Flag.TAGGED == 0
            same_tag = not header.flags & Flag.TAGGED or not (mine.tag ^ header.tag) & ~header.data
            if same_kind and same_tag and header.dst in (0, self.number):
                assert flow is not None
                flow.parked.remove(request)
                self._transmit(request, Flag.PULLED)
                return

    def _take_cancel(self, header: Header) -> None:
        for held in self.held:
            mine = held[0]
            if (mine.seq, mine.dst, mine.rx) == (header.seq, header.dst, header.rx):
                self.held.remove(held)
                self.reply(mine, Op.FIN, Status.CANCELED)
                return

    def _take_request(self, header: Header, payload: bytes) -> None:
        if header.count != (self._handled_count + 1) % WRAP:
            raise Violation(f"{self._handled_count} requests were handled: {header}")
        if header.numbered and header.seq != (self._handled_number + 1) % WRAP:
            raise Violation(f"{self._handled_number} numbers were handled: {header}")
        if header.numbered and (header.seq - self._acked) % WRAP > WINDOW:
            raise Violation(f"{self._acked} numbers are acknowledged: {header}")
        if header.len > MSG_MAX or header.nsegs > SEGS:
            raise Violation(f"too much: {header}")
        size = header.len if header.numbered else header.nsegs * SEGMENT
        if len(payload) != size:
            raise Violation(f"a payload of {len(payload)} bytes: {header}")
        if not header.numbered:
            if sum(each.len for each in segments(payload, header.nsegs)) != header.len:
                raise Violation(f"segments: {header}")
        self._decide(header, payload)
        self._handled_count = header.count
        if header.numbered:
            self._handled_number = header.seq

    def _decide(self, header: Header, payload: bytes) -> None:
        flow = self.flows[header.by_key]
        pulled = header.flags & Flag.PULLED
        known = header.dst in {self.number, *self.aliases}
        if not known or (header.rx, header.auth) != (0, self.auth):
            self.reject(header, Status.NO_ENDPOINT)
        elif not pulled and (flow.blocked or flow.epoch not in (None, header.epoch)):
            self.reply(header, Op.NAK)
        elif flow.room <= 0:
            flow.blocked = True
            self.reply(header, Op.NAK)
        else:
            flow.room -= 1
            self._carry_out(header, payload)

    def _carry_out(self, header: Header, payload: bytes) -> None:
        if self.hold and not header.numbered:
            self.held.append((header, payload))
        elif header.by_key:
            self._rma(header, payload)
        elif header.numbered:
            self.received.append(Message(header, payload))
        else:
            self._take_long(header, payload)

    def _take_long(self, header: Header, payload: bytes) -> None:
        if header.op == Op.RTS:
            data = self.wire.fetch(segments(payload, header.nsegs))
            self.received.append(Message(header, data))
            self.reply(header, Op.FIN, length=header.len)
        else:
            self.reject(header, Status.ACCESS)

    def _rma(self, header: Header, payload: bytes) -> None:
        region = self.regions.get(header.tag)
        end = header.offset + header.len
        if region is None:
            self.reject(header, Status.NO_KEY)
        elif end > len(region):
            self.reject(header, Status.RANGE)
        elif header.numbered:
            region[header.offset : end] = payload
        else:
            memory = segments(payload, header.nsegs)
            if header.op == Op.READ:
                self.wire.put(memory, bytes(region[header.offset : end]))
            else:
                region[header.offset : end] = self.wire.fetch(memory)
            self.reply(header, Op.FIN, length=header.len)

    def reject(self, header: Header, status: Status) -> None:
        """End a request of the other side with an error."""
        self.reply(header, Op.ERR if header.numbered else Op.FIN, status)

    def reply(
        self, header: Header, op: Op, status: Status = Status.OK, *, length: int = 0, over: int = 0
    ) -> None:
        """Reply to a request of the other side."""
        flags = (0 if header.numbered else Flag.ID) | (Flag.RMA if header.by_key else 0)
        names = {name: getattr(header, name) for name in ("rx", "epoch", "seq", "auth")}
        self._post(
            Header(
                op=op,
                flags=flags,
                src=header.dst,
                dst=header.src,
                status=status,
                len=length,
                over=over,
                **names,
            )
        )

    # Flow control of this side's context.

    def resume(self, room: int, *, by_key: bool = False) -> None:
        """Make room for requests, and let the other side go on if it was refused."""
        flow = self.flows[by_key]
        flow.room = room
        if not flow.blocked:
            return
        self._epochs = self._epochs % 0xFFFF + 1
        flow.blocked, flow.epoch = False, self._epochs
        for number in (self.number, *sorted(self.aliases)):
            self._post(
                Header(
                    op=Op.RESUME,
                    flags=Flag.RMA if by_key else 0,
                    src=number,
                    epoch=flow.epoch,
                    auth=self.auth,
                    count=self._handled_count,
                )
            )

    def want(self, tag: int | None = None, ignore: int = 0) -> None:
        """Ask for one message that was refused, and make room for it."""
        self.flows[False].room += 1
        flags = 0 if tag is None else Flag.TAGGED
        self._post(
            Header(
                op=Op.WANT,
                flags=flags,
                src=self.number,
                auth=self.auth,
                tag=tag or 0,
                data=ignore,
            )
        )
