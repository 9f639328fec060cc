# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The page's table of sleepers and wakers: who woke whom, how often, how slowly at worst."""

from collections import Counter
from collections.abc import Hashable, Mapping
from math import log
from typing import TypeVar

from kfabric.report.markup import Html, tag, text, wrapped
from kfabric.report.numbers import INTERRUPTS, Pair, Waker
from kfabric.report.words import counted, duration, thread
from kfabric.verdict.ledger import Ledger

MAX_SLEEPERS, MAX_WAKERS = 16, 8
_OTHERS = "all others"
Key = TypeVar("Key", bound=Hashable)


def section(ledger: Ledger, pairs: Mapping[tuple[int, Waker], Pair]) -> Html:
    """The table; of many threads those of one name share a line, and the rarest the last one."""
    if not pairs:
        return tag("p", text("No thread was woken."))
    by_sleeper: Counter[int] = Counter()
    by_waker: Counter[Waker] = Counter()
    for (tid, waker), pair in pairs.items():
        by_sleeper[tid] += pair.wakes
        by_waker[waker] += pair.wakes
    comms = {tid: ledger.threads.get(tid, f"thread {tid}") for tid, _ in pairs}
    rows = _labels(by_sleeper, {tid: _thread(ledger, tid) for tid in comms}, comms, MAX_SLEEPERS)
    columns = _waker_labels(ledger, by_waker)
    sums: dict[str, dict[str, Pair]] = {row: {} for row in dict.fromkeys(rows.values())}
    for (tid, waker), pair in pairs.items():
        sums[rows[tid]].setdefault(columns[waker], Pair()).add(pair)
    return _table(sums, list(dict.fromkeys(columns.values())))


def _thread(ledger: Ledger, tid: int) -> str:
    return thread(ledger.thread_name(tid))


def _waker_labels(ledger: Ledger, counts: Counter[Waker]) -> dict[Waker, str]:
    full, comms = {}, {}
    for waker in counts:
        context, tid = waker
        name = INTERRUPTS.get(context, "")
        full[waker] = name or _thread(ledger, tid)
        comms[waker] = name or ledger.threads.get(tid, f"thread {tid}")
    return _labels(counts, full, comms, MAX_WAKERS)


def _labels(
    counts: Counter[Key], full: Mapping[Key, str], comms: Mapping[Key, str], most: int
) -> dict[Key, str]:
    """A label for each thread, the busiest first, with at most ``most`` different ones."""
    order = [key for key, _ in counts.most_common()]
    if len(order) <= most:
        return {key: full[key] for key in order}
    alike = Counter(comms[key] for key in order)
    sums: Counter[str] = Counter()
    for key in order:
        sums[comms[key]] += counts[key]
    kept = [name for name, _ in sums.most_common(most if len(sums) <= most else most - 1)]
    place = {name: n for n, name in enumerate(kept)}
    order.sort(key=lambda key: place.get(comms[key], most))
    several = {name: f"{name} ({alike[name]} threads)" for name in kept if alike[name] > 1}
    return {
        key: several.get(comms[key], full[key]) if comms[key] in place else _OTHERS for key in order
    }


def _table(sums: Mapping[str, Mapping[str, Pair]], columns: list[str]) -> Html:
    most = max(pair.wakes for row in sums.values() for pair in row.values())
    heads = (tag("th", wrapped(name), scope="col", class_="number") for name in columns)
    head = tag("tr", tag("th", text("sleeper, woken by"), scope="col"), *heads)
    lines = []
    for sleeper, row in sums.items():
        cells = (_cell(name, row.get(name), most) for name in columns)
        lines.append(
            tag("tr", tag("th", wrapped(sleeper), scope="row"), *cells, data_sleeper=sleeper)
        )
    caption = tag("caption", text("number of wakes, and the longest time from wake to running"),
                  class_="soft")  # fmt: skip
    table = tag("table", caption, tag("thead", head), tag("tbody", *lines), id="wakers")
    return tag("div", table, class_="wide")


def _cell(waker: str, pair: Pair | None, most: int) -> Html:
    if pair is None:
        return tag("td", class_="number none")
    share = round(30 * log(1 + pair.wakes) / log(1 + most)) if most else 0
    slowest = duration(pair.slowest) if pair.slowest else "-"
    return tag(
        "td", tag("b", text(f"{pair.wakes:,}")), tag("span", text(slowest), class_="soft"),
        class_="number", style=f"--share: {share}%", data_label=f"by {waker}",
        data_waker=waker, data_wakes=pair.wakes, data_slowest_ns=pair.slowest,
        title=f"{counted(pair.wakes, 'wake')} by {waker}, the slowest after {slowest}",
    )  # fmt: skip
