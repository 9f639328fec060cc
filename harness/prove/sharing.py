# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The plain accesses by which threads communicate, of all those of a counterexample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from kfabric.prove.output import PLAIN, Memory, Step

ALONE = ("setup", "finish")
"""What runs before and after the threads."""
_WRITES = ("plain-write", "write", "update")
_ACCESSES = (*PLAIN, "read", *_WRITES)

Byte = tuple[int, int]
"""Its address, and the end of its frame on a stack: frames follow one another at one place."""


def communicating(steps: Sequence[Step], at_fault: Collection[int]) -> list[Step]:
    """The steps without plain accesses that tell a reader nothing.

    A plain access is kept if one thread writes the memory and another one accesses it, or if its
    place is at fault. What a thread reads once more, with the same value, is left out, and what it
    does in a frame of its own before another thread comes there.
    """
    shared = _shared(steps)
    seen: dict[tuple[str, int, int], str] = {}
    visited: set[int] = set()
    kept = []
    for step in steps:
        if step.memory and step.op in _ACCESSES:
            own = step.object.startswith(f"{step.thread}-stack-")
            if not own:
                visited.add(step.memory.start)
            key = (step.thread, step.memory.address, step.size)
            again = step.op == "plain-read" and seen.get(key) == step.value
            seen[key] = step.value
            alone = own and step.memory.start not in visited
            tells = not (again or alone or shared.isdisjoint(_bytes(step, step.memory)))
            if step.op in PLAIN and not tells and step.place not in at_fault:
                continue
        kept.append(step)
    return kept


def _shared(steps: Sequence[Step]) -> set[Byte]:
    """The bytes that one thread writes and another one accesses."""
    writers: dict[Byte, set[str]] = defaultdict(set)
    users: dict[Byte, set[str]] = defaultdict(set)
    for step in steps:
        if step.op in _ACCESSES and step.memory and step.thread not in ALONE:
            for byte in _bytes(step, step.memory):
                users[byte].add(step.thread)
                if step.op in _WRITES:
                    writers[byte].add(step.thread)
    return {byte for byte in writers if len(users[byte]) > 1}


def _bytes(step: Step, memory: Memory) -> list[Byte]:
    """The bytes of an access. A marked one has the address of what it is about."""
    frame = 0 if memory.size else memory.start
    return [(memory.address + i, frame) for i in range(step.size or 1)]
