# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Everything at once: as many rounds of it as fill --soak-hours (make soak)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from guest_support import Child
from verbs_support import counts, wait_for_counts
from violence_support import SECOND_CPU, Mob, small_group

import kfabric_py as kp
from kfabric.guest import topology
from kfabric.guest.waiting import Deadline

#: Of load in each round, which then is judged.
ROUND_SECONDS = 30.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """As many rounds as make up the hours, or a short one."""
    hours = metafunc.config.getoption("soak_hours")
    rounds = math.ceil(hours * 3600 / ROUND_SECONDS)
    metafunc.parametrize("number", range(1, max(rounds, 1) + 1))
    metafunc.parametrize("seconds", [ROUND_SECONDS if rounds else 0.0], ids=[""])


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_everything_at_once(
    number: int,
    seconds: float,
    verbs: topology.RdmaLink,
    device: kp.Device,
    in_child: Callable[..., Child],
    record_property: Callable[[str, object], None],
) -> None:
    """O4, O5, O6, W2, W5: processes and the machine are treated badly, in any order.

    No message is lost or doubled, what is lost with a device is told, and at the end
    of each round nothing is left.
    """
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    before = counts(verbs)
    try:
        with small_group() as group:
            mob = Mob(in_child, device, verbs, group, random.Random(seed))
            mob.rage(Deadline.firm(seconds))
            mob.end()
    finally:
        SECOND_CPU.write_text("1")
    wait_for_counts(verbs, before)
    told: dict[str, Any] = {"messages": mob.messages, "faults": mob.deeds, "errors": mob.errors}
    for name, value in told.items():
        record_property(f"soak-{name}", dict(value) if isinstance(value, dict) else value)
