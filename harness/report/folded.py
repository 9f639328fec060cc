# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Folded stacks of sleepers and their wakers, for flame graphs.

One line for each pair of stacks, in the order of bcc's offwaketime: the sleeper's
name and stack, outermost first; ``--``; then the waker's stack, innermost first, and
its name. The count is microseconds asleep. If a wait's stacks were not recorded, its
queue takes their place.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from pathlib import Path

from kfabric.recording.records import NO_STACK, Record, StackRecord, WaitRecord
from kfabric.report.files import whole
from kfabric.verdict.ledger import Ledger

_SEPARATOR = "--"
NOBODY = "[nobody]"
"""The waker of a wait that no thread ended."""

# Waits and stacks that are further apart than this are not matched.
_APART = 20_000


def function(frame: str) -> str:
    """A frame without the offset: ``symbol+0x12 [module]`` becomes ``symbol``."""
    return _word(frame.partition("+0x")[0])


def _word(name: str) -> str:
    """A name in the format, which separates by semicolons and ends at a space."""
    return "".join("_" if c in "; \t\r\n" or not c.isprintable() else c for c in name) or "_"


def asleep_ns(wait: WaitRecord, t_stop: int) -> int:
    """The length of a wait's last sleep, in nanoseconds."""
    if not wait.t_slept:
        return 0
    ends = (wait.t_running, wait.t_end, t_stop)
    return max(0, next((t for t in ends if t > wait.t_slept), wait.t_slept) - wait.t_slept)


Key = tuple[int, int, int]
Stacks = tuple[tuple[int, int], tuple[int, int]]
"""Numbers of a sleeper's and its waker's stacks, or NO_STACK."""

_NONE: Stacks = ((NO_STACK, NO_STACK), (NO_STACK, NO_STACK))


class Folded:
    """Sums up sleeps by their stacks, record by record."""

    def __init__(self, ledger: Ledger, names: Mapping[int, str], t_stop: int) -> None:
        """``ledger`` has the names and frames; open waits end at ``t_stop``."""
        self._ledger, self._names, self._t_stop = ledger, names, t_stop
        self._waits: OrderedDict[Key, WaitRecord] = OrderedDict()
        self._stacks: OrderedDict[Key, StackRecord] = OrderedDict()
        self._counts: Counter[tuple[int, int, int, Stacks, bool]] = Counter()

    def add(self, record: Record) -> None:
        """Add a record; a wait may come before or after its stacks."""
        if isinstance(record, WaitRecord):
            self._waits[record.queue, record.tid, record.t_begin] = record
            if len(self._waits) > _APART:
                self._finish(*self._waits.popitem(last=False))
        elif isinstance(record, StackRecord):
            key = (record.queue, record.tid, record.t_begin)
            known = self._stacks.get(key)
            self._stacks[key] = known.updated(record) if known else record
            if len(self._stacks) > 2 * _APART:
                self._stacks.popitem(last=False)

    def _finish(self, key: Key, wait: WaitRecord) -> None:
        record = self._stacks.pop(key, None)
        stacks = (record.sleeps, record.wakes) if record else _NONE
        if asleep := asleep_ns(wait, self._t_stop):
            self._counts[wait.queue, wait.tid, wait.waker, stacks, bool(wait.ended)] += asleep

    def lines(self) -> list[str]:
        """The lines, sorted; no record may be added afterwards."""
        while self._waits:
            self._finish(*self._waits.popitem(last=False))
        sums: Counter[str] = Counter()
        for (queue, tid, by, stacks, ended), ns in self._counts.items():
            sums[self._line(queue, tid, by if ended else 0, stacks)] += ns
        return [f"{line} {ns // 1000}" for line, ns in sorted(sums.items())]

    def _line(self, queue: int, tid: int, by: int, stacks: Stacks) -> str:
        """Both stacks of a wait: the part of a line before its count."""
        sleeper, waker = (self._ledger.frames(*numbers) for numbers in stacks)
        name = self._ledger.object_name(queue, self._names)
        parts = [_word(self._ledger.threads.get(tid, f"thread-{tid}"))]
        parts += [function(frame) for frame in reversed(sleeper)] or [f"[{_word(name)}]"]
        parts.append(_SEPARATOR)
        parts += [function(frame) for frame in waker]
        if by:
            parts.append(_word(self._ledger.threads.get(by, f"thread-{by}")))
        elif not waker:
            parts.append(NOBODY)
        return ";".join(parts)

    def write(self, path: Path) -> None:
        """Write the lines.

        Raises:
            OSError: The file cannot be written.
        """
        with whole(path) as file:
            for line in self.lines():
                file.write(f"{line}\n".encode())
