# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Programs of calls, and their text.

    # a comment
    f = FABRIC_OPEN info=@info:mock
    q = EQ_OPEN fabric=%f wait_obj=1
    0: EQ_SREAD eq=%q deadline=+5ms
    1: CLOSE handle=%q

A line is a step: a call with those fields that are not zero. The lines without a
number in front are done first, one after the other; then each numbered thread does
its own, all at once. What a step opened is known by its name. Values:

    12, -1, 0x1000      numbers
    %NAME, %NAME.PART   what a step gave: its handle, or another part (see PARTS);
                        0 if it has not, or if there is no such step
    +5ms                that much later than now, on the monotonic clock
    @KIND:...           the address of something, see memory.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

#: What a step may have given, besides its handle.
PARTS: Final = ("id", "key", "iova", "offset", "fd", "connreq", "addr", "map")

_STEP = re.compile(r"(?:(\d+): )?(?:(\w+) = )?([A-Z][A-Z_]*)((?: \w+=\S+)*)")
_NAME = re.compile(r"(?:%|@addr:)(\w+)")


class ProgramError(ValueError):
    """A text is no program; says which line."""


@dataclass(frozen=True)
class Step:
    """One call.

    :param op: an ioctl, or one of the player's own (``MMAP``, ``FORK`` ...).
    :param args: its fields.
    :param name: for what it gives; empty: nobody wants it.
    :param thread: who does it; None: the first thread, before the others begin.
    """

    op: str
    args: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    thread: int | None = None

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a line.

        :raises ProgramError: it is not understood.
        """
        match = _STEP.fullmatch(line.strip())
        if match is None:
            raise ProgramError(f"not a step: {line.strip()!r}")
        thread, name, op, rest = match.groups()
        pairs = (word.split("=", 1) for word in rest.split())
        return cls(op, {key: value for key, value in pairs}, name or "", _number(thread))

    def __str__(self) -> str:
        front = f"{self.thread}: " if self.thread is not None else ""
        name = f"{self.name} = " if self.name else ""
        return " ".join([f"{front}{name}{self.op}", *(f"{k}={v}" for k, v in self.args.items())])

    def uses(self) -> set[str]:
        """The names that it refers to."""
        return {name for value in self.args.values() for name in _NAME.findall(value)}


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


@dataclass(frozen=True)
class Program:
    """Steps, and what is said about them.

    :param notes: the comments at the top.
    """

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a text. Comments below the first step are dropped.

        :raises ProgramError: a line is not understood.
        """
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
        """The same steps, all done by one thread in the order of the text."""
        steps = tuple(replace(step, thread=None) for step in self.steps)
        return replace(self, steps=steps)

    def with_steps(self, steps: Iterable[Step]) -> Self:
        """The same program with other steps."""
        return replace(self, steps=tuple(steps))
