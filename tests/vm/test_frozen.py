# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Thawed guests behave like booted ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kfabric.vm import accel, frozen, machine, prepare
from kfabric.vm import argv as qemu
from kfabric.vm.frozen import Frozen
from kfabric.vm.machine import Vm
from kfabric.vm.spec import VmSpec

# A kind of guest that only these tests use.
KIND = VmSpec(cmdline=("kfabric.test=frozen",))
SLACK_SECONDS = 20.0

Thaw = Callable[[str], Vm]


@pytest.fixture(scope="module")
def place() -> Iterator[Frozen]:
    """The frozen guest of this kind, made or not; removed afterwards."""
    image = prepare.guest_image()
    choice = accel.choose(image).accel
    name = frozen.key(qemu.kind(KIND.on(image.version), image, choice))
    found = Frozen(image.disk.parent / machine._FROZEN / name)
    found.discard()
    yield found
    found.discard()


@pytest.fixture
def guest(place: Frozen, tmp_path: Path) -> Iterator[Thaw]:
    """Start a guest of this kind, by name."""
    started: list[Vm] = []

    def start(name: str) -> Vm:
        image = prepare.guest_image()
        spec = VmSpec(name=name, cmdline=KIND.cmdline)
        vm = Vm(spec, image, accel.choose(image).accel, tmp_path / name, prepare.SOURCE)
        started.append(vm)
        vm.start()
        return vm

    yield start
    for vm in started:
        vm.close()


def test_thawed_guest_is_this_one_and_no_other(guest: Thaw, place: Frozen) -> None:
    """Its name, the host's time, and its own directories; one boot serves both guests."""
    for name in ("one", "two"):
        vm = guest(name)
        assert vm.run(["cat", "/proc/sys/kernel/hostname"]).text.strip() == name
        assert abs(float(vm.run(["date", "+%s"]).text) - time.time()) < SLACK_SECONDS
        vm.run(["sh", "-c", f"echo {name} > {vm.out}/word"])
        assert (vm.out / "word").read_text() == f"{name}\n"
        assert vm.run(["test", "-f", f"{prepare.SOURCE}/pyproject.toml"]).rc == 0
        assert "Linux version" in vm.console_text()
    booted = place.state.stat().st_mtime_ns
    guest("three")
    assert place.state.stat().st_mtime_ns == booted


def test_guests_of_one_boot_share_no_disk(guest: Thaw) -> None:
    """A guest does not see the writes of an earlier or a parallel one."""
    one, two = guest("one"), guest("two")
    one.run(["sh", "-c", "echo mine > /root/word; sync"])
    three = guest("three")
    assert [vm.run(["test", "-e", "/root/word"]).rc for vm in (one, two, three)] == [0, 1, 1]


def random_numbers(vm: Vm) -> set[str]:
    """Enough of each CPU to meet those of a guest that has used some more or fewer before."""
    command = ["cat", *["/proc/sys/kernel/random/uuid"] * 100]
    runs = [vm.run(["taskset", "-c", str(cpu), *command]) for cpu in range(KIND.cpus)]
    return {number for run in runs for number in run.text.split()}


def test_guests_of_one_boot_share_no_random_numbers(guest: Thaw) -> None:
    """Cookies and ports of two nodes would be equal, and secrets known."""
    one, two = (random_numbers(guest(name)) for name in "ab")
    assert len(one) == len(two) == KIND.cpus * 100
    assert one.isdisjoint(two)


def prepared(vm: Vm, code: str) -> bytes:
    """The output of code in the Python that was saved with a guest, as the tests are."""
    command = vm.popen(
        ["python3", "-u", "-c", code], cwd="/tmp", env={"WORD": "w"}, port="kfabric.xdist"
    )
    done = command.wait()
    assert (done.rc, done.err) == (0, b"")
    stream = vm.open_stream("kfabric.xdist")
    stream.settimeout(SLACK_SECONDS)
    return stream.recv(1 << 16)


def test_python_that_was_prepared_runs_what_it_is_asked_to(guest: Thaw) -> None:
    """On its port, in its directory, with its environment and the checkout's packages."""
    code = (
        "import os, sys, kfabric; print(os.getcwd(), os.environ['WORD'], 'pytest' in sys.modules)"
    )
    assert prepared(guest("one"), code) == b"/tmp w True\n"


def test_guests_of_one_boot_draw_different_numbers_in_python(guest: Thaw) -> None:
    """Otherwise each round of a test draws the same, and finds nothing new."""
    code = "import random, sys; print('pytest' in sys.modules, random.random())"
    one, two = (prepared(guest(name), code) for name in "ab")
    assert one.startswith(b"True 0.") and two.startswith(b"True 0.")
    assert one != two


def test_guest_boots_where_the_frozen_one_is_damaged(guest: Thaw, place: Frozen) -> None:
    """A truncated cache entry is replaced silently."""
    guest("one")
    whole = place.state.stat().st_size
    with place.state.open("r+b") as state:
        state.truncate(whole // 2)
    vm = guest("two")
    assert vm.run(["cat", "/proc/sys/kernel/hostname"]).text.strip() == "two"
    assert not place.state.exists()
