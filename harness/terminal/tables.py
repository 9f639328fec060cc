# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Prints the tables of rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def show(console: Console, thing: RenderableType) -> None:
    """Print a table; lines have no trailing blanks if it does not go to a terminal."""
    if console.is_terminal:
        console.print(thing)
        return
    with console.capture() as captured:
        console.print(thing)
    for line in captured.get().splitlines():
        print(line.rstrip(), file=console.file)
