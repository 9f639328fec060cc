# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The comparison with real verbs: its record is complete, and its document says the same."""

from __future__ import annotations

import pytest

from kfabric.docs import channels, libfabric, markdown

RECORD = channels.record()


def test_document_has_the_record() -> None:
    """docs/channels.md is what ``python -m kfabric.docs.channels`` writes."""
    text = channels.DOCUMENT.read_text()
    new = channels.tables(RECORD, libfabric.promises(channels.TESTS))
    wanted = markdown.replaced(text, new, channels.BEGIN)
    assert text == wanted, "run python -m kfabric.docs.channels"


def test_every_scenario_is_in_one_section() -> None:
    """None is left out of the document, none is there twice."""
    for name in RECORD:
        sections = [each for each in channels.SECTIONS.values() if name.startswith(each)]
        assert len(sections) == 1, name


def test_every_scenario_has_a_promise() -> None:
    """The tests' table and the record name the same scenarios in the same order."""
    assert list(libfabric.promises(channels.TESTS)) == list(RECORD)


@pytest.mark.parametrize("name", RECORD)
def test_every_difference_says_what_decides(name: str) -> None:
    """E6: and only differences do."""
    entry = RECORD[name]
    verbs = [entry["verbs"], entry.get("later", entry["verbs"])]
    assert any(answers != entry["results"] for answers in verbs) == ("decides" in entry)


@pytest.mark.parametrize("name", RECORD)
def test_every_answer_has_its_step(name: str) -> None:
    """Steps are known ones, and either side has as many results as steps that answer."""
    words = [step.split()[0] for step in channels.steps(RECORD[name])]
    assert set(words) <= channels.ANSWERING | channels.SILENT
    answering = sum(word in channels.ANSWERING for word in words)
    assert len(RECORD[name]["results"]) == len(RECORD[name]["verbs"]) == answering


def test_row_marks_a_difference() -> None:
    """One mark, and who is right."""
    entry = {"steps": "get", "results": ["a"], "verbs": ["-EAGAIN"], "decides": "why"}
    text = channels.tables({"event_x": entry}, {"event_x": "E2: x"})
    assert "| E2: x | get | a | -EAGAIN **≠** | why |" in text
