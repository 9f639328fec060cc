# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Poll sets: every member that is ready is reported, none is starved or lost."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable

import pytest
from guest_support import Mock

import kfabric_py as kp
from kfabric_py import _uapi

pytestmark = pytest.mark.core


def poll_set_of(
    mock: Mock, *members: kp.CompletionQueue | kp.EventQueue | kp.Counter
) -> kp.PollSet:
    """Open a poll set with these members."""
    poll_set = mock.poll_set()
    for member in members:
        poll_set.add(member)
    return poll_set


def test_empty_set_reports_nothing(mock: Mock) -> None:
    """P4: and does not sleep."""
    assert mock.poll_set().poll(4) == []


def test_context_of_the_open_is_reported(mock: Mock) -> None:
    """The context that was given when the member was opened comes back."""
    context = object()
    cq = mock.cq(context=context)
    poll_set = poll_set_of(mock, cq)
    mock.inject(mock.endpoint(cq=cq))
    assert poll_set.poll() == [context]


@pytest.mark.parametrize("err", [None, 5], ids=["entry", "error"])
def test_queue_is_reported_while_it_holds_something(mock: Mock, err: int | None) -> None:
    """P1, B28: an entry or an error; reported again until it was read."""
    cq = mock.cq()
    poll_set = poll_set_of(mock, cq)
    ep = mock.endpoint(cq=cq)
    assert poll_set.poll() == []
    options = {} if err is None else {"err": err}
    mock.inject(ep, "recv", 1, **options)
    assert poll_set.poll() == [cq]
    assert poll_set.poll() == [cq]
    if err is None:
        assert cq.read()
    else:
        assert cq.readerr()
    assert poll_set.poll() == []


@pytest.mark.parametrize("kind", ["event", "error"])
def test_event_queue_is_reported_while_it_holds_something(mock: Mock, kind: str) -> None:
    """P1: event queues are members like any other."""
    eq = mock.eq()
    poll_set = poll_set_of(mock, eq)
    if kind == "event":
        eq.write()
    else:
        mock.command("eqerr", eq.trace_id, "err=5")
    assert poll_set.poll() == poll_set.poll() == [eq]
    assert eq.read() if kind == "event" else eq.readerr()
    assert poll_set.poll() == []


Change = Callable[[Mock, kp.Counter, kp.Endpoint], None]

CHANGES: dict[str, Change] = {
    "completion": lambda mock, cntr, ep: mock.inject(ep, entry=0),
    "failure": lambda mock, cntr, ep: mock.inject(ep, err=5),
    "adderr": lambda mock, cntr, ep: cntr.adderr(1),
    "seterr": lambda mock, cntr, ep: cntr.seterr(0),
}


@pytest.mark.parametrize("how", CHANGES)
def test_changed_counter_is_reported_once(mock: Mock, how: str) -> None:
    """P1: completion, error, adderr and seterr are changes, whatever the value."""
    cntr = mock.counter()
    ep = mock.endpoint(cntr=cntr)
    poll_set = poll_set_of(mock, cntr)
    CHANGES[how](mock, cntr, ep)
    assert poll_set.poll() == [cntr]
    assert poll_set.poll() == []
    CHANGES[how](mock, cntr, ep)
    assert poll_set.poll() == [cntr]


def test_own_add_and_set_are_no_change(mock: Mock) -> None:
    """P1: the user's add and set do not move the change number."""
    cntr = mock.counter()
    poll_set = poll_set_of(mock, cntr)
    cntr.add(5)
    cntr.set(7)
    assert poll_set.poll() == []


@pytest.mark.parametrize(
    "absorb",
    [lambda c: c.add(0), lambda c: c.add(5), lambda c: c.set(1), lambda c: c.read()],
    ids=["add 0", "add 5", "set", "read"],
)
def test_completion_is_not_absorbed(mock: Mock, absorb: Callable[[kp.Counter], object]) -> None:
    """P1, V9, B33: add, set and read after a completion do not hide it."""
    cntr = mock.counter()
    ep = mock.endpoint(cntr=cntr)
    poll_set = poll_set_of(mock, cntr)
    mock.inject(ep, entry=0)
    absorb(cntr)
    assert poll_set.poll() == [cntr]
    assert poll_set.poll() == []


def test_change_back_to_the_same_value_is_a_change(mock: Mock) -> None:
    """P1, B33: 497, set to 495, two completions, 497 again."""
    cntr = mock.counter()
    ep = mock.endpoint(cntr=cntr)
    poll_set = poll_set_of(mock, cntr)
    mock.inject(ep, count=497, entry=0)
    assert poll_set.poll() == [cntr]
    cntr.set(495)
    assert poll_set.poll() == []
    mock.inject(ep, count=2, entry=0)
    assert cntr.read() == 497
    assert poll_set.poll() == [cntr]


def test_each_set_has_its_own_mark(mock: Mock) -> None:
    """P1, P3, B31: one change is reported once by every set."""
    cntr = mock.counter()
    ep = mock.endpoint(cntr=cntr)
    first, second = poll_set_of(mock, cntr), poll_set_of(mock, cntr)
    mock.inject(ep, entry=0)
    assert first.poll() == [cntr]
    assert second.poll() == [cntr]
    assert first.poll() == second.poll() == []


def test_new_member_has_reported_nothing(mock: Mock) -> None:
    """P1, P5, B31: added after the change, or added anew: reported at once."""
    cntr = mock.counter()
    mock.inject(mock.endpoint(cntr=cntr), entry=0)
    poll_set = poll_set_of(mock, cntr)
    assert poll_set.poll() == [cntr]
    poll_set.remove(cntr)
    poll_set.add(cntr)
    assert poll_set.poll() == [cntr]


def test_ready_queue_is_reported_as_soon_as_it_was_added(mock: Mock) -> None:
    """P5, B03: the very next poll sees it."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq))
    assert poll_set_of(mock, cq).poll() == [cq]


def test_full_array_loses_nothing(mock: Mock) -> None:
    """P2, V6, B20: what did not fit comes with the next calls."""
    counters = [mock.counter() for _ in range(3)]
    cq = mock.cq()
    poll_set = poll_set_of(mock, *counters, cq)
    for cntr in counters:
        mock.inject(mock.endpoint(cntr=cntr), entry=0)
    mock.inject(mock.endpoint(cq=cq))
    seen: list[object] = []
    for _ in range(4):
        seen += poll_set.poll(1)
    assert set(seen) == {*counters, cq}
    assert cq.read()
    assert poll_set.poll() == []


def test_loop_that_ends_early_leaves_changes(mock: Mock) -> None:
    """P2, V6: a change that a loop did not yield is yielded by the next loop."""
    counters = [mock.counter() for _ in range(3)]
    cq = mock.cq()
    poll_set = poll_set_of(mock, *counters, cq)
    for cntr in counters:
        mock.inject(mock.endpoint(cntr=cntr), entry=0)
    mock.inject(mock.endpoint(cq=cq))
    first = next(iter(poll_set))
    assert [first, *poll_set] == [*counters, cq]
    assert list(poll_set) == [cq]


@pytest.mark.parametrize("count", [0, -1, 2**31])
def test_senseless_count_is_refused_and_consumes_nothing(mock: Mock, count: int) -> None:
    """P2, B20: EINVAL; the change is still to be reported."""
    cntr = mock.counter()
    poll_set = poll_set_of(mock, cntr)
    cntr.adderr(1)
    with pytest.raises(kp.KfiError, match="EINVAL"):
        poll_set.poll(count)
    assert poll_set.poll() == [cntr]


@pytest.mark.parametrize(("members", "count"), [(8, 1), (8, 3), (5, 4), (3, 8)])
def test_ready_members_take_turns(mock: Mock, members: int, count: int) -> None:
    """P2, B21: each within ceil(ready/count) calls, none twice in one call."""
    queues = [mock.cq() for _ in range(members)]
    poll_set = poll_set_of(mock, *queues)
    for cq in queues:
        mock.inject(mock.endpoint(cq=cq))
    turns = -(-members // count)
    for _ in range(5):
        calls = [poll_set.poll(count) for _ in range(turns)]
        for got in calls:
            assert len(got) == min(count, members)
            assert len(set(map(id, got))) == len(got)
        assert {id(cq) for got in calls for cq in got} == {id(cq) for cq in queues}


def test_taking_turns_is_fair_over_time(mock: Mock) -> None:
    """P2, B21: 8 queues that stay ready, 80 calls for one: 10 each."""
    queues = [mock.cq() for _ in range(8)]
    poll_set = poll_set_of(mock, *queues)
    for cq in queues:
        mock.inject(mock.endpoint(cq=cq))
    tally = Tally(id(poll_set.poll(1)[0]) for _ in range(80))
    assert tally == {id(cq): 10 for cq in queues}


def test_removed_member_is_not_reported(mock: Mock) -> None:
    """P4, B03: not one more time, although it stays ready."""
    keep, gone = mock.cq(), mock.cq()
    poll_set = poll_set_of(mock, keep, gone)
    for cq in (keep, gone):
        mock.inject(mock.endpoint(cq=cq))
    assert len(poll_set.poll()) == 2
    poll_set.remove(gone)
    assert gone not in poll_set
    for _ in range(3):
        assert poll_set.poll(4) == [keep]


def test_adding_twice_and_removing_a_stranger_is_refused(mock: Mock) -> None:
    """P5: EALREADY and EINVAL, and nothing changes."""
    cq, stranger = mock.cq(), mock.cq()
    poll_set = poll_set_of(mock, cq)
    with pytest.raises(kp.KfiError, match="EALREADY"):
        poll_set.add(cq)
    with pytest.raises(kp.KfiError, match="EINVAL"):
        poll_set.remove(stranger)
    mock.inject(mock.endpoint(cq=cq))
    assert poll_set.poll(4) == [cq]


def test_what_cannot_be_a_member_is_refused(mock: Mock) -> None:
    """P5: only a CQ, an EQ or a counter."""
    poll_set = mock.poll_set()
    for other in (mock.poll_set(), mock.wait_set(), mock.domain, mock.endpoint()):
        with pytest.raises(kp.KfiError, match="EINVAL"):
            poll_set.add(other)  # type: ignore[arg-type]


def test_members_of_another_domain_are_refused(mock: Mock) -> None:
    """P5: a CQ or counter of another domain, an EQ of another fabric."""
    poll_set = mock.poll_set()
    with (
        mock.device.fabric(mock.info) as fabric,
        fabric.domain(mock.info) as domain,
        domain.cq() as cq,
        domain.counter() as cntr,
        fabric.eq() as eq,
    ):
        for member in (cq, cntr, eq):
            with pytest.raises(kp.KfiError, match="EINVAL"):
                poll_set.add(member)


def test_poll_sets_of_a_source_are_limited(mock: Mock) -> None:
    """P5, X3: ENOSPC for one set more, and a removal makes room."""
    cq = mock.cq()
    sets = [poll_set_of(mock, cq) for _ in range(_uapi.KFAB_OBSERVERS_MAX)]
    late = mock.poll_set()
    with pytest.raises(kp.KfiError, match="ENOSPC"):
        late.add(cq)
    sets[0].remove(cq)
    late.add(cq)
    mock.inject(mock.endpoint(cq=cq))
    assert [late.poll(), sets[0].poll(), sets[-1].poll()] == [[cq], [], [cq]]


def test_member_does_not_close(mock: Mock) -> None:
    """O1, V8: EBUSY while it is in a poll set, and it is reported as before."""
    cq = mock.cq()
    poll_set = poll_set_of(mock, cq)
    with pytest.raises(kp.Busy, match=f"{cq!r} is used by {poll_set!r}"):
        cq.close()
    mock.inject(mock.endpoint(cq=cq))
    assert poll_set.poll() == [cq]


def test_set_with_members_does_not_close(mock: Mock) -> None:
    """O1, V8: EBUSY for the kernel's close; the library's takes the members out first."""
    cq = mock.cq()
    poll_set = poll_set_of(mock, cq)
    close = _uapi.kfab_close(handle=poll_set._handle)
    with pytest.raises(kp.Busy):
        mock.device._client(_uapi.KFAB_IOC_CLOSE, close)
    mock.inject(mock.endpoint(cq=cq))
    assert poll_set.poll() == [cq]
    poll_set.close()
    assert cq.read()


def test_member_of_wait_set_and_poll_sets(mock: Mock) -> None:
    """P3: one object in a wait set and two poll sets; each has its own view."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set)
    first, second = poll_set_of(mock, cq), poll_set_of(mock, cq)
    mock.inject(mock.endpoint(cq=cq))
    wait_set.wait(timeout=0)
    assert first.poll() == second.poll() == [cq]
    assert cq.read()
    assert first.poll() == second.poll() == []
    with pytest.raises(kp.KfiTimeout):
        wait_set.wait(timeout=0)
