# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""One page about a recording, in one file that works offline.

Every number on it also stands in a data attribute, exactly; every text is escaped,
and the page's own policy lets nothing run but the script that we put there.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template

from harness.probes.ledger import Ledger, Queue, Signal, Wait
from harness.probes.verdict import Finding, Kind, Outcome, Verdict
from harness.report import picture
from harness.report.files import whole
from harness.report.markup import NOTHING, Html, header, joined, number, tag, text
from harness.report.material import Material
from harness.report.numbers import Numbers, summed
from harness.report.words import context_name, why_name

MAX_FINDINGS = 500
MAX_NEVER = 500
MAX_QUEUES = 500
MAX_HISTOGRAMS = 60

_PAGE = Path(__file__).with_name("page")
_CLASSES = {
    Outcome.VERIFIED: "verified",
    Outcome.FAULT: "fault",
    Outcome.NOT_VERIFIED: "unsure",
}
_LOST = (Kind.LOST, Kind.TIMEOUT_READY)


def write(path: Path, material: Material) -> None:
    """Write the page. Raises OSError."""
    with whole(path) as file:
        file.write(page(material).encode())


def page(material: Material) -> str:
    """The page's text."""
    script = (_PAGE / "page.js").read_text(encoding="utf-8").rstrip()
    digest = hashlib.sha256(f"\n{script}\n".encode()).digest()
    rows = summed(material.source.records())
    story = _Story(material)
    return Template((_PAGE / "page.html").read_text(encoding="utf-8")).substitute(
        title=text(material.verdict.outcome.value),
        style=(_PAGE / "page.css").read_text(encoding="utf-8").rstrip(),
        script=script,
        script_hash=f"sha256-{base64.b64encode(digest).decode()}",
        verdict=_verdict(material.verdict, rows),
        notes=joined(tag("p", text(note), class_="note") for note in material.notes),
        findings=story.findings(),
        never=story.never(),
        timeline=story.timeline(),
        queues=_queues(material, rows),
        histograms=_histograms(material, rows),
    )


def _verdict(verdict: Verdict, rows: Mapping[int, Numbers]) -> Html:
    """The verdict's line, what is doubtful, and the sums."""
    sums = {
        "waits": sum(row.waits for row in rows.values()),
        "signals": sum(row.signals for row in rows.values()),
        "wakes": sum(row.wakes for row in rows.values()),
        "findings": len(verdict.findings),
    }
    line = tag(
        "p", text(verdict.line()), id="verdict", role="status",
        class_=f"verdict {_CLASSES[verdict.outcome]}", data_outcome=verdict.outcome.value,
    )  # fmt: skip
    words = ", ".join(f"{value:,} {name}" for name, value in sums.items())
    data = {f"data_{name}": value for name, value in sums.items()}
    doubts = [tag("li", text(doubt)) for doubt in verdict.doubts]
    return joined([
        line,
        tag("p", text(words), id="sums", class_="soft", **data),
        tag("ul", *doubts, id="doubts") if doubts else NOTHING,
    ])  # fmt: skip


def _queues(material: Material, rows: Mapping[int, Numbers]) -> Html:
    """The table of queues, the busiest first if they are many."""
    if not rows:
        return tag("p", text("None was used."))
    kinds: dict[int, Counter[Kind]] = {}
    for finding in material.verdict.findings:
        kinds.setdefault(finding.queue, Counter())[finding.kind] += 1
    shown = sorted(rows.values(), key=lambda row: -row.waits - row.signals)[:MAX_QUEUES]
    shown.sort(key=lambda row: row.queue)
    head = header(
        ("queue", False),
        *((name, True) for name in (
            "waits", "never ended", "found at once", "timed out", "signals", "wakes",
            "wakes a signal", "spurious", "lost", "other findings", "deepest",
            "p50 µs", "p99 µs", "max µs",
        )),
    )  # fmt: skip
    lines = (
        _queue_row(material.ledger.object_name(row.queue, material.names), row,
                   kinds.get(row.queue, Counter()))
        for row in shown
    )  # fmt: skip
    table = tag(
        "table", tag("caption", text("p50, p99, max: from wake to running"), class_="soft"),
        head, tag("tbody", joined(lines)), id="queues",
    )  # fmt: skip
    more = len(rows) - len(shown)
    note = tag("p", text(f"{more:,} quieter queues are left out."), class_="note")
    return joined([tag("div", table, class_="wide"), note if more else NOTHING])


def _queue_row(name: str, row: Numbers, kinds: Counter[Kind]) -> Html:
    lost = sum(kinds[kind] for kind in _LOST)
    times = row.latency()
    spurious = kinds[Kind.SPURIOUS]
    share = f"{spurious} ({spurious / row.wakes:.1%})" if spurious and row.wakes else str(spurious)
    cells = [
        number("waits", row.waits),
        number("never", row.never, bad=True),
        number("at_once", row.at_once),
        number("timeouts", row.timeouts),
        number("signals", row.signals),
        number("wakes", row.wakes),
        number("wakes_per_signal", row.wakes_per_signal, f"{row.wakes_per_signal:.2f}"),
        number("spurious", spurious, share, bad=True),
        number("lost", lost, bad=True),
        number("other", sum(kinds.values()) - lost - spurious, bad=True),
        number("deepest", row.deepest),
    ]
    for what, ns in (("p50", times.p50), ("p99", times.p99), ("max", times.max)):
        cells.append(number(f"{what}_ns", ns, f"{ns / 1000:.1f}" if times.count else "-"))
    return tag("tr", tag("th", text(name), scope="row"), *cells, data_queue=row.queue)


def _histograms(material: Material, rows: Mapping[int, Numbers]) -> Html:
    """A figure for each queue that measured something."""
    measured = sorted((row for row in rows.values() if row.latencies), key=lambda row: row.queue)
    busiest = sorted(measured, key=lambda row: -len(row.latencies))[:MAX_HISTOGRAMS]
    if not busiest:
        return tag("p", text("No thread that slept was woken."))
    figures = [
        _histogram(material.ledger.object_name(row.queue, material.names), row)
        for row in measured
        if row in busiest
    ]
    return tag("div", *figures, class_="grid")


def _duration(ns: int) -> str:
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 1000)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns} ns"


def _histogram(name: str, row: Numbers) -> Html:
    """Bars over the powers of two, as an SVG; also told in words."""
    bars = row.histogram()
    most, wide = max(bars.values()), 330 / max(8, len(bars))
    drawn = []
    for n, (power, found) in enumerate(bars.items()):
        words = f"{_duration(1 << power)} to {_duration(2 << power)}: {found}"
        high = round(80 * found / most, 1)
        drawn.append(tag(
            "rect", tag("title", text(words)), x=round(n * wide, 1), y=88 - high, height=high,
            width=round(wide - 2, 1), data_from=1 << power, data_to=2 << power, data_count=found,
        ))  # fmt: skip
    ends = (
        tag("text", text(_duration(1 << min(bars))), x=0, y=104),
        tag("text", text(_duration(2 << max(bars))), x=round(len(bars) * wide, 1), y=104,
            text_anchor="end" if len(bars) > 2 else "start"),
    )  # fmt: skip
    said = "; ".join(
        f"{_duration(1 << power)} to {_duration(2 << power)}: {found}"
        for power, found in bars.items()
        if found
    )
    svg = tag(
        "svg", *drawn, tag("line", x1=0, x2=330, y1=89, y2=89), *ends, role="img",
        xmlns="http://www.w3.org/2000/svg", viewBox="0 0 330 108",
        aria_label=f"Latencies on {name}. {said}",
    )  # fmt: skip
    caption = tag("figcaption", text(f"{name}: {len(row.latencies):,} wakes"))
    return tag("figure", caption, svg, class_="histogram", data_queue=row.queue,
               data_count=len(row.latencies))  # fmt: skip


class _Story:
    """Tells of single waits: the suspicious ones, those that never ended, the picture."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self._ledger: Ledger = material.ledger
        self._findings: Sequence[Finding] = material.verdict.findings
        self._clock = picture.clock(self._ledger, material.source.head.t_stop)
        self._waits = {
            (queue.id, wait.record.tid, wait.number): wait
            for queue in self._ledger.queues.values()
            for wait in queue.waits
        }

    def timeline(self) -> Html:
        """The picture, first of what is around the first finding."""
        choice = picture.choose(self._ledger, self._findings)
        if self._findings:
            first = self._window(self._findings[0])
        else:
            first = picture.middle(self._clock, choice)
        return picture.section(self._ledger, self._material.names, choice, self._clock, first)

    def findings(self) -> Html:
        """The table of findings."""
        if not self._findings:
            return tag("p", text("None."), id="no-findings")
        head = header(*((name, False) for name in (
            "what", "who slept", "on", "since", "the event", "the story", "picture",
        )))  # fmt: skip
        rows = [self._finding(finding) for finding in self._findings[:MAX_FINDINGS]]
        table = tag("table", head, tag("tbody", joined(rows)), id="findings")
        more = len(self._findings) - len(rows)
        note = tag("p", text(f"{more:,} further findings are left out."), class_="note")
        return joined([tag("div", table, class_="wide"), note if more else NOTHING])

    def _window(self, finding: Finding) -> tuple[float, float]:
        queue = self._ledger.queues.get(finding.queue)
        return picture.window(self._clock, queue, self._wait(finding), finding.seq)

    def _wait(self, finding: Finding) -> Wait | None:
        return self._waits.get((finding.queue, finding.tid, finding.wait))

    def _object(self, oid: int) -> str:
        return self._ledger.object_name(oid, self._material.names)

    def _finding(self, finding: Finding) -> Html:
        """One finding with all that is known of it."""
        wait = self._wait(finding)
        queue = self._ledger.queues.get(finding.queue)
        signal = queue.signals.get(finding.seq) if queue else None
        begin, end = self._window(finding)
        who = self._ledger.thread_name(finding.tid) if finding.tid else "nobody in particular"
        show = tag("button", text("show"), type="button", data_show_from=f"{begin:.3f}",
                   data_show_to=f"{end:.3f}",
                   aria_label=f"show {finding.kind} in the timeline")  # fmt: skip
        return tag(
            "tr",
            tag("th", text(finding.kind.value), scope="row"),
            tag("td", text(who + (f", wait {finding.wait}" if finding.wait else ""))),
            tag("td", text(self._object(finding.queue))),
            tag("td", *self._since(wait)),
            tag("td", *self._event(queue, signal, wait)),
            tag("td", tag("p", text(finding.text)), self._stacks(wait)),
            tag("td", show),
            data_kind=finding.kind.value, data_queue=finding.queue, data_tid=finding.tid,
            data_wait=finding.wait, data_seq=finding.seq,
        )  # fmt: skip

    def _at(self, t: int) -> str:
        return f"{self._clock.us(t) / 1000:,.3f} ms"

    def _since(self, wait: Wait | None) -> Iterator[Html]:
        """Since when it slept and how long."""
        if wait is None:
            yield text("-")
            return
        rec = wait.record
        yield tag(
            "p", text(f"asleep since {self._at(rec.t_slept)}" if rec.t_slept else "never slept")
        )
        end = rec.t_end or self._material.source.head.t_stop
        lasted = _duration(max(0, end - rec.t_begin))
        how = f"returned {rec.ret} after {lasted}" if rec.t_end else f"open for {lasted}"
        yield tag("p", text(how))

    def _event(
        self, queue: Queue | None, signal: Signal | None, wait: Wait | None
    ) -> Iterator[Html]:
        """Which event it is about, where it came from, whom it woke."""
        if signal is None and wait and wait.last_wake and queue:
            signal = queue.signal_of(wait.last_wake)
        if signal is None:
            yield text("none is known")
            return
        rec = signal.record
        yield tag("p", text(
            f"signal {rec.seq} ({why_name(rec.why)} of {self._object(rec.source)}) at "
            f"{self._at(rec.t)}, by {self._ledger.thread_name(rec.waker)} "
            f"({context_name(rec.context)}, CPU {rec.cpu})"
        ))  # fmt: skip
        woken = ", ".join(self._ledger.thread_name(wake.tid) for wake in signal.wakes) or "nobody"
        yield tag("p", text(f"found {rec.sleepers} asleep, woke {woken}"))

    def _stacks(self, wait: Wait | None) -> Html:
        """The stacks of sleeper and waker."""
        stacks = wait.stacks if wait else None
        if stacks is None:
            return NOTHING
        parts = []
        for name, stack in (("sleeper", stacks.sleeper), ("waker", stacks.waker)):
            frames = "\n".join(self._ledger.frames(stack)) or "not recorded"
            parts += [tag("h3", text(name)), tag("pre", text(frames), class_=name)]
        return tag("details", tag("summary", text("stacks")), *parts)

    def never(self) -> Html:
        """The table of waits that were still open at the end, the oldest first."""
        waits = [
            (queue, wait)
            for queue in self._ledger.queues.values()
            for wait in queue.waits
            if not wait.finished
        ]
        if not waits:
            return tag("p", text("None."))
        waits.sort(key=lambda pair: pair[1].record.t_begin)
        head = header(
            ("who", False), ("on", False), ("since", False), ("age", True), ("where", False)
        )
        rows = [self._open(queue, wait) for queue, wait in waits[:MAX_NEVER]]
        more = len(waits) - len(rows)
        note = tag("p", text(f"{more:,} further ones are left out."), class_="note")
        table = tag("table", head, tag("tbody", joined(rows)), id="never")
        return joined([tag("div", table, class_="wide"), note if more else NOTHING])

    def _open(self, queue: Queue, wait: Wait) -> Html:
        rec = wait.record
        age = max(0, self._material.source.head.t_stop - rec.t_begin)
        who = f"{self._ledger.thread_name(rec.tid)}, wait {wait.number}"
        return tag(
            "tr",
            tag("th", text(who), scope="row"),
            tag("td", text(self._object(queue.id))),
            tag("td", text(self._at(rec.t_begin))),
            number("age_ns", age, _duration(age)),
            tag("td", self._stacks(wait)),
            data_queue=queue.id, data_tid=rec.tid, data_wait=wait.number,
        )  # fmt: skip
