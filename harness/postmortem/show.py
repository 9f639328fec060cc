# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a dump tells, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

STATES = {"R": "runs", "S": "sleeps", "D": "sleeps, deaf to signals", "I": "idle"}
NOTHING = "no queue of kfabric's, and no other thread in the modules"


@dataclass(frozen=True)
class Thread:
    """A thread of the guest.

    :param state: as ps writes it.
    :param frames: functions, inmost first, with their module if it is one.
    """

    pid: int
    name: str
    state: str
    frames: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name, number and state."""
        return f"thread {self.name}/{self.pid} {STATES.get(self.state, self.state)}"


@dataclass(frozen=True)
class Panic:
    """How the guest ended.

    :param release: of its kernel.
    :param message: the kernel's words.
    :param thread: who ran there, if that is known.
    """

    release: str
    message: str
    thread: Thread | None = None


@dataclass(frozen=True)
class Sleeper:
    """A thread on a queue, not woken yet.

    :param need: how much it waits for; 0: anything.
    :param seen: publications before it looked for the last time.
    """

    thread: Thread
    need: int
    seen: int

    def title(self, ready: bool) -> str:
        """One line.

        :param ready: whether something can be read where it sleeps.
        """
        need = f" for {self.need}" if self.need > 1 else ""
        line = f"{self.thread.title}{need}; looked behind publication {self.seen}"
        # One that waits for more than there is may sleep beside it.
        return f"{line}; THOUGH SOMETHING IS READY" if ready and not need else line


@dataclass(frozen=True)
class Queue:
    """What threads sleep on: that of a wait set, or of a CQ, EQ, counter and so on of its own.

    :param ready: how many of its members have something to read.
    :param publications: so far.
    :param sleepers: who is on it.
    :param strangers: entries that are not of kfabric's own making (poll, a ULP).
    :param readable: of a wait set: which members these are.
    """

    kind: str
    id: int
    ready: int
    publications: int
    sleepers: tuple[Sleeper, ...] = ()
    strangers: int = 0
    readable: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """One line, without the sleepers."""
        waiting = f"{len(self.sleepers)} waiting" if self.sleepers else "nobody waiting"
        line = f"{self.kind} {self.id}: {waiting}, {self._ready}"
        line += f", {self.publications} publication{'s' if self.publications != 1 else ''}"
        return f"{line}, {self.strangers} entries of others" if self.strangers else line

    @property
    def _ready(self) -> str:
        names = f" ({', '.join(self.readable)})" if self.readable else ""
        return f"{self.ready} ready{names}" if self.ready else "nothing ready"


def _stack(thread: Thread) -> Iterator[str]:
    yield from (f"      {frame}" for frame in thread.frames)


def lines(
    panic: Panic, queues: Iterable[Queue], threads: Iterable[Thread], troubles: Sequence[str] = ()
) -> list[str]:
    """The panic, the queues with their sleepers, then threads that are on none of them.

    :param troubles: what could not be read.
    """
    found = [f"linux {panic.release}: {panic.message}"]
    shown: set[int] = set()
    if panic.thread:
        found += [f"    {panic.thread.title}", *_stack(panic.thread)]
        shown.add(panic.thread.pid)
    before = len(found)
    for queue in queues:
        found.append(queue.title)
        for sleeper in queue.sleepers:
            found += [f"    {sleeper.title(queue.ready > 0)}", *_stack(sleeper.thread)]
            shown.add(sleeper.thread.pid)
    others = [thread for thread in threads if thread.pid not in shown]
    if others:
        found.append("on none of these queues:")
    for thread in others:
        found += [f"    {thread.title}", *_stack(thread)]
    if len(found) == before:
        found.append(NOTHING)
    return [*found, *(f"not readable: {trouble}" for trouble in troubles)]
