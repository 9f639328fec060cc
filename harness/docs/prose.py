# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Counts sentences of the documents whose subject is a pronoun without an antecedent.

    python -m kfabric.docs.prose

"Who closes it gets EBUSY" makes the reader search for the subject; "close() returns EBUSY"
names it. CONTRIBUTING.md has the rule and examples.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kfabric.root import ROOT

DOCUMENTS = ("*.md", "docs/**/*.md", "examples/**/*.md")
PER_THOUSAND = 2.0
"""The documents must have fewer such sentences in a thousand."""

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^(?: {4}|\t).*\n)+", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# Headings and the heads of tables are no sentences.
_HEADS = re.compile(r"^#.*$|^\|.*\|\n(?=\|[\s:|-]+\|$)", re.MULTILINE)
# A list item and a table's cell each end the sentence before them.
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)|\n(?=\s*[|#>])|(?<=\|)\n|\|")
_SENTENCE = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9`])")
_MARKS = re.compile(r"^[\s>#*_+\-\"'(]*(?:\d+\.\s)?")

_PLAIN = ((_FENCE, ""), (_INDENTED, "\n"), (_COMMENT, ""), (_HEADS, ""), (_CODE, "`code`"))

_AUXILIARY = (
    "is|was|has|had|can|cannot|could|may|might|must|shall|should|will|would|does|did|needs|"
    "gets|sees|wants|knows"
)
_HIDDEN = (
    "who|whom|whoever|whose|what|whatever|nobody|somebody|anybody|everybody|someone|anyone|"
    rf"everyone|no one|he who|those who|that which|one(?= (?:{_AUXILIARY})\b)"
)
# A sentence begins with such a subject, or a clause after a semicolon or a conjunction does.
_SUBJECT = re.compile(
    rf"(?:^|[;:]\s+|,\s+(?:and|but|so|or)\s+)(?:(?:and|but|so|then|thus)\s+)?(?:{_HIDDEN})\b",
    re.IGNORECASE,
)
# A question may ask for its subject.
_QUESTION = re.compile(r"\?[\"')*_]*$")


class Found(NamedTuple):
    """A sentence and its document."""

    document: str
    sentence: str


def sentences(text: str) -> Iterator[str]:
    """The sentences of a Markdown document, without code, markup and table borders."""
    for pattern, instead in _PLAIN:
        text = pattern.sub(instead, text)
    text = _LINK.sub(r"\1", text)
    for block in _BLOCK.split(text):
        for sentence in _SENTENCE.split(" ".join(block.split())):
            plain = _MARKS.sub("", sentence)
            if re.search(r"[a-z]{2}", plain):
                yield plain


def hides_its_subject(sentence: str) -> bool:
    """Whether a sentence or a clause of it has such a pronoun as its subject."""
    return bool(_SUBJECT.search(sentence)) and not _QUESTION.search(sentence)


def count(root: Path) -> tuple[int, list[Found]]:
    """The number of sentences in the documents of a checkout, and those that hide their subject."""
    every = [
        Found(str(path.relative_to(root)), sentence)
        for path in sorted({path for glob in DOCUMENTS for path in root.glob(glob)})
        for sentence in sentences(path.read_text(encoding="utf-8"))
    ]
    return len(every), [one for one in every if hides_its_subject(one.sentence)]


def rate(total: int, found: int) -> float:
    """Such sentences in a thousand."""
    return 1000 * found / max(total, 1)


def main() -> None:
    """Print the sentences and their share."""
    total, found = count(ROOT)
    for document, sentence in found:
        print(f"{document}: {sentence}")
    print(f"{len(found)} of {total} sentences: {rate(total, len(found)):.1f} in 1,000")


if __name__ == "__main__":
    main()
