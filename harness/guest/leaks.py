# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Finds leftovers of a test: kfabric's objects and sleepers, module references, RDMA
resources, links, descriptors.

Counts are compared, not identities, so a test may close and reopen older objects. If a
count of kfabric's objects has grown, those that are new are named, each with its opener.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from kfabric.guest import modules
from kfabric.guest.waiting import Deadline, DeadlineExpired, wait_until

DEVICE = "/dev/kfabric"
NET = "/sys/class/net"
INFINIBAND = "/sys/class/infiniband"
# One line for each object of any process; a queue's line has the number of its sleepers.
OBJECTS = Path("/sys/kernel/debug/kfabric/objects")
_ASLEEP = re.compile(r" asleep=(\d+)")
_OBJECT = re.compile(r"(?P<kind>\w+) id=(?P<id>\d+) .*?\bpid=(?P<pid>\d+) comm=(?P<comm>\S*)")
_OF = ": "
_NAMED = 5
# The RDMA core keeps its shared CQs until their device is removed.
POOLED = ("cq",)

Census = Mapping[str, int]
"""The number of each kind of thing, by its description.

Things with names are also counted one by one, by ``KIND: NAME``.
"""


def take() -> Census:
    """Count the users of our modules and of tested ones, objects, RDMA resources, links,
    and our descriptors.
    """
    counts = {f"users of {name}": modules.users(name) for name in modules.watched()}
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
        name = _object_name(line)
        for kind, count in (
            (f"kfabric's objects of class {line.split()[0]}", 1),
            ("threads asleep on kfabric's objects", sum(map(int, _ASLEEP.findall(line)))),
        ):
            counts[kind] += count
            counts[f"{kind}{_OF}{name}"] += count
    return counts


def _object_name(line: str) -> str:
    """The class and id of a listed object, and its opener: ``cq 13, opened by python3/156``."""
    words = _OBJECT.match(line)
    if words is None:
        return line
    comm = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), words["comm"])
    return f"{words['kind']} {words['id']}, opened by {comm}/{words['pid']}"


def _rdma_counts() -> dict[str, int]:
    # Imported late: the netlink library is needed only with RDMA links.
    from kfabric.guest.rdma_nl import RdmaNetlink

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
    """Return one line for each count that is higher than `before`, with the new things' names.

    Teardown may continue in work items after the last close has returned, so leftovers
    may disappear until the deadline (a Deadline, or seconds).
    """
    grown: list[str] = []

    def clean() -> bool:
        census = take()
        grown[:] = [
            f"{name}: {before.get(name, 0)} before, {now} after{_named(name, census, before)}"
            for name, now in sorted(census.items())
            if _OF not in name and now > before.get(name, 0)
        ]
        return not grown

    with contextlib.suppress(DeadlineExpired):
        wait_until(clean, "nothing left behind", deadline)
    return grown


def _named(kind: str, now: Census, before: Census) -> str:
    """The new things of a kind, in brackets; empty if they have no names."""
    new = [
        name.removeprefix(f"{kind}{_OF}")
        for name, count in now.items()
        if name.startswith(f"{kind}{_OF}") and count > before.get(name, 0)
    ]
    if not new:
        return ""
    more = f" and {len(new) - _NAMED} more" if len(new) > _NAMED else ""
    return f" ({'; '.join(new[:_NAMED])}{more})"
