# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The module's list of all objects: reads its lines, sorts them.

Pure: text goes in. The file is `/sys/kernel/debug/kfabric/objects`; a line has the class of an
object and `name=value` pairs, with the names of the profile variables.
"""

import re
from collections.abc import Iterable, Mapping
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
#: Fields of an object by their names in the list.
_HEAD = {"class": "kind", "id": "id", "parent": "parent", "set": "owner", "pid": "pid"} | {
    "comm": "comm"
}

Value = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ObjectCounts:
    """One object with its counts at one moment.

    Attributes:
        parent: id of its domain or fabric; 0: none.
        owner: id of the wait set that it is a member of; 0: none.
        pid: the process that opened it.
        comm: the name of that process.
        values: counts and histograms by name.
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
        """A value that is one number; 0 if the class does not have it."""
        value = self.values.get(name, 0)
        return value if isinstance(value, int) else 0

    @property
    def latency(self) -> tuple[int, ...]:
        """The histogram; empty if the class does not have one."""
        value = self.values.get("latency", ())
        return value if isinstance(value, tuple) else ()

    def encode(self) -> dict[str, Any]:
        """As a flat dictionary for JSON."""
        return {key: getattr(self, field) for key, field in _HEAD.items()} | dict(self.values)


def decode(item: Mapping[str, Any]) -> ObjectCounts:
    """The reverse of `encode`, also after a conversion to JSON."""
    values = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in item.items()
        if name not in _HEAD
    }
    return ObjectCounts(**{field: item[key] for key, field in _HEAD.items()}, values=values)


def _value(name: str, text: str) -> Any:
    if name == "comm":
        return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
    numbers = tuple(int(number) for number in text.split(","))
    return numbers if "," in text else numbers[0]


def parse(text: str) -> list[ObjectCounts]:
    """The objects of a listing. Raises ValueError or KeyError for other text."""
    found = []
    for line in text.splitlines():
        kind, *pairs = line.split(" ")
        words = dict(pair.split("=", 1) for pair in pairs)
        item = {name: _value(name, word) for name, word in words.items()}
        found.append(decode({"class": kind, **item}))
    return found


def order(objects: Iterable[ObjectCounts]) -> list[ObjectCounts]:
    """Sorted by the oldest sleep that still lasts, then by the time of all sleeps."""
    return sorted(
        objects,
        key=lambda one: (-one.number("longest_ns"), -one.number("asleep_ns"), one.id),
    )
