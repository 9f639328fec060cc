# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Writes the tables in docs/channels.md, which compare real verbs with kfabric.

    python -m kfabric.docs.channels

tests/data/channels.toml has the results, tests/guest/test_channel_pyverbs.py checks them, and a
unit test checks that the tables are up to date.
"""

import tomllib
from typing import Any

from kfabric.docs import libfabric, markdown
from kfabric.root import ROOT

DOCUMENT = ROOT / "docs" / "channels.md"
RECORD = ROOT / "tests" / "data" / "channels.toml"
TESTS = ROOT / "tests" / "guest" / "test_channel_pyverbs.py"
BEGIN = "<!-- tables:begin (written by python -m kfabric.docs.channels) -->\n"

#: Headings, and the prefixes of their scenarios' names.
SECTIONS = {
    "Requests": ("request_", "solicited_"),
    "Events": ("event_",),
    "Acks and destruction": ("ack_", "destroy_"),
    "The examples of the manual page": ("example_",),
}

#: Steps with a result, and steps without.
ANSWERING = frozenset(
    {"poll", "get", "wait", "drain", "ack", "destroy", "fault", "asleep", "end", "ends"}
)
SILENT = frozenset({"arm", "complete", "fail", "hang-up", "thread", "interrupt"})

_HEADS = ("kfabric promises", "steps", "kfabric", "verbs", "what decides")


def record() -> libfabric.Record:
    """The results by scenario; each entry has `verbs`."""
    found: libfabric.Record = tomllib.loads(RECORD.read_text())
    return {name: {"verbs": entry["results"], **entry} for name, entry in found.items()}


def verbs(entry: dict[str, Any], release: str) -> list[str]:
    """The results of verbs on a kernel; `later` has those of rxe of 6.12 where they differ."""
    answers: list[str] = entry["verbs"]
    return answers if release.startswith("6.1.") else entry.get("later", answers)


def steps(entry: dict[str, Any]) -> list[str]:
    """A scenario's steps."""
    return [step.strip() for step in entry["steps"].split(";")]


def _row(promise: str, entry: dict[str, Any]) -> list[str]:
    results = entry["results"]
    old, new = (
        "the same" if answers == results else f"{', '.join(answers)} **≠**"
        for answers in (verbs(entry, "6.1."), verbs(entry, "6.12."))
    )
    other = old if old == new else f"6.1: {old}; 6.12: {new}"
    return [promise, entry["steps"], ", ".join(results), other, entry.get("decides", "")]


def tables(found: libfabric.Record, texts: dict[str, str]) -> str:
    """The Markdown text between the markers."""
    same, later = (
        sum(entry["results"] == verbs(entry, release) for entry in found.values())
        for release in ("6.1.", "6.12.")
    )
    parts = [
        f"{len(found)} scenarios. "
        f"On kernel 6.1 the results of {same} are the same, on 6.12 of {later}.\n"
    ]
    for heading, prefixes in SECTIONS.items():
        rows = [_row(texts[name], found[name]) for name in found if name.startswith(prefixes)]
        parts.append(f"\n### {heading}\n\n{markdown.table(_HEADS, rows)}")
    return "".join(parts)


def main() -> None:
    """Write the tables into docs/channels.md."""
    new = tables(record(), libfabric.promises(TESTS))
    DOCUMENT.write_text(markdown.replaced(DOCUMENT.read_text(), new, BEGIN))


if __name__ == "__main__":
    main()
