# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--coverage`` on the host: reports which lines of the modules the tests reached.

Each guest leaves the kernel's counts (harness/guest/coverage.py); gcovr reads them together
with the compiler's notes next to the objects, and adds them up.
"""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kfabric import names
from kfabric.errors import SetupError

PLACE = "coverage"
"""Directory of the results, below that of the guests."""
SOURCES = "kmod"
"""The counted sources; inline functions in headers belong to their users."""
SECONDS = 300.0
PAGE = "index.html"


class ShowCoverage:
    """Prints the table when all guests have left their counts below ``directory``."""

    def __init__(self, directory: Path, record: Callable[[str], None] | None = None) -> None:
        # At once: the guests may take hours.
        if importlib.util.find_spec("gcovr") is None:
            raise pytest.UsageError("--coverage needs gcovr: pip install 'kfabric[coverage]'")
        self._directory = directory
        self._record = record

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Add up, print, and write a page with all lines."""
        terminalreporter.write_sep("=", "lines of the modules that were reached")
        try:
            table = summary(self._directory)
        except SetupError as error:
            terminalreporter.write_line(error.line(), red=True)
            return
        terminalreporter.write_line(table)
        if self._record:
            self._record(markdown(table))
        page = self._directory / PLACE / PAGE
        terminalreporter.write_line(f"kfabric: each line with its count: {page}")


def summary(directory: Path) -> str:
    """The table of all guests' counts; also writes the page.

    Raises SetupError if there are no counts, or the modules have been rebuilt since.
    """
    mine = directory / PLACE
    shutil.rmtree(mine, ignore_errors=True)
    mine.mkdir(parents=True)
    guests = []
    for left in sorted(directory.glob(f"*/out/{names.COVERAGE}")):
        place = mine / left.parts[-3]
        with tarfile.open(left) as archive:
            archive.extractall(place)
        # A guest that booted late may have loaded none of our modules.
        if any(place.rglob("*.gcda")):
            guests.append(place)
    if not guests:
        raise SetupError("no guest has left counts", "did one of them end in order?")
    return gcovr(join(guests), guests, mine / PAGE)


def markdown(table: str) -> str:
    """gcovr's table as Markdown, without the numbers of the lines."""
    rows = re.findall(r"^(\S+)\s+(\d+)\s+(\d+)\s+(\d+%)", table, re.MULTILINE)
    lines = [("file", "lines", "reached", "share"), ("---", "--:", "--:", "--:"), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def join(guests: Iterable[Path]) -> Path:
    """Copy the compiler's notes next to the counts; the directory of the sources."""
    root = Path("/")
    for guest, counts in ((each, path) for each in guests for path in each.rglob("*.gcda")):
        notes = Path("/") / counts.relative_to(guest).with_suffix(".gcno")
        if not notes.exists():
            raise SetupError(f"{notes} is gone", "the modules were built anew since the run")
        shutil.copyfile(notes, counts.with_suffix(".gcno"))
        root = next(parent for parent in notes.parents if parent.name == "src")
    return root


def gcovr(root: Path, guests: Sequence[Path], page: Path) -> str:
    """Run gcovr; its table. ``root`` has the sources as they were compiled."""
    counts = next(path for guest in guests for path in guest.rglob("*.gcda"))
    gcov = ["gcov", "--json-format", "--stdout", str(counts)]
    notes = subprocess.run(gcov, capture_output=True, text=True, timeout=SECONDS, check=True)
    # The compiler's paths of the kernel's headers are relative to this directory.
    compiled_in = json.loads(notes.stdout.splitlines()[0])["current_working_directory"]
    mine = rf"{re.escape(str(root / SOURCES))}/.*\.c$"
    argv = [sys.executable, "-m", "gcovr", "--root", str(root), "--filter", mine, "--txt", "-"]
    argv += ["--object-directory", compiled_in]
    argv += ["--html-details", str(page), *map(str, guests)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise SetupError("gcovr cannot read the counts", done.stderr.strip()[-500:])
    return done.stdout
