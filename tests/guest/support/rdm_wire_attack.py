# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A hostile node, endpoints that it attacks, and an honest pair beside them."""

from __future__ import annotations

import contextlib
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import rdm_wire_hostile as hostile
from guest_support import LIMIT, Call
from rdm_support import RdmNet, RdmPeer
from rdm_wire_cm import Broken, Refused
from rdm_wire_format import PEER_CONNS

import kfabric_py as kp
from kfabric.guest import topology
from kfabric.guest.waiting import DeadlineExpired
from kfabric_py.memory import Local

if TYPE_CHECKING:
    from rdm_wire_link import Node, Wire

#: The address that the endpoints know the hostile node's by.
NUMBER = 77
SIZE, GUARD = 1 << 17, 4096
POISON = 0x5A
KEYS = (1, 2, 3)
#: Few enough that messages are refused.
KEPT = 8
#: Messages that a failure shows.
SHOWN = 30


class Victims:
    """Endpoints that get the hostile node's messages, and send to it.

    Each has a region with a key of its own in the middle of its buffer. Around the region there
    are guards, which no message may change.
    """

    def __init__(self, device: kp.Device, link: topology.RdmaLink, remote: str) -> None:
        self._device, self._link, self._remote = device, link, remote
        self._stack = contextlib.ExitStack()
        self.peers: list[RdmPeer] = []
        self.numbers: list[int] = []
        self.seen: Counter[str] = Counter()
        self._open()

    def _open(self) -> None:
        net = RdmNet(self._device, self._link, self._stack)
        info = net.ask(rx_attr=kp.RxAttr(total_buffered_recv=KEPT * 4096))
        for key in KEYS:
            peer = net.peer(info=info, size=2048, length=SIZE)
            peer.ep.peer = peer.av.insert_service(self._remote, str(NUMBER))
            peer.buffer.view[:] = bytes([POISON]) * SIZE
            access = kp.Access.REMOTE_READ | kp.Access.REMOTE_WRITE
            if key == KEYS[-1]:
                access = kp.Access.REMOTE_READ
            self._stack.enter_context(peer.domain.mr(self._inner(peer), access, key=key))
            self.peers.append(peer)
            name = peer.ep.getname()
            assert isinstance(name, tuple)
            self.numbers.append(name[1])

    def _inner(self, peer: RdmPeer) -> kp.Segment:
        return peer.buffer[GUARD : SIZE - GUARD]

    def act(self, rng: random.Random) -> None:
        """Let one endpoint do something, and read what it has got."""
        peer = rng.choice(self.peers)
        with contextlib.suppress(kp.Again):
            rng.choice(_ACTIONS)(peer, self._inner(peer), rng)
            self.seen["posted"] += 1
        self.drain(peer)

    def drain(self, peer: RdmPeer) -> None:
        """Read the completions of an endpoint."""
        while True:
            try:
                entries = peer.cq.read(64)
            except kp.ErrorAvailable:
                error = peer.cq.readerr()
                assert error is not None
                self.seen[f"error {error.err}"] += 1
                continue
            self.seen["entries"] += len(entries)
            if not entries:
                return

    def check_guards(self) -> None:
        """No byte outside of what was posted or registered has changed."""
        for peer in self.peers:
            for part in (slice(0, GUARD), slice(SIZE - GUARD, SIZE)):
                assert bytes(peer.buffer.view[part]) == bytes([POISON]) * GUARD

    def reopen(self) -> None:
        """Close all endpoints, whatever they have under way, and open others."""
        self.close()
        self._open()

    def close(self) -> None:
        """Close everything."""
        self.check_guards()
        self._stack.close()
        self.peers.clear()
        self.numbers.clear()


def _part(memory: kp.Segment, rng: random.Random) -> Local:
    length = rng.choice((0, 1, 64, 4096, 4097, 20_000))
    at = rng.randrange(len(memory) - length)
    return memory[at : at + length]


def _remote(part: Local, rng: random.Random) -> kp.RemoteRegion:
    assert isinstance(part, kp.Segment)
    return kp.RemoteRegion(rng.choice((0, 1, 1 << 40)), len(part), rng.choice((1, 2)))


def _send(peer: RdmPeer, memory: kp.Segment, rng: random.Random) -> None:
    peer.ep.send(_part(memory, rng))


def _tsend(peer: RdmPeer, memory: kp.Segment, rng: random.Random) -> None:
    peer.ep.tsend(_part(memory, rng), rng.choice(hostile.TAGS))


def _recv(peer: RdmPeer, memory: kp.Segment, rng: random.Random) -> None:
    peer.ep.recv(_part(memory, rng), context=rng.randrange(4))


def _trecv(peer: RdmPeer, memory: kp.Segment, rng: random.Random) -> None:
    tag, ignore = rng.choice(hostile.TAGS), rng.choice((0, 3, (1 << 64) - 1))
    peer.ep.trecv(_part(memory, rng), tag, ignore=ignore, context=rng.randrange(4))


def _multi_recv(peer: RdmPeer, memory: kp.Segment, rng: random.Random) -> None:
    peer.ep.multi_recv(memory[:20_000], context=rng.randrange(4))


def _read(peer: RdmPeer, memory: kp.Segment, rng: random.Random) -> None:
    part = _part(memory, rng)
    peer.ep.read(part, _remote(part, rng))


def _write(peer: RdmPeer, memory: kp.Segment, rng: random.Random) -> None:
    part = _part(memory, rng)
    peer.ep.write(part, _remote(part, rng))


def _cancel(peer: RdmPeer, memory: kp.Segment, rng: random.Random) -> None:
    with contextlib.suppress(kp.KfiError):
        peer.ep.cancel(rng.randrange(4))


_ACTIONS: tuple[Callable[[RdmPeer, kp.Segment, random.Random], None], ...] = (
    _send,
    _tsend,
    _recv,
    _recv,
    _trecv,
    _trecv,
    _multi_recv,
    _read,
    _write,
    _cancel,
)


class Attacker:
    """Sends the messages of a seed, on up to as many connections as a peer may begin.

    Attributes:
        done: what it has done, by name.
    """

    def __init__(self, node: Node, remote: str, victims: Victims, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self._node, self._remote, self._victims, self._seed = node, remote, victims, seed
        self._wires: list[tuple[Wire, hostile.View]] = []
        self._last: deque[str] = deque(maxlen=SHOWN)

    def run(self, messages: int) -> None:
        """Send so many messages.

        Raises:
            DeadlineExpired: Something hangs; the text has the last messages.
        """
        number = 0
        while self.done["messages"] < messages:
            number += 1
            try:
                self._step(random.Random(f"{self._seed}.{number}"), number)
            except Broken:
                self.done["ends"] += 1
            except DeadlineExpired as late:
                raise DeadlineExpired(f"{late}; seed {self._seed}\n{self.history()}") from late
        self.close()

    def history(self) -> str:
        """The last messages, each with its origin SEED.NUMBER."""
        return "\n".join(self._last)

    def close(self) -> None:
        """End all connections."""
        for wire, _ in self._wires:
            wire.close()
        self._wires.clear()

    def _step(self, rng: random.Random, number: int) -> None:
        self._tidy()
        luck = rng.randrange(1000)
        if luck < 2:
            self.close()
            self._victims.reopen()
            self.done["reopened"] += 1
        elif luck < 5 and self._wires:
            self._wires.pop(rng.randrange(len(self._wires)))[0].close()
            self.done["left"] += 1
        elif luck < 200:
            self._victims.act(rng)
        else:
            # Some in a row, for which no answer is taken in between.
            self._send(rng, number, rng.choice((20, 300)) if luck > 998 else 1)

    def _tidy(self) -> None:
        """Take what has come, and drop connections that have ended."""
        self._node.progress()
        self._node.rest()
        for each in list(self._wires):
            wire, view = each
            while wire.inbox:
                view.came(wire.inbox.popleft())
                self.done["arrived"] += 1
            if wire.ended:
                self._wires.remove(each)
                wire.close()
                self.done["ends"] += 1

    def _send(self, rng: random.Random, number: int, count: int) -> None:
        if not self._wires or (len(self._wires) <= PEER_CONNS and rng.randrange(200) == 0):
            self._connect(rng)
        if not self._wires:
            return
        wire, view = rng.choice(self._wires)
        kind = hostile.kind(rng)
        for _ in range(count):
            message = hostile.message(rng, view, kind)
            self._last.append(f"{self._seed}.{number} to {wire.id}: {message[:128].hex()}")
            wire.post(message)
            view.sent(message)
            self.done["messages"] += 1

    def _connect(self, rng: random.Random) -> None:
        try:
            wire = self._node.connect(self._remote)
        except Refused:
            self.done["refused"] += 1
            return
        # Some take no messages.
        wire.deaf = rng.randrange(16) == 0
        window = wire.memory.segment(0, 1 << 20)
        self._wires.append((wire, hostile.View(window, self._victims.numbers, KEYS)))
        self.done["connections"] += 1


class HonestPair:
    """Two endpoints of the kernel that play ping-pong over a connection of their own.

    Their receives are for each other, since any node may send messages to them.
    """

    LENGTHS = (1, 64, 4096, 5000, 70_000)

    def __init__(self, rdm: RdmNet) -> None:
        self.rounds = 0
        self._sides = rdm.connect(length=2 * SIZE)
        self._stopped = False
        self._call: Call[None] | None = None

    def start(self) -> None:
        """Begin to play in a thread."""
        self._call = Call(self._play)

    def stop(self) -> int:
        """End the game, and return the number of rounds.

        Raises:
            AssertionError: A message was lost or changed.
        """
        assert self._call is not None
        self._stopped = True
        self._call.result()
        return self.rounds

    def _play(self) -> None:
        while not self._stopped:
            self.play_once()

    def play_once(self) -> None:
        """Send a message in each direction and check every byte."""
        length = self.LENGTHS[self.rounds % len(self.LENGTHS)]
        for near, far in (self._sides, self._sides[::-1]):
            data = near.write_pattern(near.buffer[:length], self.rounds)
            into = far.buffer[SIZE : SIZE + length]
            into.view[:] = bytes([POISON]) * length
            far.ep.recv(into, source=far.ep.peer, context="r")
            near.ep.send(near.buffer[:length], context="s")
            for side, context in ((far, "r"), (near, "s")):
                assert self._entry(side).context == context
            assert bytes(into.view) == data, f"round {self.rounds}"
        self.rounds += 1

    def _entry(self, side: RdmPeer) -> kp.CqEntry:
        try:
            (entry,) = side.cq.sread(1, timeout=LIMIT)
        except kp.ErrorAvailable:
            raise AssertionError(f"round {self.rounds}: {side.cq.readerr()}") from None
        return entry
