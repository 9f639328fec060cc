# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What host and guest of the demo agree on: orders one way, an account the other.

Imported in the guest: plain data, nothing that costs start-up time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

ACCOUNT = "account.json"
MESSAGES = 997
"""A prime number, so that nothing that counts in rounds looks right by accident."""


class Fault(StrEnum):
    """Faults that the wait core can be told to commit (test-option build)."""

    LOST = "lost"
    SPURIOUS = "spurious"
    LATE = "late"
    HERD = "herd"


@dataclass(frozen=True, slots=True)
class Orders:
    """How the ping-pong from Python is to be played.

    ``fault`` is what the one who serves commits against the other before it
    sends message ``fault_at``; the other then waits with a short deadline.
    """

    messages: int
    fault: Fault | None = None
    fault_at: int = 0


@dataclass(frozen=True, slots=True)
class Player:
    """One thread that was to be woken once for each message.

    ``error`` is what its program complains of, empty if it is content; ``ns`` is the time
    from being connected to the last message, 0 if nobody measured it.
    """

    name: str
    tid: int
    messages: int
    error: str = ""
    ns: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """One game of the job: two players. An extra scene has none."""

    title: str
    players: tuple[Player, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """What the guest's part tells besides the recording.

    ``names`` gives objects, by tracing id, the names that findings shall use.
    """

    parts: tuple[Part, ...]
    names: Mapping[int, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        """Leave it in a directory."""
        (directory / ACCOUNT).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Account:
        """Read what :meth:`write` left. Raises OSError or ValueError."""
        raw = json.loads((directory / ACCOUNT).read_text(encoding="utf-8"))
        try:
            parts = tuple(
                Part(part["title"], tuple(Player(**player) for player in part["players"]))
                for part in raw["parts"]
            )
            names = {int(oid): str(name) for oid, name in raw["names"].items()}
            return cls(parts, names, dict(raw["facts"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"bad account: {error!r}") from error
