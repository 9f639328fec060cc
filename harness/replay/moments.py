# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The moments of an execution in a user's words: calls, visits, events of a story."""

import json
import re
from dataclasses import dataclass, replace
from typing import Self

from kfabric import names
from kfabric.errors import UsageError, near
from kfabric.replay import symbols
from kfabric.replay.execution import OUT, Execution

_MOMENT = re.compile(
    r"(?:last(?: call| visit)?|(?:call|visit) (?P<number>[1-9]\d{0,8}))"
    r" of (?P<name>[\w.]+)(?P<offset>\+0x[0-9a-f]{1,8})?"
)
_BESIDE = re.compile(r"(last|next) ((?:call|visit) of \S+) (before|after) (.+)")
_TOLD = re.compile(r"(?:at \d+\.\d{3} ms|(?:wait|publication) \d+)(?: of \S+)?")
_CLOCK = "ktime_get_mono_fast_ns"
"""Where records get their times from: bpf_ktime_get_ns() is nothing else."""


@dataclass(frozen=True)
class Moment:
    """A call of a function, or a visit of a point in it: the CPU is about to execute what is there.

    Attributes:
        number: from the beginning, from 1 on; 0: the last one.
        offset: of an instruction, from that of the function.
        told: the words for an event of a story instead; the function is then the tracer's clock.
        beside: the moment before which it is the last one, or after which it is the next one.
        after: after that one.
    """

    function: str
    number: int = 0
    offset: int = 0
    told: str = ""
    beside: Self | None = None
    after: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """It, from the user's words. Raises ValueError."""
        if _TOLD.fullmatch(text):
            return cls(_CLOCK, told=text)
        if found := _BESIDE.fullmatch(text):
            order, what, side, other = found.groups()
            if (order, side) in (("last", "before"), ("next", "after")):
                one = cls.parse(f"last {what}")
                return replace(one, beside=cls.parse(other), after=side == "after")
        if not (found := _MOMENT.fullmatch(text)):
            raise ValueError(
                f"{text!r} is not like 'last call of f', 'visit 12 of f+0x34', 'at 0.012 ms', "
                "'wait 7' or 'last call of f before wait 7'"
            )
        return cls(found["name"], int(found["number"] or 0), int(found["offset"] or "0", 16))

    def is_told_by(self, after: str, text: str) -> bool:
        """Whether it is this event of a story, which came so long after the first one."""
        what, _, who = self.told.partition(" of ")
        if who and f"thread {who} " not in f"{text} ":
            return False
        return what == f"at {after.strip()}" or bool(re.search(rf"\b{re.escape(what)}\b", text))

    @property
    def place(self) -> str:
        """Where it is."""
        return f"{self.function}+{self.offset:#x}" if self.offset else self.function

    def __str__(self) -> str:
        if self.told:
            return self.told
        what = "visit" if self.offset else "call"
        if self.beside and self.after:
            return f"next {what} of {self.place} after {self.beside}"
        if self.beside:
            return f"last {what} of {self.place} before {self.beside}"
        which = f"{what} {self.number}" if self.number else f"last {what}"
        return f"{which} of {self.place}"


def find(execution: Execution, function: str) -> int:
    """The address of a function. Raises SetupError, UsageError: there is none, or several."""
    known = list(symbols.functions(execution.kallsyms()))
    found = {address for name, address in known if name == function}
    if not found:
        meant = near(function, {name for name, _ in known}, "names are those of its /proc/kallsyms")
        raise UsageError(f"the guest has no function {function}", meant)
    if len(found) > 1:
        raise UsageError(f"the guest has {len(found)} functions of the name {function}")
    return found.pop()


def clock(execution: Execution, moment: Moment) -> tuple[int, int, str]:
    """When an event of a story was, where the tracer's clock ends, and what the story says.

    Raises UsageError: no story tells of it.
    """
    places = sorted((execution.directory / OUT / names.WAKEUPS).glob(f"*/{names.EVENTS}"))
    for time, after, text in (event for place in places for event in json.loads(place.read_text())):
        if moment.is_told_by(after, text):
            begin = find(execution, moment.function)
            known = (at for _, at in symbols.functions(execution.kallsyms()))
            return time, min(at for at in known if at > begin), f"{after.strip()}  {text}"
    told = ", ".join(str(place.with_name("story.txt")) for place in places)
    hint = f"see {told}" if told else "record the test with --verify-wakeups"
    raise UsageError(f"no story of the execution has {str(moment)!r}", hint)
