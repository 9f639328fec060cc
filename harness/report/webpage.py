# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The page about a recording: one file that works offline.

Every number is also in a data attribute, exactly. Every text is escaped, and the page's
own content policy allows no script but page.js.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from string import Template

from harness.report.files import whole
from harness.report.markup import NOTHING, Html, header, joined, number, table, tag, text
from harness.report.material import Material
from harness.report.numbers import Numbers, Sums
from harness.report.suspects import Tables, suspicions
from harness.report.words import duration
from harness.verdict.kinds import Kind, Outcome, Verdict

MAX_QUEUES = 500
MAX_HISTOGRAMS = 60

_PAGE = Path(__file__).with_name("page")
_CLASSES = {
    Outcome.VERIFIED: "verified",
    Outcome.FAULT: "fault",
    Outcome.NOT_VERIFIED: "unsure",
    Outcome.NOT_JUDGED: "unsure",
}
_LOST = (Kind.LOST, Kind.TIMEOUT_READY)


def write(path: Path, material: Material, sums: Sums) -> None:
    """Write the page.

    Raises:
        OSError: The file cannot be written.
    """
    with whole(path) as file:
        file.write(page(material, sums.rows).encode())


def page(material: Material, rows: Mapping[int, Numbers]) -> str:
    """The page's text; ``rows`` are the counts of all queues."""
    script = (_PAGE / "page.js").read_text(encoding="utf-8").rstrip()
    digest = hashlib.sha256(f"\n{script}\n".encode()).digest()
    tables = Tables(material)
    return Template((_PAGE / "page.html").read_text(encoding="utf-8")).substitute(
        title=text(material.verdict.outcome.value),
        style=(_PAGE / "page.css").read_text(encoding="utf-8").rstrip(),
        script=script,
        script_hash=f"sha256-{base64.b64encode(digest).decode()}",
        verdict=_verdict(material.verdict, rows),
        notes=joined(tag("p", text(note), class_="note") for note in material.notes),
        findings=tables.findings(),
        never=tables.never(),
        timeline=tables.timeline(),
        queues=_queues(material, rows),
        histograms=_histograms(material, rows),
    )


def _verdict(verdict: Verdict, rows: Mapping[int, Numbers]) -> Html:
    sums = {
        "waits": sum(row.waits for row in rows.values()),
        "signals": sum(row.signals for row in rows.values()),
        "wakes": sum(row.wakes for row in rows.values()),
        "findings": len(verdict.findings),
        "suspicions": len(suspicions(verdict)),
        "overtaken": verdict.overtaken,
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
    """The table of queues; of many queues the busiest ones."""
    if not rows:
        return tag("p", text("None was used."))
    kinds: dict[int, Counter[Kind]] = {}
    for finding in material.verdict.findings:
        kinds.setdefault(finding.queue, Counter())[finding.kind] += 1
    odd = Counter(note.queue for note in suspicions(material.verdict))
    shown = sorted(rows.values(), key=lambda row: -row.waits - row.signals)[:MAX_QUEUES]
    shown.sort(key=lambda row: row.queue)
    head = header(
        ("queue", False),
        *((name, True) for name in (
            "waits", "never ended", "found at once", "timed out", "signals", "wakes",
            "wakes a signal", "spurious", "lost", "other findings", "suspicions", "deepest",
            "p50 µs", "p99 µs", "max µs",
        )),
    )  # fmt: skip
    lines = (
        _queue_row(material.ledger.object_name(row.queue, material.names), row,
                   kinds.get(row.queue, Counter()), odd[row.queue])
        for row in shown
    )  # fmt: skip
    caption = tag("caption", text("p50, p99, max: from wake to running"), class_="soft")
    return table("queues", head, lines, len(rows) - len(shown), "quieter queues", caption)


def _queue_row(name: str, row: Numbers, kinds: Counter[Kind], odd: int) -> Html:
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
        number("suspicions", odd, bad=True),
        number("deepest", row.deepest),
    ]
    for what, ns in (("p50", times.p50), ("p99", times.p99), ("max", times.max)):
        cells.append(number(f"{what}_ns", ns, f"{ns / 1000:.1f}" if times.count else "-"))
    return tag("tr", tag("th", text(name), scope="row"), *cells, data_queue=row.queue)


def _histograms(material: Material, rows: Mapping[int, Numbers]) -> Html:
    measured = sorted((row for row in rows.values() if row.latencies), key=lambda row: row.queue)
    busiest = sorted(measured, key=lambda row: -len(row.latencies))[:MAX_HISTOGRAMS]
    if not busiest:
        return tag("p", text("No thread that slept was woken."))
    name = material.ledger.object_name
    shown = (row for row in measured if row in busiest)
    figures = (_histogram(name(row.queue, material.names), row) for row in shown)
    return tag("div", *figures, class_="grid")


def _histogram(name: str, row: Numbers) -> Html:
    """Bars over the powers of two, as an SVG with the same numbers in words."""
    bars = row.histogram()
    most, wide = max(bars.values()), 330 / max(8, len(bars))
    words = {p: f"{duration(1 << p)} to {duration(2 << p)}: {found}" for p, found in bars.items()}
    drawn = []
    for n, (power, found) in enumerate(bars.items()):
        high = round(80 * found / most, 1)
        drawn.append(tag(
            "rect", tag("title", text(words[power])), x=round(n * wide, 1), y=88 - high,
            height=high, width=round(wide - 2, 1), data_from=1 << power, data_to=2 << power,
            data_count=found,
        ))  # fmt: skip
    ends = (
        tag("text", text(duration(1 << min(bars))), x=0, y=104),
        tag("text", text(duration(2 << max(bars))), x=round(len(bars) * wide, 1), y=104,
            text_anchor="end" if len(bars) > 2 else "start"),
    )  # fmt: skip
    label = "; ".join(words[power] for power, found in bars.items() if found)
    svg = tag(
        "svg", *drawn, tag("line", x1=0, x2=330, y1=89, y2=89), *ends, role="img",
        xmlns="http://www.w3.org/2000/svg", viewBox="0 0 330 108",
        aria_label=f"Latencies on {name}. {label}",
    )  # fmt: skip
    caption = tag("figcaption", text(f"{name}: {len(row.latencies):,} wakes"))
    return tag("figure", caption, svg, class_="histogram", data_queue=row.queue,
               data_count=len(row.latencies))  # fmt: skip
