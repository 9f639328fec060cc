# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Finds waits that do not end although it is known what would end them.

DEADLOCK and STUCK are the possible findings. Both need ender records: at a moment, a
certain thread is the one that can end a wait, for example the holder of a lock.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from errno import EDEADLK, EINTR

from kfabric.recording.records import ENDER_KNOWN, Ender, EnderRecord
from kfabric.verdict.kinds import STILL_OPEN, Finding, Kind
from kfabric.verdict.ledger import Queue, Wait
from kfabric.verdict.missed_wakes import span
from kfabric.verdict.queue_index import QueueIndex

_LASTING: frozenset[int] = frozenset((Ender.STOP, Ender.PARK))
"""Enders that stay the same until the wait ends, and so need no fresh look."""
_FRAMES = 4
_UNCERTAIN = frozenset((Ender.READER,))
"""Enders that prove no deadlock."""


@dataclass(frozen=True, slots=True)
class _Edge:
    """A wait, and the thread that could end it."""

    queue: Queue
    wait: Wait
    ender: EnderRecord


Circle = tuple[_Edge, ...]
"""Waits, each of which waits for the thread of the next one; the last one for the first."""


def find_unending(index: QueueIndex) -> Iterator[Finding]:
    """One finding for each circle, then one for the oldest other wait for each thread."""
    circles = list(_circles(index))
    for circle in circles:
        yield _deadlock(index, circle)
    yield from _find_stuck(index, {id(edge.wait) for circle in circles for edge in circle})


def not_judged(queue: Queue, wait: Wait) -> str:
    """Why a wait with a known end was not judged; empty if it was: it ended as it should."""
    assert queue.fclass in ENDER_KNOWN
    if not wait.finished:
        return STILL_OPEN
    if wait.record.ret == -EINTR:
        return "ended by a signal"
    if not wait.succeeded:
        return "ended by a limit or an error"
    return "" if wait.record.ended else "with an end that no wake call explains"


def _end(index: QueueIndex, wait: Wait) -> int:
    """When the sleep of a wait ended. A signal ends it a little before its thread leaves."""
    rec = wait.record
    if wait.signalled:
        return rec.t_foreign
    return rec.t_end or index.ledger.t_stop


def _circles(index: QueueIndex) -> Iterator[Circle]:
    """The circles after each change; the same circle may come several times."""
    edges = sorted(
        (
            _Edge(queue, wait, ender)
            for queue in index.ledger.queues.values()
            for wait in queue.waits
            for ender in wait.enders
            if ender.what not in _UNCERTAIN and ender.t < _end(index, wait)
        ),
        key=lambda edge: edge.ender.t,
    )
    latest: dict[int, _Edge] = {}
    for edge in edges:
        latest[edge.ender.tid] = edge
        circle = _circle_from(latest, edge)
        if circle and _lasts(index, circle):
            yield circle


def _circle_from(latest: Mapping[int, _Edge], first: _Edge) -> Circle:
    """The circle that an edge closes; empty if it closes none."""
    path = [first]
    while path[-1].ender.ender != first.ender.tid:
        edge = latest.get(path[-1].ender.ender)
        if edge is None or edge in path:
            return ()
        path.append(edge)
    return tuple(path)


def _open_at(wait: Wait, t: int) -> bool:
    return wait.record.t_begin <= t and (not wait.finished or t < wait.record.t_end)


def _lasts(index: QueueIndex, circle: Circle) -> bool:
    """Was each ender seen when all threads of the circle already waited, and for good?

    A thread that waits releases nothing. Some locks break a circle by themselves at once
    (wound/wait); a circle that has just begun may be one of those.
    """
    closed = max(edge.wait.record.t_begin for edge in circle)
    fresh = all(edge.ender.t >= closed or edge.ender.what in _LASTING for edge in circle)
    ends = [_end(index, edge.wait) for edge in circle]
    given_up = any(edge.wait.record.ret == -EDEADLK for edge in circle)
    return fresh and not given_up and min(ends) - closed > index.rules.grace_ns


def _deadlock(index: QueueIndex, circle: Circle) -> Finding:
    """A circle, from the wait that closed it on."""
    at = max(range(len(circle)), key=lambda n: circle[n].wait.record.t_begin)
    first, *others = (*circle[at:], *circle[:at])
    name = index.ledger.thread_name
    who = [name(first.ender.ender) if others else "its own thread"]
    who += [
        f"which waits on {index.analysis.object(edge.queue.id)} for {name(edge.ender.ender)}"
        for edge in others
    ]
    rec = first.wait.record
    end = min(_end(index, edge.wait) for edge in circle)
    text = f"waits for {', '.join(who)}; this lasted {span(end - rec.t_begin)}{_how(first.wait)}"
    find = index.analysis.of_wait
    return find(Kind.DEADLOCK, first.queue, first.wait, text, waker=first.ender.ender)


def _find_stuck(index: QueueIndex, excused: set[int]) -> Iterator[Finding]:
    """Waits that became too long, the oldest one for each queue and thread."""
    stuck: defaultdict[tuple[int, int], list[tuple[Queue, Wait]]] = defaultdict(list)
    for queue, wait in index.ledger.waits():
        if id(wait) not in excused and _is_stuck(index, queue, wait):
            ender = wait.enders[-1].ender if wait.enders else 0
            stuck[queue.id, ender].append((queue, wait))
    for (_, ender), waits in stuck.items():
        queue, wait = waits[0]
        text = f"{_lasted(index, wait)}; {_ender_words(index, wait)}"
        if len(waits) > 1:
            text += f" ({len(waits) - 1} more such waits there)"
        yield index.analysis.of_wait(Kind.STUCK, queue, wait, text, waker=ender)


def _is_stuck(index: QueueIndex, queue: Queue, wait: Wait) -> bool:
    """Did its known end not come in time?"""
    if queue.fclass not in ENDER_KNOWN and not wait.enders:
        return False
    if wait.finished and wait.record.ret != -EINTR:
        return False
    end = _end(index, wait)
    return end - wait.record.t_begin > index.rules.stuck_ns


def _how(wait: Wait) -> str:
    if not wait.finished:
        return ", until the recording ended"
    return ", until a signal ended the wait" if wait.record.ret == -EINTR else ""


def _lasted(index: QueueIndex, wait: Wait) -> str:
    end = _end(index, wait)
    return f"lasted {span(end - wait.record.t_begin)}{_how(wait)}"


def _ender_words(index: QueueIndex, wait: Wait) -> str:
    """The thread that could have ended a wait, as it was last seen, and what it did."""
    if not wait.enders:
        return "it is not known which thread can end it"
    ender = wait.enders[-1]
    end = _end(index, wait)
    if ender.t >= end:
        when = "then"
    else:
        after = ender.t - wait.record.t_begin
        when = f"{span(after)} after its begin" if after else "at its begin"
    if not ender.ender:
        return index.analysis.ender(ender)
    return f"{when} {index.analysis.ender(ender)}{state_of(index, ender, end)}"


def state_of(index: QueueIndex, ender: EnderRecord, t: int) -> str:
    """Where a thread was at ``t``, as far as the recording knows."""
    if ender.exited:
        return ", which had exited"
    for queue, wait in index.ledger.waits():
        if wait.record.tid == ender.ender and wait.slept and _open_at(wait, t):
            return f", which slept in {index.analysis.wait(queue, wait)}"
    frames = index.ledger.asleep.get(ender.ender, ()) if t >= index.ledger.t_stop else ()
    places = " < ".join(frame.partition("+")[0] for frame in frames[:_FRAMES])
    return f", which slept in {places}" if places else ""
