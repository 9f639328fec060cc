# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Weakens every barrier, acquire and release of the core in turn, and plays the scenarios.

A barrier becomes none, an acquire a plain marked load, a release a plain marked store, an ordered
atomic operation a relaxed one. Either a scenario has a finding then, or the barrier is not known
to be needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from kfabric.errors import counted
from kfabric.prove import build, run, session
from kfabric.prove.build import Sources
from kfabric.prove.run import Job
from kfabric.prove.variants import Change, Tried, Variants
from kfabric.vm.steps import Steps, say

MEMORIES = session.MEMORIES[1:]
"""Where every store is visible at once, no barrier of the core orders anything."""
WIDTH = 140
"""Of the table, where it does not go to a terminal."""

_NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_FUNCTION = re.compile(r"^[a-z][\w *]*?\b(\w+)\(", re.MULTILINE)
_ORDERED = re.compile(
    r"\b(?:smp_load_acquire|smp_store_release|smp_r?w?mb|smp_mb__\w+|set_current_state|"
    r"rcu_assign_pointer|"
    r"atomic(?:64|_long)?_(?:\w+_(?:acquire|release)|\w+_return|fetch_\w+|xchg|cmpxchg|"
    r"inc_not_zero)(?<!_relaxed))(?=\()"
)
_NAMES = {
    "smp_store_release": "WRITE_ONCE",
    "smp_load_acquire": "READ_ONCE",
    "set_current_state": "__set_current_state",
    "rcu_assign_pointer": "RCU_INIT_POINTER",
}
_POINTS = ("smp_store_release", "smp_load_acquire")
"""They take the address of what the weaker ones take."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """One place in the core that orders accesses.

    Args:
        file: relative to the checkout.
        line: its number.
        function: the function that it is in.
        name: ``smp_rmb``, ``smp_load_acquire`` …
        weaker: the name of what takes its place.
        begin: where its name begins in the text of the file.
        end: where its first argument ends.
    """

    file: Path
    line: int
    function: str
    name: str
    weaker: str
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line} {self.function}()"

    def weaken(self, tree: Path) -> None:
        """Change the file below a directory. No line moves."""
        path = tree / self.file
        text = path.read_text(encoding="utf-8")
        first = text[self.begin + len(self.name) + 1 : self.end]
        if self.name in _POINTS:
            first = f"*({first})"
        path.write_text(f"{text[: self.begin]}{self.weaker}({first}{text[self.end :]}")


def find(sources: Sources) -> list[Barrier]:
    """The barriers of the files under test and of the headers beside them, in order."""
    headers = {path for file in sources.tested for path in file.parent.glob("*.h")}
    return [
        barrier
        for path in sorted({*sources.tested, *headers})
        for barrier in _in_file(path.relative_to(sources.base), path.read_text(encoding="utf-8"))
    ]


def _in_file(file: Path, text: str) -> Iterator[Barrier]:
    code = _NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for found in _ORDERED.finditer(code):
        functions = _FUNCTION.findall(code, 0, found.start())
        yield Barrier(
            file,
            code.count("\n", 0, found.start()) + 1,
            functions[-1] if functions else "",
            found[0],
            _weaker(found[0]),
            found.start(),
            _first_argument(code, found.end() + 1),
        )


def _weaker(name: str) -> str:
    """What takes the place of an operation: the same without its order."""
    if name.startswith("smp_") and name not in _NAMES:
        return "barrier"
    if name in _NAMES:
        return _NAMES[name]
    plain = re.sub(r"_(acquire|release)$", "", name)
    return plain if plain.endswith(("_read", "_set")) else f"{plain}_relaxed"


def _first_argument(code: str, begin: int) -> int:
    """Where the argument ends that begins there."""
    depth = 0
    for at in range(begin, len(code)):
        if depth == 0 and code[at] in ",)":
            return at
        depth += (code[at] in "([{") - (code[at] in ")]}")
    return len(code)


@dataclass(frozen=True, slots=True)
class Weakened:
    """A barrier, and what the scenarios found without it."""

    barrier: Barrier
    tried: Tried

    @property
    def found(self) -> bool:
        """Whether a scenario needs the barrier."""
        return self.tried.finding is not None

    @property
    def words(self) -> str:
        """The result in a few words, which say no more than was seen."""
        if self.tried.broken:
            return self.tried.broken
        return self.tried.finding.kind if self.tried.finding else "no scenario finds it"


def play(
    checkout: Path, names: Sequence[str], memories: Sequence[str], executions: int
) -> tuple[list[Weakened], list[Job]]:
    """Weaken each barrier of the core of a checkout.

    Args:
        checkout: where the core and its scenarios are.
        names: the scenarios to play; empty: all.
        memories: the memory models to play them under.
        executions: at most so many of each scenario.

    Returns:
        the results in the order of the files, and the explorations that were left out because
        they have a finding with every barrier in place.
    """
    barriers = find(build.of_kfabric(checkout))
    results = []
    with Variants(checkout, executions, run.PROCESSES) as variants:
        jobs, faulty = variants.jobs(memories, names)
        changes: list[tuple[Change, Sequence[Job]]] = [
            (barrier.weaken, _same_subject_first(jobs, barrier.file)) for barrier in barriers
        ]
        with Steps("weakening barriers", len(barriers), say) as steps:
            for barrier, tried in zip(barriers, variants.each(changes), strict=True):
                results.append(Weakened(barrier, tried))
                steps.advance()
    return results, faulty


def _same_subject_first(jobs: Sequence[Job], file: Path) -> list[Job]:
    """The scenarios of a file of the core are in a file of that name."""
    return sorted(jobs, key=lambda job: Path(job.scenario.file).stem != file.stem)


def table(weakened: Sequence[Weakened]) -> Table:
    """All barriers, with the scenario that needs each."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for title in ("barrier", "weakened", "result", "scenario", "memory"):
        made.add_column(title, overflow="fold")
    for title in ("executions", "seconds"):
        made.add_column(title, justify="right")
    for one in weakened:
        job = one.tried.job
        made.add_row(
            str(one.barrier),
            one.barrier.name,
            Text(one.words, "green" if one.found else "bold red"),
            job.scenario.name if job else "",
            job.memory if job else "",
            f"{one.tried.executions:,}",
            f"{one.tried.seconds:.1f}",
        )
    return made


def totals(weakened: Sequence[Weakened], faulty: Sequence[Job]) -> str:
    """One line: how many barriers a scenario needs."""
    found = sum(one.found for one in weakened)
    executions = sum(one.tried.executions for one in weakened)
    parts = [f"{found} needed by a scenario", f"{len(weakened) - found} not"]
    text = f"{counted(len(weakened), 'barrier')}: {', '.join(parts)}; {executions:,} executions"
    left = ", ".join(dict.fromkeys(job.scenario.name for job in faulty))
    return text + (f"; left out, with a finding on the original: {left}" if left else "")
