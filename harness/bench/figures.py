# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""From what the guests measured to rows with a goal. Nothing here touches a guest.

A sample is one line of the plan and the figures that came back for it. Samples of
one line are repeated, in turn with those that they are compared to.
"""

from __future__ import annotations

import errno
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

PROVIDERS = ("sockets", "udp", "shm", "tcp")
"""Of libfabric; the fastest of them is the one that counts."""

MEMBERS = 4096
FEW_MEMBERS = 16
THREADS = 64
FLOOD = 1_000_000
_GAME, _REPEATS = 2000, 5
_SHORT_GAME, _SHORT_REPEATS = 400, 40
_EVENTS, _HERD = 10_000, 1_000
_CALLS, _SLOW_CALLS = 10_000, 20
_NO_LIMIT, _LIMIT_MS = -1, 60_000
_RXE_COUNTED, _RXE_TIMED = (2000, 3), (1000, 10)
PLAIN, WATCHED, PROFILED, RDM = "plain", "watched", "profiled", "rdm"
"""How the ping-pong over rxe is played: as it is, with the probes, while somebody profiles, and
with tagged messages between RDM endpoints."""
ON_A_LINK = ("rdmread", "rawread", "tags")
"""Measurements of the test module that want the address of an RDMA link as their first word."""
READ_SIZE, READ_DEPTH = 1 << 20, 4
_READS, _READ_REPEATS = 16, 8
FEW_TAGS, MANY_TAGS = 10, 10_000
_TAGGED = 2000
_LOOP_GAME, _LOOP_REPEATS = 100, 3
LOOPS = ("kfabric", "pyverbs")
"""Event loops in Python over a completion channel, by what they are written with."""
_SLAB_NOISE = 0.5
"""Bytes per event that the rest of the system may account for; one object an event
would be 8 at least."""


def _rxe(messages: int, repeats: int) -> Iterable[str]:
    """Games over rxe.

    Half of the plain ones come before the watched, half after: what a guest gets slower
    by in the course of time is not the probes'. Not one by one: each time that the probes
    come or go the kernel's text is patched, which an emulated CPU may not survive.
    """
    before = repeats // 2
    watched = ((WATCHED, repeats), (PROFILED, repeats), (RDM, repeats))
    games = ((PLAIN, before), *watched, (PLAIN, repeats - before))
    return (f"rxe {messages} {kind}" for kind, times in games for _ in range(times))


def _reads(repeats: int) -> Iterable[str]:
    """Reads of remote memory, by kfabric and without it, in turn."""
    numbers = f"{READ_SIZE} {_READS} {READ_DEPTH}"
    return (f"{name} {numbers}" for _ in range(repeats) for name in ("rawread", "rdmread"))


INSTRUCTIONS: tuple[str, ...] = (
    *(
        f"pingpong {kind} {policy} {_GAME} 0 0 {limit}"
        for _ in range(_REPEATS)
        for policy in ("batch", "normal")
        for limit in (_NO_LIMIT, _LIMIT_MS)
        for kind in ("flag", "bare", "kfi")
    ),
    f"poll {FEW_MEMBERS} 1 {_CALLS}",
    f"poll {MEMBERS} 1 {_CALLS}",
    f"poll {MEMBERS} 0 {_CALLS}",
    f"ioctl {MEMBERS} {_CALLS}",
    *(f"fi_poll {provider} {MEMBERS} {_SLOW_CALLS}" for provider in PROVIDERS),
    *_rxe(*_RXE_COUNTED),
    *_reads(1),
    f"tags {FEW_TAGS} {_TAGGED}",
    f"tags {MANY_TAGS} {_TAGGED}",
    *(f"events {kind} {_LOOP_GAME}" for _ in range(_LOOP_REPEATS) for kind in LOOPS),
)
"""What a guest with one CPU measures that counts its instructions."""

TIMES: tuple[str, ...] = (
    *(
        f"pingpong {kind} batch {_SHORT_GAME} 0 1 {limit}"
        for _ in range(_SHORT_REPEATS)
        for limit in (_NO_LIMIT, _LIMIT_MS)
        for kind in ("flag", "bare", "kfi")
    ),
    f"herd {THREADS} {_EVENTS} 1 1",
    f"herd {THREADS} {_EVENTS} 1 0",
    f"herd {THREADS} {_HERD} 0 1",
    f"flood {FLOOD}",
    *_rxe(*_RXE_TIMED),
    *_reads(_READ_REPEATS),
)
"""What a guest with two CPUs measures. Games are short, so that some of them find
the host quiet."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: a line of the plan, and its figures by name."""

    line: str
    figures: dict[str, int]

    @property
    def words(self) -> list[str]:
        """The line's words."""
        return self.line.split()


@dataclass(frozen=True, slots=True)
class Row:
    """One promise with what was measured.

    ``goal`` is the most that ``measured`` may be, or the least if ``at_least``;
    None: nothing was promised. ``raw`` says what it was computed from.
    """

    what: str
    measured: float
    goal: float | None
    raw: str
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Was the goal reached? None without one."""
        if self.goal is None:
            return None
        return self.measured >= self.goal if self.at_least else self.measured <= self.goal


class Missing(LookupError):
    """A measurement that a row needs was not made."""


def parse(reply: str) -> dict[str, int]:
    """The figures of a reply such as ``cycles=12 ns=34``. Raises ValueError."""
    words = (word.partition("=") for word in reply.split())
    return {name: int(number) for name, _, number in words}


def faults(samples: Iterable[Sample]) -> list[str]:
    """What was lost, or came out wrong, whatever it cost."""
    return [
        f"{sample.line}: {what}" for sample in samples for what in _CHECKS[sample.words[0]](sample)
    ]


def _game_faults(sample: Sample) -> list[str]:
    figures = sample.figures
    found = [f"a thread stopped with {figures['error']}"] if figures["error"] else []
    if figures["stalled"]:
        found.append("a thread slept although something was there")
    return found


def _poll_faults(sample: Sample) -> list[str]:
    wrong = sample.figures["wrong"]
    return [f"{wrong} calls did not return what was ready"] if wrong else []


def _memory_faults(sample: Sample) -> list[str]:
    return ["what was read is not what was there"] if sample.figures["wrong"] else []


def _tag_faults(sample: Sample) -> list[str]:
    wrong = sample.figures["wrong"]
    return [f"{wrong} messages went to another tag's receive"] if wrong else []


def _herd_faults(sample: Sample) -> list[str]:
    lost = sample.figures["events"] - sample.figures["read"]
    return [f"{lost} events were not read"] if lost else []


def _flood_faults(sample: Sample) -> list[str]:
    figures, events = sample.figures, int(sample.words[1])
    wanted = {"read": events, "counted": events, "ready": 0, "drained": -errno.ETIMEDOUT}
    return [
        f"{name} is {figures[name]} instead of {value}"
        for name, value in wanted.items()
        if figures[name] != value
    ]


def _rxe_faults(sample: Sample) -> list[str]:
    figures, kind = sample.figures, sample.words[2]
    found = [f"{figures['errors']} threads stopped with an error"] if figures["errors"] else []
    if figures["lost"]:
        found.append(f"the probes lost {figures['lost']} records")
    # Of each message a publication and a wait, in each direction.
    saw = figures["records"] >= 2 * int(sample.words[1])
    if saw != (kind == WATCHED):
        found.append(f"the probes saw {figures['records']} records")
    return found


def _events_faults(sample: Sample) -> list[str]:
    wrong = sample.figures["wrong"]
    return [f"{wrong} messages did not come"] if wrong else []


_CHECKS: dict[str, Callable[[Sample], list[str]]] = {
    "pingpong": _game_faults,
    "rdmread": _memory_faults,
    "rawread": _memory_faults,
    "tags": _tag_faults,
    "poll": _poll_faults,
    "ioctl": _poll_faults,
    "fi_poll": _poll_faults,
    "herd": _herd_faults,
    "flood": _flood_faults,
    "rxe": _rxe_faults,
    "events": _events_faults,
}


def rows(instructions: Sequence[Sample], times: Sequence[Sample]) -> list[Row]:
    """All promises. Raises Missing if one cannot be judged."""
    return [
        *_wait_rows(instructions, times),
        *_poll_rows(instructions),
        *_herd_rows(times),
        _flood_row(times),
        _watched_row(WATCHED, "instructions", instructions, 1.30, statistics.median),
        _watched_row(WATCHED, "time", times, 1.15, lowest),
        _watched_row(PROFILED, "instructions", instructions, 1.02, statistics.median),
        _watched_row(PROFILED, "time", times, None, lowest),
        _watched_row(RDM, "instructions", instructions, 1.30, statistics.median),
        _watched_row(RDM, "time", times, 1.30, lowest),
        _read_row("instructions", instructions, statistics.median),
        _read_row("time", times, lowest),
        _tags_row(instructions),
        _events_row(instructions),
    ]


def _wait_rows(instructions: Sequence[Sample], times: Sequence[Sample]) -> list[Row]:
    count = Games(instructions, "cycles", 1, "instructions", statistics.median)
    clock = Games(times, "ns", 1000, "µs", lowest)
    batch, limited, normal = ("batch", _NO_LIMIT), ("batch", _LIMIT_MS), ("normal", _NO_LIMIT)
    return [
        count.row("instructions", "bare", batch, 1.20),
        count.row("instructions, with a timeout", "bare", limited, 1.20),
        count.row("instructions, threads preempt", "bare", normal, 1.20),
        count.row("instructions, nothing stored", "flag", batch, 1.20),
        clock.row("time, two CPUs", "bare", batch, 1.10),
        clock.row("time, with a timeout", "bare", limited, 1.10),
        clock.row("time, nothing stored", "flag", batch, None),
    ]


@dataclass(frozen=True, slots=True)
class Games:
    """Round trips of one guest: which figure of them counts, and how."""

    samples: Sequence[Sample]
    figure: str
    divisor: int
    unit: str
    pick: Callable[[Sequence[float]], float]

    def cost(self, kind: str, mode: tuple[str, int]) -> float:
        """What one round trip of a kind costs, with a policy and a timeout. Raises Missing."""
        policy, limit = mode
        costs = [
            sample.figures[self.figure] / int(sample.words[3]) / self.divisor
            for sample in self.samples
            if sample.words[:3] == ["pingpong", kind, policy] and int(sample.words[6]) == limit
        ]
        if not costs:
            raise Missing(f"no round trips of {kind}")
        return self.pick(costs)

    def row(self, title: str, against: str, mode: tuple[str, int], goal: float | None) -> Row:
        """kfi_wait() against one of the bare kinds."""
        ours, bare = self.cost("kfi", mode), self.cost(against, mode)
        raw = f"{ours:.1f} / {bare:.1f} {self.unit}"
        return Row(f"kfi_wait: {title}", ours / bare, goal, raw)


def lowest(values: Sequence[float]) -> float:
    """For times, of which other work on the host makes some much longer, none shorter.

    Not the very lowest, which is one game's luck, but the one that every tenth beats.
    """
    return sorted(values)[len(values) // 10]


def _find(samples: Iterable[Sample], *words: object) -> Sample:
    """The first sample whose line begins with these words. Raises Missing."""
    wanted = [str(word) for word in words]
    for sample in samples:
        if sample.words[: len(wanted)] == wanted:
            return sample
    raise Missing(f"no figures for {' '.join(wanted)}")


def _call_cost(sample: Sample) -> float:
    return sample.figures["cycles"] / int(sample.words[-1])


def _poll_rows(samples: Sequence[Sample]) -> list[Row]:
    many = _call_cost(_find(samples, "poll", MEMBERS, 1))
    few = _call_cost(_find(samples, "poll", FEW_MEMBERS, 1))
    idle = _call_cost(_find(samples, "poll", MEMBERS, 0))
    user = _call_cost(_find(samples, "ioctl", MEMBERS))
    theirs, provider = min(
        (_call_cost(_find(samples, "fi_poll", name)), name) for name in PROVIDERS
    )
    title = f"kfi_poll: {MEMBERS} / {FEW_MEMBERS} members"
    against = "fi_poll / kfi_poll"
    return [
        Row(title, many / few, 1.2, f"{many:.0f} / {few:.0f} instructions"),
        Row(
            f"{against}: from user space",
            theirs / user,
            50,
            f"{theirs:.0f} ({provider}) / {user:.0f} instructions",
            at_least=True,
        ),
        Row(
            f"{against}: in the kernel",
            theirs / idle,
            50,
            f"{theirs:.0f} ({provider}) / {idle:.0f} instructions",
            at_least=True,
        ),
    ]


def _herd_rows(samples: Sequence[Sample]) -> list[Row]:
    kinds = (("one at a time", 1, 1, 1.05), ("all at once", 1, 0, 1.05))
    rows = [
        _herd_row(samples, f"exclusive, {title}", exclusive, paced, goal)
        for title, exclusive, paced, goal in kinds
    ]
    return [*rows, _herd_row(samples, "not exclusive", 0, 1, None)]


def _herd_row(
    samples: Sequence[Sample], title: str, exclusive: int, paced: int, goal: float | None
) -> Row:
    for sample in samples:
        if sample.words[:2] == ["herd", str(THREADS)] and sample.words[3:] == [
            str(exclusive),
            str(paced),
        ]:
            wakes, events = sample.figures["wakes"], sample.figures["events"]
            lost = events - sample.figures["read"]
            raw = f"{wakes} / {events} events, {lost} lost"
            return Row(f"wakes: {title}", wakes / events, goal, raw)
    raise Missing(f"no herd {title}")


def _flood_row(samples: Sequence[Sample]) -> Row:
    sample = _find(samples, "flood")
    figures, events = sample.figures, int(sample.words[1])
    grown = (figures["after"] - figures["before"]) * figures["page"]
    return Row(
        "slab growth, bytes per event",
        max(grown, 0) / events,
        _SLAB_NOISE,
        f"{grown // 1024} KiB / {events} events",
    )


_BY = {WATCHED: "probes", PROFILED: "profile", RDM: "RDM / MSG"}


def _watched_row(
    how: str,
    title: str,
    samples: Sequence[Sample],
    goal: float | None,
    pick: Callable[[Sequence[float]], float],
) -> Row:
    """What a round trip over rxe costs, against a plain one. In the counting guest 1 ns is one."""
    costs: dict[str, float] = {}
    for kind in (PLAIN, how):
        found = [
            sample.figures["ns"] / _round_trips(sample) / 1000
            for sample in samples
            if sample.words[0] == "rxe" and sample.words[2] == kind
        ]
        if not found:
            raise Missing(f"no {kind} games over rxe")
        costs[kind] = pick(found)
    unit = "thousand" if title == "instructions" else "µs"
    raw = f"{costs[how]:.1f} / {costs[PLAIN]:.1f} {unit}"
    return Row(f"{_BY[how]} on rxe: {title}", costs[how] / costs[PLAIN], goal, raw)


def _round_trips(sample: Sample) -> int:
    """How many were measured: the first one of RDM endpoints connects, and is not."""
    return int(sample.words[1]) - (sample.words[2] == RDM)


def _read_row(
    title: str, samples: Sequence[Sample], pick: Callable[[Sequence[float]], float]
) -> Row:
    """Throughput of remote reads, against that of bare verbs."""
    costs: dict[str, float] = {}
    for name in ("rdmread", "rawread"):
        found = [
            sample.figures["ns"] / int(sample.words[2]) / 1000
            for sample in samples
            if sample.words[0] == name
        ]
        if not found:
            raise Missing(f"no {name}")
        costs[name] = pick(found)
    ours, bare = costs["rdmread"], costs["rawread"]
    unit = "thousand" if title == "instructions" else "µs"
    raw = f"{bare:.1f} / {ours:.1f} {unit} for each MiB"
    return Row(f"RDM read / RDMA READ: {title}", bare / ours, 0.85, raw, at_least=True)


def _tags_row(samples: Sequence[Sample]) -> Row:
    """What a message costs for one of many receives, against one of few."""
    many, few = (_call_cost(_find(samples, "tags", tags)) for tags in (MANY_TAGS, FEW_TAGS))
    title = f"tagged message: {MANY_TAGS} / {FEW_TAGS} receives posted"
    return Row(title, many / few, 1.2, f"{many:.0f} / {few:.0f} instructions")


def _events_row(samples: Sequence[Sample]) -> Row:
    """A round trip of an event loop in Python. In the counting guest 1 ns is one instruction."""
    costs: dict[str, float] = {}
    for kind in LOOPS:
        found = [
            sample.figures["ns"] / int(sample.words[2]) / 1000
            for sample in samples
            if sample.words[:2] == ["events", kind]
        ]
        if not found:
            raise Missing(f"no event loop with {kind}")
        costs[kind] = statistics.median(found)
    ours, theirs = costs["kfabric"], costs["pyverbs"]
    raw = f"{ours:.0f} / {theirs:.0f} thousand"
    return Row("event loop in Python: kfabric / pyverbs", ours / theirs, 0.7, raw)


def report(
    table: Sequence[Row], samples: Sequence[Sample], found: Sequence[str], about: dict[str, Any]
) -> dict[str, Any]:
    """What build/bench/report.json holds."""
    return {
        "rows": [
            {
                "what": row.what,
                "measured": round(row.measured, 4),
                "goal": row.goal,
                "at_least": row.at_least,
                "met": row.met,
                "raw": row.raw,
            }
            for row in table
        ],
        "faults": list(found),
        "about": about,
        "samples": [{"line": sample.line, **sample.figures} for sample in samples],
    }
