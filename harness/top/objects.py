# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The module's list of all objects: its lines, their order, what to make of the numbers.

Pure: text goes in. The file is ``/sys/kernel/debug/kfabric/objects``; a line is the
class of an object and ``name=value`` pairs, by the names of the profile variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAMES = {
    "cq": "CQ",
    "eq": "EQ",
    "cntr": "counter",
    "ep": "endpoint",
    "wait": "wait set",
    "poll": "poll set",
    "domain": "domain",
}
_WORDS = frozenset(("comm",))
_HEAD = frozenset(("id", "parent", "set", "pid", "comm"))

Value = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """One object at one look.

    ``parent`` is the domain or fabric it is on, ``owner`` the wait set that it is a
    member of; 0: none. ``pid`` and ``comm`` are who opened it.
    """

    kind: str
    id: int
    parent: int
    owner: int
    pid: int
    comm: str
    values: Mapping[str, Value]

    @property
    def name(self) -> str:
        """Class and id."""
        return f"{NAMES.get(self.kind, self.kind)} {self.id}"

    def number(self, name: str) -> int:
        """A value that is one number; 0 if the class has none such."""
        value = self.values.get(name, 0)
        return value if isinstance(value, int) else 0

    @property
    def latency(self) -> tuple[int, ...]:
        """The histogram; empty if the class has none."""
        value = self.values.get("latency", ())
        return value if isinstance(value, tuple) else ()

    def encode(self) -> dict[str, Any]:
        """For JSON, as flat as it was."""
        head = {
            "class": self.kind,
            "id": self.id,
            "parent": self.parent,
            "set": self.owner,
            "pid": self.pid,
            "comm": self.comm,
        }
        return head | dict(self.values)


def decode(item: Mapping[str, Any]) -> Seen:
    """What :meth:`Seen.encode` has made, after a journey as JSON."""
    values = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in item.items()
        if name not in _HEAD and name != "class"
    }
    return Seen(
        kind=item["class"],
        id=item["id"],
        parent=item["parent"],
        owner=item["set"],
        pid=item["pid"],
        comm=item["comm"],
        values=values,
    )


def _unescape(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)


def _value(text: str) -> Value:
    numbers = tuple(int(number) for number in text.split(","))
    return numbers if "," in text else numbers[0]


def parse(text: str) -> list[Seen]:
    """The objects of a listing. Raises ValueError, KeyError for what is none."""
    found = []
    for line in text.splitlines():
        kind, *pairs = line.split(" ")
        words = dict(pair.split("=", 1) for pair in pairs)
        item: dict[str, Any] = {
            name: _unescape(word) if name in _WORDS else _value(word)
            for name, word in words.items()
        }
        found.append(decode({"class": kind, **item}))
    return found


def order(objects: Iterable[Seen]) -> list[Seen]:
    """What somebody waits on longest now first, then what was waited on longest."""
    return sorted(
        objects,
        key=lambda one: (-one.number("longest_ns"), -one.number("asleep_ns"), one.id),
    )


def percentile(latency: Sequence[int], share: float) -> int:
    """Upper bound, in nanoseconds, of what so many of the latencies kept; 0: none known."""
    total, seen = sum(latency), 0
    for bucket, count in enumerate(latency):
        seen += count
        if total and seen >= share * total:
            return int(2 ** (bucket + 1))
    return 0
