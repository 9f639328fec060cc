# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Formats the queues and threads of a dump as lines of text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kfabric.errors import counted

STATES = {"R": "runs", "S": "sleeps", "D": "sleeps, deaf to signals", "I": "idle"}
NOTHING = "no queue of kfabric's, and no other thread in the modules"


@dataclass(frozen=True)
class Thread:
    """A thread of the guest.

    Attributes:
        state: the letter that ps prints.
        frames: functions, innermost first, each with its module if it is in one.
    """

    pid: int
    name: str
    state: str
    frames: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name, pid and state."""
        return f"thread {self.name}/{self.pid} {STATES.get(self.state, self.state)}"


@dataclass(frozen=True)
class Panic:
    """The panic: kernel release, message, and the thread that panicked if it is known."""

    release: str
    message: str
    thread: Thread | None = None


@dataclass(frozen=True)
class Sleeper:
    """A thread on a queue that has not been woken.

    Attributes:
        need: the number of entries, or the threshold, that it waits for; 0: any.
        seen: publications before its last check.
    """

    thread: Thread
    need: int
    seen: int

    def title(self, ready: bool) -> str:
        """One line; `ready` says whether the queue has something to read."""
        need = f" for {self.need}" if self.need > 1 else ""
        line = f"{self.thread.title}{need}; last looked after publication {self.seen}"
        # A thread that waits for more entries than there are sleeps rightly.
        return f"{line}; THOUGH SOMETHING IS READY" if ready and not need else line


@dataclass(frozen=True)
class Queue:
    """A wait queue: that of a wait set, or the own queue of a CQ, EQ, counter and so on.

    Attributes:
        ready: how many of its members have something to read.
        publications: how many there were.
        foreign: entries that are not kfabric's own: poll(2), a ULP.
        readable: of a wait set: the members that have something to read.
    """

    kind: str
    id: int
    ready: int
    publications: int
    sleepers: tuple[Sleeper, ...] = ()
    foreign: int = 0
    readable: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """One line, without the sleepers."""
        waiting = f"{len(self.sleepers)} waiting" if self.sleepers else "no thread waiting"
        names = f" ({', '.join(self.readable)})" if self.readable else ""
        ready = f"{self.ready} ready{names}" if self.ready else "nothing ready"
        line = f"{self.kind} {self.id}: {waiting}, {ready}"
        line += f", {counted(self.publications, 'publication')}"
        return f"{line}, {self.foreign} entries of others" if self.foreign else line


def _thread(thread: Thread, title: str = "") -> list[str]:
    return [f"    {title or thread.title}", *(f"      {frame}" for frame in thread.frames)]


def lines(
    panic: Panic, queues: Iterable[Queue], threads: Iterable[Thread], errors: Sequence[str] = ()
) -> list[str]:
    """The panic, the queues with their sleepers, then other threads and reading errors."""
    found = [f"linux {panic.release}: {panic.message}"]
    shown: set[int] = set()
    if panic.thread:
        found += _thread(panic.thread)
        shown.add(panic.thread.pid)
    before = len(found)
    for queue in queues:
        found.append(queue.title)
        for sleeper in queue.sleepers:
            found += _thread(sleeper.thread, sleeper.title(queue.ready > 0))
            shown.add(sleeper.thread.pid)
    others = [thread for thread in threads if thread.pid not in shown]
    if others:
        found.append("on none of these queues:")
    for thread in others:
        found += _thread(thread)
    if len(found) == before:
        found.append(NOTHING)
    return [*found, *(f"not readable: {error}" for error in errors)]
