# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""kfabric_py over a real RDMA link: connections, messages, remote memory, the example."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from guest_support import LIMIT, Child, Side

import kfabric_py as kp
from kfabric.guest.topology import RdmaLink

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

Pair = tuple[Side, Side]
ASKED = kp.OpFlags.COMPLETION


def completion(side: Side) -> kp.CqEntry:
    """Wait for the next completion of one side."""
    while not (entries := side.cq.read(1)):
        side.wait_set.wait(timeout=LIMIT)
        side.cntr.read()
    return entries[0]


def failure(side: Side) -> kp.CqError:
    """Wait for the next failed operation of one side."""
    while (error := side.cq.readerr()) is None:
        side.wait_set.wait(timeout=LIMIT)
        side.cntr.readerr()
        side.eq.read()
    return error


def test_offer_describes_the_link(verbs: RdmaLink, device: kp.Device) -> None:
    """getinfo: the provider's limits, and the addresses that were asked for."""
    info = device.getinfo(provider="verbs", dest=(verbs.address, 7471))[0]
    assert info.dest_addr == (verbs.address, 7471)
    assert info.ep_attr.type is kp.EpType.MSG
    assert info.fabric_attr.prov_name == "verbs"
    assert kp.Caps.MSG | kp.Caps.RMA in info.caps
    assert info.tx_attr.size > 0 and info.rx_attr.size > 0


def test_nothing_matches_is_an_error(modules: object, device: kp.Device) -> None:
    """getinfo: a provider that does not exist, an address that nobody has."""
    with pytest.raises(kp.NoMatch):
        device.getinfo(provider="absent")
    with pytest.raises(kp.NoMatch):
        device.getinfo(provider="verbs", source=("203.0.113.7", 0))


def test_both_sides_know_both_addresses(msg_pair: Pair) -> None:
    """getname and getpeer mirror each other."""
    active, passive = msg_pair
    assert active.ep.getname() == passive.ep.getpeer()
    assert active.ep.getpeer() == passive.ep.getname()


def test_message_arrives_with_contexts_and_data(connected_pair: Pair) -> None:
    """send and recv: both completions, their contexts, and remote CQ data."""
    sender, receiver = connected_pair
    sent, received = object(), object()
    receiver.ep.recv(receiver.buffer[:64], context=received, flags=ASKED)
    sender.buffer.view[:5] = b"hello"
    sender.ep.send(sender.buffer[:5], data=0x1234, context=sent, flags=ASKED)
    entry = completion(receiver)
    assert entry.context is received
    assert (entry.len, entry.data) == (5, 0x1234)
    assert entry.flags == kp.CqFlags.MSG | kp.CqFlags.RECV | kp.CqFlags.REMOTE_CQ_DATA
    assert bytes(receiver.buffer[:5]) == b"hello"
    entry = completion(sender)
    assert entry.context is sent
    assert entry.flags == kp.CqFlags.MSG | kp.CqFlags.SEND


def test_message_is_gathered_and_scattered(connected_pair: Pair) -> None:
    """Several pieces on either side, cut differently, make one message."""
    sender, receiver = connected_pair
    text = b"from three pieces into two"
    out, into = sender.buffer, receiver.buffer
    out.view[: len(text)] = text
    receiver.ep.recv([into[100:110], into[200:300]], flags=ASKED)
    sender.ep.send([out[:3], out[3:11], out[11 : len(text)]])
    assert completion(receiver).len == len(text)
    assert bytes(into[100:110]) + bytes(into[200 : 190 + len(text)]) == text


def test_injected_memory_is_free_at_once(connected_pair: Pair) -> None:
    """inject: what is written after the call does not travel."""
    sender, receiver = connected_pair
    receiver.ep.recv(receiver.buffer[:64], flags=ASKED)
    sender.buffer.view[:4] = b"then"
    sender.ep.inject(sender.buffer[:4])
    sender.buffer.view[:4] = b"late"
    assert completion(receiver).len == 4
    assert bytes(receiver.buffer[:4]) == b"then"


@pytest.mark.parametrize("how", ["write", "read"])
def test_remote_memory_is_written_and_read(connected_pair: Pair, how: str) -> None:
    """mr, remote, write, read: the description of a region travels as bytes."""
    near, far = connected_pair
    access = kp.Access.REMOTE_READ | kp.Access.REMOTE_WRITE
    with far.domain.mr(far.buffer[4096:], access) as region:
        remote = kp.RemoteRegion.from_bytes(region.remote(8, 100).to_bytes())
        near.buffer.view[:100] = bytes(range(100))
        if how == "write":
            near.ep.write(near.buffer[:100], remote, context="done", flags=ASKED)
        else:
            far.buffer.view[4104:4204] = bytes(range(100, 200))
            near.ep.read(near.buffer[:100], remote, context="done", flags=ASKED)
        entry = completion(near)
        assert entry.context == "done"
        assert kp.CqFlags.RMA in entry.flags
        assert bytes(near.buffer[:100]) == bytes(far.buffer[4104:4204])


def test_region_keeps_its_buffer(connected_pair: Pair) -> None:
    """O1: a buffer that a region describes cannot be closed."""
    side, _ = connected_pair
    with side.domain.mr(side.buffer, kp.Access.REMOTE_READ), pytest.raises(kp.Busy):
        side.buffer.close()
    assert not side.buffer.closed


def test_posted_receives_come_back_when_the_peer_leaves(msg_pair: Pair) -> None:
    """V7: SHUTDOWN, and every posted receive as an error with its context, in order."""
    leaving, staying = msg_pair
    for number in range(3):
        staying.ep.recv(staying.buffer[:64], context=number)
    leaving.ep.shutdown()
    errors = [failure(staying) for _ in range(3)]
    assert [error.context for error in errors] == [0, 1, 2]
    assert {error.err for error in errors} == {errno.ECANCELED}
    assert staying.cq.strerror(errors[0])


@dataclass(frozen=True)
class Listener:
    """A passive endpoint that listens, and where it reports to."""

    fabric: kp.Fabric
    eq: kp.EventQueue
    pep: kp.PassiveEndpoint
    address: tuple[str, int]


@pytest.fixture
def listener(verbs: RdmaLink, device: kp.Device) -> Iterator[Listener]:
    """A listener on the link, at a port that was free."""
    info = device.getinfo(provider="verbs", source=(verbs.address, 0))[0]
    with (
        device.fabric(info) as fabric,
        fabric.eq() as eq,
        fabric.passive_ep(info) as pep,
    ):
        pep.bind(eq)
        pep.listen()
        name = pep.getname()
        assert isinstance(name, tuple)
        yield Listener(fabric, eq, pep, name)


@contextlib.contextmanager
def connecting(
    device: kp.Device, fabric: kp.Fabric, dest: tuple[str, int], data: bytes = b""
) -> Iterator[tuple[kp.Endpoint, kp.EventQueue]]:
    """Have an endpoint that has asked for a connection."""
    info = device.getinfo(provider="verbs", dest=dest)[0]
    with (
        fabric.domain(info) as domain,
        domain.cq() as cq,
        fabric.eq() as eq,
        domain.endpoint(info) as ep,
    ):
        ep.bind(cq, transmit=True, recv=True)
        ep.bind(eq)
        ep.enable()
        ep.connect(data=data)
        yield ep, eq


def test_request_carries_the_peers_data(device: kp.Device, listener: Listener) -> None:
    """CONNREQ: the listener, an info, the private data; dropping it rejects the peer."""
    with connecting(device, listener.fabric, listener.address, b"please") as (ep, eq):
        event = listener.eq.sread(timeout=LIMIT)
        assert event is not None and event.request is not None
        assert event.event is kp.Event.CONNREQ
        assert event.fid is listener.pep
        # The connection manager may pad with zeros.
        assert event.request.cm_data.rstrip(b"\0") == b"please"
        assert event.request.info.ep_attr.type is kp.EpType.MSG
        event.request.close()
        with pytest.raises(kp.ErrorAvailable):
            eq.sread(timeout=LIMIT)
        error = eq.readerr()
        assert error is not None and error.fid is ep
        assert isinstance(error.exception(), kp.ConnectionRefused)


def test_rejection_carries_data(device: kp.Device, listener: Listener) -> None:
    """reject: the peer gets ECONNREFUSED and the private data."""
    with connecting(device, listener.fabric, listener.address) as (ep, eq):
        event = listener.eq.sread(timeout=LIMIT)
        assert event is not None and event.request is not None
        event.request.reject(b"not today")
        assert event.request.closed
        with pytest.raises(kp.ErrorAvailable):
            eq.sread(timeout=LIMIT)
        error = eq.readerr()
        assert error is not None and error.fid is ep
        assert error.err == errno.ECONNREFUSED
        assert error.err_data.rstrip(b"\0") == b"not today"


def test_accepting_data_reaches_the_peer(device: kp.Device, listener: Listener) -> None:
    """accept: the request is used up; CONNECTED on the active side has the data."""
    with connecting(device, listener.fabric, listener.address) as (ep, eq):
        event = listener.eq.sread(timeout=LIMIT)
        assert event is not None and event.request is not None
        request = event.request
        with (
            listener.fabric.domain(request.info) as domain,
            domain.cq() as cq,
            listener.fabric.eq() as passive_eq,
            domain.endpoint(request, context="passive") as passive,
        ):
            assert request.closed
            passive.bind(cq, transmit=True, recv=True)
            passive.bind(passive_eq)
            passive.enable()
            passive.accept(b"welcome")
            connected = eq.sread(timeout=LIMIT)
            assert connected is not None
            assert (connected.event, connected.fid) == (kp.Event.CONNECTED, ep)
            assert connected.cm_data.rstrip(b"\0") == b"welcome"
            connected = passive_eq.sread(timeout=LIMIT)
            assert connected is not None
            assert (connected.event, connected.context) == (kp.Event.CONNECTED, "passive")


def test_device_counts_what_is_open(verbs: RdmaLink, device: kp.Device) -> None:
    """version: objects and memory, back to nothing when all is closed."""
    info = device.getinfo(provider="verbs", source=(verbs.address, 0))[0]
    assert (device.version().objects, device.version().bytes) == (0, 0)
    with device.fabric(info), device.buffer(100):
        used = device.version()
        assert used.objects == 2
        assert 100 <= used.bytes <= used.max_bytes
    assert (device.version().objects, device.version().bytes) == (0, 0)


@pytest.fixture(params=["pingpong", "rdm_pingpong"])
def example(request: pytest.FixtureRequest) -> ModuleType:
    """An example as a module."""
    path = EXAMPLES / f"{request.param}.py"
    spec = importlib.util.spec_from_file_location(request.param, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_example_plays(
    modules: object,
    verbs: RdmaLink,
    example: ModuleType,
    in_child: Callable[..., Child],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ping-pong: the server in a process of its own, the client here."""
    arguments = [example.__name__, "--count", "97", verbs.address]

    def serve(report: Callable[[str], None]) -> int:
        sys.argv = [*arguments, "--server"]
        example.print = lambda text, **_: report(text)  # type: ignore[attr-defined]
        example.main()
        return 0

    server = in_child(serve)
    assert verbs.address in server.report()
    monkeypatch.setattr(sys, "argv", arguments)
    example.main()
    assert capsys.readouterr().out.startswith("97 round trips, ")
    assert server.wait() == 0
