# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a user asks of the guests in which tests run: memory, CPUs and kernel parameters.

``kfabric test`` leaves it in the environment for the processes that boot these guests, also on
other machines.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace

from kfabric.vm.spec import VmSpec

ENVIRONMENT = "KFABRIC_GUEST"
"""JSON: the fields of VmSpec that are asked for."""


def environment(memory_mib: int, cpus: int, cmdline: Sequence[str]) -> dict[str, str]:
    """The environment that asks for them."""
    asked = {"memory_mib": memory_mib, "cpus": cpus, "cmdline": list(cmdline)}
    return {ENVIRONMENT: json.dumps(asked)}


def of_environment(spec: VmSpec) -> VmSpec:
    """A guest as the environment asks for it."""
    asked = json.loads(os.environ.get(ENVIRONMENT, "{}"))
    asked["cmdline"] = (*spec.cmdline, *asked.get("cmdline", ()))
    return replace(spec, **asked)
