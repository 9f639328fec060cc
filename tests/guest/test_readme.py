# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The tests that the documents show, run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

from guest_support import LIMIT

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "docs/testing.md", "docs/verdict.md")
SHOWN = {
    "test_message_ends_a_wait",
    "test_one_completion_wakes_one_reader",
    "test_completion_wakes_its_reader",
}


def shown(document: str) -> dict[str, object]:
    """The tests that a document shows, by name; its other code is left out."""
    names: dict[str, object] = {"LIMIT": LIMIT}
    text = (ROOT / document).read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.S | re.M):
        if any(f"def {name}(" in block for name in SHOWN):
            exec(compile(block, document, "exec"), names)
    return {name: value for name, value in names.items() if name.startswith("test_")}


# For pytest to find.
for _document in DOCUMENTS:
    globals().update(shown(_document))


def test_each_test_that_is_shown_is_run() -> None:
    """One that is renamed in its document must not vanish from here."""
    assert globals().keys() >= SHOWN
