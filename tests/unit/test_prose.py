# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The counter of sentences that hide their subject."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric.docs import prose


@pytest.mark.parametrize(
    "sentence",
    [
        "Who closes it gets EBUSY.",
        "What was delivered is acked.",
        "Nobody is woken.",
        "One can close it twice.",
        "The set is ready; whoever reads it first wins.",
        "The close returns, and what is left goes to a work item.",
        "But who waits is woken.",
    ],
)
def test_hidden_subject_is_found(sentence: str) -> None:
    """The subject of a sentence or of its second clause is such a pronoun."""
    assert prose.hides_its_subject(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "close() returns EBUSY.",
        "One thread wakes.",
        "One of the readers wakes.",
        "The thread that sleeps is woken, whatever it waits for.",
        "Who wakes the sleeper?",
        "The report shows who wakes whom.",
    ],
)
def test_named_subject_is_not(sentence: str) -> None:
    """The same words elsewhere in a sentence, and questions, are plain English."""
    assert not prose.hides_its_subject(sentence)


def test_code_and_headings_are_no_sentences_and_cells_are() -> None:
    """Blocks of code do not count; headings and the heads of tables do not, either."""
    text = """\
# What a heading says

A sentence with `who` in it. Another
one over two lines.

    who indented

```
what fenced
```

- an item
- who hides

| head | what decides |
|---|---|
| cell one | what hides |
"""
    assert list(prose.sentences(text)) == [
        "A sentence with `code` in it.",
        "Another one over two lines.",
        "an item",
        "who hides",
        "cell one",
        "what hides",
    ]


def test_documents_are_counted(tmp_path: Path) -> None:
    """Each document is counted once, with the place of each sentence found."""
    (tmp_path / "docs/adr").mkdir(parents=True)
    (tmp_path / "README.md").write_text("Who reads this?\n\nNobody does.\n")
    (tmp_path / "docs/adr/1.md").write_text("A close fails.\n")
    total, found = prose.count(tmp_path)
    assert (total, found) == (3, [prose.Found("README.md", "Nobody does.")])
    assert round(prose.rate(total, len(found))) == 333
