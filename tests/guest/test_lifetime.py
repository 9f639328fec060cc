# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Who keeps whom, what a dying client leaves behind, and when a module may go."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uapi_support as raw
from guest_support import LIMIT, MOCK, Call, Child, Mock

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest import sleeping
from kfabric.guest.topology import RdmaLink
from kfabric.guest.waiting import Deadline, wait_until

pytestmark = pytest.mark.core

InThread = Callable[[Callable[[], Any]], Call[Any]]
InChild = Callable[..., Child]


def close(obj: Any) -> None:
    """Close the kernel object alone: the library would close its children first."""
    obj._close_self()
    obj._mark_closed()


def refuse_close(obj: Any) -> None:
    """The kernel refuses to close it."""
    with pytest.raises(kp.Busy):
        obj._client(raw.CALLS["CLOSE"][0], raw.sample("CLOSE", handle=obj._handle))


#: What each class keeps open: name → opens something that uses the parent.
FABRIC_CHILDREN: dict[str, Callable[[Mock], Any]] = {
    "domain": lambda mock: mock.fabric.domain(mock.info),
    "eq": lambda mock: mock.fabric.eq(),
    "wait": lambda mock: mock.fabric.wait_set(),
    "channel": lambda mock: mock.fabric.comp_channel(),
}
DOMAIN_CHILDREN: dict[str, Callable[[Mock], Any]] = {
    "cq": lambda mock: mock.domain.cq(16),
    "cntr": lambda mock: mock.domain.counter(),
    "poll": lambda mock: mock.domain.poll_set(),
    "ep": lambda mock: mock.domain.endpoint(mock.info),
    "mr": lambda mock: mock.domain.mr(
        mock.stack.enter_context(mock.device.buffer(4096)), access=kp.Access.SEND
    ),
}


@pytest.mark.parametrize("child", FABRIC_CHILDREN)
def test_fabric_stays_while_it_has_children(mock: Mock, child: str) -> None:
    """O1: EBUSY, and the fabric works as before."""
    mock.domain.close()
    opened = FABRIC_CHILDREN[child](mock)
    refuse_close(mock.fabric)
    mock.fabric.eq().close()
    opened.close()
    close(mock.fabric)


@pytest.mark.parametrize("child", DOMAIN_CHILDREN)
def test_domain_stays_while_it_has_children(mock: Mock, child: str) -> None:
    """O1: EBUSY, and the domain works as before."""
    opened = DOMAIN_CHILDREN[child](mock)
    refuse_close(mock.domain)
    mock.domain.cq(16).close()
    opened.close()
    close(mock.domain)


@pytest.mark.parametrize("kind", ["cq", "eq", "cntr"])
def test_wait_set_stays_while_it_has_members(mock: Mock, kind: str) -> None:
    """O1, V8: EBUSY; it goes once the last member has gone."""
    wait = mock.fabric.wait_set()
    members = {
        "cq": lambda: mock.domain.cq(16, wait_set=wait),
        "eq": lambda: mock.fabric.eq(wait_set=wait),
        "cntr": lambda: mock.domain.counter(wait_set=wait),
    }
    member = members[kind]()
    refuse_close(wait)
    with pytest.raises(kp.KfiTimeout):
        wait.wait(timeout=0)
    member.close()
    close(wait)


@pytest.mark.parametrize("kind", ["cq", "eq", "cntr"])
def test_poll_set_and_member_keep_each_other(mock: Mock, kind: str) -> None:
    """O1, V8: EBUSY for both until the member is removed."""
    poll = mock.domain.poll_set()
    opened = mock.cq() if kind == "cq" else mock.eq() if kind == "eq" else mock.counter()
    poll.add(opened)
    refuse_close(opened)
    refuse_close(poll)
    poll.remove(opened)
    close(opened)
    close(poll)


@pytest.mark.parametrize("kind", ["cq", "eq", "cntr"])
def test_what_an_endpoint_reports_to_stays(mock: Mock, kind: str) -> None:
    """O1, V8: EBUSY while bound; the endpoint goes first."""
    cq, eq, cntr = mock.domain.cq(16), mock.fabric.eq(), mock.domain.counter()
    ep = mock.endpoint(cq=cq, eq=eq, cntr=cntr)
    bound = {"cq": cq, "eq": eq, "cntr": cntr}
    refuse_close(bound[kind])
    ep.close()
    for obj in bound.values():
        close(obj)


@pytest.mark.parametrize("kind", ["wait", "cq", "eq", "cntr"])
def test_object_with_a_sleeper_stays(mock: Mock, in_thread: InThread, kind: str) -> None:
    """O1: EBUSY, the sleeper sleeps on and gets what it waits for."""
    cq = mock.cq(wait_obj=kp.WaitObj.QUEUE)
    eq = mock.eq(wait_obj=kp.WaitObj.QUEUE)
    cntr = mock.counter(wait_obj=kp.WaitObj.QUEUE)
    wait = mock.wait_set()
    member = mock.eq(wait_set=wait)
    ep = mock.endpoint(cq=cq, cntr=cntr)
    what: dict[str, tuple[Any, Callable[[], Any], Callable[[], Any]]] = {
        "wait": (wait, lambda: wait.wait(timeout=LIMIT), lambda: member.write(data=1)),
        "cq": (cq, lambda: cq.sread(1, timeout=LIMIT), lambda: mock.inject(ep)),
        "eq": (eq, lambda: eq.sread(timeout=LIMIT), lambda: eq.write(data=1)),
        "cntr": (cntr, lambda: cntr.wait(1, timeout=LIMIT), lambda: mock.inject(ep)),
    }
    obj, block, wake = what[kind]
    call = in_thread(block).asleep()
    switches = call.switches
    refuse_close(obj)
    assert not call.done and call.switches == switches
    wake()
    call.result()


def test_buffer_of_a_region_stays(mock: Mock) -> None:
    """O1: EBUSY until the region is closed."""
    buffer = mock.device.buffer(4096)
    region = mock.domain.mr(buffer, access=kp.Access.SEND)
    refuse_close(buffer)
    buffer.view[:3] = b"497"
    region.close()
    buffer.close()


def test_queue_of_a_passive_endpoint_may_go_first(verbs: RdmaLink, device: kp.Device) -> None:
    """O1: the exception: an EQ that is bound only to passive endpoints closes."""
    info = device.getinfo(provider="verbs", source=(verbs.address, 0))[0]
    with device.fabric(info) as fabric, fabric.passive_ep(info) as listener:
        eq = fabric.eq()
        listener.bind(eq)
        listener.listen()
        close(eq)


class Everything:
    """A client with an object of every class, some of it in use."""

    def __init__(self, address: str) -> None:
        """Open it all; nothing is ever closed by the program."""
        self.device = kp.Device()
        info = self.device.getinfo(provider="mock")[0]
        self.fabric = self.device.fabric(info)
        self.domain = self.fabric.domain(info)
        self.wait_set = self.fabric.wait_set(wait_obj=kp.WaitObj.QUEUE)
        self.cq = self.domain.cq(64, wait_set=self.wait_set)
        self.eq = self.fabric.eq(wait_set=self.wait_set)
        self.cntr = self.domain.counter(wait_set=self.wait_set)
        self.poll_set = self.domain.poll_set()
        for member in (self.cq, self.eq, self.cntr):
            self.poll_set.add(member)
        self.buffer = self.device.buffer(65536)
        self.mr = self.domain.mr(self.buffer, access=kp.Access.SEND)
        self.ep = self.domain.endpoint(info)
        self.ep.bind(self.cq, recv=True, transmit=True)
        self.ep.bind(self.cntr, recv=True)
        self.ep.bind(self.eq)
        self.ep.enable()
        self.ep.recv(self.buffer)
        self._listen(address)

    def _listen(self, address: str) -> None:
        """Have one connection request read and one unread."""
        offer = self.device.getinfo(provider="verbs", source=(address, 0))[0]
        self.rdma = self.device.fabric(offer)
        self.requests = self.rdma.eq()
        self.listener = self.rdma.passive_ep(offer)
        self.listener.bind(self.requests)
        self.listener.listen()
        name = self.listener.getname()
        assert isinstance(name, tuple)
        dest = self.device.getinfo(provider="verbs", dest=(address, name[1]))[0]
        self.rdma_domain = self.rdma.domain(dest)
        self.active = [self._connect(dest) for _ in range(2)]
        self.request = self.requests.sread(timeout=LIMIT)
        assert self.requests.sread(timeout=LIMIT, peek=True) is not None

    def _connect(self, dest: kp.Info) -> tuple[kp.Endpoint, kp.CompletionQueue, kp.EventQueue]:
        cq, eq = self.rdma_domain.cq(16), self.rdma.eq()
        ep = self.rdma_domain.endpoint(dest)
        ep.bind(cq, recv=True, transmit=True)
        ep.bind(eq)
        ep.enable()
        ep.connect()
        return ep, cq, eq


def objects_left() -> list[str]:
    """What the mock provider still has open."""
    words = ("domain", "eq", "ep", "mr")
    return [line for line in (MOCK / "state").read_text().splitlines() if line.startswith(words)]


@pytest.fixture
def nothing_left(modules: guest_modules.Modules) -> Iterator[None]:
    """What a test's processes had is gone at its end. Depends on: modules."""
    before = {name: guest_modules.references(name) for name in guest_modules.OURS}
    yield
    for name, count in before.items():
        guest_modules.wait_for_references(name, count, Deadline(LIMIT))
    assert objects_left() == []


@pytest.mark.parametrize("how", ["exit", "sigkill", "close"])
def test_dead_client_leaves_nothing(
    nothing_left: None, verbs: RdmaLink, in_child: InChild, how: str
) -> None:
    """O4: everything open, in every state, and the process ends: all is gone."""

    def work(report: Callable[[str], None]) -> int:
        everything = Everything(verbs.address)
        report("open")
        if how == "close":
            os.close(everything.device.fileno())
            everything.buffer._view.release()
            everything.buffer._map.close()
        if how == "sigkill":
            signal.pause()
        return 0

    child = in_child(work)
    assert child.report() == "open"
    if how == "sigkill":
        child.kill(signal.SIGKILL)
    assert child.wait() == (-signal.SIGKILL if how == "sigkill" else 0)


def test_killed_sleepers_leave_nothing(
    nothing_left: None, verbs: RdmaLink, in_child: InChild
) -> None:
    """O4, W5: SIGKILL while threads sleep in every kind of blocking call."""

    def work(report: Callable[[str], None]) -> int:
        everything = Everything(verbs.address)
        eq = everything.fabric.eq(wait_obj=kp.WaitObj.QUEUE)
        cq = everything.domain.cq(16, wait_obj=kp.WaitObj.QUEUE)
        cntr = everything.domain.counter(wait_obj=kp.WaitObj.QUEUE)
        calls: list[Callable[[], Any]] = [
            everything.wait_set.wait,
            eq.sread,
            lambda: cq.sread(1),
            lambda: cntr.wait(1),
        ]
        threads = [threading.Thread(target=call, daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            sleeping.wait_until_asleep(thread.native_id or 0, deadline=LIMIT)
        report("asleep")
        signal.pause()
        return 0

    child = in_child(work)
    assert child.report() == "asleep"
    child.kill(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


@pytest.mark.races
def test_client_killed_at_any_moment_leaves_nothing(
    nothing_left: None, verbs: RdmaLink, in_child: InChild
) -> None:
    """O4: SIGKILL in the middle of opening, posting and closing, again and again."""

    def work(report: Callable[[str], None]) -> int:
        report("go")
        while True:
            everything = Everything(verbs.address)
            everything.device.close()

    for _ in range(7):
        child = in_child(work)
        assert child.report() == "go"
        seen = guest_modules.references("kfi_mock")
        with contextlib.suppress(TimeoutError):
            wait_until(
                lambda seen=seen: guest_modules.references("kfi_mock") != seen,  # type: ignore[misc]
                "the child at work",
                Deadline(2),
            )
        child.kill(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL


def test_forked_child_keeps_the_client(nothing_left: None, mock: Mock, in_child: InChild) -> None:
    """O4: a copy of the descriptor is a reference; the last one to go takes all with it."""
    go_r, go_w = os.pipe()
    device = kp.Device()
    info = device.getinfo(provider="mock")[0]
    device.fabric(info)._closed = True
    before = guest_modules.references("kfi_mock")

    def hold(report: Callable[[str], None]) -> int:
        report("have it")
        os.read(go_r, 1)
        return 0

    child = in_child(hold)
    assert child.report() == "have it"
    os.close(device._client.fd)
    device._closed = True
    assert guest_modules.references("kfi_mock") == before
    os.write(go_w, b"x")
    assert child.wait() == 0
    guest_modules.wait_for_references("kfi_mock", before - 1, Deadline(LIMIT))
    os.close(go_r)
    os.close(go_w)


def test_mapping_keeps_the_client(nothing_left: None, mock: Mock) -> None:
    """O4: descriptors closed, buffer still mapped: the objects live until it is unmapped."""
    device = kp.Device()
    info = device.getinfo(provider="mock")[0]
    device.fabric(info)._closed = True
    before = guest_modules.references("kfi_mock")
    arg = raw.sample("BUF_ALLOC", length=raw.PAGE)
    assert raw.call(device.fileno(), "BUF_ALLOC", arg) == 0
    address = raw.map_shared(device.fileno(), raw.PAGE, arg.out_offset)
    os.close(device._client.fd)
    device._closed = True
    assert guest_modules.references("kfi_mock") == before
    raw.unmap(address, raw.PAGE)
    guest_modules.wait_for_references("kfi_mock", before - 1, Deadline(LIMIT))


def test_close_of_the_descriptor_wakes_nobody(
    nothing_left: None, in_thread: InThread, modules: guest_modules.Modules
) -> None:
    """O4: a thread asleep in a call keeps the client, and gets its event from elsewhere."""
    device = kp.Device()
    info = device.getinfo(provider="mock")[0]
    fabric = device.fabric(info)
    domain = fabric.domain(info)
    wait = fabric.wait_set()
    cntr = domain.counter(wait_set=wait)
    cq = domain.cq(16)
    ep = domain.endpoint(info)
    ep.bind(cq, recv=True, transmit=True)
    ep.bind(cntr, recv=True)
    ep.enable()
    call = in_thread(lambda: wait.wait(timeout=LIMIT)).asleep()
    switches = call.switches
    os.close(device._client.fd)
    assert not call.done and call.switches == switches
    (MOCK / "command").write_text(f"inject {ep.trace_id} recv")
    call.result()
    for obj in (ep, cq, cntr, wait, domain, fabric, device):
        obj._closed = True


@pytest.mark.parametrize("name", ["kfabric_dev", "kfi_mock", "kfabric"])
def test_module_stays_while_a_client_sleeps(
    modules: guest_modules.Modules, in_child: InChild, name: str
) -> None:
    """O6: refused ("in use") while a client sleeps in kfi_wait, until that client is gone."""

    def work(report: Callable[[str], None]) -> int:
        device = kp.Device()
        info = device.getinfo(provider="mock")[0]
        fabric = device.fabric(info)
        wait = fabric.wait_set()
        thread = threading.Thread(target=wait.wait, daemon=True)
        thread.start()
        sleeping.wait_until_asleep(thread.native_id or 0, deadline=LIMIT)
        report("asleep")
        signal.pause()
        return 0

    child = in_child(work)
    assert child.report() == "asleep"
    with pytest.raises(guest_modules.ModuleInUse):
        guest_modules.remove(name)
    child.kill(signal.SIGKILL)
    child.wait()


def test_modules_go_after_a_killed_client(
    modules: guest_modules.Modules, verbs: RdmaLink, in_child: InChild
) -> None:
    """O4, O6: after SIGKILL in the middle of things all four modules can be unloaded."""

    def work(report: Callable[[str], None]) -> int:
        everything = Everything(verbs.address)
        report("open")
        signal.pause()
        return everything.device.version().objects

    child = in_child(work)
    assert child.report() == "open"
    child.kill(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    modules.unload()
    modules.load()
