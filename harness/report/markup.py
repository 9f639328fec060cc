# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""HTML elements whose texts and attributes are always escaped.

Any program can choose the names of its threads, and modules those of queues and symbols.
"""

from collections.abc import Iterable
from html import escape
from typing import NewType

Html = NewType("Html", str)
"""Text that is markup already."""

NOTHING = Html("")


def text(value: object) -> Html:
    """Any text. Characters that HTML does not allow are replaced."""
    characters = str(value)
    safe = (c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in characters)
    return Html(escape("".join(safe)))


def joined(parts: Iterable[Html]) -> Html:
    """Parts, one after the other."""
    return Html("\n".join(parts))


def tag(name: str, *inside: Html, **attributes: object) -> Html:
    """An element. ``data_x`` names the attribute data-x, ``class_`` class; None leaves one out."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            words.append(f'{key.rstrip("_").replace("_", "-")}="{text(value)}"')
    return Html(f"<{' '.join(words)}>{''.join(inside)}</{name}>")


def number(name: str, value: float, shown: str | None = None, bad: bool = False) -> Html:
    """A table cell with a number: rounded on the page, exact in a data attribute."""
    exact = f"{value:.6g}" if isinstance(value, float) else value
    classes = "number bad" if bad and value else "number"
    return tag(
        "td", text(shown if shown is not None else exact),
        class_=classes, data_name=name, data_value=exact,
    )  # fmt: skip


def header(*names: tuple[str, bool]) -> Html:
    """A table head: names, each with whether its column holds numbers."""
    cells = (
        tag("th", text(name), scope="col", class_="number" if right else None)
        for name, right in names
    )
    return tag("thead", tag("tr", *cells))


def table(name: str, head: Html, rows: Iterable[Html], left_out: int, of: str, *top: Html) -> Html:
    """A table that scrolls sideways, and a note about rows that are left out.

    Args:
        name: The table's id.
        left_out: How many rows there are besides these.
        of: The name of those rows, for the note.
        top: Elements before the head, such as a caption.
    """
    whole = tag("table", *top, head, tag("tbody", joined(rows)), id=name)
    note = tag("p", text(f"{left_out:,} {of} are left out."), class_="note")
    return joined([tag("div", whole, class_="wide"), note if left_out else NOTHING])
