# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The part of the model that sleeps: blocking calls, what wakes them, who runs first.

A blocking call looks, and sleeps if what it wants is not there (V2). A wake-up is
a hint: who was woken looks again (V5), and who leaves without what it was woken
for hands the wake-up on (V4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.model.state import Call, Cntr, Cq, Eq, Object, Queue, Source, WaitSet, Wake
from tests.model.steps import FOREVER, MAIN, STARTED

#: A call that goes on; never an outcome.
GOES_ON = object()


class Calls:
    """Objects by name, calls in progress by thread."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.objects: dict[str, Object] = {}
        self.calls: dict[str, Call] = {}
        self.lost = False
        self.ended: dict[str, Any] = {}
        self.choose: Callable[[Sequence[Any]], Any] = lambda options: options[0]

    def __repr__(self) -> str:
        """Everything that the future depends on: equal worlds look the same."""
        objects = sorted(self.objects.items())
        calls = sorted(self.calls.items())
        return f"{self.lost} {objects} {calls}"

    def copy(self) -> Any:
        """Return a world that changes on its own."""
        world = type(self)()
        world.objects = {name: found.copy() for name, found in self.objects.items()}
        world.lost = self.lost
        world.calls = {thread: call.copy() for thread, call in self.calls.items()}
        return world

    def all(self, kind: type) -> list[Object]:
        """Return all objects of a kind."""
        return [found for found in self.objects.values() if isinstance(found, kind)]

    # Blocking calls

    def wait(self, thread: str, name: str, timeout: str) -> Any:
        """W1: 0 at once if a member is ready. W3: to wait again ends one's turn."""
        self._turn_back(thread, self.objects[name])
        return self._begin(Call("wait", thread, name, name), timeout)

    def cq_sread(self, thread: str, name: str, count: int, threshold: int, timeout: str) -> Any:
        """Q1, Q4: not without a wait object of one's own, nor for more than fits."""
        cq = self.objects[name]
        need = max(threshold, 1) if cq.threshold else 1
        if cq.queue != name or need > cq.size:
            return "EINVAL"
        return self._begin(Call("cq_sread", thread, name, name, need, count=count), timeout)

    def eq_sread(self, thread: str, name: str, peek: bool, timeout: str) -> Any:
        """Q1: not without a wait object of one's own."""
        if self.objects[name].queue != name:
            return "EINVAL"
        return self._begin(Call("eq_sread", thread, name, name, 1, peek=peek), timeout)

    def cntr_wait(self, thread: str, name: str, threshold: int, timeout: str) -> Any:
        """Q6: errors count from the beginning of the call."""
        cntr = self.objects[name]
        if cntr.queue != name:
            return "EINVAL"
        call = Call("cntr_wait", thread, name, name, threshold, errors=cntr.error_changes)
        return self._begin(call, timeout)

    def _begin(self, call: Call, timeout: str) -> Any:
        """Look; then sleep, or give up at the deadline (W4)."""
        value = GOES_ON
        while value is GOES_ON and call.state != "asleep":
            value = self._run(call)
        if value is not GOES_ON:
            return value
        if timeout == FOREVER:
            self.calls[call.thread] = call
            return GOES_ON
        return self._too_late(call)

    def _too_late(self, call: Call) -> Any:
        """Q1, Q4: sread returns what is there, however little. Others: ETIMEDOUT."""
        if call.kind == "cq_sread":
            return self.take(call.thread, self.objects[call.subject], call.count)
        return [] if call.kind == "eq_sread" else "ETIMEDOUT"

    def answer(self, thread: str, value: Any) -> Any:
        """The step's result: that of the call for the main thread, else STARTED."""
        if thread == MAIN:
            return value
        if value is not GOES_ON:
            self.ended[thread] = value
        return STARTED

    def end_call(self, call: Call, value: Any) -> None:
        """A call in progress returns."""
        del self.calls[call.thread]
        self.ended[call.thread] = value

    def interrupt(self, call: Call, goes_on: bool) -> None:
        """W6: a signal; its result if the condition holds, else EINTR.

        It may hold while a thread sleeps: an exclusive set is ready for the one that
        was woken, and the others sleep on.
        """
        call.state = "awake"
        value = self._run(call)
        if value is not GOES_ON or not goes_on:
            self.end_call(call, "EINTR" if value is GOES_ON else value)

    # Waking

    def wake(self, wake: Wake) -> None:
        """W3, Q3, Q6: all whom it concerns; one, where one entry serves one thread."""
        concerned = [
            call
            for call in self.calls.values()
            if call.queue == wake.queue
            and call.state == "asleep"
            and (wake.everyone or wake.have >= call.need)
        ]
        if concerned and not wake.everyone and self._one_at_a_time(concerned[0].queue):
            concerned = [self.choose(concerned)]
        for call in concerned:
            call.state, call.woken, call.have = "awake", True, wake.have
            self._turn_given(call)

    def _one_at_a_time(self, queue: str) -> bool:
        """Q3: readers of a CQ or EQ. W3: sleepers of an exclusive set."""
        found = self.objects[queue]
        return found.exclusive if isinstance(found, WaitSet) else isinstance(found, Queue)

    def _hand_on(self, call: Call) -> None:
        """V4, Q3: what it was woken for is somebody else's."""
        queue = self.objects[call.subject]
        if call.woken and queue.stored:
            self.wake(Wake(call.queue, len(queue.stored), False))

    # Running

    def settle(self) -> None:
        """Let all who are awake run until they sleep or have returned."""
        while awake := self._awake():
            self._go_on(self.choose(awake))

    def run_some(self) -> None:
        """The same for as long as it takes until the next thing happens elsewhere."""
        while (awake := self._awake()) and self.choose([False, True]):
            self._go_on(self.choose(awake))

    def _awake(self) -> list[Call]:
        """Who may run next. The order matters only among readers of one queue."""
        awake = [call for call in self.calls.values() if call.state != "asleep"]
        readers = [call for call in awake if call.kind in ("cq_sread", "eq_sread")]
        if len(readers) < len(awake):
            return [call for call in awake if call not in readers][:1]
        return [call for call in readers if call.subject == readers[0].subject]

    def _go_on(self, call: Call) -> None:
        value = self._run(call)
        if value is not GOES_ON:
            self.end_call(call, value)

    def _run(self, call: Call) -> Any:
        """Let a thread do the next thing that others could come before or after."""
        return getattr(self, f"_run_{call.kind}")(call)

    def _sleep(self, call: Call) -> Any:
        call.state, call.woken = "asleep", False
        return GOES_ON

    def _run_wait(self, call: Call) -> Any:
        """V5: ready now, or signalled since it enqueued. O5: or all members are dead.

        Who is woken since the last living one was closed may say either.
        """
        ends = ["ok"] if call.woken or self.set_ready(call.subject) else []
        if self.dead(call.subject) and not self.set_ready(call.subject):
            ends.append("ENODEV")
        return self.choose(ends) if ends else self._sleep(call)

    def _run_cntr_wait(self, call: Call) -> Any:
        """Q6: reached; the value that woke it counts, also if it was set back since."""
        cntr: Cntr = self.objects[call.subject]
        if cntr.value >= call.need or (call.woken and call.have >= call.need):
            return "ok"
        if cntr.error_changes != call.errors:
            return "EAVAIL"
        return "ENODEV" if self.lost else self._sleep(call)

    def _run_cq_sread(self, call: Call) -> Any:
        """Q4: looks for enough, and takes; with a threshold others may come between."""
        cq: Cq = self.objects[call.subject]
        if call.state == "awake":
            if not self._enough(cq, call):
                self._hand_on(call)
                return self._sleep(call)
            call.state = "taking"
            if call.need > 1:
                return GOES_ON
        value = self.take(call.thread, cq, call.count)
        if value == [] and self.lost and not call.signalled:
            value = "ENODEV"
        if value == [] and not call.signalled:
            call.state, call.woken = "awake", False
            return GOES_ON
        if value == [] or isinstance(value, str):
            self._hand_on(call)
        return value

    def _enough(self, cq: Cq, call: Call) -> bool:
        """Q4, Q5, O5: the threshold; or whatever else ends the call below it."""
        return (
            len(cq.stored) >= call.need
            or any(stored.error for stored in cq.stored)
            or cq.overrun
            or call.signalled
            or self.lost
        )

    def _run_eq_sread(self, call: Call) -> Any:
        """Q1; Q7: who only peeks leaves the event to the next, and wakes it."""
        eq: Queue = self.objects[call.subject]
        value = self.take(call.thread, eq, 1, call.peek)
        if value == []:
            return self._sleep(call)
        if call.peek or isinstance(value, str):
            self._hand_on(call)
        return value

    # Reading

    def take(self, thread: str, queue: Queue, count: int, peek: bool = False) -> Any:
        """Q2: entries in order up to an error; else why there are none."""
        answer = queue.empty_answer()
        if answer:
            return [] if answer == "EAGAIN" else answer
        entries: list[int] = []
        for stored in queue.stored[:count]:
            if stored.error:
                break
            entries.append(stored.serial)
        if entries and not peek:
            del queue.stored[: len(entries)]
            self.used(thread, queue)
        return entries

    def take_error(self, thread: str, queue: Queue, peek: bool) -> Any:
        """Q1: the error at the head; overrun behind the last entry; else nothing."""
        answer = queue.empty_answer()
        if answer != "EAVAIL":
            return answer if answer == "EOVERRUN" else []
        serial = queue.stored[0].serial
        if not peek:
            del queue.stored[0]
            self.used(thread, queue)
        return [serial]

    def set_ready(self, name: str) -> bool:
        """W1: one of its members is ready."""
        return any(source.ready for source in self._members(name))

    def dead(self, name: str) -> bool:
        """O5: there are members, and the device of each is gone. An EQ has no device."""
        found = self.objects[name]
        members = [found] if isinstance(found, Source) else self._members(name)
        return self.lost and bool(members) and not any(isinstance(one, Eq) for one in members)

    def _members(self, name: str) -> list[Source]:
        return [source for source in self.all(Source) if source.set == name]

    # Exclusive waiting

    def _turn_given(self, call: Call) -> None:
        """W3: who is woken owes a read or another wait."""
        found = self.objects[call.queue]
        if isinstance(found, WaitSet) and found.exclusive:
            found.turns.append(call.thread)

    def _turn_back(self, thread: str, found: WaitSet) -> None:
        """W3: a wait on a set that is still ready passes one wake on."""
        if not self.set_ready(found.name):
            found.turns.clear()
        elif thread in found.turns:
            found.turns.remove(thread)
            self.wake(Wake(found.name, 0, False))

    def used(self, thread: str, source: Source) -> None:
        """W3: a read; it wakes one more if fewer are awake than entries remain."""
        found = self.objects[source.set] if source.set else None
        if found is None or not found.exclusive:
            return
        if thread in found.turns:
            found.turns.remove(thread)
        if not self.set_ready(found.name):
            found.turns.clear()
        elif self._more_than(len(found.turns), source):
            self.wake(Wake(found.name, 0, False))

    def _more_than(self, awake: int, read: Source) -> bool:
        """Is more unread than threads are awake? Others may be counted as one each."""
        others = [s.left for s in self.all(Source) if s.set == read.set and s is not read]
        surely = read.left + sum(left > 0 for left in others)
        perhaps = read.left + sum(others)
        if surely <= awake < perhaps:
            return bool(self.choose([False, True]))
        return bool(surely > awake)
