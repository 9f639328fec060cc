# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The contract as a program: wait sets, poll sets, queues and counters without a kernel.

A :class:`World` is everything that a program has made. One step changes it and
says what the step returns and which sleeping calls end. Where the contract leaves
something open the world asks ``choose``; see search.py. The rules in the
docstrings are those of docs/contract.md. Nothing here knows how the module does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, TypeVar

from tests.model.calls import Calls
from tests.model.state import (
    NONE,
    OWN,
    Cntr,
    Cq,
    Endpoint,
    Eq,
    Member,
    PollSet,
    Queue,
    Source,
    Stored,
    WaitSet,
    Wake,
)
from tests.model.steps import Outcome, Step, actor, refusal

T = TypeVar("T")
Choose = Callable[[Sequence[T]], T]
WRAP = 1 << 64


class Failed(Exception):
    """A call fails; its argument is the name of the error."""


class World(Calls):
    """All objects and all calls in progress."""

    def step(self, step: Step, choose: Choose[Any]) -> Outcome:
        """Do one step, and let every thread run until it sleeps or has returned."""
        self.choose = choose
        self.ended: dict[str, Any] = {}
        result = refusal(step, self.objects, self.calls)
        if result is None:
            result = self._answer(step)
        self.settle()
        self._forget_places()
        return Outcome(result, self.ended)

    def _answer(self, step: Step) -> Any:
        """Make the call, in the thread that the step names."""
        try:
            value = getattr(self, step[0])(*step[1:])
        except Failed as failed:
            value = failed.args[0]
        thread = actor(step)
        if thread is None:
            return value
        return self.answer(thread, value)

    # Opening and closing

    def open_set(self, name: str, place: str, exclusive: bool) -> str:
        """W8: a wait set; `exclusive`: with KFI_WAIT_EXCLUSIVE."""
        self.objects[name] = WaitSet(name, place, exclusive)
        return "ok"

    def open_cq(self, name: str, place: str, size: int, threshold: bool) -> str:
        """W7: it joins the set that `place` names. O5: not on a device that is gone."""
        self._need_device()
        self.objects[name] = Cq(name, place, size, threshold=threshold)
        return "ok"

    def open_eq(self, name: str, place: str, size: int) -> str:
        """W7: it joins the set that `place` names."""
        self.objects[name] = Eq(name, place, size)
        return "ok"

    def open_cntr(self, name: str, place: str) -> str:
        """W7: it joins the set that `place` names."""
        self._need_device()
        self.objects[name] = Cntr(name, place)
        return "ok"

    def open_poll(self, name: str) -> str:
        """An empty poll set."""
        self._need_device()
        self.objects[name] = PollSet(name)
        return "ok"

    def open_ep(self, name: str, cq: str, cntr: str | None) -> str:
        """An endpoint that reports to these; it pins them (V8)."""
        self._need_device()
        self.objects[name] = Endpoint(name, cq, cntr)
        return "ok"

    def close(self, name: str) -> str:
        """O1: what is in use stays as it is."""
        if self._in_use(name):
            raise Failed("EBUSY")
        found = self.objects.pop(name)
        if isinstance(found, Source) and found.set and self.dead(found.set):
            self.wake(Wake(found.set, 0, True))
        return "ok"

    def _need_device(self) -> None:
        """O5: later calls on the device."""
        if self.lost:
            raise Failed("ENODEV")

    def _in_use(self, name: str) -> bool:
        """O1: bound objects, members of poll sets, members of wait sets, sleepers."""
        found = self.objects[name]
        if isinstance(found, PollSet):
            return bool(found.members)
        return (
            any(name in (ep.cq, ep.cntr) for ep in self.all(Endpoint))
            or any(name in poll.members for poll in self.all(PollSet))
            or any(source.set == name for source in self.all(Source))
            or any(call.subject == name for call in self.calls.values())
        )

    # What happens

    def complete(self, ep: str, serial: int, count: int, where: str, entry: bool) -> str:
        """Q8, W10: successes, one after the other; `entry`: they write CQ entries."""
        self._need_device()
        for number in range(count):
            if number:
                self.run_some()
            self._complete(self.objects[ep], Stored(serial, False), entry)
        return "ok"

    def fail(self, ep: str, serial: int, where: str) -> str:
        """Q8, V7: an operation fails."""
        self._need_device()
        self._complete(self.objects[ep], Stored(serial, True), True)
        return "ok"

    def _complete(self, ep: Endpoint, what: Stored, entry: bool) -> None:
        """Q8: stored in all its targets first; a set that holds several is woken once."""
        wakes = []
        if entry:
            wakes.append(self._store(self.objects[ep.cq], what))
        if ep.cntr:
            wakes.append(self._count(self.objects[ep.cntr], what.error))
        woken = set()
        for wake in wakes:
            if wake.queue and wake.queue not in woken:
                woken.add(wake.queue)
                self.wake(wake)

    def _store(self, queue: Queue, what: Stored) -> Wake:
        """Q2: overrun is sticky, and nothing is stored behind it. It wakes everyone.

        An error wakes everyone who sleeps on the queue itself.
        """
        if queue.full:
            queue.overrun = True
            return Wake(queue.queue, len(queue.stored), True)
        queue.stored.append(what)
        everyone = what.error and not queue.set
        return Wake(queue.queue, len(queue.stored), everyone)

    def _count(self, cntr: Cntr, error: bool) -> Wake:
        """P1, Q6: a change; an error ends every cntr_wait."""
        if error:
            cntr.errors = (cntr.errors + 1) % WRAP
            cntr.error_changes += 1
        else:
            cntr.value = (cntr.value + 1) % WRAP
            cntr.value_changes += 1
        return Wake(cntr.queue, cntr.value, error and not cntr.set)

    def lose(self) -> str:
        """O5: a last error entry for each CQ, an error change for each counter.

        What is full is overrun instead. Everybody wakes, as for an overrun.
        """
        self._need_device()
        self.lost = True
        for source in self.all(Source):
            if isinstance(source, Cq):
                self._store(source, Stored(0, True))
            elif isinstance(source, Cntr):
                source.error_changes += 1
        for source in self.all(Source):
            if not isinstance(source, Eq):
                have = source.value if isinstance(source, Cntr) else source.left
                self.wake(Wake(source.queue, have, True))
        return "ok"

    def event(self, eq: str, serial: int, where: str) -> str:
        """A provider's event. Q10: without room it is refused and changes nothing."""
        return self._event(self.objects[eq], Stored(serial, False))

    def event_error(self, eq: str, serial: int, where: str) -> str:
        """A provider's error event."""
        return self._event(self.objects[eq], Stored(serial, True))

    def _event(self, eq: Eq, what: Stored) -> str:
        if eq.full:
            raise Failed("EAGAIN")
        self.wake(self._store(eq, what))
        return "ok"

    def eq_write(self, eq: str, serial: int) -> str:
        """The user's own event; without room it is refused and changes nothing."""
        queue = self.objects[eq]
        if queue.full:
            raise Failed("EAGAIN")
        self.wake(self._store(queue, Stored(serial, False)))
        return "ok"

    def cq_signal(self, cq: str) -> str:
        """Q5: frees those asleep now, in sread and in the CQ's set; has no memory."""
        queue = self.objects[cq]
        if queue.queue is None:
            raise Failed("EINVAL")
        for call in self.calls.values():
            call.signalled |= call.subject == cq
        self.wake(Wake(queue.queue, 0, True))
        return "ok"

    def cntr_add(self, cntr: str, value: int) -> str:
        """W1: the user's own add is a signal: it ends waits and leaves nothing ready."""
        found = self.objects[cntr]
        return self.cntr_set(cntr, (found.value + value) % WRAP)

    def cntr_set(self, cntr: str, value: int) -> str:
        """W1: the same. Q6: who waits for less than it has now is not woken."""
        found = self.objects[cntr]
        found.value = value
        self.wake(Wake(found.queue, value, found.set is not None))
        return "ok"

    def cntr_adderr(self, cntr: str, value: int) -> str:
        """P1, Q6: a change, and an error for everyone who waits."""
        found = self.objects[cntr]
        return self.cntr_seterr(cntr, (found.errors + value) % WRAP)

    def cntr_seterr(self, cntr: str, value: int) -> str:
        """P1, Q6: a change even if the value is the same."""
        found = self.objects[cntr]
        found.errors = value
        found.error_changes += 1
        self.wake(Wake(found.queue, found.value, found.set is None))
        return "ok"

    def signal(self, thread: str, kind: str) -> str:
        """W5: EINTR only where a handler without SA_RESTART ran and nobody goes on.

        Python itself goes on after any handler (PEP 475), as the kernel does after
        one with SA_RESTART.
        """
        if thread not in self.calls:
            return "idle"
        self.interrupt(self.calls[thread], goes_on=kind != "interrupt")
        return "ok"

    def end(self) -> str:
        """The end of every program: calls in progress are interrupted, all is closed."""
        for call in list(self.calls.values()):
            self.interrupt(call, goes_on=False)
        self.objects.clear()
        self.lost = False
        return "ok"

    # Reading

    def cq_read(self, thread: str, cq: str, count: int) -> Any:
        """Q2, Q7: the oldest entries up to an error; a count of 0 consumes nothing."""
        return self.take(thread, self.objects[cq], count)

    def cq_readerr(self, thread: str, cq: str, peek: bool) -> Any:
        """Q1: the error at the head, once."""
        return self.take_error(thread, self.objects[cq], peek)

    def eq_read(self, thread: str, eq: str, peek: bool) -> Any:
        """Q2, Q7: the oldest event; KFI_PEEK consumes nothing."""
        return self.take(thread, self.objects[eq], 1, peek)

    def eq_readerr(self, thread: str, eq: str, peek: bool) -> Any:
        """Q1: the error at the head, once."""
        return self.take_error(thread, self.objects[eq], peek)

    def cntr_read(self, thread: str, cntr: str) -> int:
        """W1: moves the read mark of the value, and only that."""
        found = self.objects[cntr]
        found.value_read = found.value_changes
        self.used(thread, found)
        return int(found.value)

    def cntr_readerr(self, thread: str, cntr: str) -> int:
        """W1: moves the read mark of the errors, and only that."""
        found = self.objects[cntr]
        found.error_read = found.error_changes
        self.used(thread, found)
        return int(found.errors)

    # Poll sets

    def poll_add(self, poll: str, name: str) -> str:
        """P5: twice is EALREADY. P1: a new member's mark is 0."""
        members = self.objects[poll].members
        if name in members:
            raise Failed("EALREADY")
        members[name] = Member()
        return "ok"

    def poll_del(self, poll: str, name: str) -> str:
        """P5: a stranger is EINVAL."""
        members = self.objects[poll].members
        if name not in members:
            raise Failed("EINVAL")
        del members[name]
        return "ok"

    def poll(self, poll: str, count: int) -> list[str]:
        """P1, P2: as many of the ready ones as fit, none twice, in turn."""
        found = self.objects[poll]
        ready = sorted(name for name in found.members if self._reports(found, name))
        if count >= len(ready):
            told = tuple(ready)
        else:
            told = self.choose([c for c in combinations(ready, count) if self._fair(found, c)])
        self._told(found, ready, told)
        return list(told)

    def _reports(self, poll: PollSet, name: str) -> bool:
        """P1: has it something to report to this set?"""
        source = self.objects[name]
        if isinstance(source, Cntr):
            return source.changes != poll.members[name].mark
        return bool(source.ready)

    def _fair(self, poll: PollSet, told: tuple[str, ...]) -> bool:
        """P2: nobody is reported twice while one that stayed ready waits.

        From this follows ceil(ready/count): before it is told, each of the others
        that are ready is told at most once.
        """
        return not any(
            member.passed_by.intersection(told)
            for name, member in poll.members.items()
            if name not in told and self._reports(poll, name)
        )

    def _told(self, poll: PollSet, ready: list[str], told: tuple[str, ...]) -> None:
        """P1: only the report moves the mark."""
        for name in ready:
            member = poll.members[name]
            if name not in told:
                member.passed_by |= frozenset(told)
                continue
            member.passed_by = frozenset()
            if isinstance(self.objects[name], Cntr):
                member.mark = self.objects[name].changes

    def _forget_places(self) -> None:
        """P2 speaks of members that stay ready: who is not begins anew."""
        for poll in self.all(PollSet):
            for name, member in poll.members.items():
                if member.passed_by and not self._reports(poll, name):
                    member.passed_by = frozenset()

    # Wait objects

    def trywait(self, names: list[str]) -> str:
        """T1: 0 if nothing is readable. T2: all of one kind; members as their set."""
        kinds = {self._kind(name) for name in names}
        if len(kinds) > 1 or NONE in kinds:
            raise Failed("EINVAL")
        if any(self._signalled(name) for name in names):
            return "EAGAIN"
        return "ENODEV" if any(self.dead(self._waits_in(name)) for name in names) else "ok"

    def readable(self, name: str) -> Any:
        """W8: readable exactly while it is ready; POLLERR and POLLHUP once all is lost."""
        found = self.objects[name]
        if found.place == "MUTEX_COND":
            raise Failed("EOPNOTSUPP")
        if found.place != "FD" or (isinstance(found, WaitSet) and found.exclusive):
            raise Failed("EINVAL")
        return [self._signalled(name), self.dead(name)]

    def _kind(self, name: str) -> str:
        """T2: a member waits as its set does."""
        found = self.objects[name]
        return str(found.place if found.place in (*OWN, NONE) else self.objects[found.place].place)

    def _signalled(self, name: str) -> bool:
        """W1: is it, or the set that it is part of, ready?"""
        found = self.objects[self._waits_in(name)]
        return self.set_ready(found.name) if isinstance(found, WaitSet) else bool(found.ready)

    def _waits_in(self, name: str) -> str:
        """T2: a member is judged as part of its set."""
        found = self.objects[name]
        return found.set or name if isinstance(found, Source) else name
