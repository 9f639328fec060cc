# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""libfabric and kfabric side by side: the tables in docs/libfabric.md, made from the record.

tests/data/libfabric.toml holds what came out, the guest's tests prove it again, and
``python -m harness.docs.libfabric`` writes the tables; a unit test checks that they are
up to date.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "libfabric.md"
RECORD = ROOT / "tests" / "data" / "libfabric.toml"
TESTS = ROOT / "tests" / "guest" / "test_libfabric.py"
BEGIN = "<!-- tables:begin (written by python -m harness.docs.libfabric) -->\n"
END = "<!-- tables:end -->\n"

Record = dict[str, dict[str, Any]]

#: The providers' names in the record and in libfabric.
PROVIDERS = {"rxm": "tcp;ofi_rxm", "sockets": "sockets"}

#: Headings, and how the names of their scenarios begin.
SECTIONS = {
    "Poll sets": ("poll_",),
    "Wait sets": ("wait_",),
    "Queues and counters by themselves": ("sread_", "signal_", "eq_", "cntr_"),
    "trywait and control": ("trywait_", "getwait", "pollfd_"),
    "Closing": ("close_",),
}

VERDICTS = {"keeps": "", "breaks": " **✗**", "silent": " ?"}


def record() -> Record:
    """Return the record of what came out, by scenario."""
    return tomllib.loads(RECORD.read_text())


def promises(tests: Path = TESTS) -> dict[str, str]:
    """Return what kfabric promises, with the rules, by scenario: CASES of the tests."""
    for node in ast.parse(tests.read_text()).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="CASES")], value=value):
                found: dict[str, str] = ast.literal_eval(value)
                return found
    raise LookupError(f"no CASES in {tests}")


def verdict(entry: dict[str, Any], provider: str) -> str:
    """Return how a provider's result stands to its page: keeps, breaks or silent."""
    for word in ("breaks", "silent"):
        if provider in entry.get(word, ()):
            return word
    return "keeps"


def _result(entry: dict[str, Any], side: str) -> str:
    if side not in entry:
        return "not offered"
    words = ", ".join(entry[side])
    return words if side == "kfabric" else words + VERDICTS[verdict(entry, side)]


def _row(promise: str, entry: dict[str, Any]) -> str:
    results = (_result(entry, side) for side in ("kfabric", *PROVIDERS))
    cells = [promise, entry["does"], entry["page"], *results, entry.get("note", "")]
    return "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |\n"


def _table(names: Iterable[str], found: Record, texts: dict[str, str]) -> str:
    heads = ["kfabric promises", "calls", "page of 1.17", "kfabric", *PROVIDERS.values(), "remark"]
    lines = ["| " + " | ".join(heads) + " |\n", "|" + "---|" * len(heads) + "\n"]
    return "".join([*lines, *(_row(texts[name], found[name]) for name in names)])


def _count(found: Record, provider: str) -> str:
    offered = [entry for entry in found.values() if provider in entry]
    tally = [verdict(entry, provider) for entry in offered]
    return (
        f"| {PROVIDERS[provider]} | {len(offered)} | {tally.count('keeps')} "
        f"| {tally.count('breaks')} | {tally.count('silent')} |\n"
    )


def tables(found: Record, texts: dict[str, str]) -> str:
    """Return the Markdown text between the markers."""
    heads = "| libfabric's provider | scenarios | as kfabric | breaks its page **✗** "
    parts = [f"{heads}| page leaves it open ? |\n|---|---|---|---|---|\n"]
    parts += [_count(found, provider) for provider in PROVIDERS]
    for heading, begins in SECTIONS.items():
        names = [name for name in found if name.startswith(begins)]
        parts += [f"\n## {heading}\n\n", _table(names, found, texts)]
    return "".join(parts)


def replaced(text: str, new: str, begin: str = BEGIN) -> str:
    """Return the document with the text between its markers replaced."""
    head, rest = text.split(begin)
    return head + begin + "\n" + new + "\n" + END + rest.split(END)[1]


def main() -> None:
    """Write the tables into docs/libfabric.md."""
    DOCUMENT.write_text(replaced(DOCUMENT.read_text(), tables(record(), promises())))


if __name__ == "__main__":
    main()
