# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In a guest: makes an object whose methods a test on the host calls.

Its other end is ``tests.wire.wire_support.Remote``. Arguments and results are what
execnet can carry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kfabric.guest import topology
from kfabric.guest.waiting import wait_until

#: Seconds for what a machine that is up does by itself.
REACH_SECONDS = 60.0


def serve(channel: Any, make: Callable[..., object]) -> None:
    """Make the object and call its methods, as the host asks, until it asks for none.

    The host gets each method's result, or the traceback, which ends it.
    """
    thing = make(*channel.receive())
    channel.send("ready")
    while (call := channel.receive()) is not None:
        name, arguments = call
        channel.send(getattr(thing, name)(*arguments))


def counter(link: topology.RdmaLink, name: str) -> int:
    """Read one of the RDMA device's own counters."""
    counters = topology.SYS_INFINIBAND / link.name / "ports/1/hw_counters"
    return int((counters / name).read_text())


def reaches(link: topology.RdmaLink, name: str, value: int) -> None:
    """Return once one of these has this value."""
    wait_until(lambda: counter(link, name) >= value, f"{name} is {value}", REACH_SECONDS)
