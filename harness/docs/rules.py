# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Which test proves which rule: the table in docs/wakeups.md, made from the tests' docstrings.

A test's docstring begins with what it proves, ``"W2, V4, B26: the deadline ..."``; so does
the text of a case in a table of cases (a dictionary of texts).
``python -m harness.docs.rules`` writes the table; a unit test checks that it is up to date.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "wakeups.md"
BEGIN = "<!-- rules:begin (written by python -m harness.docs.rules) -->\n"
END = "<!-- rules:end -->\n"

PREFIX = re.compile(r"((?:[A-Z]\d+(?:, )?)+):")
RULE = re.compile(r"[OWQPTEFXV]\d+")

# What the letters of the rules stand for, in the order of the table.
LETTERS = {
    "V": "invariants",
    "O": "objects and lifetime",
    "W": "wait sets",
    "Q": "CQs, EQs and counters",
    "P": "poll sets",
    "T": "trywait and control",
    "E": "completion channels",
    "F": "profiles",
    "X": "ioctls",
}


def _cases(table: ast.Dict) -> Iterator[tuple[str, str]]:
    for key, value in zip(table.keys, table.values, strict=True):
        match key, value:
            case ast.Constant(value=str(name)), ast.Constant(value=str(text)):
                yield name, text


def _tests(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and re.match("(?i)test", node.name):
            yield node.name, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Dict):
            yield from _cases(node)


def proofs(tests: Path) -> dict[str, list[tuple[str, str]]]:
    """Return for each rule the tests that name it, as pairs of file (without .py) and test."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        for name, doc in _tests(path):
            prefix = PREFIX.match(doc)
            for rule in RULE.findall(prefix[1]) if prefix else ():
                found[rule].append((path.stem, name))
    return dict(found)


def _order(rule: str) -> tuple[int, int]:
    return list(LETTERS).index(rule[0]), int(rule[1:])


def table(found: dict[str, list[tuple[str, str]]]) -> str:
    """Return the Markdown table, one line a rule."""
    lines = ["| rule | tests |\n", "|---|---|\n"]
    for rule in sorted((r for r in found if r[0] in LETTERS), key=_order):
        by_file: dict[str, list[str]] = defaultdict(list)
        for stem, name in found[rule]:
            by_file[stem].append(name.removeprefix("test_"))
        cells = "; ".join(f"`{stem}`: {', '.join(names)}" for stem, names in by_file.items())
        lines.append(f"| {rule} | {cells} |\n")
    return "".join(lines)


def replaced(text: str, new: str) -> str:
    """Return the document with the text between its markers replaced."""
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    return head + BEGIN + new + END + tail


def main() -> None:
    """Write the table into the document."""
    DOCUMENT.write_text(replaced(DOCUMENT.read_text(), table(proofs(ROOT / "tests"))))


if __name__ == "__main__":
    main()
