# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""HTML elements whose texts and attributes are always escaped.

Any program can choose the names of its threads, and modules those of queues and symbols.
"""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import NewType

Html = NewType("Html", str)
"""Text that is markup already."""

NOTHING = Html("")
_VOID = frozenset(("input",))

# The places at which a long name may wrap; the point of a number is none.
_SEPARATORS = re.compile(r"([_/:+@]+|\.(?=[A-Za-z]))(?=[\w(\[])")


def text(value: object) -> Html:
    """Any text. Characters that HTML does not allow are replaced."""
    characters = str(value)
    safe = (c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in characters)
    return Html(escape("".join(safe)))


def wrapped(value: object) -> Html:
    """Any text. Its long names wrap after their separators, and copy without a trace of that."""
    return Html(_SEPARATORS.sub(r"\1<wbr>", text(value)))


def joined(parts: Iterable[Html]) -> Html:
    """Parts, one after the other."""
    return Html("\n".join(parts))


def tag(name: str, *inside: Html, **attributes: object) -> Html:
    """An element. ``data_x`` names the attribute data-x, ``class_`` class; None leaves one out."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            words.append(f'{key.rstrip("_").replace("_", "-")}="{text(value)}"')
    end = "" if name in _VOID else f"{''.join(inside)}</{name}>"
    return Html(f"<{' '.join(words)}>{end}")


def number(
    name: str, value: float, shown: str | None = None, bad: bool = False, label: str | None = None
) -> Html:
    """A table cell with a number: rounded on the page, exact in a data attribute.

    ``label`` names it where the table has no room for a head.
    """
    exact = f"{value:.6g}" if isinstance(value, float) else value
    classes = "number" if value else "number zero"
    return tag(
        "td", text(shown if shown is not None else exact),
        class_=f"{classes} bad" if bad and value else classes, data_label=label,
        data_name=name, data_value=exact,
    )  # fmt: skip


def header(*names: tuple[str, str | None]) -> Html:
    """A table head: names, each with the data name of its column if that holds numbers."""
    cells = (
        tag("th", text(name), scope="col", class_="number" if column else None, data_column=column)
        for name, column in names
    )
    return tag("thead", tag("tr", *cells))


def table(name: str, head: Html, rows: Sequence[Html], shown: int, *top: Html) -> Html:
    """A table that scrolls sideways.

    Args:
        name: The table's id.
        shown: How many of the rows are shown at first; a button shows the others.
        top: Elements before the head, such as a caption.
    """
    body = tag("tbody", joined(rows[:shown]))
    box = tag("div", tag("table", *top, head, body, id=name), class_="wide")
    if len(rows) <= shown:
        return box
    inside = tag("table", tag("tbody", joined(rows[shown:])))
    return joined([box, more(f"#{name} tbody", len(rows) - shown, inside)])


def more(into: str, count: int, inside: Html, what: str = "rows") -> Html:
    """Elements that the page holds without building them, and the button that does.

    Args:
        into: The selector of the element that gets them, both here and in ``inside``.
        count: How many there are.
        inside: The elements, in a parent of the same kind as the one that gets them.
        what: The name of the elements.
    """
    button = tag("button", text(f"show {count:,} more {what}"), type="button", data_more=into)
    return tag("div", button, tag("template", inside), class_="more")


def left_out(count: int, of: str) -> Html:
    """A note about elements that the page does not have; nothing if there are none."""
    return tag("p", text(f"{count:,} {of} are left out."), class_="note") if count else NOTHING
