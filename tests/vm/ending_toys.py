# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Tests of runs that are interrupted; test_ends.py runs them in guests."""

from __future__ import annotations

import threading

import pytest


def test_waits() -> None:
    """Until it is killed."""
    threading.Event().wait()


def test_fine() -> None:
    """Pass."""


@pytest.mark.parametrize("number", range(6))
def test_panic(number) -> None:
    """Panic the guest."""
    with open("/proc/sysrq-trigger", "w") as trigger:
        trigger.write("c")
