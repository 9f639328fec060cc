# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The language of the random programs: what the model predicts and the guest does.

A step is a list that JSON can carry: the name of an operation and its arguments.
Objects have names that tell their kind: w (wait set), cq, eq, ct (counter), p
(poll set) and ep (endpoint), each with a digit. Every step makes sense at any
time: one that opens what is there, uses what is not, or needs a thread that is
still busy, is answered with that and changes nothing. So any part of a program
is a program, which is what lets Hypothesis shrink it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

Step = list[Any]

#: Who makes a call: the thread that runs the program, and those that may block.
MAIN = "main"
WORKERS = ("T0", "T1", "T2", "T3")

#: Answers of the language itself.
ABSENT = "absent"
PRESENT = "present"
BUSY = "busy"
STARTED = "started"

#: Timeouts: one check; a deadline that passes at once; none (for threads only).
CHECK = "check"
SHORT = "short"
FOREVER = "forever"

_NAME = re.compile(r"(?:w|cq|eq|ct|p|ep)\d")


@dataclass
class Outcome:
    """What one step did.

    Attributes:
        result: the answer to the step; STARTED for a call in a thread.
        ended: what the calls returned that ended during the step, by thread.
    """

    result: Any
    ended: dict[str, Any] = field(default_factory=dict)


def actor(step: Step) -> str | None:
    """Return the thread in which a step makes its call, if it says so."""
    if len(step) < 2 or step[0] == "signal":
        return None
    return step[1] if step[1] in (MAIN, *WORKERS) else None


def objects(step: Step) -> Iterator[str]:
    """Yield the names of the objects in a step, in order."""
    for arg in step[1:]:
        for word in arg if isinstance(arg, list) else [arg]:
            if isinstance(word, str) and _NAME.fullmatch(word):
                yield word


def refusal(step: Step, present: Collection[str], busy: Collection[str]) -> str | None:
    """Return the language's own answer to a step that cannot be done, else None."""
    if actor(step) in busy:
        return BUSY
    names = list(objects(step))
    if step[0].startswith("open_") and names.pop(0) in present:
        return PRESENT
    return None if all(name in present for name in names) else ABSENT


def show(program: list[Step]) -> str:
    """Write a program down as Python that a test can hold."""
    return "\n".join(f"    {step!r}," for step in program)
