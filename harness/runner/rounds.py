# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--until-fail N`` and ``--until-pass N``: the same tests again and again, for flaky ones.

The usual result files are those of the last round, with the number of the round and the host's
load as properties in JUnit. ``rounds.md`` has a row for each round. The files of earlier rounds
that failed are in ``rounds/NUMBER``.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from kfabric.docs.markdown import row
from kfabric.errors import ExitStatus, counted
from kfabric.runner import junit, load, matrix
from kfabric.terminal import tables
from kfabric.vm import prepare

# How many failed tests a row names.
LISTED = 3


@dataclass(frozen=True)
class Played:
    """One round.

    Attributes:
        status: its exit status.
        reports: its JUnit files.
        empty: there was no test.
    """

    status: int
    reports: Sequence[Path]
    empty: bool = False


@dataclass
class Rounds:
    """Plays rounds, and writes their table.

    Attributes:
        most: how many at most.
        passes: end after the first round that passes; otherwise after the first that fails.
        directory: for the table and for the files of failed rounds.
        rows: the cells of each round by column.
    """

    most: int
    passes: bool
    directory: Path
    rows: list[Mapping[str, str]] = field(default_factory=list)
    _passed: int = 0

    def play(self, once: Callable[[], Played]) -> int:
        """Play the rounds; the status of the last one."""
        shutil.rmtree(self._kept, ignore_errors=True)
        self.table.unlink(missing_ok=True)
        try:
            while True:
                number = len(self.rows) + 1
                prepare.say(f"round {number} of at most {self.most}")
                before = load.sample()
                played = once()
                found = matrix.read("", played.reports, 0.0).total()
                self._add(number, played, found, load.between(before, load.sample()))
                passed = played.status == ExitStatus.OK
                # The next round would not find more tests.
                hopeless = played.status == ExitStatus.USAGE or (played.empty and not passed)
                if number == self.most or passed == self.passes or hopeless:
                    return played.status
                if not passed:
                    self._keep(number, played.reports)
        finally:
            self._show()

    @property
    def table(self) -> Path:
        return self.directory / "rounds.md"

    @property
    def _kept(self) -> Path:
        return self.directory / "rounds"

    def _add(self, number: int, played: Played, found: matrix.Cell, host: load.Load) -> None:
        passed = played.status == ExitStatus.OK
        self._passed += passed
        of_host = {f"host-{name}": text for name, text in host.cells().items()}
        failed: list[str] = []
        for report in filter(Path.exists, played.reports):
            junit.mark(report, {"round": str(number), **of_host})
            failed += junit.failed(report)
        names = failed[:LISTED] + ["…"] * (len(failed) > LISTED)
        self.rows.append(
            {
                "round": str(number),
                "result": "passed" if passed else f"status {played.status}",
                "tests": found.text(),
                **host.cells(),
                "failed tests": ", ".join(names),
            }
        )

    def _keep(self, number: int, reports: Sequence[Path]) -> None:
        """Copy the files of a failed round that the next round writes again."""
        place = self._kept / str(number)
        place.mkdir(parents=True)
        for report in reports:
            for file in filter(Path.exists, map(report.with_suffix, junit.SUFFIXES)):
                shutil.copy(file, place)

    def _show(self) -> None:
        """Print and write the table of the rounds that have ended."""
        if not self.rows:
            return
        # pytest has printed the names of the failed tests already.
        *heads, _ = self.rows[0]
        shown = Table(*heads, box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
        for cells in self.rows:
            shown.add_row(*(cells[head] for head in heads))
        tables.show(Console(), shown)
        failed = len(self.rows) - self._passed
        prepare.say(f"{counted(len(self.rows), 'round')}: {self._passed} passed, {failed} failed")
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = [row(self.rows[0]), row(["---"] * len(self.rows[0]))]
        self.table.write_text("".join([*lines, *(row(cells.values()) for cells in self.rows)]))
        prepare.say(f"the same as Markdown: {self.table}")
