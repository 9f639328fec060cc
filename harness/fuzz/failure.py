# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What can come of playing programs that must not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.fuzz.calls import CALLS

#: Of the markers that are put into the kernel's log before each program.
MARK: Final = "kfabric fuzz:"
_ORIGIN: Final = re.compile(rf"{MARK} (\d+)\.(\d+)\.(\d+)")
_NUMBERS: Final = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b|\d+")


@dataclass(frozen=True)
class Failure:
    """One thing that went wrong.

    :param kind: ``splat``, ``left`` (objects, references), ``memory``, ``hang``,
        ``answer``, ``client`` (the playing process died), or ``guest``: it went down.
    :param text: its first line says what, the others how.
    :param suspects: origins of the programs that were played then, the likeliest first.
    """

    kind: str
    text: str
    suspects: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What, in one line."""
        return self.text.split("\n", 1)[0]

    @property
    def signature(self) -> str:
        """The same for what is the same fault: kind and title, without their numbers."""
        return f"{self.kind}: {_NUMBERS.sub('N', self.title)}"

    def to_json(self) -> dict[str, Any]:
        """As a plain dictionary."""
        return {"kind": self.kind, "text": self.text, "suspects": list(self.suspects)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Failure:
        """The reverse of :meth:`to_json`."""
        return cls(data["kind"], data["text"], tuple(data["suspects"]))


def last_origins(console: str) -> tuple[str, ...]:
    """The program that each process was playing when the console fell silent, latest first."""
    last: dict[str, str] = {}
    for seed, process, number in _ORIGIN.findall(console):
        last.pop(process, None)
        last[process] = f"{seed}.{process}.{number}"
    return tuple(reversed(last.values()))


@dataclass
class Totals:
    """What was played.

    :param results: how often each call ended with each error number; 0: success.
    """

    programs: int = 0
    results: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, programs: int, results: Sequence[Sequence[Any]]) -> None:
        """Count programs, and (call, error number, how often) of theirs."""
        self.programs += programs
        for op, code, count in results:
            self.results[op, code] = self.results.get((op, code), 0) + count

    def take(self, other: Totals) -> None:
        """Count what others have counted."""
        self.add(other.programs, other.rows())

    def rows(self) -> list[tuple[str, int, int]]:
        """What :meth:`add` takes."""
        return [(op, code, n) for (op, code), n in self.results.items()]

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return sum(self.results.values())

    def unreached(self) -> list[str]:
        """The ioctls that never succeeded: what is behind them was not tested."""
        return [op for op in CALLS if not self.results.get((op, 0))]
