# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Programs of calls, and their text.

    # a comment
    f = FABRIC_OPEN info=@info:mock
    q = EQ_OPEN fabric=%f wait_obj=1
    0: EQ_SREAD eq=%q deadline=+5ms
    1: CLOSE handle=%q

A line is a step: a call with those fields that are not zero. The lines without a number in
front run first, one after the other; then each numbered thread runs its own, all at once. A
name stands for what its step produced. Values:

    12, -1, 0x1000      numbers
    %NAME, %NAME.PART   the handle that a step produced, or another part: id, key, iova, offset,
                        fd, connreq, addr or map; 0 if there is no such step or part
    +5ms                that much later than now, on the monotonic clock
    @KIND:...           an address, see memory.py
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

_STEP = re.compile(r"(?:(\d+): )?(?:(\w+) = )?([A-Z][A-Z_]*)((?: \w+=\S+)*)")
_NAME = re.compile(r"(?:%|@addr:)(\w+)")


class ProgramError(ValueError):
    """A line of a text is not a step."""


@dataclass(frozen=True)
class Step:
    """One call.

    Attributes:
        op: an ioctl, or one of the other steps of the grammar (`MMAP`, `FORK` ...).
        args: its fields.
        name: stands for what the step produces; empty: no other step uses it.
        thread: the thread that runs it; None: the first one, before the others begin.
    """

    op: str
    args: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    thread: int | None = None

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a line. Raises ProgramError."""
        match = _STEP.fullmatch(line.strip())
        if match is None:
            raise ProgramError(f"not a step: {line.strip()!r}")
        thread, name, op, rest = match.groups()
        args = dict(word.split("=", 1) for word in rest.split())
        return cls(op, args, name or "", None if thread is None else int(thread))

    def __str__(self) -> str:
        front = f"{self.thread}: " if self.thread is not None else ""
        name = f"{self.name} = " if self.name else ""
        return " ".join([f"{front}{name}{self.op}", *(f"{k}={v}" for k, v in self.args.items())])

    def uses(self) -> set[str]:
        """The names that it refers to."""
        return {name for value in self.args.values() for name in _NAME.findall(value)}


@dataclass(frozen=True)
class Program:
    """Steps, and the comments at the top of the text."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a text; comments after the first step are dropped. Raises ProgramError."""
        notes: list[str] = []
        steps: list[Step] = []
        for line in map(str.strip, text.splitlines()):
            if line.startswith("#"):
                if not steps:
                    notes.append(line[1:].strip())
            elif line:
                steps.append(Step.parse(line))
        return cls(tuple(steps), tuple(notes))

    def __str__(self) -> str:
        lines = [*(f"# {note}".rstrip() for note in self.notes), *map(str, self.steps)]
        return "\n".join(lines) + "\n"

    @property
    def threads(self) -> list[int]:
        """The numbers of its threads."""
        return sorted({step.thread for step in self.steps if step.thread is not None})

    def of(self, thread: int | None) -> list[Step]:
        """The steps of one thread."""
        return [step for step in self.steps if step.thread == thread]

    def serial(self) -> Self:
        """The same steps, all run by one thread in the order of the text."""
        return self.with_steps(replace(step, thread=None) for step in self.steps)

    def with_steps(self, steps: Iterable[Step]) -> Self:
        """The same program with other steps."""
        return replace(self, steps=tuple(steps))
