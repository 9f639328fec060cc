# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Endpoints without a connection, address vectors and atomics over a fake of the kernel."""

from __future__ import annotations

import ctypes
import errno
from typing import Any

import pytest
from fake_kernel import FakeKernel
from test_py_objects import FakeBuffer

import kfabric_py as kp
from kfabric_py import _uapi

Op = kp.AtomicOp
HERE, THERE = ("10.0.0.1", 1), ("10.0.0.2", 2)


@pytest.fixture
def buffer(device: kp.Device) -> kp.Buffer:
    return FakeBuffer(device)


@pytest.fixture
def endpoint(domain: kp.Domain) -> kp.RdmEndpoint:
    ep = domain.rdm_endpoint(kp.Info())
    ep.bind(domain.cq(), transmit=True, recv=True)
    return ep


def last(kernel: FakeKernel, name: str) -> Any:
    """Return the argument of the last call, which must be of that name."""
    called, arg = kernel.calls[-1]
    assert called == name
    return arg


def test_operations_go_to_the_peer_unless_they_say_to_whom(
    kernel: FakeKernel, endpoint: kp.RdmEndpoint, buffer: kp.Buffer
) -> None:
    remote = kp.RemoteRegion(0, 8, 1)
    posts = {
        "send": lambda **to: endpoint.send(buffer, **to),
        "tsend": lambda **to: endpoint.tsend(buffer, 7, **to),
        "read": lambda **to: endpoint.read(buffer, remote, **to),
        "write": lambda **to: endpoint.write(buffer, remote, **to),
        "atomic": lambda **to: endpoint.atomic(buffer, remote, Op.SUM, **to),
    }
    for name, post in posts.items():
        endpoint.peer = kp.ANY
        post()
        assert last(kernel, name).addr == _uapi.KFAB_ADDR_UNSPEC
        endpoint.peer = 5
        post()
        assert last(kernel, name).addr == 5
        post(to=6)
        assert last(kernel, name).addr == 6


def test_receives_are_for_anybody_unless_they_say_from_whom(
    kernel: FakeKernel, endpoint: kp.RdmEndpoint, buffer: kp.Buffer
) -> None:
    endpoint.peer = 5
    endpoint.recv(buffer)
    assert last(kernel, "recv").addr == _uapi.KFAB_ADDR_UNSPEC
    endpoint.trecv(buffer, 7, ignore=3, source=9)
    arg = last(kernel, "trecv")
    assert (arg.addr, arg.tag, arg.ignore) == (9, 7, 3)


def test_injected_messages_say_so(
    kernel: FakeKernel, endpoint: kp.RdmEndpoint, buffer: kp.Buffer
) -> None:
    endpoint.tinject(buffer[:4], 7, data=8)
    arg = last(kernel, "tsend")
    assert (arg.flags, arg.tag, arg.data) == (_uapi.KFAB_POST_INJECT, 7, 8)
    assert arg.op_flags == _uapi.KFAB_REMOTE_CQ_DATA


def test_tag_stands_in_the_place_of_the_key(
    kernel: FakeKernel, endpoint: kp.RdmEndpoint, buffer: kp.Buffer
) -> None:
    for name, post in (("read", endpoint.tread), ("write", endpoint.twrite)):
        seen: list[tuple[int, int, int]] = []

        def serve(arg: Any, seen: list[tuple[int, int, int]] = seen) -> None:
            piece = _uapi.kfab_rma_iov.from_address(arg.rma_iov)
            seen.append((piece.addr, piece.len, piece.key))

        setattr(kernel, name, serve)
        post([buffer[:8], buffer[16:20]], 0x1234)
        assert last(kernel, name).op_flags == _uapi.KFAB_TAGGED
        assert seen == [(0, 12, 0x1234)]


def test_cancel_finds_the_oldest_operation_with_the_context(
    kernel: FakeKernel, endpoint: kp.RdmEndpoint, buffer: kp.Buffer
) -> None:
    context, equal = [1], [1]
    endpoint.recv(buffer, context=equal)
    endpoint.recv(buffer, context=context)
    endpoint.recv(buffer, context=context)
    cookies = [cookie for _, cookie, _ in kernel.posted]
    endpoint.cancel(context)
    assert last(kernel, "cancel").context == cookies[1]
    endpoint.cancel("never posted")
    assert last(kernel, "cancel").context == 0


def test_context_of_a_region_comes_back(
    kernel: FakeKernel, domain: kp.Domain, buffer: kp.Buffer
) -> None:
    """What a peer has done to a region has the region's context, each time."""
    cq = domain.cq()

    def serve(arg: Any) -> None:
        arg.out_handle = 4711

    kernel.mr_reg = serve  # type: ignore[method-assign]
    region = domain.mr(buffer, kp.Access.REMOTE_WRITE, context="mine")
    cookie = last(kernel, "mr_reg").context
    kernel.queues[cq._handle] += [(cookie, _uapi.KFAB_REMOTE_WRITE)] * 2
    assert [entry.context for entry in cq.read()] == ["mine", "mine"]
    region._mark_closed()


def test_addresses_are_inserted_together(kernel: FakeKernel, domain: kp.Domain) -> None:
    def serve(arg: Any) -> int:
        seen.append(ctypes.string_at(arg.addrs, arg.count * arg.addr_len))
        out = (ctypes.c_uint64 * arg.count).from_address(arg.out_addrs)
        out[0], out[1] = 3, _uapi.KFAB_ADDR_NOTAVAIL
        return 1

    seen: list[bytes] = []
    kernel.av_insert = serve  # type: ignore[attr-defined]
    av = domain.av(rx_ctx_bits=4)
    assert av.insert([HERE, THERE]) == [3, None]
    assert [len(one) for one in seen] == [32]
    with pytest.raises(ValueError, match="one format"):
        av.insert([HERE, bytes(8)])
    with pytest.raises(ValueError, match="must be one"):
        av.insert([])


def test_address_of_a_receive_context(domain: kp.Domain) -> None:
    av = domain.av(rx_ctx_bits=4)
    assert av.rx_addr(5, 3) == 3 << 60 | 5
    with pytest.raises(ValueError, match="16 does not fit"):
        av.rx_addr(5, 16)


def test_contexts_close_before_their_endpoint(kernel: FakeKernel, domain: kp.Domain) -> None:
    """O1: whatever the order in which they were opened."""
    sep = domain.scalable_endpoint(kp.Info())
    tx, rx = sep.transmit(0), sep.receive(1)
    assert last(kernel, "rx_ctx_open").index == 1
    sep.close()
    assert tx.closed and rx.closed
    assert kernel.closed.index(sep._handle) > max(
        map(kernel.closed.index, (tx._handle, rx._handle))
    )


def test_bound_vector_is_kept(domain: kp.Domain) -> None:
    """V8: also against the garbage collector."""
    ep = domain.rdm_endpoint(kp.Info())
    av = domain.av()
    ep.bind(av)
    assert av in ep._bound


def test_values_of_atomics_and_injected_writes_are_passed(
    kernel: FakeKernel, endpoint: kp.RdmEndpoint, buffer: kp.Buffer
) -> None:
    remote = kp.RemoteRegion(64, 8, 9)
    endpoint.compare_atomic(buffer[:8], buffer[8:16], buffer[16:24], remote)
    arg = last(kernel, "compare_atomic")
    assert (arg.op, arg.datatype) == (_uapi.KFAB_CSWAP, _uapi.KFAB_UINT64)
    assert (arg.iov_count, arg.compare_count, arg.result_count) == (1, 1, 1)
    endpoint.fetch_atomic((), buffer[:8], remote, Op.READ)
    arg = last(kernel, "fetch_atomic")
    assert (arg.op, arg.iov_count, arg.result_count) == (_uapi.KFAB_ATOMIC_READ, 0, 1)
    endpoint.inject_write(buffer[:8], remote, data=3)
    arg = last(kernel, "write")
    assert (arg.flags, arg.op_flags) == (_uapi.KFAB_POST_INJECT, _uapi.KFAB_REMOTE_CQ_DATA)
    assert (arg.data, arg.context, arg.rma_iov_count) == (3, 0, 1)
    endpoint.inject_atomic(buffer[:8], remote, Op.WRITE)
    arg = last(kernel, "atomic")
    assert (arg.flags, arg.op_flags, arg.context) == (_uapi.KFAB_POST_INJECT, 0, 0)


def test_atomic_that_is_not_there_has_no_elements(
    kernel: FakeKernel, endpoint: kp.RdmEndpoint
) -> None:
    kernel.fail["atomic_valid"] = errno.EOPNOTSUPP
    assert endpoint.atomic_valid(Op.PROD) == 0
    kernel.fail["atomic_valid"] = errno.ENODEV
    with pytest.raises(kp.DeviceLost):
        endpoint.atomic_valid(Op.SUM)


def test_eight_bytes_are_no_socket_address() -> None:
    """An address of another kind may begin like a sockaddr_in."""
    from kfabric_py.info import unpack_address

    raw = b"\2\0\0\0\1\0\0\0"
    assert unpack_address(raw) == raw


def test_text_is_passed_to_getinfo(kernel: FakeKernel, device: kp.Device) -> None:
    def serve(arg: Any) -> int:
        assert ctypes.string_at(arg.node) == b"rxe0"
        assert (arg.service, arg.getinfo_flags) == (0, _uapi.KFAB_SOURCE)
        arg.count = 0
        return 0

    kernel.getinfo = serve  # type: ignore[attr-defined]
    assert device.getinfo(node="rxe0", local=True) == []
