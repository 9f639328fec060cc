# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Executions: what is recorded of a guest, how it is kept, and where its replay goes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kfabric.errors import SetupError, UsageError
from kfabric.replay import execution, material
from kfabric.replay.execution import About, Execution
from kfabric.replay.qemu import DISK, FROZEN, LOG, ROOT, Hardware, Mode, argv
from kfabric.runner import executions
from kfabric.vm import argv as qemu
from kfabric.vm import disk
from kfabric.vm.errand import STATUS, Order

HARDWARE = Hardware(Path("/boot/linux"), Path("/boot/initrd"), "quiet", 640)


def about(**fields: object) -> About:
    """What ran; the image exists as long as the tests do."""
    known: dict[str, object] = {
        **{"what": "test_a", "status": 1},
        **{"release": "6.1", "qemu": qemu.version(), "image": __file__, "kernel": __file__},
        **{"initrd": __file__, "cmdline": "quiet", "memory_mib": 640},
    }
    return About(**{**known, **fields})  # type: ignore[arg-type]


@pytest.fixture
def kept(tmp_path: Path) -> Execution:
    """An execution, packed."""
    for name in (LOG, ROOT, DISK):
        (tmp_path / name).write_text(name * 1000)
    made = Execution(tmp_path, about())
    made.pack()
    return made


@pytest.mark.parametrize("mode", Mode)
def test_recorded_guest_has_nothing_that_qemu_cannot_replay(mode: Mode, tmp_path: Path) -> None:
    """One CPU, disks whose requests are recorded, and neither shares nor ports nor a network."""
    words = argv(HARDWARE, tmp_path, mode, 7, 8)
    assert words[words.index("-smp") + 1] == "1"
    assert not [word for word in words if word.startswith(("virtio-9p", "virtio-serial"))]
    assert words[words.index("-net") + 1] == "none"
    devices = [words[at + 1] for at, word in enumerate(words) if word == "-device"]
    disks = [device for device in devices if device.startswith("virtio-blk")]
    assert len(disks) == 2 and all("ioeventfd=off" in disk for disk in disks)
    assert sum("driver=blkreplay" in word for word in words) == 2


def test_recording_goes_on_from_the_frozen_guest(tmp_path: Path) -> None:
    """The others do not: one makes it, and a replay begins where the recording began."""
    words = {mode: " ".join(argv(HARDWARE, tmp_path, mode, 7, 8)) for mode in Mode}
    assert f"-loadvm {FROZEN}" in words[Mode.RECORD]
    assert "-loadvm" not in words[Mode.FREEZE] + words[Mode.REPLAY]
    assert "rrsnapshot" not in words[Mode.FREEZE]


def test_execution_is_as_it_was_once_it_is_unpacked(kept: Execution, tmp_path: Path) -> None:
    """All three large files; nothing but the packed ones stays in its directory."""
    place = tmp_path / "place"
    place.mkdir()
    assert not (tmp_path / LOG).exists()
    Execution.read(tmp_path).unpack(place)
    assert {path.name: path.read_text() for path in place.iterdir()} == {
        name: name * 1000 for name in (LOG, ROOT, DISK)
    }


@pytest.mark.parametrize("text", [None, "", "[]", '{"what": "test_a"}'])
def test_directory_without_an_execution_is_wrong_usage(text: str | None, tmp_path: Path) -> None:
    """An empty one, or one whose file has other contents."""
    if text is not None:
        (tmp_path / execution.ABOUT).write_text(text)
    with pytest.raises(UsageError, match="has no execution"):
        Execution.read(tmp_path)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"qemu": "QEMU emulator version 1.0"}, "another QEMU: QEMU emulator version 1.0"),
        ({"image": "/nowhere/root.img"}, "/nowhere/root.img does not exist"),
        ({"kernel": "/nowhere/linux"}, "/nowhere/linux does not exist"),
    ],
)
def test_what_a_replay_needs_is_checked_first(
    fields: dict[str, object], what: str, kept: Execution, tmp_path: Path
) -> None:
    """Another version of QEMU, or no image: no guest is started."""
    with pytest.raises(SetupError, match=what):
        Execution(tmp_path, about(**fields)).unpack(tmp_path)


def test_guest_gets_the_directories_without_what_is_left_out(tmp_path: Path) -> None:
    """And a directory inside of one of them, with its own parts left out."""
    tree = tmp_path / "tree"
    for path in ("a/code.py", "build/mod/mod.ko", "build/mod/src/mod.c", ".git/objects"):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(path)
    built = tree / "build/mod"
    target = tmp_path / DISK
    order: Order = {
        "name": "n",
        "ns": 1,
        "seed": "00",
        "directories": [],
        "commands": [],
        "env": {},
        "cwd": "/",
    }
    material.make(target, order, [tree, built], [tree / "build", built / "src"])
    raw = tmp_path / "raw"
    material.convert(target, raw, "raw")
    back = tmp_path / "back"
    back.mkdir()
    disk.copy(raw, str(tree), back)
    found = {str(path.relative_to(back / "tree")) for path in back.rglob("*") if path.is_file()}
    assert found == {"a/code.py", "build/mod/mod.ko"}
    listed = subprocess.run(["qemu-img", "snapshot", "-l", target], capture_output=True, check=True)
    assert FROZEN.encode() in listed.stdout


def test_results_come_home_with_the_status(tmp_path: Path) -> None:
    """The files that a guest has left, at the same place; no status is None."""
    out = tmp_path / "run/out"
    out.mkdir(parents=True)
    (out / "story.txt").write_text("lost")
    made = tmp_path / DISK
    for status in (None, -9):
        tree = tmp_path / "disk"
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(out, tree / str(out)[1:])
        if status is not None:
            (tree / STATUS).write_text(str(status))
        raw = tmp_path / "made.raw"
        raw.unlink(missing_ok=True)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", tree, raw, "16m"], check=True)
        material.convert(raw, made, "qcow2")
        shutil.rmtree(out)
        assert material.results(made, out) == status
        assert (out / "story.txt").read_text() == "lost"


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
