# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The distribution of tests to guests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer

from kfabric.runner.schedule import Together


class Node:
    """A guest that records its tests."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.sent: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


Deal = tuple[Together, list[Any]]


def dealt(*names: str, nodes: int = 2) -> Deal:
    """A scheduler that has sent each guest its first two tests."""
    options = SimpleNamespace(maxschedchunk=1, tx=["popen"] * nodes)
    config: Any = SimpleNamespace(
        option=options, getoption=vars(options).get, getvalue=vars(options).get
    )
    log = Producer("test", enabled=False)
    scheduler = Together(config, log)
    guests: list[Any] = [Node(f"gw{number}") for number in range(nodes)]
    for guest in guests:
        scheduler.add_node(guest)
        scheduler.add_node_collection(guest, list(names))
    scheduler.schedule()
    return scheduler, guests


def finish(scheduler: Together, guest: Any) -> int:
    """A guest ends its current test."""
    done: int = scheduler.node2pending[guest][0]
    scheduler.mark_test_complete(guest, done)
    return done


GALLERY = [f"tests/guest/test_gallery.py::test_{n}" for n in range(6)]
OTHERS = [f"tests/guest/test_cq.py::test_{n}" for n in range(6)]


def test_file_stays_with_the_guest_that_has_begun_it() -> None:
    """While the other guest has other tests."""
    scheduler, (one, two) = dealt(*GALLERY, *OTHERS)
    while len(two.sent) < len(OTHERS):
        finish(scheduler, one)
        finish(scheduler, two)
    assert set(one.sent) <= set(range(6))
    assert set(two.sent) == set(range(6, 12))


def test_guest_without_anything_else_helps() -> None:
    """A second start is better than an idle guest."""
    _, (one, two) = dealt(*GALLERY)
    assert one.sent == [0, 1]
    assert two.sent == [2, 3]


def test_file_of_a_guest_that_died_goes_to_another() -> None:
    """With all of its remaining tests, except the one that crashed it."""
    scheduler, (one, two) = dealt(*GALLERY, *OTHERS)
    assert scheduler.remove_node(one) == GALLERY[0]
    while not two.shutting_down:
        finish(scheduler, two)
    assert sorted(two.sent) == list(range(1, 12))


def test_guest_that_replaces_one_that_died_gets_two_tests() -> None:
    """With one it would wait for a second, which is sent only after the first has ended."""
    scheduler, (one,) = dealt(*OTHERS[:4], nodes=1)
    finish(scheduler, one)
    assert scheduler.remove_node(one) == OTHERS[1]
    next_one: Any = Node("gw1")
    scheduler.add_node(next_one)
    scheduler.add_node_collection(next_one, OTHERS[:4])
    scheduler.schedule()
    assert next_one.sent == [3, 2]


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_every_test_is_sent_once(nodes: int) -> None:
    """To another guest."""
    scheduler, guests = dealt(*OTHERS, *GALLERY, nodes=nodes)
    while not all(guest.shutting_down for guest in guests):
        for guest in guests:
            if scheduler.node2pending[guest]:
                finish(scheduler, guest)
    sent = [index for guest in guests for index in guest.sent]
    assert sorted(sent) == list(range(12))


def test_guest_with_one_test_of_its_own_gets_another() -> None:
    """The rest of the file is for a live guest, which is better than waiting."""
    scheduler, (_, two) = dealt(*GALLERY, OTHERS[0])
    while len(scheduler.node2pending[two]) == 2 and scheduler.pending:
        finish(scheduler, two)
    assert len(scheduler.node2pending[two]) == 2


def test_guest_that_was_ended_before_it_was_added_gets_no_tests() -> None:
    """It came when nothing seemed to be left, and has collected when the run goes on."""
    scheduler, (first, second) = dealt(*OTHERS)
    late: Any = Node("gw2")
    scheduler.add_node_collection(late, OTHERS)
    scheduler.schedule()
    assert late.sent == [] and {first, second} == set(scheduler.nodes)


@pytest.mark.parametrize("retired", [False, True])
def test_tests_of_a_guest_that_ends_as_they_are_sent_go_to_another(retired: bool) -> None:
    """Its end is known only after that; no test is lost, and none counts as crashed."""
    scheduler, (first, second) = dealt(*OTHERS)

    def gone(_: list[int]) -> None:
        raise OSError("cannot send (already closed?)")

    first.send_runtest_some = gone
    finish(scheduler, first)
    current = scheduler.node2pending[first][0]
    if retired:
        scheduler.retire(first)
        assert scheduler.remove_node(first) is None
    else:
        assert scheduler.remove_node(first) == OTHERS[current]
    while scheduler.node2pending[second]:
        finish(scheduler, second)
    lost = set() if retired else {current}
    assert {*first.sent[:1], *second.sent, *lost} == set(range(len(OTHERS)))
