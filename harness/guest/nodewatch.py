# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In one of two guests on a wire: what a test has left there, and what the kernel said.

The same questions as :mod:`harness.guest.checks` asks, for tests that run on the
host and drive the guest.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.guest import checks, leaks, modules


@dataclass
class _Before:
    """How things were when the test began."""

    kernel: checks.KernelWatch
    census: leaks.Census


_before: list[_Before] = []


def begin() -> None:
    """Note how things are, before a test."""
    end()
    # The wire's own driver: it is there between tests, too.
    modules.need(["virtio_net"])
    _before.append(_Before(checks.KernelWatch(), leaks.take()))


def left() -> list[str]:
    """Tell what is not as it was, and what the kernel complained about; a line each."""
    (before,) = _before
    lines = leaks.since(before.census)
    lines += [f"{name} is still loaded" for name in modules.OURS if modules.state(name)]
    lines += before.kernel.complaints()
    end()
    return lines


def end() -> None:
    """Forget the test."""
    while _before:
        _before.pop().kernel.close()
