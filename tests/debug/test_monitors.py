# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The monitors of kernel debug report a broken rule, once, and nothing in healthy waits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.rv import catalogue
from kfabric.vm import prepare
from kfabric.vm.machine import Vm
from kfabric.vm.spec import Variant, VmSpec

PLAY = Path(__file__).with_name("monitored.py")
SECONDS = 1800.0
LOST = "kfi_wait: event end not expected in the state owed"
SPURIOUS = "kfi_wake: event wake not expected in the state quiet"
HEALTHY = ("healthy", "after it", "at last")

Scenes = dict[str, dict[str, list[str]]]


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vm]:
    """A guest of kernel debug."""
    spec = VmSpec(name="monitors", kernel="debug", variant=Variant.TEST)
    with prepare.vm(spec, tmp_path_factory.mktemp("monitors")) as vm:
        yield vm


@pytest.fixture(scope="module")
def scenes(guest: Vm) -> Scenes:
    """The errors of each scene: before and after the module was away, and without monitors."""
    done = guest.run(["python3", str(PLAY)], timeout=SECONDS)
    assert done.rc == 0, done.err.decode()
    found: Scenes = json.loads(done.text)
    return found


def test_kernel_has_each_monitor(guest: Vm) -> None:
    """By the name of its automaton."""
    done = guest.run(["cat", "/sys/kernel/tracing/rv/available_monitors"])
    assert set(done.text.split()) == {one.name for one in catalogue.ALL}


@pytest.mark.parametrize("play", ["first", "again"])
def test_lost_wake_up_is_one_error(scenes: Scenes, play: str) -> None:
    """When the call ends, and no other monitor sees one."""
    assert scenes[play]["lost"] == [LOST]


@pytest.mark.parametrize("play", ["first", "again"])
def test_wake_up_without_a_publication_is_one_error(scenes: Scenes, play: str) -> None:
    """The thread that is woken was rightly marked, so only the monitor of the CPU sees it."""
    assert scenes[play]["spurious"] == [SPURIOUS]


@pytest.mark.parametrize("play", ["first", "again"])
def test_healthy_waits_are_no_error(scenes: Scenes, play: str) -> None:
    """Also after an error."""
    assert [scenes[play][name] for name in HEALTHY] == [[]] * len(HEALTHY)


def test_monitor_that_is_off_sees_nothing(scenes: Scenes) -> None:
    """Not even a fault."""
    assert not any(scenes["off"].values())


def test_each_error_is_in_the_log_and_no_splat(guest: Vm, scenes: Scenes) -> None:
    """The reactor printk writes a line for each."""
    done = guest.run(["dmesg"])
    lines = re.findall(r"rv: monitor (.+)$", done.text, re.MULTILINE)
    wait = "kfi_wait does not allow event end on state owed"
    wake = "kfi_wake does not allow event wake on state quiet"
    assert lines == [wait, wake] * 2
    assert guest.splats() == []
