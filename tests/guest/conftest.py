# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Fixtures of the guest tests.

Tests here run in a disposable guest with the modules loaded; `pytest
--kfabric-vms 1 tests/guest` boots one. See docs/testing.md.
"""

from __future__ import annotations

import contextlib
import subprocess
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from guest_support import DEBUGFS, MOCK, Call, Child, Mock, Side, connected_sides, rdm_sides
from keeper_support import Keeper, open_keeper
from rdm_support import SOCKADDR, Links, RdmNet
from verbs_support import Net

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest import phases, topology

if TYPE_CHECKING:
    from failslab_support import Failslab
    from rdm_wire_link import Node

HERE = Path(__file__).parent
CALLS = pytest.StashKey[list[Call[Any]]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory needs a guest."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("guest")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Add to a failure what ended the threads of the test, a likely cause."""
    report: pytest.TestReport = yield
    for call in item.stash.get(CALLS, []) if report.failed else []:
        if error := call.unseen():
            text = "".join(traceback.format_exception(error)).rstrip()
            phases.add(report, "exception in a thread of the test", text)
    return report


@pytest.fixture
def modules() -> guest_modules.Modules:
    """The four modules, loaded.

    Scope: function, because a test may unload them. Loading what is loaded
    costs nothing.
    """
    ours = guest_modules.Modules.from_environment()
    if any(guest_modules.state(name) is None for name in guest_modules.OURS):
        ours.load()
    return ours


@pytest.fixture
def device(modules: guest_modules.Modules) -> Iterator[kp.Device]:
    """An open /dev/kfabric: a client of its own for each test. Depends on: modules."""
    with kp.Device() as device:
        yield device


@pytest.fixture
def mock(device: kp.Device) -> Iterator[Mock]:
    """The mock provider's domain and its commands. Depends on: device.

    What is opened through it is closed at the end of the test. Example:
    ``ep = mock.endpoint(cq=mock.cq()); mock.inject(ep)``.
    """
    if not MOCK.is_dir():
        subprocess.run(["mount", "-t", "debugfs", "none", DEBUGFS], check=True, timeout=10)
    info = device.getinfo(provider="mock")[0]
    with (
        device.fabric(info) as fabric,
        fabric.domain(info) as domain,
        contextlib.ExitStack() as stack,
    ):
        yield Mock(device, info, fabric, domain, stack)


@pytest.fixture(scope="session")
def verbs() -> Iterator[topology.RdmaLink]:
    """An rxe link on a dummy net device, made once for each guest."""
    guest_modules.need()
    with topology.rxe_on_dummy() as link:
        yield link


@pytest.fixture
def msg_pair(verbs: topology.RdmaLink, device: kp.Device) -> Iterator[tuple[Side, Side]]:
    """Two connected MSG endpoints on the rxe link. Depends on: verbs, device.

    Each side has a wait set with its CQ, its EQ and a counter of receives; sends
    ask for no completion (selective binding).
    """
    with contextlib.ExitStack() as stack:
        yield connected_sides(device, verbs.address, stack)


@pytest.fixture(params=["msg", "rdm"])
def connected_pair(
    request: pytest.FixtureRequest, verbs: topology.RdmaLink, device: kp.Device
) -> Iterator[tuple[Side, Side]]:
    """Like msg_pair with endpoints of either type: a test runs once with each.

    Those without a connection know each other: what one posts is for the other.
    """
    sides = connected_sides if request.param == "msg" else rdm_sides
    with contextlib.ExitStack() as stack:
        yield sides(device, verbs.address, stack)


@pytest.fixture
def net(verbs: topology.RdmaLink, device: kp.Device) -> Iterator[Net]:
    """A listener on the rxe link, and peers for it. Depends on: verbs, device.

    Unlike those of connected_pair, each peer's queues block by themselves.
    """
    with contextlib.ExitStack() as stack:
        yield Net(device, verbs, stack)


@pytest.fixture(scope="module")
def stranger(verbs: topology.RdmaLink) -> str:
    """An address of the link that no endpoint of the kernel has. Depends on: verbs."""
    return topology.further_address(verbs, 2)


@pytest.fixture
def node(verbs: topology.RdmaLink, stranger: str) -> Iterator[Node]:
    """A node without kfabric, at that address. Depends on: verbs, stranger."""
    # pyverbs is in guests only.
    from rdm_wire_link import opened

    with opened(verbs, stranger) as node:
        yield node


@pytest.fixture
def failslab(modules: guest_modules.Modules) -> Iterator[Failslab]:
    """The module that makes allocations fail, loaded. Depends on: modules."""
    # Imported late, since it takes time in a guest.
    from failslab_support import Failslab

    with Failslab.loaded(modules) as failslab:
        yield failslab


@pytest.fixture(scope="module")
def kbench() -> Iterator[Path]:
    """The file of the module that plays in the kernel, tests/kmod/kbench: write a game, read it."""
    ours = guest_modules.Modules.from_environment()
    ours.load()
    guest_modules.insert(ours.file("kfi_bench"))
    yield Path("/sys/kernel/debug/kfi_bench")
    guest_modules.remove("kfi_bench")


@pytest.fixture
def rdm(
    request: pytest.FixtureRequest, verbs: topology.RdmaLink, device: kp.Device
) -> Iterator[RdmNet]:
    """RDM endpoints on the rxe link. Depends on: verbs, device.

    A test that sets its parameter chooses the format of the addresses.
    """
    with contextlib.ExitStack() as stack:
        yield RdmNet(device, verbs, stack, format=getattr(request, "param", SOCKADDR))


@pytest.fixture(params=["msg", "rdm"])
def links(
    request: pytest.FixtureRequest, verbs: topology.RdmaLink, device: kp.Device
) -> Iterator[Links]:
    """The rxe link with endpoints of either type: a test runs once with each.

    ``links.connect()`` gives two that can talk. Depends on: verbs, device.
    """
    with contextlib.ExitStack() as stack:
        if request.param == "msg":
            yield Net(device, verbs, stack)
        else:
            yield RdmNet(device, verbs, stack)


@pytest.fixture(params=["softirq", "rdm"])
def keeper(request: pytest.FixtureRequest, verbs: topology.RdmaLink) -> Keeper:
    """An endpoint that keeps messages, of the mock provider or an RDM one.

    The link is asked for by name: it stays, so it has to be there before the test begins.

    A test runs once with each; a parameter names a context of the mock provider's
    commands, or "rdm". Depends on: mock, or rdm.
    """
    return open_keeper(request, request.param)


@pytest.fixture
def in_thread(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[Callable[[], Any]], Call[Any]]]:
    """Run calls in threads: ``in_thread(lambda: ws.wait(timeout=LIMIT)).asleep()``.

    At the end of the test every thread must have ended or be about to. If the test fails, the
    report has the exceptions of the threads.
    """
    calls: list[Call[Any]] = []
    request.node.stash[CALLS] = calls

    def start(function: Callable[[], Any]) -> Call[Any]:
        calls.append(Call(function))
        return calls[-1]

    yield start
    for call in calls:
        call.settle()
    # The calls refer to objects of the test.
    del request.node.stash[CALLS]


@pytest.fixture
def in_child() -> Iterator[Callable[..., Child]]:
    """Run functions in forked processes, which are killed at the end of the test."""
    children: list[Child] = []

    def start(function: Callable[[Callable[[str], None]], int]) -> Child:
        children.append(Child(function))
        return children[-1]

    yield start
    for child in children:
        child.end()
