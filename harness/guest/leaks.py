# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Finds leftovers of a test: kfabric's objects and sleepers, module references, RDMA
resources, links, descriptors.

Counts are compared, not identities, so a test may close and reopen older objects.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Mapping
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

Census = Mapping[str, int]
"""The number of each kind of thing, by its description."""


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
    own = Path("/proc/self/fd")
    counts["descriptors of /dev/kfabric"] = sum(_target(fd) == DEVICE for fd in own.iterdir())
    counts["net devices"] = len(os.listdir(NET))
    # The directory exists only while an RDMA driver is loaded.
    counts["RDMA links"] = len(os.listdir(INFINIBAND)) if os.path.isdir(INFINIBAND) else 0
    if counts["RDMA links"]:
        counts.update(_rdma_counts())
    return counts


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


def _target(link: Path) -> str:
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
    grown: list[str] = []

    def clean() -> bool:
        grown[:] = [
            f"{name}: {before.get(name, 0)} before, {now} after"
            for name, now in sorted(take().items())
            if now > before.get(name, 0)
        ]
        return not grown

    with contextlib.suppress(DeadlineExpired):
        wait_until(clean, "nothing left behind", deadline)
    return grown
