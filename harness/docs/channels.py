# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Real verbs and kfabric side by side: the tables in docs/channels.md, made from the record.

tests/data/channels.toml holds what came out, tests/guest/test_channel_pyverbs.py proves
it again, and ``python -m harness.docs.channels`` writes the tables; a unit test checks that
they are up to date.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from harness.docs import libfabric

ROOT = libfabric.ROOT
DOCUMENT = ROOT / "docs" / "channels.md"
RECORD = ROOT / "tests" / "data" / "channels.toml"
TESTS = ROOT / "tests" / "guest" / "test_channel_pyverbs.py"
BEGIN = "<!-- tables:begin (written by python -m harness.docs.channels) -->\n"

#: Headings, and how the names of their scenarios begin.
SECTIONS = {
    "Requests": ("request_", "solicited_"),
    "Events": ("event_",),
    "Acks and destruction": ("ack_", "destroy_"),
    "The examples of the manual page": ("example_",),
}

#: Steps that answer something, and steps that do not.
ANSWERING = frozenset(
    {"poll", "get", "wait", "drain", "ack", "destroy", "fault", "asleep", "end", "ends"}
)
SILENT = frozenset({"arm", "complete", "fail", "hang-up", "thread", "interrupt"})


def record(path: Path = RECORD) -> libfabric.Record:
    """Return the record of what came out, by scenario; every one has ``verbs``."""
    found: libfabric.Record = tomllib.loads(path.read_text())
    return {name: {"verbs": entry["results"], **entry} for name, entry in found.items()}


def verbs(entry: dict[str, Any], release: str) -> list[str]:
    """Return what verbs answer on a kernel: ``later`` is of rxe of 6.12 where it differs."""
    answers: list[str] = entry["verbs"] if release.startswith("6.1.") else _later(entry)
    return answers


def _later(entry: dict[str, Any]) -> list[str]:
    answers: list[str] = entry.get("later", entry["verbs"])
    return answers


def steps(entry: dict[str, Any]) -> list[str]:
    """Return a scenario's steps."""
    return [step.strip() for step in entry["steps"].split(";")]


def promises() -> dict[str, str]:
    """Return what kfabric promises, with the rules, by scenario: CASES of the tests."""
    return libfabric.promises(TESTS)


def _row(promise: str, entry: dict[str, Any]) -> str:
    told = _told(entry["verbs"], entry)
    if _later(entry) != entry["verbs"]:
        told = f"6.1: {told}; 6.12: {_told(_later(entry), entry)}"
    results = ", ".join(entry["results"])
    cells = [promise, entry["steps"], results, told, entry.get("decides", "")]
    return "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |\n"


def _told(answers: list[str], entry: dict[str, Any]) -> str:
    return "the same" if answers == entry["results"] else f"{', '.join(answers)} **≠**"


def tables(found: libfabric.Record, texts: dict[str, str]) -> str:
    """Return the Markdown text between the markers."""
    same = sum(entry["results"] == entry["verbs"] for entry in found.values())
    later = sum(entry["results"] == _later(entry) for entry in found.values())
    parts = [
        f"{len(found)} scenarios. "
        f"On kernel 6.1 the results of {same} are the same, on 6.12 of {later}.\n"
    ]
    heads = ["kfabric promises", "steps", "kfabric", "verbs", "what decides"]
    head = "| " + " | ".join(heads) + " |\n|" + "---|" * len(heads) + "\n"
    for heading, begins in SECTIONS.items():
        rows = [_row(texts[name], found[name]) for name in found if name.startswith(begins)]
        parts.append(f"\n### {heading}\n\n{head}{''.join(rows)}")
    return "".join(parts)


def main() -> None:
    """Write the tables into docs/channels.md."""
    new = tables(record(), promises())
    DOCUMENT.write_text(libfabric.replaced(DOCUMENT.read_text(), new, BEGIN))


if __name__ == "__main__":
    main()
