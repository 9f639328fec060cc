# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What runs inside the guest: links, modules, the kernel log, sleeping threads, leaks.

Nothing here needs the host side of the harness, so that the same helpers serve
people who are already inside a guest.
"""

from __future__ import annotations

import os

# The port of the agent that only our guests have.
_AGENT = "/dev/virtio-ports/kfabric.agent"


def in_guest() -> bool:
    """Whether this process runs in one of our disposable guests."""
    return os.path.exists(_AGENT)
