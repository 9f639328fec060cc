# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A counterexample as a guest test: delay hooks hold the threads of the real kernel in its order.

A test holds a thread in three places only: before its call, at a delay hook, and asleep. Where
the counterexample switches elsewhere, it cannot be exported.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from kfabric.errors import SetupError
from kfabric.prove.output import NO_POINTS, Finding, Scenario, Step
from kfabric.prove.sharing import ALONE

GUEST = Path("tests/prove/guest.toml")
"""The calls of kfabric_py that stand for the threads of a scenario."""
KINDS = ("asleep", "asleep-beside-ready", "check", "warn", "bug")
"""The findings that a test can see: by a call's result, or by the kernel's log."""
NOT_AT_HOOKS = "no hook lies where the threads have to switch"
WAKES = "D4"
"""The hook that a thread comes to after its sleep."""
_STATE = "state of "
_NAME = re.compile(r"\w+(\.\w+)*")
_START = re.compile(r"(\w+) = (in_thread\(.*)")
WIDTH = 100


class NotExportable(Exception):
    """No guest test can play the counterexample; the reason is one line."""


@dataclass(frozen=True, slots=True)
class Translation:
    """How a guest test plays a scenario.

    Args:
        lines: Python that opens the objects.
        threads: for each thread the call that stands for it.
        check: Python that checks the promise.
        sleeps: the object on whose queue threads sleep.
        publishes: the object on which publications come first.
    """

    lines: str
    threads: Mapping[str, str]
    check: str
    sleeps: str
    publishes: str

    def object_of(self, hook: str) -> str:
        """The object that a delay hook is armed on. Raises NotExportable."""
        objects = dict.fromkeys(("D1", WAKES, "D5"), self.sleeps) | {"D3": self.publishes}
        if hook not in objects:
            raise NotExportable(f"{GUEST} names no object for the hook {hook}")
        return objects[hook]


def translations(checkout: Path) -> dict[str, Translation]:
    """By the scenario's name. Raises SetupError."""
    try:
        table = tomllib.loads((checkout / GUEST).read_text(encoding="utf-8"))
        objects = table.pop("objects")
        return {
            name: Translation(
                threads=scenario["threads"], check=scenario["check"], **objects[scenario["objects"]]
            )
            for name, scenario in table.items()
        }
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise SetupError(f"{GUEST}: {error}") from None


def guest_test(
    scenario: Scenario, finding: Finding, steps: Sequence[Step], again: str, checkout: Path
) -> str:
    """The text of the test.

    Args:
        scenario: the scenario.
        finding: the fault that the steps show.
        steps: those of the counterexample.
        again: the command that plays it again.
        checkout: where the translations are.

    Raises:
        NotExportable: no test can play it; the reason is one line.
        SetupError: the translations cannot be read.
    """
    if finding.kind not in KINDS:
        raise NotExportable(f"a guest test cannot see the finding {finding.kind}")
    known = translations(checkout)
    if scenario.name not in known:
        raise NotExportable(f"{GUEST} has no calls for the threads of {scenario.name}")
    translation = known[scenario.name]
    script = _Script(translation, scenario.threads, turns(steps, scenario.threads))
    body = _named(list(script.lines()), translation.check)
    found = f"Found by kfabric prove: {finding.kind}: {finding.text}."
    return _file(scenario, [found, *script.notes, again], translation, body)


@dataclass(slots=True)
class Turn:
    """What one thread does before another one runs.

    Args:
        thread: its name.
        steps: its steps.
    """

    thread: str
    steps: list[Step]

    @property
    def ends(self) -> str:
        """How it ends: the name of a hook, ``sleep``, ``end``, or empty: elsewhere."""
        last = self.steps[-1]
        match last.op:
            case "hook":
                return last.object
            case "sleep" if last.object.startswith(_STATE):
                return "sleep"
            case "end":
                return "end"
        return ""

    @property
    def passes(self) -> list[str]:
        """The hooks that it comes to, but does not stop at."""
        hooks = [step.object for step in self.steps if step.op == "hook"]
        return hooks[:-1] if self.steps[-1].op == "hook" else hooks

    def wakes(self, thread: str) -> bool:
        """Whether it wakes a thread that sleeps."""
        return any(
            step.op == "update" and step.object == f"{_STATE}{thread}" for step in self.steps
        )


def turns(steps: Sequence[Step], threads: Sequence[str]) -> list[Turn]:
    """The turns of the threads, in order.

    Raises:
        NotExportable: a thread that the scenario does not declare takes a turn before the last
            one, or an allocation fails.
    """
    running = [step for step in steps if step.thread not in ALONE and step.op not in NO_POINTS]
    if any(step.op == "choice" and step.value not in ("", "0") for step in running):
        raise NotExportable("a choice of the scenario, or an allocation that fails, decides")
    made = [Turn(thread, list(each)) for thread, each in groupby(running, lambda step: step.thread)]
    while made and made[-1].thread not in threads:
        made.pop()
    for turn in made:
        if turn.thread not in threads:
            raise NotExportable(f"{turn.thread} takes a turn, and no call of a test is that")
    return made


@dataclass
class _Script:
    """Writes the body of the test, turn by turn.

    Args:
        translation: of the scenario.
        threads: the scenario's threads, in order.
        turns: the turns.
        held: by thread, the hook that it stands at.
        started: the threads whose calls have begun.
        notes: sentences on what no hook decides.
    """

    translation: Translation
    threads: Sequence[str]
    turns: Sequence[Turn]
    held: dict[str, str] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The lines between those that open the objects and those that check."""
        for number, turn in enumerate(self.turns):
            yield from self._turn(number, turn)
        for hook in self.held.values():
            yield f"{hook.lower()}.go()"
        for thread in self.threads:
            if thread not in self.started:
                yield self._start(thread)

    def _turn(self, number: int, turn: Turn) -> Iterator[str]:
        last = number == len(self.turns) - 1
        stops = turn.ends if turn.ends.startswith("D") and not last else ""
        if stops and self.held.get(turn.thread) == stops and not turn.passes:
            return  # it stands there since it was woken
        woken = self._woken(number, turn)
        for thread, hook in {turn.thread: stops, woken: WAKES}.items():
            if thread and hook:
                yield self._arm(thread, hook, turn)
        after = "" if stops or last else self._after(number)
        yield from self._run(turn.thread, after)
        for thread, hook in {turn.thread: stops, woken: WAKES}.items():
            if thread and hook:
                self.held[thread] = hook
                yield f"{hook.lower()}.stopped()"

    def _next(self, number: int, thread: str) -> int | None:
        """The thread's first turn after this one."""
        later = range(number + 1, len(self.turns))
        return next((i for i in later if self.turns[i].thread == thread), None)

    def _woken(self, number: int, turn: Turn) -> str:
        """The thread that is woken in a turn and stops at the hook after its sleep; or empty.

        Raises:
            NotExportable: one that is woken would have to stop elsewhere.
        """
        woken = {
            thread: following
            for thread in self.threads
            if (following := self._next(number, thread)) and self._wakes(number, turn, thread)
        }
        holds = [one for one in woken if self._can_hold(woken[one], turn)]
        # One hook holds one thread; the others must be due at once.
        stops = max(holds, key=lambda one: woken[one], default="")
        for thread, following in woken.items():
            if thread == stops:
                until = f"to the hook {WAKES}"
            elif following == number + 1:
                until = "on"
            else:
                raise NotExportable(f"no hook holds {thread} from its wake-up to its next turn")
            self.notes.append(f"From its wake-up {until}, {thread} runs beside {turn.thread}.")
        return stops

    def _wakes(self, number: int, turn: Turn, thread: str) -> bool:
        """Whether the thread sleeps before this turn, and is woken in it."""
        before = [one for one in self.turns[:number] if one.thread == thread]
        if not before or before[-1].ends != "sleep" or thread in self.held:
            return False
        return turn.wakes(thread)

    def _can_hold(self, following: int, turn: Turn) -> bool:
        hooks = [step.object for step in self.turns[following].steps if step.op == "hook"]
        taken = [*self.held.values(), *turn.passes, turn.ends]
        return hooks[:1] == [WAKES] and WAKES not in taken

    def _arm(self, thread: str, hook: str, turn: Turn) -> str:
        """Arm a hook for a thread that will come to it in this turn."""
        if hook in self.held.values():
            raise NotExportable(f"{thread} would stop at {hook}, where a thread stands already")
        if hook in turn.passes:
            raise NotExportable(f"{turn.thread} passes {hook} before {thread} would stop there")
        return f'{hook.lower()} = mock.hook("{hook}", {self.translation.object_of(hook)})'

    def _run(self, thread: str, after: str) -> Iterator[str]:
        """Let a thread run, and wait for the end of its turn."""
        if thread not in self.started:
            yield self._start(thread)
        elif thread in self.held:
            yield f"{self.held.pop(thread).lower()}.go()"
        if after:
            yield f"{_variable(thread)}.{after}()"

    def _start(self, thread: str) -> str:
        self.started.append(thread)
        if thread not in self.translation.threads:
            raise NotExportable(f"{GUEST} has no call for the thread {thread}")
        call = self.translation.threads[thread]
        name = call.removesuffix("()")
        body = name if _NAME.fullmatch(name) else f"lambda: {call}"
        return f"{_variable(thread)} = in_thread({body})"

    def _after(self, number: int) -> str:
        """The method of a Call that waits for the end of a turn."""
        turn = self.turns[number]
        match turn.ends:
            case "sleep":
                return "at_rest"  # without the fault, the thread may not sleep here
            case "end":
                return "settle"
        place = " ".join(filter(None, [turn.steps[-1].op, turn.steps[-1].object]))
        following = self.turns[number + 1].thread
        raise NotExportable(f"{following} runs while {turn.thread} is at no hook, after: {place}")


def _named(body: Sequence[str], check: str) -> list[str]:
    """The lines of a body, in which only calls that are used again have names."""
    made = []
    for line in body:
        started = _START.fullmatch(line)
        rest = "\n".join([*(other for other in body if other != line), check])
        unused = started and not re.search(rf"\b{started[1]}\b", rest)
        made.append(started[2] if started and unused else line)
    return made


def _variable(thread: str) -> str:
    """A thread's name as one of Python."""
    return re.sub(r"\W+", "_", thread)


def _file(
    scenario: Scenario, about: Sequence[str], translation: Translation, body: Sequence[str]
) -> str:
    """The whole file; ``about``: paragraphs of the docstring."""
    inner = [f"{translation.lines.strip()}\n", *body, translation.check.strip()]
    text = "\n".join(inner)
    own = ["import kfabric_py as kp"] if "kp." in text else []
    own += [_WAITING] if "wait_until(" in text else []
    says = f"{', '.join(scenario.rules)}: {scenario.says}."
    doc = "\n\n".join(textwrap.fill(part, WIDTH - 7) for part in (says, *about))
    return _FILE.format(
        name=scenario.name,
        variable=_variable(scenario.name),
        support=", ".join([*(["LIMIT"] if "LIMIT" in text else []), "Call", "Mock"]),
        own="".join(f"{line}\n" for line in [*own, ""] if own),
        body=textwrap.indent(f'"""{doc}\n"""\n{text}', "    ", lambda line: bool(line.strip())),
    )


_WAITING = "from kfabric.guest.waiting import Deadline, wait_until"
_FILE = '''\
# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The interleaving of {name} that kfabric prove found, held by delay hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from guest_support import {support}

{own}pytestmark = pytest.mark.core

InThread = Callable[[Callable[[], Any]], Call[Any]]


def test_{variable}(mock: Mock, in_thread: InThread) -> None:
{body}
'''
