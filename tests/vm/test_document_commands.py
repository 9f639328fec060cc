# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The commands of the documents that need a guest and take seconds, run as they are printed."""

from __future__ import annotations

from pathlib import Path

import doc_blocks
import pytest

# For one command. The first one builds what is missing.
SECONDS = 400.0
# A page's other commands need what this one writes.
NEW = "build/venv/bin/kfabric new my_mod"


def commands(document: str) -> list[str]:
    """What a reader of a page types, as far as it is run here."""
    found = [c for b in doc_blocks.blocks("") if b.document == document for c in b.commands]
    return [command for command in found if command == NEW or doc_blocks.in_a_guest(command)]


PAGES = sorted(
    {
        block.document
        for block in doc_blocks.blocks("")
        if any(map(doc_blocks.in_a_guest, block.commands))
    }
)


@pytest.mark.parametrize("document", PAGES)
def test_commands_of_a_page_do_what_it_says(document: str, tmp_path: Path) -> None:
    """In the page's order and one directory; each ends with its status and prints its text."""
    place = doc_blocks.playground(tmp_path)
    for command in commands(document):
        status, text = doc_blocks.in_a_guest(command) or (0, "")
        done = doc_blocks.run(command, place, SECONDS)
        print(command, done.stdout, sep="\n")
        assert done.returncode == status
        assert text in done.stdout
