# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The objects over a fake of the kernel: contexts, results, lifetime, deadlines.

What the kernel promises is tested in a guest; here it is what the library makes
of it.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import mmap
import os
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from fake_kernel import FakeKernel

import kfabric_py as kp
from kfabric_py import _uapi
from kfabric_py.handle import KernelObject


class FakeBuffer(kp.Buffer):
    """A buffer whose memory nobody maps."""

    def __init__(self, device: kp.Device) -> None:
        super(kp.Buffer, self).__init__(device, device._client, 999)
        self._length = 64
        self._view = memoryview(bytearray(64))

    def _close_self(self) -> None:
        self._view.release()


@pytest.fixture
def buffer(device: kp.Device) -> kp.Buffer:
    return FakeBuffer(device)


@pytest.fixture
def endpoint(domain: kp.Domain) -> tuple[kp.Endpoint, kp.CompletionQueue]:
    cq = domain.cq()
    ep = domain.endpoint(kp.Info())
    ep.bind(cq, transmit=True, recv=True)
    return ep, cq


Pair = tuple[kp.Endpoint, kp.CompletionQueue]


def test_missing_device_says_which(tmp_path: Any) -> None:
    with pytest.raises(kp.KfiError, match=r"open .*absent: ENOENT") as caught:
        kp.Device(str(tmp_path / "absent"))
    assert caught.value.errno == errno.ENOENT


def test_device_closes_everything_in_an_order_that_works(
    kernel: FakeKernel, device: kp.Device, fabric: kp.Fabric, domain: kp.Domain
) -> None:
    """O1: nothing is closed while something else uses it, whatever was opened last."""
    ep = domain.endpoint(kp.Info())
    wait_set = fabric.wait_set()
    cq = domain.cq(wait_set=wait_set)
    poll_set = domain.poll_set()
    poll_set.add(cq)
    ep.bind(cq, recv=True)
    device.close()
    assert kernel.parents == {}
    closed = kernel.closed
    for user, used in ((ep, cq), (poll_set, cq), (cq, wait_set), (domain, fabric)):
        assert closed.index(user._handle) < closed.index(used._handle)


def test_busy_object_stays_usable(kernel: FakeKernel, endpoint: Pair) -> None:
    """O1: a close that fails with EBUSY changes nothing."""
    ep, cq = endpoint
    with pytest.raises(kp.Busy):
        cq.close()
    assert not cq.closed
    assert cq.read() == []
    ep.close()
    cq.close()
    assert cq.closed


def used(domain: kp.Domain, buffer: kp.Buffer, kind: str) -> tuple[Any, list[Any]]:
    """Open an object, and objects that use it."""
    assert isinstance(domain._parent, kp.Fabric)
    fabric = domain._parent
    match kind:
        case "wait set":
            wait_set = fabric.wait_set()
            opens = (domain.cq, fabric.eq, domain.counter)
            return wait_set, [member(wait_set=wait_set) for member in opens]
        case "channel":
            channel = fabric.comp_channel()
            return channel, [domain.cq(channel=channel)]
        case "queue":
            cq, ep, poll_set = domain.cq(), domain.endpoint(kp.Info()), domain.poll_set()
            ep.bind(cq, recv=True)
            poll_set.add(cq)
            return cq, [ep, poll_set]
        case "vector":
            av, sep = domain.av(), domain.scalable_endpoint(kp.Info())
            sep.bind(av)
            return av, [sep]
        case "endpoint":
            rdm, region = domain.rdm_endpoint(kp.Info()), domain.mr(buffer, kp.Access.SEND)
            region.bind(rdm)
            return rdm, [region]
    return buffer, [domain.mr(buffer, kp.Access.SEND)]


def test_refused_close_shows_the_error_that_came_before(
    kernel: FakeKernel, fabric: kp.Fabric
) -> None:
    """What has ended a with block is often why the object is still in use."""
    with pytest.raises(kp.Busy) as caught, fabric.wait_set():
        kernel.fail["close"] = errno.EBUSY
        raise ValueError("the first")
    error = caught.value
    assert str(error.__context__) == "the first" and not error.__suppress_context__
    kernel.fail.clear()


@pytest.mark.parametrize("kind", ["wait set", "channel", "queue", "vector", "endpoint", "buffer"])
def test_refused_close_names_the_users(
    kernel: FakeKernel, domain: kp.Domain, buffer: kp.Buffer, kind: str
) -> None:
    """O1: the objects of this process that use it, and nothing that was closed."""
    obj, users = used(domain, buffer, kind)
    kernel.kept += [obj, *users]
    domain.cq().close()
    kernel.fail["close"] = errno.EBUSY
    with pytest.raises(kp.Busy) as caught:
        KernelObject._close_self(obj)
    names = ", ".join(map(repr, users))
    assert (
        caught.value.strerror
        == f"CLOSE: EBUSY: {os.strerror(errno.EBUSY)}; {obj!r} is used by {names}"
    )
    kernel.fail.clear()


def test_refused_close_names_a_child_that_another_thread_opens(
    kernel: FakeKernel, domain: kp.Domain
) -> None:
    """O1: a domain is used by any object in it."""
    children: list[object] = []

    def close(arg: Any) -> None:
        children.append(domain.cq())
        raise OSError(errno.EBUSY, "busy")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "close", close)
        with pytest.raises(kp.Busy) as caught:
            domain.close()
    assert str(caught.value).endswith(f"{domain!r} is used by {children[0]!r}")


def test_refused_close_names_a_few_of_many_users(domain: kp.Domain, fabric: kp.Fabric) -> None:
    """The others are counted."""
    wait_set = fabric.wait_set()
    members = [domain.cq(wait_set=wait_set) for _ in range(6)]
    with pytest.raises(kp.Busy) as caught:
        wait_set.close()
    assert str(caught.value).endswith(f", {members[3]!r}, 2 more")


def test_refused_close_claims_no_user_that_is_not_known(
    kernel: FakeKernel, domain: kp.Domain
) -> None:
    """A thread asleep in a call, or another process, may be the user."""
    cq = domain.cq()
    kernel.users[cq._handle].add(497)
    with pytest.raises(kp.Busy) as caught:
        cq.close()
    assert str(caught.value).endswith(f"; {cq!r} is in use")
    kernel.users[cq._handle].clear()


@pytest.mark.parametrize(
    "use",
    [
        lambda cq: cq.read(),
        lambda cq: cq.sread(timeout=0),
        lambda cq: cq.readerr(),
        lambda cq: cq.signal(),
        lambda cq: cq.wait_obj(),
        lambda cq: cq.__enter__(),
    ],
)
def test_closed_object_refuses_without_a_call(
    kernel: FakeKernel, domain: kp.Domain, use: Callable[[kp.CompletionQueue], object]
) -> None:
    """O3: a handle is never used after its close."""
    cq = domain.cq()
    cq.close()
    before = len(kernel.calls)
    with pytest.raises(kp.ClosedError, match="CompletionQueue is closed"):
        use(cq)
    assert len(kernel.calls) == before


def test_forked_child_closes_nothing(kernel: FakeKernel, device: kp.Device) -> None:
    """The objects of a process are not its child's to close."""
    fabric = device.fabric(kp.Info())
    fabric._client.pid = os.getppid()
    before = len(kernel.calls)
    fabric.__del__()
    assert len(kernel.calls) == before
    fabric._client.pid = os.getpid()


def test_operation_context_comes_back_once_and_is_freed(
    kernel: FakeKernel, endpoint: Pair, buffer: kp.Buffer
) -> None:
    ep, cq = endpoint

    class Thing:
        pass

    thing = Thing()
    alive = weakref.ref(thing)
    ep.recv(buffer, context=thing)
    del thing
    (posted,) = kernel.posted
    assert alive() is not None, "nobody else keeps it"
    kernel.queues[cq._handle].append((posted[1], _uapi.KFAB_MSG | _uapi.KFAB_RECV))
    (entry,) = cq.read()
    assert entry.context is alive()
    assert entry.flags == kp.CqFlags.MSG | kp.CqFlags.RECV
    assert entry.len == 5
    del entry
    gc.collect()
    assert alive() is None
    assert len(cq._pending) == 0


def test_no_context_is_none_and_costs_nothing(
    kernel: FakeKernel, endpoint: Pair, buffer: kp.Buffer
) -> None:
    ep, cq = endpoint
    ep.recv(buffer)
    assert kernel.posted[0][1] == 0
    assert len(cq._pending) == 0
    kernel.queues[cq._handle].append((0, 0))
    assert cq.read()[0].context is None


def test_context_of_a_refused_post_is_freed(
    kernel: FakeKernel, endpoint: Pair, buffer: kp.Buffer
) -> None:
    ep, cq = endpoint
    kernel.fail["send"] = errno.EAGAIN
    with pytest.raises(kp.Again):
        ep.send(buffer, context="lost")
    assert len(cq._pending) == 0


def test_many_messages_are_posted_in_one_call(
    kernel: FakeKernel, endpoint: Pair, buffer: kp.Buffer
) -> None:
    ep, cq = endpoint
    before = len(kernel.calls)
    assert ep.recv_many([buffer[:8], buffer[8:16], buffer], contexts=["a", None, "c"]) == 3
    assert ep.send_many(buffer[at : at + 8] for at in (0, 8)) == 2
    assert [name for name, _ in kernel.calls[before:]] == ["batch", "batch"]
    cookies = [context for _, context, _ in kernel.posted]
    assert [bool(cookie) for cookie in cookies] == [True, False, True, False, False]
    kernel.queues[cq._handle] += [(cookie, 0) for cookie in cookies]
    assert [entry.context for entry in cq.read()] == ["a", None, "c", None, None]
    assert len(cq._pending) == 0


def test_posts_end_at_the_first_that_is_refused(
    kernel: FakeKernel, endpoint: Pair, buffer: kp.Buffer
) -> None:
    """V6: the number that were posted is returned, the others keep no context."""
    ep, cq = endpoint
    kernel.most_posts = 2
    assert ep.send_many([buffer] * 5, contexts="abcde") == 2
    assert len(cq._pending) == 2
    with pytest.raises(kp.Again):
        ep.send_many([buffer], contexts="f")
    assert len(cq._pending) == 2
    with pytest.raises(ValueError, match="2 contexts for 1 messages"):
        ep.send_many([buffer], contexts="gh")
    kernel.fail["batch"] = errno.ENOMEM
    with pytest.raises(kp.KfiError):
        ep.recv_many([buffer], contexts="i")
    assert len(cq._pending) == 2
    assert ep.send_many([]) == 0


def test_more_messages_than_a_batch_has_are_posted_in_several(
    kernel: FakeKernel, endpoint: Pair, buffer: kp.Buffer
) -> None:
    ep, _ = endpoint
    piece, many = buffer[:8], _uapi.KFAB_BATCH_MAX + 1
    assert ep.send_many([piece] * many) == many
    kernel.most_posts = 2 * many - 1
    assert ep.send_many([piece] * many) == many - 1
    counts = [arg.post_count for name, arg in kernel.calls if name == "batch"]
    assert counts == [many - 1, 1] * 2


@pytest.mark.parametrize("memory", [bytearray(160), memoryview(bytearray(160)).cast("Q")])
def test_entries_are_read_into_memory_of_the_caller(
    kernel: FakeKernel, endpoint: Pair, buffer: kp.Buffer, memory: bytearray | memoryview
) -> None:
    ep, cq = endpoint
    ep.recv_many([buffer] * 3, contexts=["a", "b", "c"])
    kernel.queues[cq._handle] += [(context, 7) for _, context, _ in kernel.posted]
    assert cq.read_into(memory) == 2
    entries = [_uapi.kfab_cq_entry.from_buffer_copy(memory, at) for at in (0, 64)]
    assert [entry.flags for entry in entries] == [7, 7]
    assert [cq.take_context(entry.context) for entry in entries] == ["a", "b"]
    assert cq.take_context(0) is None
    assert cq.read_into(memory) == 1
    assert cq.read_into(memory) == 0
    assert len(cq._pending) == 1


def test_memory_for_entries_is_checked(kernel: FakeKernel, domain: kp.Domain) -> None:
    cq = domain.cq()
    with pytest.raises(ValueError, match="64 bytes, and the memory only 63"):
        cq.read_into(bytearray(63))
    with pytest.raises(TypeError):
        cq.read_into(bytes(64))
    kernel.fail["cq_read"] = _uapi.KFAB_EAVAIL
    with pytest.raises(kp.ErrorAvailable):
        cq.read_into(bytearray(64))


def test_multi_receive_keeps_its_context_until_the_last_message(
    kernel: FakeKernel, endpoint: Pair, buffer: kp.Buffer
) -> None:
    ep, cq = endpoint
    ep.recv(buffer, context="many", flags=kp.OpFlags.MULTI_RECV)
    cookie = kernel.posted[0][1]
    kernel.queues[cq._handle] += [(cookie, 0), (cookie, _uapi.KFAB_MULTI_RECV)]
    assert [entry.context for entry in cq.read()] == ["many", "many"]
    assert len(cq._pending) == 0


def test_contexts_of_a_closed_endpoint_go_when_its_queue_is_empty(
    kernel: FakeKernel, endpoint: Pair, buffer: kp.Buffer
) -> None:
    """Receives that were never used must not stay in a queue that lives on."""
    ep, cq = endpoint
    ep.recv(buffer, context="done")
    ep.recv(buffer, context="never")
    kernel.queues[cq._handle].append((kernel.posted[0][1], 0))
    ep.close()
    assert [entry.context for entry in cq.read(1)] == ["done"]
    assert len(cq._pending) == 1
    assert cq.read() == []
    assert len(cq._pending) == 0


def test_refused_post_keeps_no_context(endpoint: Pair, buffer: kp.Buffer) -> None:
    """B50: a thread that goes on posting after another one has closed the endpoint."""
    ep, cq = endpoint
    ep.close()
    with pytest.raises(kp.ClosedError):
        ep.send(buffer, context="never")
    assert len(cq._pending) == 0


def test_close_that_is_refused_leaves_the_queue_as_it_was(
    kernel: FakeKernel, endpoint: Pair
) -> None:
    """E3, O1: a later close waits for the acks that an abandoned one would not have."""
    _, cq = endpoint
    cq._abandon()
    with pytest.raises(kp.Busy):
        cq.close()
    kernel.users[cq._handle].clear()
    cq.close()
    flags = [arg.flags for name, arg in kernel.calls if name == "close"]
    assert flags == [_uapi.KFAB_CLOSE_DISCARD_EVENTS, 0]


def test_iterating_a_queue_yields_all_that_is_there(kernel: FakeKernel, domain: kp.Domain) -> None:
    cq = domain.cq()
    kernel.queues[cq._handle] += [(0, 0)] * 40
    assert len(list(cq)) == 40


def test_poll_gives_contexts_and_the_object_where_none_was_given(domain: kp.Domain) -> None:
    poll_set = domain.poll_set()
    context = object()
    named, plain = domain.cq(context=context), domain.counter()
    poll_set.add(named)
    poll_set.add(plain)
    assert poll_set.poll() == [context, plain]
    assert poll_set.poll(1) == [context]
    assert len(poll_set) == 2 and named in poll_set


def test_objects_do_not_keep_themselves_alive(kernel: FakeKernel, domain: kp.Domain) -> None:
    cq = domain.cq(context="context")
    with pytest.warns(ResourceWarning, match=r"unclosed <CompletionQueue id=\d+>"):
        del cq
        gc.collect()
    assert len(kernel.closed) == 1


def test_bound_queue_outlives_its_last_name(kernel: FakeKernel, endpoint: Pair) -> None:
    """V8: what is bound is kept, also against the garbage collector."""
    ep, cq = endpoint
    alive = weakref.ref(cq)
    del cq, endpoint
    gc.collect()
    # The fixture's own reference is gone with its tuple only at the end of the
    # test, so what counts is that the endpoint has one, too.
    assert alive() in ep._bound


@pytest.mark.parametrize("call", ["wait", "cq_sread", "eq_sread", "cntr_wait"])
@pytest.mark.parametrize(
    ("timeout", "deadline"), [(None, _uapi.KFAB_DEADLINE_NONE), (0, _uapi.KFAB_DEADLINE_NOW)]
)
def test_blocking_calls_pass_their_deadline(
    kernel: FakeKernel,
    domain: kp.Domain,
    fabric: kp.Fabric,
    call: str,
    timeout: float | None,
    deadline: int,
) -> None:
    """W4, W5: the library computes one absolute deadline and hands it on."""
    with fabric.wait_set() as ws, domain.cq() as cq, fabric.eq() as eq, domain.counter() as cntr:
        waits: dict[str, Callable[[], object]] = {
            "wait": lambda: ws.wait(timeout=timeout),
            "cq_sread": lambda: cq.sread(timeout=timeout),
            "eq_sread": lambda: eq.sread(timeout=timeout),
            "cntr_wait": lambda: cntr.wait(1, timeout=timeout),
        }
        waits[call]()
        name, arg = kernel.calls[-1]
        assert (name, arg.deadline) == (call, deadline)


@pytest.mark.parametrize("read", ["read", "sread"])
def test_errors_of_reads_are_exceptions(kernel: FakeKernel, domain: kp.Domain, read: str) -> None:
    cq = domain.cq()
    own = kp.KfabricErrno
    for number, kind in (
        (own.KFI_EAVAIL, kp.ErrorAvailable),
        (own.KFI_EOVERRUN, kp.Overrun),
        (errno.ENODEV, kp.DeviceLost),
    ):
        kernel.fail[f"cq_{read}"] = number
        with pytest.raises(kind):
            getattr(cq, read)()


def test_segments_are_cut_like_sequences(buffer: kp.Buffer) -> None:
    piece = buffer[10:30]
    assert (piece.offset, piece.length) == (10, 20)
    assert (piece[5:].offset, len(piece[5:])) == (15, 15)
    assert len(buffer[60:100]) == 4
    assert len(buffer[9:3]) == 0
    piece.view[:3] = b"abc"
    assert bytes(buffer[10:13]) == b"abc"
    with pytest.raises(ValueError, match="consecutive"):
        buffer[::2]


def test_closing_a_buffer_leaves_its_views_valid(kernel: FakeKernel, device: kp.Device) -> None:
    """Whoever holds a view, or something made of one, never sees memory go away."""

    class AnonymousBuffer(FakeBuffer):
        def __init__(self, device: kp.Device) -> None:
            super().__init__(device)
            self._map = mmap.mmap(-1, 4096)
            self._view = memoryview(self._map)

        _close_self = kp.Buffer._close_self

    kernel.parents[999] = 0
    kernel.users[999] = set()
    buffer = AnonymousBuffer(device)
    view = buffer[:8].view
    number = (ctypes.c_uint64 * 1).from_buffer(buffer.view)
    buffer.close()
    view[0] = 77
    assert number[0] == 77
    with pytest.raises(kp.ClosedError):
        _ = buffer.view


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.counter().wait(2**64, timeout=0),
        lambda d: d.counter().add(-1),
        lambda d: d.counter().set(2**64),
        lambda d: d.cq().sread(1, threshold=2**64, timeout=0),
        lambda d: d.cq(-1),
        lambda d: d.endpoint(kp.Info(tx_attr=kp.TxAttr(size=2**64))),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_numbers_that_do_not_fit_are_refused(
    kernel: FakeKernel, domain: kp.Domain, call: Callable[[kp.Domain], object]
) -> None:
    """B36: nothing is cut off in silence on the way to the kernel."""
    with pytest.raises(OverflowError):
        call(domain)


def test_remote_region_survives_the_wire() -> None:
    region = kp.RemoteRegion(2**63, 4096, 77)
    assert kp.RemoteRegion.from_bytes(region.to_bytes() + b"padding") == region
    with pytest.raises(ValueError, match="24"):
        kp.RemoteRegion.from_bytes(b"short")
