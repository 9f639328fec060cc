# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The compiled probes of earlier guests: given to the next one, and taken over from it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from kfabric import names
from kfabric.vm import programs


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A guest's directory."""
    path = tmp_path / "guest/out"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The directory beside the image; not there yet."""
    return tmp_path / programs.NAME


def write(place: Path, number: int, text: bytes = b"{}") -> Path:
    """A program, as a guest leaves it; a higher number is a newer one."""
    place.mkdir(exist_ok=True)
    path = place / f"{number:032x}"
    path.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
    os.utime(path, (number, number))
    return path


def test_next_guest_gets_what_an_earlier_one_compiled(out: Path, kept: Path) -> None:
    """In the directory that its environment names, which does not stay."""
    programs.give(kept, out)
    mine = Path(programs.environment(out)[names.PROGRAMS])
    path = write(mine, 1)
    programs.take(out, kept)
    assert not mine.exists()
    programs.give(kept, out)
    assert path.read_bytes() == (kept / path.name).read_bytes()


def test_incomplete_or_foreign_file_is_not_taken_over(out: Path, kept: Path) -> None:
    """A guest may have died while it wrote; only names and hashes that fit are kept."""
    programs.give(kept, out)
    broken = write(out / programs.NAME, 1)
    broken.write_bytes(broken.read_bytes()[:-1])
    (out / programs.NAME / "notes").write_text("")
    (out / programs.NAME / f"{2:032x}.17.tmp").write_text("")
    programs.take(out, kept)
    assert not kept.exists() or not list(kept.iterdir())


def test_guest_changes_no_file_that_is_kept(out: Path, kept: Path) -> None:
    """It has copies, and a name that is known is not taken over again."""
    path = write(kept, 1)
    programs.give(kept, out)
    write(out / programs.NAME, 1, b"another one")
    before = path.read_bytes()
    programs.take(out, kept)
    assert path.read_bytes() == before


def test_kept_file_that_is_damaged_is_replaced(out: Path, kept: Path) -> None:
    """By what the guest compiled instead; else each guest would compile again."""
    path = write(kept, 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    programs.give(kept, out)
    write(out / programs.NAME, 1)
    programs.take(out, kept)
    assert path.read_bytes() == whole


def test_only_the_newest_are_kept(out: Path, kept: Path) -> None:
    """The directory does not grow with each change of a probe."""
    for number in range(programs.KEPT + 3):
        write(kept, number)
    programs.take(out, kept)
    left = sorted(int(path.name, 16) for path in kept.iterdir())
    assert left == list(range(3, programs.KEPT + 3))
