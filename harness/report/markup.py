# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""HTML made of parts that cannot break out: every text and attribute is escaped here.

Names of threads are anybody's to choose, and so are those of queues and symbols.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NewType

Html = NewType("Html", str)
"""Text that is markup already."""

NOTHING = Html("")


def text(value: object) -> Html:
    """Any text; characters that no page may hold are replaced."""
    return Html(escape("".join(map(_safe, str(value)))))


def _safe(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    return "\N{REPLACEMENT CHARACTER}"


def joined(parts: Iterable[Html], between: str = "\n") -> Html:
    """Parts in a row."""
    return Html(between.join(parts))


def tag(name: str, *inside: Html, **attributes: object) -> Html:
    """An element. ``data_x`` names the attribute data-x, ``class_`` class; None leaves one out."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            words.append(f'{key.rstrip("_").replace("_", "-")}="{text(value)}"')
    return Html(f"<{' '.join(words)}>{''.join(inside)}</{name}>")


def number(name: str, value: float, shown: str | None = None, bad: bool = False) -> Html:
    """A table's cell with a number: rounded for people, exact for programs."""
    exact = f"{value:.6g}" if isinstance(value, float) else value
    classes = "number bad" if bad and value else "number"
    return tag(
        "td", text(shown if shown is not None else exact),
        class_=classes, data_name=name, data_value=exact,
    )  # fmt: skip


def header(*names: tuple[str, bool]) -> Html:
    """A table's head; each name with whether numbers stand below it."""
    cells = (
        tag("th", text(name), scope="col", class_="number" if right else None)
        for name, right in names
    )
    return tag("thead", tag("tr", *cells))
