# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""docs/contract.md explains every id that the tree cites, and every rule of it has a test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.docs import rules
from kfabric.root import ROOT

# The contract itself, a page generated from it, and this file, with ids that do not exist.
NO_CITATIONS = {"docs/contract.md", "docs/rules.md", "tests/unit/test_contract.py"}

FOLDERS = ("docs", "examples", "harness", "kfabric_py", "kmod", "tests")
SUFFIXES = {".c", ".h", ".md", ".patch", ".py", ".toml"}

# A rule or a bug, as a word of its own. T1 and its like are left out: they also name threads.
ID = re.compile(r"(?<!\|)\b(?:[VOWQPEFX][1-9]\d?|B\d\d)\b")
# Where a T can only be a rule: at the beginning of a text, in brackets, in a mutant's header.
LIST = re.compile(r"(?:\"|\[|^Rules: |\| )((?:[A-Z]\d+(?:, | to )?)+)(?=:|\]|$)", re.MULTILINE)
RULE_T = re.compile(r"\bT\d+\b")
HOOK = re.compile(r"(?:KFI_HOOK_|\bhook\(\")(D\d+)\b")


def _files(root: Path) -> Iterator[Path]:
    yield from sorted(root.glob("*.md"))
    for folder in FOLDERS:
        yield from sorted(path for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)


def _cited(text: str) -> Iterator[str]:
    yield from ID.findall(text)
    yield from HOOK.findall(text)
    for ids in LIST.findall(text):
        yield from RULE_T.findall(ids)


def _unexplained(root: Path, explained: set[str]) -> list[str]:
    """Return "file: id" for each id that is cited below a folder and not explained."""
    found = []
    for path in _files(root):
        name = path.relative_to(root).as_posix()
        if name not in NO_CITATIONS:
            found += [f"{name}: {id_}" for id_ in sorted(set(_cited(path.read_text())) - explained)]
    return found


@pytest.fixture(scope="module")
def contract() -> str:
    """The text of the contract."""
    return rules.CONTRACT.read_text()


@pytest.fixture(scope="module")
def explained(contract: str) -> dict[str, str]:
    """What the contract explains: ids and titles."""
    return rules.entries(contract)


def test_every_cited_id_is_explained(explained: dict[str, str]) -> None:
    """In tests, code, documents and mutants. (Not an id? Then write it differently.)"""
    assert _unexplained(ROOT, set(explained)) == []


@pytest.mark.parametrize(
    ("name", "text", "id_"),
    [
        ("tests/guest/test_x.py", 'def test_a():\n    """W2, B98: it wakes."""\n', "B98"),
        ("tests/guest/test_x.py", 'def test_a():\n    """T9, W2: it does not block."""\n', "T9"),
        ("tests/guest/test_x.py", 'hook = mock.hook("D99", cq)\n', "D99"),
        ("tests/data/libfabric.toml", 'promise = "T9: it may block"\n', "T9"),
        ("tests/mutants/x.patch", "Breaks: all.\nRules: V4, T9\nTests:\n", "T9"),
        ("docs/uapi.md", "It consumes nothing. [T1 to T9, O5]\n", "T9"),
        ("docs/libfabric.md", "| T9: it may block | a call |\n", "T9"),
        ("kmod/core/x.c", "/* See W98. */\n", "W98"),
        ("kmod/include/x.h", "enum kfi_hook { KFI_HOOK_D99 };\n", "D99"),
        ("README.md", "the rule X98\n", "X98"),
    ],
)
def test_an_id_that_is_not_explained_is_found(
    tmp_path: Path, explained: dict[str, str], name: str, text: str, id_: str
) -> None:
    """Wherever ids are cited."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert _unexplained(tmp_path, set(explained)) == [f"{name}: {id_}"]


def test_a_thread_is_no_rule(tmp_path: Path) -> None:
    """T1 and T2 are threads in tables of interleavings."""
    (tmp_path / "README.md").write_text("T7 sleeps. ET1, 0xE5, -O0 and T0 are none, either.\n")
    assert _unexplained(tmp_path, set()) == []


def test_every_rule_has_a_test_or_is_listed_as_open(contract: str) -> None:
    """The list of open rules names exactly the rules that no test proves."""
    found = rules.proofs(ROOT / "tests")
    section = contract.split("\n## Open rules\n")[1].split("\n## ")[0]
    listed = sorted(rules.RULE.findall(section))
    assert listed == sorted(rule for rule in rules.titles(contract) if rule not in found)


def test_rules_are_numbered_without_a_gap(explained: dict[str, str]) -> None:
    """A rule does not vanish, and no id is used twice."""
    for letter in rules.LETTERS:
        numbers = [int(id_[1:]) for id_ in explained if id_[0] == letter]
        assert numbers == list(range(1, len(numbers) + 1)), letter


def test_each_entry_is_complete(contract: str, explained: dict[str, str]) -> None:
    """A rule has a title, and what is linked to has an anchor; an id stands there once."""
    assert len(rules.ENTRY.findall(contract)) == len(explained)
    assert [rule for rule, title in rules.titles(contract).items() if not title] == []
    anchored = [id_.upper() for id_ in re.findall(r'<a id="(\w+)"></a>', contract)]
    assert anchored == [id_ for id_ in explained if id_[0] != "B"]


def test_the_delay_hooks_are_those_of_the_header(explained: dict[str, str]) -> None:
    """enum kfi_hook and the contract list the same hooks."""
    header = (ROOT / "kmod" / "include" / "kfi_test.h").read_text()
    hooks = sorted(set(HOOK.findall(header)), key=lambda hook: int(hook[1:]))
    assert hooks == [id_ for id_ in explained if id_[0] == "D"]


def test_links_into_the_contract_lead_somewhere(contract: str) -> None:
    """Each document that links to a rule or a heading has the anchor right."""
    anchors = set(re.findall(r'<a id="(\w+)"></a>', contract))
    for heading in re.findall(r"^#+ (.+)$", contract, re.MULTILINE):
        anchors.add(re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-"))
    for path in _files(ROOT):
        if path.suffix == ".md":
            linked = set(re.findall(r"contract\.md#([\w-]+)", path.read_text()))
            assert linked <= anchors, path
