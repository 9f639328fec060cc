# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Fixtures of the tests that need two guests on one wire."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from kfabric.runner.nodes import Node, Wire
from tests.wire.wire_support import Pair, state


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of both guests to the report of a failure."""
    report = yield
    wire = item.funcargs.get("wire")
    if report.failed and isinstance(wire, Wire):
        report.sections += [(f"state of {n.vm.spec.name}", state(n)) for n in wire.condemn()]
    return report


@pytest.fixture(scope="session")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """Two guests for all tests, and new ones if a test has failed or has harmed them."""
    wire = Wire(tmp_path_factory.mktemp("wire"))
    try:
        yield wire
    finally:
        wire.close()


@pytest.fixture
def two_nodes(wire: Wire) -> Iterator[tuple[Node, Node]]:
    """Two guests on one wire, as if just booted. Depends on: wire.

    A test that leaves modules, objects or links behind, or makes a kernel complain,
    fails.
    """
    yield wire.lend()
    if left := wire.take_back():
        pytest.fail("\n".join(left), pytrace=False)


@pytest.fixture(params=["msg", "rdm"])
def pair(request: pytest.FixtureRequest, two_nodes: tuple[Node, Node]) -> Iterator[Pair]:
    """A station in each of two guests, with endpoints of either type. Depends on: two_nodes.

    Those that are still there behind the test leave: they unload their modules.
    """
    pair = Pair(two_nodes, request.param)
    yield pair
    pair.leave()
