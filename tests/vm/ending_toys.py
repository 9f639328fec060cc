# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Tests whose runs do not come to their end; test_ends.py runs them in guests."""

from __future__ import annotations

import threading

import pytest


def test_waits() -> None:
    """Until somebody ends it."""
    threading.Event().wait()


def test_fine() -> None:
    """Nothing is wrong with this one."""


@pytest.mark.parametrize("number", range(6))
def test_panic(number) -> None:
    """Each takes its guest with it."""
    with open("/proc/sysrq-trigger", "w") as trigger:
        trigger.write("c")
