# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Tests that record their guest; test_far.py runs them on two machines."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _guest(record_property) -> None:
    """Record the guest's name in the report."""
    record_property("guest", os.uname().nodename)


@pytest.mark.parametrize("number", range(3))
def test_fine(number) -> None:
    """Pass."""


def test_panic() -> None:
    """Panic the guest."""
    with open("/proc/sysrq-trigger", "w") as trigger:
        trigger.write("c")


@pytest.mark.parametrize("number", range(2))
def test_fine_again(number) -> None:
    """Pass."""
