# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Finds leftovers of a test: kfabric's objects and sleepers, module references, RDMA
resources, links, descriptors.

Counts are compared, not identities, so a test may close and reopen older objects.
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
# One line for each object of any process; a queue's line has the number of its sleepers.
OBJECTS = Path("/sys/kernel/debug/kfabric/objects")
_ASLEEP = re.compile(r" asleep=(\d+)")
# The RDMA core keeps its shared CQs until their device is removed.
POOLED = ("cq",)


@dataclass(frozen=True)
class Census:
    """The number of each kind of thing, by its description."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def more_than(self, before: Census) -> dict[str, tuple[int, int]]:
        """Return the counts that are higher than `before`: name → (before, now)."""
        return {
            name: (before.counts.get(name, 0), count)
            for name, count in sorted(self.counts.items())
            if count > before.counts.get(name, 0)
        }


def take() -> Census:
    """Count the users of our modules and of tested ones, objects, RDMA resources, links,
    and our descriptors.
    """
    # References of other modules are not counted: a module that was loaded meanwhile, and
    # holds this one, is no leak.
    states = {name: modules.state(name) for name in modules.watched()}
    counts = {
        f"users of {name}": state.references - len(state.holders) if state else 0
        for name, state in states.items()
    }
    counts.update(_objects())
    counts["descriptors of /dev/kfabric"] = _open_descriptors()
    counts["net devices"] = len(os.listdir(NET))
    # The directory exists only while an RDMA driver is loaded.
    counts["RDMA links"] = len(os.listdir(INFINIBAND)) if os.path.isdir(INFINIBAND) else 0
    if counts["RDMA links"]:
        counts.update(_rdma_counts())
    return Census(counts)


def _objects() -> Counter[str]:
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
    # Imported late: the netlink library is needed only with RDMA links.
    from harness.guest.rdma_nl import RdmaNetlink

    with RdmaNetlink() as rdma:
        return {
            f"{kind}s of {name}": count
            for name, counts in rdma.all_counts().items()
            for kind, count in counts.items()
            if kind not in POOLED
        }


def _open_descriptors() -> int:
    descriptors = "/proc/self/fd"
    return sum(_target(f"{descriptors}/{fd}") == DEVICE for fd in os.listdir(descriptors))


def _target(link: str) -> str:
    """Return the target of a descriptor; that of the directory itself is closed by now."""
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""


def since(before: Census, deadline: Deadline | float = 5.0) -> list[str]:
    """Return one line for each count that is higher than `before`.

    Teardown may continue in work items after the last close has returned, so leftovers
    may disappear until the deadline (a Deadline, or seconds).
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
