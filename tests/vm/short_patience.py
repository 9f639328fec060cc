# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Plugin for nested runs: guests with a shorter silence deadline."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric.runner import testvm
from kfabric.vm.machine import Vm
from kfabric.vm.spec import Deadlines


@pytest.hookimpl
def pytest_kfabric_boot(name: str, directory: Path) -> Vm:
    """Boot the project's own guest with that deadline."""
    return testvm.boot(name, directory, Deadlines(silence=8.0))
