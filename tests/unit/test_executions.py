# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Which tests are recorded, and how often a race is tried."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kfabric import names
from kfabric.replay import record
from kfabric.replay.execution import OUT, About, Execution
from kfabric.replay.qemu import OUTPUT
from kfabric.replay.record import Errand
from kfabric.runner import executions
from kfabric.runner.executions import Records
from kfabric.vm.spec import Image, VmSpec

POINTS = ["mail:look+0x12"]
ABOUT = About("test_a", 0, "6.1", "10.0", "root.img", "linux", "initrd", "", 1280)
Play = Callable[..., list[list[str]]]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Records a test with points whose runs have given statuses; the commands of each."""
    image = cast(Image, SimpleNamespace(builds="6.1"))
    monkeypatch.setattr(executions.prepare, "guest_image", lambda **_: image)
    monkeypatch.setattr(executions.bytecode, "packages", lambda *_: True)
    monkeypatch.setattr(Records, "_spec", lambda *_: VmSpec(variant=None))

    def play(statuses: list[int], points: list[str]) -> list[list[str]]:
        played: list[list[str]] = []

        def once(errand: Errand, place: Path, _seconds: float) -> Execution:
            played.append([" ".join(words) for words in errand.commands])
            (place / OUT).mkdir(parents=True)
            if points:
                (place / OUT / names.GAVE_WAY).write_text("a\nb\n")
            (place / OUTPUT).write_text("no thread can give way: no such point\nkfabric is done\n")
            for name in ("log.bin", "root.qcow2", "disk.qcow2"):
                (place / f"{name}.zst").touch()
            return Execution(place, replace(ABOUT, status=statuses.pop(0)))

        monkeypatch.setattr(record, "record", once)
        Records("", None, (), tmp_path, points)._record("t.py::test_a")
        return played

    return play


def test_race_is_tried_until_it_shows(records: Play, capfd: pytest.CaptureFixture[str]) -> None:
    """Each time with another seed; the line says how often a thread gave way."""
    first, second = records([0, 1, 9], POINTS)
    assert first[0] == "kfabric.guest.giveway 1 mail:look+0x12" and first[1].endswith("test_a")
    assert second[0] == "kfabric.guest.giveway 2 mail:look+0x12"
    said = capfd.readouterr().err
    assert "recording t.py::test_a, on one CPU, and threads give way at 1 point\n" in said
    assert re.search(r"it passed this time, in \d+ s, threads gave way 2 times: nothing", said)
    assert re.search(r"it failed again \(status 1\), in \d+ s, threads gave way 2 times\n", said)


def test_race_that_does_not_show_is_given_up(records: Play, tmp_path: Path) -> None:
    """And nothing is kept."""
    assert len(records([0] * 9, POINTS)) == executions.TRIES
    assert not list((tmp_path / "executions").iterdir())


def test_recording_that_was_not_replayed_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ctrl-C ended the replay that shows whether it is the same."""
    place = tmp_path / "execution"

    def once(*_: object) -> Execution:
        place.mkdir()
        return Execution(place, replace(ABOUT, status=1))

    def check(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(record, "_ensure_frozen", lambda _: None)
    monkeypatch.setattr(record, "_once", once)
    monkeypatch.setattr(record, "_check", check)
    errand = cast(Errand, None)
    with pytest.raises(KeyboardInterrupt):
        record.record(errand, place, 1.0)
    assert not place.exists()


def test_test_without_points_is_recorded_once(records: Play) -> None:
    """Nothing but the test runs."""
    assert [len(commands) for commands in records([0, 0], [])] == [1]


@pytest.mark.parametrize(
    "status", [names.UNPREPARED, *executions._NO_RESULT], ids=lambda status: str(int(status))
)
def test_run_without_a_result_is_no_failure(
    status: int, records: Play, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The reason is said, and nothing is kept."""
    records([status, 1], POINTS)
    said = capfd.readouterr().err
    assert said.endswith(
        "kfabric: not recorded: guest failed: no thread can give way: no such point\n"
    )
    assert not list((tmp_path / "executions").iterdir())


def test_test_of_a_junit_file_is_found_again(tmp_path: Path) -> None:
    """In a class, with parameters that have dots, and not if its file is gone."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").touch()
    assert executions.node(tmp_path, "tests.test_a.test_b") == "tests/test_a.py::test_b"
    assert (
        executions.node(tmp_path, "tests.test_a.TestC.test_b[1.5-x]")
        == "tests/test_a.py::TestC::test_b[1.5-x]"
    )
    assert executions.node(tmp_path, "guests.guest0 did not boot") == ""
