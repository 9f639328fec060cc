# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a test left behind: module references, RDMA resources, links, descriptors.

Counts are compared, not identities: what was there before may be closed and
opened again without harm.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.guest import modules
from harness.guest.waiting import Deadline, DeadlineExpired, wait_until

DEVICE = "/dev/kfabric"
NET = Path("/sys/class/net")
INFINIBAND = Path("/sys/class/infiniband")
# The RDMA core keeps the shared CQs that it once made until their device goes.
POOLED = ("cq",)


@dataclass(frozen=True)
class Census:
    """How many of each thing there are; the keys read like a sentence."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def more_than(self, before: Census) -> dict[str, tuple[int, int]]:
        """Return what has grown since `before`: name → (before, now)."""
        return {
            name: (before.counts.get(name, 0), count)
            for name, count in sorted(self.counts.items())
            if count > before.counts.get(name, 0)
        }


def take() -> Census:
    """Count now: module references, RDMA resources, links, net devices, our descriptors."""
    counts: dict[str, int] = {"RDMA links": 0}
    for name in modules.OURS:
        found = modules.state(name)
        # A module that was loaded meanwhile and is idle is no leak by itself, and
        # its hold on the modules below it is none either.
        counts[f"references to {name}"] = found.references - len(found.holders) if found else 0
    counts["descriptors of /dev/kfabric"] = _open_descriptors()
    if NET.is_dir():
        counts["net devices"] = len(list(NET.iterdir()))
    if INFINIBAND.is_dir() and any(INFINIBAND.iterdir()):
        counts.update(_rdma_counts())
    return Census(counts)


def _rdma_counts() -> dict[str, int]:
    # Imported late: a machine without RDMA links needs no netlink library here.
    from harness.guest.rdma_nl import RdmaNetlink

    counts: dict[str, int] = {}
    with RdmaNetlink() as rdma:
        devices = rdma.devices()
        for device in devices:
            for kind, count in rdma.counts(device.name).items():
                if kind not in POOLED:
                    counts[f"{kind}s of {device.name}"] = count
    return {"RDMA links": len(devices), **counts}


def _open_descriptors() -> int:
    """Count this process's descriptors of our device."""
    targets = (_target(entry) for entry in Path("/proc/self/fd").iterdir())
    return sum(target == DEVICE for target in targets)


def _target(entry: Path) -> str:
    """Return where a descriptor points; the one that lists the directory is gone by now."""
    try:
        return os.readlink(entry)
    except FileNotFoundError:
        return ""


def since(before: Census, deadline: Deadline | float = 5.0) -> list[str]:
    """Return one line for each thing of which there is more now than `before`.

    Teardown may go on in work items after the last close returned, so what is
    left is judged when it is gone or at the deadline (a Deadline, or seconds).
    """
    grown: dict[str, tuple[int, int]] = {}

    def clean() -> bool:
        nonlocal grown
        grown = take().more_than(before)
        return not grown

    try:
        wait_until(clean, "nothing left behind", deadline)
    except DeadlineExpired:
        return [f"{name}: {old} before, {now} after" for name, (old, now) in grown.items()]
    return []
