# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What is done on either side of the comparison with libfabric.

Each function makes calls through a side and returns their results in words.
What the pages say about it, and what came out, is in tests/data/libfabric.toml
under the function's name.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from functools import partial

from libfabric_sides import Side, attempt, sleeper, timed
from side_support import SLEEPS_ON, Sleeper, outcomes

from kfabric.guest.sleeping import ThreadGone

#: A short timeout in milliseconds, of a wait that is to time out.
SHORT = 500

Scenario = Callable[[Side], list[str]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    """Enter a function into the table."""
    SCENARIOS[function.__name__] = function
    return function


# Poll sets.


@scenario
def poll_small_array_counters(side: Side) -> list[str]:
    counters = [side.counter(name) for name in "abc"]
    poll_set = side.poll_set(*counters)
    for each in counters:
        side.count(each)
    calls = [side.poll(poll_set, 1) for _ in range(4)]
    return [" ".join(sorted(calls[:3])), calls[3]]


@scenario
def poll_no_room(side: Side) -> list[str]:
    counter = side.counter("a")
    poll_set = side.poll_set(counter)
    side.count(counter)
    return [side.poll(poll_set, 0), side.poll(poll_set, 1)]


@scenario
def poll_turns(side: Side) -> list[str]:
    queues = [side.cq(name) for name in "abcd"]
    poll_set = side.poll_set(*queues)
    for each in queues:
        side.entry(each)
    tally = Tally(side.poll(poll_set, 1) for _ in range(8))
    return [f"{name} {tally[name]} times" for name in sorted(tally)]


@scenario
def poll_queue_until_read(side: Side) -> list[str]:
    queue = side.cq("a")
    poll_set = side.poll_set(queue)
    empty = side.poll(poll_set, 4)
    side.entry(queue)
    full = [side.poll(poll_set, 4), side.poll(poll_set, 4)]
    return [empty, *full, side.read(queue), side.poll(poll_set, 4)]


@scenario
def poll_error_entry(side: Side) -> list[str]:
    queue = side.cq("a")
    poll_set = side.poll_set(queue)
    side.error(queue)
    return [side.poll(poll_set, 4), side.poll(poll_set, 4)]


@scenario
def poll_two_sets(side: Side) -> list[str]:
    counter = side.counter("a")
    first, second = side.poll_set(counter), side.poll_set(counter)
    side.count(counter)
    return [side.poll(each, 4) for each in (first, second, first, second)]


@scenario
def poll_set_back(side: Side) -> list[str]:
    counter = side.counter("a")
    poll_set = side.poll_set(counter)
    side.count(counter)
    side.change(counter, "set", 497)
    before = side.poll(poll_set, 4), side.poll(poll_set, 4)
    side.change(counter, "set", 495)
    side.count(counter)
    side.count(counter)
    return [before[1], str(side.value(counter)), side.poll(poll_set, 4)]


@scenario
def poll_completion_then_add(side: Side) -> list[str]:
    counter = side.counter("a")
    poll_set = side.poll_set(counter)
    side.count(counter)
    side.change(counter, "add", 5)
    return [side.poll(poll_set, 4)]


@scenario
def poll_completion_then_read(side: Side) -> list[str]:
    counter = side.counter("a")
    poll_set = side.poll_set(counter)
    side.count(counter)
    return [str(side.value(counter)), side.poll(poll_set, 4), side.poll(poll_set, 4)]


@scenario
def poll_error_count(side: Side) -> list[str]:
    counter = side.counter("a")
    poll_set = side.poll_set(counter)
    side.change(counter, "adderr", 1)
    return [side.poll(poll_set, 4), side.poll(poll_set, 4)]


@scenario
def poll_after_wait(side: Side) -> list[str]:
    wait_set = side.wait_set()
    counter = side.counter("a", wait_set=wait_set)
    poll_set = side.poll_set(counter)
    side.count(counter)
    return [side.wait(wait_set, 0), side.poll(poll_set, 4)]


@scenario
def poll_membership(side: Side) -> list[str]:
    queue, stranger, events = side.cq("a"), side.cq("b"), side.eq("e")
    poll_set = side.poll_set(queue)
    return [
        side.member(poll_set, "poll_add", queue),
        side.member(poll_set, "poll_del", stranger),
        side.member(poll_set, "poll_add", events),
    ]


# Wait sets.


@scenario
def wait_consumes_nothing(side: Side) -> list[str]:
    wait_set = side.wait_set()
    queue = side.cq("a", wait_set=wait_set)
    side.entry(queue)
    return [side.wait(wait_set, 0), side.wait(wait_set, 0), side.read(queue)]


@scenario
def wait_twice_on_counter(side: Side) -> list[str]:
    wait_set = side.wait_set()
    counter = side.counter("a", wait_set=wait_set)
    side.count(counter)
    return [side.wait(wait_set, 0), side.wait(wait_set, 0)]


@scenario
def wait_wakes(side: Side) -> list[str]:
    wait_set = side.wait_set()
    queue = side.cq("a", wait_set=wait_set)
    thread = sleeper(side, partial(side.wait, wait_set, -1))
    side.entry(queue)
    return [thread.outcome()]


@scenario
def wait_wakes_all(side: Side) -> list[str]:
    wait_set = side.wait_set()
    queue = side.cq("a", wait_set=wait_set)
    threads = [sleeper(side, partial(side.wait, wait_set, -1)) for _ in range(3)]
    side.entry(queue)
    return _outcomes(threads)


@scenario
def wait_wakes_all_cond(side: Side) -> list[str]:
    wait_set = side.wait_set("mutex_cond")
    queue = side.cq("a", wait_set=wait_set)
    threads = [sleeper(side, partial(side.wait, wait_set, -1)) for _ in range(3)]
    side.entry(queue)
    return _outcomes(threads)


@scenario
def wait_ready_before_cond(side: Side) -> list[str]:
    wait_set = side.wait_set("mutex_cond")
    queue = side.cq("a", wait_set=wait_set)
    side.entry(queue)
    return [attempt(side, partial(side.wait, wait_set, -1))]


@scenario
def wait_timeout_cond(side: Side) -> list[str]:
    wait_set = side.wait_set("mutex_cond")
    side.cq("a", wait_set=wait_set)
    return [timed(partial(side.wait, wait_set, SHORT), SHORT)]


@scenario
def wait_many_events(side: Side) -> list[str]:
    wait_set = side.wait_set()
    queues = [side.cq(name, wait_set=wait_set) for name in "abcd"]
    threads = [sleeper(side, partial(side.wait, wait_set, -1)) for _ in range(4)]
    for each in queues:
        side.entry(each)
    return _outcomes(threads)


@scenario
def wait_drained(side: Side) -> list[str]:
    wait_set = side.wait_set()
    queue = side.cq("a", wait_set=wait_set)
    for _ in range(3):
        side.entry(queue)
    first = side.wait(wait_set, 0)
    drained = [side.read(queue) for _ in range(4)]
    return [first, *drained, timed(partial(side.wait, wait_set, SHORT), SHORT)]


@scenario
def wait_error_pending(side: Side) -> list[str]:
    wait_set = side.wait_set()
    queue = side.cq("a", wait_set=wait_set)
    side.error(queue)
    return [attempt(side, partial(side.wait, wait_set, -1))]


@scenario
def wait_error_wakes(side: Side) -> list[str]:
    wait_set = side.wait_set()
    queue = side.cq("a", wait_set=wait_set)
    thread = sleeper(side, partial(side.wait, wait_set, -1))
    side.error(queue)
    return [thread.outcome()]


@scenario
def wait_new_member(side: Side) -> list[str]:
    wait_set = side.wait_set()
    thread = sleeper(side, partial(side.wait, wait_set, -1))
    side.entry(side.cq("a", wait_set=wait_set))
    return [thread.outcome()]


@scenario
def wait_member_leaves(side: Side) -> list[str]:
    wait_set = side.wait_set()
    gone, queue = side.cq("a", wait_set=wait_set), side.cq("b", wait_set=wait_set)
    thread = sleeper(side, partial(side.wait, wait_set, -1))
    closed = side.close(gone)
    side.entry(queue)
    return [closed, thread.outcome()]


@scenario
def wait_timeouts(side: Side) -> list[str]:
    wait_set = side.wait_set()
    queue = side.cq("a", wait_set=wait_set)
    nothing = [side.wait(wait_set, 0), timed(partial(side.wait, wait_set, SHORT), SHORT)]
    ready = []
    for timeout in (-2, -1, 0, SHORT):
        side.entry(queue)
        ready.append(attempt(side, partial(side.wait, wait_set, timeout)))
    return [*nothing, *ready]


@scenario
def wait_signal_handler(side: Side) -> list[str]:
    wait_set = side.wait_set()
    queue = side.cq("a", wait_set=wait_set)
    thread = sleeper(side, partial(side.wait, wait_set, -1))
    thread.interrupt()
    side.entry(queue)
    return [thread.outcome()]


# Queues and counters of their own.


@scenario
def sread_timeouts(side: Side) -> list[str]:
    queue = side.cq("a")
    nothing = [side.sread(queue, 0), timed(partial(side.sread, queue, SHORT), SHORT)]
    for _ in range(4):
        side.entry(queue)
    ready = [attempt(side, partial(side.sread, queue, ms)) for ms in (-2, -1, 0, SHORT)]
    return [*nothing, *ready]


@scenario
def sread_infinite(side: Side) -> list[str]:
    queue = side.cq("a")
    thread = sleeper(side, partial(side.sread, queue, -2))
    side.entry(queue)
    return [thread.outcome()]


@scenario
def sread_one_each(side: Side) -> list[str]:
    queue = side.cq("a")
    threads = [sleeper(side, partial(side.sread, queue, -1)) for _ in range(3)]
    for _ in range(3):
        side.entry(queue)
    return _outcomes(threads)


@scenario
def sread_error_wakes(side: Side) -> list[str]:
    queue = side.cq("a")
    thread = sleeper(side, partial(side.sread, queue, -1))
    side.error(queue)
    return [thread.outcome()]


@scenario
def signal_frees_all(side: Side) -> list[str]:
    queue = side.cq("a")
    threads = [sleeper(side, partial(side.sread, queue, -1)) for _ in range(3)]
    return [side.signal(queue), *_outcomes(threads)]


@scenario
def signal_is_not_remembered(side: Side) -> list[str]:
    queue = side.cq("a")
    signalled = side.signal(queue)
    return [signalled, timed(partial(side.sread, queue, SHORT), SHORT)]


@scenario
def eq_sread_timeouts(side: Side) -> list[str]:
    queue = side.eq("e")
    nothing = [side.sread(queue, 0), timed(partial(side.sread, queue, SHORT), SHORT)]
    for _ in range(4):
        side.write(queue)
    ready = [attempt(side, partial(side.sread, queue, ms)) for ms in (-2, -1, 0, SHORT)]
    return [*nothing, *ready]


@scenario
def eq_write_wakes(side: Side) -> list[str]:
    queue = side.eq("e")
    thread = sleeper(side, partial(side.sread, queue, -1))
    side.write(queue)
    return [thread.outcome()]


@scenario
def cntr_timeouts(side: Side) -> list[str]:
    counter = side.counter("a")
    side.change(counter, "set", 5)
    missed = [
        side.cntr_wait(counter, 6, 0),
        timed(partial(side.cntr_wait, counter, 6, SHORT), SHORT),
    ]
    met = [attempt(side, partial(side.cntr_wait, counter, 5, ms)) for ms in (-2, -1, 0, SHORT)]
    return [*missed, *met]


@scenario
def cntr_thresholds(side: Side) -> list[str]:
    counter = side.counter("a")
    threads = [sleeper(side, partial(side.cntr_wait, counter, n, -1)) for n in (3, 2, 1)]
    results = []
    for thread in reversed(threads):
        side.change(counter, "add", 1)
        results.append(thread.outcome())
    return results


@scenario
def cntr_wide(side: Side) -> list[str]:
    counter = side.counter("a")
    results = []
    for bits in (31, 32, 63):
        side.change(counter, "set", 1)
        results.append(side.cntr_wait(counter, 1 << bits, 0))
        side.change(counter, "set", 1 << bits)
        results.append(str(side.value(counter) == 1 << bits))
        results.append(side.cntr_wait(counter, 1 << bits, 0))
    return results


@scenario
def cntr_error_ends(side: Side) -> list[str]:
    counter = side.counter("a")
    threads = [sleeper(side, partial(side.cntr_wait, counter, 10, -1)) for _ in range(3)]
    side.change(counter, "adderr", 1)
    return _outcomes(threads)


@scenario
def cntr_old_error(side: Side) -> list[str]:
    counter = side.counter("a")
    side.change(counter, "adderr", 1)
    return [timed(partial(side.cntr_wait, counter, 10, SHORT), SHORT)]


@scenario
def cntr_deadline(side: Side) -> list[str]:
    counter = side.counter("a")
    side.change(counter, "set", 1)
    limit = 1000
    thread = Sleeper(
        lambda: timed(partial(side.cntr_wait, counter, 1 << 30, limit), limit),
        side.where,
        side.patience,
    )
    while not thread.done:
        try:
            thread.asleep()
        except ThreadGone:
            break
        side.change(counter, "add", 1)
    return [thread.outcome()]


@scenario
def cntr_stays_asleep(side: Side) -> list[str]:
    counter, other = side.counter("a"), side.cq("b")
    thread = sleeper(side, partial(side.cntr_wait, counter, 1, -1))
    before = thread.switches
    meanwhile = timed(partial(side.sread, other, 5 * SHORT), 5 * SHORT)
    slept = "slept" if thread.switches == before else "woke up"
    side.change(counter, "add", 1)
    return [meanwhile, slept, thread.outcome()]


@scenario
def cntr_without_wait_object(side: Side) -> list[str]:
    waits, polled = side.counter("a"), side.counter("b", "none")
    side.change(waits, "add", 1)
    side.change(polled, "add", 1)
    return [side.cntr_wait(waits, 1, 0), side.cntr_wait(polled, 1, 0)]


@scenario
def sread_without_wait_object(side: Side) -> list[str]:
    return [attempt(side, lambda: side.sread(side.cq("a", "none"), SHORT))]


@scenario
def sread_of_a_member(side: Side) -> list[str]:
    queue = side.cq("a", wait_set=side.wait_set())
    return [attempt(side, partial(side.sread, queue, SHORT))]


# trywait and control.


@scenario
def trywait_queue(side: Side) -> list[str]:
    queue = side.cq("a")
    results = [side.trywait(queue), side.readable(queue)]
    side.entry(queue)
    side.entry(queue)
    results += [side.readable(queue), side.trywait(queue), side.read(queue)]
    results += [side.trywait(queue), side.read(queue)]
    return [*results, side.trywait(queue), side.readable(queue)]


@scenario
def trywait_error(side: Side) -> list[str]:
    queue = side.cq("a")
    side.error(queue)
    return [side.trywait(queue), side.trywait(queue)]


@scenario
def trywait_events(side: Side) -> list[str]:
    queue = side.eq("e")
    results = [side.trywait(queue), side.readable(queue)]
    side.write(queue)
    side.write(queue)
    results += [side.readable(queue), side.trywait(queue), side.sread(queue, 0)]
    results += [side.trywait(queue), side.sread(queue, 0)]
    return [*results, side.trywait(queue), side.readable(queue)]


@scenario
def trywait_counter_twice(side: Side) -> list[str]:
    wait_set = side.wait_set()
    counter = side.counter("a", wait_set=wait_set)
    side.count(counter)
    twice = [side.trywait(wait_set), side.trywait(wait_set)]
    return [*twice, str(side.value(counter)), side.trywait(wait_set)]


@scenario
def trywait_pollfd(side: Side) -> list[str]:
    wait_set = side.wait_set("pollfd")
    queue = side.cq("a", wait_set=wait_set)
    empty = side.trywait(wait_set)
    side.entry(queue)
    full = side.trywait(wait_set)
    return [empty, full, side.read(queue), side.trywait(wait_set)]


@scenario
def trywait_without_wait_object(side: Side) -> list[str]:
    return [side.trywait(side.cq("a", "none"))]


@scenario
def trywait_poll_set(side: Side) -> list[str]:
    return [side.trywait(side.poll_set())]


@scenario
def trywait_mixed(side: Side) -> list[str]:
    return [side.trywait(side.wait_set("fd"), side.wait_set("pollfd"))]


@scenario
def getwait_without_wait_object(side: Side) -> list[str]:
    return [side.getwait(side.cq("a", "none"))]


@scenario
def getwaitobj(side: Side) -> list[str]:
    wait_set = side.wait_set("fd")
    members = side.cq("a"), side.counter("b")
    return [side.wait_obj(each) for each in (wait_set, *members)]


@scenario
def pollfd_room(side: Side) -> list[str]:
    wait_set = _pollfd_set(side)
    _, need = side.pollfds(wait_set, 0)
    results = [side.pollfds(wait_set, room) for room in (need - 1, need, need + 5)]
    return [result if found == need else f"{result}, nfds wrong" for result, found in results]


@scenario
def pollfd_index(side: Side) -> list[str]:
    result, found = side.pollfds(_pollfd_set(side), 0)
    return [result, "nfds set" if found >= 1 else "nfds wrong"]


def _pollfd_set(side: Side) -> object:
    wait_set = side.wait_set("pollfd")
    for name in "ab":
        side.cq(name, wait_set=wait_set)
    return wait_set


# Closing.


@scenario
def close_bound_wait_set(side: Side) -> list[str]:
    wait_set = side.wait_set()
    queue = side.cq("a", wait_set=wait_set)
    closed = side.close(wait_set)
    if closed == "0":
        # What the queue signals is gone, and nobody can say what happens next.
        return [closed]
    side.entry(queue)
    return [closed, side.wait(wait_set, 0), side.read(queue)]


@scenario
def close_poll_set_with_members(side: Side) -> list[str]:
    queue = side.cq("a")
    poll_set = side.poll_set(queue)
    closed = side.close(poll_set)
    if closed == "0":
        return [closed]
    side.entry(queue)
    return [closed, side.poll(poll_set, 4)]


@scenario
def close_polled_queue(side: Side) -> list[str]:
    return [_close_polled(side, side.cq("a"))]


@scenario
def close_polled_counter(side: Side) -> list[str]:
    return [_close_polled(side, side.counter("a"))]


def _close_polled(side: Side, member: object) -> str:
    side.poll_set(member)
    return side.close(member)


def _outcomes(threads: list[Sleeper]) -> list[str]:
    """Return what threads returned, each result once: how many had it may be chance."""
    return sorted(set(outcomes(threads)), key=lambda each: (each == SLEEPS_ON, each))
