# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""docs/results.md: each measuring command replaces its own section and no other."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest
from rich.table import Table

from kfabric.bench import figures, gate, host
from kfabric.commands import fuzz
from kfabric.docs import results
from kfabric.docs.results import Measurement
from kfabric.errors import ExitStatus
from kfabric.fuzz.session import Answer
from kfabric.gallery import host as gallery
from kfabric.gallery.check import Judged
from kfabric.gallery.cut import Run
from kfabric.mutants import catalogue, run
from kfabric.mutants import command as mutants
from kfabric.mutants.catalogue import Mutant, Outcome, Verdict
from kfabric.verdict import kinds
from kfabric.vm import prepare


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


def test_a_row_of_one_kernel_leaves_those_of_the_others(tmp_path: Path) -> None:
    """A new measurement of a kernel replaces its row."""
    document = tmp_path / "results.md"
    measured = Measurement("soak", "make soak")
    for kernel, rounds in [("6.12.9", "1"), ("6.1.0", "2"), ("6.12.9", "3")]:
        measured.write_row(kernel, {"rounds": rounds}, document)
    facts, _, head, _, *rows = section(document, "soak").splitlines()
    assert "kernel 6.12.9, " in facts
    assert head == "| kernel | date | commit | rounds |"
    cells = [row.strip("| ").split(" | ") for row in rows]
    assert [(kernel, rounds) for kernel, *_, rounds in cells] == [("6.1.0", "2"), ("6.12.9", "3")]


def test_rows_with_other_columns_are_not_kept(tmp_path: Path) -> None:
    """They would stand below the wrong heads."""
    document = tmp_path / "results.md"
    Measurement("soak", "make soak").write_row("6.12.9", {"hours": "1"}, document)
    Measurement("soak", "make soak").write_row("6.1.0", {"rounds": "2"}, document)
    assert "6.12.9" not in document.read_text()


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


def section(document: Path, name: str) -> str:
    """The text of one section."""
    return dict(results._SECTION.findall(document.read_text(encoding="utf-8")))[name]


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that commands write their sections to."""
    path = tmp_path / "results.md"
    write = Measurement.write

    def redirected(self: Measurement, kernel: str, table: str) -> None:
        write(self, kernel, table, path)

    monkeypatch.setattr(Measurement, "write", redirected)
    image = SimpleNamespace(release="6.1.0-42-amd64")
    monkeypatch.setattr(prepare, "guest_image", lambda *_, **__: image)
    return path


def test_mutants_write_their_verdicts(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary, and a row for each mutant."""
    mutant = Mutant("drop-wake", Path("drop-wake.patch"), "no wake", ("W2",), ("a.py::b",), ())
    outcomes = [Outcome(mutant, Verdict.KILLED, "tests/guest/a.py::b", "assert", 3.0)]
    monkeypatch.setattr(catalogue, "load", lambda *_: [mutant])
    monkeypatch.setattr(mutants, "_run", lambda *_: outcomes)
    assert mutants.main(["--results", "drop-wake"]) == ExitStatus.OK
    text = section(document, "mutants")
    assert "kernel 6.1.0-42-amd64" in text
    assert "Command: `kfabric mutants --results drop-wake`." in text
    assert "1 mutant: 1 killed" in text
    assert "| drop-wake | W2 | killed | a.py::b | 3 |" in text


def test_mutants_write_nothing_if_the_original_fails(
    document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No mutant was tried, so there is no result."""
    original = Outcome(run.original([]), Verdict.KILLED)
    monkeypatch.setattr(catalogue, "load", lambda *_: [])
    monkeypatch.setattr(mutants, "_run", lambda *_: [original])
    assert mutants.main(["--results"]) == ExitStatus.TEST_FAILED
    assert not document.exists()


class Session:
    """Stands for the fuzzer's session: every call succeeds."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, seed: int, processes: object, calls: int, **_: object) -> Answer:
        """One program with all calls."""
        answer = Answer()
        answer.totals.add(1, [["CLOSE", 0, calls]])
        return answer


def test_fuzz_writes_seed_counts_and_kernel(
    document: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The release of the kernel stands there also without --kernel."""
    monkeypatch.setattr(fuzz, "Session", Session)
    argv = ["--results", "--seed", "7", "--calls", "10", "--output", str(tmp_path)]
    assert fuzz.main(argv) == ExitStatus.OK
    text = section(document, "fuzz")
    assert "kernel 6.1.0-42-amd64" in text and "- seed 7\n" in text
    assert "- in whole rounds: 10 calls in 1 programs, 1 different pairs" in text


def test_fuzz_writes_paths_that_are_the_same_in_each_checkout(
    document: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that failed is named from the checkout's root."""
    saved = prepare.SOURCE / "build/fuzz/left.fuzz"
    monkeypatch.setattr(fuzz, "Session", Session)
    monkeypatch.setattr(fuzz.campaign.Campaign, "summary", lambda _: [f"--replay {saved}"])
    assert fuzz.main(["--results", "--calls", "10", "--output", str(tmp_path)]) == ExitStatus.OK
    assert "- --replay build/fuzz/left.fuzz\n" in section(document, "fuzz")


def test_gallery_writes_both_tables(
    document: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A row for each entry and one for each healthy kind."""
    verdict = kinds.Verdict((), (), 0)
    sums = Counter(waits=1234, slept=5, calls=6, wakes=7, foreign=0)
    found = [
        Judged(Run(variant, name, 0, 0, 0.5), None, sums, verdict)
        for variant, name in (("buggy", "herd"), ("fixed", "herd"), ("healthy", "timeout"))
    ]
    monkeypatch.setattr(gallery, "_run", lambda *_: [])
    monkeypatch.setattr(gallery, "_judge", lambda *_: iter(found))
    measured = Measurement("gallery", "kfabric gallery --results")
    gallery.run(["herd"], ["timeout"], 10, tmp_path / "gallery", measured)
    text = section(document, "gallery")
    assert "| herd | herd | nothing |  |  | silent |" in text
    assert "| timeout | 1,234 | 5 | 6 | 7 | 0 | 0 | 0.5 s |" in text


def test_bench_writes_its_rows(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Title, figure and goal of each row."""
    row = figures.Row("wakes: exclusive", 1.0, 1.05, "10 / 10 events")
    monkeypatch.setattr(figures, "rows", lambda *_: [row])
    monkeypatch.setattr(gate, "measured", lambda _: {})
    measured = Measurement("bench", "kfabric bench --results")
    host.conclude(tmp_path, [], [], {"guest kernel": "6.1"}, measured)
    line = "| wakes: exclusive | 1.000 | ≤ 1.05 | yes | 10 / 10 events |"
    assert line in section(document, "bench")
