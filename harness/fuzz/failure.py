# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Failures of programs, and counts of the calls that were made."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from kfabric.fuzz.calls import CALLS

#: Begins the line that is written to the kernel's log before each program.
MARK: Final = "kfabric fuzz:"
_ORIGIN: Final = re.compile(rf"{MARK} (\d+)\.(\d+)\.(\d+)")
_NUMBERS: Final = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b|\d+")


@dataclass(frozen=True)
class Failure:
    """One failure.

    Attributes:
        kind: `splat`, `left` (objects or references leaked), `memory`, `hang`, `answer`,
            `client` (the worker died), or `guest` (it went down).
        text: the title in its first line, details in the others.
        suspects: origins of the programs that ran then, the likeliest first.
    """

    kind: str
    text: str
    suspects: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The first line of the text."""
        return self.text.split("\n", 1)[0]

    @property
    def signature(self) -> str:
        """Kind and title without their numbers: equal for failures of the same fault."""
        return f"{self.kind}: {_NUMBERS.sub('N', self.title)}"

    def to_json(self) -> dict[str, Any]:
        """As a plain dictionary."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The reverse of `to_json`."""
        return cls(data["kind"], data["text"], tuple(data["suspects"]))


def last_origins(console: str) -> tuple[str, ...]:
    """The program that each process was running when the console ended, latest first."""
    last: dict[str, str] = {}
    for seed, process, number in _ORIGIN.findall(console):
        last.pop(process, None)
        last[process] = f"{seed}.{process}.{number}"
    return tuple(reversed(last.values()))


@dataclass
class Totals:
    """Counts of programs and calls.

    Attributes:
        programs: how many programs ran.
        results: how often each call ended with each error number; 0 is success.
    """

    programs: int = 0
    results: Counter[tuple[str, int]] = field(default_factory=Counter)

    def add(self, programs: int, results: Sequence[Sequence[Any]]) -> None:
        """Add programs, and rows of (call, error number, count) of theirs."""
        self.programs += programs
        for op, code, count in results:
            self.results[op, code] += count

    def take(self, other: Self) -> None:
        """Add other totals."""
        self.add(other.programs, other.rows())

    def rows(self) -> list[tuple[str, int, int]]:
        """The rows that `add` takes."""
        return [(op, code, n) for (op, code), n in self.results.items()]

    @property
    def calls(self) -> int:
        """The number of calls."""
        return sum(self.results.values())

    def unreached(self) -> list[str]:
        """The ioctls that never succeeded: the code that success leads to was not tested."""
        return [op for op in CALLS if not self.results[op, 0]]


@dataclass
class RunResult:
    """Counts and failures of one run."""

    totals: Totals = field(default_factory=Totals)
    failures: list[Failure] = field(default_factory=list)
