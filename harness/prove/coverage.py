# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Which interleaving table and which rule about two threads has no scenario."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kfabric.errors import SetupError
from kfabric.prove.output import Scenario
from kfabric.vm import cache

WAKEUPS = Path("docs/wakeups.md")
RULES = Path("tests/prove/rules.txt")
"""The rules of docs/contract.md that speak of two threads, one a line."""

_TABLE = re.compile(r"^### (\d+)\. (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What no scenario plays.

    Args:
        tables: number and title.
        rules: their ids.
        unknown: what scenarios name and what does not exist.
    """

    tables: tuple[tuple[int, str], ...]
    rules: tuple[str, ...]
    unknown: tuple[str, ...]

    def lines(self) -> list[str]:
        """The lists in words, one a line; none if all is played."""
        found = [f"no scenario plays table {number}, {title}" for number, title in self.tables]
        if self.rules:
            found.append(f"no scenario is about {', '.join(self.rules)}")
        return [*found, *(f"unknown: {name}" for name in self.unknown)]


def of(scenarios: Iterable[Scenario], checkout: Path) -> Coverage:
    """Compare all scenarios with the two lists. Raises SetupError."""
    try:
        titles = tables((checkout / WAKEUPS).read_text(encoding="utf-8"))
        wanted = rules(checkout)
    except OSError as error:
        raise SetupError(f"cannot read {error.filename}: {error.strerror}") from None
    played = {number for scenario in scenarios for number in scenario.tables}
    about = {rule for scenario in scenarios for rule in scenario.rules}
    return Coverage(
        tuple((number, title) for number, title in titles.items() if number not in played),
        tuple(rule for rule in wanted if rule not in about),
        tuple(f"table {number}" for number in sorted(played - set(titles))),
    )


def tables(text: str) -> dict[int, str]:
    """The titles of the tables of docs/wakeups.md, by number."""
    return {int(number): title for number, title in _TABLE.findall(text)}


def rules(checkout: Path) -> list[str]:
    """The rules that speak of two threads. Raises OSError."""
    return cache.list_lines(checkout / RULES)
