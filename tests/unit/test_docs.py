# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The documents say what the tree says."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.docs import rules

# What the wait core, the objects and the ioctls promise today.
PROMISED = """
    W1 W2 W3 W4 W5 W6 W7 W8 W10 Q1 Q2 Q3 Q4 Q5 Q6 Q7 Q8 Q9 P1 P2 P3 P5 O1 O4 O6 X1 X2
    E1 E2 E3 E4 E5
    F1 F2 F3 F4 F5 F6 F7
""".split()


@pytest.fixture(scope="module")
def found() -> dict[str, list[tuple[str, str]]]:
    """The rules and tests of this tree."""
    return rules.proofs(rules.ROOT / "tests")


def test_the_table_of_rules_is_up_to_date(found: dict[str, list[tuple[str, str]]]) -> None:
    """docs/wakeups.md names exactly the tests that name the rules."""
    text = rules.DOCUMENT.read_text()
    assert rules.replaced(text, rules.table(found)) == text, "run: python -m harness.docs.rules"


def test_every_promised_rule_has_a_test(found: dict[str, list[tuple[str, str]]]) -> None:
    """A rule without a test is an open rule."""
    assert [rule for rule in PROMISED if rule not in found] == []


def test_only_the_beginning_of_a_docstring_counts(tmp_path: Path) -> None:
    """A rule that is merely mentioned is not proved."""
    (tmp_path / "test_x.py").write_text(
        'def test_a():\n    """W2, B07: it wakes."""\n\n'
        'def test_b():\n    """It is unlike W3: it sleeps."""\n'
    )
    assert rules.proofs(tmp_path) == {"W2": [("test_x", "test_a")]}
