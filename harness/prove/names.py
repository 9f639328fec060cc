# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The objects of a counterexample as variables and members, from the program's debug information.

A global or local variable has a name of its own, and an allocation the name of its type. Where the
debug information does not decide what an address is, the name ends with an offset.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kfabric.prove.debug_info import DebugInfo, Entry, read
from kfabric.prove.output import Memory, Step
from kfabric.prove.places import Place, under_test

_SIZEOF = re.compile(r"\bsizeof\(\*(\w+(?:->\w+)*)\)|\bstruct_size\((\w+(?:->\w+)*),")
_SIZEOF_TYPE = re.compile(r"\bsizeof\(struct (\w+)\)")
_LINES = 3
"""Of a call that allocates, at most."""

Places = Mapping[int, tuple[Place, ...]]


def named(steps: Sequence[Step], program: Path, places: Places) -> list[Step]:
    """The steps, with the best names for their objects."""
    if not any(step.memory for step in steps):
        return list(steps)
    names = _Names(_read(program), places)
    names.number([step.memory for step in steps if step.memory])
    return [
        replace(step, object=names.of(step, step.memory)) if step.memory else step for step in steps
    ]


@functools.lru_cache(maxsize=1)
def _read(program: Path) -> DebugInfo:
    return read(program)


class _Names:
    def __init__(self, info: DebugInfo, places: Places) -> None:
        self._info = info
        self._places = places
        self._blocks: dict[int, tuple[str, Entry]] = {}

    def number(self, all_memory: Sequence[Memory]) -> None:
        """Name the allocations: after their type, with a number if several have it."""
        found = {memory.start: memory for memory in all_memory if memory.size}
        types = {start: self._allocated(found[start]) for start in sorted(found)}
        by_name: dict[str, list[int]] = {}
        for start, of in types.items():
            if of:
                by_name.setdefault(of.name, []).append(start)
        for name, starts in by_name.items():
            for number, start in enumerate(starts, 1):
                of = types[start]
                assert of
                self._blocks[start] = (name if len(starts) == 1 else f"{name}#{number}", of)

    def of(self, step: Step, memory: Memory) -> str:
        """The name of a step's object; its present one if nothing is known of it."""
        otherwise = step.object
        if memory.size:
            name, of = self._blocks.get(memory.start, (otherwise, None))
            whole = step.op in ("alloc", "free") or not of
            return name if whole else name + self._info.member(of, memory.address - memory.start)
        if memory.start:
            thread = otherwise.rpartition("-stack-")[0]
            local = self._local(memory)
            return f"{local} of {thread}" if local and thread else otherwise
        variable = self._info.variable_at(memory.address)
        if not variable:
            return otherwise
        return variable.name + self._info.member(variable.type, memory.address - variable.start)

    def _local(self, memory: Memory) -> str:
        """A variable in a frame, if only one can be at the address."""
        inlined = {place.function for place in self._places.get(memory.place, ())}
        offset = memory.address - memory.start
        # The place is a return address: the call is before it.
        found = self._info.locals_at(memory.place - 1, offset, inlined)
        if len(found) != 1:
            return ""
        (local,) = found
        return local.name + self._info.member(local.type, offset - local.start)

    def _allocated(self, memory: Memory) -> Entry | None:
        """The structure that an allocation is for, read from the line that makes it."""
        place = under_test([memory.place], self._places)
        if not place:
            return None
        text = _statement(Path(place.file), place.line)
        found = _SIZEOF.search(text)
        if found:
            types = self._info.pointees(place.function, found[1] or found[2])
            exact = bool(found[1])
        else:
            of = _SIZEOF_TYPE.search(text)
            types = self._info.structures(of[1]) if of else []
            exact = True
        fits = [one for one in types if one.size == memory.size or (not exact and one.size)]
        return fits[0] if len({one.name for one in fits}) == 1 else None


def _statement(file: Path, line: int) -> str:
    """The source from a line to the end of its statement; empty if it cannot be read."""
    try:
        lines = file.read_text(errors="replace").splitlines()[line - 1 :][:_LINES]
    except OSError:
        return ""
    return " ".join(lines).partition(";")[0]
