# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""docs/rules.md agrees with the contract and with the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric.docs import rules
from kfabric.root import ROOT


@pytest.fixture(scope="module")
def found() -> dict[str, list[tuple[str, str]]]:
    """The rules and tests of this tree."""
    return rules.proofs(ROOT / "tests")


def test_the_page_of_rules_is_up_to_date(found: dict[str, list[tuple[str, str]]]) -> None:
    """docs/rules.md names exactly the tests that name the rules."""
    page = rules.page(rules.titles(rules.CONTRACT.read_text()), found)
    assert rules.DOCUMENT.read_text() == page, f"run: {rules.COMMAND}"


def test_a_rule_without_a_test_is_shown_as_open() -> None:
    """Its title links to the contract."""
    page = rules.page(
        {"W2": "No wake-up is lost", "W3": "All wake"}, {"W2": [("test_x", "test_a")]}
    )
    assert "| [W2](contract.md#w2) No wake-up is lost | `test_x`: a |\n" in page
    assert "| [W3](contract.md#w3) All wake | *open* |\n" in page


def test_only_the_beginning_of_a_docstring_counts(tmp_path: Path) -> None:
    """A rule that is merely mentioned is not proved."""
    (tmp_path / "test_x.py").write_text(
        'def test_a():\n    """W2, B07: it wakes."""\n\n'
        'def test_b():\n    """It is unlike W3: it sleeps."""\n'
    )
    assert rules.proofs(tmp_path) == {"W2": [("test_x", "test_a")]}
