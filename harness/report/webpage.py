# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The page about a recording: one file that works offline.

Every number is also in a data attribute, exactly. Every text is escaped, and the page's
own content policy allows no script but the page's own.
"""

import base64
import hashlib
from pathlib import Path
from string import Template

from kfabric.report import matrix, queue_table
from kfabric.report.files import whole
from kfabric.report.markup import NOTHING, Html, joined, tag, text, wrapped
from kfabric.report.material import Material
from kfabric.report.numbers import Sums
from kfabric.report.suspects import Tables, suspicions
from kfabric.report.words import counted
from kfabric.verdict.kinds import Outcome, Verdict

_PAGE = Path(__file__).with_name("page")
_SCRIPTS = ("timeline.js", "lists.js")
_PARTS = (
    ("waits", "wait"), ("signals", "signal"), ("wakes", "wake"), ("findings", "finding"),
    ("suspicions", "suspicion"),
)  # fmt: skip


def write(path: Path, material: Material, sums: Sums) -> None:
    """Write the page.

    Raises:
        OSError: The file cannot be written.
    """
    with whole(path) as file:
        file.write(page(material, sums).encode())


def page(material: Material, sums: Sums) -> str:
    """The page's text; ``sums`` are the counts of all queues."""
    script = "".join(map(_part, _SCRIPTS)).rstrip()
    digest = hashlib.sha256(f"\n{script}\n".encode()).digest()
    tables = Tables(material)
    groups = queue_table.groups_of(material, sums.rows)
    headline = tables.headline() if material.verdict.outcome is Outcome.FAULT else ""
    headline = headline or _beginning(material.verdict.line())
    return Template(_part("page.html")).substitute(
        title=text(headline),
        style=_part("page.css").rstrip(),
        script=script,
        script_hash=f"sha256-{base64.b64encode(digest).decode()}",
        verdict=_verdict(material.verdict, headline),
        sums=_sums(material.verdict, sums),
        notes=joined(tag("p", text(note), class_="note") for note in material.notes),
        findings=tables.findings(),
        never=tables.never(),
        timeline=tables.timeline(),
        wakers=matrix.section(material.ledger, sums.pairs),
        queues=queue_table.QueueTable(material).section(groups),
        histograms=queue_table.histograms(groups),
    )


def _part(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def status(outcome: Outcome) -> str:
    """The verdict's status, by which the page is coloured: ``verified``, ``not-verified``."""
    return outcome.name.lower().replace("_", "-")


def _beginning(line: str) -> str:
    """A verdict's line up to its first comma: ``VERIFIED: 12 waits``."""
    return line.partition(", ")[0]


def _verdict(verdict: Verdict, headline: str) -> Html:
    line = verdict.line()
    doubts = [tag("li", wrapped(doubt)) for doubt in (*verdict.doubts, *verdict.missing)]
    return tag(
        "div",
        tag("h1", wrapped(headline)),
        tag("p", wrapped(line), id="sentence") if line != headline else NOTHING,
        tag("ul", *doubts, id="doubts") if len(doubts) > 1 else NOTHING,
        id="verdict", role="status", data_status=status(verdict.outcome),
        data_outcome=verdict.outcome.value,
    )  # fmt: skip


def _sums(verdict: Verdict, sums: Sums) -> Html:
    rows = sums.rows.values()
    counts = {
        "waits": sum(row.waits for row in rows),
        "signals": sum(row.signals for row in rows),
        "wakes": sum(row.wakes for row in rows),
        "findings": len(verdict.findings),
        "suspicions": len(suspicions(verdict)),
        "overtaken": verdict.overtaken,
    }
    words = [counted(counts[name], noun) for name, noun in _PARTS]
    words.append(f"{counts['overtaken']:,} overtaken")
    data = {f"data_{name}": value for name, value in counts.items()}
    return tag("p", text(", ".join(words)), id="sums", class_="soft", **data)
