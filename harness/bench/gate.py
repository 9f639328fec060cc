# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Figures that repeat: what one operation takes, and by how much that has changed.

The guest with one CPU counts instructions, sleeps, wakes and system calls. They do not depend on
the host, so a reference in the tree is compared with each new commit. Nothing is measured here.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfabric.bench import figures, plans
from kfabric.bench.figures import Sample
from kfabric.errors import UsageError

LIMIT = 0.03
"""The largest change of a figure that passes, as a part of the figure."""

_REPEATS = 3

_HEAD = """\
# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
# What one operation takes, counted in a guest with one CPU (docs/bench.md, "The gate").
# Written by: kfabric bench gate --update
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the gate.

    Attributes:
        title: the operation and what is counted.
        line: the beginning of the lines of the plan that measure it.
        name: of the number in what a line returns, for all of its operations.
    """

    title: str
    line: str
    name: str

    def of(self, samples: Iterable[Sample]) -> float:
        """For one operation, the least of several measurements. Raises Missing.

        Whatever else the guest does meanwhile is added to a measurement.
        """
        found = [one for one in samples if f"{one.line} ".startswith(f"{self.line} ")]
        if not found:
            raise figures.Missing(f"no figures for {self.line}")
        return min(one.figures[self.name] / figures.rounds(one) for one in found)


def _counted(title: str, line: str, name: str = "cycles", what: str = "instructions") -> Figure:
    return Figure(f"{title}: {what}", line, name)


_TRIP = "pingpong kfi batch"

FIGURES: tuple[Figure, ...] = (
    _counted("kfi_wait", f"{_TRIP} 2000 0 0 -1"),
    _counted("kfi_wait", f"{_TRIP} 2000 0 0 -1", "slept", "sleeps"),
    _counted("kfi_wait, with a timeout", f"{_TRIP} 2000 0 0 60000"),
    _counted("kfi_wait, threads preempt", "pingpong kfi normal 2000 0 0 -1"),
    _counted("kfi_wait, threads preempt", "pingpong kfi normal 2000 0 0 -1", "slept", "sleeps"),
    _counted("kfi_poll, 16 members", "poll 16"),
    _counted("kfi_poll, 65536 members", "poll 65536 1"),
    _counted("kfi_poll, 4096 members, none ready", "poll 4096 0"),
    _counted("KFAB_IOC_POLL", "ioctl 4096"),
    _counted("an event for 256 exclusive waiters", "herd 256 1000 1 1", "wakes", "wakes"),
    _counted("MSG on rxe", "rxe 2000 plain", "ns"),
    _counted("MSG on rxe, with the probes", "rxe 2000 watched", "ns"),
    _counted("MSG on rxe, with a profile", "rxe 2000 profiled", "ns"),
    _counted("RDM on rxe", "rxe 2000 rdm", "ns"),
    _counted("RDM read of 1 MiB", "rdmread", "ns"),
    _counted("tagged message, 10 receives posted", "tags 10 0"),
    _counted("tagged message, 10000 receives posted", "tags 10000 0"),
    _counted("tagged message, 1000 endpoints on the node", "tags 10 998"),
    _counted("ping-pong of processes", "talk kfabric", "ns"),
    _counted("event loop in Python", "events kfabric", "ns"),
    _counted("event loop in Python", "events kfabric", "calls", "system calls"),
)
"""Of one operation each; of a ping-pong that is a round trip."""


def plan() -> list[str]:
    """The lines of the counting guest's plan that the figures need, some times each.

    Whatever the guest does in the background may last for several lines, so the repetitions of
    a line are far from each other. But the probes are attached once.
    """
    wanted = [f"{figure.line} " for figure in FIGURES]
    lines = [
        line
        for line in dict.fromkeys(plans.INSTRUCTIONS)
        if any(f"{line} ".startswith(each) for each in wanted)
    ]
    once = [line for line in lines if line.startswith("rxe ")]
    others = [line for line in lines if line not in once]
    return [*others * _REPEATS, *(line for line in once for _ in range(_REPEATS))]


def measured(samples: Sequence[Sample]) -> dict[str, float]:
    """All figures by their title. Raises Missing."""
    return {figure.title: figure.of(samples) for figure in FIGURES}


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before and after; None where it was not measured."""

    title: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """The new figure by the old one; None if one of them is missing."""
        if self.before is None or self.after is None:
            return None
        if not self.before:
            return 1.0 if not self.after else float("inf")
        return self.after / self.before

    @property
    def passes(self) -> bool:
        """Whether it is about as before."""
        return self.ratio is not None and abs(self.ratio - 1) <= LIMIT


def changes(before: Mapping[str, float], after: Mapping[str, float]) -> list[Change]:
    """Each figure of either side, in the order of the new ones."""
    titles = dict.fromkeys([*after, *before])
    return [Change(title, before.get(title), after.get(title)) for title in titles]


@dataclass(frozen=True, slots=True)
class Reference:
    """The figures of the tree, and the release of the kernel that they were counted on."""

    kernel: str
    figures: Mapping[str, float]

    @classmethod
    def load(cls, path: Path) -> "Reference":
        """Read the file. Raises OSError if there is none."""
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(data["kernel"], data["figures"])

    @classmethod
    def of_report(cls, path: Path) -> "Reference":
        """The figures of a report.json. Raises UsageError."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return cls(data["about"]["guest kernel"], data["figures"])
        except (OSError, ValueError, LookupError, TypeError):
            raise UsageError(f"{path} is no report of this bench") from None

    def report(self) -> dict[str, Any]:
        """What a report.json has of it."""
        return {"about": {"guest kernel": self.kernel}, "figures": dict(self.figures)}

    def save(self, path: Path) -> None:
        """Write the file. Raises OSError."""
        lines = [f'"{title}" = {value:.4f}' for title, value in self.figures.items()]
        text = "\n".join([f'{_HEAD}\nkernel = "{self.kernel}"\n\n[figures]', *lines, ""])
        path.write_text(text, encoding="utf-8")
