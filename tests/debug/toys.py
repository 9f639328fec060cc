# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Tests that do what only a kernel that looks for it notices; test_checks.py runs them in a guest.

Their order matters: what is leaked is told when its guest ends, behind the next fault.
"""

from __future__ import annotations

import errno

import pytest

from kfabric.guest import modules
from kfabric.guest.modules import ModuleError


def provoke(what: str) -> None:
    """Let the kernel misbehave; see tests/kmod/provoke."""
    module = modules.Modules.from_environment().file("provoke")
    with pytest.raises(ModuleError) as refused:
        modules.insert(module, f"what={what}")
    assert refused.value.errno == errno.ECANCELED


def test_fine_before() -> None:
    """Nothing is wrong with this one."""


def test_leak() -> None:
    """Loses some memory."""
    provoke("leak")


def test_use_after_free() -> None:
    """Reads what was freed."""
    provoke("uaf")


def test_sleep_in_atomic_context() -> None:
    """May sleep under a spin lock."""
    provoke("sleep")


def test_active_timer_is_freed() -> None:
    """Frees a timer that still runs."""
    provoke("object")


def test_crossed_locks() -> None:
    """Takes two locks in both orders."""
    provoke("locks")


def test_fine_behind() -> None:
    """Nothing is wrong with this one either; it has a guest of its own."""


def test_race() -> None:
    """Two threads count with one variable; only KCSAN sees it, and runs only this."""
    provoke("race")
