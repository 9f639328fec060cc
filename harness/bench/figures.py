# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Turns the measurements of the guests into rows with a goal; touches no guest.

A sample is one line of the plan with the figures that came back for it.
"""

import errno
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kfabric.bench import games, plans

_EXIT_MS = 100
_SLAB_NOISE = 0.5
"""Bytes per event that the rest of the system may use; one leaked object per event would be at
least 8."""


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
    """One cost and its goal.

    Attributes:
        what: title.
        measured: a ratio, a number of bytes, or milliseconds.
        goal: the most that it may be, or the least with `at_least`; None: there is no goal.
        raw: the figures that it was computed from.
        again: of a ratio of times, the A/A ratio of the same games; None: it was counted.
        modes: of a ratio of times, the histograms of both.
        at_least: the direction of the goal.
    """

    what: str
    measured: float
    goal: float | None
    raw: str
    again: float | None = None
    modes: str = ""
    at_least: bool = False

    @property
    def repeats(self) -> bool:
        """Whether the same games would give about the same ratio."""
        return self.again is None or self.again <= games.LIMIT

    @property
    def met(self) -> bool | None:
        """Whether the goal was reached; None without a goal, or if the times do not repeat."""
        if self.goal is None or not self.repeats:
            return None
        return self.measured >= self.goal if self.at_least else self.measured <= self.goal


Check = Callable[[Sample], list[str]]
"""Returns the faults of a sample."""


class Missing(LookupError):
    """A row lacks a measurement."""


def parse(reply: str) -> dict[str, int]:
    """The figures of a reply such as `cycles=12 ns=34`. Raises ValueError."""
    words = (word.partition("=") for word in reply.split())
    return {name: int(number) for name, _, number in words}


def faults(samples: Iterable[Sample]) -> list[str]:
    """Lost or wrong results, whatever they cost."""
    return [
        f"{sample.line}: {what}" for sample in samples for what in _CHECKS[sample.words[0]](sample)
    ]


def _wrong(text: str) -> Check:
    """A check of the figure `wrong`, a number of errors."""
    return lambda sample: [f"{sample.figures['wrong']} {text}"] if sample.figures["wrong"] else []


def _pingpong_faults(sample: Sample) -> list[str]:
    figures = sample.figures
    found = [f"a thread stopped with {figures['error']}"] if figures["error"] else []
    return [*found, *(["a thread slept beside a readable event"] if figures["stalled"] else [])]


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
    # Each message is a publication and a wait in each direction.
    saw = figures["records"] >= 2 * int(sample.words[1])
    if saw != (kind == plans.WATCHED):
        found.append(f"the probes saw {figures['records']} records")
    return found


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("pingpong", "trip"), _pingpong_faults),
    **dict.fromkeys(("rdmread", "rawread"), _wrong("reads returned wrong bytes")),
    "tags": _wrong("messages went to the receive of another tag"),
    **dict.fromkeys(("poll", "ioctl", "fi_poll"), _wrong("calls did not return the ready queues")),
    **dict.fromkeys(("herd", "epoll"), _herd_faults),
    "flood": _flood_faults,
    "rxe": _rxe_faults,
    **dict.fromkeys(("events", "talk", "flow"), _wrong("messages did not arrive")),
    "exit": _wrong("clients did not end by the signal"),
    "memory": lambda _sample: [],
}


def rows(instructions: Sequence[Sample], times: Sequence[Sample]) -> list[Row]:
    """All rows. Raises Missing."""
    return [
        *_wait_rows(instructions, times),
        *_poll_rows(instructions),
        _herd_row(times, "exclusive, one at a time", "herd", "1 1", 1.02),
        _herd_row(times, "EPOLLEXCLUSIVE, one at a time", "epoll", "", None),
        _herd_row(times, "exclusive, all at once", "herd", "1 0", 1.02),
        _herd_row(times, "not exclusive", "herd", "0 1", None),
        _flood_row(times),
        _memory_row(times, "sleeper", "a thread in kfi_wait, beyond its stack", 200),
        _memory_row(times, "member", "a member of a poll set", 128),
        _memory_row(times, "cq", "an idle CQ of 256 entries", 24 << 10),
        _trip_row("instructions", instructions),
        _trip_row("time", times),
        _rxe_row(plans.WATCHED, "instructions", instructions, 1.30),
        _rxe_row(plans.WATCHED, "time", times, 1.15),
        _rxe_row(plans.PROFILED, "instructions", instructions, 1.02),
        _rxe_row(plans.PROFILED, "time", times, None),
        _rxe_row(plans.RDM, "instructions", instructions, 1.30),
        _rxe_row(plans.RDM, "time", times, 1.15),
        _read_row("instructions", instructions, 0.85),
        _read_row("time", times, 0.97),
        _tags_row(instructions),
        _endpoints_row(instructions),
        _talk_row(instructions, plans.VERBS, "ibv_rc_pingpong -e", 0.85),
        _talk_row(instructions, plans.LIBFABRIC, "fi_cq_sread", 0.5),
        _flow_row(instructions),
        _events_row(instructions),
        _exit_row(times),
    ]


def _wait_rows(instructions: Sequence[Sample], times: Sequence[Sample]) -> list[Row]:
    batch, limited, normal = (
        ("batch", plans.NO_LIMIT),
        ("batch", plans.LIMIT_MS),
        ("normal", plans.NO_LIMIT),
    )
    return [
        _wait_row(instructions, "instructions", "bare", batch, 1.20),
        _wait_row(instructions, "instructions, with a timeout", "bare", limited, 1.20),
        _wait_row(instructions, "instructions, threads preempt", "bare", normal, 1.20),
        _wait_row(instructions, "instructions, nothing stored", "flag", batch, 1.10),
        _wait_row(times, "time, two CPUs", "bare", batch, 1.10),
        _wait_row(times, "time, with a timeout", "bare", limited, 1.10),
        _wait_row(times, "time, nothing stored", "flag", batch, None),
    ]


def _wait_row(
    samples: Sequence[Sample], title: str, against: str, mode: tuple[str, int], goal: float | None
) -> Row:
    """A round trip by kfi_wait(), compared with one of the bare kinds. Raises Missing."""
    policy, limit = mode
    timed = title.startswith("time")

    def costs(kind: str) -> list[float]:
        trips = _all(samples, "pingpong", kind, policy, None, None, None, limit)
        figure, divisor = ("ns", 1000) if timed else ("cycles", 1)
        return [one.figures[figure] / rounds(one) / divisor for one in trips]

    pair, unit = Pair(costs("kfi"), costs(against), timed), "µs" if timed else "instructions"
    return pair.row(f"kfi_wait: {title}", goal, unit)


@dataclass(frozen=True, slots=True)
class Pair:
    """The costs of one operation, and those of the one that it is compared with."""

    ours: Sequence[float]
    theirs: Sequence[float]
    timed: bool

    def row(self, what: str, goal: float | None, unit: str) -> Row:
        """Our cost by theirs."""
        ours, theirs = map(self._pick, (self.ours, self.theirs))
        again = self._again()
        return Row(what, ours / theirs, goal, f"{ours:.1f} / {theirs:.1f} {unit}", *again)

    def row_of_rates(self, what: str, goal: float, unit: str) -> Row:
        """Our rate by theirs: the inverse."""
        return replace(
            Pair(self.theirs, self.ours, self.timed).row(what, goal, unit), at_least=True
        )

    def _pick(self, costs: Sequence[float]) -> float:
        return games.lowest(costs) if self.timed else statistics.median(costs)

    def _again(self) -> tuple[float | None, str]:
        """The worse of both A/A ratios, and the modes of both; nothing for what was counted."""
        if not self.timed:
            return None, ""
        kinds = self.ours, self.theirs
        return max(map(games.again, kinds)), " / ".join(f"[{bar}]" for bar in games.modes(*kinds))


def _all(samples: Iterable[Sample], *words: object) -> list[Sample]:
    """The samples whose line begins with these words; None stands for any. Raises Missing."""
    wanted = [None if word is None else str(word) for word in words]
    found = [
        sample
        for sample in samples
        if len(sample.words) >= len(wanted)
        and all(want in (None, word) for want, word in zip(wanted, sample.words, strict=False))
    ]
    if not found:
        raise Missing(f"no figures for {' '.join(word or '*' for word in wanted)}")
    return found


def _find(samples: Iterable[Sample], *words: object) -> Sample:
    """The first of them. Raises Missing."""
    return _all(samples, *words)[0]


def _call_cost(sample: Sample) -> float:
    return sample.figures["cycles"] / rounds(sample)


def _poll_rows(samples: Sequence[Sample]) -> list[Row]:
    many = _call_cost(_find(samples, "poll", plans.MANY_MEMBERS, 1))
    few = _call_cost(_find(samples, "poll", plans.FEW_MEMBERS, 1))
    theirs, provider = min(
        (_call_cost(_find(samples, "fi_poll", name)), name) for name in plans.PROVIDERS
    )
    title = f"kfi_poll: {plans.MANY_MEMBERS} / {plans.FEW_MEMBERS} members"
    found = [Row(title, many / few, 1.2, f"{many:.0f} / {few:.0f} instructions")]
    for where, words in (
        ("from user space", ("ioctl",)),
        ("in the kernel", ("poll", plans.MEMBERS, 0)),
    ):
        ours = _call_cost(_find(samples, *words))
        raw = f"{theirs:.0f} ({provider}) / {ours:.0f} instructions"
        found.append(Row(f"fi_poll / kfi_poll: {where}", theirs / ours, 50, raw, at_least=True))
    return found


def _herd_row(
    samples: Sequence[Sample], title: str, kind: str, mode: str, goal: float | None
) -> Row:
    """Wake-ups per event; the mode says whether waits are exclusive and events paced."""
    figures = _find(samples, kind, plans.THREADS, None, *mode.split()).figures
    wakes, events = figures["wakes"], figures["events"]
    raw = f"{wakes} / {events} events, {events - figures['read']} lost"
    return Row(f"wakes: {title}", wakes / events, goal, raw)


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


def _memory_row(samples: Sequence[Sample], kind: str, title: str, goal: float) -> Row:
    """The memory of one object."""
    sample = _find(samples, "memory", kind)
    figures, count = sample.figures, rounds(sample)
    taken = figures["pages"] * figures["page"]
    raw = f"{taken // 1024} KiB / {count}"
    return Row(f"bytes of {title}", max(taken, 0) / count, goal, raw)


_BY = {plans.WATCHED: "probes", plans.PROFILED: "profile", plans.RDM: "RDM / MSG"}


def _thousands(samples: Sequence[Sample], *words: object) -> list[float]:
    """The costs of one round in thousands of ns, which are instructions if the guest counts them.

    Raises Missing.
    """
    return [sample.figures["ns"] / rounds(sample) / 1000 for sample in _all(samples, *words)]


def rounds(sample: Sample) -> int:
    """How many operations a line measures.

    The first round trip of RDM endpoints connects, and is not measured.
    """
    name, *words = sample.words
    return int(words[plans.ROUNDS_AT.get(name, -1)]) - (plans.RDM in words)


def _unit(title: str) -> str:
    return "µs" if title == "time" else "thousand"


def _rxe_row(how: str, title: str, samples: Sequence[Sample], goal: float | None) -> Row:
    """A round trip over rxe, compared with a plain one."""
    ours, plain = (_thousands(samples, "rxe", None, kind) for kind in (how, plans.PLAIN))
    pair = Pair(ours, plain, title == "time")
    return pair.row(f"{_BY[how]} on rxe: {title}", goal, _unit(title))


def _trip_row(title: str, samples: Sequence[Sample]) -> Row:
    """A round trip of messages over rxe, compared with one by bare verbs."""
    ours, bare = (_thousands(samples, "trip", kind) for kind in ("msg", "raw"))
    pair = Pair(ours, bare, title == "time")
    return pair.row(f"kfi_wait / bare verbs on rxe: {title}", 1.05, _unit(title))


def _read_row(title: str, samples: Sequence[Sample], goal: float) -> Row:
    """Throughput of remote reads, compared with that of bare verbs."""
    ours, bare = (_thousands(samples, name) for name in ("rdmread", "rawread"))
    unit = f"{_unit(title)} for each MiB"
    pair = Pair(ours, bare, title == "time")
    return pair.row_of_rates(f"RDM read / RDMA READ: {title}", goal, unit)


def _tags_row(samples: Sequence[Sample]) -> Row:
    """The cost of a message with many receives posted, compared with few."""
    many, few = (
        _call_cost(_find(samples, "tags", tags, 0)) for tags in (plans.MANY_TAGS, plans.FEW_TAGS)
    )
    title = f"tagged message: {plans.MANY_TAGS} / {plans.FEW_TAGS} receives posted"
    return Row(title, many / few, 1.2, f"{many:.0f} / {few:.0f} instructions")


def _endpoints_row(samples: Sequence[Sample]) -> Row:
    """The cost of a message with many endpoints on the node, compared with few."""
    many, few = (
        _call_cost(_find(samples, "tags", plans.FEW_TAGS, endpoints - plans.PAIR))
        for endpoints in (plans.MANY_ENDPOINTS, plans.FEW_ENDPOINTS)
    )
    title = f"tagged message: {plans.MANY_ENDPOINTS} / {plans.FEW_ENDPOINTS} endpoints on the node"
    return Row(title, many / few, 1.1, f"{many:.0f} / {few:.0f} instructions")


def _talk_row(samples: Sequence[Sample], other: str, title: str, goal: float) -> Row:
    """A round trip between two processes, in C."""
    ours, theirs = (_thousands(samples, "talk", kind) for kind in (plans.KFABRIC, other))
    pair = Pair(ours, theirs, timed=False)
    return pair.row(f"ping-pong of processes: kfabric / {title}", goal, "thousand")


def _flow_row(samples: Sequence[Sample]) -> Row:
    """Completions of a batch of messages, which are polled; what is below them counts, too."""
    ours, theirs = (_thousands(samples, "flow", kind) for kind in plans.FLOWS)
    pair = Pair(ours, theirs, timed=False)
    title = f"completions of {plans.BATCH} messages, polled: kfabric / verbs"
    return pair.row_of_rates(title, 0.9, "thousand")


def _events_row(samples: Sequence[Sample]) -> Row:
    """A round trip of an event loop in Python."""
    ours, theirs = (_thousands(samples, "events", kind) for kind in plans.LOOPS)
    pair = Pair(ours, theirs, timed=False)
    return pair.row("event loop in Python: kfabric / pyverbs", 0.6, "thousand")


def _exit_row(samples: Sequence[Sample]) -> Row:
    """The exit of a killed client that has long messages under way."""
    costs = [sample.figures["ns"] / 1_000_000 for sample in _all(samples, "exit")]
    raw = " ".join(f"{ms:.0f}" for ms in costs)
    title = f"exit of a client with {plans.DEAD_PEERS} dead peers, ms"
    return Row(title, games.lowest(costs), _EXIT_MS, f"{raw} ms")


def report(
    table: Sequence[Row], samples: Sequence[Sample], found: Sequence[str], about: dict[str, Any]
) -> dict[str, Any]:
    """The contents of build/bench/report.json."""
    return {
        "rows": [
            {**asdict(row), "measured": round(row.measured, 4), "met": row.met} for row in table
        ],
        "faults": list(found),
        "about": about,
        "samples": listed(samples),
    }


def listed(samples: Iterable[Sample]) -> list[dict[str, Any]]:
    """The samples as a report has them."""
    return [{"line": sample.line, **sample.figures} for sample in samples]
