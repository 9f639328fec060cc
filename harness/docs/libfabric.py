# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Writes the tables in docs/libfabric.md, which compare libfabric with kfabric.

    python -m kfabric.docs.libfabric

tests/data/libfabric.toml has the results; the guest tests check them, and a unit test checks
that the tables are up to date.
"""

import ast
import tomllib
from pathlib import Path
from typing import Any

from kfabric.docs import markdown
from kfabric.root import ROOT

DOCUMENT = ROOT / "docs" / "libfabric.md"
RECORD = ROOT / "tests" / "data" / "libfabric.toml"
TESTS = ROOT / "tests" / "guest" / "test_libfabric.py"
BEGIN = "<!-- tables:begin (written by python -m kfabric.docs.libfabric) -->\n"

Record = dict[str, dict[str, Any]]

#: The providers' names in the record and in libfabric.
PROVIDERS = {"rxm": "tcp;ofi_rxm", "sockets": "sockets"}

#: Headings, and the prefixes of their scenarios' names.
SECTIONS = {
    "Poll sets": ("poll_",),
    "Wait sets": ("wait_",),
    "Queues and counters by themselves": ("sread_", "signal_", "eq_", "cntr_"),
    "trywait and control": ("trywait_", "getwait", "pollfd_"),
    "Closing": ("close_",),
}

VERDICTS = {"keeps": "", "breaks": " **✗**", "silent": " ?"}

_COUNT_HEADS = (
    "libfabric's provider",
    "scenarios",
    "as kfabric",
    "breaks its page **✗**",
    "page leaves it open ?",
)
_HEADS = ("kfabric promises", "calls", "page of 1.17", "kfabric", *PROVIDERS.values(), "remark")


def record() -> Record:
    """The results by scenario."""
    return tomllib.loads(RECORD.read_text())


def promises(tests: Path = TESTS) -> dict[str, str]:
    """The promises of kfabric with their rules, by scenario: CASES of the tests."""
    for node in ast.parse(tests.read_text()).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="CASES")], value=value):
                found: dict[str, str] = ast.literal_eval(value)
                return found
    raise LookupError(f"no CASES in {tests}")


def verdict(entry: dict[str, Any], provider: str) -> str:
    """How a provider's result compares with its manual page: keeps, breaks or silent."""
    for word in ("breaks", "silent"):
        if provider in entry.get(word, ()):
            return word
    return "keeps"


def _result(entry: dict[str, Any], side: str) -> str:
    if side not in entry:
        return "not offered"
    words = ", ".join(entry[side])
    return words if side == "kfabric" else words + VERDICTS[verdict(entry, side)]


def _row(promise: str, entry: dict[str, Any]) -> list[str]:
    results = (_result(entry, side) for side in ("kfabric", *PROVIDERS))
    return [promise, entry["does"], entry["page"], *results, entry.get("note", "")]


def _counts(found: Record, provider: str) -> list[str]:
    verdicts = [verdict(entry, provider) for entry in found.values() if provider in entry]
    counts = (len(verdicts), *(verdicts.count(word) for word in VERDICTS))
    return [PROVIDERS[provider], *map(str, counts)]


def tables(found: Record, texts: dict[str, str]) -> str:
    """The Markdown text between the markers."""
    parts = [markdown.table(_COUNT_HEADS, (_counts(found, provider) for provider in PROVIDERS))]
    for heading, prefixes in SECTIONS.items():
        rows = [_row(texts[name], found[name]) for name in found if name.startswith(prefixes)]
        parts.append(f"\n## {heading}\n\n{markdown.table(_HEADS, rows)}")
    return "".join(parts)


def main() -> None:
    """Write the tables into docs/libfabric.md."""
    new = tables(record(), promises())
    DOCUMENT.write_text(markdown.replaced(DOCUMENT.read_text(), new, BEGIN))


if __name__ == "__main__":
    main()
