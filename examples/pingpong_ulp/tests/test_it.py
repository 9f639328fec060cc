# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A test of a module in a guest: ``kfabric test --module DIR``, see docs/own-module.md."""

from __future__ import annotations

from pathlib import Path

from kfabric.guest.topology import RdmaLink
from kfabric.guest.usermodule import UserModule
from kfabric.guest.waiting import wait_until

RESULT = Path("/sys/module/pingpong_ulp/parameters/result")


def test_every_message_arrives(module: UserModule, verbs: RdmaLink) -> None:
    """The two threads play to the end, with another number of messages than at first."""
    module.unload()
    module.load(addr=verbs.address, count=3)
    wait_until(lambda: not RESULT.read_text().startswith("state=playing"), "the end", 60)
    assert "state=passed" in RESULT.read_text()
