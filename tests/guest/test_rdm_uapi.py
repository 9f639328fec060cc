# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The ioctls of endpoints without a connection: faults, failing allocations, garbage.

Their frame (sizes, tails, flags, padding) is tested with that of all the others, in
test_uapi.py, and their handles in test_uapi_handles.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import uapi_support as raw
from failslab_support import MOST, NO_MEMORY, Failslab
from guest_support import LIMIT, Call, Child, Mock, become, open_to_all
from rdm_support import CXI, RECEIVED, SOCKADDR, TRECEIVED, RdmNet, RdmPeer, Scalable, parameter
from test_uapi import DOCUMENTED
from verbs_support import REMOTE, Net
from violence_support import small_group

import kfabric_py as kp
from kfabric.guest import sleeping
from kfabric.guest.waiting import wait_until
from kfabric_py import _uapi
from kfabric_py.info import info_to_raw, pack_address

InThread = Callable[[Callable[[], object]], Call[object]]

FAULT = -errno.EFAULT
NOTAVAIL = _uapi.KFAB_ADDR_NOTAVAIL
POISON = 0x5A5A5A5A5A5A5A5A


@pytest.fixture
def memory() -> Iterator[raw.Pages]:
    """A page whose successor is missing."""
    yield from raw.pages()


def insert(av: kp.AddressVector, addrs: int, out: int, count: int = 1) -> Any:
    """Return the structure of an insert of sockaddr_in addresses."""
    return raw.sample(
        "AV_INSERT", av=av._handle, count=count, addr_len=16, addrs=addrs, out_addrs=out
    )


def empty(av: kp.AddressVector, up_to: int = 4) -> bool:
    """Is nothing in the vector under one of the first numbers?"""
    for number in range(up_to):
        try:
            av.lookup(number)
        except kp.KfiError as error:
            assert error.errno == errno.EINVAL
        else:
            return False
    return True


def test_fault_inserts_nothing(rdm: RdmNet, memory: raw.Pages) -> None:
    """X2: addresses that cannot be read, names that cannot be written: the vector is as before."""
    fd = rdm.device.fileno()
    packed = pack_address(("192.0.2.1", 1)) * 2
    addresses = ctypes.create_string_buffer(packed)
    with rdm.domain().av() as av:
        good = ctypes.addressof(addresses)
        for addrs, out in (
            (memory.end - 24, memory.address),
            (0, memory.address),
            (good, memory.end - 8),
            (good, 0),
        ):
            assert raw.call(fd, "AV_INSERT", insert(av, addrs, out, 2)) == FAULT
            assert empty(av)
        assert raw.call(fd, "AV_INSERT", insert(av, good, memory.end - 16, 2)) == 2
        assert not empty(av)


def test_late_fault_inserts_nothing(rdm: RdmNet, in_thread: InThread) -> None:
    """X2: the room for the numbers is writable at first and not at the end: nothing stays.

    An insert begins by trying whether that room is writable. It waits for the second of its two
    pages, while the first one, which it has tried, becomes read-only.
    """
    fd, count = rdm.device.fileno(), 512
    addresses = ctypes.create_string_buffer(pack_address(("192.0.2.1", 1)) * count)
    memory = raw.Pages.new(2)
    last = raw.Userfault(memory.address + raw.PAGE)
    with rdm.domain().av() as av:
        arg = insert(av, ctypes.addressof(addresses), memory.address + raw.PAGE // 2, count)
        call = in_thread(partial(raw.call, fd, "AV_INSERT", arg))
        last.touched(LIMIT)
        memory.read_only(raw.PAGE)
        last.give()
        assert call.result() == FAULT
        assert empty(av)
    last.close()
    memory.free()


def test_failed_insert_leaves_the_room_as_it_was(rdm: RdmNet) -> None:
    """X2: no address is valid: the numbers are not written, since 0 would be a good one."""
    addresses = ctypes.create_string_buffer(b"\xff" * 32)
    room = (ctypes.c_uint64 * 2)(POISON, POISON)
    with rdm.domain().av() as av:
        arg = insert(av, ctypes.addressof(addresses), ctypes.addressof(room), 2)
        assert raw.call(rdm.device.fileno(), "AV_INSERT", arg) == -errno.EINVAL
        assert list(room) == [POISON, POISON]


def test_fault_inserts_no_service(rdm: RdmNet, memory: raw.Pages) -> None:
    """X2: the same for the address that is given as text; it must end."""
    fd = rdm.device.fileno()
    node, service = (ctypes.create_string_buffer(text) for text in (b"192.0.2.1", b"1"))
    with rdm.domain().av() as av:
        arg = raw.sample(
            "AV_INSERTSVC",
            av=av._handle,
            node=ctypes.addressof(node),
            service=ctypes.addressof(service),
        )
        assert raw.with_read_only(fd, memory, "AV_INSERTSVC", arg) == FAULT
        assert empty(av)
        arg.node = memory.put(b"1" * 8, at_end=True)
        assert raw.call(fd, "AV_INSERTSVC", arg) == FAULT
        long = ctypes.create_string_buffer(b"1" * _uapi.KFAB_NODE_MAX)
        arg.node = ctypes.addressof(long)
        assert raw.call(fd, "AV_INSERTSVC", arg) == -errno.EINVAL
        arg.node = ctypes.addressof(node)
        assert raw.call(fd, "AV_INSERTSVC", arg) == 1
        assert arg.out_addr != NOTAVAIL


def test_fault_uses_up_no_place_in_a_table(rdm: RdmNet, memory: raw.Pages) -> None:
    """X2: the first address that is inserted behind it is number 0."""
    fd = rdm.device.fileno()
    address = ctypes.create_string_buffer(pack_address(("192.0.2.1", 1)))
    node, service = (ctypes.create_string_buffer(text) for text in (b"192.0.2.1", b"1"))
    with rdm.domain().av(type=kp.AvType.TABLE) as av:
        assert raw.call(fd, "AV_INSERT", insert(av, ctypes.addressof(address), memory.end)) == FAULT
        arg = raw.sample(
            "AV_INSERTSVC",
            av=av._handle,
            node=ctypes.addressof(node),
            service=ctypes.addressof(service),
        )
        assert raw.with_read_only(fd, memory, "AV_INSERTSVC", arg) == FAULT
        assert av.insert_one(("192.0.2.1", 7)) == 0


def test_fault_while_looking_up(rdm: RdmNet, memory: raw.Pages) -> None:
    """X2: lookup and straddr; the room is respected, the length told."""
    fd = rdm.device.fileno()
    with rdm.domain().av() as av:
        number = av.insert_one(("192.0.2.1", 7))
        arg = raw.sample("AV_LOOKUP", av=av._handle, kfi_addr=number, addr=memory.end - 4)
        arg.addr_len = 4
        assert raw.call(fd, "AV_LOOKUP", arg) == 0
        assert arg.addr_len == 16
        assert raw.call(fd, "AV_LOOKUP", arg) == FAULT
        address = ctypes.create_string_buffer(pack_address(("192.0.2.1", 7)))
        text = raw.sample(
            "AV_STRADDR",
            av=av._handle,
            addr=ctypes.addressof(address),
            addr_len=16,
            buf=memory.end - 4,
            buf_size=4,
        )
        assert raw.call(fd, "AV_STRADDR", text) == 3
        assert ctypes.string_at(memory.end - 4) == ctypes.string_at(memory.end - 4, 3)
        text.buf_size = 64
        assert raw.call(fd, "AV_STRADDR", text) == FAULT


@pytest.mark.parametrize(
    "change",
    [
        {"count": 0},
        {"count": _uapi.KFAB_AV_INSERT_MAX + 1},
        {"addr_len": 0},
        {"addr_len": _uapi.KFAB_ADDR_MAX + 1},
        {"insert_flags": 1},
    ],
)
def test_numbers_of_an_insert_are_checked(
    rdm: RdmNet, memory: raw.Pages, change: dict[str, int]
) -> None:
    """X1: none and too many, no bytes and too many, unknown flags: EINVAL."""
    with rdm.domain().av() as av:
        arg = insert(av, memory.address, memory.address)
        for field, value in change.items():
            setattr(arg, field, value)
        assert raw.call(rdm.device.fileno(), "AV_INSERT", arg) == -errno.EINVAL


def test_address_of_another_length_reads_nothing_else(rdm: RdmNet, memory: raw.Pages) -> None:
    """X1: shorter addresses end in zeros for the provider, whatever is behind them in memory."""
    fd = rdm.device.fileno()
    packed = pack_address(("192.0.2.1", 7))
    with rdm.domain().av() as av:
        for length in (1, 8, 16, 128):
            address = memory.put(packed[:length].ljust(length, b"\0"), at_end=True)
            arg = insert(av, address, memory.address)
            arg.addr_len = length
            want = 1 if length >= 8 else -errno.EINVAL
            assert raw.call(fd, "AV_INSERT", arg) == want, length


def test_what_is_inserted_is_taken_back_whoever_removes(
    rdm: RdmNet, memory: raw.Pages, in_thread: InThread
) -> None:
    """X2, V6: a name that could not be told was nobody's: who removes it finds nothing."""
    fd = rdm.device.fileno()
    addresses = ctypes.create_string_buffer(pack_address(("192.0.2.1", 1)))
    with rdm.domain().av() as av:
        arg = insert(av, ctypes.addressof(addresses), memory.end)

        def fill() -> None:
            for _ in range(2000):
                assert raw.call(fd, "AV_INSERT", arg) == FAULT

        filling = in_thread(fill)
        first = ctypes.c_uint64(0)
        remove = raw.sample("AV_REMOVE", av=av._handle, count=1, addrs=ctypes.addressof(first))
        while not filling.done:
            assert raw.call(fd, "AV_REMOVE", remove) == -errno.EINVAL
        filling.result()
        assert empty(av)


def test_domain_takes_no_address_of_another_length(rdm: RdmNet) -> None:
    """X1: EINVAL, and no memory is read behind it."""
    fd = rdm.device.fileno()
    info = info_to_raw(rdm.info)
    assert info.src_addrlen == 16
    for length in (1, 15, 17):
        info.src_addrlen = length
        arg = raw.sample("DOMAIN_OPEN", fabric=rdm.fabric._handle, info=ctypes.addressof(info))
        assert raw.call(fd, "DOMAIN_OPEN", arg) == -errno.EINVAL, length


@pytest.mark.parametrize("field", ["ep_tx_ctx_cnt", "ep_rx_ctx_cnt"])
@pytest.mark.parametrize("count", [129, 1 << 32, (1 << 64) - 1])
def test_too_many_contexts(rdm: RdmNet, field: str, count: int) -> None:
    """X1: EINVAL, whichever bits say so."""
    info = info_to_raw(rdm.info)
    setattr(info, field, count)
    arg = raw.sample("SEP_OPEN", domain=rdm.domain()._handle, info=ctypes.addressof(info))
    assert raw.call(rdm.device.fileno(), "SEP_OPEN", arg) == -errno.EINVAL


def test_connection_request_is_for_no_such_endpoint(net: Net, rdm: RdmNet) -> None:
    """X2, V6: EINVAL, and the request can be accepted afterwards."""
    active = net.peer()
    active.ep.connect()
    request = net.request()
    info = info_to_raw(rdm.info)
    arg = raw.sample(
        "EP_OPEN",
        domain=rdm.domain()._handle,
        info=ctypes.addressof(info),
        connreq=request._handle,
    )
    assert raw.call(rdm.device.fileno(), "EP_OPEN", arg) == -errno.EINVAL
    passive = net.peer(request)
    passive.ep.accept()
    for peer in (active, passive):
        assert peer.event().event is kp.Event.CONNECTED


@pytest.mark.parametrize("rdm", [CXI], indirect=True)
def test_region_is_bound_to_endpoints_of_its_domain(rdm: RdmNet, mock: Mock, net: Net) -> None:
    """X1: KFI_EDOMAIN for an endpoint of another domain, whatever provider it is of."""
    peer = rdm.peer()
    others = [mock.endpoint(), net.peer().ep, rdm.peer().ep]
    with peer.domain.mr(peer.buffer, REMOTE, key=7) as region:
        for other in others:
            arg = raw.sample("BIND", handle=region._handle, to=other._handle)
            assert raw.call(rdm.device.fileno(), "BIND", arg) == -_uapi.KFAB_EDOMAIN
        region.bind(peer.ep)
        region.enable()


def test_messages_begin_no_more_connections_than_there_may_be(rdm: RdmNet) -> None:
    """X3: EAGAIN for another peer; connections that stand go on."""
    a, b = rdm.connect()
    a.ep.tsend(a.buffer[:8], 1)
    b.ep.trecv(b.buffer[:8], 1)
    b.entry()
    a.entry()
    stranger = a.av.insert_one(("192.0.2.1", 7))
    with parameter("rdm_max_conns", 0):
        with pytest.raises(kp.Again):
            a.ep.tsend(a.buffer[:8], 1, to=stranger)
        a.ep.tsend(a.buffer[:8], 2)
        b.ep.trecv(b.buffer[:8], 2)
        assert b.entry().flags == TRECEIVED


@pytest.fixture
def as_nobody(in_child: Callable[..., Child]) -> Iterator[Callable[[Callable[[], bool]], bool]]:
    """Run functions in processes of another user, who may open the device."""

    def run(function: Callable[[], bool]) -> bool:
        def child(_report: Callable[[str], None]) -> int:
            become()
            return int(not function())

        return in_child(child).wait() == 0

    with open_to_all():
        yield run


def nobody_at(rdm: RdmNet, number: int) -> str:
    """An address of the network without a machine."""
    network, _ = rdm.link.address.rsplit(".", 1)
    return f"{network}.{200 + number}"


def begins(peer: RdmPeer, rdm: RdmNet, number: int) -> bool:
    """Send to an address of the network without a machine; False if that is refused."""
    to = peer.av.insert_one((nobody_at(rdm, number), 7))
    try:
        peer.ep.tsend(peer.buffer[:8], 1, to=to)
    except kp.Again:
        return False
    return True


def test_user_begins_few_connections(
    rdm: RdmNet, as_nobody: Callable[[Callable[[], bool]], bool]
) -> None:
    """X3: all domains and clients of a user have one share; another user has its own."""

    def other_user() -> bool:
        with contextlib.ExitStack() as stack:
            net = RdmNet(stack.enter_context(kp.Device()), rdm.link, stack)
            return [begins(net.peer(), net, number) for number in (4, 5)] == [True, False]

    with contextlib.ExitStack() as stack, parameter("rdm_max_conns", 8):
        client = RdmNet(stack.enter_context(kp.Device()), rdm.link, stack)
        first = rdm.peer()
        assert begins(first, rdm, 1)
        assert not begins(rdm.peer(), rdm, 2)
        assert not begins(client.peer(), client, 3)
        assert begins(first, rdm, 1), "the connection that it has"
        assert as_nobody(other_user)


#: Operations of one context. Two of them are half of the flows that a connection may have.
DEPTH = 4096


def test_user_leaves_flows_of_a_connection_to_others(
    rdm: RdmNet, as_nobody: Callable[[Callable[[], bool]], bool]
) -> None:
    """X3: EAGAIN for a user whose operations might take half of them; another user goes on."""

    def posted(net: RdmNet) -> int:
        info = replace(net.info, tx_attr=replace(net.info.tx_attr, size=DEPTH))
        peer = net.peer(info=info, selective=True)
        to = peer.av.insert_one((nobody_at(net, 1), 7))
        for number in range(DEPTH):
            try:
                peer.ep.send(peer.buffer[:1], to=to)
            except kp.Again:
                return number
        return DEPTH

    def other_user() -> bool:
        with contextlib.ExitStack() as stack:
            return posted(RdmNet(stack.enter_context(kp.Device()), rdm.link, stack)) > 0

    assert [posted(rdm) for _ in range(3)] == [DEPTH, DEPTH, 0]
    assert as_nobody(other_user)


def test_user_leaves_registrations_of_a_connection_to_others(
    rdm: RdmNet, as_nobody: Callable[[Callable[[], bool]], bool]
) -> None:
    """X3: long messages without a receive hold them; another user's long message arrives."""
    sender = rdm.peer()
    for _ in range(16):
        sender.meet(rdm.peer())
        for _ in range(8):
            sender.ep.send(sender.buffer)

    def other_user() -> bool:
        with contextlib.ExitStack() as stack:
            a, b = RdmNet(stack.enter_context(kp.Device()), rdm.link, stack).connect()
            b.ep.recv(b.buffer)
            a.ep.send(a.buffer)
            return b.entry().flags == RECEIVED

    assert as_nobody(other_user)


def refused(rdm: RdmNet) -> RdmPeer:
    """Open an endpoint that has no room, and one whose message it has refused."""
    small = replace(rdm.info, rx_attr=replace(rdm.info.rx_attr, total_buffered_recv=1))
    full, other, sender = rdm.peer(info=small), rdm.peer(), rdm.peer()
    other.meet(sender)
    to_other = sender.meet(other)
    sender.meet(full)
    for _ in range(2):
        sender.ep.tsend(sender.buffer[:1], 1)
    # What the two send now comes after the second one, and after the refusal.
    other.ep.recv(other.buffer[:1])
    sender.ep.recv(sender.buffer[:1])
    sender.ep.send(sender.buffer[:1], to=to_other)
    assert other.entry().flags == RECEIVED
    other.ep.send(other.buffer[:1])
    while sender.entry().flags != RECEIVED:
        pass
    return full


def test_user_has_few_operations_that_a_peer_refuses(rdm: RdmNet) -> None:
    """X3: the peer decides how often they are searched, so a flow makes none of them free."""
    full = refused(rdm)
    info = replace(rdm.info, tx_attr=replace(rdm.info.tx_attr, size=DEPTH))

    def posted(peer: RdmPeer) -> int:
        peer.meet(full)
        for number in range(DEPTH):
            try:
                peer.ep.tsend(peer.buffer[:1], 1)
            except kp.Again:
                return number
        return DEPTH

    assert [posted(rdm.peer(info=info, selective=True)) for _ in range(3)][2] == 0


#: How many of the 510 pids of a key a user may have.
PIDS = 255


@pytest.mark.parametrize("rdm", [CXI], indirect=True)
def test_user_leaves_numbers_to_others(
    rdm: RdmNet, as_nobody: Callable[[Callable[[], bool]], bool]
) -> None:
    """X3: EMFILE for a user with half of the pids; another user gets one; a close makes room."""
    info = replace(
        rdm.info,
        tx_attr=replace(rdm.info.tx_attr, size=1),
        rx_attr=replace(rdm.info.rx_attr, size=1, total_buffered_recv=1),
    )
    peer = rdm.peer()

    def enable(stack: contextlib.ExitStack) -> kp.RdmEndpoint:
        ep = stack.enter_context(peer.domain.rdm_endpoint(info))
        ep.bind(peer.cq, recv=True, transmit=True)
        ep.bind(peer.av)
        ep.enable()
        return ep

    def other_user() -> bool:
        with contextlib.ExitStack() as stack:
            net = RdmNet(stack.enter_context(kp.Device()), rdm.link, stack, format=CXI)
            return net.peer().ep.getname() is not None

    with contextlib.ExitStack() as stack:
        eps = [enable(stack) for _ in range(PIDS - 1)]
        with pytest.raises(kp.KfiError) as caught:
            enable(stack)
        assert caught.value.errno == errno.EMFILE
        assert as_nobody(other_user)
        eps[7].close()
        enable(stack)


def test_throttled_client_holds_up_no_other(
    rdm: RdmNet, in_child: Callable[..., Child], in_thread: InThread
) -> None:
    """X3: others open and enable endpoints while one waits in enable, above its memory.high."""
    info = replace(
        rdm.info,
        tx_attr=replace(rdm.info.tx_attr, size=4096),
        rx_attr=replace(rdm.info.rx_attr, size=16384, total_buffered_recv=4096 * 4096),
    )

    def throttled() -> bool:
        state = sleeping.read_state(child.pid)
        return state.at("kfr_ep_control") and state.at("handle_over_high")

    def enable(report: Callable[[str], None]) -> int:
        with contextlib.ExitStack() as stack:
            net = RdmNet(stack.enter_context(kp.Device()), rdm.link, stack)
            peer = net.peer(info=info, enable=False)
            (group / "cgroup.procs").write_text("0")
            peer.ep.enable()
        return 0

    with small_group("memory.high", 1 << 20) as group:
        child = in_child(enable)
        try:
            wait_until(throttled, "a child without memory", LIMIT)
            in_thread(rdm.peer).result()
            wait_until(throttled, "the child where it was", LIMIT)
        finally:
            child.end()


@pytest.mark.parametrize("rdm", [SOCKADDR, CXI], indirect=True)
def test_freed_number_is_given_again(rdm: RdmNet) -> None:
    """O3: the first free one, as no two open endpoints have the same."""
    peers = [rdm.peer() for _ in range(4)]
    names = [peer.ep.getname() for peer in peers]
    assert len(set(names)) == len(names)
    for closed in (2, 1):
        peers[closed].ep.close()
    assert [rdm.peer().ep.getname() for _ in range(2)] == names[1:3]


OPENS: dict[str, Callable[[Scalable, int], dict[str, int]]] = {
    "AV_OPEN": lambda s, info: {"domain": s.domain._handle},
    "SEP_OPEN": lambda s, info: {"domain": s.domain._handle, "info": info},
    "EP_OPEN": lambda s, info: {"domain": s.domain._handle, "info": info},
    "TX_CTX_OPEN": lambda s, info: {"sep": s.sep._handle, "index": 1, "info": info},
    "RX_CTX_OPEN": lambda s, info: {"sep": s.sep._handle, "index": 1},
}


def half_open(rdm: RdmNet) -> tuple[Scalable, Any]:
    """Return a scalable endpoint whose contexts with index 1 are closed, and its offer."""
    scalable = rdm.scalable(2)
    scalable.contexts[1].tx.close()
    scalable.contexts[1].rx.close()
    return scalable, info_to_raw(rdm.info)


@pytest.mark.parametrize("name", OPENS)
def test_fault_opens_nothing(rdm: RdmNet, memory: raw.Pages, name: str) -> None:
    """X2, X4: an open whose answer cannot be written leaves no object behind."""
    fd = rdm.device.fileno()
    scalable, info = half_open(rdm)
    arg = raw.sample(name, **OPENS[name](scalable, ctypes.addressof(info)))
    before = rdm.device.version()
    assert raw.with_read_only(fd, memory, name, arg) == FAULT
    assert rdm.device.version() == before
    assert raw.call(fd, name, arg) == 0
    assert raw.call(fd, "CLOSE", raw.sample("CLOSE", handle=arg.out_handle)) == 0


@pytest.mark.parametrize("name", OPENS)
def test_open_without_memory(rdm: RdmNet, failslab: Failslab, name: str) -> None:
    """X4, B43, B50: each allocation fails once; nothing is left behind."""
    fd = rdm.device.fileno()
    scalable, info = half_open(rdm)
    before = rdm.device.version()
    for nth in range(1, MOST):
        arg = raw.sample(name, **OPENS[name](scalable, ctypes.addressof(info)))
        arg.size = ctypes.sizeof(arg)
        number, address = raw.CALLS[name][0], ctypes.addressof(arg)
        code, failed = failslab.during(str(nth), lambda n=number, a=address: raw.ioctl(fd, n, a))  # type: ignore[misc]
        if code >= 0:
            assert raw.call(fd, "CLOSE", raw.sample("CLOSE", handle=arg.out_handle)) == 0
        elif failed:
            assert code in NO_MEMORY, raw.text(code)
        assert rdm.device.version() == before, f"allocation {nth}"
        if not failed:
            break
    assert not failed, "it allocates and allocates"
    assert code == 0, raw.text(code)


@pytest.mark.parametrize("behind", ["", "-"], ids=["one fails", "all behind it fail"])
@pytest.mark.parametrize("count", [1, 70])
def test_insert_without_memory(
    rdm: RdmNet, failslab: Failslab, memory: raw.Pages, count: int, behind: str
) -> None:
    """X4, V6: what says that it was inserted is there, what says that it was not is not.

    If it is none, the error says why.
    """
    fd = rdm.device.fileno()
    packed = b"".join(pack_address(("192.0.2.1", port)) for port in range(1, count + 1))
    addresses = ctypes.create_string_buffer(packed)
    for nth in range(1, MOST):
        with rdm.domain().av() as av:
            out = (ctypes.c_uint64 * count)()
            arg = insert(av, ctypes.addressof(addresses), ctypes.addressof(out), count)
            arg.size = ctypes.sizeof(arg)
            number, address = raw.CALLS["AV_INSERT"][0], ctypes.addressof(arg)
            code, failed = failslab.during(
                f"{nth}{behind}",
                lambda n=number, a=address: raw.ioctl(fd, n, a),  # type: ignore[misc]
            )
            if code < 0:
                assert code in NO_MEMORY
                assert empty(av, count)
            else:
                assert code
                inserted = [index for index, one in enumerate(out) if one != NOTAVAIL]
                assert len(inserted) == code
                for index in inserted:
                    assert av.lookup(out[index]) == ("192.0.2.1", index + 1)
        if not failed:
            break
    assert not failed and code == count


POSTS = {
    "trecv": ("TRECV", {"tag": 1}),
    "tsend": ("TSEND", {"tag": 1}),
    "recv": ("RECV", {}),
    "send": ("SEND", {}),
    "write": ("WRITE", {}),
}


@pytest.mark.parametrize("what", POSTS)
def test_post_without_memory(rdm: RdmNet, failslab: Failslab, what: str) -> None:
    """X4: EAGAIN or ENOMEM and nothing was posted; the endpoint goes on."""
    a, b = rdm.connect()
    region = rdm.region(b, b.buffer)
    name, fields = POSTS[what]
    iov = _uapi.kfab_iov(buf=a.buffer._handle, len=8)
    remote = _uapi.kfab_rma_iov(region.remote().addr, 8, region.key)
    for nth in range(1, MOST):
        arg = raw.sample(
            name, ep=a.ep._handle, iov=ctypes.addressof(iov), iov_count=1, addr=a.ep.peer, **fields
        )
        if name == "WRITE":
            arg.rma_iov, arg.rma_iov_count = ctypes.addressof(remote), 1
        if "RECV" in name:
            arg.addr = kp.ANY
        arg.size = ctypes.sizeof(arg)
        number, address = raw.CALLS[name][0], ctypes.addressof(arg)
        code, failed = failslab.during(
            str(nth),
            lambda n=number, a=address: raw.ioctl(rdm.device.fileno(), n, a),  # type: ignore[misc]
        )
        assert code == 0 or code in NO_MEMORY, raw.text(code)
        if not failed:
            break
    assert not failed and code == 0
    a.ep.tsend(a.buffer[:8], 497)
    b.ep.trecv(b.buffer[:8], 497, context="after")
    while b.entry().context != "after":
        pass


@pytest.mark.parametrize("rdm", [SOCKADDR, CXI], indirect=True)
def test_garbage_gets_a_documented_errno(rdm: RdmNet, memory: raw.Pages) -> None:
    """X1: thousands of random structures on live objects: a listed errno or success."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    fd = rdm.device.fileno()
    a, _ = rdm.connect()
    scalable = rdm.scalable(2)
    live = [
        obj._handle for obj in (a.ep, a.av, a.buffer, scalable.sep, scalable.av, scalable.domain)
    ]
    for context in scalable.contexts:
        live += [context.tx._handle, context.rx._handle]
    names = [name for name in raw.CALLS if name.startswith(("AV_", "T", "ATOMIC", "FETCH", "COMP"))]
    names += ["SEND", "RECV", "READ", "WRITE", "CANCEL", "GETOPT", "SETOPT"]
    names += ["SEP_OPEN", "TX_CTX_OPEN", "RX_CTX_OPEN", "BIND", "GETNAME"]
    names = [name for name in names if name != "TRYWAIT"]
    handles = {field for fields in raw.HANDLES.values() for field in fields}
    pointers = {"info", "iov", "rma_iov", "node", "service", "buf", "addrs", "out_addrs", "result"}
    values = [0, 0, 0, 1, 2, 7, 16, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1]
    for _ in range(3001):
        name = rng.choice(names)
        arg = raw.sample(name)
        for field, kind in raw.fields(raw.CALLS[name][1]).items():
            if rng.random() < 0.3 or field in ("size", "flags", "__reserved"):
                continue
            if field in handles:
                value = rng.choice(live)
            elif field in pointers or field == "compare":
                value = rng.choice([0, memory.address, memory.end - 8, memory.end, 1 << 63])
            elif field.endswith("_count"):
                value = rng.choice([0, 1, 2, 33])
            else:
                value = rng.choice([*values, rng.getrandbits(64)])
            setattr(arg, field, value & ((1 << 8 * ctypes.sizeof(kind)) - 1))
        result = raw.call(fd, name, arg)
        if result < 0:
            assert -result in DOCUMENTED, (name, raw.text(result), seed)
        elif name.endswith("_OPEN"):
            assert raw.call(fd, "CLOSE", raw.sample("CLOSE", handle=arg.out_handle)) == 0
