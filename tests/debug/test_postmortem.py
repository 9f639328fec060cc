# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A guest in which threads sleep panics: its memory tells who slept where, and beside what."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus
from kfabric.vm import vmcore
from tests.vm.commands import kfabric

TOY = Path(__file__).with_name("sleeper.py")
SECONDS = 1800.0
# The note that has 20 bytes for it, and four of these.
BUILD_ID = re.compile(b"(%b).{4}" % re.escape(struct.pack("<3I", 4, 20, 3) + b"GNU\0"), re.DOTALL)


@pytest.fixture(scope="module")
def panicked() -> Iterator[tuple[Path, dict[str, str]]]:
    """The directory of a guest that has panicked, and the ids of its queues."""
    guest = ("--kernel", "debug", "--variant", "test", "--vmcore")
    run = kfabric("run", *guest, "--", "python3", str(TOY), seconds=SECONDS)
    found = re.search(r"console and more: (\S+)", run.stderr)
    assert run.returncode == ExitStatus.PANIC and found is not None
    words = re.search(r"^quiet .*$", run.stdout, re.MULTILINE)
    assert words is not None
    pairs = words[0].split()
    try:
        yield Path(found[1]), dict(zip(pairs[::2], pairs[1::2], strict=True))
    finally:
        shutil.rmtree(found[1])


@pytest.fixture(scope="module")
def told(panicked: tuple[Path, dict[str, str]]) -> str:
    """What is told of its memory."""
    done = kfabric("post-mortem", str(panicked[0]), seconds=SECONDS)
    assert done.returncode == 0
    assert "not readable" not in done.stdout
    return done.stdout


def test_why_it_panicked_is_told(told: str) -> None:
    """With the thread that did it, although that one ran."""
    title, thread, *stack = told.splitlines()
    assert re.fullmatch(r"linux \S+-debug-\S+: Kernel panic - .*sysrq triggered crash", title)
    assert re.fullmatch(r" +thread python3/\d+ runs", thread)
    assert any(line.strip() == "sysrq_handle_crash" for line in stack)


def test_sleeper_is_told_with_its_queue_and_stack(panicked, told: str) -> None:
    """Nothing was there to be read."""
    head = rf"^CQ {panicked[1]['quiet']}: 1 waiting, nothing ready, 0 publications\n"
    found = re.search(head + r" +thread sleeper/\d+ sleeps.*\n((?: {6}.*\n)+)", told, re.MULTILINE)
    assert found is not None
    assert "kfi_waitq_sleep [kfabric]" in found[1]
    assert "THOUGH" not in found[0]


def test_forgotten_sleeper_is_pointed_at(panicked, told: str) -> None:
    """Its wait set has a member that can be read, which is named."""
    ids = panicked[1]
    head = rf"^wait set {ids['set']}: 1 waiting, 1 ready \(CQ {ids['busy']}\), 1 publication\n"
    tail = (
        r" +thread forgotten/\d+ sleeps; last looked after publication 0; THOUGH SOMETHING IS READY"
    )
    assert re.search(head + tail, told, re.MULTILINE)


def test_dump_of_modules_that_were_changed_is_an_error(panicked, told: str, tmp_path: Path) -> None:
    """Their types would be read at the wrong places."""
    (tmp_path / "vmcore").symlink_to(panicked[0] / "vmcore")
    known = vmcore.about(panicked[0] / "vmcore")
    (file,) = Path(known.modules[0]).glob("src/**/kfabric.ko")
    (tmp_path / "src").mkdir()
    changed = BUILD_ID.sub(rb"\1XXXX", file.read_bytes())
    (tmp_path / "src/kfabric.ko").write_bytes(changed)
    about = {"release": known.release, "modules": [str(tmp_path)]}
    (tmp_path / "vmcore.json").write_text(json.dumps(about))
    done = kfabric("post-mortem", str(tmp_path), seconds=SECONDS)
    assert done.returncode == ExitStatus.SETUP
    assert "kfabric: the files here are not those that ran in the guest" in done.stderr


def test_file_that_is_no_dump_is_an_error(panicked, told: str, tmp_path: Path) -> None:
    """In one line."""
    (tmp_path / "vmcore").write_bytes(b"KDUMP" * 1000)
    shutil.copy(panicked[0] / "vmcore.json", tmp_path)
    done = kfabric("post-mortem", str(tmp_path), seconds=SECONDS)
    assert done.returncode == ExitStatus.SETUP
    assert "cannot be read" in done.stderr and "Traceback" not in done.stderr
