# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Markdown tables, and the part of a document that a program writes."""

from collections.abc import Iterable, Sequence

END = "<!-- tables:end -->\n"


def row(cells: Iterable[str]) -> str:
    """One line of a table; the cells keep their text."""
    words = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(words)} |\n"


def table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table with left-aligned columns."""
    return "".join([row(heads), f"|{'---|' * len(heads)}\n", *map(row, rows)])


def replaced(text: str, new: str, begin: str) -> str:
    """A document with the text between its markers replaced."""
    head, rest = text.split(begin)
    return f"{head}{begin}\n{new}\n{END}{rest.split(END)[1]}"
