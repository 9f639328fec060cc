# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the compiled program prints, one JSON object a line: scenarios, steps, records, a result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

PLAIN = ("plain-read", "plain-write")
"""Plain accesses."""
NO_POINTS = (*PLAIN, "race")
"""Steps that are no points of the exploration."""
RACE = "race"
"""The kind of a finding after which an execution can go on."""


class OutputError(ValueError):
    """The program printed something else."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario, as ``--list`` describes it.

    Args:
        name: with dashes.
        says: what happens in it, a few words.
        rules: the rules of the contract that it is about.
        tables: numbers of the tables of docs/wakeups.md that it plays.
        threads: their names, in order.
        bound: the preemptions of one execution, if all executions are too many; None: no bound.
        fails: at most so many allocations fail.
        file: its source file.
        line: where it is in the file.
    """

    name: str
    says: str = ""
    rules: tuple[str, ...] = ()
    tables: tuple[int, ...] = ()
    threads: tuple[str, ...] = ()
    bound: int | None = None
    fails: int = 0
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """Where a step's object lies, if the program has no name of its own for it.

    Args:
        address: the object's.
        start: of the allocation that it is in, or the end of its frame on a stack; 0: neither.
        place: in the function that allocated it, or whose frame it is.
        size: of the allocation; 0: a frame.
    """

    address: int
    start: int = 0
    place: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a counterexample.

    Args:
        thread: its name.
        op: what it does: ``lock``, ``read``, ``sleep`` …
        object: the thing that it does it to; empty if there is none.
        value: what was read, written, chosen; empty if there is none.
        newest: the newest value, if an older one was read; else empty.
        place: the address after the call.
        stack: the addresses of the callers, innermost first.
        memory: where the object lies; None: it has a name, or there is none.
        size: of a plain access, in bytes; else 0.
    """

    thread: str
    op: str
    object: str = ""
    value: str = ""
    newest: str = ""
    place: int = 0
    stack: tuple[int, ...] = ()
    memory: Memory | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong in the last execution.

    Args:
        kind: ``asleep``, ``race``, ``leak`` …
        text: one line.
        thread: the thread that it happened to; empty if there is none.
        schedule: the choices that lead to it, for ``--replay``.
        places: the addresses of the accesses at fault; none if there are none.
        object: what a race is about, as the text names it; else empty.
        memory: where that lies; None: it has a name, or there is none.
    """

    kind: str
    text: str
    thread: str = ""
    schedule: str = ""
    places: tuple[int, ...] = ()
    object: str = ""
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The end of an exploration.

    Args:
        executions: complete ones.
        pruned: executions that were cut off as the same as an earlier one.
        steps: of all executions together.
        depth: steps of the longest execution.
        complete: every execution was played, within the bound if there is one.
        why_not: the limit that ended it before; empty if it is complete or has a finding.
        seconds: how long it took.
        finding: what is wrong, or None.
    """

    executions: int = 0
    pruned: int = 0
    steps: int = 0
    depth: int = 0
    complete: bool = False
    why_not: str = ""
    seconds: float = 0.0
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A tracepoint's event in one execution of the sample."""

    execution: int
    name: str
    thread: str
    fields: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Output:
    """Everything that an exploration printed."""

    result: Result
    steps: tuple[Step, ...] = ()
    records: tuple[Record, ...] = ()


def scenarios(lines: Iterable[str]) -> list[Scenario]:
    """Read the list of scenarios. Raises OutputError."""
    return [_scenario(line) for line in map(_line, lines)]


def read(lines: Iterable[str]) -> Output:
    """Read the output of one exploration.

    Raises:
        OutputError: it has no result, or a line is none of the program's.
    """
    steps, records, result = [], [], None
    for line in map(_line, lines):
        match line.get("type"):
            case "step":
                steps.append(_step(line))
            case "record":
                records.append(_record(line))
            case "anew":  # the exploration begins once more, with what it has learnt
                records.clear()
            case "cut":  # an execution goes on as an earlier one did, and has no end
                while records and records[-1].execution == line["execution"]:
                    records.pop()
            case "result":
                result = _result(line)
            case other:
                raise OutputError(f"a line of the unknown type {other!r}")
    if result is None:
        raise OutputError("no result")
    return Output(result, tuple(steps), tuple(records))


def _line(text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError:
        raise OutputError(f"a line that is no JSON: {text[:80]}") from None
    if not isinstance(line, dict):
        raise OutputError(f"a line that is no object: {text[:80]}")
    return line


def _scenario(line: Mapping[str, Any]) -> Scenario:
    bound = line.get("bound")
    return Scenario(
        name=line["name"],
        says=line.get("says") or "",
        rules=tuple((line.get("rules") or "").replace(",", " ").split()),
        tables=tuple(map(int, (line.get("tables") or "").replace(",", " ").split())),
        threads=tuple(line.get("threads") or ()),
        bound=bound or None,
        fails=line.get("fails") or 0,
        file=line.get("file") or "",
        line=line.get("line") or 0,
    )


def _step(line: Mapping[str, Any]) -> Step:
    return Step(
        thread=line["thread"],
        op=line["op"],
        object=_text(line.get("object")),
        value=_text(line.get("value")),
        newest=_text(line.get("newest")),
        place=_address(line.get("place")),
        stack=tuple(map(_address, line.get("stack") or ())),
        memory=_memory(line["memory"]) if line.get("memory") else None,
        size=int(line.get("size") or 0),
    )


def _memory(found: Mapping[str, Any]) -> Memory:
    address, start, place = (_address(found.get(name)) for name in ("address", "start", "place"))
    return Memory(address, start, place, int(found.get("size") or 0))


def _record(line: Mapping[str, Any]) -> Record:
    # Others are texts, which the verdict does not need.
    numbers = (item for item in (line.get("fields") or {}).items() if isinstance(item[1], int))
    fields = dict(numbers)
    return Record(int(line.get("execution") or 0), line["name"], line["thread"], fields)


def _result(line: Mapping[str, Any]) -> Result:
    found = line.get("finding")
    counts = {name: int(line.get(name) or 0) for name in ("executions", "pruned", "steps", "depth")}
    return Result(
        **counts,
        complete=bool(line.get("complete")),
        why_not=line.get("why_not") or "",
        seconds=float(line.get("seconds") or 0),
        finding=_finding(found) if found else None,
    )


def _finding(found: Mapping[str, Any]) -> Finding:
    places = (_address(found.get(name)) for name in ("place", "other_place"))
    return Finding(
        found["kind"],
        found["text"],
        found.get("thread") or "",
        found.get("schedule") or "",
        tuple(filter(None, places)),
        _text(found.get("object")),
        _memory(found["memory"]) if found.get("memory") else None,
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _address(value: object) -> int:
    """An address as the program prints it; 0 for a null pointer."""
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else 0
