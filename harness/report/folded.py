# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Folded stacks: where threads slept and who woke them, for flame graphs.

One line for each pair of stacks, in the order of bcc's offwaketime: the sleeper's
name and stack, outermost first; ``--``; then the waker's stack upside down, and
its name. The count is microseconds asleep. A wait whose stacks were not recorded
stands for its queue.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from harness.probes.ledger import Ledger
from harness.probes.records import NO_STACK, Record, StackRecord, WaitRecord
from harness.report.files import whole

_SEPARATOR = "--"
NOBODY = "[nobody]"
"""The waker of a wait that none ended."""

# Stacks and their waits come close to each other; those that do not go without.
_APART = 20_000


def function(frame: str) -> str:
    """A frame without the offset: ``symbol+0x12 [module]`` becomes ``symbol``."""
    return _word(frame.partition("+0x")[0])


def _word(name: str) -> str:
    """A name that the format can hold: it separates by semicolons, and ends at a space."""
    return "".join("_" if c in "; \t\r\n" or not c.isprintable() else c for c in name) or "_"


def asleep_ns(wait: WaitRecord, t_stop: int) -> int:
    """How long a wait's last sleep lasted, in nanoseconds."""
    if not wait.t_slept:
        return 0
    ends = (wait.t_running, wait.t_end, t_stop)
    return max(0, next((t for t in ends if t > wait.t_slept), wait.t_slept) - wait.t_slept)


Key = tuple[int, int, int]
Stacks = tuple[int, int]
"""Numbers of a sleeper's and its waker's stack, or NO_STACK."""

_NONE: Stacks = (NO_STACK, NO_STACK)


def _pairs(records: Iterable[Record]) -> Iterator[tuple[WaitRecord, Stacks]]:
    """Each wait with its stacks, in whatever order the two come."""
    waits: OrderedDict[Key, WaitRecord] = OrderedDict()
    stacks: OrderedDict[Key, Stacks] = OrderedDict()
    for record in records:
        if isinstance(record, WaitRecord):
            waits[record.queue, record.tid, record.t_begin] = record
        elif isinstance(record, StackRecord):
            key = (record.queue, record.tid, record.t_begin)
            stacks[key] = _merged(stacks.get(key, _NONE), record)
        if len(waits) > _APART:
            key, wait = waits.popitem(last=False)
            yield wait, stacks.pop(key, _NONE)
        if len(stacks) > 2 * _APART:
            stacks.popitem(last=False)
    for key, wait in waits.items():
        yield wait, stacks.pop(key, _NONE)


def _merged(known: Stacks, record: StackRecord) -> Stacks:
    """The last word on each of the two threads."""
    sleeper = known[0] if record.sleeper == NO_STACK else record.sleeper
    waker = known[1] if record.waker == NO_STACK else record.waker
    return sleeper, waker


def _line(ledger: Ledger, names: Mapping[int, str], wait: WaitRecord, stacks: Stacks) -> str:
    """Both stacks of a wait, as the part of a line before its count."""
    sleeper, waker = (ledger.frames(stack) for stack in stacks)
    queue = f"[{_word(ledger.object_name(wait.queue, names))}]"
    parts = [_word(ledger.threads.get(wait.tid, f"thread-{wait.tid}"))]
    parts += [function(frame) for frame in reversed(sleeper)] or [queue]
    parts.append(_SEPARATOR)
    parts += [function(frame) for frame in waker]
    if wait.ended:
        parts.append(_word(ledger.threads.get(wait.waker, f"thread-{wait.waker}")))
    elif not waker:
        parts.append(NOBODY)
    return ";".join(parts)


def write(
    path: Path,
    records: Iterable[Record],
    ledger: Ledger,
    names: Mapping[int, str] | None = None,
    t_stop: int = 0,
) -> None:
    """Write the folded stacks of these records. Raises OSError."""
    counts: Counter[str] = Counter()
    for wait, stacks in _pairs(records):
        if asleep := asleep_ns(wait, t_stop):
            counts[_line(ledger, names or {}, wait, stacks)] += asleep
    with whole(path) as file:
        for line, ns in sorted(counts.items()):
            file.write(f"{line} {ns // 1000}\n".encode())
