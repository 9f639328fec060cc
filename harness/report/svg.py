# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""An SVG of a few waits for a document, made from a Chrome trace.

python -m kfabric.report.svg build/demo/timeline.json docs/timeline.svg
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, LANE, TOP = 860, 90, 20, 56, 34

Event = dict[str, Any]


@dataclass(frozen=True)
class Wait:
    """One wait, in microseconds since the trace began."""

    thread: int
    begin: float
    end: float


def waits(events: Sequence[Event], threads: Sequence[int]) -> list[Wait]:
    """Return the finished waits of these threads, oldest first."""
    begun: dict[Any, Event] = {}
    found = []
    for event in sorted((e for e in events if e.get("cat") == "wait"), key=lambda e: e["ts"]):
        if event["ph"] == "b":
            begun[event["id"]] = event
        elif event["id"] in begun:
            first = begun.pop(event["id"])
            if first["tid"] in threads:
                found.append(Wait(first["tid"], first["ts"], event["ts"]))
    return sorted(found, key=lambda wait: wait.begin)


def _flows(events: Sequence[Event]) -> list[tuple[float, float, int]]:
    """Return (signal, running, thread) of every wake-up."""
    starts = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
    return [
        (starts[e["id"]], e["ts"], e["tid"]) for e in events if e["ph"] == "f" and e["id"] in starts
    ]


def draw(events: Sequence[Event], names: Sequence[str], first: int, count: int) -> str:
    """Return an SVG of ``count`` waits of the named threads, from the ``first`` on."""
    tids = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    threads = [tids[name] for name in names]
    shown = waits(events, threads)[first : first + count]
    begin, end = min(w.begin for w in shown), max(w.end for w in shown)
    scale = (WIDTH - LEFT - RIGHT) / (end - begin)

    def x(us: float) -> float:
        return round(LEFT + (us - begin) * scale, 1)

    height = TOP + LANE * (len(threads) + 1)
    axis = TOP + LANE * len(threads)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="18">waits of {len(threads)} threads in their wait sets '
        f"(grey), each ended by a signal (red)</text>",
    ]
    for lane, (name, thread) in enumerate(zip(names, threads, strict=True)):
        y = TOP + LANE * lane
        parts.append(f'<text x="8" y="{y + 22}">{escape(name)}</text>')
        parts += [
            f'<rect x="{x(w.begin)}" y="{y + 6}" width="{max(1, x(w.end) - x(w.begin)):.1f}" '
            f'height="24" fill="#c8d0d8" stroke="#78828c"/>'
            for w in shown
            if w.thread == thread
        ]
    for signal, running, thread in _flows(events):
        if thread in threads and begin <= signal and running <= end:
            y = TOP + LANE * threads.index(thread)
            parts.append(
                f'<path d="M{x(signal)} {axis} C{x(signal)} {y + 44} {x(running)} '
                f'{y + 54} {x(running)} {y + 30}" fill="none" stroke="#c03030"/>'
                f'<circle cx="{x(signal)}" cy="{axis}" r="3" fill="#c03030"/>'
            )
    parts.append(
        f'<line x1="{LEFT}" y1="{axis}" x2="{WIDTH - RIGHT}" y2="{axis}" stroke="black"/>'
        f'<text x="8" y="{axis + 4}">signals</text>'
        f'<text x="{LEFT}" y="{axis + 22}">0</text>'
        f'<text x="{WIDTH - RIGHT}" y="{axis + 22}" text-anchor="end">'
        f"{(end - begin) / 1000:.1f} ms</text></svg>"
    )
    return "\n".join(parts) + "\n"


def main() -> None:
    """Draw one picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--threads", default="ping,pong")
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--count", type=int, default=12)
    args = parser.parse_args()
    events = json.loads(args.trace.read_text())["traceEvents"]
    args.picture.write_text(draw(events, args.threads.split(","), args.first, args.count))


if __name__ == "__main__":
    main()
