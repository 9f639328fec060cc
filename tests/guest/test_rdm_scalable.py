# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Scalable endpoints, their contexts, and address vectors."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from typing import Any

import pytest
from guest_support import LIMIT, Call
from rdm_support import CXI, RECEIVED, SOCKADDR, TRECEIVED, RdmNet, Scalable

import kfabric_py as kp

InThread = Callable[[Callable[[], Any]], Call[Any]]

both = pytest.mark.parametrize("rdm", [SOCKADDR, CXI], indirect=True)


def meet(near: Scalable, far: Scalable) -> int:
    """Insert the other one's address; return its number."""
    name = far.sep.getname()
    assert name is not None
    return near.av.insert_one(name)


def read(cq: kp.CompletionQueue) -> kp.CqEntry:
    """Wait for the next completion."""
    (entry,) = cq.sread(1, timeout=LIMIT, source=True)
    return entry


@both
def test_sender_chooses_the_receive_context(rdm: RdmNet) -> None:
    """NAMED_RX_CTX: each context of one side to each of the other."""
    a, b = rdm.scalable(2), rdm.scalable(2)
    to = meet(a, b)
    back = meet(b, a)
    for i, sender in enumerate(a.contexts):
        for j, receiver in enumerate(b.contexts):
            tag = 10 * i + j
            receiver.rx.trecv(b.buffer[:8], tag, context="r")
            sender.tx.tsend(a.buffer[:8], tag, to=a.av.rx_addr(to, j))
            entry = read(receiver.rx_cq)
            assert (entry.context, entry.flags, entry.tag) == ("r", TRECEIVED, tag)
            assert entry.src_addr == back
            assert read(sender.tx_cq).flags == kp.CqFlags.TAGGED | kp.CqFlags.SEND


@both
def test_contexts_do_not_share_receives(rdm: RdmNet) -> None:
    """A message for context 1 does not take the receive of context 0."""
    a, b = rdm.scalable(2), rdm.scalable(2)
    to = meet(a, b)
    b.contexts[0].rx.recv(b.buffer[:8], context=0)
    b.contexts[1].rx.recv(b.buffer[:8], context=1)
    a.contexts[0].tx.send(a.buffer[:8], to=a.av.rx_addr(to, 1))
    entry = read(b.contexts[1].rx_cq)
    assert (entry.context, entry.flags) == (1, RECEIVED)
    assert b.contexts[0].rx_cq.read() == []


def test_context_that_is_not_there(rdm: RdmNet) -> None:
    """EHOSTUNREACH for what goes to it; EINVAL at the open."""
    a, b = rdm.scalable(2), rdm.scalable(2)
    to = meet(a, b)
    a.contexts[0].tx.send(a.buffer[:8], to=a.av.rx_addr(to, 7))
    with pytest.raises(kp.ErrorAvailable):
        a.contexts[0].tx_cq.sread(1, timeout=LIMIT)
    error = a.contexts[0].tx_cq.readerr()
    assert error is not None and error.err == errno.EHOSTUNREACH
    for index in (0, 2, 1000):
        for opening in (a.sep.transmit, a.sep.receive):
            with pytest.raises(kp.KfiError) as refused:
                opening(index)
            assert refused.value.errno == errno.EINVAL


def test_queues_of_contexts_in_sets(rdm: RdmNet, in_thread: InThread) -> None:
    """W7, W10, P1: a message for one context ends a wait on a set with the queues of all."""
    a = rdm.scalable(1)
    attr = kp.EpAttr(type=kp.EpType.RDM, tx_ctx_cnt=1, rx_ctx_cnt=3)
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        domain = rdm.domain()
        wait_set, poll_set = enter(rdm.fabric.wait_set()), enter(domain.poll_set())
        av = enter(domain.av(rx_ctx_bits=4))
        sep = enter(domain.scalable_endpoint(rdm.ask(ep_attr=attr)))
        sep.bind(av)
        sep.enable()
        cqs = [enter(domain.cq(16, wait_set=wait_set)) for _ in range(3)]
        cntr = enter(domain.counter(wait_set=wait_set))
        receivers = [enter(sep.receive(index)) for index in range(3)]
        for index, rx in enumerate(receivers):
            rx.bind(cqs[index], recv=True)
            if index == 2:
                rx.bind(cntr, recv=True)
            rx.enable()
            rx.recv(a.buffer[:8], context=index)
            poll_set.add(cqs[index])
        to = a.av.insert_one(sep.getname() or b"")
        for index in (1, 2, 0):
            call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
            a.contexts[0].tx.send(a.buffer[8:16], to=a.av.rx_addr(to, index))
            call.result()
            assert poll_set.poll() == [cqs[index]]
            assert [entry.context for entry in cqs[index].read()] == [index]
            assert cntr.read() == (index in (2, 0))
        for cq in cqs:
            poll_set.remove(cq)


def test_contexts_hold_their_endpoint(rdm: RdmNet) -> None:
    """O1: the endpoint, its vector and a queue stay while a context is there."""
    a = rdm.scalable(1)
    arg = kp._uapi.kfab_close(handle=a.sep._handle)
    with pytest.raises(kp.Busy):
        a.sep._client(kp._uapi.KFAB_IOC_CLOSE, arg)
    with pytest.raises(kp.Busy):
        a.av.close()
    a.contexts[0].tx.close()
    a.contexts[0].rx.close()
    a.sep.close()
    a.av.close()


def test_contexts_have_directions(rdm: RdmNet) -> None:
    """EINVAL: a receive on what sends; the scalable endpoint itself moves nothing."""
    a = rdm.scalable(1)
    fd = rdm.device.fileno()
    assert fd >= 0
    iov = kp._uapi.kfab_iov(buf=a.buffer._handle, len=8)
    for name, handle in (
        ("RECV", a.contexts[0].tx._handle),
        ("SEND", a.contexts[0].rx._handle),
        ("SEND", a.sep._handle),
        ("RECV", a.sep._handle),
    ):
        arg = kp._uapi.kfab_msg(ep=handle, iov_count=1, iov=kp._uapi.ctypes.addressof(iov))
        with pytest.raises(kp.KfiError) as error:
            a.sep._client(getattr(kp._uapi, f"KFAB_IOC_{name}"), arg)
        assert error.value.errno == errno.EINVAL


def test_context_needs_its_queue(rdm: RdmNet) -> None:
    """KFI_ENOCQ."""
    a = rdm.scalable(1)
    attr = kp.EpAttr(type=kp.EpType.RDM, tx_ctx_cnt=1, rx_ctx_cnt=1)
    info = rdm.ask(ep_attr=attr)
    with a.domain.av() as av, a.domain.scalable_endpoint(info) as sep:
        sep.bind(av)
        sep.enable()
        with sep.transmit(0) as tx, pytest.raises(kp.KfiError) as error:
            tx.enable()
        assert error.value.errno == kp.KfabricErrno.KFI_ENOCQ


def test_address_in_use(rdm: RdmNet) -> None:
    """EADDRINUSE for a second endpoint with the same number."""
    a = rdm.peer()
    name = a.ep.getname()
    with (
        rdm.fabric.domain(rdm.info) as domain,
        domain.av() as av,
        domain.cq() as cq,
    ):
        again = rdm.device.getinfo(
            provider="verbs",
            source=name,
            hints=kp.Info(addr_format=rdm.info.addr_format, ep_attr=kp.EpAttr(type=kp.EpType.RDM)),
        )[0]
        with pytest.raises(kp.KfiError) as error, domain.rdm_endpoint(again) as ep:
            ep.bind(av)
            ep.bind(cq, transmit=True, recv=True)
            ep.enable()
        assert error.value.errno == errno.EADDRINUSE


@both
def test_vector_gives_addresses_back(rdm: RdmNet) -> None:
    """insert, lookup, straddr, remove."""
    a, b = rdm.peer(), rdm.peer()
    name = b.ep.getname()
    assert name is not None
    number = a.av.insert_one(name)
    assert a.av.lookup(number) == name
    assert a.av.straddr(name)
    a.av.remove(number)
    with pytest.raises(kp.KfiError) as error:
        a.av.lookup(number)
    assert error.value.errno == errno.EINVAL
    with pytest.raises(kp.KfiError):
        a.av.remove(number)


@both
def test_other_name_of_an_endpoint_takes_the_place_of_the_first(rdm: RdmNet) -> None:
    """Of several numbers for one address the first is its name; removing it leaves the others."""
    a, b = rdm.connect()
    first = a.av.insert_one(b.ep.getname() or b"")
    others = [a.av.insert_one(b.ep.getname() or b"") for _ in range(2)]
    known = a.ep.peer

    def source() -> int | None:
        a.ep.recv(a.buffer[:8])
        b.ep.send(b.buffer[:8])
        return read(a.cq).src_addr

    assert source() == known
    a.av.remove(first)
    assert source() == known
    a.av.remove(known)
    assert source() == others[0]
    a.av.remove(*others)
    assert source() not in (known, first, *others)


def test_vector_takes_text(rdm: RdmNet) -> None:
    """insertsvc: a dotted address and a port."""
    a, b = rdm.connect()
    name = b.ep.getname()
    assert isinstance(name, tuple)
    number = a.av.insert_service(name[0], str(name[1]))
    assert a.av.lookup(number) == name
    b.ep.recv(b.buffer[:8])
    a.ep.send(a.buffer[:8], to=number)
    assert b.entry().len == 8
    with pytest.raises(kp.KfiError) as error:
        a.av.insert_service("no.such.name", "1")
    assert error.value.errno == errno.EINVAL


def test_table_counts_from_zero(rdm: RdmNet) -> None:
    """AvType.TABLE: also those that are no addresses use up an index."""
    with rdm.domain().av(type=kp.AvType.TABLE) as av:
        good = [("192.0.2.1", port) for port in (1, 2)]
        assert av.insert([good[0], ("0.0.0.0", 0), good[1]]) == [0, None, 2]


def test_what_a_vector_refuses(rdm: RdmNet) -> None:
    """Too many bits for contexts, asynchronous inserts, garbage for addresses."""
    domain = rdm.domain()
    with pytest.raises(kp.KfiError) as error:
        domain.av(rx_ctx_bits=17)
    assert error.value.errno == errno.EINVAL
    with domain.av() as av:
        with pytest.raises(kp.KfiError) as error:
            av.insert([bytes(16), bytes([255]) * 16])
        assert error.value.errno == errno.EINVAL
        with pytest.raises(ValueError, match="one format"):
            av.insert([bytes(16), bytes(8)])


def test_connected_domains_have_no_vectors(rdm: RdmNet) -> None:
    """NotSupported: a domain that was opened for connected endpoints."""
    info = rdm.device.getinfo(provider="verbs", source=(rdm.link.address, 0))[0]
    assert info.ep_attr.type is kp.EpType.MSG
    with rdm.device.fabric(info) as fabric, fabric.domain(info) as domain:
        with pytest.raises(kp.NotSupported):
            domain.av()
        with pytest.raises(kp.NotSupported):
            domain.scalable_endpoint(info)
