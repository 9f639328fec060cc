# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""docs/results.md: each measuring command replaces its own section and no other."""

from __future__ import annotations

import re
from pathlib import Path

from rich.table import Table

from harness.docs import results
from harness.docs.results import Measurement


def test_a_measurement_replaces_its_own_section(tmp_path: Path) -> None:
    """The other sections keep their text; an unknown one says that it was not measured."""
    document = tmp_path / "results.md"
    Measurement("mutants", "kfabric mutants --results").write(
        "6.1", "| a |\n|---|\n| 1 |", document
    )
    Measurement("bench", "kfabric bench --results").write("6.1", "costs", document)
    Measurement("mutants", "kfabric mutants --results").write(
        "6.12", "| a |\n|---|\n| 2 |", document
    )
    text = document.read_text()
    assert "| 2 |" in text and "| 1 |" not in text
    assert "costs" in text
    assert text.count("Not measured yet.") == len(results.SECTIONS) - 2


def test_a_section_names_date_kernel_load_and_command(tmp_path: Path) -> None:
    """A figure without them means nothing later."""
    document = tmp_path / "results.md"
    Measurement("fuzz", "kfabric fuzz --results").write("6.1.0-42-amd64", "figures", document)
    facts = re.search(
        r"^(\d{4}-\d\d-\d\d), kernel 6\.1\.0-42-amd64, commit \S+, host: \d+ CPUs, "
        r"load [\d.]+ before the start\. Command: `kfabric fuzz --results`\.$",
        document.read_text(),
        re.MULTILINE,
    )
    assert facts


def test_the_document_is_one_that_the_commands_wrote() -> None:
    """An edit outside of the sections would be lost with the next measurement."""
    text = results.DOCUMENT.read_text(encoding="utf-8")
    assert text == results.page(dict(results._SECTION.findall(text)))


def test_a_table_of_the_terminal_becomes_markdown() -> None:
    """Cells keep their text; what would end a cell or a row does not."""
    table = Table("what")
    table.add_column("n", justify="right")
    table.add_row("a|b\nc", "1")
    assert results.markdown(table) == "| what | n |\n| --- | --: |\n| a\\|b c | 1 |\n"


def test_no_measurement_begins_unless_the_user_asks() -> None:
    """A plain run leaves the document alone."""
    assert results.begin("bench", ["bench"], wanted=False) is None
    begun = results.begin("bench", ["bench", "--output", "a b"], wanted=True)
    assert begun and begun.command == "kfabric bench --output 'a b'"
