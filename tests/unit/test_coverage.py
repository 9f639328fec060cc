# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""--coverage: counts of several guests become one table, by file and line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kfabric.errors import SetupError
from kfabric.guest import coverage as counting
from kfabric.guest.coverage import LeaveCounts, leave
from kfabric.names import COVERAGE as NAME
from kfabric.names import OUT
from kfabric.runner import coverage

HEADER = "static inline int yes(int c) { return c == 'x'; }\n"
PROGRAM = """\
#include <yes.h>
int main(int argc, char **argv)
{
	if (argc == 1)
		return 0;
	if (argc == 2)
		return yes(argv[1][0]);
	return 2;
}
"""


def test_missing_gcovr_is_reported_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra of the installed tool."""
    monkeypatch.setattr(coverage.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(pytest.UsageError, match=r"pip install 'kfabric\[coverage\]'"):
        coverage.ShowCoverage(tmp_path)


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    """A program that counts its lines; laid out, and compiled from elsewhere, like the modules."""
    core, kernel = tmp_path / "build/src/kmod/core", tmp_path / "linux"
    core.mkdir(parents=True)
    (core / "toy.c").write_text(PROGRAM)
    (kernel / "include").mkdir(parents=True)
    (kernel / "include/yes.h").write_text(HEADER)
    argv = ["gcc", "-I./include", "--coverage", "-O0", "-c", str(core / "toy.c")]
    subprocess.run([*argv, "-o", str(core / "toy.o")], check=True, cwd=kernel)
    subprocess.run(["gcc", "--coverage", "toy.o", "-o", "toy"], cwd=core, check=True)
    return core


def count(objects: Path, directory: Path, guest: str, *argv: str) -> None:
    """Run the program as a guest would, and leave its counts."""
    subprocess.run([objects / "toy", *argv], check=True)
    kernel = directory / "kernel" / objects.relative_to("/")
    kernel.mkdir(parents=True)
    shutil.move(objects / "toy.gcda", kernel)
    (directory / guest / "out").mkdir(parents=True)
    leave(directory / "kernel", directory / guest / "out" / NAME)
    shutil.rmtree(directory / "kernel")


def test_counts_of_guests_are_added_up(objects: Path, tmp_path: Path) -> None:
    """A line reached in one of two guests counts; a line reached in neither is listed."""
    count(objects, tmp_path, "gw0")
    count(objects, tmp_path, "gw1", "a")

    table = coverage.summary(tmp_path)

    row = next(line for line in table.splitlines() if "core/toy.c" in line)
    assert row.split() == ["kmod/core/toy.c", "6", "5", "83%", "8"]
    assert (tmp_path / coverage.PLACE / coverage.PAGE).exists()


def test_guest_that_has_loaded_nothing_is_passed_over(objects: Path, tmp_path: Path) -> None:
    """A guest that booted late does not suppress the others' table."""
    count(objects, tmp_path, "gw0")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "gw1/out").mkdir(parents=True)
    leave(tmp_path / "nothing", tmp_path / "gw1/out" / NAME)

    assert "core/toy.c" in coverage.summary(tmp_path)


def test_guests_without_counts_are_one_clear_error(tmp_path: Path) -> None:
    """A run whose guests all crashed reports that there is no table."""
    (tmp_path / "gw0/out").mkdir(parents=True)

    with pytest.raises(SetupError, match="no guest has left counts"):
        coverage.summary(tmp_path)


def test_objects_that_are_gone_are_one_clear_error(objects: Path, tmp_path: Path) -> None:
    """Counts cannot be read after the modules were rebuilt or removed."""
    count(objects, tmp_path, "gw0")
    (objects / "toy.gcno").unlink()

    with pytest.raises(SetupError, match="is gone"):
        coverage.summary(tmp_path)


class _Item:
    def __init__(self, path: str) -> None:
        self.path = Path(path)


def test_counts_are_written_after_a_file_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a guest that dies has counted up to then is kept."""
    (tmp_path / "gcov").mkdir()
    monkeypatch.setattr(counting, "COUNTS", tmp_path / "gcov")
    monkeypatch.setenv(OUT, str(tmp_path))
    now = 0.0
    monkeypatch.setattr("kfabric.guest.coverage.time.monotonic", lambda: now)
    left = tmp_path / NAME
    leaver = LeaveCounts()
    first, same, other = _Item("a.py"), _Item("a.py"), _Item("b.py")
    leaver.pytest_runtest_teardown(same, other)  # type: ignore[arg-type]
    now = counting.EVERY_SECONDS
    leaver.pytest_runtest_teardown(first, same)  # type: ignore[arg-type]
    assert not left.exists()
    leaver.pytest_runtest_teardown(same, other)  # type: ignore[arg-type]
    assert left.exists()
    left.unlink()
    leaver.pytest_runtest_teardown(same, other)  # type: ignore[arg-type]
    assert not left.exists()
    leaver.pytest_sessionfinish()
    assert [path.name for path in tmp_path.glob("coverage*")] == [NAME]


def test_results_have_the_totals_without_the_lines_numbers() -> None:
    """docs/results.md gets one row for each file, and the sum."""
    table = (
        "File                      Lines    Exec  Cover   Missing\n"
        "kmod/core/cq.c              200     190    95%   3-5,17\n"
        "TOTAL                       200     190    95%\n"
    )
    assert coverage.markdown(table).splitlines()[2:] == [
        "| kmod/core/cq.c | 200 | 190 | 95% |",
        "| TOTAL | 200 | 190 | 95% |",
    ]
