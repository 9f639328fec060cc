# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The shapes in which threads, sets and sources can wake each other: one table.

Known from the wake-up tests of epoll, and numbered as there. What is a source there is a
CQ here (level: reported while it holds something) or a counter (edge: a change is
reported once to each poll set); a set is a wait set with a poll set of the same members;
a set inside a set is the wait set's descriptor in an epoll of the user::

    ew  a thread in kfi_wait() (of an outer set: epoll_wait(2)), then kfi_poll()
    p   the same through poll(2) on the set's descriptor
    lt, et  how the descriptor is in the epoll: level- or edge-triggered

    ew   p     threads            ew   p
     \\  /                          \\  /
     set        or               epoll (lt or et)
    /   \\                        /      \\
  CQ     CQ   sources           set      set
                                 |        |
                                 CQ       CQ
"""

from __future__ import annotations

import contextlib
import select
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from descriptor_support import POLLING, readable
from guest_support import LIMIT, PATIENCE, Call, Child, Mock

import kfabric_py as kp
from kfabric.guest import sleeping
from kfabric.guest.waiting import wait_until

InThread = Callable[[Callable[[], object]], Call[object]]
InChild = Callable[[Callable[[Callable[[str], None]], int]], Child]


@dataclass
class Source:
    """A CQ or a counter, and what makes it ready."""

    mock: Mock
    obj: kp.CompletionQueue | kp.Counter
    ep: kp.Endpoint

    def fire(self) -> None:
        """One event: an entry in the CQ, or a change of the counter."""
        self.mock.inject(self.ep, entry=int(isinstance(self.obj, kp.CompletionQueue)))

    def drain(self) -> None:
        """Read what there is."""
        self.obj.read()


@dataclass
class Set:
    """A wait set with descriptors, a poll set with the same members, and these."""

    wait_set: kp.WaitSet
    poll_set: kp.PollSet
    sources: list[Source] = field(default_factory=list)

    def harvest(self, count: int | None = None) -> int:
        """Return how many members kfi_poll() reports."""
        return len(self.poll_set.poll(count))

    def fire(self) -> None:
        """One event on each source."""
        for source in self.sources:
            source.fire()

    def drain(self) -> None:
        """Read what there is in each source."""
        for source in self.sources:
            source.drain()


def _source(mock: Mock, kind: str, wait_set: kp.WaitSet) -> Source:
    if kind == "cq":
        cq = mock.cq(wait_set=wait_set)
        return Source(mock, cq, mock.endpoint(cq=cq))
    cntr = mock.counter(wait_set=wait_set)
    return Source(mock, cntr, mock.endpoint(cntr=cntr))


def _set(mock: Mock, kinds: tuple[str, ...]) -> Set:
    made = Set(mock.wait_set(wait_obj=kp.WaitObj.FD), mock.poll_set())
    for kind in kinds:
        source = _source(mock, kind, made.wait_set)
        made.poll_set.add(source.obj)
        mock.stack.callback(made.poll_set.remove, source.obj)
        made.sources.append(source)
    return made


@dataclass
class Outer:
    """An epoll of the user with the descriptors of some wait sets."""

    epoll: select.epoll
    inner: list[Set]
    link: str

    def harvest(self, timeout: float = 0) -> int:
        """Return how many of them epoll_wait(2) reports."""
        return len(self.epoll.poll(timeout))

    def fire(self) -> None:
        """One event on each source of each set."""
        for inner in self.inner:
            inner.fire()


@dataclass(frozen=True)
class Shape:
    """One row of the table.

    Attributes:
        play: what happens, and is checked.
        args: for it.
        text: what the row promises.
    """

    play: Callable[..., None]
    args: dict[str, Any]
    text: str


SHAPES: dict[int, Shape] = {}


def _rows(numbers: str, play: Callable[..., None], text: str, *args: dict[str, Any]) -> None:
    """Add one row for each number, such as "9 10" or "53-58", with its arguments."""
    first, _, last = numbers.partition("-")
    wanted = range(int(first), int(last or first) + 1)
    for number, each in zip(wanted, args, strict=True):
        SHAPES[number] = Shape(play, each, text)


@pytest.fixture
def table(mock: Mock, in_thread: InThread, in_child: InChild) -> Iterator[dict[str, Any]]:
    """What a row may need. Outer sets are closed before the descriptors in them."""
    with contextlib.ExitStack() as stack:
        yield {"mock": mock, "in_thread": in_thread, "in_child": in_child, "stack": stack}


def _outer(table: dict[str, Any], link: str, *kinds: str) -> Outer:
    epoll = table["stack"].enter_context(select.epoll())
    inner = [_set(table["mock"], (kind,)) for kind in kinds]
    for each in inner:
        edge = select.EPOLLET if link == "et" else 0
        epoll.register(each.wait_set.fileno(), select.EPOLLIN | edge)
    return Outer(epoll, inner, link)


# One thread that never sleeps.


def _look_twice(table: dict[str, Any], kinds: tuple[str, ...], wanted: tuple[int, int]) -> None:
    made = _set(table["mock"], kinds)
    made.fire()
    assert (made.harvest(), made.harvest()) == wanted
    made.drain()
    assert made.harvest() == 0


def _look_twice_by_descriptor(
    table: dict[str, Any], kinds: tuple[str, ...], wanted: tuple[int, int]
) -> None:
    made = _set(table["mock"], kinds)
    made.fire()
    fd = made.wait_set.fileno()
    for number in wanted:
        # An edge is taken by reading; a level stays although it was looked at.
        assert readable(fd) == bool(number)
        assert made.harvest() == number
        if kinds[0] == "cntr":
            made.drain()


CQ, CNTR, TWO_CQS, TWO_CNTRS = ("cq",), ("cntr",), ("cq", "cq"), ("cntr", "cntr")

_rows(
    "1-4",
    _look_twice,
    "P1, P3: a level is reported again, an edge once",
    {"kinds": CQ, "wanted": (1, 1)},
    {"kinds": CNTR, "wanted": (1, 0)},
    {"kinds": TWO_CQS, "wanted": (2, 2)},
    {"kinds": TWO_CNTRS, "wanted": (2, 0)},
)
_rows(
    "5-8",
    _look_twice_by_descriptor,
    "W8, P1: readable exactly when there is something to read",
    {"kinds": CQ, "wanted": (1, 1)},
    {"kinds": CNTR, "wanted": (1, 0)},
    {"kinds": TWO_CQS, "wanted": (2, 2)},
    {"kinds": TWO_CNTRS, "wanted": (2, 0)},
)


# Two threads asleep on one set.


def _sleeper(table: dict[str, Any], made: Set, way: str) -> Call[object]:
    """Start a thread that waits and harvests one; return once it sleeps."""
    if way == "ew":

        def wait() -> int:
            made.wait_set.wait(timeout=LIMIT)
            return made.harvest(1)

        call: Call[object] = table["in_thread"](wait)
        return call.asleep()

    def poll() -> int:
        poller = select.poll()
        poller.register(made.wait_set.fileno(), select.POLLIN)
        assert poller.poll(LIMIT * 1000)
        return made.harvest(1)

    call = table["in_thread"](poll)
    call.asleep(POLLING)
    return call


def _two_sleepers(
    table: dict[str, Any], kinds: tuple[str, ...], ways: tuple[str, str], harvested: int
) -> None:
    made = _set(table["mock"], kinds)
    calls = [_sleeper(table, made, way) for way in ways]
    made.fire()
    # Both return in any case; what they find depends on the source.
    found = sum(call.result() for call in calls)  # type: ignore[misc]
    if kinds[0] == "cntr":
        # The second event may have come after both had looked.
        found += made.harvest()
    assert found == harvested


_rows(
    "9-12",
    _two_sleepers,
    "W3, W2, P1, B04: all who slept return; an edge is reported to one of them",
    {"kinds": CQ, "ways": ("ew", "ew"), "harvested": 2},
    {"kinds": CNTR, "ways": ("ew", "ew"), "harvested": 1},
    {"kinds": TWO_CQS, "ways": ("ew", "ew"), "harvested": 2},
    {"kinds": TWO_CNTRS, "ways": ("ew", "ew"), "harvested": 2},
)
_rows(
    "13-16",
    _two_sleepers,
    "W3, W8, P1, B02: the same, one of them through poll(2)",
    {"kinds": CQ, "ways": ("ew", "p"), "harvested": 2},
    {"kinds": CNTR, "ways": ("ew", "p"), "harvested": 1},
    {"kinds": TWO_CQS, "ways": ("ew", "p"), "harvested": 2},
    {"kinds": TWO_CNTRS, "ways": ("ew", "p"), "harvested": 2},
)


# A set inside a set: the outer link decides.


def _look_from_outside(
    table: dict[str, Any], link: str, kind: str, wanted: tuple[int, int], by_poll: bool
) -> None:
    outer = _outer(table, link, kind)
    outer.fire()
    for number in wanted:
        if by_poll:
            assert readable(outer.epoll.fileno()) == bool(number)
        assert outer.harvest() == number


INSIDE: list[dict[str, Any]] = [
    {"link": "lt", "kind": "cq", "wanted": (1, 1)},
    {"link": "lt", "kind": "cntr", "wanted": (1, 1)},
    {"link": "et", "kind": "cq", "wanted": (1, 0)},
    {"link": "et", "kind": "cntr", "wanted": (1, 0)},
]
_rows(
    "17-20",
    _look_from_outside,
    "W8: the user's epoll sees a level that stays and an edge once",
    *({**args, "by_poll": False} for args in INSIDE),
)
_rows(
    "21-24",
    _look_from_outside,
    "W8: the same through poll(2) on the epoll",
    *({**args, "by_poll": True} for args in INSIDE),
)


def _outside_sleeper(table: dict[str, Any], outer: Outer, way: str) -> Call[object]:
    """Start a thread that sleeps on the epoll and harvests one from it."""

    def body() -> int:
        if way == "p":
            poller = select.poll()
            poller.register(outer.epoll.fileno(), select.POLLIN)
            assert poller.poll(LIMIT * 1000)
            # In epoll a level is not there while another thread is looking at it.
            return len(outer.epoll.poll(LIMIT if outer.link == "lt" else 0, 1))
        return len(outer.epoll.poll(LIMIT, 1))

    call: Call[object] = table["in_thread"](body)
    call.asleep(POLLING)
    return call


def _two_outside(
    table: dict[str, Any], link: str, kind: str, ways: tuple[str, str], returned: int
) -> None:
    outer = _outer(table, link, kind)
    calls = [_outside_sleeper(table, outer, way) for way in ways]
    outer.fire()
    wait_until(lambda: sum(call.done for call in calls) >= returned, "woken", PATIENCE)
    if link == "et":
        # An edge is for one; the next one is for the other.
        wait_until(lambda: _done_or_fire(calls, outer), "the other woken", PATIENCE)
    found = [call.result() for call in calls]
    assert 1 in found
    assert link == "et" or found == [1, 1]


def _done_or_fire(calls: list[Call[object]], outer: Outer) -> bool:
    if not all(call.done for call in calls):
        outer.fire()
        return False
    return True


_rows(
    "25-32",
    _two_outside,
    "W8, W3: of two threads on the outer set a level wakes both, an edge at least one",
    *(
        {"link": link, "kind": kind, "ways": ways, "returned": 2 if link == "lt" else 1}
        for ways in (("ew", "ew"), ("ew", "p"))
        for link in ("lt", "et")
        for kind in ("cq", "cntr")
    ),
)


def _inside_and_outside(table: dict[str, Any], link: str, kind: str, ways: tuple[str, str]) -> None:
    outer = _outer(table, link, kind)
    inside = _sleeper(table, outer.inner[0], ways[0])
    outside = _outside_sleeper(table, outer, ways[1])
    outer.fire()
    # Nobody has read, so both return, and each finds it.
    assert (inside.result(), outside.result()) == (1, 1)


_rows(
    "33-48",
    _inside_and_outside,
    "W8, W3, B02: a thread on the set and one on the epoll around it: neither takes it away",
    *(
        {"link": link, "kind": kind, "ways": ways}
        for ways in (("ew", "ew"), ("p", "ew"), ("ew", "p"), ("p", "p"))
        for link in ("lt", "et")
        for kind in ("cq", "cntr")
    ),
)


# Two sets inside one.


def _look_at_two_sets(
    table: dict[str, Any], link: str, wanted: tuple[int, int], by_poll: bool
) -> None:
    outer = _outer(table, link, "cq", "cq")
    outer.fire()
    for number in wanted:
        if by_poll:
            assert readable(outer.epoll.fileno()) == bool(number)
        assert outer.harvest() == number


_rows(
    "49-52",
    _look_at_two_sets,
    "W8: two wait sets in one epoll",
    {"link": "lt", "wanted": (2, 2), "by_poll": False},
    {"link": "et", "wanted": (2, 0), "by_poll": False},
    {"link": "lt", "wanted": (2, 2), "by_poll": True},
    {"link": "et", "wanted": (2, 0), "by_poll": True},
)


def _two_sets_two_threads(table: dict[str, Any], link: str, ways: tuple[str, str]) -> None:
    outer = _outer(table, link, "cq", "cq")
    calls = [_outside_sleeper(table, outer, way) for way in ways]
    outer.fire()
    found = [call.result() for call in calls]
    # One that polls first and then looks may find that the other has taken both edges.
    assert found == [1, 1] or (link == "et" and "p" in ways and sum(found) >= 1)  # type: ignore[arg-type]


_rows(
    "53-58",
    _two_sets_two_threads,
    "W8, W3: two wait sets, two threads, an event in each: both return",
    *(
        {"link": link, "ways": ways}
        for ways in (("ew", "ew"), ("ew", "p"), ("p", "p"))
        for link in ("lt", "et")
    ),
)


# Many rounds.


def _never_a_timeout(table: dict[str, Any]) -> None:
    made = _set(table["mock"], CQ)
    taken = threading.Semaphore(1)
    rounds = 300

    def produce() -> None:
        for _ in range(rounds):
            assert taken.acquire(timeout=LIMIT)
            made.fire()

    producer = table["in_thread"](produce)
    for _ in range(rounds):
        made.wait_set.wait(timeout=LIMIT)
        # Whoever reads before the producer has come to waking is woken once more (W3).
        while not made.harvest():
            made.wait_set.wait(timeout=LIMIT)
        made.drain()
        taken.release()
    producer.result()


def _all_of_ten(table: dict[str, Any]) -> None:
    made = _set(table["mock"], ("cntr",) * 10)
    for _ in range(10):
        calls = [_sleeper(table, made, "ew") for _ in range(10)]
        made.fire()
        found = sum(call.result() for call in calls)  # type: ignore[misc]
        assert found + made.harvest() == 10
        made.drain()


def _event_near_the_deadline(table: dict[str, Any]) -> None:
    made = _set(table["mock"], CQ)
    rounds = 20
    forever = [0]

    def wait_without_limit() -> None:
        while forever[0] < rounds:
            made.wait_set.wait(timeout=LIMIT)
            forever[0] += 1
            made.drain()

    endless = table["in_thread"](wait_without_limit)
    while not endless.done:
        timer = threading.Timer(0.01095, made.fire)
        timer.start()
        with contextlib.suppress(kp.KfiTimeout):
            made.wait_set.wait(timeout=0.011)
        timer.join()
    endless.result()


def _no_limit_and_an_event(table: dict[str, Any]) -> None:
    made = _set(table["mock"], CQ)
    made.fire()
    for _ in range(2):
        made.wait_set.wait(timeout=None)
        assert made.harvest() == 1


def _a_limit_and_no_event(table: dict[str, Any]) -> None:
    made = _set(table["mock"], CQ)
    with pytest.raises(kp.KfiTimeout):
        made.wait_set.wait(timeout=0.01)
    assert made.harvest() == 0


def _killed(table: dict[str, Any]) -> None:
    def body(report: Callable[[str], None]) -> int:
        with kp.Device() as device:
            info = device.getinfo(provider="mock")[0]
            with device.fabric(info) as fabric, fabric.wait_set() as wait_set:
                report("ready")
                wait_set.wait()
        return 1

    child = table["in_child"](body)
    assert child.report() == "ready"
    sleeping.wait_until_asleep(child.pid, deadline=LIMIT)
    child.kill(signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM


def _never_zero(table: dict[str, Any]) -> None:
    made = _set(table["mock"], CQ)
    made.fire()
    rounds = 200

    def look() -> int:
        return sum(made.harvest() for _ in range(rounds))

    calls = [table["in_thread"](look) for _ in range(64)]
    for call in calls:
        # All these polls together take longer on a slow kernel than one call may.
        call.settle()
    assert [call.result() for call in calls] == [rounds] * 64


_rows("59", _never_a_timeout, "W2, V1, V2, B07: round after round, and no wait times out", {})
_rows("60", _all_of_ten, "W3, W2, P2, B04: ten threads, ten events at once: each finds one", {})
_rows("61", _event_near_the_deadline, "W4, W2, B26: events about when the wait ends", {})
_rows("62", _no_limit_and_an_event, "W4, B24: no limit, and it is there", {})
_rows("63", _a_limit_and_no_event, "W4, B24: a limit, and nothing is there", {})
_rows("64", _killed, "W5, B56: a signal ends who waits for nothing", {})
_rows("65", _never_zero, "P4, P2: many threads poll what stays ready: none ever finds nothing", {})


@pytest.mark.parametrize("number", sorted(SHAPES))
def test_shape(table: dict[str, Any], number: int) -> None:
    """W2, W3, W4, W5, W8, P1, P2, P3, B02, B04, B07, B24, B26, B38: one row of the table."""
    shape = SHAPES[number]
    print(shape.text)
    shape.play(table, **shape.args)


def test_the_table_is_whole() -> None:
    """All 65 shapes are there."""
    assert sorted(SHAPES) == list(range(1, 66))
