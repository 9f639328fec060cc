# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The page's timeline: an SVG whose shapes have their times, for the script to move them.

Waits by thread, signals by CPU below them, and an arrow from each signal to the time at
which the woken thread ran. All times are microseconds since the first event.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from harness.report.markup import NOTHING, Html, joined, tag, text
from harness.report.words import context_name, why_name
from harness.verdict.ledger import Ledger, Queue, Signal, Wait
from harness.verdict.verdict import Finding

MAX_WAITS = 2000
MAX_SUSPECTS = 500
MAX_SIGNALS = 3000
MAX_LANES = 80
FEW = 40
"""Waits that are shown at first if none is suspicious."""

LEGEND = (
    "Bars are waits (dark: asleep; yellow: never ended; red frame: suspicious). "
    "Dots are signals, arrows lead to where the woken thread runs."
)
HELP = (
    "Keys, with the picture in focus: plus, minus, arrows, 0. "
    "Ctrl or Shift with the wheel zooms; dragging moves."
)
"""The keys and gestures; the picture's description for screen readers."""

_LEFT, _WIDTH, _LANE, _TOP = 170, 980, 22, 26
_TICKS = 5
_NAME_LENGTH = 24
_MARGIN = 0.4


@dataclass(frozen=True)
class Clock:
    """Converts times to microseconds; ``begin`` and ``end`` are the recording's, in ns."""

    begin: int
    end: int

    def us(self, t: int) -> float:
        """Microseconds since the beginning."""
        return (t - self.begin) / 1000

    @property
    def length(self) -> float:
        """Of the whole recording, in microseconds; never 0."""
        return max(1.0, self.us(self.end))


def clock(ledger: Ledger, t_stop: int) -> Clock:
    """From a ledger's first event to its last; to the recording's end if a wait is open."""
    times = [t for queue in ledger.queues.values() for t in _times(queue)]
    if not times:
        return Clock(0, 0)
    never = any(not wait.finished for _, wait in ledger.waits())
    return Clock(min(times), max([*times, t_stop] if never else times))


def _times(queue: Queue) -> Iterator[int]:
    for wait in queue.waits:
        yield wait.record.t_begin
        yield max(wait.record.t_begin, wait.record.t_end, *(w.t_wake for w in wait.wakes), 0)
    for signal in queue.every_signal():
        yield signal.record.t


@dataclass(frozen=True)
class Choice:
    """The shapes to draw: some waits, each with its queue, and signals.

    ``suspects`` and ``faulty`` are the waits and the signals of findings.
    """

    waits: tuple[tuple[Queue, Wait], ...]
    signals: tuple[Signal, ...]
    left_out: tuple[str, ...]
    suspects: frozenset[tuple[int, int, int]] = field(default_factory=frozenset)
    faulty: frozenset[tuple[int, int]] = field(default_factory=frozenset)

    def suspect(self, queue: Queue, wait: Wait) -> bool:
        """Has a wait a finding?"""
        return (queue.id, wait.record.tid, wait.number) in self.suspects


def choose(ledger: Ledger, findings: Iterable[Finding]) -> Choice:
    """The suspicious waits, the open waits, and the first of the others."""
    findings = list(findings)
    suspects = frozenset((f.queue, f.tid, f.wait) for f in findings if f.wait)
    faulty = frozenset((f.queue, f.seq) for f in findings if f.seq)
    everything = sorted(ledger.waits(), key=lambda pair: pair[1].record.t_begin)
    special = [
        (queue, wait)
        for queue, wait in everything
        if not wait.finished or (queue.id, wait.record.tid, wait.number) in suspects
    ][:MAX_SUSPECTS]
    chosen = {id(wait): (queue, wait) for queue, wait in (*special, *everything[:MAX_WAITS])}
    lanes = list(dict.fromkeys(wait.record.tid for _, wait in chosen.values()))
    kept = set(lanes[:MAX_LANES])
    waits = [pair for pair in chosen.values() if pair[1].record.tid in kept]
    waits.sort(key=lambda pair: pair[1].record.t_begin)
    signals, more = _signals(ledger, waits, faulty)
    left_out = [
        f"{number:,} {what}"
        for number, what in (
            (len(everything) - len(waits), "waits"),
            (len(lanes) - len(kept), "threads"),
            (more, "signals"),
        )
        if number > 0
    ]
    return Choice(tuple(waits), tuple(signals), tuple(left_out), suspects, faulty)


def _signals(
    ledger: Ledger, waits: list[tuple[Queue, Wait]], faulty: frozenset[tuple[int, int]]
) -> tuple[list[Signal], int]:
    """The signals of findings, of these waits, and the first others; how many are left out."""
    wanted: dict[int, Signal] = {}
    for queue, seq in faulty:
        if (named := ledger.queues.get(queue)) and (signal := named.signals.get(seq)):
            wanted[id(signal)] = signal
    for queue_, wait in waits:
        for wake in wait.wakes:
            if signal := queue_.signal_of(wake):
                wanted[id(signal)] = signal
    everything = ledger.signals()
    until = max((wait.record.t_begin for _, wait in waits), default=0)
    early = [s for s in everything if s.record.t <= until] if waits else everything
    for signal in early[:MAX_SIGNALS]:
        wanted[id(signal)] = signal
    return sorted(wanted.values(), key=lambda s: s.record.t), len(everything) - len(wanted)


class Picture:
    """Draws the timeline of a choice."""

    def __init__(self, ledger: Ledger, names: Mapping[int, str], choice: Choice, times: Clock):
        """Lay out the lanes: threads in order of their first waits, then CPUs."""
        self._ledger, self._names, self._choice, self._clock = ledger, names, choice, times
        tids = dict.fromkeys(wait.record.tid for _, wait in choice.waits)
        self._lanes = {tid: _TOP + _LANE * n for n, tid in enumerate(tids)}
        cpus = sorted({signal.record.cpu for signal in choice.signals})
        below = _TOP + _LANE * len(self._lanes) + 6
        self._cpus = {cpu: below + _LANE * n for n, cpu in enumerate(cpus)}
        self._height = below + _LANE * len(cpus) + 4

    def svg(self, first: tuple[float, float]) -> Html:
        """The SVG; ``first`` is the part that it shows at first, in microseconds."""
        shapes = [*self._labels(), *self._axis(), *self._waits(), *self._arrows(), *self._dots()]
        title = f"{len(self._choice.waits)} waits of {len(self._lanes)} threads, and signals"
        return tag(
            "svg", tag("title", text(title), id="timeline-title"), *shapes,
            xmlns="http://www.w3.org/2000/svg", id="timeline", role="img", tabindex=0,
            viewBox=f"0 0 {_LEFT + _WIDTH + 20} {self._height}",
            aria_labelledby="timeline-title", aria_describedby="timeline-help",
            data_left=_LEFT, data_width=_WIDTH, data_from=0, data_to=_us(self._clock.length),
            data_first_from=_us(first[0]), data_first_to=_us(first[1]),
            data_waits=len(self._choice.waits), data_signals=len(self._choice.signals),
        )  # fmt: skip

    def _x(self, us: float) -> float:
        return round(_LEFT + us / self._clock.length * _WIDTH, 2)

    def _labels(self) -> Iterator[Html]:
        for tid, y in self._lanes.items():
            name = self._ledger.thread_name(tid).removeprefix("thread ")
            short = name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…"
            yield tag("text", text(short), x=6, y=y + 14)
        for cpu, y in self._cpus.items():
            yield tag("text", text(f"signals, CPU {cpu}"), x=6, y=y + 14, class_="soft")
        for y in (*self._lanes.values(), *self._cpus.values()):
            yield tag("line", x1=0, x2=_LEFT + _WIDTH + 20, y1=y + _LANE, y2=y + _LANE)

    def _axis(self) -> Iterator[Html]:
        for n in range(_TICKS):
            at = self._clock.length * n / (_TICKS - 1)
            anchor = "end" if n == _TICKS - 1 else "middle" if n else "start"
            yield tag("text", text(f"{at / 1000:.3f} ms"), class_="tick soft", y=14,
                      x=self._x(at), text_anchor=anchor)  # fmt: skip

    def _waits(self) -> Iterator[Html]:
        for queue, wait in self._choice.waits:
            rec = wait.record
            classes = ["wait"]
            classes += [] if wait.finished else ["never"]
            classes += ["suspect"] if self._choice.suspect(queue, wait) else []
            yield self._box(
                rec.t_begin, rec.t_end, self._lanes[rec.tid] + 3, _LANE - 6, " ".join(classes),
                self._story(queue, wait), data_queue=queue.id, data_tid=rec.tid,
                data_wait=wait.number,
            )  # fmt: skip
            if rec.t_slept:
                awake = [t for t in (rec.t_running, rec.t_end) if t > rec.t_slept]
                yield self._box(rec.t_slept, min(awake, default=0), self._lanes[rec.tid] + 8,
                                _LANE - 16, "sleep", "")  # fmt: skip

    def _box(
        self, begin: int, end: int, y: int, height: int, kind: str, story: str, **data: int
    ) -> Html:
        """A rectangle over a time; with ``end`` 0 it reaches the end of the recording."""
        start, stop = self._clock.us(begin), self._clock.us(end) if end else self._clock.length
        return tag(
            "rect", tag("title", text(story)) if story else NOTHING,
            class_=kind, y=y, height=height, x=self._x(start),
            width=max(1, round(self._x(stop) - self._x(start), 2)),
            data_from=_us(start), data_to=_us(stop) if end else None, **data,
        )  # fmt: skip

    def _story(self, queue: Queue, wait: Wait) -> str:
        rec = wait.record
        on = self._ledger.object_name(queue.id, self._names)
        lines = [f"wait {wait.number} of {self._ledger.thread_name(rec.tid)} on {on}"]
        if wait.last_wake:
            lines.append(f"ended by {self._ledger.thread_name(rec.waker)}, signal {rec.seq}")
        lines.append(f"returned {rec.ret}" if wait.finished else "never ended")
        return "\n".join(lines)

    def _dots(self) -> Iterator[Html]:
        for signal in self._choice.signals:
            rec = signal.record
            at = self._clock.us(rec.t)
            on = self._ledger.object_name(rec.queue, self._names)
            story = (
                f"signal {rec.seq} on {on}: {why_name(rec.why)}, "
                f"by {self._ledger.thread_name(rec.waker)} ({context_name(rec.context)}); "
                f"found {rec.sleepers} asleep, woke {len(signal.wakes)}"
            )
            bad = (rec.queue, rec.seq) in self._choice.faulty
            yield tag(
                "circle", tag("title", text(story)), class_="signal suspect" if bad else "signal",
                r=5 if bad else 3.5, cx=self._x(at), cy=self._cpus[rec.cpu] + _LANE // 2,
                data_at=_us(at), data_to=_us(at), data_queue=rec.queue, data_seq=rec.seq,
            )  # fmt: skip

    def _arrows(self) -> Iterator[Html]:
        shown = {id(signal) for signal in self._choice.signals}
        for queue, wait in self._choice.waits:
            for wake in wait.wakes:
                signal = queue.signal_of(wake)
                if signal is None or id(signal) not in shown or not wake.t_running:
                    continue
                start, stop = self._clock.us(signal.record.t), self._clock.us(wake.t_running)
                y1 = self._cpus[signal.record.cpu] + _LANE // 2
                y2 = self._lanes[wait.record.tid] + _LANE - 3
                yield tag(
                    "path", class_="arrow", d=f"M{self._x(start)} {y1} L{self._x(stop)} {y2}",
                    data_from=_us(start), data_to=_us(stop), data_y=y1, data_lane=y2,
                )  # fmt: skip


def _us(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def window(times: Clock, queue: Queue | None, wait: Wait | None, seq: int) -> tuple[float, float]:
    """The time around a finding's wait and signal, in microseconds."""
    moments = []
    if queue and (signal := queue.signals.get(seq)):
        moments.append(times.us(signal.record.t))
    if wait:
        rec = wait.record
        moments.append(times.us(rec.t_begin))
        # The long rest of a wait that missed its signal is not shown.
        if len(moments) == 1:
            moments.append(times.us(rec.t_end or times.end))
    if not moments:
        return 0.0, times.length
    begin, end = min(moments), max(moments)
    margin = max((end - begin) * _MARGIN, 20.0)
    return max(0.0, begin - margin), min(times.length, end + margin)


def middle(times: Clock, choice: Choice) -> tuple[float, float]:
    """The time of some waits from the middle, to show if nothing is suspicious."""
    waits = [wait.record for _, wait in choice.waits]
    if len(waits) <= FEW:
        return 0.0, times.length
    at = (len(waits) - FEW) // 2
    some = waits[at : at + FEW]
    return times.us(some[0].t_begin), times.us(max(wait.t_end or wait.t_begin for wait in some))


def buttons() -> Html:
    """The buttons that move and zoom."""
    acts = (
        ("in", "zoom in"), ("out", "zoom out"), ("left", "earlier"), ("right", "later"),
        ("all", "everything"),
    )  # fmt: skip
    made = (tag("button", text(name), type="button", data_act=act) for act, name in acts)
    return tag("div", *made, tag("output", id="view", class_="soft"), class_="bar")


def section(
    ledger: Ledger,
    names: Mapping[int, str],
    choice: Choice,
    times: Clock,
    first: tuple[float, float],
) -> Html:
    """The section with the timeline."""
    if not choice.waits and not choice.signals:
        return tag("p", text("Nothing was recorded."))
    notes = NOTHING
    if choice.left_out:
        out = " and ".join(choice.left_out)
        notes = tag("p", text(f"Not drawn, to keep the page small: {out}. The traces have all."),
                    class_="note", id="left-out")  # fmt: skip
    svg = Picture(ledger, names, choice, times).svg(first)
    box = tag("div", svg, class_="timeline")
    legend = tag("p", text(LEGEND), class_="soft")
    keys = tag("p", text(HELP), id="timeline-help", class_="soft")
    return joined([buttons(), box, legend, keys, notes])
