# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Pictures of what the bench has measured, for docs/bench.md."""

import math
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from kfabric.bench.figures import Row
from kfabric.bench.timeline import Play
from kfabric.docs.results import DOCUMENT

COSTS, STEPS = (DOCUMENT.with_name(name) for name in ("costs.svg", "steps.svg"))
_WIDTH, _LEFT, _RIGHT, _LINE, _TOP = 860, 400, 60, 20, 44
_FACTOR = 4.0
"""The picture of costs reaches from a fourth of the goal to four times it."""
_FILLS = ("#a8c0d8", "#d8e0e8")
_MET, _MISSED = "#78a878", "#c86060"
_GLYPH = 6.2
"""About the width of a character."""


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>\n'
        f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def _text(x: float, y: int, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _bar(begin: float, end: float, y: int, fill: str, title: str) -> str:
    width = max(1.0, end - begin)
    return (
        f'<rect x="{begin:.1f}" y="{y - 12}" width="{width:.1f}" height="15" fill="{fill}">'
        f"<title>{escape(title)}</title></rect>"
    )


def costs(rows: Sequence[Row]) -> str:
    """A bar for each figure with a goal: to the left of the line in the middle the goal is met."""
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    scale = (_WIDTH - _RIGHT - middle) / math.log(_FACTOR)
    parts = [_text(middle, 36, "goal", "middle")]
    y = _TOP
    for row in rows:
        if not row.goal or row.met is None:
            continue
        y += _LINE
        cost = row.measured / row.goal
        # Of a rate, the goal is the least.
        cost = 1 / max(cost, 1e-9) if row.at_least else cost
        way = max(-1.0, min(1.0, math.log(max(cost, 1e-9)) / math.log(_FACTOR)))
        x = middle + way * math.log(_FACTOR) * scale
        fill = _MET if row.met else _MISSED
        number = f"{row.measured:.{3 if row.measured < 100 else 0}f}"
        parts += [
            _text(_LEFT - 8, y, row.what, "end"),
            _bar(min(x, middle), max(x, middle), y, fill, f"{number}, goal {row.goal:g}"),
            _text(_WIDTH - 8, y, number, "end"),
        ]
    line = f'<line x1="{middle}" y1="{_TOP}" x2="{middle}" y2="{y + 8}" stroke="black"/>'
    return _svg(y + _LINE, "what was measured, against its goal (logarithmic)", [*parts, line])


def steps(plays: Sequence[tuple[str, Play]]) -> str:
    """A bar for each step, divided where its command has printed a line."""
    longest = max(play.seconds for _, play in plays)
    left = 250
    scale = (_WIDTH - left - _RIGHT) / longest
    parts: list[str] = []
    y = _TOP
    for title, play in plays:
        parts += [
            _text(left - 8, y, title, "end"),
            _text(left + play.seconds * scale + 6, y, f"{play.seconds:.1f} s"),
        ]
        for number, part in enumerate(play.parts()):
            begin, end = left + part.begin * scale, left + part.end * scale
            said = f"{part.end - part.begin:.1f} s after: {part.line}"
            parts.append(_bar(begin, end, y, _FILLS[number % 2], said))
            room = int((end - begin - 6) / _GLYPH)
            if room > 3:
                parts.append(_text(begin + 3, y, f"{part.end - part.begin:.1f}"))
        y += _LINE + 6
    return _svg(y, "where the seconds of a step are: a new shade at each line it prints", parts)


def write(path: Path, picture: str) -> None:
    """Replace a picture. Raises OSError."""
    path.write_text(picture, encoding="utf-8")
