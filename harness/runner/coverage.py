# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--coverage`` on the host: which lines of the modules the tests have reached, by file.

Each guest leaves the kernel's counts (harness/guest/coverage.py); gcovr reads them with
what the compiler left beside the objects, and adds them up.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import names
from harness.errors import SetupError

PLACE = "coverage"
"""Below what guests leave: what this makes of it."""
SOURCES = "kmod"
"""What is counted; the headers' inline functions belong to whoever uses them."""
SECONDS = 300.0
PAGE = "index.html"


class ShowCoverage:
    """Prints the table when all guests have left their counts.

    :param directory: where guests leave their files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Add up, print, and leave a page with all lines."""
        terminalreporter.write_sep("=", "lines of the modules that were reached")
        try:
            table = summary(self._directory)
        except SetupError as error:
            terminalreporter.write_line(error.line(), red=True)
            return
        terminalreporter.write_line(table)
        page = self._directory / PLACE / PAGE
        terminalreporter.write_line(f"kfabric: each line with its count: {page}")


def summary(directory: Path) -> str:
    """The table of all guests' counts; leaves the page in the directory ``coverage``.

    :param directory: below which guests have left their files.
    :raises SetupError: there are no counts, or they do not go with the objects.
    """
    mine = directory / PLACE
    shutil.rmtree(mine, ignore_errors=True)
    mine.mkdir(parents=True)
    unpacked = [
        unpack(left, mine / left.parts[-3])
        for left in sorted(directory.glob(f"*/out/{names.COVERAGE}"))
    ]
    # One that came late may have loaded no module of ours.
    guests = [guest for guest in unpacked if any(guest.rglob("*.gcda"))]
    if not guests:
        raise SetupError("no guest has left counts", "did one of them end in order?")
    root = join(guests)
    return gcovr(root, guests, mine / PAGE)


def unpack(left: Path, place: Path) -> Path:
    """Where one guest's counts are now."""
    with tarfile.open(left) as archive:
        archive.extractall(place)
    return place


def join(guests: Iterable[Path]) -> Path:
    """Put what the compiler left next to the counts; the directory of the sources.

    :raises SetupError: it is no longer there.
    """
    root = Path("/")
    for guest, counts in ((each, path) for each in guests for path in each.rglob("*.gcda")):
        notes = Path("/") / counts.relative_to(guest).with_suffix(".gcno")
        if not notes.exists():
            raise SetupError(f"{notes} is gone", "the modules were built anew since the run")
        shutil.copyfile(notes, counts.with_suffix(".gcno"))
        root = next(parent for parent in notes.parents if parent.name == "src")
    return root


def compiled_in(guests: Iterable[Path]) -> str:
    """Where the compiler ran, from where it has named the kernel's headers."""
    counts = next(path for guest in guests for path in guest.rglob("*.gcda"))
    argv = ["gcov", "--json-format", "--stdout", str(counts)]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=True)
    place: str = json.loads(said.stdout.splitlines()[0])["current_working_directory"]
    return place


def gcovr(root: Path, guests: Sequence[Path], page: Path) -> str:
    """Run gcovr; its table.

    :param root: of the sources, as they were compiled.
    """
    mine = rf"{re.escape(str(root / SOURCES))}/.*\.c$"
    argv = [sys.executable, "-m", "gcovr", "--root", str(root), "--filter", mine, "--txt", "-"]
    argv += ["--object-directory", compiled_in(guests)]
    argv += ["--html-details", str(page), *map(str, guests)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise SetupError("gcovr cannot read the counts", done.stderr.strip()[-500:])
    return done.stdout
