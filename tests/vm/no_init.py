# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Plugin for nested runs: the guest named in $NO_INIT has a kernel that finds no init."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kfabric.vm import accel, prepare
from kfabric.vm.machine import Vm
from kfabric.vm.spec import VmSpec


@pytest.hookimpl
def pytest_kfabric_boot(name: str, directory: Path) -> Vm | None:
    """Boot that one; all others are the project's own."""
    if name != os.environ["NO_INIT"]:
        return None
    image = prepare.guest_image()
    spec = VmSpec(name=name, cmdline=("rdinit=/nothing",))
    guest = Vm(spec, image, accel.choose(image).accel, directory, prepare.SOURCE)
    guest.start()
    return guest
