# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The comparison with libfabric: its record is complete, and its document says the same."""

from __future__ import annotations

import pytest

from kfabric.docs import libfabric, markdown

RECORD = libfabric.record()


def test_document_has_the_record() -> None:
    """docs/libfabric.md is what ``python -m kfabric.docs.libfabric`` writes."""
    text = libfabric.DOCUMENT.read_text()
    new = libfabric.tables(RECORD, libfabric.promises())
    assert text == markdown.replaced(text, new, libfabric.BEGIN), (
        "run python -m kfabric.docs.libfabric"
    )


def test_every_scenario_is_in_one_section() -> None:
    """None is left out of the document, none is there twice."""
    for name in RECORD:
        sections = [each for each in libfabric.SECTIONS.values() if name.startswith(each)]
        assert len(sections) == 1, name


def test_every_scenario_has_a_promise() -> None:
    """The tests' table and the record name the same scenarios in the same order."""
    assert list(libfabric.promises()) == list(RECORD)


@pytest.mark.parametrize("name", RECORD)
def test_equal_unless_said_otherwise(name: str) -> None:
    """Where libfabric keeps its page kfabric does the same, and the marks are not for nothing."""
    entry = RECORD[name]
    assert not set(entry.get("breaks", ())) & set(entry.get("silent", ()))
    for provider in libfabric.PROVIDERS:
        if provider in entry:
            keeps = libfabric.verdict(entry, provider) == "keeps"
            assert (entry[provider] == entry["kfabric"]) == keeps, provider
        else:
            assert libfabric.verdict(entry, provider) == "keeps", provider


def test_row_marks_what_breaks_the_page() -> None:
    """One mark for each verdict, and none for kfabric."""
    entry = {"does": "d", "page": "p", "kfabric": ["1"], "rxm": ["0"], "breaks": ["rxm"]}
    text = libfabric.tables({"poll_x": entry}, {"poll_x": "P1: x"})
    assert "| P1: x | d | p | 1 | 0 **✗** | not offered |  |" in text
    assert "| tcp;ofi_rxm | 1 | 0 | 1 | 0 |" in text
