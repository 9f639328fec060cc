# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The documents lead somewhere: their links, and the files that they name, exist."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from kfabric import cli

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for glob in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(glob)
)
# A path of the checkout in code quotes, and a file's bare name.
PLACE = re.compile(r"`((?:kmod|harness|tests|docs|examples|vm|kfabric_py)/[\w./*-]+)`")
NAME = re.compile(r"`(\w+\.(?:c|h|py))`")
LINK = re.compile(r"\]\(([^)#:]+)?(?:#([^)]+))?\)")


COMMAND = re.compile(rf"(?:^ *|\$ |[|;&(] *)kfabric (?:{'|'.join(cli.COMMANDS)})\b", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """What a link into a document can name: its headings and explicit anchors."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([\w-]+)"></a>', text))


def names() -> set[str]:
    """The bare names of the files of the source folders."""
    folders = ("kmod", "harness", "tests", "examples", "vm", "kfabric_py")
    return {name for top in folders for _, _, found in os.walk(ROOT / top) for name in found}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_to_a_file_and_a_heading(document: Path) -> None:
    """A link that leads nowhere stops a reader."""
    text = (ROOT / document).read_text(encoding="utf-8")
    for target, anchor in LINK.findall(text):
        path = (ROOT / document).parent / target if target else ROOT / document
        assert path.exists(), target
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path.read_text(encoding="utf-8")), f"{target}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_files_that_are_named_exist(document: Path) -> None:
    """A file that was moved is found under its new name."""
    text = (ROOT / document).read_text(encoding="utf-8")
    # In an example's page, places are those of the example.
    roots = (ROOT, (ROOT / document).parent)
    for place in PLACE.findall(text):
        assert any(list(root.glob(place.rstrip("/"))) for root in roots), place
    assert not set(NAME.findall(text)) - names()


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_command_is_written_with_its_path(document: Path) -> None:
    """make setup puts it there, and not on the PATH; a code block is to be run as printed."""
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?s:.*?)^```|^    .+$", text, re.MULTILINE)
    assert not [found for block in blocks for found in COMMAND.findall(block)]
