# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The Python of the documents, run as it is printed there.

Each block stands for itself: its tests get what pytest gives them, and nothing is added to its
names. ELSEWHERE in doc_blocks.py has the blocks that another file runs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import doc_blocks
import pytest
from doc_blocks import Block
from guest_support import LIMIT, NEEDS_TRACER

from kfabric.guest import modules as guest_modules
from kfabric.guest import topology

BLOCKS = [block for block in doc_blocks.blocks("python") if not block.elsewhere]
SCRIPTS = [block for block in BLOCKS if "def test_" not in block.text]
# This one plays an entry of the gallery, with the tracer: the page says what is loaded.
WITH_GALLERY = "test_wake_up_is_handed_on"


def defined_by(block: Block) -> dict[str, object]:
    """The tests that a block defines, by name."""
    names: dict[str, object] = {}
    exec(compile(block.text, str(block), "exec"), names)
    return {name: value for name, value in names.items() if name.startswith("test_")}


# For pytest to find.
for _block in BLOCKS:
    if _block not in SCRIPTS:
        _found = defined_by(_block)
        assert not _found.keys() & globals().keys(), f"{_block}: two documents have this name"
        globals().update(_found)

for _mark in (pytest.mark.timeout(300), pytest.mark.usefixtures("gallery"), *NEEDS_TRACER):
    _mark(globals()[WITH_GALLERY])


@pytest.fixture
def gallery() -> Iterator[None]:
    """The module with the bugs. Its waiters are asleep when a slow guest's waker comes."""
    file = guest_modules.Modules.from_environment().file("gallery")
    guest_modules.insert(file, "patience_ms=1500")
    yield
    guest_modules.remove("gallery")


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_script_runs(
    script: Block, modules: guest_modules.Modules, verbs: topology.RdmaLink
) -> None:
    """As a program of its own, in a guest such as that of `kfabric shell`; it prints its event."""
    done = subprocess.run(
        [sys.executable, "-c", script.text],
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    assert "data=497" in done.stdout


def test_documents_show_tests_and_scripts() -> None:
    """Neither kind vanishes unseen."""
    assert len(SCRIPTS) >= 3
    assert len(BLOCKS) - len(SCRIPTS) >= 7
