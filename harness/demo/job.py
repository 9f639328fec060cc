# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What host and guest of the demo exchange: the ping-pong's parameters, and the guest's report.

Imported in the guest: plain data without slow imports.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

REPORT = "guest.json"
MESSAGES = 997
"""A prime number, so that a miscount in whole rounds shows."""


class Fault(StrEnum):
    """Faults that the wait core can inject (test-option build)."""

    LOST = "lost"
    SPURIOUS = "spurious"
    LATE = "late"
    HERD = "herd"


@dataclass(frozen=True, slots=True)
class PingPong:
    """Parameters of the ping-pong from Python.

    Attributes:
        messages: in each direction.
        fault: injected by the first sender against its peer, which waits with a short deadline.
        fault_at: number of the message before which it is injected.
    """

    messages: int
    fault: Fault | None = None
    fault_at: int = 0


@dataclass(frozen=True, slots=True)
class Peer:
    """One thread of a ping-pong, to be woken once for each message.

    Attributes:
        error: reported by its program; empty if there was none.
        ns: from being connected to the last message; 0: not measured.
    """

    name: str
    tid: int
    messages: int
    error: str = ""
    ns: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One part of the demo: a ping-pong with two peers, or another one without peers."""

    title: str
    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class GuestReport:
    """What the guest reports besides the recording.

    Attributes:
        names: names of objects for the findings, by tracing id.
        facts: versions and measurements of the guest.
    """

    scenarios: tuple[Scenario, ...]
    names: Mapping[int, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        """Write it into a directory."""
        (directory / REPORT).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read the file that `write` left. Raises OSError or ValueError."""
        raw = json.loads((directory / REPORT).read_text(encoding="utf-8"))
        try:
            scenarios = tuple(
                Scenario(one["title"], tuple(Peer(**peer) for peer in one["peers"]))
                for one in raw["scenarios"]
            )
            names = {int(oid): str(name) for oid, name in raw["names"].items()}
            return cls(scenarios, names, dict(raw["facts"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"bad report of the guest: {error!r}") from error
