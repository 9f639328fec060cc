# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The variables, types and frames of the compiled program, read with readelf."""

from __future__ import annotations

import bisect
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kfabric.prove.places import TOOL_SECONDS

_ENTRY = re.compile(r" <(\w+)><(\w+)>: Abbrev Number: \d+ \((DW_TAG_\w+)\)")
_ATTRIBUTE = re.compile(r"    <\w+>   DW_AT_(\w+) *: (?:\([^()]*\):? )*(.*)")
_KEPT = frozenset(
    "name type abstract_origin specification location low_pc high_pc ranges byte_size "
    "data_member_location upper_bound count".split()
)
_ALIASES = ("typedef", "const_type", "volatile_type", "atomic_type")
_AGGREGATES = ("structure_type", "union_type")
_WHOLE = frozenset(
    "atomic_t atomic64_t refcount_t spinlock_t spinlock mutex rw_semaphore lockdep_map".split()
)
"""Types whose members do not interest a reader."""
_ADDRESS = re.compile(r"\(DW_OP_addr: (\w+)\)$")
_FRAME = re.compile(r"\(DW_OP_fbreg: (-?\d+)\)$")


@dataclass(eq=False)
class Entry:
    """An entry of the debug information: a type, a variable, a function, a scope.

    Args:
        tag: what it is, without ``DW_TAG_``.
        parent: the entry that it is in; None: it is a compilation unit.
        attributes: their values as text.
        children: the entries in it.
    """

    tag: str
    parent: Entry | None
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Entry] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its own name; empty if it has none."""
        return self.attributes.get("name", "")

    def number(self, attribute: str) -> int | None:
        """A number; None if the attribute is missing or is no plain number."""
        try:
            return int(self.attributes[attribute], 0)
        except (KeyError, ValueError):
            return None

    @property
    def size(self) -> int:
        """Of a type, in bytes; 0 if it is not known."""
        return self.number("byte_size") or 0

    def covers(self, address: int) -> bool | None:
        """Whether code of the entry is at the address; None: it is not in one piece."""
        low, high = self.number("low_pc"), self.number("high_pc")
        if low is None or high is None:
            return None
        return low <= address < (high if high > low else low + high)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in memory.

    Args:
        name: its name.
        start: its address, or its offset from the end of its frame.
        type: its type.
    """

    name: str
    start: int
    type: Entry | None


class DebugInfo:
    """What is asked of the entries."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self._entries = entries
        every = entries.values()
        self._functions = [one for one in every if one.tag == "subprogram"]
        self._globals = sorted(
            (found for one in every if (found := self._variable(one, _ADDRESS, 16))),
            key=lambda one: one.start,
        )
        self._starts = [one.start for one in self._globals]

    def variable_at(self, address: int) -> Variable | None:
        """The global or static variable that an address is in."""
        at = bisect.bisect_right(self._starts, address) - 1
        found = self._globals[at] if at >= 0 else None
        return found if found and address - found.start < self._size(found.type) else None

    def locals_at(self, code: int, offset: int, inlined: set[str]) -> list[Variable]:
        """The variables of a frame that can be at an offset from its end.

        Args:
            code: the address that runs in the frame.
            offset: what is looked for.
            inlined: the functions of that address, with those that are inlined there.
        """
        found: dict[tuple[str, int], Variable] = {}
        for function in self._functions:
            if function.covers(code):
                for one in self._in_scope(function, code, inlined):
                    variable = self._variable(one, _FRAME, 10)
                    if variable and 0 <= offset - variable.start < self._size(variable.type):
                        found[variable.name, variable.start] = variable
        return list(found.values())

    def _in_scope(self, scope: Entry, code: int, inlined: set[str]) -> Iterator[Entry]:
        for one in scope.children:
            if one.tag in ("variable", "formal_parameter"):
                yield one
            elif one.tag == "lexical_block" and one.covers(code) is not False:
                yield from self._in_scope(one, code, inlined)
            elif one.tag == "inlined_subroutine" and one.covers(code) is not False:
                if self._origin(one).name in inlined:
                    yield from self._in_scope(one, code, inlined)

    def member(self, of: Entry | None, offset: int) -> str:
        """The member at an offset, as text to append: ``.wait.head.next``, ``[2]``, ``+8``."""
        plain, whole = self._plain(of)
        unknown = f"+{offset}" if offset else ""
        if whole and not offset:
            return ""
        if plain and plain.tag in _AGGREGATES:
            inner = [one for one in plain.children if self._has(one, offset)]
            if len(inner) == 1:
                (one,) = inner
                rest = offset - (one.number("data_member_location") or 0)
                text = self.member(self._type(one), rest)
                if one.name:
                    return f".{one.name}{text}"
                return text if text.startswith(".") else unknown
        if plain and plain.tag == "array_type":
            element = self._type(plain)
            if size := self._size(element):
                return f"[{offset // size}]" + self.member(element, offset % size)
        return unknown

    def _has(self, member: Entry, offset: int) -> bool:
        """Whether a member covers an offset; a flexible array covers all that follows."""
        start = member.number("data_member_location")
        if member.tag != "member":
            return False
        if start is None:
            start = 0 if member.parent and member.parent.tag == "union_type" else -1
        if start < 0 or offset < start:
            return False
        of = self._type(member)
        plain, _ = self._plain(of)
        endless = plain is not None and plain.tag == "array_type" and not self._size(plain)
        return endless or offset - start < self._size(of)

    def pointees(self, function: str, expression: str) -> list[Entry]:
        """What an expression such as ``info->attr`` points to, in the functions of a name.

        A global variable counts if no local one has the name.
        """
        first, *rest = expression.split("->")
        functions = [one for one in self._functions if self._origin(one).name == function]
        local = [self._origin(one) for each in functions for one in self._variables(each)]
        types = [self._type(one) for one in local if one.name == first]
        types = types or [one.type for one in self._globals if one.name == first]
        return [of for one in types if (of := self._through(one, rest))]

    def _through(self, of: Entry | None, members: Sequence[str]) -> Entry | None:
        """The structure that a pointer, then a pointer in it, and so on, point to."""
        target = self._pointee(of)
        for name in members:
            inside = target.children if target else []
            inner = next((one for one in inside if one.name == name), None)
            target = self._pointee(self._type(inner)) if inner else None
        return target

    def structures(self, name: str) -> list[Entry]:
        """The structures of a name."""
        every = self._entries.values()
        return [one for one in every if one.tag == "structure_type" and one.name == name]

    def _variables(self, scope: Entry) -> Iterator[Entry]:
        for one in scope.children:
            if one.tag in ("variable", "formal_parameter"):
                yield one
            else:
                yield from self._variables(one)

    def _variable(self, one: Entry, where: re.Pattern[str], base: int) -> Variable | None:
        """A variable with a place in memory that is the same as long as it exists."""
        found = where.search(one.attributes.get("location", ""))
        if not found or one.tag not in ("variable", "formal_parameter"):
            return None
        origin = self._origin(one)
        return Variable(origin.name, int(found[1], base), self._type(origin))

    def _origin(self, one: Entry) -> Entry:
        """The entry that has the name and the type."""
        for link in ("abstract_origin", "specification"):
            if other := self._linked(one, link):
                return self._origin(other)
        return one

    def _linked(self, one: Entry, attribute: str) -> Entry | None:
        return self._entries.get(one.attributes.get(attribute, "").strip("<>").removeprefix("0x"))

    def _type(self, one: Entry) -> Entry | None:
        return self._linked(one, "type")

    def _plain(self, of: Entry | None) -> tuple[Entry | None, bool]:
        """A type without its other names, and whether it is one whose members do not count."""
        whole = of is not None and of.name in _WHOLE
        while of and of.tag in _ALIASES:
            of = self._type(of)
            whole = whole or (of is not None and of.name in _WHOLE)
        return of, whole

    def _pointee(self, of: Entry | None) -> Entry | None:
        plain, _ = self._plain(of)
        if not plain or plain.tag != "pointer_type":
            return None
        target, _ = self._plain(self._type(plain))
        return target if target and target.tag == "structure_type" else None

    def _size(self, of: Entry | None) -> int:
        """The size of a type; 0 if it is not known."""
        plain, _ = self._plain(of)
        if not plain or plain.tag != "array_type":
            return plain.size if plain else 0
        size = self._size(self._type(plain))
        for one in plain.children:
            last, count = one.number("upper_bound"), one.number("count")
            size *= count if count is not None else last + 1 if last is not None else 0
        return size


def read(program: Path) -> DebugInfo:
    """The debug information of a program; empty if readelf cannot read it."""
    argv = ["env", "LC_ALL=C", "readelf", "--debug-dump=info", str(program)]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=TOOL_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return DebugInfo({})
    return DebugInfo(parse(done.stdout.splitlines()))


def parse(lines: Sequence[str]) -> dict[str, Entry]:
    """The entries by their offsets, as readelf prints them."""
    entries: dict[str, Entry] = {}
    scopes: list[Entry] = []
    current: Entry | None = None
    for line in lines:
        if line.startswith("    <"):
            found = _ATTRIBUTE.match(line)
            if found and current and found[1] in _KEPT:
                current.attributes[found[1]] = found[2].strip()
        elif found := _ENTRY.match(line):
            depth = int(found[1], 16)
            del scopes[depth:]
            current = Entry(found[3].removeprefix("DW_TAG_"), scopes[-1] if scopes else None)
            entries[found[2]] = current
            if scopes:
                scopes[-1].children.append(current)
            scopes.append(current)
    return entries
