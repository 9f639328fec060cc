# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric test --schedule` on a module that loses a wake-up now and then."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus
from kfabric.root import ROOT
from tests.vm.commands import Done, kfabric

EXAMPLE = ROOT / "examples/schedule/lost_mail"
RUN_SECONDS = 3000.0
SEEDS = 3
WINDOW = "if (!careful && READ_ONCE(letter))"
"""Between this line and the next one a letter wakes nobody."""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example."""
    directory = tmp_path_factory.mktemp("their") / "lost_mail"
    shutil.copytree(EXAMPLE, directory)
    return directory


def play(module: Path, output: Path, *words: str) -> Done:
    """Test the module in one guest at a time."""
    ours = ("test", "--vms", "1", "--output", str(output), "--module", str(module))
    return kfabric(*ours, *words, seconds=RUN_SECONDS)


@pytest.fixture(scope="module")
def found(module: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """A search among few seeds, whose finding is recorded, and the directory of its files."""
    output = tmp_path_factory.mktemp("found")
    return play(module, output, "--schedule", f"seeds=1..{SEEDS}", "--record"), output


@pytest.mark.stress
def test_a_lost_wakeup_is_found_and_shown_again(found: tuple[Done, Path]) -> None:
    """W1: within a few seeds; the seed that shows it shows it again."""
    done, output = found
    assert done.returncode == ExitStatus.TEST_FAILED
    assert "test_reader_never_sleeps_beside_a_letter" in done.stdout
    again = re.search(r"the same test failed in (\d) of 5 more runs under this seed", done.stderr)
    assert again and int(again[1]) >= 4
    assert "<failure" in (output / "schedule/guest.xml").read_text()


@pytest.mark.stress
def test_the_points_that_are_left_are_in_the_window(found: tuple[Done, Path]) -> None:
    """Fewer than were held, with their lines of source; one is where the wake-up gets lost."""
    done, _ = found
    _, _, tail = done.stderr.partition("only, the same test failed in")
    lines = [int(number) for number in re.findall(r"\(lost_mail\.c:(\d+)", tail)]
    source = EXAMPLE.joinpath("lost_mail.c").read_text().splitlines()
    window = next(number for number, line in enumerate(source, 1) if WINDOW in line)
    assert lines and any(window <= number <= window + 2 for number in lines)


@pytest.mark.stress
def test_the_race_is_recorded_and_gone_back_in(found: tuple[Done, Path]) -> None:
    """W1: threads that give way at the points show it on one CPU; the replay has both sides."""
    done, output = found
    assert re.search(r"threads give way at \d+ points?$", done.stderr, re.M)
    assert re.search(r"failed again \(status 1\), in \d+ s, threads gave way \d", done.stderr)
    (execution,) = (output / "executions").iterdir()
    assert f"kfabric replay {execution}" in done.stderr
    log = (execution / "out/gave_way.log").read_text()
    (visit,) = re.findall(r"\A(visit \d+ of \S+): thread \S+/\d+, [\d.]+ ms$", log, re.M)
    for moment, frames in (
        ("last call of mail_put", r"^#0 +mail_put .*\n#1 .* mail_write "),
        (visit, r"^#\d +mail_play .*/lost_mail.c:\d+$"),
    ):
        shown = kfabric("replay", "--back-to", moment, str(execution), seconds=RUN_SECONDS)
        assert shown.returncode == ExitStatus.OK
        assert re.search(frames, shown.stdout, re.M)


@pytest.mark.stress
def test_the_repaired_module_passes_under_the_same_seeds(module: Path, tmp_path: Path) -> None:
    """W1: its CPUs are held at the same places, and no letter is lost."""
    words = ("--module-param", "careful=1", "--schedule", f"seeds=1..{SEEDS}")
    done = play(module, tmp_path, *words)
    assert done.returncode == ExitStatus.OK
    assert f"no failure under {SEEDS} seeds" in done.stderr


def test_a_point_that_is_named_is_the_only_one_held(module: Path, tmp_path: Path) -> None:
    """In all guests; the table shows that others were passed only."""
    words = ("--module-param", "careful=1", "--schedule", "seeds=1", "--points", "mail_write")
    assert play(module, tmp_path, *words).returncode == ExitStatus.OK
    rows = re.findall(r"^\| (\w+)\+\S+ \| lost_mail \| \d+ \| (\d+) \|", table(tmp_path), re.M)
    assert {name for name, holds in rows if int(holds)} == {"mail_write"}
    assert len({name for name, _ in rows}) > 1


def test_the_verdict_judges_waits_while_cpus_are_held(module: Path, tmp_path: Path) -> None:
    """W1: with both options, and none of the repaired module's waits is wrong."""
    words = ("--verify-wakeups", "--schedule", "seeds=1", "--points", "mail_play")
    done = play(module, tmp_path, "--module-param", "careful=1", *words)
    assert done.returncode == ExitStatus.OK
    told = (tmp_path / "schedule.log").read_text()
    judged = re.search(r"(\d+) of these waits were on the queues", told)
    assert judged and int(judged[1]) > 1
    assert re.search(r"^\| mail_play\+\S+ \| lost_mail \| \d+ \| [1-9]", table(tmp_path), re.M)


@pytest.mark.stress
def test_the_verdict_finds_what_no_test_asserts(module: Path, tmp_path: Path) -> None:
    """W1: nothing hangs, and the test asks for nothing; the lost wake-up is the finding."""
    quiet = tmp_path / "lost_mail"
    shutil.copytree(module, quiet)
    (test,) = (quiet / "tests").glob("test_*.py")
    test.write_text(test.read_text().replace("    assert ", "    _ = ").replace("300", "40"))
    output = tmp_path / "output"
    done = play(quiet, output, "--verify-wakeups", "--schedule", "seeds=1..20")
    assert done.returncode == ExitStatus.TEST_FAILED
    assert "LOST: wait" in done.stdout


def table(output: Path) -> str:
    """What was done at each point."""
    return (output / "schedule.md").read_text()
