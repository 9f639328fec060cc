# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Connections: who asks, who answers, and what each side hears of it."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uapi_support as raw
from guest_support import LIMIT, OTHER_USER, Call, Mock
from verbs_support import Net, counts, wait_for_counts

import kfabric_py as kp
from kfabric.guest import topology
from kfabric.guest.waiting import wait_until

InThread = Callable[[Callable[[], object]], Call[object]]

#: The port of RDM endpoints: the module parameter rdm_port.
RDM_PORT = 7473
PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


@contextlib.contextmanager
def without_capabilities() -> Iterator[None]:
    """Be another user, with the files that are open."""
    os.seteuid(OTHER_USER)
    try:
        yield
    finally:
        os.seteuid(0)


def test_request_carries_addresses_and_private_data(net: Net) -> None:
    """CONNREQ: the listener, the peer's address, its data (padded)."""
    a = net.peer()
    a.ep.connect(data=b"who are you")
    event = net.listen_eq.sread(timeout=LIMIT)
    assert event is not None and event.request is not None
    assert event.event is kp.Event.CONNREQ
    assert event.fid is net.listener
    assert event.cm_data.rstrip(b"\0") == b"who are you"
    info = event.request.info
    assert info.src_addr == net.name
    assert info.dest_addr == a.ep.getname()
    assert info.domain_attr.name == net.link.name
    event.request.close()


def test_accepting_answers_with_private_data(net: Net) -> None:
    """CONNECTED on both sides; the active one gets the data."""
    a = net.peer()
    a.ep.connect()
    b = net.peer(net.request())
    b.ep.accept(data=b"I am b")
    mine, theirs = a.event(), b.event()
    assert mine.event is theirs.event is kp.Event.CONNECTED
    assert (mine.fid, theirs.fid) == (a.ep, b.ep)
    assert mine.cm_data.rstrip(b"\0") == b"I am b"
    assert theirs.cm_data == b""


@pytest.mark.parametrize("length", [56, 57, 256])
def test_private_data_is_cut_to_what_the_protocol_carries(net: Net, length: int) -> None:
    """At most 56 bytes of a request arrive, without an error."""
    a = net.peer()
    a.ep.connect(data=b"x" * length)
    event = net.listen_eq.sread(timeout=LIMIT)
    assert event is not None and event.request is not None
    assert event.cm_data.rstrip(b"\0") == b"x" * 56
    event.request.close()


def test_names_of_both_ends(net: Net) -> None:
    """Each side's peer is the other side's name."""
    a, b = net.connect()
    assert a.ep.getpeer() == b.ep.getname() == net.name
    assert b.ep.getpeer() == a.ep.getname()


def test_peer_is_unknown_before_the_connection(net: Net) -> None:
    """getpeer: ENOTCONN."""
    with pytest.raises(kp.KfiError) as error:
        net.peer().ep.getpeer()
    assert error.value.errno == errno.ENOTCONN


def test_shutdown_right_after_the_accept_reaches_the_peer(net: Net) -> None:
    """Before the peer has confirmed, RDMA CM cannot send it; it goes out then. 9 attempts."""
    for _ in range(9):
        a = net.peer()
        a.ep.connect()
        b = net.peer(net.request())
        b.ep.accept()
        b.ep.shutdown()
        assert [a.event().event, a.event().event] == [kp.Event.CONNECTED, kp.Event.SHUTDOWN]


def test_rejecting_answers_with_private_data(net: Net) -> None:
    """The active side gets an error event: ECONNREFUSED, and the data."""
    a = net.peer()
    a.ep.connect()
    net.request().reject(b"not today")
    error = a.eq_error()
    assert error.fid is a.ep
    assert error.err == errno.ECONNREFUSED
    assert error.err_data.rstrip(b"\0") == b"not today"


def test_closing_a_request_refuses_it(net: Net) -> None:
    """A request that is dropped is answered."""
    a = net.peer()
    a.ep.connect()
    net.request().close()
    assert a.eq_error().err == errno.ECONNREFUSED


def test_unread_request_is_refused_when_its_queue_goes(net: Net) -> None:
    """O1: the event owns the request, and the listener's EQ may be closed first."""
    a = net.peer()
    a.ep.connect()
    wait_readable(net.listen_eq)
    net.listen_eq.close()
    assert a.eq_error().err == errno.ECONNREFUSED


def wait_readable(eq: kp.EventQueue) -> None:
    """Wait until an event is there, and leave it there."""
    wait_until(lambda: eq.read(peek=True) is not None, "an unread event", LIMIT)


def test_unread_request_is_refused_when_its_listener_goes(net: Net) -> None:
    """Closing the listener takes back what it reported."""
    a = net.peer()
    a.ep.connect()
    wait_readable(net.listen_eq)
    net.listener.close()
    assert a.eq_error().err == errno.ECONNREFUSED
    assert net.listen_eq.read() is None


def test_unread_request_goes_with_its_peer(net: Net) -> None:
    """Q10, X3: the peer gives up; nothing is left in the queue or on the device."""
    ids = counts(net.link)["cm_id"]
    a = net.peer()
    a.ep.connect()
    wait_readable(net.listen_eq)
    a.ep.close()
    wait_until(lambda: net.listen_eq.read(peek=True) is None, "an empty queue", LIMIT)
    wait_until(lambda: counts(net.link)["cm_id"] <= ids, "as few ids as before", LIMIT)


def test_peer_that_gives_up_takes_back_no_request_of_another(net: Net) -> None:
    """V6: the first of three unread requests goes."""
    first, *others = (net.peer() for _ in range(3))
    first.ep.connect(data=b"first")
    wait_readable(net.listen_eq)
    for index, peer in enumerate(others):
        peer.ep.connect(data=b"other %d" % index)
    first.ep.close()

    def head() -> bytes:
        event = net.listen_eq.read(peek=True)
        return event.cm_data if event else b""

    wait_until(lambda: head().startswith(b"other"), "another request at the head", LIMIT)
    found = set()
    for _ in others:
        event = net.listen_eq.sread(timeout=LIMIT)
        assert event is not None and event.request is not None
        found.add(event.cm_data.rstrip(b"\0"))
        event.request.close()
    assert found == {b"other 0", b"other 1"}
    assert net.listen_eq.read() is None


def test_request_that_is_being_read_outlives_its_peer(
    net: Net, mock: Mock, in_thread: InThread
) -> None:
    """X2, V6: hook D7: the peer gives up while its request is handed out."""
    a = net.peer()
    a.ep.connect()
    wait_readable(net.listen_eq)
    with a.domain.poll_set() as ready:
        ready.add(net.listen_eq)
        hook = mock.hook("D7", net.listen_eq)
        reading = in_thread(net.request)
        hook.stopped()
        a.ep.close()
        wait_until(lambda: not ready.poll(), "a queue that is not ready", LIMIT)
        hook.go()
    request = reading.result()
    assert isinstance(request, kp.ConnectionRequest)
    request.close()
    assert net.listen_eq.read() is None


def test_request_that_is_being_read_outlives_its_listener(
    net: Net, mock: Mock, in_thread: InThread
) -> None:
    """X2, V6: hook D7: the listener closes while its request is handed out."""
    a = net.peer()
    a.ep.connect()
    wait_readable(net.listen_eq)
    hook = mock.hook("D7", net.listen_eq)
    reading = in_thread(net.request)
    hook.stopped()
    net.listener.close()
    hook.go()
    request = reading.result()
    assert isinstance(request, kp.ConnectionRequest)
    request.close()
    assert a.eq_error().err == errno.ECONNREFUSED
    assert net.listen_eq.read() is None


def test_request_without_listener_that_cannot_be_handed_out_is_refused(
    net: Net, mock: Mock, in_thread: InThread
) -> None:
    """X2, V6: hook D7: the listener closes, and then the answer cannot be written."""
    a = net.peer()
    a.ep.connect(data=b"497")
    wait_readable(net.listen_eq)
    # An address that is never mapped.
    arg = raw.sample("EQ_READ", eq=net.listen_eq._live_handle(), data_len=256, cm_data=8)
    hook = mock.hook("D7", net.listen_eq)
    reading = in_thread(lambda: raw.call(net.device.fileno(), "EQ_READ", arg))
    hook.stopped()
    net.listener.close()
    hook.go()
    assert reading.result() == -errno.EFAULT
    assert a.eq_error().err == errno.ECONNREFUSED
    assert net.listen_eq.read() is None


def test_nobody_listens(net: Net) -> None:
    """An error event, ECONNREFUSED, without data."""
    a = net.peer(net.info_for(1))
    a.ep.connect()
    error = a.eq_error()
    assert (error.err, error.err_data) == (errno.ECONNREFUSED, b"")


def test_address_beyond_the_device_is_unreachable(net: Net) -> None:
    """The way to the peer begins at another device: EHOSTUNREACH, and that one can go."""
    with topology.rxe_on_dummy() as other:
        a = net.peer(net.offer_of_any_address())
        a.ep.connect((other.address, 7471))
        assert a.eq_error().err == errno.EHOSTUNREACH
        # Nothing of ours holds the other device: deleting it comes back.
        topology.delete_link(other.name)


def test_failed_connection_flushes_receives(net: Net) -> None:
    """What was posted before comes back: ECANCELED."""
    a = net.peer(net.info_for(1))
    a.ep.recv(a.buffer[:8], context="early")
    a.ep.connect()
    assert a.eq_error().err == errno.ECONNREFUSED
    error = a.error()
    assert (error.context, error.err) == ("early", errno.ECANCELED)


def test_connect_only_once(net: Net) -> None:
    """While connecting EALREADY, when connected EISCONN."""
    a = net.peer()
    a.ep.connect()
    with pytest.raises(kp.KfiError) as error:
        a.ep.connect()
    assert error.value.errno == errno.EALREADY
    b = net.peer(net.request())
    b.ep.accept()
    assert a.event().event is kp.Event.CONNECTED
    with pytest.raises(kp.KfiError) as error:
        a.ep.connect()
    assert error.value.errno == errno.EISCONN


def test_accept_needs_a_request(net: Net) -> None:
    """An endpoint that was opened to connect: KFI_EOPBADSTATE."""
    with pytest.raises(kp.BadState):
        net.peer().ep.accept()


def test_shutdown_needs_a_connection(net: Net) -> None:
    """ENOTCONN before, and after the first time."""
    a, b = net.connect()
    with pytest.raises(kp.KfiError) as error:
        net.peer().ep.shutdown()
    assert error.value.errno == errno.ENOTCONN
    a.ep.shutdown()
    assert b.event().event is kp.Event.SHUTDOWN
    with pytest.raises(kp.KfiError) as error:
        b.ep.shutdown()
    assert error.value.errno == errno.ENOTCONN


@pytest.mark.parametrize("port", [RDM_PORT, 1])
def test_reserved_port_takes_no_listener(net: Net, port: int) -> None:
    """EACCES without CAP_NET_BIND_SERVICE; another port is free."""
    for source, result in (((net.link.address, port), errno.EACCES), ((net.link.address, 0), 0)):
        info = net.device.getinfo(provider="verbs", source=source)[0]
        with net.fabric.passive_ep(info) as pep, net.fabric.eq() as eq:
            pep.bind(eq)
            with without_capabilities():
                assert outcome(pep.listen) == result


def test_connection_to_the_port_of_rdm_endpoints(net: Net) -> None:
    """EACCES without CAP_NET_BIND_SERVICE; with it the node there decides."""
    a = net.peer(net.info_for(RDM_PORT))
    with without_capabilities():
        assert outcome(a.ep.connect) == errno.EACCES
    a.ep.connect()
    assert a.eq_error().err == errno.ECONNREFUSED


def test_connection_from_the_port_of_rdm_endpoints(net: Net) -> None:
    """EACCES without CAP_NET_BIND_SERVICE: a node could not listen meanwhile."""
    source = (net.link.address, RDM_PORT)
    a = net.peer(net.device.getinfo(provider="verbs", source=source, dest=net.name)[0])
    with without_capabilities():
        assert outcome(a.ep.connect) == errno.EACCES


@contextlib.contextmanager
def one_port() -> Iterator[None]:
    """Let RDMA CM choose the port of RDM endpoints for port 0, once and no other."""
    before = PORTS.read_text()
    PORTS.write_text(f"{RDM_PORT} {RDM_PORT}")
    try:
        yield
    finally:
        PORTS.write_text(before)


def test_port_of_rdm_endpoints_is_not_chosen_for_a_listener(net: Net) -> None:
    """EACCES without CAP_NET_BIND_SERVICE, and the port stays free for who has it."""
    ports = (0, RDM_PORT)
    infos = [
        net.device.getinfo(provider="verbs", source=(net.link.address, port))[0] for port in ports
    ]
    with net.fabric.eq() as eq, contextlib.ExitStack() as peps:
        chosen, named = (peps.enter_context(net.fabric.passive_ep(info)) for info in infos)
        for pep in (chosen, named):
            pep.bind(eq)
        with one_port(), without_capabilities():
            assert outcome(chosen.listen) == errno.EACCES
        named.listen()


def test_port_of_rdm_endpoints_is_not_chosen_for_a_connection(net: Net) -> None:
    """EACCES without CAP_NET_BIND_SERVICE, and the endpoint can connect afterwards."""
    a = net.peer()
    with one_port(), without_capabilities():
        assert outcome(a.ep.connect) == errno.EACCES
    a.ep.connect()
    net.request().close()


def outcome(call: Callable[[], None]) -> int:
    """Return the errno of a call, or 0."""
    try:
        call()
    except kp.KfiError as error:
        return error.errno
    return 0


def test_who_shuts_down_hears_nothing_of_it(net: Net) -> None:
    """The event is the peer's."""
    a, b = net.connect()
    a.ep.shutdown()
    assert b.event().event is kp.Event.SHUTDOWN
    assert a.eq.read() is None


def test_peer_hears_of_a_close(net: Net) -> None:
    """SHUTDOWN, once."""
    a, b = net.connect()
    b.ep.close()
    assert a.event().event is kp.Event.SHUTDOWN
    assert a.eq.read() is None


def test_connecting_needs_an_event_queue(net: Net) -> None:
    """KFI_ENOEQ at enable."""
    with (
        net.fabric.domain(net.info) as domain,
        domain.cq(8) as cq,
        domain.endpoint(net.info) as ep,
    ):
        ep.bind(cq, recv=True, transmit=True)
        with pytest.raises(kp.KfiError) as error:
            ep.enable()
    assert error.value.errno == kp.KfabricErrno.KFI_ENOEQ


def test_port_has_one_listener(net: Net) -> None:
    """EADDRINUSE for the second."""
    info = net.device.getinfo(provider="verbs", source=net.name)[0]
    with net.fabric.passive_ep(info) as second, net.fabric.eq() as eq:
        second.bind(eq)
        with pytest.raises(kp.KfiError) as error:
            second.listen()
    assert error.value.errno == errno.EADDRINUSE


def test_closed_connections_leave_nothing_behind(net: Net) -> None:
    """Queue pairs, ids and domains are given back: 10 connections, counted by the kernel."""
    # Before the first one: the device takes its time to let go of a closed one.
    before = counts(net.link)
    for _ in range(10):
        with contextlib.ExitStack() as stack:
            Net(net.device, net.link, stack).connect()
    wait_for_counts(net.link, before)
