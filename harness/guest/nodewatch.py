# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Checks one of two connected guests for leftovers of a test, and for kernel reports.

The same checks as in :mod:`kfabric.guest.checks`, for tests that run on the host and
drive the guest.
"""

import subprocess

from kfabric.guest import checks, leaks, modules

TC_SECONDS = 20.0

_before: list[tuple[checks.KernelWatch, leaks.Census]] = []


def begin() -> None:
    """Note the state before a test."""
    end()
    # The wire's own driver stays loaded between tests.
    modules.need(["virtio_net"])
    _before.append((checks.KernelWatch(), leaks.take()))


def left() -> list[str]:
    """Return a line for each leftover and each kernel report."""
    ((kernel, census),) = _before
    lines = leaks.since(census)
    lines += [f"{name} is still loaded" for name in modules.OURS if modules.state(name)]
    lines += [f"the wire is still disturbed: {line}" for line in disturbances()]
    lines += kernel.complaints()
    end()
    return lines


def disturbances() -> list[str]:
    """Return a line for each net device whose packets are lost or delayed on purpose."""
    shown = subprocess.run(
        ["tc", "qdisc"], capture_output=True, text=True, timeout=TC_SECONDS, check=True
    )
    return [line for line in shown.stdout.splitlines() if " netem " in line]


def end() -> None:
    """Forget the test."""
    while _before:
        _before.pop()[0].close()
