# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a test left behind: kfabric's objects and sleepers, module references, RDMA
resources, links, descriptors.

Counts are compared, not identities: what was there before may be closed and
opened again without harm.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.guest import modules
from harness.guest.waiting import Deadline, DeadlineExpired, wait_until

DEVICE = "/dev/kfabric"
NET = "/sys/class/net"
INFINIBAND = "/sys/class/infiniband"
# A line an object, of whomever; a queue's says how many threads are on it now.
OBJECTS = Path("/sys/kernel/debug/kfabric/objects")
_ASLEEP = re.compile(r" asleep=(\d+)")
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
    """Count now: our modules' users and objects, RDMA resources, links, our descriptors.

    Users and objects of somebody's modules that are tested, too.
    """
    counts = {f"users of {name}": _users(modules.state(name)) for name in modules.watched()}
    counts.update(_objects())
    counts["descriptors of /dev/kfabric"] = _open_descriptors()
    counts["net devices"] = len(os.listdir(NET))
    counts["RDMA links"] = len(_listed(INFINIBAND))
    if counts["RDMA links"]:
        counts.update(_rdma_counts())
    return Census(counts)


def _users(found: modules.ModuleState | None) -> int:
    """Count references that are not those of other modules.

    A module that was loaded meanwhile, and what it holds by that, is no leak.
    """
    return found.references - len(found.holders) if found else 0


def _objects() -> Counter[str]:
    """Count kfabric's objects by class, and the threads that sleep on them."""
    counts: Counter[str] = Counter()
    try:
        lines = OBJECTS.read_text().splitlines()
    except FileNotFoundError:
        return counts
    for line in lines:
        counts[f"kfabric's objects of class {line.split()[0]}"] += 1
        counts["threads asleep on kfabric's objects"] += sum(map(int, _ASLEEP.findall(line)))
    return counts


def _rdma_counts() -> dict[str, int]:
    # Imported late: without RDMA links nobody needs the netlink library.
    from harness.guest.rdma_nl import RdmaNetlink

    with RdmaNetlink() as rdma:
        return {
            f"{kind}s of {name}": count
            for name, counts in rdma.all_counts().items()
            for kind, count in counts.items()
            if kind not in POOLED
        }


def _open_descriptors() -> int:
    """Count this process's descriptors of our device."""
    descriptors = "/proc/self/fd"
    return sum(_target(f"{descriptors}/{fd}") == DEVICE for fd in os.listdir(descriptors))


def _listed(directory: str) -> list[str]:
    """List a directory that is only there with the drivers that fill it."""
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _target(link: str) -> str:
    """Return where a descriptor points; the one that lists the directory is gone by now."""
    try:
        return os.readlink(link)
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
