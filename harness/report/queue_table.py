# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The page's table of queues, and the histograms. Queues of one name share a line."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kfabric.report.markup import (
    Html,
    header,
    joined,
    left_out,
    more,
    number,
    table,
    tag,
    text,
    wrapped,
)
from kfabric.report.material import Material
from kfabric.report.numbers import Numbers, merged
from kfabric.report.suspects import suspicions
from kfabric.report.words import counted, duration
from kfabric.verdict.kinds import Kind

MAX_GROUPS = 500
MAX_MEMBERS = 500
MAX_HISTOGRAMS = 60
FIRST_GROUPS = 25
FIRST_HISTOGRAMS = 6

_LOST = (Kind.LOST, Kind.TIMEOUT_READY)
_COLUMNS = (
    ("waits", "waits"), ("never ended", "never"), ("found at once", "at_once"),
    ("timed out", "timeouts"), ("signals", "signals"), ("wakes", "wakes"),
    ("wakes a signal", "wakes_per_signal"), ("spurious", "spurious"), ("lost", "lost"),
    ("other findings", "other"), ("suspicions", "suspicions"), ("deepest", "deepest"),
    ("p50 µs", "p50_ns"), ("p99 µs", "p99_ns"), ("max µs", "max_ns"),
)  # fmt: skip
_LABELS = {column: label for label, column in _COLUMNS}
_FILTERS = (
    ("", "all"), ("faulty", "with a finding"), ("never", "with waits that never ended"),
    ("timeouts", "with waits that timed out"), ("waits", "with waits"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Group:
    """The queues of one name, the busiest first, and their sum."""

    name: str
    members: tuple[Numbers, ...]
    total: Numbers


def groups_of(material: Material, rows: Mapping[int, Numbers]) -> list[Group]:
    """The queues by name, the busiest name first."""
    found: dict[str, list[Numbers]] = {}
    for row in sorted(rows.values(), key=lambda row: (-row.waits - row.signals, row.queue)):
        found.setdefault(material.ledger.object_name(row.queue, material.names), []).append(row)
    groups = [
        Group(name, tuple(members), merged(members) if len(members) > 1 else members[0])
        for name, members in found.items()
    ]
    return sorted(groups, key=lambda group: -group.total.waits - group.total.signals)


class QueueTable:
    """The table. A line of several queues has a button that shows each of them."""

    def __init__(self, material: Material) -> None:
        self._kinds: dict[int, Counter[Kind]] = {}
        for finding in material.verdict.findings:
            self._kinds.setdefault(finding.queue, Counter())[finding.kind] += 1
        self._odd = Counter(note.queue for note in suspicions(material.verdict))
        self._room = MAX_MEMBERS

    def section(self, groups: Sequence[Group]) -> Html:
        """The controls, the table, and the templates of what it does not show at first."""
        if not groups:
            return tag("p", text("None was used."))
        shown = sorted(groups[:MAX_GROUPS], key=self._faults, reverse=True)
        head = header(("queue", None), *_COLUMNS)
        caption = tag("caption", text("p50, p99, max: from wake to running"), class_="soft")
        rows = [self._group(group) for group in shown]
        members = [self._members(group) for group in shown if len(group.members) > 1]
        return joined([
            _controls(len(groups)) if len(groups) > 1 else text(""),
            table("queues", head, rows, FIRST_GROUPS, caption),
            *members,
            left_out(len(groups) - len(shown), "quieter names"),
        ])  # fmt: skip

    def _faults(self, group: Group) -> bool:
        return any(row.queue in self._kinds for row in group.members)

    def _group(self, group: Group) -> Html:
        ids = [row.queue for row in group.members]
        if len(ids) == 1:
            return self._row(wrapped(group.name), ids, group.total, data_queue=ids[0])
        button = tag("button", text(counted(len(ids), "queue")), type="button",
                     data_members=group.name, aria_expanded="false")  # fmt: skip
        name = Html(f"{wrapped(group.name)} {button}")
        return self._row(name, ids, group.total, data_group=group.name, data_queues=len(ids))

    def _members(self, group: Group) -> Html:
        """The lines of a group's queues, in a template."""
        shown = group.members[: self._room]
        self._room -= len(shown)
        rows = [
            self._row(text(f"queue {row.queue}"), [row.queue], row, class_="member",
                      data_queue=row.queue)
            for row in shown
        ]  # fmt: skip
        if len(shown) < len(group.members):
            note = text(f"{len(group.members) - len(shown):,} quieter queues are left out.")
            cell = tag("td", note, colspan=len(_COLUMNS) + 1, class_="soft")
            rows.append(tag("tr", cell, class_="member"))
        inside = tag("table", tag("tbody", *rows))
        return tag("template", inside, data_members_of=group.name)

    def _row(self, name: Html, ids: Iterable[int], row: Numbers, **data: object) -> Html:
        kinds: Counter[Kind] = Counter()
        for queue in ids:
            kinds.update(self._kinds.get(queue, ()))
        odd = sum(self._odd[queue] for queue in ids)
        cells = _cells(row, kinds, odd)
        faulty = int(any(kinds.values())) or None
        head = tag("th", name, scope="row")
        return tag("tr", head, *cells, data_faulty=faulty, **data)


def _cells(row: Numbers, kinds: Counter[Kind], odd: int) -> list[Html]:
    lost = sum(kinds[kind] for kind in _LOST)
    times = row.latency()
    spurious = kinds[Kind.SPURIOUS]
    share = f"{spurious} ({spurious / row.wakes:.1%})" if spurious and row.wakes else str(spurious)
    cells = [
        _cell("waits", row.waits),
        _cell("never", row.never, bad=True),
        _cell("at_once", row.at_once),
        _cell("timeouts", row.timeouts),
        _cell("signals", row.signals),
        _cell("wakes", row.wakes),
        _cell("wakes_per_signal", row.wakes_per_signal, f"{row.wakes_per_signal:.2f}"),
        _cell("spurious", spurious, share, bad=True),
        _cell("lost", lost, bad=True),
        _cell("other", sum(kinds.values()) - lost - spurious, bad=True),
        _cell("suspicions", odd, bad=True),
        _cell("deepest", row.deepest),
    ]
    for what, ns in (("p50", times.p50), ("p99", times.p99), ("max", times.max)):
        cells.append(_cell(f"{what}_ns", ns, f"{ns / 1000:.1f}" if times.count else "-"))
    return cells


def _cell(name: str, value: float, shown: str | None = None, bad: bool = False) -> Html:
    return number(name, value, shown, bad, label=_LABELS[name])


def _controls(names: int) -> Html:
    """The search and the filter; the heads of the columns sort."""
    search = tag("input", type="search", id="search", placeholder="search a queue",
                 aria_label="search a queue by name", autocomplete="off")  # fmt: skip
    options = (tag("option", text(label), value=value) for value, label in _FILTERS)
    choose = tag("select", *options, id="filter", aria_label="show queues")
    found = tag("output", id="found", class_="soft", data_names=names)
    return tag("div", search, choose, found, class_="bar controls")


def histograms(groups: Sequence[Group]) -> Html:
    """The latencies of each name; of the less busy ones on demand."""
    measured = [group for group in groups if group.total.latencies]
    measured.sort(key=lambda group: -len(group.total.latencies))
    if not measured:
        return tag("p", text("No thread that slept was woken."))
    figures = [_histogram(group) for group in measured[:MAX_HISTOGRAMS]]
    parts = [tag("div", *figures[:FIRST_HISTOGRAMS], class_="grid")]
    rest = figures[FIRST_HISTOGRAMS:]
    if rest:
        parts.append(more("div.grid", len(rest), tag("div", *rest, class_="grid"), "histograms"))
    parts.append(left_out(len(measured) - len(figures), "quieter names"))
    return joined(parts)


def _histogram(group: Group) -> Html:
    """Bars over the powers of two, as an SVG with the same numbers in words."""
    row, name = group.total, group.name
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
        tag("text", text(duration(2 << max(bars))), x=max(110, round(len(bars) * wide, 1)), y=104,
            text_anchor="end"),
    )  # fmt: skip
    label = "; ".join(words[power] for power, found in bars.items() if found)
    svg = tag(
        "svg", *drawn, tag("line", x1=0, x2=330, y1=89, y2=89), *ends, role="img",
        xmlns="http://www.w3.org/2000/svg", viewBox="0 0 330 108",
        aria_label=f"Latencies on {name}. {label}",
    )  # fmt: skip
    count = len(row.latencies)
    caption = tag("figcaption", wrapped(f"{name}: {counted(count, 'wake')}"))
    queue = row.queue if len(group.members) == 1 else None
    return tag("figure", caption, svg, class_="histogram", data_queue=queue,
               data_group=None if queue else name, data_count=count)  # fmt: skip
