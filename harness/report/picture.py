# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The page's timeline: an SVG whose shapes have their times, for the script to move them.

Waits by thread, signals and publications by CPU, and an arrow from each signal to the
time at which the woken thread ran. The lanes of the findings come first. All times are
microseconds since the first event.

The SVG has the shapes of the first view. The others are in a template, of which the
script takes them when the view first moves.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kfabric.recording.records import Mark, MarkRecord
from kfabric.report.cases import Case
from kfabric.report.markup import NOTHING, Html, joined, tag, text
from kfabric.report.words import context_name, thread, why_name
from kfabric.verdict.ledger import Ledger, Queue, Signal, Wait

MAX_WAITS = 2000
MAX_SUSPECTS = 500
MAX_SIGNALS = 3000
MAX_MARKS = 2000
MAX_LANES = 80
FEW = 40
"""Waits that are shown at first if none is suspicious."""

LEGEND = (
    "Bars are waits (dark: asleep; yellow: never ended; red frame: suspicious). "
    "Dots are signals, arrows lead to where the woken thread runs."
)
MARKS = " Diamonds are calls of marked functions (full: publishes; empty: takes)."
HELP = (
    "Keys, with the picture in focus: plus, minus, arrows, 0. "
    "Ctrl or Shift with the wheel zooms; dragging moves."
)
"""The keys and gestures; the picture's description for screen readers."""

_LEFT, _WIDTH, _RIGHT, _LANE, _TOP = 170, 980, 20, 22, 26
_TICKS = 5
_NAME_LENGTH = 24
_MARGIN = 0.08
_LAYERS = ("waits", "sleeps", "arrows", "dots")
View = tuple[float, float]
"""A part of the recording, in microseconds."""


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
    """The shapes to draw: some waits, each with its queue, signals, and marks.

    ``suspects`` and ``faulty`` are the waits and the signals of findings; ``missed`` are
    the times of missed publications. ``tids`` and ``cpus`` are the lanes of the findings.
    """

    waits: tuple[tuple[Queue, Wait], ...]
    signals: tuple[Signal, ...]
    left_out: tuple[str, ...]
    marks: tuple[MarkRecord, ...] = ()
    suspects: frozenset[tuple[int, int, int]] = field(default_factory=frozenset)
    faulty: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    missed: frozenset[int] = field(default_factory=frozenset)
    tids: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()

    def suspect(self, queue: Queue, wait: Wait) -> bool:
        """Has a wait a finding?"""
        return (queue.id, wait.record.tid, wait.number) in self.suspects


def choose(ledger: Ledger, cases: Sequence[Case]) -> Choice:
    """The suspicious waits, the open waits, and the first of the others."""
    suspects = frozenset(
        (case.queue.id, wait.record.tid, wait.number)
        for case in cases
        for wait in (case.waits[:1] if case.finding.wait else ())
    ) | frozenset(
        (case.queue.id, case.sleeper.record.tid, case.sleeper.number)
        for case in cases
        if case.sleeper
    )
    faulty = frozenset((case.finding.queue, case.finding.seq) for case in cases if case.finding.seq)
    missed = frozenset(case.mark.t for case in cases if case.mark)
    everything = sorted(ledger.waits(), key=lambda pair: pair[1].record.t_begin)
    special = [
        (queue, wait)
        for queue, wait in everything
        if not wait.finished or (queue.id, wait.record.tid, wait.number) in suspects
    ][:MAX_SUSPECTS]
    near = _near(everything, cases)
    early = everything[: MAX_WAITS - len(near)]
    chosen = {id(wait): (queue, wait) for queue, wait in (*special, *near, *early)}
    first = [wait.record.tid for case in cases for wait in case.waits]
    lanes = list(dict.fromkeys([*first, *(wait.record.tid for _, wait in chosen.values())]))
    kept = set(lanes[:MAX_LANES])
    waits = [pair for pair in chosen.values() if pair[1].record.tid in kept]
    waits.sort(key=lambda pair: pair[1].record.t_begin)
    signals, more = _signals(ledger, waits, faulty)
    marks = [m for m in ledger.marks if m.t in missed]
    marks += [m for m in ledger.marks if m.t not in missed][:MAX_MARKS]
    left_out = [
        f"{number:,} {what}"
        for number, what in (
            (len(everything) - len(waits), "waits"),
            (len(lanes) - len(kept), "threads"),
            (more, "signals"),
            (len(ledger.marks) - len(marks), "publications and takes"),
        )
        if number > 0
    ]
    return Choice(
        tuple(waits), tuple(signals), tuple(left_out), tuple(sorted(marks, key=lambda m: m.t)),
        suspects, faulty, missed, tuple(first), tuple(_cpus(cases[:1])),
    )  # fmt: skip


def _near(waits: list[tuple[Queue, Wait]], cases: Sequence[Case]) -> list[tuple[Queue, Wait]]:
    """The waits around the first finding, if there are too many waits to draw them all."""
    if len(waits) <= MAX_WAITS or not cases or not cases[0].waits:
        return []
    rec = cases[0].waits[0].record
    begin, end = rec.t_begin, rec.t_end or rec.t_begin
    far = sorted(waits, key=lambda pair: _distance(pair[1].record.t_begin, begin, end))
    return far[: MAX_WAITS // 2]


def _distance(t: int, begin: int, end: int) -> int:
    return max(begin - t, t - end, 0)


def _cpus(cases: Iterable[Case]) -> Iterator[int]:
    """The CPUs of the events of findings."""
    for case in cases:
        if case.mark:
            yield case.mark.cpu
        if case.call:
            yield case.call.record.cpu


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

    def __init__(
        self, ledger: Ledger, names: Mapping[int, str], choice: Choice, times: Clock, first: View
    ):
        """Lay out the lanes: those of the findings, of the first view, then the others."""
        self._ledger, self._names, self._choice, self._clock = ledger, names, choice, times
        self._first = first
        drawn = dict.fromkeys(wait.record.tid for _, wait in choice.waits)
        seen = {wait.record.tid for _, wait in choice.waits if self._in_view(wait)}
        early = [*(tid for tid in choice.tids if tid in drawn), *(t for t in drawn if t in seen)]
        tids = dict.fromkeys([*early, *drawn])
        dots = [signal.record.cpu for signal in choice.signals]
        cpus = sorted({*dots, *(mark.cpu for mark in choice.marks)})
        faulty = [cpu for cpu in dict.fromkeys(choice.cpus) if cpu in cpus]
        order: list[tuple[str, int]] = [("cpu", cpu) for cpu in faulty]
        order += [("tid", tid) for tid in tids]
        order += [("cpu", cpu) for cpu in cpus if cpu not in faulty]
        self._lanes = {lane: n for n, lane in enumerate(order)}
        self._pixels: set[tuple[str, int, int]] = set()

    def _in_view(self, wait: Wait) -> bool:
        rec, (begin, end) = wait.record, self._first
        stop = self._clock.us(rec.t_end or self._clock.end)
        return self._clock.us(rec.t_begin) <= end and stop >= begin

    def svg(self) -> tuple[Html, Html]:
        """The SVG with the shapes of the first view, and one with the others."""
        now: dict[str, list[Html]] = {layer: [] for layer in _LAYERS}
        later: dict[str, list[Html]] = {layer: [] for layer in _LAYERS}
        for layer, seen, shape in (*self._waits(), *self._arrows(), *self._dots(), *self._marks()):
            (now if seen else later)[layer].append(shape)
        threads = len({lane for lane in self._lanes if lane[0] == "tid"})
        title = f"{len(self._choice.waits)} waits of {threads} threads, and signals"
        height = _TOP + _LANE * len(self._lanes) + 4
        drawn = tag(
            "svg", tag("title", text(title), id="timeline-title"), *self._labels(), *self._axis(),
            *(tag("g", *now[layer], data_layer=layer) for layer in _LAYERS),
            xmlns="http://www.w3.org/2000/svg", id="timeline", role="img", tabindex=0,
            viewBox=f"0 0 {_LEFT + _WIDTH + _RIGHT} {height}",
            aria_labelledby="timeline-title", aria_describedby="timeline-help",
            data_left=_LEFT, data_right=_RIGHT, data_top=_TOP, data_lane=_LANE,
            data_lanes=len(self._lanes), data_from=0, data_to=_us(self._clock.length),
            data_first_from=_us(self._first[0]), data_first_to=_us(self._first[1]),
            data_waits=len(self._choice.waits), data_signals=len(self._choice.signals),
        )  # fmt: skip
        rest = (tag("g", *later[layer], data_layer=layer) for layer in _LAYERS)
        return drawn, tag("svg", *rest) if any(later.values()) else NOTHING

    def _x(self, us: float) -> float:
        begin, end = self._first
        share = (us - begin) / max(end - begin, 0.001)
        return round(_LEFT + min(1.0, max(0.0, share)) * _WIDTH, 2)

    def _seen(self, begin: int, end: int, lane: int, kind: str, always: bool = False) -> bool:
        """Is a shape in the first view, and not in the pixel of another one?"""
        start, stop = self._clock.us(begin), self._clock.us(end)
        if stop < self._first[0] or start > self._first[1]:
            return False
        pixel = kind, lane, int(self._x(start) / (4 if kind == "arrow" else 1))
        if not always and self._x(stop) - self._x(start) < 1 and pixel in self._pixels:
            return False
        self._pixels.add(pixel)
        return True

    def _labels(self) -> Iterator[Html]:
        for (kind, number), lane in self._lanes.items():
            y = _TOP + _LANE * lane
            name = f"signals, CPU {number}"
            if kind == "tid":
                name = thread(self._ledger.thread_name(number))
            short = name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…"
            yield tag("line", x1=0, x2=_LEFT + _WIDTH + _RIGHT, y1=y + _LANE, y2=y + _LANE,
                      data_lane=lane)  # fmt: skip
            yield tag("text", text(short), tag("title", text(name)), x=6, y=y + 14,
                      class_="soft" if kind == "cpu" else None, data_lane=lane)  # fmt: skip

    def _axis(self) -> Iterator[Html]:
        begin, end = self._first
        for n in range(_TICKS):
            at = begin + (end - begin) * n / (_TICKS - 1)
            anchor = "end" if n == _TICKS - 1 else "middle" if n else "start"
            yield tag("text", text(f"{at / 1000:.3f} ms"), class_="tick soft", y=14,
                      x=self._x(at), text_anchor=anchor)  # fmt: skip

    def _waits(self) -> Iterator[tuple[str, bool, Html]]:
        for queue, wait in self._choice.waits:
            rec, lane = wait.record, self._lanes["tid", wait.record.tid]
            suspect = self._choice.suspect(queue, wait)
            classes = ["wait"]
            classes += [] if wait.finished else ["never"]
            classes += ["suspect"] if suspect else []
            end = rec.t_end or self._clock.end
            special = suspect or not wait.finished
            seen = self._seen(rec.t_begin, end, lane, "wait", special)
            yield "waits", seen, self._box(
                rec.t_begin, rec.t_end, lane, 3, _LANE - 6, " ".join(classes),
                self._story(queue, wait), data_queue=queue.id, data_tid=rec.tid,
                data_wait=wait.number,
            )  # fmt: skip
            if rec.t_slept:
                awake = min((t for t in (rec.t_running, rec.t_end) if t > rec.t_slept), default=0)
                seen = self._seen(rec.t_slept, awake or self._clock.end, lane, "sleep", special)
                box = self._box(rec.t_slept, awake, lane, 8, _LANE - 16, "sleep", "")
                yield "sleeps", seen, box

    def _box(
        self, begin: int, end: int, lane: int, drop: int, height: int, kind: str, story: str,
        **data: int,
    ) -> Html:  # fmt: skip
        """A rectangle over a time; with ``end`` 0 it reaches the end of the recording."""
        start, stop = self._clock.us(begin), self._clock.us(end) if end else self._clock.length
        return tag(
            "rect", tag("title", text(story)) if story else NOTHING,
            class_=kind, y=_TOP + _LANE * lane + drop, height=height, x=self._x(start),
            width=max(1, round(self._x(stop) - self._x(start), 2)),
            data_from=_us(start), data_to=_us(stop) if end else None, data_lane=lane, **data,
        )  # fmt: skip

    def _story(self, queue: Queue, wait: Wait) -> str:
        rec = wait.record
        on = self._ledger.object_name(queue.id, self._names)
        lines = [f"wait {wait.number} of {self._ledger.thread_name(rec.tid)} on {on}"]
        if wait.last_wake:
            lines.append(f"ended by {self._ledger.thread_name(rec.waker)}, signal {rec.seq}")
        lines.append(f"returned {rec.ret}" if wait.finished else "never ended")
        return "\n".join(lines)

    def _dots(self) -> Iterator[tuple[str, bool, Html]]:
        for signal in self._choice.signals:
            rec, lane = signal.record, self._lanes["cpu", signal.record.cpu]
            at = self._clock.us(rec.t)
            on = self._ledger.object_name(rec.queue, self._names)
            story = (
                f"signal {rec.seq} on {on}: {why_name(rec.why)}, "
                f"by {self._ledger.thread_name(rec.waker)} ({context_name(rec.context)}); "
                f"found {rec.sleepers} asleep, woke {len(signal.wakes)}"
            )
            bad = (rec.queue, rec.seq) in self._choice.faulty
            yield "dots", self._seen(rec.t, rec.t, lane, "dot", bad), tag(
                "circle", tag("title", text(story)), class_="signal suspect" if bad else "signal",
                r=5 if bad else 3.5, cx=self._x(at), cy=self._middle(lane), data_lane=lane,
                data_at=_us(at), data_to=_us(at), data_queue=rec.queue, data_seq=rec.seq,
            )  # fmt: skip

    def _marks(self) -> Iterator[tuple[str, bool, Html]]:
        for mark in self._choice.marks:
            lane, at = self._lanes["cpu", mark.cpu], self._clock.us(mark.t)
            what = "publish" if mark.what == Mark.PUBLISH else "take"
            bad = what == "publish" and mark.t in self._choice.missed
            by = f"{self._ledger.thread_name(mark.tid)} ({context_name(mark.context)})"
            yield "dots", self._seen(mark.t, mark.t, lane, what, bad), tag(
                "polygon", tag("title", text(f"{what}, by {by}")), points="0,-6 5,0 0,6 -5,0",
                class_=f"mark {what} suspect" if bad else f"mark {what}",
                transform=f"translate({self._x(at)} {self._middle(lane)})", data_lane=lane,
                data_at=_us(at), data_to=_us(at), data_tid=mark.tid,
            )  # fmt: skip

    def _middle(self, lane: int) -> int:
        return _TOP + _LANE * lane + _LANE // 2

    def _arrows(self) -> Iterator[tuple[str, bool, Html]]:
        shown = {id(signal) for signal in self._choice.signals}
        for queue, wait in self._choice.waits:
            for wake in wait.wakes:
                signal = queue.signal_of(wake)
                if signal is None or id(signal) not in shown or not wake.t_running:
                    continue
                start, stop = self._clock.us(signal.record.t), self._clock.us(wake.t_running)
                begin = self._lanes["cpu", signal.record.cpu]
                end = self._lanes["tid", wait.record.tid]
                suspect = self._choice.suspect(queue, wait)
                seen = self._seen(signal.record.t, wake.t_running, 0, "arrow", suspect)
                y, to_y = self._middle(begin), self._middle(end)
                yield "arrows", seen, tag(
                    "path", class_="arrow suspect" if suspect else "arrow",
                    d=f"M{self._x(start)} {y} L{self._x(stop)} {to_y}",
                    data_from=_us(start), data_to=_us(stop), data_lane=begin, data_to_lane=end,
                )  # fmt: skip


def _us(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def window(times: Clock, case: Case) -> View:
    """All of a finding's waits with its events, and a margin."""
    moments = [times.us(t) for t in _events(case)]
    for wait in case.waits:
        moments += [times.us(wait.record.t_begin), times.us(wait.record.t_end or times.end)]
    return _around(times, moments, _MARGIN) if moments else (0.0, times.length)


def moment(times: Clock, case: Case) -> View | None:
    """The time around the events of a finding; None if it has none."""
    events = [times.us(t) for t in _events(case)]
    return _around(times, events, 0.4) if events else None


def _events(case: Case) -> Iterator[int]:
    if case.mark:
        yield case.mark.t
    if case.call:
        yield case.call.record.t


def _around(times: Clock, moments: list[float], margin: float) -> View:
    begin, end = min(moments), max(moments)
    room = max((end - begin) * margin, 20.0)
    return max(0.0, begin - room), min(times.length, end + room)


def middle(times: Clock, choice: Choice) -> View:
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
    first: View,
) -> Html:
    """The section with the timeline."""
    if not choice.waits and not choice.signals:
        return tag("p", text("Nothing was recorded."))
    notes = NOTHING
    if choice.left_out:
        out = " and ".join(choice.left_out)
        notes = tag("p", text(f"Not drawn, to keep the page small: {out}. The traces have all."),
                    class_="note", id="left-out")  # fmt: skip
    svg, rest = Picture(ledger, names, choice, times, first).svg()
    template = tag("template", rest, id="timeline-rest") if rest else NOTHING
    box = joined([tag("div", svg, class_="timeline"), template])
    legend = tag("p", text(LEGEND + MARKS if choice.marks else LEGEND), class_="soft")
    keys = tag("p", text(HELP), id="timeline-help", class_="soft")
    return joined([buttons(), box, legend, keys, notes])
