# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Tests that go wrong on purpose, each in its own way; test_runs.py runs them in guests.

Their order matters. xdist hands out two tests at a time, and puts the second one
behind all others when the first ends its guest; so every guest-ending test but
the last has one behind it that may move.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.guest import kmsg, modules, topology
from kfabric.guest.modules import ModuleError

KEPT = contextlib.ExitStack()
MARK = Path("/run/leaky")


def provoke(what: str) -> None:
    """Provoke a kernel bug; see tests/kmod/provoke."""
    module = modules.Modules.from_environment().file("provoke")
    with pytest.raises(ModuleError) as refused:
        modules.insert(module, f"what={what}")
    assert refused.value.errno == errno.ECANCELED


def crash() -> None:
    """Panic the kernel."""
    with open("/proc/sysrq-trigger", "w") as trigger:
        trigger.write("c")


def test_fine() -> None:
    """Pass."""
    assert os.uname().sysname == "Linux"


def test_prints() -> None:
    """Fails after a line in the kernel log."""
    kmsg.mark("a line of test_prints")
    raise AssertionError("after the line")


def test_splat() -> None:
    """Its assertions hold, but the kernel reports a problem."""
    provoke("warn")


def test_leak() -> None:
    """Leaves a net device behind."""
    MARK.touch()
    KEPT.enter_context(topology.dummy_netdev())


def test_after_leak() -> None:
    """Not affected by the previous test's leak, because this is another guest."""
    assert not MARK.exists()


@pytest.mark.xfail(reason="what is expected of it is its call's alone")
def test_expected_failure_leaks() -> None:
    """Fails as expected, and leaves a net device behind."""
    KEPT.enter_context(topology.dummy_netdev())
    raise AssertionError("as expected")


def test_stray_bytes(capfd) -> None:
    """Writes everywhere a test or its process can; the port cannot be opened again."""
    with capfd.disabled():
        for stream in (0, 1, 2):
            with contextlib.suppress(OSError):
                os.write(stream, bytes(range(256)) * 100)
        subprocess.run(["sh", "-c", "echo noise; echo noise >&2"], check=True)
    with pytest.raises(OSError) as refused:
        os.open("/dev/virtio-ports/kfabric.xdist", os.O_RDWR)
    assert refused.value.errno == errno.EBUSY


@pytest.mark.timeout(3)
def test_hang_in_user_space() -> None:
    """Waits for an event that never comes."""
    threading.Event().wait()


def test_panic() -> None:
    """Panics the guest."""
    crash()


def test_fine_again() -> None:
    """Passes in any guest."""


@pytest.fixture
def crashing() -> Iterator[None]:
    """Ends with its guest."""
    yield
    crash()


def test_panic_in_teardown(crashing) -> None:
    """Passes, and its fixture panics the guest."""


def test_fine_in_the_end() -> None:
    """Pass."""


def test_freeze() -> None:
    """Stops all CPUs of its guest."""
    provoke("freeze")


def test_late_panic() -> None:
    """Passes, and the kernel panics when its process ends."""
    atexit.register(crash)
