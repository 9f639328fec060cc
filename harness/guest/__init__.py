# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Helpers inside a guest: links, modules, the kernel log, sleeping threads, leaks.

They do not need the host side of the harness, so they also work in a guest's shell.
"""

import os

# Copied there from the initrd that only our guests have.
_AGENT = "/run/kfabric/kfabric/vm/agent.py"


def in_guest() -> bool:
    """Whether this process runs in one of our disposable guests."""
    return os.path.exists(_AGENT)
