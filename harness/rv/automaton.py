# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Deterministic automata, as the kernel's RV monitors run them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Arrow(NamedTuple):
    """In the state ``source`` the event is allowed, and leads to ``target``."""

    source: str
    event: str
    target: str


class Refusal(NamedTuple):
    """An event that the automaton does not allow."""

    state: str
    event: str


@dataclass(frozen=True)
class Automaton:
    """An automaton; it allows exactly the events of its arrows."""

    name: str
    """Also the monitor's name in the kernel."""
    rules: tuple[str, ...]
    """Ids of the contract's rules that it decides."""
    text: str
    """The monitor's description, in one line."""
    per: str
    """What has an automaton of its own: ``per_task`` or ``per_cpu``."""
    probes: tuple[str, ...]
    """Tracepoints of kfabric that its events are made of, in the order of attaching."""
    initial: str
    arrows: tuple[Arrow, ...]

    @cached_property
    def states(self) -> list[str]:
        """The initial state, then the others in order."""
        return [self.initial, *sorted({arrow.source for arrow in self.arrows} - {self.initial})]

    @cached_property
    def events(self) -> list[str]:
        """The events, in order."""
        return sorted({arrow.event for arrow in self.arrows})

    @cached_property
    def function(self) -> dict[tuple[str, str], str]:
        """The next state by state and event."""
        return {(arrow.source, arrow.event): arrow.target for arrow in self.arrows}

    def ambiguous(self) -> list[tuple[str, str]]:
        """Pairs of state and event with several arrows; none if it is deterministic."""
        counts = Counter((arrow.source, arrow.event) for arrow in self.arrows)
        return [pair for pair, count in counts.items() if count > 1]

    def reachable(self) -> set[str]:
        """The states that some events lead to, and the initial one."""
        found = {self.initial}
        while more := {a.target for a in self.arrows if a.source in found} - found:
            found |= more
        return found

    def refusals(self, events: Iterable[str]) -> list[Refusal]:
        """The events of a list that are not allowed; after each it begins anew."""
        refused: list[Refusal] = []
        state = self.initial
        for event in events:
            following = self.function.get((state, event))
            if following is None:
                refused.append(Refusal(state, event))
            state = following or self.initial
        return refused
