# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The user's current directory in a guest: mounted where it can be, and commands run in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric.guest.waiting import wait_until
from kfabric.trace.guest import Child
from kfabric.vm import argv as qemu
from kfabric.vm import prepare, workdir
from kfabric.vm.spec import VmSpec

OTHERWISE = Path("/else")


@pytest.fixture
def lines() -> list[str]:
    """What the user is shown."""
    return []


def test_current_directory_is_mounted_uncached_and_commands_run_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    """Its files may change while a shell is open."""
    monkeypatch.chdir(tmp_path)
    spec = workdir.add(VmSpec(), OTHERWISE, lines.append)
    assert (spec.here, lines) == (tmp_path, [])
    mounts = qemu.mounts(spec, prepare.SOURCE, tmp_path / "out")
    assert mounts[0] == ("share0", str(tmp_path), "ro,cache=none")
    assert mounts[1] == ("source", str(prepare.SOURCE), "ro,cache=loose")


def test_directory_in_the_checkout_is_no_second_mount(
    monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    """It would make another kind of guest, which boots first."""
    monkeypatch.chdir(prepare.SOURCE / "tests")
    spec = workdir.add(VmSpec(), OTHERWISE, lines.append)
    assert spec == VmSpec(here=prepare.SOURCE / "tests")
    assert lines == []


def test_current_project_of_a_module_is_mounted_once_and_uncached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    (tmp_path / "mod").mkdir()
    monkeypatch.chdir(tmp_path / "mod")
    other = Path("/srv/other")
    spec = workdir.add(VmSpec(shares=(tmp_path, other)), OTHERWISE, lines.append)
    assert (spec.shares, spec.live, spec.here) == ((other,), (tmp_path,), tmp_path / "mod")


def test_directory_is_mounted_after_one_that_contains_it(tmp_path: Path) -> None:
    """The other order would hide it."""
    spec = VmSpec(shares=(tmp_path / "mod",), live=(tmp_path,))
    assert [path for _, path in qemu.shares(spec)] == [tmp_path, tmp_path / "mod"]


OWN = (
    *("/", "/root", "/tmp", "/var", "/usr", "/etc/ssl", "/usr/share/doc", "/usr/src"),
    *("/var/lib", "/proc/1", "/sys/class", "/dev/shm/x", "/lib/modules", "/opt/kfabric/x"),
)
USERS = ("/root/proj", "/tmp/x", "/home", "/srv", "/var/lib/ci/work", "/usr/src/linux", "/opt/x")


@pytest.mark.parametrize("path", OWN)
def test_directory_that_the_guest_has_itself_is_not_mounted_over(path: str) -> None:
    assert workdir.obstacle(Path(path)) == "the guest has its own directory there"


@pytest.mark.parametrize("path", USERS)
def test_directory_of_a_user_can_be_mounted(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workdir.os, "access", lambda *_: True)
    assert workdir.obstacle(Path(path)) == ""


def test_path_that_cannot_be_passed_to_a_guest_is_no_obstacle_to_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    """It runs in the checkout, and a line gives the reason."""
    place = tmp_path / "a b"
    place.mkdir()
    monkeypatch.chdir(place)
    assert workdir.add(VmSpec(), OTHERWISE, lines.append) == VmSpec(here=OTHERWISE)
    (line,) = lines
    assert line.startswith(f"commands run in {OTHERWISE}, not in {place}: its path has other")


def test_removed_current_directory_is_no_obstacle_to_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    assert workdir.add(VmSpec(), OTHERWISE, lines.append) == VmSpec(here=OTHERWISE)
    assert lines == [f"commands run in {OTHERWISE}: the current directory is removed"]


def test_directory_that_cannot_be_read_is_not_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """QEMU would not start. On FUSE, root may be refused, too."""
    monkeypatch.setattr(workdir.os, "access", lambda *_: False)
    assert workdir.obstacle(Path("/mnt/x")) == "it cannot be read"


def test_traced_command_runs_in_the_current_directory_and_the_tracer_does_not(
    tmp_path: Path,
) -> None:
    """A file of the user's could stand for one of Python's modules."""
    child = Child(["sh", "-c", "pwd >where"], str(tmp_path))
    child.go()
    wait_until(child.poll, "the end of the command", 30)
    assert (tmp_path / "where").read_text() == f"{tmp_path}\n"
    assert Path.cwd() != tmp_path
