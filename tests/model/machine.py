# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Random programs: a Hypothesis state machine that the model guides.

The rules only write the program down; a guest does it at the end, in one go, and
the checker goes through it with what was observed. So a step costs no round trip,
and a program that failed can be done again, whatever the threads of the guest did,
with ever fewer steps. While it is written the model follows it, taking the first
of all open choices, which is only a guess and decides no more than which steps are
likely to do something.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kfabric.errors import GuestError
from tests.model.guest import Broken, ModelGuest
from tests.model.model import WRAP, World
from tests.model.search import Checker, Choices, Disagreement, without_needless
from tests.model.state import Cntr, Cq, Endpoint, Eq, Source, WaitSet
from tests.model.steps import CHECK, FOREVER, MAIN, SHORT, WORKERS, Step, show

#: Steps of one program, besides those that open its first objects.
PROGRAM_STEPS = 40

#: How many objects of each kind a program has at a time.
KINDS = {"w": 2, "cq": 3, "eq": 2, "ct": 2, "p": 2, "ep": 3}
SOURCES = ("cq", "eq", "ct")
CALLERS = (MAIN, *WORKERS)

#: Which of the objects that are there, or of the threads that are free.
ANY = st.integers(0, 5)
PLACES = st.sampled_from(["UNSPEC", "w0", "w1", "FD", "MUTEX_COND", "NONE"])
SET_PLACES = st.sampled_from(["UNSPEC", "FD", "MUTEX_COND"])
COUNTS = st.integers(1, 3)
# An overrun is for ever, so most queues should have room.
SIZES = st.sampled_from([8, 4, 16, 2, 1])
CONTEXTS = st.sampled_from(["process", "softirq", "workqueue"])
# Who waits without a limit is what this is about.
TIMEOUTS = st.sampled_from([FOREVER, FOREVER, FOREVER, CHECK, SHORT])
# A waiter for 2**31 or 2**63 sleeps until somebody sets the counter to it.
VALUES = st.sampled_from([1, 2, 0, 3, 5, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1])

OPEN_SET = st.tuples(st.just("w"), SET_PLACES, st.booleans())
OPEN_CQ = st.tuples(st.just("cq"), PLACES, SIZES, st.booleans())
OPEN_EQ = st.tuples(st.just("eq"), PLACES, SIZES)
OPEN_CNTR = st.tuples(st.just("ct"), PLACES)
OPEN_POLL = st.tuples(st.just("p"))
OPEN_EP = st.tuples(st.just("ep"), ANY, st.none() | ANY)
OPENING = st.one_of(OPEN_SET, OPEN_CQ, OPEN_EQ, OPEN_CNTR, OPEN_POLL, OPEN_EP)
_OPERATION = {"w": "set", "cq": "cq", "eq": "eq", "ct": "cntr", "p": "poll", "ep": "ep"}


class Found(AssertionError):
    """A program that the module and the model disagree on."""

    def __init__(self, program: list[Step], wrong: Exception) -> None:
        """Say what is wrong, and with which program."""
        super().__init__(f"{wrong}\nin the program\n{show(program)}")
        self.program = program
        self.wrong = wrong


def attempt(guest: ModelGuest, world: type[World], program: list[Step]) -> Exception | None:
    """Do a program and compare. Returns what is wrong, if anything."""
    whole = [*program, ["end"]]
    checker = Checker(world())
    try:
        for step, outcome in zip(whole, guest.run(whole), strict=True):
            checker.check(step, outcome)
    except (Disagreement, Broken, GuestError) as wrong:
        return wrong
    return None


def has(*kinds: str) -> Any:
    """The rule needs an object of one of these kinds."""
    return precondition(lambda self: bool(self._names(*kinds)))


class Machine(RuleBasedStateMachine):
    """Writes one program; :func:`explore` gives it a guest."""

    guest: ModelGuest
    world: type[World] = World

    def __init__(self) -> None:
        """Begin an empty program."""
        super().__init__()
        self.program: list[Step] = []
        self.likely = self.world()
        self.serial = 0

    def teardown(self) -> None:
        """Do the program in the guest, and compare."""
        wrong = attempt(self.guest, self.world, self.program)
        if wrong is not None:
            raise Found(self.program, wrong)

    def _do(self, *step: Any) -> None:
        self.program.append(list(step))
        self.likely.step(list(step), Choices())

    def _next(self) -> int:
        self.serial += 1
        return self.serial

    def _names(self, *kinds: str) -> list[str]:
        """The objects of these kinds that are open."""
        return [name for name in self.likely.objects if name.rstrip("0123456789") in kinds]

    def _one(self, which: int, *kinds: str) -> str:
        """One of them."""
        names = self._names(*kinds)
        return names[which % len(names)]

    def _free(self, kind: str) -> str | None:
        """A name for a new object."""
        names = (f"{kind}{i}" for i in range(KINDS[kind]))
        return next((name for name in names if name not in self.likely.objects), None)

    def _caller(self, which: int, timeout: str = CHECK) -> tuple[str, str]:
        """A thread that is free, and a timeout.

        The main thread has to come back; only it can tell a sleep that ends by
        itself from one that does not.
        """
        if timeout == SHORT:
            return MAIN, timeout
        first = 1 if timeout == FOREVER else 0
        free = [name for name in CALLERS[first:] if name not in self.likely.calls]
        return (free[which % len(free)], timeout) if free else (MAIN, CHECK)

    # Opening and closing

    @initialize(
        sets=st.lists(OPEN_SET, max_size=2),
        cqs=st.lists(OPEN_CQ, min_size=1, max_size=3),
        eqs=st.lists(OPEN_EQ, max_size=2),
        cntrs=st.lists(OPEN_CNTR, max_size=2),
        polls=st.lists(OPEN_POLL, max_size=2),
        eps=st.lists(OPEN_EP, min_size=1, max_size=3),
    )
    def begin(self, **openings: list[tuple[Any, ...]]) -> None:
        """Open some of everything, since little happens where nothing is."""
        for opening in (what for kind in openings.values() for what in kind):
            self._open(*opening)

    @precondition(lambda self: any(self._free(kind) for kind in KINDS))
    @rule(opening=OPENING)
    def open(self, opening: tuple[Any, ...]) -> None:
        """An object more; it may join a set in which threads sleep."""
        self._open(*opening)

    def _open(self, kind: str, *how: Any) -> None:
        name = self._free(kind)
        if name is None:
            return
        if kind == "ep":
            if not self._names("cq"):
                return
            cntr = how[1] is not None and self._names("ct")
            how = (self._one(how[0], "cq"), self._one(how[1], "ct") if cntr else None)
        elif how and how[0] in ("w0", "w1"):
            how = (how[0] if how[0] in self.likely.objects else "UNSPEC", *how[1:])
        self._do(f"open_{_OPERATION[kind]}", name, *how)

    @has(*KINDS)
    @rule(which=st.integers(0, 20))
    def close(self, which: int) -> None:
        """Close what may be in use."""
        self._do("close", self._one(which, *KINDS))

    # What happens

    @has("ep")
    @rule(which=ANY, count=COUNTS, where=CONTEXTS, entry=st.booleans())
    def complete(self, which: int, count: int, where: str, entry: bool) -> None:
        """Successes, one after the other; not all write entries."""
        self._do("complete", self._one(which, "ep"), self._next(), count, where, entry)

    @has("ep")
    @rule(which=ANY, where=CONTEXTS)
    def complete_one(self, which: int, where: str) -> None:
        """The most ordinary thing of all."""
        self._do("complete", self._one(which, "ep"), self._next(), 1, where, True)

    @has("ep")
    @rule(which=ANY, where=CONTEXTS)
    def fail(self, which: int, where: str) -> None:
        """A failure."""
        self._do("fail", self._one(which, "ep"), self._next(), where)

    @has("eq")
    @rule(which=ANY, what=st.sampled_from(["event", "event_error"]), where=CONTEXTS)
    def event(self, which: int, what: str, where: str) -> None:
        """A provider's event or error event."""
        self._do(what, self._one(which, "eq"), self._next(), where)

    @has("eq")
    @rule(which=ANY)
    def eq_write(self, which: int) -> None:
        """The user's own event."""
        self._do("eq_write", self._one(which, "eq"), self._next())

    @has("cq")
    @rule(which=ANY)
    def cq_signal(self, which: int) -> None:
        """A signal call."""
        self._do("cq_signal", self._one(which, "cq"))

    @has("ct")
    @rule(
        what=st.sampled_from(["cntr_add", "cntr_set", "cntr_adderr", "cntr_seterr"]),
        which=ANY,
        value=VALUES,
    )
    def cntr_change(self, what: str, which: int, value: int) -> None:
        """The user's own change of a counter."""
        self._do(what, self._one(which, "ct"), value)

    @precondition(lambda self: self.likely.calls)
    @rule(which=ANY, kind=st.sampled_from(["interrupt", "restart", "python"]))
    def signal(self, which: int, kind: str) -> None:
        """A POSIX signal to a thread that sleeps."""
        threads = list(self.likely.calls)
        self._do("signal", threads[which % len(threads)], kind)

    @precondition(lambda self: self.likely.calls and len(self.program) > PROGRAM_STEPS / 2)
    @rule()
    def lose(self) -> None:
        """The device goes, late enough for something to have happened before."""
        self._do("lose")

    # Reading and waiting

    @has("cq")
    @rule(who=ANY, which=ANY, count=st.integers(0, 3))
    def cq_read(self, who: int, which: int, count: int) -> None:
        """Read completions."""
        self._do("cq_read", self._caller(who)[0], self._one(which, "cq"), count)

    @has("eq")
    @rule(who=ANY, which=ANY, peek=st.booleans())
    def eq_read(self, who: int, which: int, peek: bool) -> None:
        """Read an event, or peek at it."""
        self._do("eq_read", self._caller(who)[0], self._one(which, "eq"), peek)

    @has("cq", "eq")
    @rule(who=ANY, which=ANY, peek=st.booleans())
    def readerr(self, who: int, which: int, peek: bool) -> None:
        """Read an error, or peek at it."""
        name = self._one(which, "cq", "eq")
        what = "cq_readerr" if name.startswith("cq") else "eq_readerr"
        self._do(what, self._caller(who)[0], name, peek)

    @has("ct")
    @rule(who=ANY, which=ANY, what=st.sampled_from(["cntr_read", "cntr_readerr"]))
    def cntr_read(self, who: int, which: int, what: str) -> None:
        """Read a counter."""
        self._do(what, self._caller(who)[0], self._one(which, "ct"))

    @has("cq")
    @rule(who=ANY, timeout=TIMEOUTS, which=ANY, count=COUNTS, threshold=st.integers(0, 4))
    def cq_sread(self, who: int, timeout: str, which: int, count: int, threshold: int) -> None:
        """Wait for completions."""
        thread, timeout = self._caller(who, timeout)
        self._do("cq_sread", thread, self._one(which, "cq"), count, threshold, timeout)

    @has("eq")
    @rule(who=ANY, timeout=TIMEOUTS, which=ANY, peek=st.booleans())
    def eq_sread(self, who: int, timeout: str, which: int, peek: bool) -> None:
        """Wait for an event."""
        thread, timeout = self._caller(who, timeout)
        self._do("eq_sread", thread, self._one(which, "eq"), peek, timeout)

    @has("ct")
    @rule(who=ANY, timeout=TIMEOUTS, which=ANY, threshold=VALUES)
    def cntr_wait(self, who: int, timeout: str, which: int, threshold: int) -> None:
        """Wait for a counter."""
        thread, timeout = self._caller(who, timeout)
        self._do("cntr_wait", thread, self._one(which, "ct"), threshold, timeout)

    @has("w")
    @rule(who=ANY, timeout=TIMEOUTS, which=ANY)
    def wait(self, who: int, timeout: str, which: int) -> None:
        """Wait on a set."""
        thread, timeout = self._caller(who, timeout)
        self._do("wait", thread, self._one(which, "w"), timeout)

    # Sleeping and waking: without these two most programs would be asleep, or never sleep

    @precondition(lambda self: self._idle())
    @rule(who=ANY, which=ANY, count=COUNTS, more=st.integers(1, 4))
    def sleep(self, who: int, which: int, count: int, more: int) -> None:
        """Wait for what is not there."""
        thread, timeout = self._caller(who, FOREVER)
        if timeout != FOREVER:
            return
        idle = self._idle()
        name = idle[which % len(idle)]
        found = self.likely.objects[name]
        if isinstance(found, WaitSet):
            self._do("wait", thread, name, timeout)
        elif isinstance(found, Cq):
            self._do("cq_sread", thread, name, count, more, timeout)
        elif isinstance(found, Eq):
            self._do("eq_sread", thread, name, count == 1, timeout)
        else:
            self._do("cntr_wait", thread, name, (found.value + more) % WRAP, timeout)

    @rule(who=ANY, which=ANY, count=COUNTS, how=st.integers(0, 3), where=CONTEXTS)
    def sleep_or_stir(self, who: int, which: int, count: int, how: int, where: str) -> None:
        """One after the other: what neither of them alone would often do."""
        if self.likely.calls:
            self.stir(which, who, how, where)
        elif self._idle():
            self.sleep(who, which, count, 1)

    def _idle(self) -> list[str]:
        """What is not ready, and can be waited for."""
        likely = self.likely
        sets = [found.name for found in likely.all(WaitSet) if not likely.set_ready(found.name)]
        own = [one for one in likely.all(Source) if one.queue == one.name]
        return sets + [one.name for one in own if isinstance(one, Cntr) or not one.ready]

    @precondition(lambda self: self.likely.calls)
    @rule(which=ANY, source=ANY, how=st.integers(0, 3), where=CONTEXTS)
    def stir(self, which: int, source: int, how: int, where: str) -> None:
        """Do something to what a sleeper waits for."""
        queues = [call.queue for call in self.likely.calls.values()]
        queue = queues[which % len(queues)]
        sources = [one for one in self.likely.all(Source) if one.queue == queue]
        if sources:
            self._stir(sources[source % len(sources)], how, where)

    def _stir(self, source: Source, how: int, where: str) -> None:
        if isinstance(source, Eq):
            self._do("event" if how < 3 else "event_error", source.name, self._next(), where)
            return
        ep = self._endpoint_of(source)
        if ep and how < 3:
            self._do("complete", ep, self._next(), how + 1, where, True)
        elif ep:
            self._do("fail", ep, self._next(), where)
        elif isinstance(source, Cntr):
            self._do("cntr_add", source.name, 1 + how)
        else:
            self._do("cq_signal", source.name)

    def _endpoint_of(self, source: Source) -> str | None:
        """An endpoint that reports to it; a new one if there is room."""
        eps = [ep.name for ep in self.likely.all(Endpoint) if source.name in (ep.cq, ep.cntr)]
        name, cqs = self._free("ep"), self._names("cq")
        if eps or not name or not cqs:
            return eps[0] if eps else None
        if isinstance(source, Cntr):
            self._do("open_ep", name, cqs[0], source.name)
        else:
            self._do("open_ep", name, source.name, None)
        return name

    # Poll sets and wait objects

    @has("p")
    @rule(what=st.sampled_from(["poll_add", "poll_add", "poll_del"]), poll=ANY, which=ANY)
    def membership(self, what: str, poll: int, which: int) -> None:
        """Add a member, perhaps once more; remove one, perhaps a stranger."""
        if self._names(*SOURCES):
            self._do(what, self._one(poll, "p"), self._one(which, *SOURCES))

    @has("p")
    @rule(which=ANY, count=st.sampled_from([1, 2, 3, 8]))
    def poll(self, which: int, count: int) -> None:
        """Ask what is ready."""
        self._do("poll", self._one(which, "p"), count)

    @has("w", *SOURCES)
    @rule(which=st.lists(ANY, min_size=1, max_size=3))
    def trywait(self, which: list[int]) -> None:
        """May one block on these?"""
        self._do("trywait", [self._one(one, "w", *SOURCES) for one in which])

    @has("w", *SOURCES)
    @rule(which=ANY)
    def readable(self, which: int) -> None:
        """What does a descriptor say?"""
        self._do("readable", self._one(which, "w", *SOURCES))


def explore(
    guest: ModelGuest, steps: int, machine: type[Machine] = Machine, **options: Any
) -> None:
    """Run random programs with about this many steps in all.

    Args:
        guest: where.
        steps: how many.
        machine: what writes the programs.
        options: for hypothesis.settings.

    Raises:
        Found: a program that fails, and none of whose steps can be left out.
    """
    chosen = {
        "max_examples": max(steps // PROGRAM_STEPS, 1),
        "stateful_step_count": PROGRAM_STEPS,
        "deadline": None,
        "suppress_health_check": list(HealthCheck),
        # It would shrink what the rules draw. Steps are what we want fewer of.
        "phases": [Phase.reuse, Phase.generate],
        **options,
    }
    bound = type(machine.__name__, (machine,), {"guest": guest})
    try:
        run_state_machine_as_test(bound, settings=settings(**chosen))
    except Found as found:
        raise smallest(guest, machine.world, found) from None


def smallest(guest: ModelGuest, world: type[World], found: Found) -> Found:
    """Leave out what can be left out, as long as it goes wrong in the same way."""
    kind, last = type(found.wrong), [found.wrong]

    def fails(program: list[Step]) -> bool:
        wrong = attempt(guest, world, program)
        if type(wrong) is not kind:
            return False
        last[:] = [wrong]
        return True

    return Found(without_needless(found.program, fails), last[0])
