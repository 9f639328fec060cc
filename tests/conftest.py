# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Shared by all tests: the plugin that runs them in guests, and which of them need one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.guest import in_guest

# Nested runs are for the host; importing what they need takes seconds in a guest.
pytest_plugins = ["harness.plugin", *([] if in_guest() else ["pytester"])]

GUEST_TESTS = Path(__file__).with_name("guest")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark what lies below tests/guest, so that no file has to do it for itself."""
    for item in items:
        if GUEST_TESTS in item.path.parents:
            item.add_marker("guest")
