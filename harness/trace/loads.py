# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Modules that are loaded, and loaded again, while the kernel is traced."""

import os

from kfabric.guest import aim
from kfabric.steer.plan import Plan


def node(module: str) -> int:
    """A number that changes when a module is loaded again; 0 if it is not loaded."""
    try:
        return os.stat(f"/sys/module/{module}/refcnt").st_ino
    except OSError:
        return 0


class Aims:
    """Lets CPUs be held in the modules of the run's plan, if there is one, whoever loads them."""

    def __init__(self) -> None:
        plan = Plan.of_environment()
        self._nodes = dict.fromkeys(plan.modules if plan else (), 0)

    def look(self) -> None:
        """Look for modules that were loaded or unloaded. Raises aim.Unheld."""
        for module, before in self._nodes.items():
            if (now := node(module)) != before:
                self._nodes[module] = now
                (aim.at if now else aim.off)(module)
