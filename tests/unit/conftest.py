# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Fixtures of the tests of kfabric_py: its objects over a fake of the kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_kernel import FakeKernel

import kfabric_py as kp
from kfabric_py._call import Client


@pytest.fixture
def kernel() -> Iterator[FakeKernel]:
    """A kernel that knows nothing yet."""
    kernel = FakeKernel()
    yield kernel
    kernel.end()


@pytest.fixture
def device(kernel: FakeKernel) -> Iterator[kp.Device]:
    """A device that the fake answers for."""
    with kp.Device("/dev/null") as device:
        device._client = Client(device.fileno(), kernel.ioctl)
        yield device


@pytest.fixture
def fabric(device: kp.Device) -> kp.Fabric:
    """An open fabric."""
    return device.fabric(kp.Info())


@pytest.fixture
def domain(fabric: kp.Fabric) -> kp.Domain:
    """An open domain."""
    return fabric.domain(kp.Info())
